/*
 * bind_dmi.c - which processors DMI threads may use (sched_getaffinity), and the cores that a
 * process tells of.  Argument: how many threads.  Prints "cores C", "thread I: P ..." for each of
 * them, all of which live at the same time, and "again: P ..." for one created after they ended.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>

#include "multi.h"

enum { MOST = 64, PROCESSORS = 62 };
static int64_t threads;

int64_t DMI_thread(int64_t addr) {
  cpu_set_t set;
  int64_t mask = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int i = 0; i < PROCESSORS; i++) {
    if (CPU_ISSET(i, &set)) mask |= INT64_C(1) << i;
  }
  barrier(addr, threads, 1); /* none ends before all have begun */
  return mask;
}

static void show(const char *name, int number, int64_t mask) {
  char line[4 * PROCESSORS + 64];
  int at = snprintf(line, sizeof line, "%s %d:", name, number);
  for (int i = 0; i < PROCESSORS; i++) {
    if (mask & INT64_C(1) << i) at += snprintf(line + at, sizeof line - (size_t)at, " %d", i);
  }
  say("%s", line);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[MOST + 1];
  DMI_node_t node;
  int64_t counter, mask;
  threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > MOST) exit(2);
  MUST(DMI_poll(&node));
  MUST(DMI_welcome(node.dmi_id));
  say("cores %d", node.core);
  MUST(DMI_mmap(&counter, 8, 1, NULL));
  for (int i = 0; i < threads; i++)
    MUST(DMI_create(&thread[i], node.dmi_id, counter, NULL));
  for (int i = 0; i < threads; i++) {
    MUST(DMI_join(thread[i], &mask, NULL));
    IS(mask != 0);
    show("thread", i, mask);
  }
  MUST(DMI_create(&thread[MOST], node.dmi_id, counter, NULL));
  MUST(DMI_join(thread[MOST], &mask, NULL));
  show("again", 0, mask);
  verdict("bind", 0);
}
