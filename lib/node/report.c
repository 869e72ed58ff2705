/*
 * report.c - see report.h.
 *
 * The reason was noted where the error was found (dmi_because), or is derived here from the error,
 * the call and its arguments.  Other processes are not asked.
 */
#include "node/report.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/where.h"
#include "core/heap.h"
#include "access/mapping.h"
#include "node/pager.h"
#include "node/runtime.h"

#define TEXT 600 /* bytes of a reason, or of a call with its place */

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

/* ---- Reasons -------------------------------------------------------------------------------- */

static bool is_call(const struct dmi_report *report, const char *part) {
  return strstr(report->call, part) != NULL;
}

/* "the mapping at 0x100000000 (3 pages of 100 bytes)" */
static int put_mapping(char *text, size_t capacity, const struct dmi_mapping *mapping) {
  return snprintf(text, capacity,
                  "the mapping at 0x%" PRIx64 " (%" PRIu64 " page%s of %" PRIu64 " bytes)",
                  mapping->map.base, mapping->map.page_num, mapping->map.page_num == 1 ? "" : "s",
                  mapping->map.page_size);
}

/* Why an address inside of a mapping is wrong: no mapping, or no object, begins there. */
static void inside(char *text, const struct dmi_report *report, const struct dmi_mapping *in) {
  char where[TEXT / 2];
  uint64_t behind = (uint64_t)report->addr - in->map.base;
  put_mapping(where, sizeof(where), in);
  if (is_call(report, "free") || is_call(report, "realloc")) {
    snprintf(text, TEXT, "no object of DMI_malloc begins there, in %s", where);
  } else if (is_call(report, "munmap") && in->map.tag != DMI_TAG_USER) {
    snprintf(text, TEXT, "it belongs to DMI_malloc; free it with DMI_free: %s", where);
  } else if (is_call(report, "munmap")) {
    snprintf(text, TEXT, "it is %" PRIu64 " bytes after the start of %s: pass the start", behind,
             where);
  } else {
    snprintf(text, TEXT, "%s was unmapped meanwhile", where);
  }
}

/* True if the address is so far below all mappings that it is no global address of this program,
 * not even with a wrong offset. */
static bool is_foreign(uint64_t addr) {
  return addr < DMI_FIRST_BASE - (1 << 20);
}

/* Tells how far the address is from the nearest mapping. */
static void outside(char *text, uint64_t addr, const struct dmi_mapping *below,
                    const struct dmi_mapping *above) {
  char where[TEXT / 2];
  if (is_foreign(addr)) {
    snprintf(text, TEXT,
             "addresses of DMI begin at 0x%" PRIx64
             ": is it a C pointer, or a variable that was never set?",
             DMI_FIRST_BASE);
  } else if (above && (!below || above->map.base - addr < addr - below->end)) {
    put_mapping(where, sizeof(where), above);
    snprintf(text, TEXT,
             "it is %" PRIu64 " bytes before %s, the nearest one that this process knows",
             above->map.base - addr, where);
  } else if (below) {
    put_mapping(where, sizeof(where), below);
    snprintf(text, TEXT,
             "it is %" PRIu64
             " bytes beyond the end of %s, the nearest one that this process knows",
             addr - below->end, where);
  } else {
    snprintf(text, TEXT, "it is in no mapping, and this process knows of none");
  }
}

/* As dmi_space_near, without references. */
static void near(uint64_t addr, const struct dmi_mapping **below,
                 const struct dmi_mapping **above) {
  const struct dmi_access *access = dmi_runtime_access();
  *below = *above = NULL;
  if (access) dmi_space_near(&access->space, addr, below, above);
}

static void about_address(char *text, const struct dmi_report *report) {
  const struct dmi_mapping *below, *above;
  uint64_t addr = (uint64_t)report->addr;
  if (report->size == DMI_REPORT_NOTHING) {
    snprintf(text, TEXT, "memory that it uses was unmapped, or freed, meanwhile");
  } else if (report->addr == DMI_NULL) {
    snprintf(text, TEXT, "the address is DMI_NULL");
  } else if (report->addr < 0 || addr >= DMI_SYSTEM_BASE) {
    snprintf(text, TEXT, "DMI never gives out such an address");
  } else {
    dmi_epoch_enter();
    near(addr, &below, &above);
    if (above && above->map.base >= DMI_SYSTEM_BASE) above = NULL;
    if (below && addr < below->end) {
      inside(text, report, below);
    } else {
      outside(text, addr, below, above);
    }
    dmi_epoch_leave();
  }
}

/* Tells whether the range leaves the mapping, or only the page. */
static void about_range(char *text, const struct dmi_report *report) {
  const struct dmi_mapping *in, *above;
  uint64_t addr = (uint64_t)report->addr, size = (uint64_t)report->size, off, index;
  char where[TEXT / 2];
  snprintf(text, TEXT, "%s", dmi_error_text(DMI_ERANGE));
  if (report->size < 0) return;
  dmi_epoch_enter();
  near(addr, &in, &above);
  if (in && addr < in->end) {
    put_mapping(where, sizeof(where), in);
    index = dmi_mapping_index(in, addr, &off);
    if (size > in->end - addr) {
      snprintf(text, TEXT, "%" PRIu64 " of the %" PRIu64 " bytes are beyond the end of %s",
               size - (in->end - addr), size, where);
    } else if (size > in->map.page_size - off) {
      snprintf(text, TEXT,
               "%" PRIu64 " of the %" PRIu64
               " bytes are beyond the end of the page, number %" PRIu64
               " of %s: they must lie in one",
               size - (in->map.page_size - off), size, index, where);
    }
  }
  dmi_epoch_leave();
}

