/*
 * report.c - see report.h.
 *
 * The lines; reasons are found in report_why.c.
 */
#include "node/report.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "access/status.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/where.h"
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

static void end_if_asked(void) {
  if (dmi_on_error == DMI_ON_ERROR_ABORT) abort();
}

/* ---- Reasons for an interpreter ---- */

static bool keeps;
static __thread char *kept; /* the last one; it is taken at once, so few threads end with one */
static __thread int32_t kept_error;

void dmi_report_keeps(void) {
  keeps = true;
  if (dmi_on_error == DMI_ON_ERROR_RETURN) dmi_on_error = DMI_ON_ERROR_KEEP;
}

char *dmi_report_kept(int32_t error) {
  char *text = kept;
  kept = NULL;
  if (text && kept_error == error) return text;
  free(text);
  return NULL;
}

static void keep(int32_t error, const char *reason, const char *page) {
  const size_t size = strlen(reason) + strlen(page) + 1;
  free(kept);
  kept = malloc(size);
  kept_error = error;
  if (kept) snprintf(kept, size, "%s%s", reason, page);
}

void dmi_report_failed(const struct dmi_report *report) {
  char call[TEXT], where[DMI_WHERE_SIZE], reason[TEXT], page[TEXT];
  int32_t error = dmi_error_last();
  if (error == DMI_EEND) return; /* no mistake */
  dmi_report_why(reason, report, error);
  dmi_report_where(page, report, reason);
  if (keeps) keep(error, reason, page);
  if (dmi_on_error == DMI_ON_ERROR_KEEP) return;
  put_call(call, sizeof(call), report);
  dmi_where(where, sizeof(where), report->caller);
  dmi_say(stream(), DMI_LOG_ERROR, "call", "%s: %s failed with %s: %s%s", where, call,
          dmi_error_name(error), reason, page);
  end_if_asked();
}

void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status) {
  const struct dmi_status *at = dmi_status_of(status);
  struct dmi_report begun = {.addr = at->addr, .size = at->size};
  char call[TEXT], where[DMI_WHERE_SIZE], told[DMI_WHERE_SIZE], reason[TEXT], page[TEXT];
  int32_t error = dmi_error_last();
  if (at->begun == 0 || error == DMI_EEND || dmi_on_error == DMI_ON_ERROR_KEEP) return;
  dmi_lock(&sites_lock, DMI_RANK_LEAF);
  if (at->begun <= sites_num) {
    begun.call = sites[at->begun - 1].call;
    begun.caller = sites[at->begun - 1].caller;
  }
  dmi_unlock(&sites_lock, DMI_RANK_LEAF);
  if (!begun.call) return; /* the status was not given to a call */
  put_call(call, sizeof(call), &begun);
  dmi_where(where, sizeof(where), begun.caller);
  dmi_where(told, sizeof(told), report->caller);
  dmi_report_why(reason, &begun, error);
  dmi_report_where(page, &begun, reason);
  dmi_say(stream(), DMI_LOG_ERROR, "call",
          "%s: %s, begun there, failed with %s, as %s at %s tells: %s%s", where, call,
          dmi_error_name(error), report->call, told, reason, page);
  end_if_asked();
}
