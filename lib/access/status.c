/*
 * status.c - see status.h.
 */
#include "access/status.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/look.h"
#include "net/net.h"

/* The status for which this thread itself is receiving: it needs no wake-up. */
static __thread const struct dmi_status *receiving;

#define PAUSES 64 /* of a look, between two yields */
#define SPINS 200 /* how often a spinning caller yields the processor before it sleeps */

void dmi_status_begin(struct dmi_status *status) {
  status->error = DMI_OK;
  status->asked = 0;
  atomic_store_explicit(&status->state, DMI_STATUS_IN_FLIGHT, memory_order_relaxed);
}

void dmi_status_done(struct dmi_status *status, int32_t error) {
  status->error = error;
  uint32_t state = atomic_exchange_explicit(&status->state, DMI_STATUS_DONE, memory_order_acq_rel);
  /* The program may have freed `status` by now. */
  if (state & DMI_STATUS_WAITED) dmi_futex_wake(&status->state, INT_MAX);
  if (state >> DMI_STATUS_NUDGE && receiving != status) {
    dmi_net_nudge((int)(state >> DMI_STATUS_NUDGE) - 1);
  }
}

int32_t dmi_status_succeed(DMI_local_status_t *status) {
  dmi_status_begin(dmi_status_of(status));
  dmi_status_done(dmi_status_of(status), DMI_OK);
  return DMI_TRUE;
}

int32_t dmi_status_refuse(DMI_local_status_t *status, int32_t error) {
  if (status) {
    dmi_status_begin(dmi_status_of(status));
    dmi_status_of(status)->begun = 0;
    dmi_status_done(dmi_status_of(status), error);
  }
  return dmi_fail(error);
}

bool dmi_status_is_done(struct dmi_status *status) {
  return atomic_load_explicit(&status->state, memory_order_acquire) == DMI_STATUS_DONE;
}

bool dmi_status_is_none(struct dmi_status *status) {
  uint32_t state = atomic_load_explicit(&status->state, memory_order_relaxed);
  const uint32_t is = state & (DMI_STATUS_IN_FLIGHT | DMI_STATUS_DONE);
  if (is == DMI_STATUS_IN_FLIGHT) return state >> DMI_STATUS_NUDGE > DMI_STATUS_NUDGE_MOST;
  return state != DMI_STATUS_DONE;
}

void dmi_status_spin(struct dmi_status *status) {
  for (int i = 0; i < SPINS && !dmi_status_is_done(status); i++)
    sched_yield();
}

void dmi_status_look(struct dmi_status *status, struct dmi_look_past *look,
                     const struct dmi_look_rule *rule) {
  struct dmi_look_one one;
  if (dmi_status_is_done(status) || dmi_look_rests(look, rule)) return;
  dmi_look_begin(&one, rule, dmi_clock_ns());
  do {
    for (int i = 0; i < PAUSES; i++) {
      if (dmi_status_is_done(status)) {
        dmi_look_end(look, rule, DMI_LOOK_PAID);
        return;
      }
      dmi_relax();
    }
    dmi_look_yields(&one, dmi_clock_ns());
    sched_yield();
  } while (dmi_look_goes_on(&one, dmi_clock_ns()));
  dmi_look_end(look, rule, one.is);
}

/* Sets WAITED, so that dmi_status_done wakes this thread; returns the state to sleep on.  0: the
 * call is not in flight. */
static uint32_t to_sleep(struct dmi_status *status) {
  uint32_t state = atomic_load_explicit(&status->state, memory_order_acquire);
  while (state & DMI_STATUS_IN_FLIGHT) {
    if (state & DMI_STATUS_WAITED) return state;
    if (atomic_compare_exchange_weak(&status->state, &state, state | DMI_STATUS_WAITED))
      return state | DMI_STATUS_WAITED;
  }
  return 0;
}

bool dmi_status_wait_for(struct dmi_status *status, int64_t ns) {
  const int64_t until = dmi_clock_ns() + ns;
  uint32_t waited;
  while ((waited = to_sleep(status)) != 0 && ns > 0) {
    dmi_futex_wait_for(&status->state, waited, ns);
    ns = until - dmi_clock_ns();
  }
  return waited == 0;
}

int32_t dmi_status_wait(struct dmi_status *status) {
  uint32_t waited;
  while ((waited = to_sleep(status)) != 0)
    dmi_futex_wait(&status->state, waited);
  return status->error;
}

/* Puts the number of dmi_net_nudge into the state, or removes it.  False: the call is not in
 * flight. */
static bool set_nudge(struct dmi_status *status, uint32_t nudge) {
  uint32_t state = atomic_load(&status->state);
  uint32_t next;
  do {
    if (!(state & DMI_STATUS_IN_FLIGHT)) return false;
    next = (state & DMI_STATUS_WAITED) | DMI_STATUS_IN_FLIGHT | nudge << DMI_STATUS_NUDGE;
  } while (!atomic_compare_exchange_weak(&status->state, &state, next));
  return true;
}

int32_t dmi_status_receive(struct dmi_status *status, struct dmi_net *net,
                           struct dmi_look_past *look) {
  struct dmi_net_loan loan;
  int nudge = -1, cancel;
  /* a cancelled thread could not give back the connection */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  if (status->asked && !dmi_status_is_done(status)) {
    nudge = dmi_net_borrow(net, status->asked, &loan);
  }
  if (nudge >= 0) {
    /* Other threads that wait for this status would borrow the same connection, so only one has it
     * at a time; it removes its number from the state before it gives the connection back. */
    if (set_nudge(status, (uint32_t)nudge + 1)) {
      receiving = status;
      loan.look = look;
      dmi_net_receive(&loan, &status->state, DMI_STATUS_IN_FLIGHT);
      receiving = NULL;
      (void)set_nudge(status, 0);
    }
    dmi_net_give_back(&loan);
  }
  pthread_setcancelstate(cancel, NULL);
  return dmi_status_wait(status);
}
