/*
 * cause_dmi.c - three processes of which one ends: what cause.t runs.
 *
 *   dmirun cause_dmi last      abort() in a thread of the last one
 *   dmirun cause_dmi main      ... in DMI_main
 *   dmirun cause_dmi killed    the last one is killed from outside
 */
#include <stdlib.h>

#include "multi.h"

int64_t DMI_thread(int64_t arg) {
  DMI_suspend();
  abort();
  return arg;
}

void DMI_main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "";
  DMI_thread_t thread;
  DMI_local_status_t status;
  int32_t ids[3], ret;
  gather(3, ids);
  if (strcmp(way, "main") == 0) abort();
  MUST(DMI_create(&thread, ids[2], 0, NULL));
  say("created");
  if (strcmp(way, "last") == 0) DMI_wake(thread, NULL); /* it may end before it answers */
  EQ(DMI_join(thread, NULL, &status), DMI_TRUE);
  DMI_wait(&status, &ret);
  EQ(ret, DMI_FALSE);
  verdict("cause", 0);
}
