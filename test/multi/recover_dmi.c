/*
 * recover_dmi.c - DMI_recover goes on when DMI_main is lost.
 *
 *   dmirun recover_dmi count N    with N processes; DMI_main waits for the end of stdin, which does
 *                                 not come
 *   dmirun recover_dmi exit N     likewise, and DMI_recover ends the program with status 7
 *   dmirun recover_dmi refuse N   DMI_recover says that it cannot go on
 *   dmirun recover_dmi leave N    DMI_recover calls pthread_exit
 *   dmirun recover_dmi welcome N  DMI_main ends its process at once when it has welcomed N
 *   dmirun recover_dmi joined N   ... when it has heard that N have joined, and welcomed none
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "multi.h"

#include "dmi_ext.h"

/* At a process that lives: a number, which it owns, with a name. */
int64_t DMI_thread(int64_t from) {
  int64_t page, value;
  MUST(DMI_read(from, sizeof(value), &value, DMI_GET_READ, NULL));
  MUST(DMI_mmap(&page, sizeof(value), 1, NULL));
  MUST(DMI_write(page, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_root_set("number", page));
  return 0;
}

static void die_early(bool welcomes, int32_t num) {
  DMI_node_t node;
  while (num--) {
    MUST(DMI_poll(&node));
    if (welcomes) MUST(DMI_welcome(node.dmi_id));
  }
  kill(getpid(), SIGKILL);
}

void DMI_main(int argc, char **argv) {
  char line[16];
  int32_t ids[8], num = argc == 3 ? atoi(argv[2]) : 0;
  int64_t page, value = 40;
  DMI_thread_t thread;
  if (strcmp(argv[1], "welcome") == 0) die_early(true, num);
  if (strcmp(argv[1], "joined") == 0) die_early(false, num);
  gather(num, ids);
  MUST(DMI_mmap(&page, sizeof(value), 1, NULL));
  MUST(DMI_write(page, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_create(&thread, ids[num - 1], page, NULL)); /* the last one */
  MUST(DMI_join(thread, NULL, NULL));
  say("ready");
  while (fgets(line, sizeof(line), stdin))
    continue;
}

#ifndef NO_RECOVER
/* Adds one; the last process has nobody that it could wait for. */
int32_t DMI_recover(int argc, char **argv, int32_t lost_id) {
  int64_t page, number;
  EQ(argc, 3);
  EQ(strcmp(argv[0], "") != 0 && argv[3] == NULL, 1);
  if (strcmp(argv[1], "refuse") == 0) return DMI_FALSE;
  if (strcmp(argv[1], "leave") == 0) pthread_exit(NULL);
  if (strcmp(argv[1], "welcome") == 0) {
    verdict("recover", 0);
    return DMI_TRUE;
  }
  EQ(strcmp(argv[1], "count") == 0 || strcmp(argv[1], "exit") == 0, 1);
  MUST(DMI_root_get("number", &page));
  MUST(DMI_read(page, sizeof(number), &number, DMI_GET_READ, NULL));
  number++;
  MUST(DMI_write(page, sizeof(number), &number, DMI_PUT_WRITE, NULL));
  say("recovered from the loss of %d: %d", lost_id, (int)number);
  if (lost_id + 2 < atoi(argv[2])) { /* until it is lost, too */
    for (;;)
      pause();
  }
  verdict("recover", 0);
  if (strcmp(argv[1], "exit") == 0) MUST(DMI_exit(7));
  return DMI_TRUE;
}
#endif
