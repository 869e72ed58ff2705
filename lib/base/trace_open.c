/*
 * trace_open.c - see trace_open.h.
 *
 * A thread has one wait at a time.  Its end comes as a CALL, behind the last word that it goes on;
 * CALLs before that are of earlier calls.  If a later call comes, the end was left out.
 */
#include "base/trace_open.h"

#include <stdlib.h>
#include <uthash.h>

struct dmi_trace_open_wait {
  struct dmi_trace_open open; /* by its tid */
  UT_hash_handle hh;
};

static void drop(struct dmi_trace_opens *opens, struct dmi_trace_open_wait *wait) {
  HASH_DEL(opens->waits, wait);
  free(wait);
}

/* False: it is not kept, so its end will come as a whole call. */
static bool add(struct dmi_trace_opens *opens, const struct dmi_trace_item *item) {
  struct dmi_trace_open_wait *wait = NULL;
  if (HASH_COUNT(opens->waits) < DMI_TRACE_OPEN_MOST) wait = malloc(sizeof(*wait));
  if (!wait) return false;
  wait->open = (struct dmi_trace_open){item->tid, item->name, item->begin, item->end};
  HASH_ADD(hh, opens->waits, open.tid, sizeof(wait->open.tid), wait);
  return true;
}

/* The wait has begun inside of this call, or with it. */
static bool is_end(const struct dmi_trace_open *open, const struct dmi_trace_item *item) {
  return item->begin <= open->begin && item->end > open->begin;
}

bool dmi_trace_open_look(struct dmi_trace_opens *opens, const struct dmi_trace_item *item,
                         enum dmi_trace_open_way *way, struct dmi_trace_open *lost) {
  struct dmi_trace_open_wait *wait = NULL;
  bool is_lost;
  *way = DMI_TRACE_WHOLE;
  if (item->kind != DMI_TRACE_OPEN && item->kind != DMI_TRACE_CALL) return false;
  HASH_FIND(hh, opens->waits, &item->tid, sizeof(item->tid), wait);
  is_lost = wait && item->begin > wait->open.begin;
  if (item->kind == DMI_TRACE_CALL && wait && is_end(&wait->open, item)) {
    *way = DMI_TRACE_ENDS;
    drop(opens, wait);
    return false;
  }
  if (is_lost) {
    *lost = wait->open;
    drop(opens, wait);
    wait = NULL;
  }
  if (item->kind == DMI_TRACE_OPEN) {
    if (wait && item->end > wait->open.end) wait->open.end = item->end;
    *way = !wait && add(opens, item) ? DMI_TRACE_BEGINS : DMI_TRACE_GOES_ON;
  }
  return is_lost;
}

bool dmi_trace_open_rest(struct dmi_trace_opens *opens, struct dmi_trace_open *open) {
  if (!opens->waits) return false;
  *open = opens->waits->open;
  drop(opens, opens->waits);
  return true;
}