/* Which page is, or may be, lost. */
static void about_lost(char *text, const struct dmi_report *report) {
  const struct dmi_mapping *in, *above;
  uint64_t addr = (uint64_t)report->addr, off;
  char where[TEXT / 2];
  snprintf(text, TEXT, "%s", dmi_error_text(DMI_ELOST));
  if (report->size == DMI_REPORT_NOTHING || report->addr <= 0) return;
  dmi_epoch_enter();
  near(addr, &in, &above);
  if (in && addr < in->end) {
    put_mapping(where, sizeof(where), in);
    snprintf(text, TEXT,
             "a process was lost, and with it the bytes of page %" PRIu64
             " of %s, until all of it is written; or only the answer to a write, which may have "
             "been done",
             dmi_mapping_index(in, addr, &off), where);
  }
  dmi_epoch_leave();
}

static void about_memory(char *text, const struct dmi_report *report) {
  const uint64_t mib = 1 << 20;
  const struct dmi_process *process = dmi_runtime_process();
  struct dmi_pager_counts counts = {0};
  if (is_call(report, "create")) {
    snprintf(text, TEXT, "process %" PRId64 ", or its system, allows no more threads (ulimit -u)",
             report->addr);
    return;
  }
  if (is_call(report, "goodbye")) {
    snprintf(text, TEXT,
             "the other processes have no memory for the pages of process %" PRId64
             "; its DMI_CLOSE comes again when there may be memory",
             report->addr);
    return;
  }
  if (process) dmi_pager_counts(process->pager, &counts);
  snprintf(text, TEXT,
           "no memory for a page: this process uses %" PRIu64 " of the %" PRIu64
           " MiB that it lends (dmirun -s; --spill adds a file), and no other process has any",
           counts.used / mib, counts.limit / mib);
}

/* The bytes are not the object that the call takes. */
static void about_object(char *text, const struct dmi_report *report) {
  static const struct {
    const char *part, *init;
  } kinds[] = {{"DMI_mutex", "DMI_mutex_init"},
               {"DMI_spin", "DMI_spin_init"},
               {"DMI_cond", "DMI_cond_init"},
               {"barrier", "DMI_barrier_init"},
               {"rwset", "DMI_rwset_init"}};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (!is_call(report, kinds[i].part)) continue;
    snprintf(text, TEXT, "the object was never initialised (%s), or its bytes were overwritten",
             kinds[i].init);
    return;
  }
  snprintf(text, TEXT, "%s", dmi_error_text(DMI_EINVAL));
}

static const char *about_state(const struct dmi_report *report, int32_t error) {
  switch (error) {
    case DMI_EINACTIVE:
      return dmi_runtime_process() ? "the program is over" : "the program has not begun";
    case DMI_EHOLDER:
      return is_call(report, "_lock") ? "the calling thread holds it already"
                                      : "the calling thread does not hold it";
    case DMI_EBUSY:
      return is_call(report, "goodbye")   ? "DMI threads still run in that process"
             : is_call(report, "barrier") ? "threads have arrived there and wait for the others"
             : is_call(report, "cond")    ? "threads wait there"
                                          : "a thread holds it";
    case DMI_ENOFUNC:
      return is_call(report, "create") ? "the program defines no DMI_thread"
                                       : "the program defines no DMI_function";
    case DMI_EMEMBER:
      return "no process has that id now";
    case DMI_ETHREAD:
      return is_call(report, "suspend") || is_call(report, "self")
                 ? "the calling thread was not made by DMI_create"
                 : dmi_error_text(error);
    default:
      return dmi_error_text(error);
  }
}

static void reason_of(char *text, const struct dmi_report *report, int32_t error) {
  const char *noted = dmi_error_reason(error);
  if (noted) {
    snprintf(text, TEXT, "%s", noted);
  } else if (error == DMI_EADDR) {
    about_address(text, report);
  } else if (error == DMI_ERANGE) {
    about_range(text, report);
  } else if (error == DMI_ENOMEM) {
    about_memory(text, report);
  } else if (error == DMI_ELOST) {
    about_lost(text, report);
  } else if (error == DMI_EINVAL) {
    about_object(text, report);
  } else {
    snprintf(text, TEXT, "%s", about_state(report, error));
  }
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

void dmi_report_failed(const struct dmi_report *report) {
  char call[TEXT], where[DMI_WHERE_SIZE], reason[TEXT];
  int32_t error = dmi_error_last();
  if (error == DMI_EEND) return; /* no mistake */
  put_call(call, sizeof(call), report);
  dmi_where(where, sizeof(where), report->caller);
  reason_of(reason, report, error);
  dmi_say(stream(), DMI_LOG_ERROR, "call", "%s: %s failed with %s: %s", where, call,
          dmi_error_name(error), reason);
  end_if_asked();
}

void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status) {
  const struct dmi_status *at = dmi_status_of(status);
  struct dmi_report begun = {.addr = at->addr, .size = at->size};
  char call[TEXT], where[DMI_WHERE_SIZE], told[DMI_WHERE_SIZE], reason[TEXT];
  int32_t error = dmi_error_last();
  if (at->begun == 0 || error == DMI_EEND) return;
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
  reason_of(reason, &begun, error);
  dmi_say(stream(), DMI_LOG_ERROR, "call",
          "%s: %s, begun there, failed with %s, as %s at %s tells: %s", where, call,
          dmi_error_name(error), report->call, told, reason);
  end_if_asked();
}
