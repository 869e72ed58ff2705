/*
 * status.c - completion of a call, and waiting for it.
 */
#include "service/status.h"

#include <sched.h>
#include <time.h>

#include "base/error.h"
#include "base/futex.h"

#define SPINS 200 /* times that a spinning caller gives the processor away before it sleeps */

void dmi_status_begin(struct dmi_status *status) {
  status->error = DMI_OK;
  atomic_store_explicit(&status->state, DMI_STATUS_OUT, memory_order_relaxed);
}

void dmi_status_done(struct dmi_status *status, int32_t error) {
  status->error = error;
  if (atomic_exchange_explicit(&status->state, DMI_STATUS_DONE, memory_order_acq_rel) ==
      DMI_STATUS_WAITED) {
    dmi_futex_wake(&status->state, INT_MAX);
  }
}

int32_t dmi_status_refuse(DMI_local_status_t *status, int32_t error) {
  if (status) {
    dmi_status_begin(dmi_status_of(status));
    dmi_status_done(dmi_status_of(status), error);
  }
  return dmi_fail(error);
}

bool dmi_status_is_done(struct dmi_status *status) {
  uint32_t state = atomic_load_explicit(&status->state, memory_order_acquire);
  return state == DMI_STATUS_DONE;
}

void dmi_status_spin(struct dmi_status *status) {
  for (int i = 0; i < SPINS && !dmi_status_is_done(status); i++)
    sched_yield();
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool dmi_status_wait_for(struct dmi_status *status, int64_t ns) {
  const int64_t until = now_ns() + ns;
  uint32_t state = DMI_STATUS_OUT;
  atomic_compare_exchange_strong(&status->state, &state, DMI_STATUS_WAITED);
  for (; ns > 0 && !dmi_status_is_done(status); ns = until - now_ns())
    dmi_futex_wait_for(&status->state, DMI_STATUS_WAITED, ns);
  return dmi_status_is_done(status);
}

int32_t dmi_status_wait(struct dmi_status *status) {
  uint32_t state = DMI_STATUS_OUT;
  atomic_compare_exchange_strong(&status->state, &state, DMI_STATUS_WAITED);
  while ((state = atomic_load_explicit(&status->state, memory_order_acquire)) ==
         DMI_STATUS_WAITED) {
    dmi_futex_wait(&status->state, DMI_STATUS_WAITED);
  }
  return status->error;
}
