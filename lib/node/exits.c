/*
 * exits.c - see exits.h.
 *
 * Failure modes: _exit() and a SIGKILL run no code here: the others say only that the process is
 * lost, and who has started it how it ended.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/exits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/epoch.h"
#include "node/backtrace.h"
#include "node/dying.h"
#include "node/runtime.h"

static pid_t own; /* this process; 0: none runs.  Those that it forks may end as they like */

/* To the other members: "... in the thread of DMI_main of pid 4711". */
static void tell(struct dmi_safe *told) {
  dmi_safe_add(told, " in ");
  dmi_backtrace_pid(told);
  dmi_dying_tell(told);
  dmi_dying_wait();
}

_Noreturn void dmi_exits_thread(struct dmi_process *process, const char *what) {
  struct dmi_safe told = {.len = 0}, who = {.len = 0};
  own = 0;
  dmi_backtrace_who(&who);
  dmi_say(
      &process->stream, DMI_LOG_ERROR, "thread",
      "%s was left by pthread_exit or pthread_cancel (%.*s), so the process cannot go on: let it "
      "return",
      what, (int)who.len, who.text);
  dmi_safe_add(&told, what);
  dmi_safe_add(&told, " was left by pthread_exit or pthread_cancel,");
  tell(&told);
  process->host.end(1);
  abort();
}

static pthread_key_t in_function;
static pthread_once_t in_function_made = PTHREAD_ONCE_INIT;
static bool has_in_function;

static void thread_ends(void *process) {
  if (dmi_in_function) dmi_exits_thread(process, "DMI_function");
}

static void make_in_function(void) {
  has_in_function = pthread_key_create(&in_function, thread_ends) == 0;
}

void dmi_exits_in_function(struct dmi_process *process) {
  (void)pthread_once(&in_function_made, make_in_function);
  if (has_in_function && pthread_getspecific(in_function) != process)
    (void)pthread_setspecific(in_function, process);
}

/* True if there are others, which lose this process. */
static bool has_others(struct dmi_process *process) {
  bool others;
  dmi_epoch_enter();
  others = atomic_load(&process->uids)->num > 1;
  dmi_epoch_leave();
  return others;
}

/* `call`: with its status. */
static void ends_by(const char *call, int status, bool has_status) {
  struct dmi_process *process = dmi_runtime_process();
  struct dmi_safe line = {.len = 0}, told = {.len = 0};
  if (own != getpid() || !process || !has_others(process)) return;
  dmi_safe_add(&told, call);
  dmi_safe_add(&told, "(");
  if (has_status) dmi_safe_number(&told, (uint64_t)(status & 255));
  dmi_safe_add(&told, ") was called while the program ran,");
  dmi_safe_add(&line, "dmi: ");
  dmi_backtrace_who(&line);
  dmi_safe_add(&line, " has called ");
  dmi_safe_add(&line, call);
  dmi_safe_add(&line,
               ": for the other processes this one is lost; DMI_exit ends the program in "
               "order");
  dmi_safe_write(&line, process->host.err);
  tell(&told);
}

static void on_exit_called(int status, void *arg) {
  (void)arg;
  ends_by("exit", status, true);
}

static void on_quick_exit(void) {
  ends_by("quick_exit", 0, false);
}

void dmi_exits_begin(void) {
  own = getpid();
  (void)on_exit(on_exit_called, NULL);
  (void)at_quick_exit(on_quick_exit);
}

void dmi_exits_end(void) {
  own = 0;
}
