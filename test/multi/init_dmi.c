/*
 * init_dmi.c - DMI_init: it has run in each process before anything else.
 *
 *   dmirun init_dmi WORD     each process says its own INIT_WORD; `end`: DMI_init ends it, status 6
 */
#include "multi.h"

#include "dmi_ext.h"

#include <signal.h>

static int inits, args;
static const char *word = "";

void DMI_init(int argc, char **argv) {
  int32_t id;
  sigset_t now;
  inits++;
  pthread_sigmask(SIG_BLOCK, NULL, &now); /* threads that it starts are not interrupted */
  EQ(sigismember(&now, SIGTERM), 1);
  args = argc;
  word = getenv("INIT_WORD");
  EQ(argv[0][0] != 0 && !argv[argc], 1);
  FAILS(DMI_rank(&id), DMI_EINACTIVE);
  FAILS(DMI_exit(1), DMI_EINACTIVE);
  if (strcmp(word, "end") == 0) exit(6);
}

int64_t DMI_thread(int64_t arg) {
  EQ(inits, 1);
  say("thread of %s, %d", word, args);
  return arg;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  int32_t ids[2];
  EQ(inits, 1);
  EQ(argc, 2);
  EQ(args, 2);
  EQ(strcmp(argv[1], "plum"), 0);
  say("begun");
  gather(2, ids);
  for (int i = 0; i < 2; i++) {
    MUST(DMI_create(&thread, ids[i], 0, NULL));
    MUST(DMI_join(thread, NULL, NULL));
  }
  verdict("init", 0);
}
