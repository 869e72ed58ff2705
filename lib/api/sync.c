/*
 * sync.c - entry points: mutexes, conditions, spin locks, barriers, watching (chapter 5).
 *
 * Each checks its arguments as far as it can here, and calls the layers below.
 */
#include "api/local.h"
#include "api/reported.h"
#include "base/error.h"
#include "core/reduce.h"
#include "core/syncop.h"
#include "dmi_ext.h"
#include "sync/barrier.h"
#include "node/runtime.h"
#include "sync/sync.h"

_Static_assert(sizeof(DMI_mutex_t) == sizeof(struct dmi_locked_by) &&
                   sizeof(DMI_cond_t) == sizeof(struct dmi_tickets) &&
                   sizeof(DMI_spin_t) == sizeof(struct dmi_locked_by) &&
                   sizeof(DMI_barrier_t) == sizeof(struct dmi_round),
               "public and private sizes are the same");

/* ---- Mutex and spin lock -------------------------------------------------------------------- */

static int32_t init(int64_t addr, int64_t size) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_init(process->sync, addr, size) : DMI_FALSE;
}

static int32_t destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_destroy_lock(process->sync, addr) : DMI_FALSE;
}

static int32_t lock(int64_t addr, bool spin) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_lock(process->sync, addr, spin) : DMI_FALSE;
}

static int32_t unlock(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return process ? dmi_sync_unlock(process->sync, addr) : DMI_FALSE;
}

static int32_t trylock(int64_t addr, int32_t *flag_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  if (!flag_ptr) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer to the flag is NULL"));
  return dmi_sync_trylock(process->sync, addr, flag_ptr);
}

