/*
 * barrier.c - see barrier.h.
 *
 * A thread that arrives first in its process is the leader of a batch.  It gives the processor away
 * a few times, while threads of this process that use the barrier have not arrived, and then sends
 * the batch as one ARRIVE (core/sync.h), which is answered when the round is over.  It waits for
 * nobody in particular: a thread that comes later leads a batch of its own, so whatever the
 * threads are doing otherwise, no round waits for one that is not part of it.
 *
 *    thread: --lead--> COLLECTING --> sent, waits for the answer --+--> all of the round: DONE
 *            \                                                     |
 *             +-follow--> WAITING ------------------ DONE <--------+--> those beyond it: the first
 *                            \                                          of them is told to LEAD
 *                             +--- LEAD: sends what is left of the batch, at once
 */
#include "service/barrier.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/error.h"
#include "base/lock.h"
#include "core/sync.h"
#include "service/process.h"

/* Times that a leader gives the processor away.  When nobody else runs it is soon over. */
#define YIELDS 32

/* Arrivals in one message, at most; more go in several. */
#define BATCH_MOST ((DMI_SYNC_ARRIVE_MOST - sizeof(struct dmi_arrive)) / sizeof(double))

enum { WAITING, LEAD, DONE };

/* A thread that has arrived; on its stack. */
struct arrival {
  double value, sum;
  int32_t error;          /* valid once DONE */
  _Atomic uint32_t state; /* the last that its leader writes */
  struct batch *batch;    /* LEAD: what it has to send */
  struct arrival *next;
};

/* On the stack of its leader, who is its first arrival. */
struct batch {
  struct arrival *first, **last;
  uint64_t num;
  int32_t pnum;
  _Atomic uint32_t open; /* bool: others may still add themselves */
};

/* A barrier that threads of this process use. */
struct dmi_barrier {
  UT_hash_handle hh;
  int64_t addr;           /* key */
  uint32_t users;         /* guarded by barriers_lock */
  _Atomic uint32_t lock;  /* guards those below but wakes */
  uint32_t registered;    /* threads: as `users`, read here as a hint */
  uint64_t arrived;       /* threads whose call has not returned */
  struct batch *open;     /* being collected, NULL: none */
  _Atomic uint32_t wakes; /* followers sleep on it; counts changes of their states */
};

static _Atomic uint32_t barriers_lock; /* guards barriers */
static struct dmi_barrier *barriers;

struct dmi_barrier *dmi_barrier_join(int64_t addr) {
  struct dmi_barrier *barrier;
  dmi_lock(&barriers_lock);
  HASH_FIND(hh, barriers, &addr, sizeof(addr), barrier);
  if (!barrier && (barrier = calloc(1, sizeof(*barrier)))) {
    barrier->addr = addr;
    HASH_ADD(hh, barriers, addr, sizeof(barrier->addr), barrier);
  }
  if (barrier) barrier->users++;
  dmi_unlock(&barriers_lock);
  if (!barrier) return NULL;
  dmi_lock(&barrier->lock);
  barrier->registered++;
  dmi_unlock(&barrier->lock);
  return barrier;
}

void dmi_barrier_part(struct dmi_barrier *barrier) {
  dmi_lock(&barrier->lock);
  barrier->registered--;
  dmi_unlock(&barrier->lock);
  dmi_lock(&barriers_lock);
  if (--barrier->users) {
    barrier = NULL;
  } else {
    HASH_DEL(barriers, barrier);
  }
  dmi_unlock(&barriers_lock);
  free(barrier);
}

/* ---- A batch -------------------------------------------------------------------------------- */

static void batch_add(struct batch *batch, struct arrival *arrival) {
  *batch->last = arrival;
  batch->last = &arrival->next;
  batch->num++;
}

/* With the lock held: nobody else can add himself; its leader sends it. */
static void batch_close(struct dmi_barrier *barrier, struct batch *batch) {
  if (barrier->open == batch) barrier->open = NULL;
  atomic_store_explicit(&batch->open, 0, memory_order_release);
}

/* Sends it and waits for the end of the round.  Returns an error, and how many are of that round.
 */
static int32_t batch_send(struct dmi_process *process, struct dmi_barrier *barrier,
                          const struct batch *batch, struct dmi_arrived *answer) {
  unsigned char small[sizeof(struct dmi_arrive) + 16 * sizeof(double)], *input = small;
  uint64_t size = sizeof(struct dmi_arrive) + batch->num * sizeof(double);
  struct dmi_arrive head = {(uint64_t)batch->pnum};
  const struct arrival *arrival = batch->first;
  struct dmi_rmw_call call = {.rmw = DMI_RMW_ARRIVE,
                              .addr = barrier->addr,
                              .size = sizeof(struct dmi_round),
                              .in = answer,
                              .sizes = {size, 0, sizeof(*answer)},
                              .mode = DMI_PUT_ATOMIC};
  int32_t error = DMI_OK;
  answer->taken = 0;
  if (size > sizeof(small) && !(input = malloc(size))) return DMI_ENOMEM;
  memcpy(input, &head, sizeof(head));
  for (uint64_t i = 0; i < batch->num; i++, arrival = arrival->next) {
    memcpy(input + sizeof(head) + i * sizeof(double), &arrival->value, sizeof(double));
  }
  call.out1 = input;
  if (!dmi_access_rmw(process, &call, NULL)) error = dmi_error_last();
  if (error == DMI_OK && !answer->taken) error = DMI_EINVAL; /* the round has another pnum */
  if (error != DMI_OK) answer->taken = batch->num;
  if (input != small) free(input);
  return error;
}

