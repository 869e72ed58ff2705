/*
 * notify_dmi.c - DMI_notify: what threads tell comes to whoever polls, each once and in order.
 *
 *   dmirun notify_dmi N         N processes; DMI_main polls until all threads have told all
 *   dmirun notify_dmi N lost    the first process, in which DMI_main runs, leaves, so that the
 * second is the coordinator, which is killed while there are notes in the queue
 */
#include "multi.h"

#include "dmi_ext.h"

#define THREADS 2 /* in each process */
#define NOTES 50
#define LOST_NOTES 20
#define MANY 16

static int64_t last[MANY][THREADS]; /* that has come, of each process and thread */
static int64_t counted, come;       /* notes; of the counts of threads, LOST */

/* number of the thread, and of the note */
static int64_t note(int64_t thread, int64_t number) {
  return thread * 1000 - number - 100000;
}

static bool handle(const DMI_node_t *node) {
  int64_t thread = (node->value + 100000 + 999) / 1000,
          number = thread * 1000 - 100000 - node->value;
  if (node->state != DMI_NOTE) return false;
  IS(node->dmi_id >= 0 && node->dmi_id < MANY && thread >= 0 && thread < THREADS);
  IS(node->hostname[0] != 0 && node->core > 0);
  EQ(number, last[node->dmi_id][thread] + 1);
  last[node->dmi_id][thread] = number;
  counted++;
  return true;
}

int64_t DMI_thread(int64_t arg) {
  for (int64_t i = 1; i <= arg / 10; i++)
    MUST(DMI_notify(note(arg % 10, i)));
  return 0;
}

static void run(const int32_t *ids, int32_t num) {
  DMI_thread_t threads[MANY * THREADS];
  DMI_node_t node;
  int32_t flag;
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_create(&threads[i], ids[i / THREADS], NOTES * 10 + i % THREADS, NULL));
  say("leave now"); /* the last one: its notice comes among the notes */
  for (bool closed = false; !closed || counted < (int64_t)num * THREADS * NOTES;) {
    MUST(DMI_poll(&node));
    if (handle(&node)) continue;
    EQ(node.state, DMI_CLOSE);
    EQ(node.value, 0);
    closed = true;
    for (int i = (num - 1) * THREADS; i < num * THREADS; i++)
      MUST(DMI_join(threads[i], NULL, NULL));
    MUST(DMI_goodbye(node.dmi_id)); /* what it told stays */
  }
  for (int i = 0; i < (num - 1) * THREADS; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  MUST(DMI_peek(&node, &flag));
  EQ(flag, DMI_FALSE);
  MUST(DMI_notify(INT64_MIN));
  MUST(DMI_peek(&node, &flag));
  EQ(flag, DMI_TRUE);
  EQ(node.value == INT64_MIN && node.state == DMI_NOTE, 1);
}

static void run_lost(const int32_t *ids, int32_t num) {
  DMI_thread_t thread;
  DMI_node_t node;
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, ids[0]);
  MUST(DMI_goodbye(ids[0]));
  for (int i = 2; i < num; i++) {
    MUST(DMI_create(&thread, ids[i], LOST_NOTES * 10, NULL));
    MUST(DMI_join(thread, NULL, NULL));
  }
  for (int i = 0; i < LOST_NOTES / 2; i++) { /* these are given */
    MUST(DMI_poll(&node));
    EQ(handle(&node), 1);
  }
  say("kill now");
  while (come == 0 || counted < (int64_t)LOST_NOTES * (num - 2)) {
    MUST(DMI_poll(&node));
    if (handle(&node)) continue;
    EQ(node.state, DMI_LOST);
    EQ(node.dmi_id, ids[1]);
    come++;
  }
}

void DMI_main(int argc, char **argv) {
  int32_t ids[MANY], num = argc > 1 ? atoi(argv[1]) : 0;
  gather(num, ids);
  if (argc > 2) {
    run_lost(ids, num);
  } else {
    run(ids, num);
  }
  verdict("notify", 0);
}