int32_t DMI_mutex_init(int64_t addr) {
  return DMI_REPORTED(init(addr, sizeof(DMI_mutex_t)), DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_mutex_destroy(int64_t addr) {
  return DMI_REPORTED(destroy(addr), DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_mutex_lock(int64_t addr) {
  return DMI_REPORTED(lock(addr, false), DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_mutex_unlock(int64_t addr) {
  return DMI_REPORTED(unlock(addr), DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_mutex_trylock(int64_t addr, int32_t *flag_ptr) {
  return DMI_REPORTED(trylock(addr, flag_ptr), DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_mutex_consistent(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_sync_consistent(process->sync, addr) : DMI_FALSE,
                      DMI_RANGE(addr, sizeof(DMI_mutex_t)));
}

int32_t DMI_spin_init(int64_t addr) {
  return DMI_REPORTED(init(addr, sizeof(DMI_spin_t)), DMI_RANGE(addr, sizeof(DMI_spin_t)));
}

int32_t DMI_spin_destroy(int64_t addr) {
  return DMI_REPORTED(destroy(addr), DMI_RANGE(addr, sizeof(DMI_spin_t)));
}

int32_t DMI_spin_lock(int64_t addr) {
  return DMI_REPORTED(lock(addr, true), DMI_RANGE(addr, sizeof(DMI_spin_t)));
}

int32_t DMI_spin_unlock(int64_t addr) {
  return DMI_REPORTED(unlock(addr), DMI_RANGE(addr, sizeof(DMI_spin_t)));
}

int32_t DMI_spin_trylock(int64_t addr, int32_t *flag_ptr) {
  return DMI_REPORTED(trylock(addr, flag_ptr), DMI_RANGE(addr, sizeof(DMI_spin_t)));
}

/* ---- Condition ------------------------------------------------------------------------------ */

int32_t DMI_cond_init(int64_t addr) {
  return DMI_REPORTED(init(addr, sizeof(DMI_cond_t)), DMI_RANGE(addr, sizeof(DMI_cond_t)));
}

int32_t DMI_cond_destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_sync_destroy_cond(process->sync, addr) : DMI_FALSE,
                      DMI_RANGE(addr, sizeof(DMI_cond_t)));
}

int32_t DMI_cond_wait(int64_t cond_addr, int64_t mutex_addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_sync_cond_wait(process->sync, cond_addr, mutex_addr) : DMI_FALSE,
      DMI_RANGE(cond_addr, sizeof(DMI_cond_t)));
}

int32_t DMI_cond_signal(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_sync_signal(process->sync, addr, 1) : DMI_FALSE,
                      DMI_RANGE(addr, sizeof(DMI_cond_t)));
}

int32_t DMI_cond_broadcast(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_sync_signal(process->sync, addr, UINT64_MAX) : DMI_FALSE,
                      DMI_RANGE(addr, sizeof(DMI_cond_t)));
}

/* ---- Barrier -------------------------------------------------------------------------------- */

int32_t DMI_barrier_init(int64_t addr) {
  return DMI_REPORTED(init(addr, sizeof(DMI_barrier_t)), DMI_RANGE(addr, sizeof(DMI_barrier_t)));
}

int32_t DMI_barrier_destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_barrier_destroy(process->barriers, addr) : DMI_FALSE,
                      DMI_RANGE(addr, sizeof(DMI_barrier_t)));
}

/* The calling thread's part; NULL: no_part tells why. */
static struct dmi_barrier_part *part_of(const DMI_local_barrier_t *barrier) {
  return dmi_local_get(barrier ? barrier->dmi_private : NULL, DMI_LOCAL_BARRIER);
}

static int32_t part_init(DMI_local_barrier_t *barrier_ptr, int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_barrier_part *barrier;
  if (!process) return DMI_FALSE;
  if (!barrier_ptr) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (addr <= 0) return dmi_fail(DMI_EADDR);
  barrier = dmi_barrier_join(process->barriers, addr);
  if (!barrier) return dmi_fail(DMI_ENOMEM);
  dmi_local_make(barrier_ptr->dmi_private, DMI_LOCAL_BARRIER, barrier);
  return DMI_TRUE;
}

int32_t DMI_local_barrier_init(DMI_local_barrier_t *barrier_ptr, int64_t addr) {
  return DMI_REPORTED(part_init(barrier_ptr, addr), DMI_RANGE(addr, sizeof(DMI_barrier_t)));
}

static int32_t no_part(const DMI_local_barrier_t *barrier) {
  return dmi_fail(dmi_local_why(barrier ? barrier->dmi_private : NULL, DMI_LOCAL_BARRIER));
}

static int32_t part_destroy(DMI_local_barrier_t *barrier_ptr) {
  struct dmi_barrier_part *barrier = part_of(barrier_ptr);
  if (!dmi_runtime_usable()) return DMI_FALSE;
  if (!barrier) return no_part(barrier_ptr);
  dmi_local_end(barrier_ptr->dmi_private);
  dmi_barrier_part(barrier);
  return DMI_TRUE;
}

int32_t DMI_local_barrier_destroy(DMI_local_barrier_t *barrier_ptr) {
  return DMI_REPORTED(part_destroy(barrier_ptr), DMI_NOTHING);
}

static int32_t allreduce(const DMI_local_barrier_t *barrier_ptr, double sub_sum, double *sum_ptr,
                         int32_t pnum) {
  struct dmi_barrier_part *barrier = part_of(barrier_ptr);
  if (!dmi_runtime_usable()) return DMI_FALSE;
  if (!barrier) return no_part(barrier_ptr);
  if (pnum <= 0) return dmi_fail(dmi_because_of(DMI_EINVAL, "pnum must be positive", pnum));
  return dmi_barrier_arrive(barrier, dmi_reduce_kind(DMI_REDUCE_SUM, DMI_REDUCE_DOUBLE), &sub_sum,
                            sum_ptr, pnum);
}

/* The address of the barrier, and its size, for a report; nothing if it is not known. */
static int64_t place_of(const DMI_local_barrier_t *barrier_ptr) {
  const struct dmi_barrier_part *barrier = part_of(barrier_ptr);
  return barrier ? dmi_barrier_addr(barrier) : DMI_NULL;
}

static int64_t size_of(const DMI_local_barrier_t *barrier_ptr) {
  return part_of(barrier_ptr) ? (int64_t)sizeof(DMI_barrier_t) : DMI_REPORT_NOTHING;
}

int32_t DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier_ptr, double sub_sum,
                                    double *sum_ptr, int32_t pnum) {
  return DMI_REPORTED(allreduce(barrier_ptr, sub_sum, sum_ptr, pnum),
                      DMI_RANGE(place_of(barrier_ptr), size_of(barrier_ptr)));
}

int32_t DMI_local_barrier_sync(DMI_local_barrier_t *barrier_ptr, int32_t pnum) {
  return DMI_REPORTED(allreduce(barrier_ptr, 0, NULL, pnum),
                      DMI_RANGE(place_of(barrier_ptr), size_of(barrier_ptr)));
}

static int32_t bad_reduce(DMI_op_t op, DMI_type_t type, const void *in, const void *out,
                          int64_t count, int8_t *kind) {
  static const enum dmi_reduce_type types[] = {DMI_REDUCE_INT32, DMI_REDUCE_INT64, DMI_REDUCE_FLOAT,
                                               DMI_REDUCE_DOUBLE};
  if (op < DMI_OP_SUM || op > DMI_OP_BXOR) return dmi_because(DMI_EINVAL, "unknown operation");
  if (type < DMI_TYPE_INT32 || type > DMI_TYPE_DOUBLE)
    return dmi_because(DMI_EINVAL, "unknown type");
  *kind = dmi_reduce_kind((enum dmi_reduce_op)(op - DMI_OP_SUM), types[type - DMI_TYPE_INT32]);
  if (!dmi_reduce_valid(*kind))
    return dmi_because(DMI_EINVAL, "operations on bits are for integers");
  if (count < 0) return dmi_because_of(DMI_EINVAL, "the count is negative", count);
  if (count && (!in || !out)) return dmi_because(DMI_EINVAL, "a pointer is NULL");
  return DMI_OK;
}

/* Each round combines 8 bytes of each thread; no elements at all: it is a barrier. */
static int32_t reduce(const DMI_local_barrier_t *barrier_ptr, int8_t kind, size_t size,
                      const char *in, char *out, int32_t pnum) {
  struct dmi_barrier_part *barrier = part_of(barrier_ptr);
  if (!dmi_runtime_usable()) return DMI_FALSE;
  if (!barrier) return no_part(barrier_ptr);
  if (pnum <= 0) return dmi_fail(dmi_because_of(DMI_EINVAL, "pnum must be positive", pnum));
  for (size_t done = 0; done < size || !done; done += sizeof(uint64_t)) {
    size_t some = size - done < sizeof(uint64_t) ? size - done : sizeof(uint64_t);
    uint64_t value = 0, all;
    if (some) memcpy(&value, in + done, some);
    if (!dmi_barrier_arrive(barrier, kind, &value, &all, pnum)) return DMI_FALSE;
    if (some) memcpy(out + done, &all, some);
  }
  return DMI_TRUE;
}

int32_t DMI_local_barrier_allreduce_op(DMI_local_barrier_t *barrier_ptr, DMI_op_t op,
                                       DMI_type_t type, const void *in_ptr, void *out_ptr,
                                       int64_t count, int32_t pnum) {
  int8_t kind = 0;
  int32_t error = bad_reduce(op, type, in_ptr, out_ptr, count, &kind);
  size_t element = type == DMI_TYPE_INT32 || type == DMI_TYPE_FLOAT ? 4 : 8;
  return DMI_REPORTED(
      error == DMI_OK ? reduce(barrier_ptr, kind, (size_t)count * element, in_ptr, out_ptr, pnum)
                      : dmi_fail(error),
      DMI_RANGE(place_of(barrier_ptr), size_of(barrier_ptr)));
}

/* ---- Watch ---------------------------------------------------------------------------------- */

int32_t DMI_watch(int64_t addr, int64_t size, const void *in_ptr, void *out_ptr,
                  DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  int32_t error = dmi_runtime_error(process);
  if (error == DMI_OK && (!in_ptr || !out_ptr))
    error = dmi_because(DMI_EINVAL, "a pointer is NULL");
  return DMI_REPORTED_ASYNC(error == DMI_OK
                                ? dmi_sync_watch(process->sync, addr, size, in_ptr, out_ptr, status)
                                : dmi_status_refuse(status, error),
                            status, DMI_RANGE(addr, size));
}
