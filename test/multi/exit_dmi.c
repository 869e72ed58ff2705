/*
 * exit_dmi.c - DMI_exit: all processes end in order with its status, whoever calls it.
 *
 *   dmirun exit_dmi waits N     in N processes threads wait in all ways there are; one of the last
 *                               process calls DMI_exit(7)
 *   dmirun exit_dmi main N      DMI_main calls DMI_exit(3) itself, before it has welcomed anybody
 *   dmirun exit_dmi left N      DMI_main has dismissed its own process before; a thread of the last
 *                               process goes on until it is asked to stop
 *   dmirun exit_dmi hangs N     a thread calls DMI_exit(9), and DMI_main does not return: it is
 * lost dmirun exit_dmi goodbye N   DMI_exit(4) while a DMI_goodbye is under way
 */
#include "multi.h"

#include "dmi_ext.h"

/* In global memory, a page each. */
enum { WAITING, LOCK, COND, BARRIER, WORD, REPORT, PAGES };
#define PAGE 64

/* What a thread does: its argument is way + 16 * address. */
enum way { SUSPENDS, COND_WAITS, BARRIER_WAITS, WATCHES, WATCHES_LATER, POLLS, WORKS, SAVES, ENDS };
#define WAYS 8

static int64_t page_of(int64_t base, int page) {
  return base + page * PAGE;
}

static void is_waiting(int64_t base) {
  MUST(DMI_fad(page_of(base, WAITING), 1, NULL, DMI_PUT_ATOMIC, NULL));
}

static void cond_waits(int64_t base) {
  OK(DMI_mutex_lock(page_of(base, LOCK)));
  is_waiting(base);
  FAILS(DMI_cond_wait(page_of(base, COND), page_of(base, LOCK)), DMI_EEND);
  OK(DMI_mutex_unlock(page_of(base, LOCK))); /* it was locked again */
}

static void barrier_waits(int64_t base) {
  DMI_local_barrier_t local;
  MUST(DMI_local_barrier_init(&local, page_of(base, BARRIER)));
  is_waiting(base);
  FAILS(DMI_local_barrier_sync(&local, 1000), DMI_EEND);
  FAILS(DMI_local_barrier_sync(&local, 1000), DMI_EEND);
  OK(DMI_local_barrier_destroy(&local));
}

static void watches(int64_t base, bool later) {
  DMI_local_status_t status;
  int64_t old = 0, now;
  int32_t ret = 5;
  if (!later) is_waiting(base);
  if (!later) {
    FAILS(DMI_watch(page_of(base, WORD), 8, &old, &now, NULL), DMI_EEND);
    return;
  }
  MUST(DMI_watch(page_of(base, WORD), 8, &old, &now, &status));
  is_waiting(base);
  DMI_wait(&status, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_EEND);
}

static void works(void) {
  int32_t stops = DMI_FALSE;
  while (!stops) {
    MUST(DMI_stopping(&stops));
    sched_yield();
  }
}

