/*
 * report.c - see report.h.
 *
 * The lines; reasons are found in report_why.c.
 */
#include "node/report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/status.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/where.h"
#include "node/backtrace.h"
#include "node/fatal.h"
#include "node/report_int.h"
#include "node/runtime.h"

#define TEXT DMI_REPORT_TEXT

/* ---- Asynchronous calls --------------------------------------------------------------------- */

struct site {
  const char *call;
  const void *caller;
};

static _Atomic uint32_t sites_lock; /* guards the table of sites */
static struct site *sites;
static uint32_t sites_num, sites_capacity;

/* The number of the place that calls, from 1; 0: no memory.  The table has one entry for each place
 * in the program's text. */
static uint32_t site_number(const char *call, const void *caller) {
  uint32_t at = 0;
  dmi_lock(&sites_lock, DMI_RANK_LEAF);
  while (at < sites_num && (sites[at].caller != caller || sites[at].call != call))
    at++;
  if (at == sites_capacity) {
    uint32_t capacity = 2 * sites_capacity + 16;
    struct site *more = realloc(sites, capacity * sizeof(*more));
    if (more) {
      sites = more;
      sites_capacity = capacity;
    }
  }
  if (at == sites_num && at < sites_capacity) sites[sites_num++] = (struct site){call, caller};
  at = at < sites_num ? at + 1 : 0;
  dmi_unlock(&sites_lock, DMI_RANK_LEAF);
  return at;
}

void dmi_report_begins(DMI_local_status_t *status, const struct dmi_report *report) {
  struct dmi_status *at = dmi_status_of(status);
  at->begun = site_number(report->call, report->caller);
  at->addr = report->addr;
  at->size = report->size;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* "DMI_read(0x100000000, 8 bytes)" */
static void put_call(char *text, size_t capacity, const struct dmi_report *report) {
  if (report->size == DMI_REPORT_NOTHING) {
    snprintf(text, capacity, "%s", report->call);
  } else if (report->size == DMI_REPORT_ID) {
    snprintf(text, capacity, "%s(process %" PRId64 ")", report->call, report->addr);
  } else if (report->size == DMI_REPORT_PLACE) {
    snprintf(text, capacity, "%s(0x%" PRIx64 ")", report->call, (uint64_t)report->addr);
  } else {
    snprintf(text, capacity, "%s(0x%" PRIx64 ", %" PRId64 " byte%s)", report->call,
             (uint64_t)report->addr, report->size, report->size == 1 ? "" : "s");
  }
}

/* The stream for the line; NULL: no program runs. */
static struct dmi_stream *stream(void) {
  struct dmi_process *process = dmi_runtime_process();
  return process ? &process->stream : NULL;
}

/* ---- Reasons ---- */

/* The last call of this thread that has failed: its reason is made when it is asked for, so that a
 * call that fails takes hardly longer for it. */
static __thread struct {
  struct dmi_report report; /* its call is NULL: one with a status, and nothing else is known */
  int32_t error;
  const char *noted; /* what was noted of it (dmi_because); NULL: nothing */
} failed;

/* Of a thread that needs it: too much for thread-local variables, of which a program that loads the
 * library while it runs has little room. */
struct room {
  char noted[TEXT];
  char reason[2 * TEXT];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t rooms; /* frees the room of a thread at its end */
static bool has_rooms;

static void make_key(void) {
  has_rooms = pthread_key_create(&rooms, free) == 0;
}

/* The calling thread's; NULL: no memory. */
static struct room *own_room(void) {
  struct room *room;
  pthread_once(&once, make_key);
  if (!has_rooms) return NULL;
  room = pthread_getspecific(rooms);
  if (room) return room;
  room = malloc(sizeof(*room));
  if (!room || pthread_setspecific(rooms, room) == 0) return room;
  free(room);
  return NULL;
}

static void remember(const struct dmi_report *report) {
  struct room *room;
  failed.report = *report;
  failed.error = dmi_error_last();
  failed.noted = dmi_error_reason(failed.error);
  room = failed.noted ? own_room() : NULL;
  if (!room) return;
  snprintf(room->noted, sizeof(room->noted), "%s", failed.noted);
  failed.noted = room->noted; /* the next call may note something else */
}

const char *dmi_report_reason(void) {
  char page[TEXT];
  struct room *room = failed.report.call ? own_room() : NULL;
  if (!room) return failed.noted ? failed.noted : dmi_error_text(failed.error);
  dmi_report_why(room->reason, &failed.report, failed.error, failed.noted);
  dmi_report_where(page, &failed.report, room->reason);
  strcat(room->reason, page); /* there is room for two */
  return room->reason;
}

static void end_if_asked(const char *call, const void *caller) {
  char why[TEXT];
  if (dmi_on_error != DMI_ON_ERROR_ABORT) return;
  snprintf(why, sizeof(why), "%s failed with %s (dmirun --on-error abort)", call,
           dmi_error_name(failed.error));
  dmi_fatal_abort(why, caller);
}

void dmi_report_failed(const struct dmi_report *report) {
  char call[TEXT], where[DMI_WHERE_SIZE];
  struct dmi_safe who = {.len = 0};
  remember(report);
  if (dmi_on_error == DMI_ON_ERROR_RETURN || failed.error == DMI_EEND) return; /* no mistake */
  put_call(call, sizeof(call), report);
  dmi_where(where, sizeof(where), report->caller);
  dmi_backtrace_who(&who);
  dmi_say(stream(), DMI_LOG_ERROR, "call", "%.*s: %s: %s failed with %s: %s", (int)who.len, who.text,
          where, call, dmi_error_name(failed.error), dmi_report_reason());
  end_if_asked(call, report->caller);
}

void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status) {
  const struct dmi_status *at = dmi_status_of(status);
  struct dmi_report begun = {.addr = at->addr, .size = at->size};
  char call[TEXT], where[DMI_WHERE_SIZE], told[DMI_WHERE_SIZE];
  struct dmi_safe who = {.len = 0};
  remember(&begun);
  if (dmi_on_error == DMI_ON_ERROR_RETURN || at->begun == 0 || failed.error == DMI_EEND) return;
  dmi_lock(&sites_lock, DMI_RANK_LEAF);
  if (at->begun <= sites_num) {
    begun.call = sites[at->begun - 1].call;
    begun.caller = sites[at->begun - 1].caller;
  }
  dmi_unlock(&sites_lock, DMI_RANK_LEAF);
  if (!begun.call) return; /* the status was not given to a call */
  failed.report = begun;
  put_call(call, sizeof(call), &begun);
  dmi_where(where, sizeof(where), begun.caller);
  dmi_where(told, sizeof(told), report->caller);
  dmi_backtrace_who(&who);
  dmi_say(stream(), DMI_LOG_ERROR, "call",
          "%.*s: %s: %s, begun there, failed with %s, as %s at %s tells: %s", (int)who.len, who.text,
          where, call, dmi_error_name(failed.error), report->call, told, dmi_report_reason());
  end_if_asked(call, report->caller);
}
