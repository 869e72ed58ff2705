/*
 * lost_dmi.c - calls that wait for a process which is lost then.  lost.t starts, stops and kills.
 *
 *   dmirun lost_dmi    welcomes nobody; for each process that asks to join, it calls what its
 * thread would answer, and says what came of it
 */
#include "multi.h"

int64_t DMI_thread(int64_t addr) {
  return addr;
}

/* What became of a call that was begun. */
static void outcome(const char *call, DMI_local_status_t *status) {
  int32_t ret;
  DMI_wait(status, &ret);
  say("%s: %s", call, ret == DMI_TRUE ? "done" : DMI_strerror(DMI_errno()));
}

/* All that a process can be asked about threads, before any answer can have come. */
static void ask(int32_t id) {
  DMI_local_status_t status[4];
  DMI_thread_t created, theirs = {{2, 1}}; /* the second member's first thread */
  MUST(DMI_create(&created, id, 0, &status[0]));
  MUST(DMI_wake(theirs, &status[1]));
  MUST(DMI_detach(theirs, &status[2]));
  MUST(DMI_join(theirs, NULL, &status[3]));
  outcome("create", &status[0]);
  outcome("wake", &status[1]);
  outcome("detach", &status[2]);
  outcome("join", &status[3]);
}

void DMI_main(int argc, char **argv) {
  DMI_node_t node;
  char line[16];
  (void)argc;
  (void)argv;
  say("ready");
  while (DMI_poll(&node) == DMI_TRUE && node.dmi_id == 0)
    MUST(DMI_welcome(0));
  say("asked by %d", node.dmi_id);
  if (!fgets(line, sizeof(line), stdin)) return; /* it is stopped by now */
  ask(node.dmi_id);
  say("over");
}
