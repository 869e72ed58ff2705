/*
 * fatal_say.c - what is said of a fatal signal (fatal.h).
 *
 * Names of places need memory and locks (libdw), so a child process, which has all of this one's
 * memory, looks them up.  A lock that another thread held at that moment is never free in the
 * child, so a second one goes on where a first one stopped.  If it cannot, or does not come to an
 * end either, places are said as addresses.
 *
 * Failure modes: memory that is looked at here (a mapping) changes at the same time: another fatal
 * signal, which fatal.c handles.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/mapping.h"
#include "base/doing.h"
#include "base/safe.h"
#include "base/where.h"
#include "core/heap.h"
#include "node/backtrace.h"
#include "node/dying.h"
#include "node/fatal.h"
#include "node/fatal_int.h"
#include "node/runtime.h"

#define FRAMES 64
#define ABORT_FRAMES 12 /* among these are abort(), what it calls, and assert() */
#define MESSAGE 200     /* the most bytes of a text of the C library; then there is room for the place */
#define NEAR_STACK 65536 /* bytes: so close to its end a stack is used up */
#define CHILDREN 2
#define CHILD_SECONDS 3               /* for each place */
#define CHILD_STACK ((size_t)8 << 20) /* bytes, of which only those exist that it uses */

struct trace {
  void *frame[FRAMES]; /* return addresses; the first one: where it was */
  int num;
  bool aborted; /* abort() has sent the signal */
  const void *from; /* the frame with which places begin; NULL: the first one */
  struct dmi_doing_called called; /* the last call of DMI that was noted */
};

/* What a child does, in memory that it shares with this process. */
struct work {
  const struct trace *trace;
  int next;   /* the first frame that is not yet said */
  bool lines; /* of one of those that are, the line is known */
  char place[DMI_WHERE_SIZE + 64]; /* of the program, for other processes; "": not known */
};

/* ---- Why ------------------------------------------------------------------------------------- */

/* The mapping with this global address; NULL: none that is known here. */
static const struct dmi_mapping *mapping_at(uint64_t addr) {
  const struct dmi_process *process = dmi_runtime_process();
  const struct dmi_mapping *below = NULL, *above;
  if (process && addr >= DMI_FIRST_BASE)
    dmi_space_near(&process->access.space, addr, &below, &above);
  return below && addr < below->end ? below : NULL;
}

static void add_global(struct dmi_safe *line, uint64_t addr, const struct dmi_mapping *in) {
  uint64_t off;
  dmi_safe_hex(line, addr);
  dmi_safe_add(
      line, " is a global address, no pointer: it is for DMI_read, DMI_write and the like (page ");
  dmi_safe_number(line, dmi_mapping_index(in, addr, &off));
  dmi_safe_add(line, " of the mapping at ");
  dmi_safe_hex(line, in->map.base);
  dmi_safe_add(line, ")");
}

static void add_segv(struct dmi_safe *line, const struct dmi_fatal *fatal) {
  uint64_t addr = (uint64_t)(uintptr_t)fatal->info->si_addr;
  const struct dmi_mapping *in = mapping_at(addr);
  if (fatal->sp && addr - (fatal->sp - NEAR_STACK) < 2 * NEAR_STACK) {
    dmi_safe_add(
        line, "the stack of the thread is used up: calls are too deep, local variables too large");
  } else if (in && fatal->info->si_code == SEGV_MAPERR) {
    add_global(line, addr, in);
  } else if (fatal->pc && fatal->pc == addr) {
    dmi_safe_add(line, "a function was called at ");
    dmi_safe_hex(line, addr);
    dmi_safe_add(line, ", where there is none");
  } else if (fatal->info->si_code == SEGV_MAPERR) {
    dmi_safe_add(line, "there is nothing at address ");
    dmi_safe_hex(line, addr);
    if (addr < 4096) dmi_safe_add(line, ": a pointer is NULL");
  } else if (fatal->info->si_code == SEGV_ACCERR) {
    dmi_safe_add(line, "the memory at address ");
    dmi_safe_hex(line, addr);
    dmi_safe_add(line, fatal->access == DMI_FATAL_WRITTEN ? " may not be written"
                       : fatal->access == DMI_FATAL_READ  ? " may not be read"
                                                          : " may not be used in this way");
  } else {
    dmi_safe_add(line, "an address that no pointer can have"); /* the processor does not tell it */
  }
}

