/*
 * init_dmi.c - DMI_init: it has run in each process before anything else.
 *
 *   dmirun init_dmi WORD [end]     WORD is that process's own; `end`: DMI_init ends it, with status
 * 6
 */
#include "multi.h"

#include "dmi_ext.h"

static int inits;
static const char *word = "";

void DMI_init(int argc, char **argv) {
  int32_t id;
  inits++;
  if (argc > 1) word = argv[1];
  FAILS(DMI_rank(&id), DMI_EINACTIVE);
  FAILS(DMI_exit(1), DMI_EINACTIVE);
  if (argc > 2) exit(6);
}

int64_t DMI_thread(int64_t arg) {
  EQ(inits, 1);
  say("thread of %s", word);
  return arg;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  int32_t ids[2];
  EQ(inits, 1);
  EQ(argc, 2);
  EQ(strcmp(argv[1], word), 0);
  say("begun");
  gather(2, ids);
  for (int i = 0; i < 2; i++) {
    MUST(DMI_create(&thread, ids[i], 0, NULL));
    MUST(DMI_join(thread, NULL, NULL));
  }
  verdict("init", 0);
}