/* Behind DMI_exit all else can be used. */
static void saves(int64_t base) {
  int64_t object, value = 0;
  int32_t num;
  works();
  OK(DMI_mutex_lock(page_of(base, LOCK)));
  OK(DMI_malloc(&object, 64, 4096));
  OK(DMI_write(object, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
  OK(DMI_free(object));
  OK(DMI_mutex_unlock(page_of(base, LOCK)));
  OK(DMI_nodes(NULL, &num, 0));
}

static void no_more(void) {
  DMI_thread_t thread;
  DMI_node_t node;
  int32_t id, flag;
  MUST(DMI_rank(&id));
  FAILS(DMI_exit(0), DMI_EEND);
  FAILS(DMI_create(&thread, id, 0, NULL), DMI_EEND);
  FAILS(DMI_poll(&node), DMI_EEND);
  FAILS(DMI_peek(&node, &flag), DMI_EEND);
}

static void ends(int64_t base) {
  int32_t flag = DMI_TRUE;
  OK(DMI_stopping(&flag));
  EQ(flag, DMI_FALSE);
  FAILS(DMI_exit(-1), DMI_EINVAL);
  FAILS(DMI_exit(256), DMI_EINVAL);
  FAILS(DMI_stopping(NULL), DMI_EINVAL);
  OK(DMI_exit(base ? 7 : 9));
  OK(DMI_stopping(&flag));
  EQ(flag, DMI_TRUE);
  FAILS(DMI_suspend(), DMI_EEND);
  no_more();
}

int64_t DMI_thread(int64_t arg) {
  int64_t base = arg / 16;
  DMI_node_t node;
  switch ((enum way)(arg % 16)) {
    case SUSPENDS:
      is_waiting(base);
      FAILS(DMI_suspend(), DMI_EEND);
      break;
    case COND_WAITS:
      cond_waits(base);
      break;
    case BARRIER_WAITS:
      barrier_waits(base);
      break;
    case WATCHES:
    case WATCHES_LATER:
      watches(base, arg % 16 == WATCHES_LATER);
      break;
    case POLLS:
      is_waiting(base);
      FAILS(DMI_poll(&node), DMI_EEND);
      break;
    case WORKS:
      if (base) is_waiting(base);
      works();
      break;
    case SAVES:
      is_waiting(base);
      saves(base);
      break;
    case ENDS:
      ends(base);
      break;
  }
  if (base) check_report(page_of(base, REPORT));
  return arg % 16;
}

static void run_waits(const int32_t *ids, int32_t num) {
  DMI_thread_t threads[WAYS * 4], last;
  int64_t base, value;
  MUST(DMI_mmap(&base, PAGE, PAGES, NULL));
  for (int i = 0; i < WAYS * num; i++)
    MUST(DMI_create(&threads[i], ids[i / WAYS], i % WAYS + 16 * base, NULL));
  wait_for(page_of(base, WAITING), (int64_t)WAYS * num);
  MUST(DMI_create(&last, ids[num - 1], ENDS + 16 * base, NULL));
  for (int i = 0; i < WAYS * num; i++) {
    OK(DMI_join(threads[i], &value, NULL));
    EQ(value, i % WAYS);
  }
  OK(DMI_join(last, &value, NULL));
  no_more();
  FAILS(DMI_suspend(), DMI_ETHREAD);
  verdict("exit", page_of(base, REPORT));
}

static void run_main(void) {
  int32_t flag;
  DMI_node_t node;
  OK(DMI_exit(3));
  OK(DMI_stopping(&flag));
  EQ(flag, DMI_TRUE);
  FAILS(DMI_poll(&node), DMI_EEND);
  FAILS(DMI_exit(5), DMI_EEND);
  verdict("exit", 0);
}

static void leave_self(void) {
  DMI_node_t node;
  int32_t id;
  MUST(DMI_rank(&id));
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, id);
  MUST(DMI_goodbye(id));
}

/* The process that is being dismissed hears of the end. */
static void *goodbye(void *arg) {
  DMI_goodbye(*(int32_t *)arg);
  return NULL;
}

static void run_goodbye(const int32_t *ids, int32_t num) {
  pthread_t thread;
  DMI_node_t node;
  int64_t base, bytes = 8 << 20;
  DMI_thread_t works;
  MUST(DMI_create(&works, ids[0], WORKS, NULL));
  MUST(DMI_mmap(&base, 4096, bytes / 4096, NULL));
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, ids[num - 1]);
  MUST(pthread_create(&thread, NULL, goodbye, &node.dmi_id) == 0 ? DMI_TRUE : DMI_FALSE);
  OK(DMI_exit(4));
  pthread_join(thread, NULL);
  OK(DMI_join(works, NULL, NULL));
  verdict("exit", 0);
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 2 ? argv[1] : "";
  int32_t ids[8], num = argc > 2 ? atoi(argv[2]) : 0;
  DMI_thread_t thread;
  if (strcmp(what, "main") == 0) {
    run_main();
    return;
  }
  gather(num, ids);
  if (strcmp(what, "waits") == 0) {
    run_waits(ids, num);
  } else if (strcmp(what, "goodbye") == 0) {
    run_goodbye(ids, num);
  } else if (strcmp(what, "left") == 0) {
    MUST(DMI_create(&thread, ids[num - 1], WORKS, NULL));
    leave_self();
    OK(DMI_exit(5));
    verdict("exit", 0);
  } else {
    MUST(DMI_create(&thread, ids[num - 1], ENDS, NULL));
    MUST(DMI_join(thread, NULL, NULL));
    say("ending");
    for (;;)
      pause();
  }
}

int32_t DMI_recover(int argc, char **argv, int32_t lost_id) {
  (void)argc, (void)argv, (void)lost_id;
  printf("FAIL: DMI_recover is called\n");
  return DMI_FALSE;
}
