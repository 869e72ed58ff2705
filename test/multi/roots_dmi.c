/*
 * roots_dmi.c - named roots.
 *
 *   dmirun roots_dmi      the checks, with three processes; the third one joins when the second one
 *                         has left
 */
#include "multi.h"

#include "dmi_ext.h"

#define THREADS 4
#define ROUNDS 50

static int64_t root(const char *name) {
  int64_t addr = -1;
  MUST(DMI_root_get(name, &addr));
  return addr;
}

/* All set the same names to numbers that grow: what is found never falls. */
static void race(int64_t number) {
  int64_t last = 0, now;
  for (int64_t round = 1; round <= ROUNDS; round++) {
    char own[32];
    snprintf(own, sizeof(own), "own %d", (int)number);
    MUST(DMI_root_set(own, round));
    EQ(root(own), round);
    if (number == 0) MUST(DMI_root_set("one writes", round));
    now = root("one writes");
    EQ(now >= last, 1);
    last = now;
  }
}

int64_t DMI_thread(int64_t number) {
  if (number >= 0) {
    race(number);
  } else if (number == -1) {
    EQ(root("first"), 4096);
    MUST(DMI_root_set("second", 8192));
  } else {
    EQ(root("first"), 0);
    EQ(root("second"), 8192);
    EQ(root("own 0"), ROUNDS);
  }
  return 0;
}

static void run_at(int32_t id, int64_t what) {
  DMI_thread_t thread;
  MUST(DMI_create(&thread, id, what, NULL));
  MUST(DMI_join(thread, NULL, NULL));
}

static void wrong_names(void) {
  static char name[65537];
  int64_t addr;
  memset(name, 'x', sizeof(name) - 1);
  FAILS(DMI_root_set(name, 1), DMI_EINVAL);
  FAILS(DMI_root_get(name, &addr), DMI_EINVAL);
  name[65535] = 0;
  MUST(DMI_root_set(name, 5));
  EQ(root(name), 5);
  FAILS(DMI_root_set(NULL, 1), DMI_EINVAL);
  FAILS(DMI_root_set("", 1), DMI_EINVAL);
  FAILS(DMI_root_get("first", NULL), DMI_EINVAL);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t threads[THREADS];
  DMI_node_t node;
  int32_t ids[2];
  (void)argc, (void)argv;
  gather(2, ids);
  EQ(root("first"), 0);
  MUST(DMI_root_set("first", 100));
  MUST(DMI_root_set("first", 4096));
  EQ(root("first"), 4096);
  wrong_names();
  run_at(ids[1], -1);
  EQ(root("second"), 8192);
  for (int64_t i = 0; i < THREADS; i++)
    MUST(DMI_create(&threads[i], ids[i % 2], i, NULL));
  for (int64_t i = 0; i < THREADS; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  say("raced");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  MUST(DMI_root_set("first", 0));
  MUST(DMI_goodbye(node.dmi_id));
  say("one has left");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_OPEN);
  MUST(DMI_welcome(node.dmi_id));
  run_at(node.dmi_id, -2);
  verdict("roots", 0);
}
