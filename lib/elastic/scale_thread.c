/*
 * scale_thread.c - a thread of a team: what it does before and behind DMI_scaleunit, and what
 * DMI_scaleunit may ask.
 *
 * All threads of a phase meet before DMI_scaleunit, so that none begins when another could not be
 * made, in each DMI_check_rescale, and behind DMI_scaleunit.  All these are rounds of one barrier,
 * whose sum says what the others bring: rank 0 whether a change is wanted, each thread that has
 * returned from DMI_scaleunit that it has.  Such a thread takes part in round after round until all
 * have returned; so whoever returns early asks the others to do so, too.
 *
 * Failure modes: a round that is broken by a loss, or whose mapping DMI_rescale has taken away. The
 * thread gives up, and a note tells DMI_rescale, which may not know of the loss.
 */
#include "elastic/scale.h"

#include "access/access.h"
#include "base/error.h"
#include "core/reduce.h"
#include "elastic/scale_int.h"
#include "node/calls.h"
#include "sync/barrier.h"

/* What a thread brings to a round. */
#define CHANGE 1   /* a change is wanted */
#define RETURNED 2 /* it has returned from DMI_scaleunit */

struct part {
  struct dmi_process *process;
  struct dmi_scale_order order;
  struct dmi_barrier_part *barrier;
  int32_t error; /* why it does not meet the others any more; DMI_OK */
};

/* The calling thread's, while it is in DMI_scaleunit. */
static __thread struct part *mine;

static int32_t meet(struct part *part, int64_t value, int64_t *sum) {
  const int8_t kind = dmi_reduce_kind(DMI_REDUCE_SUM, DMI_REDUCE_INT64);
  if (part->error == DMI_OK &&
      !dmi_barrier_arrive(part->barrier, kind, &value, sum, part->order.pnum))
    part->error = dmi_error_last() == DMI_EEND ? DMI_EEND : DMI_EBROKEN;
  return part->error;
}

bool dmi_scale_in_unit(void) {
  return mine != NULL;
}

/* Rank 0 asks for all.  The page stays valid here until it changes. */
static bool change_wanted(struct part *part) {
  const int64_t addr = part->order.phase + DMI_SCALE_CHANGE * DMI_SCALE_PAGE;
  int32_t wanted = 0;
  if (part->order.rank != 0) return false;
  (void)dmi_access_read(&part->process->access, addr, sizeof(wanted), &wanted, DMI_UPDATE_READ,
                        NULL);
  return wanted != 0;
}

int32_t dmi_scale_check(int32_t *judge) {
  int64_t sum = 0;
  int32_t error;
  if (!mine) return dmi_because(DMI_ETHREAD, "the calling thread does not run DMI_scaleunit");
  if (!judge) return dmi_because(DMI_EINVAL, "the pointer is NULL");
  error = meet(mine, change_wanted(mine) ? CHANGE : 0, &sum);
  *judge = error != DMI_OK || sum > 0;
  return error;
}

int32_t dmi_scale_lost(int32_t *num) {
  if (!mine) return dmi_because(DMI_ETHREAD, "the calling thread does not run DMI_scaleunit");
  if (!num) return dmi_because(DMI_EINVAL, "the pointer is NULL");
  *num = mine->order.lost;
  return DMI_OK;
}

/* Until all have returned from DMI_scaleunit, or a round is broken. */
static enum dmi_scale_end wait_for_all(struct part *part) {
  int64_t sum = 0;
  while (meet(part, RETURNED, &sum) == DMI_OK) {
    if (sum >= (int64_t)RETURNED * part->order.pnum) return DMI_SCALE_COMPLETE;
  }
  return DMI_SCALE_BROKEN;
}

/* As one that takes part in the rounds. */
static enum dmi_scale_end run_unit(struct part *part, int32_t *value) {
  enum dmi_scale_end end = DMI_SCALE_SHUT;
  if (meet(part, 0, NULL) == DMI_OK) {
    mine = part;
    *value = part->process->program.scaleunit(part->order.rank, part->order.pnum, part->order.addr);
    mine = NULL;
    end = wait_for_all(part);
  }
  return end;
}

static enum dmi_scale_end take_part(struct part *part, int32_t *value) {
  enum dmi_scale_end end = DMI_SCALE_FAILED;
  dmi_barrier_since(part->order.losses);
  part->barrier = dmi_barrier_join(part->process->barriers, part->order.phase);
  *value = DMI_ENOMEM;
  if (part->barrier) {
    end = run_unit(part, value);
    dmi_barrier_part(part->barrier);
  }
  dmi_barrier_since_now();
  return end;
}

int64_t dmi_scale_thread(int64_t addr) {
  struct part part = {.process = dmi_runtime_process()};
  enum dmi_scale_end end = DMI_SCALE_SHUT;
  int32_t value = DMI_FALSE;
  int64_t noted = 0;
  if (dmi_access_read(&part.process->access, addr, sizeof(part.order), &part.order, DMI_GET_READ,
                      NULL)) {
    end = take_part(&part, &value);
  } else {
    part.error = value = dmi_error_last();
    if (value != DMI_EADDR && value != DMI_ELOST) end = DMI_SCALE_FAILED;
  }
  if ((end != DMI_SCALE_COMPLETE || part.order.rank == 0) && part.error != DMI_EEND &&
      dmi_call_notify(part.process, end == DMI_SCALE_COMPLETE ? part.order.phase : addr, NULL))
    noted = DMI_SCALE_NOTED;
  return noted | (int64_t)end << 32 | (int64_t)(uint32_t)value;
}
