/*
 * crash.c - a remote function ends its process, by a signal or by exit(): the process says on
 * stderr which function it was, as all that the others see is that it is lost.
 *
 * Handlers and the exit function belong to the OS process, and are installed once.  A signal that
 * the program, or a sanitizer, handles is left to that one.  Only the call that the thread runs is
 * looked at, and nothing is allocated.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "remote/call.h"

#define STACK 65536 /* bytes: the thread's own may be what is used up */

static const struct {
  int number;
  const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};
#define FATAL (sizeof(fatal) / sizeof(fatal[0]))

struct line {
  char text[256];
  size_t len;
};

static void add(struct line *line, const char *text) {
  while (*text && line->len < sizeof(line->text))
    line->text[line->len++] = *text++;
}

static void add_number(struct line *line, uint64_t number) {
  char digits[21], *at = digits + sizeof(digits) - 1;
  *at = 0;
  do
    *--at = (char)('0' + number % 10);
  while (number /= 10);
  add(line, at);
}

/* What can be done in a handler of a signal. */
static void say(const DMI_remote_t *call, const char *what) {
  const dmi_remote_client_t client = call->run->call->client;
  struct line line = {.len = 0};
  add(&line, "dmi: remote function ");
  add(&line, call->name);
  add(&line, " (call ");
  add_number(&line, call->run->call->number);
  add(&line, " of client ");
  add_number(&line, client.process);
  add(&line, ".");
  add_number(&line, client.n);
  add(&line, ") ends this process: ");
  add(&line, what);
  add(&line, "\n");
  if (write(STDERR_FILENO, line.text, line.len) < 0) return; /* nobody is left to be told */
}

static void crashes(int number) {
  const DMI_remote_t *call = dmi_remote_mine();
  const char *name = "a signal";
  for (size_t i = 0; i < FATAL; i++)
    if (fatal[i].number == number) name = fatal[i].name;
  if (call) say(call, name);
  (void)raise(number); /* SA_RESETHAND: this time it has its effect, when this returns */
}

static void exits(void) {
  const DMI_remote_t *call = dmi_remote_mine();
  if (call) say(call, "it has called exit()");
}

static void install(void) {
  struct sigaction action, before;
  memset(&action, 0, sizeof(action));
  action.sa_handler = crashes;
  action.sa_flags = (int)SA_RESETHAND | SA_ONSTACK;
  for (size_t i = 0; i < FATAL; i++) {
    if (sigaction(fatal[i].number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
      (void)sigaction(fatal[i].number, &action, NULL);
  }
  (void)atexit(exits);
}

void dmi_remote_crash_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, install);
}

void *dmi_remote_crash_stack(void) {
  stack_t stack = {.ss_flags = SS_DISABLE};
  if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return NULL;
  stack = (stack_t){.ss_sp = malloc(STACK), .ss_size = STACK};
  if (!stack.ss_sp || sigaltstack(&stack, NULL) == 0) return stack.ss_sp;
  free(stack.ss_sp);
  return NULL;
}

void dmi_remote_crash_stack_free(void *stack) {
  const stack_t none = {.ss_flags = SS_DISABLE};
  if (stack && sigaltstack(&none, NULL) == 0) free(stack);
}