static const char *about_fpe(int code) {
  switch (code) {
    case FPE_INTDIV:
      return "an integer was divided by zero";
    case FPE_INTOVF:
      return "an integer is too large for its type";
    default:
      return "an operation on floating-point numbers was trapped";
  }
}

/* Why this thread calls abort(), if the library does so for a call that has failed. */
struct because {
  const char *why;
  const void *caller;
};
static __thread const struct because *because __attribute__((tls_model("initial-exec")));

void dmi_fatal_abort(const char *why, const void *caller) {
  const struct because now = {why, caller};
  because = &now;
  abort();
}

/* What glibc keeps for debuggers before it aborts: the text of assert(), of a damaged heap and the
 * like.  Other C libraries, and programs without shared ones, have no such thing. */
struct message {
  unsigned size; /* of all */
  char text[];
};
static struct message *const *message;

void dmi_fatal_prepare(void) {
#ifdef __GLIBC__
  message = dlvsym(RTLD_DEFAULT, "__abort_msg", "GLIBC_PRIVATE");
#endif
}

/* False: there is none.  Without what assert() puts before it, the name of the program and the
 * directory of the file, and without its end. */
static bool add_message(struct dmi_safe *line) {
  const struct message *text = message ? *message : NULL;
  const size_t name = strlen(program_invocation_short_name);
  size_t most, at = 0;
  if (!text || text->size <= sizeof(*text)) return false;
  most = strnlen(text->text, text->size - sizeof(*text));
  if (strncmp(text->text, program_invocation_short_name, name) == 0 &&
      strncmp(text->text + name, ": ", 2) == 0)
    at = name + 2;
  for (size_t i = at; i < most && text->text[i] != ':'; i++)
    if (text->text[i] == '/') at = i + 1;
  while (most > at && (text->text[most - 1] == '\n' || text->text[most - 1] == '.'))
    most--;
  if (at == most) return false;
  if (most - at > MESSAGE) most = at + MESSAGE;
  for (; at < most; at++)
    dmi_safe_add(line, (char[]){text->text[at] < ' ' ? ' ' : text->text[at], 0});
  return true;
}

static bool is_abort(const struct dmi_fatal *fatal) {
  return fatal->number == SIGABRT && fatal->info->si_code <= 0 && fatal->info->si_pid == getpid();
}

static void add_reason(struct dmi_safe *line, const struct dmi_fatal *fatal) {
  const siginfo_t *info = fatal->info;
  if (info->si_code <= 0 && info->si_pid != getpid()) {
    dmi_safe_add(line, "it was sent by process ");
    dmi_safe_number(line, (uint64_t)info->si_pid);
    dmi_safe_add(line, " of the system");
  } else if (is_abort(fatal)) {
    if (because)
      dmi_safe_add(line, because->why);
    else if (!add_message(line))
      dmi_safe_add(line, "abort() was called");
  } else if (info->si_code <= 0) {
    dmi_safe_add(line, "it was sent by the process itself");
  } else if (fatal->number == SIGSEGV) {
    add_segv(line, fatal);
  } else if (fatal->number == SIGFPE) {
    dmi_safe_add(line, about_fpe(info->si_code));
  } else if (fatal->number == SIGBUS) {
    dmi_safe_add(line, "the memory at address ");
    dmi_safe_hex(line, (uint64_t)(uintptr_t)info->si_addr);
    dmi_safe_add(line, info->si_code == BUS_ADRALN
                           ? " is not aligned"
                           : " cannot be had: a file is shorter than its mapping");
  } else {
    dmi_safe_add(line, "there is no such instruction");
  }
}

/* ---- Where ----------------------------------------------------------------------------------- */

/* The frames of handlers, which are above it, are left out. */
static void find_trace(struct trace *trace, const struct dmi_fatal *fatal) {
  int first = 0;
  trace->num = backtrace(trace->frame, FRAMES);
  while (first < trace->num && (uint64_t)(uintptr_t)trace->frame[first] != fatal->pc)
    first++;
  if (fatal->pc && first < trace->num) {
    trace->num -= first;
    memmove(trace->frame, trace->frame + first, (size_t)trace->num * sizeof(trace->frame[0]));
    /* as if it were a return address, too */
    trace->frame[0] = (char *)trace->frame[0] + 1;
  }
  trace->called = dmi_doing_called(&dmi_doing_mine.call);
}

