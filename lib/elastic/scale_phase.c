/*
 * scale_phase.c - DMI_rescale's side of a phase: its mapping, its threads, and what becomes of it.
 *
 * The happy path: all threads are created at once; DMI_rescale handles notices until the note comes
 * that all have returned from DMI_scaleunit; they are joined, which does not take long any more.
 *
 * Failure modes.  A process is lost, or a thread cannot be made: the phase is broken.  Its mapping
 * is taken away, so that no thread waits in a barrier of ours; those that wait in one of the
 * program's get DMI_EBROKEN.  When all that live have ended the next phase begins without the lost
 * process. The program ends (DMI_exit): the same, but none follows.
 */
#include <stdlib.h>

#include "access/status.h"
#include "base/error.h"
#include "elastic/scale_int.h"
#include "node/calls.h"

bool dmi_scale_phase_has(const struct dmi_scale_phase *phase, int64_t addr) {
  return phase->addr != 0 && addr >= phase->addr &&
         addr < phase->addr + (DMI_SCALE_ORDERS + (int64_t)phase->pnum) * DMI_SCALE_PAGE;
}

static int64_t order_addr(const struct dmi_scale_phase *phase, int32_t rank) {
  return phase->addr + (DMI_SCALE_ORDERS + (int64_t)rank) * DMI_SCALE_PAGE;
}

bool dmi_scale_phase_change(struct dmi_scale *s) {
  const int64_t addr = s->phase.addr + DMI_SCALE_CHANGE * DMI_SCALE_PAGE;
  const int32_t yes = 1;
  return dmi_access_write(&s->process->access, addr, sizeof(yes), &yes, DMI_PUT_WRITE, NULL);
}

static void take_away(struct dmi_scale *s) {
  if (s->phase.mapped) (void)dmi_call_munmap(s->process, s->phase.addr, NULL);
  s->phase.mapped = false;
}

/* ---- The beginning --------------------------------------------------------------------------- */

static int32_t write_orders(struct dmi_scale *s) {
  struct dmi_scale_phase *phase = &s->phase;
  struct {
    struct dmi_scale_order order;
    char rest[DMI_SCALE_PAGE - sizeof(struct dmi_scale_order)];
  } *orders = calloc((size_t)phase->pnum, sizeof(*orders));
  int32_t good = DMI_FALSE;
  if (!orders) return DMI_ENOMEM;
  for (int32_t rank = 0; rank < phase->pnum; rank++) {
    orders[rank].order =
        (struct dmi_scale_order){.phase = phase->addr,
                                 .addr = s->addr,
                                 .rank = rank,
                                 .pnum = phase->pnum,
                                 .lost = s->broken && !s->lost ? 1 : s->lost,
                                 .losses = atomic_load(&s->process->access.core.losses)};
  }
  good =
      dmi_access_write(&s->process->access, order_addr(phase, 0),
                       (int64_t)sizeof(*orders) * phase->pnum, orders, DMI_EXCLUSIVE_WRITE, NULL);
  free(orders);
  return good ? DMI_OK : dmi_error_last();
}

/* Asks for a thread of each rank; those of a process have neighbouring ranks. */
static void create_threads(struct dmi_scale *s) {
  struct dmi_scale_phase *phase = &s->phase;
  int32_t rank = 0;
  for (uint32_t i = 0; i < s->num; i++) {
    struct dmi_scale_node *n = s->nodes[i];
    n->runs = n->state == DMI_SCALE_IN || n->state == DMI_SCALE_ASKS_OUT;
    for (int32_t k = 0; n->runs && k < n->threads; k++, rank++) {
      struct dmi_scale_thread *thread = &phase->threads[rank];
      thread->dmi_id = n->node.dmi_id;
      (void)dmi_call_create_inner(s->process, &thread->thread, thread->dmi_id, DMI_BODY_SCALE,
                                  order_addr(phase, rank), &thread->status);
    }
  }
}

/* A call about a thread of this process has failed.  DMI_OK: it is done again without that. */
static int32_t failed(struct dmi_scale *s, int32_t dmi_id, int32_t error) {
  struct dmi_scale_node *n = dmi_scale_find(s, dmi_id);
  if (error != DMI_ELOST && error != DMI_EMEMBER) return error;
  s->phase.over = s->phase.broken = true;
  if (n && n->runs) n->missing = true; /* else its notice has come already */
  return DMI_OK;
}

/* The same of DMI_create. */
static int32_t not_created(struct dmi_scale *s, int32_t dmi_id, int32_t error) {
  struct dmi_scale_node *n = dmi_scale_find(s, dmi_id);
  if (error != DMI_ENOMEM) return failed(s, dmi_id, error);
  s->phase.over = s->phase.broken = true;
  if (n && n->runs) n->threads--; /* its system allows no more */
  return DMI_OK;
}

static int32_t await_threads(struct dmi_scale *s) {
  struct dmi_scale_phase *phase = &s->phase;
  int32_t error = DMI_OK;
  for (int32_t rank = 0; rank < phase->pnum; rank++) {
    struct dmi_scale_thread *thread = &phase->threads[rank];
    int32_t result = DMI_WITHOUT_WHY(dmi_status_wait(dmi_status_of(&thread->status)));
    thread->created = result == DMI_OK;
    if (!thread->created) result = not_created(s, thread->dmi_id, result);
    if (error == DMI_OK) error = result;
  }
  return error;
}

