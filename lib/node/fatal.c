/*
 * fatal.c - see fatal.h.
 *
 * The happy path: the handler has all said (fatal_say.c), restores the default action, and raises
 * the signal again: so the exit status, and a core file, are those of a process without a handler.
 *
 * Failure modes: another thread has a fatal signal meanwhile: it waits, as the first one ends the
 * process.  The handler itself has one, or does not come to an end (nobody reads stderr): the
 * process ends at once, or after PATIENCE, by the first signal.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/fatal.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "node/fatal_int.h"

#define STACK 65536 /* bytes of a stack for handlers */
#define PATIENCE 5  /* seconds */

static const struct {
  int number;
  const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};
#define FATAL (sizeof(fatal) / sizeof(fatal[0]))

static pid_t own;                  /* this process; others, made by fork(), say nothing */
static _Atomic int first_thread;   /* tid of the first one that had a fatal signal; 0: none */
static volatile sig_atomic_t with; /* the signal that it had */

static const char *name_of(int number) {
  for (size_t i = 0; i < FATAL; i++)
    if (fatal[i].number == number) return fatal[i].name;
  return "a signal";
}

static void act(int number, int flags, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  (void)sigaction(number, &action, NULL);
}

/* When the handler that calls this returns the signal has its effect: until then it is blocked. */
static void end_by(int number) {
  act(number, 0, SIG_DFL);
  (void)raise(number);
}

static void unblock(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* SIGALRM. */
static void too_long(int number) {
  (void)number;
  end_by(with);
  unblock(with);
}

static void limit_time(void) {
  act(SIGALRM, 0, too_long);
  unblock(SIGALRM);
  (void)alarm(PATIENCE);
}

static void where(struct dmi_fatal *about, const ucontext_t *context) {
#if defined(__x86_64__)
  about->pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
  about->sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
  /* the processor's code for a page fault: bit 1 is set for a write, bit 4 for an instruction */
  about->access = context->uc_mcontext.gregs[REG_ERR] & 2    ? DMI_FATAL_WRITTEN
                  : context->uc_mcontext.gregs[REG_ERR] & 16 ? DMI_FATAL_USED
                                                             : DMI_FATAL_READ;
#elif defined(__aarch64__)
  about->pc = context->uc_mcontext.pc;
  about->sp = context->uc_mcontext.sp;
#else
  (void)about, (void)context;
#endif
}

static void on_fatal(int number, siginfo_t *info, void *context) {
  int none = 0, mine = (int)syscall(SYS_gettid);
  struct dmi_fatal about = {.number = number, .name = name_of(number), .info = info};
  if (getpid() != own) {
    end_by(number);
  } else if (atomic_compare_exchange_strong(&first_thread, &none, mine)) {
    with = number;
    limit_time();
    where(&about, context);
    dmi_fatal_say(&about);
    end_by(number);
  } else if (none == mine) { /* in the handler */
    end_by(with);
    unblock(with);
  } else {
    for (;;)
      (void)pause();
  }
}

void dmi_fatal_begin(void) {
  struct sigaction action, before;
  void *frames[1];
  (void)backtrace(frames, 1); /* loads what it needs: later that would allocate */
  dmi_fatal_prepare();
  own = getpid();
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fatal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < FATAL; i++) {
    if (sigaction(fatal[i].number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
      (void)sigaction(fatal[i].number, &action, NULL);
  }
}

void *dmi_fatal_stack(void) {
  stack_t stack = {.ss_flags = SS_DISABLE};
  if (!own || sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return NULL;
  stack = (stack_t){.ss_sp = malloc(STACK), .ss_size = STACK};
  if (!stack.ss_sp || sigaltstack(&stack, NULL) == 0) return stack.ss_sp;
  free(stack.ss_sp);
  return NULL;
}

void dmi_fatal_stack_free(void *stack) {
  const stack_t none = {.ss_flags = SS_DISABLE};
  if (stack && sigaltstack(&none, NULL) == 0) free(stack);
}