static void say_call(const char *name, const char *place) {
  struct dmi_safe line = {.len = 0};
  dmi_safe_add(&line, "dmi: it is in ");
  dmi_safe_add(&line, name);
  dmi_safe_add(&line, ", called at ");
  dmi_safe_add(&line, place);
  dmi_safe_write(&line, STDERR_FILENO);
}

/* The call of DMI in which frame i is, in this function; NULL: none.  A read or write that needs
 * nobody else is not noted. */
static const char *call_of(const struct trace *trace, int i, const char *function) {
  if (trace->called.name && i + 1 < trace->num && trace->frame[i + 1] == trace->called.caller)
    return trace->called.name;
  if (!function || (strcmp(function, "DMI_read") != 0 && strcmp(function, "DMI_write") != 0))
    return NULL;
  return function;
}

/* In the child: the first place from frame i on that is not of dmi.hpp. */
static void say_call_from(struct work *work, int i, const char *call) {
  const struct trace *trace = work->trace;
  char place[DMI_WHERE_SIZE];
  struct dmi_where_function function = {NULL, DMI_WHERE_OWN};
  if (i >= trace->num) return;
  for (; i < trace->num && function.role == DMI_WHERE_OWN; i++)
    (void)dmi_where_plain(place, sizeof(place), trace->frame[i], &function);
  say_call(call, place);
  snprintf(work->place, sizeof(work->place), "in %s, called at %s", call, place);
}

static void say_place(const char *place, int times) {
  struct dmi_safe line = {.len = 0};
  dmi_safe_add(&line, "dmi:   ");
  dmi_safe_add(&line, place);
  if (times > 1) {
    dmi_safe_add(&line, ", ");
    dmi_safe_number(&line, (uint64_t)times);
    dmi_safe_add(&line, " times");
  }
  dmi_safe_write(&line, STDERR_FILENO);
}

/* In the child: the first frame that is shown.  If abort() was called, the one behind abort(), what
 * that has called, assert(), and what else of the C library has called abort(), as free() does for a
 * damaged heap.  (In a program without shared libraries that is not told from the program.) */
static int first_shown(const struct trace *trace) {
  static const char *const names[] = {"abort", "__assert_fail_base", "__assert_fail", "__assert"};
  char place[DMI_WHERE_SIZE];
  int first = 0;
  for (int i = 0; trace->from && i < trace->num; i++)
    if (trace->frame[i] == trace->from) return i;
  (void)alarm(CHILD_SECONDS);
  for (int i = 0; trace->aborted && i < trace->num && i < ABORT_FRAMES; i++) {
    struct dmi_where_function function;
    (void)dmi_where_plain(place, sizeof(place), trace->frame[i], &function);
    for (size_t k = 0; function.name && k < sizeof(names) / sizeof(names[0]); k++)
      if (strcmp(function.name, names[k]) == 0) first = i + 1;
  }
  while (first > 0 && first < trace->num &&
         dmi_where_same_library(trace->frame[first - 1], trace->frame[first]))
    first++;
  return first < trace->num ? first : 0;
}

/* In the child.  Only functions that concern the program, but for the one where it was.  False:
 * there are no names of places. */
static bool say_places(struct work *work) {
  const struct trace *trace = work->trace;
  char place[DMI_WHERE_SIZE];
  if (!dmi_where_names()) return false;
  if (work->next == 0) work->next = first_shown(trace);
  for (int i = work->next, same; i < trace->num; i += same) {
    struct dmi_where_function function;
    const char *call;
    bool found;
    same = 1;
    (void)alarm(CHILD_SECONDS);
    while (i + same < trace->num && trace->frame[i + same] == trace->frame[i])
      same++;
    found = dmi_where_plain(place, sizeof(place), trace->frame[i], &function);
    if (function.role == DMI_WHERE_BELOW) break;
    work->lines = work->lines || found;
    work->next = i + same;
    if (found && !*work->place && function.role != DMI_WHERE_OWN)
      snprintf(work->place, sizeof(work->place), "at %s", place);
    if (function.role != DMI_WHERE_OWN || i == 0) say_place(place, same);
    if (function.role == DMI_WHERE_FIRST) break;
    call = call_of(trace, i, function.name);
    if (call) say_call_from(work, i + same, call);
  }
  if (!work->lines) {
    struct dmi_safe line = {.len = 0};
    dmi_safe_add(&line, "dmi: (");
    dmi_safe_add(&line, dmi_where_missing());
    dmi_safe_add(&line, ")");
    dmi_safe_write(&line, STDERR_FILENO);
  }
  return true;
}