static int32_t begin(struct dmi_scale *s) {
  struct dmi_scale_phase *phase = &s->phase;
  int64_t threads;
  int32_t error;
  *phase = (struct dmi_scale_phase){.lost = s->lost};
  (void)dmi_scale_team(s, &threads);
  if (threads == 0) return dmi_because(DMI_ENOMEM, "no process can make threads");
  if (threads > INT32_MAX) return dmi_because(DMI_ENOMEM, "the team is too large");
  phase->threads = calloc((size_t)threads, sizeof(*phase->threads));
  if (!phase->threads) return DMI_ENOMEM;
  phase->pnum = (int32_t)threads;
  phase->mapped = dmi_call_mmap(s->process, &phase->addr, DMI_SCALE_PAGE,
                                DMI_SCALE_ORDERS + (int64_t)phase->pnum, NULL);
  if (!phase->mapped) return dmi_error_last();
  error = write_orders(s);
  if (error != DMI_OK) return error;
  s->granted = s->asked = false;
  create_threads(s);
  return await_threads(s);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Waits for a thread.  A call that had no memory to begin is made without any, as the thread still
 * runs. */
static int32_t join_thread(const struct dmi_scale *s, struct dmi_scale_thread *thread) {
  int32_t result = DMI_WITHOUT_WHY(dmi_status_wait(dmi_status_of(&thread->status)));
  if (result == DMI_ENOMEM) {
    const int32_t good = dmi_call_join(s->process, &thread->thread, &thread->value, NULL);
    result = good ? DMI_OK : DMI_WITHOUT_WHY(dmi_error_last());
  }
  return result;
}

/* Waits for all threads.  *noted: how many have made a note. */
static int32_t join_threads(struct dmi_scale *s, int32_t *noted) {
  struct dmi_scale_phase *phase = &s->phase;
  int32_t error = DMI_OK;
  for (int32_t rank = 0; rank < phase->pnum; rank++) {
    struct dmi_scale_thread *thread = &phase->threads[rank];
    if (!thread->created) continue;
    (void)dmi_call_join(s->process, &thread->thread, &thread->value, &thread->status);
  }
  for (int32_t rank = 0; rank < phase->pnum; rank++) {
    struct dmi_scale_thread *thread = &phase->threads[rank];
    int32_t result;
    if (!thread->created) continue;
    result = join_thread(s, thread);
    if (result != DMI_OK) {
      thread->created = false;
      result = failed(s, thread->dmi_id, result);
    } else if (thread->value & DMI_SCALE_NOTED) {
      ++*noted;
    }
    if (error == DMI_OK) error = result;
  }
  return error;
}

/* What the threads have returned.  *value: of the lowest rank that does not want to be called
 * again. *called: DMI_scaleunit was. */
static int32_t judge_ends(struct dmi_scale_phase *phase, int32_t *value, bool *called) {
  int32_t error = DMI_OK;
  *value = DMI_AGAIN;
  for (int32_t rank = 0; rank < phase->pnum; rank++) {
    const struct dmi_scale_thread *thread = &phase->threads[rank];
    const enum dmi_scale_end end = (enum dmi_scale_end)(thread->value >> 32 & 3);
    const int32_t returned = (int32_t)(uint32_t)thread->value;
    if (!thread->created) continue;
    if (end == DMI_SCALE_FAILED && error == DMI_OK) error = returned;
    if (end != DMI_SCALE_COMPLETE) phase->broken = true;
    if (end == DMI_SCALE_COMPLETE || end == DMI_SCALE_BROKEN) *called = true;
    if (end == DMI_SCALE_COMPLETE && *value == DMI_AGAIN) *value = returned;
  }
  return error;
}

/* Calls have said that processes are lost: who is not known to be so is in the way of a new phase.
 */
static int32_t await_losses(struct dmi_scale *s) {
  int32_t error = DMI_OK;
  for (uint32_t i = 0; i < s->num && error == DMI_OK;) {
    if (s->nodes[i]->missing) {
      error = dmi_scale_wait(s);
      i = 0;
    } else {
      i++;
    }
  }
  return error;
}

static int32_t end(struct dmi_scale *s, int32_t error, int32_t *value, bool *again) {
  struct dmi_scale_phase *phase = &s->phase;
  bool called = false;
  int32_t noted = 0, joined, judged;
  phase->over = true;
  if (error != DMI_OK || phase->broken) take_away(s);
  joined = join_threads(s, &noted);
  judged = judge_ends(phase, value, &called);
  if (error == DMI_OK) error = joined != DMI_OK ? joined : judged;
  take_away(s);
  if (error == DMI_OK) error = dmi_scale_take_notes(s, noted);
  *again = phase->broken || *value == DMI_AGAIN;
  if (called) {
    s->lost -= phase->lost;
    s->broken = phase->broken;
  }
  for (uint32_t i = 0; i < s->num; i++)
    s->nodes[i]->runs = false;
  free(phase->threads);
  *phase = (struct dmi_scale_phase){0};
  return error == DMI_OK ? await_losses(s) : error;
}

int32_t dmi_scale_phase(struct dmi_scale *s, int32_t *value, bool *again) {
  int32_t error = begin(s);
  while (error == DMI_OK && !s->phase.over)
    error = dmi_scale_wait(s);
  return end(s, error, value, again);
}
