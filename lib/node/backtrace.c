/*
 * backtrace.c - see backtrace.h.
 *
 * Lines of places must not be made in a handler of a signal: fatal_say.c does the same there.
 *
 * Failure modes: no memory: the first line alone, in parts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/backtrace.h"

#include <execinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "access/access.h"
#include "base/where.h"
#include "node/runtime.h"
#include "node/thread.h"

#define FRAMES 64
#define OWN 2 /* frames: dmi_backtrace_say, DMI_backtrace */

/* Of a thread made by DMI_create the number in its name, as those who look at the program call it
 * (dmirun --threads); of others the name. */
static const char *short_name(const char *name) {
  static const char *const before[] = {DMI_THREAD_NAME, DMI_THREAD_NAME_SHORT};
  for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
    size_t len = strlen(before[i]);
    if (strncmp(name, before[i], len) == 0) return name + len;
  }
  return name;
}

void dmi_backtrace_thread(struct dmi_safe *line) {
  char name[17] = "";
  if (dmi_runtime_is_main()) {
    dmi_safe_add(line, "the thread of DMI_main");
    return;
  }
  if (prctl(PR_GET_NAME, name, 0, 0, 0) != 0) name[0] = 0;
  dmi_safe_add(line, "thread ");
  dmi_safe_add(line, short_name(name));
}

void dmi_backtrace_pid(struct dmi_safe *line) {
  dmi_backtrace_thread(line);
  dmi_safe_add(line, " of pid ");
  dmi_safe_number(line, (uint64_t)getpid());
}

void dmi_backtrace_who(struct dmi_safe *line) {
  const struct dmi_process *process = dmi_runtime_process();
  int64_t id = process ? atomic_load(&process->stream.id) : -1;
  if (dmi_in_function) dmi_safe_add(line, "DMI_function, in ");
  dmi_backtrace_thread(line);
  if (id >= 0) {
    dmi_safe_add(line, " of process ");
    dmi_safe_number(line, (uint64_t)id);
  }
}

static void say_who(FILE *to, const char *why) {
  struct dmi_safe who = {.len = 0};
  char host[256] = "?";
  (void)gethostname(host, sizeof(host) - 1);
  dmi_backtrace_who(&who);
  fprintf(to, "dmi: %s: %.*s: %s\n", host, (int)who.len, who.text, why);
}

/* Functions that throw an exception are above these. */
static int is_throw(const void *frame) {
  char place[DMI_WHERE_SIZE];
  struct dmi_where_function function;
  (void)dmi_where_plain(place, sizeof(place), frame, &function);
  return function.name &&
         (strcmp(function.name, "__cxa_throw") == 0 || strcmp(function.name, "__cxa_rethrow") == 0);
}

static void say_places(FILE *to) {
  void *frame[FRAMES];
  const int num = backtrace(frame, FRAMES);
  char place[DMI_WHERE_SIZE];
  int first = OWN, lines = 0;
  for (int i = first; i < num; i++)
    if (is_throw(frame[i])) first = i + 1;
  for (int i = first; i < num; i++) {
    struct dmi_where_function function;
    const bool found = dmi_where_plain(place, sizeof(place), frame[i], &function);
    if (function.role == DMI_WHERE_BELOW) break;
    lines += found;
    if (function.role != DMI_WHERE_OWN) fprintf(to, "dmi:   %s\n", place);
    if (function.role == DMI_WHERE_FIRST) break;
  }
  if (!lines) fprintf(to, "dmi: (%s)\n", dmi_where_missing());
}

/* All lines are written at once, so that those of several threads are not mixed. */
void dmi_backtrace_say(const char *why) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (!to) {
    say_who(stderr, why);
    return;
  }
  say_who(to, why);
  say_places(to);
  if (fclose(to) == 0) {
    fflush(stderr);
    (void)!write(STDERR_FILENO, text, size);
  }
  free(text);
}