static int child(void *work) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  (void)signal(SIGALRM, SIG_DFL);
  (void)alarm(CHILD_SECONDS);
  _exit(say_places(work) ? 0 : 1);
}

#ifdef __SANITIZE_THREAD__
#define MAKES_CHILD false /* that sanitizer does not know such processes */
#else
#define MAKES_CHILD true
#endif

/* The status with which the child ended.  It ends without a signal to this process, so that a
 * program that ignores SIGCHLD, or waits for any child, does not take its status away. */
static int run_child(struct work *work) {
  pid_t pid = clone(child, (char *)work + CHILD_STACK, 0, work), ended;
  int status = 0;
  if (pid < 0) return 1;
  do
    ended = waitpid(pid, &status, (int)__WCLONE);
  while (ended < 0 && errno == EINTR);
  return ended == pid ? status : 1;
}

/* False: nothing was said, or not all.  A child has the memory of this process, but a stack of its
 * own, below which its work lies: libdw needs a larger one than a handler has.  Adds to `told`
 * which place it was. */
static bool child_says(const struct trace *trace, struct dmi_safe *told) {
  struct work *work;
  int status = 1;
  if (!MAKES_CHILD) return false;
  work = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (work == MAP_FAILED) return false;
  *work = (struct work){.trace = trace};
  for (int i = 0; i < CHILDREN && (i == 0 || WIFSIGNALED(status)); i++)
    status = run_child(work);
  if (*work->place) dmi_safe_add(told, ", ");
  dmi_safe_add(told, work->place);
  return status == 0;
}

static void say_addresses(const struct trace *trace) {
  struct dmi_safe line = {.len = 0};
  const char *call = NULL;
  for (int i = 0; i < trace->num && !call; i++)
    call = call_of(trace, i, NULL);
  if (call) say_call(call, "one of these:");
  dmi_safe_add(&line,
               "dmi: it came here from (addr2line -e PROGRAM OFFSET shows the line of +OFFSET):");
  dmi_safe_write(&line, STDERR_FILENO);
  backtrace_symbols_fd(trace->frame, trace->num, STDERR_FILENO);
}

/* ---- All ------------------------------------------------------------------------------------- */

/* For the other processes. */
static void make_told(struct dmi_safe *told, const struct dmi_fatal *fatal) {
  dmi_safe_add(told, "killed by ");
  dmi_safe_add(told, fatal->name);
  dmi_safe_add(told, " (");
  add_reason(told, fatal);
  dmi_safe_add(told, ") in ");
  if (dmi_in_function) dmi_safe_add(told, "DMI_function, in ");
  dmi_backtrace_pid(told);
}

/* The others are told at once, as what comes then may not come to an end; and again when it is
 * known where it was. */
void dmi_fatal_say(const struct dmi_fatal *fatal) {
  const struct dmi_process *process = dmi_runtime_process();
  struct dmi_safe line = {.len = 0}, told = {.len = 0};
  struct trace trace;
  make_told(&told, fatal);
  dmi_dying_tell(&told);
  dmi_safe_add(&line, "dmi: ");
  dmi_safe_add(&line, fatal->name);
  dmi_safe_add(&line, " ends ");
  dmi_backtrace_who(&line);
  dmi_safe_add(&line, ": ");
  add_reason(&line, fatal);
  dmi_safe_write(&line, STDERR_FILENO);
  if (process && process->remote) process->program.remote->dies(fatal->name);
  find_trace(&trace, fatal);
  trace.aborted = is_abort(fatal);
  trace.from = trace.aborted && because ? because->caller : NULL;
  if (!child_says(&trace, &told)) say_addresses(&trace);
  dmi_dying_tell(&told);
  dmi_dying_wait();
}