/* Tells all of the batch how it ended.  What is beyond the round becomes the business of the first
 * of those, as `rest`.  The leader, `mine`, is told by being here. */
static void batch_end(struct dmi_barrier *barrier, struct batch *batch, struct arrival *mine,
                      const struct dmi_arrived *answer, int32_t error) {
  struct arrival *arrival = batch->first, *next;
  bool others = batch->num > 1;
  uint64_t left = batch->num - answer->taken;
  dmi_lock(&barrier->lock);
  barrier->arrived -= answer->taken;
  dmi_unlock(&barrier->lock);
  for (uint64_t i = 0; i < answer->taken; i++, arrival = next) {
    next = arrival->next; /* it may be gone as soon as it is told */
    arrival->sum = answer->sum;
    arrival->error = error;
    if (arrival != mine) atomic_store_explicit(&arrival->state, DONE, memory_order_release);
  }
  if (left) {
    arrival->batch->first = arrival;
    arrival->batch->num = left;
    arrival->batch->pnum = batch->pnum;
    atomic_store_explicit(&arrival->state, LEAD, memory_order_release);
  }
  if (!others) return;
  atomic_fetch_add(&barrier->wakes, 1);
  dmi_futex_wake(&barrier->wakes, INT_MAX);
}

/* ---- Threads -------------------------------------------------------------------------------- */

/* Adds itself to a batch that is being collected, or begins one.  Returns whether it leads. */
static bool enter(struct dmi_barrier *barrier, struct arrival *arrival, struct batch *own) {
  struct batch *batch;
  bool leads = false;
  dmi_lock(&barrier->lock);
  barrier->arrived++;
  batch = barrier->open;
  if (!batch || batch->pnum != own->pnum) {
    leads = true;
    if (!batch) barrier->open = own;
    batch = own;
  }
  batch_add(batch, arrival);
  /* Nobody else will come, as far as we know, or there is no room: it goes. */
  if (barrier->arrived >= barrier->registered || batch->num >= (uint64_t)batch->pnum ||
      batch->num >= BATCH_MOST || barrier->open != batch) {
    batch_close(barrier, batch);
  }
  dmi_unlock(&barrier->lock);
  return leads;
}

static void collect(struct dmi_barrier *barrier, struct batch *batch) {
  for (int i = 0; i < YIELDS; i++) {
    if (!atomic_load_explicit(&batch->open, memory_order_acquire)) return;
    sched_yield();
  }
  dmi_lock(&barrier->lock);
  batch_close(barrier, batch);
  dmi_unlock(&barrier->lock);
}

/* Waits until its leader has told it something. */
static uint32_t follow(struct dmi_barrier *barrier, struct arrival *arrival) {
  for (;;) {
    uint32_t seen = atomic_load(&barrier->wakes);
    uint32_t state = atomic_load_explicit(&arrival->state, memory_order_acquire);
    if (state != WAITING) return state;
    dmi_futex_wait(&barrier->wakes, seen);
  }
}

int32_t dmi_barrier_arrive(struct dmi_process *process, struct dmi_barrier *barrier, double value,
                           double *sum, int32_t pnum) {
  struct batch own = {NULL, &own.first, 0, pnum, 1};
  struct arrival mine = {value, 0, DMI_OK, WAITING, &own, NULL};
  struct dmi_arrived answer;
  int32_t error;
  bool leads = enter(barrier, &mine, &own);
  if (leads) {
    collect(barrier, &own);
  } else {
    leads = follow(barrier, &mine) == LEAD;
  }
  if (leads) {
    error = batch_send(process, barrier, &own, &answer);
    batch_end(barrier, &own, &mine, &answer, error);
  }
  if (mine.error != DMI_OK) return dmi_fail(mine.error);
  if (sum) *sum = mine.sum;
  return DMI_TRUE;
}

int32_t dmi_barrier_destroy(struct dmi_process *process, int64_t addr) {
  struct dmi_round round;
  if (!dmi_access_read(process, addr, sizeof(round), &round, DMI_GET_READ, NULL)) return DMI_FALSE;
  return round.arrived ? dmi_fail(DMI_EBUSY) : DMI_TRUE;
}
