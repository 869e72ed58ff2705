/*
 * trace_end_dmi.c - a process that is slow to tell its last events: what trace_end.t runs, linked
 * with -Wl,--wrap=syscall, so that the thread dmi-trace can be held where it sleeps, and holds no
 * lock.
 *
 * DMI_main welcomes one process, whose thread holds that, makes CALLS calls about a page of the
 * first one, whose events are not sent, therefore, and ends; so does the program.  The thread that
 * is held goes on when stdin of its process ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "multi.h"

#define CALLS 50

static _Atomic bool holds, held;

static void hold(void) {
  char name[16] = "", byte;
  pthread_getname_np(pthread_self(), name, sizeof(name));
  if (strcmp(name, "dmi-trace") != 0 || atomic_exchange(&held, true)) return;
  while (read(STDIN_FILENO, &byte, 1) > 0)
    ;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* A thread that sleeps for a time, and not until another one lets go of a lock. */
long __wrap_syscall(long number, ...) {
  long at[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++)
    at[i] = va_arg(args, long);
  va_end(args);
  if (number == SYS_futex && at[3] && atomic_load(&holds)) hold();
  return __real_syscall(number, at[0], at[1], at[2], at[3], at[4], at[5]);
}

int64_t DMI_thread(int64_t base) {
  int64_t old;
  atomic_store(&holds, true);
  while (!atomic_load(&held))
    sched_yield();
  for (int i = 0; i < CALLS; i++)
    MUST(DMI_fad(base, 1, &old, DMI_PUT_ATOMIC, NULL));
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  DMI_node_t node;
  int64_t base;
  (void)argc, (void)argv;
  MUST(DMI_mmap(&base, 4096, 1, NULL));
  for (int i = 0; i < 2; i++) { /* the first one is this process */
    MUST(DMI_poll(&node));
    MUST(DMI_welcome(node.dmi_id));
  }
  MUST(DMI_create(&thread, node.dmi_id, base, NULL));
  MUST(DMI_join(thread, NULL, NULL));
  say("made %" PRId64, get_int64(base));
}
