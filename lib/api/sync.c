/*
 * sync.c - entry points: mutexes, conditions, spin locks, barriers, watching (chapter 5).
 *
 * Thin: each checks what can be seen here and calls lib/service.
 */
#include "base/error.h"
#include "core/sync.h"
#include "service/barrier.h"
#include "service/runtime.h"
#include "service/sync.h"

_Static_assert(sizeof(DMI_mutex_t) == sizeof(struct dmi_tickets) &&
                   sizeof(DMI_cond_t) == sizeof(struct dmi_tickets) &&
                   sizeof(DMI_spin_t) == sizeof(struct dmi_tickets) &&
                   sizeof(DMI_barrier_t) == sizeof(struct dmi_round),
               "public and private sizes are the same");

/* ---- Mutex and spin lock -------------------------------------------------------------------- */

static int32_t init(int64_t addr, int64_t size) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_init(process, addr, size) : DMI_FALSE;
}

static int32_t destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_destroy(process, addr) : DMI_FALSE;
}

static int32_t lock(int64_t addr, bool spin) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_lock(process, addr, spin) : DMI_FALSE;
}

static int32_t unlock(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_unlock(process, addr) : DMI_FALSE;
}

static int32_t trylock(int64_t addr, int32_t *flag_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  return flag_ptr ? dmi_sync_trylock(process, addr, flag_ptr) : dmi_fail(DMI_EINVAL);
}

int32_t DMI_mutex_init(int64_t addr) {
  return init(addr, sizeof(DMI_mutex_t));
}

int32_t DMI_mutex_destroy(int64_t addr) {
  return destroy(addr);
}

int32_t DMI_mutex_lock(int64_t addr) {
  return lock(addr, false);
}

int32_t DMI_mutex_unlock(int64_t addr) {
  return unlock(addr);
}

int32_t DMI_mutex_trylock(int64_t addr, int32_t *flag_ptr) {
  return trylock(addr, flag_ptr);
}

int32_t DMI_spin_init(int64_t addr) {
  return init(addr, sizeof(DMI_spin_t));
}

int32_t DMI_spin_destroy(int64_t addr) {
  return destroy(addr);
}

int32_t DMI_spin_lock(int64_t addr) {
  return lock(addr, true);
}

int32_t DMI_spin_unlock(int64_t addr) {
  return unlock(addr);
}

int32_t DMI_spin_trylock(int64_t addr, int32_t *flag_ptr) {
  return trylock(addr, flag_ptr);
}

/* ---- Condition ------------------------------------------------------------------------------ */

int32_t DMI_cond_init(int64_t addr) {
  return init(addr, sizeof(DMI_cond_t));
}

int32_t DMI_cond_destroy(int64_t addr) {
  return destroy(addr);
}

int32_t DMI_cond_wait(int64_t cond_addr, int64_t mutex_addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_cond_wait(process, cond_addr, mutex_addr) : DMI_FALSE;
}

int32_t DMI_cond_signal(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_signal(process, addr, 1) : DMI_FALSE;
}

int32_t DMI_cond_broadcast(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_signal(process, addr, UINT64_MAX) : DMI_FALSE;
}

/* ---- Barrier -------------------------------------------------------------------------------- */

int32_t DMI_barrier_init(int64_t addr) {
  return init(addr, sizeof(DMI_barrier_t));
}

int32_t DMI_barrier_destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_barrier_destroy(process, addr) : DMI_FALSE;
}

/* dmi_private[0]: the process's part; [1]: its complement, so that one that was not initialised, or
 * was destroyed, is told from one that was. */
static struct dmi_barrier *part_of(const DMI_local_barrier_t *barrier) {
  if (!barrier || !barrier->dmi_private[0] || barrier->dmi_private[1] != ~barrier->dmi_private[0]) {
    return NULL;
  }
  return (struct dmi_barrier *)(uintptr_t)barrier->dmi_private[0];
}

int32_t DMI_local_barrier_init(DMI_local_barrier_t *barrier_ptr, int64_t addr) {
  struct dmi_barrier *barrier;
  if (!dmi_runtime_usable()) return DMI_FALSE;
  if (!barrier_ptr) return dmi_fail(DMI_EINVAL);
  if (addr <= 0) return dmi_fail(DMI_EADDR);
  barrier = dmi_barrier_join(addr);
  if (!barrier) return dmi_fail(DMI_ENOMEM);
  barrier_ptr->dmi_private[0] = (int64_t)(uintptr_t)barrier;
  barrier_ptr->dmi_private[1] = ~barrier_ptr->dmi_private[0];
  return DMI_TRUE;
}

int32_t DMI_local_barrier_destroy(DMI_local_barrier_t *barrier_ptr) {
  struct dmi_barrier *barrier = part_of(barrier_ptr);
  if (!dmi_runtime_usable()) return DMI_FALSE;
  if (!barrier) return dmi_fail(DMI_EINVAL);
  barrier_ptr->dmi_private[0] = barrier_ptr->dmi_private[1] = 0;
  dmi_barrier_part(barrier);
  return DMI_TRUE;
}

int32_t DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier_ptr, double sub_sum,
                                    double *sum_ptr, int32_t pnum) {
  struct dmi_barrier *barrier = part_of(barrier_ptr);
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  if (!barrier || pnum <= 0) return dmi_fail(DMI_EINVAL);
  return dmi_barrier_arrive(process, barrier, sub_sum, sum_ptr, pnum);
}

int32_t DMI_local_barrier_sync(DMI_local_barrier_t *barrier_ptr, int32_t pnum) {
  return DMI_local_barrier_allreduce(barrier_ptr, 0, NULL, pnum);
}

/* ---- Watch ---------------------------------------------------------------------------------- */

int32_t DMI_watch(int64_t addr, int64_t size, const void *in_ptr, void *out_ptr,
                  DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  int32_t error = dmi_usable(process);
  if (error == DMI_OK && (!in_ptr || !out_ptr)) error = DMI_EINVAL;
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  return dmi_sync_watch(process, addr, size, in_ptr, out_ptr, status);
}
