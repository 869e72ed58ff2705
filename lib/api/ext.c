/*
 * ext.c - entry points of dmi_ext.h.
 */
#include "dmi_ext.h"

#include "access/hold.h"
#include "api/reported.h"
#include "base/error.h"
#include "node/backtrace.h"
#include "node/calls.h"
#include "node/pager.h"
#include "node/runtime.h"
#include "sync/idpool.h"

const char *DMI_strerrorname(int32_t error) {
  return dmi_error_name(error);
}

void DMI_backtrace(const char *why) {
  dmi_backtrace_say(why ? why : "");
}

int32_t DMI_pool(DMI_pool_t *pool_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_pager_counts counts;
  if (!process) return DMI_REPORTED(DMI_FALSE, DMI_NOTHING);
  if (!pool_ptr)
    return DMI_REPORTED(dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL")), DMI_NOTHING);
  dmi_pager_counts(process->pager, &counts);
  *pool_ptr = (DMI_pool_t){.limit = (int64_t)counts.limit,
                           .used = (int64_t)counts.used,
                           .peak = (int64_t)counts.peak,
                           .copies = (int64_t)counts.copies,
                           .tables = (int64_t)dmi_access_tables(&process->access),
                           .spilled = (int64_t)counts.spilled,
                           .pages_sent = (int64_t)counts.sent,
                           .pages_taken = (int64_t)counts.taken,
                           .pages_dropped = (int64_t)counts.dropped};
  return DMI_TRUE;
}

int32_t DMI_try_read(int64_t addr, int64_t size, void *buf, int8_t mode) {
  struct dmi_process *process = dmi_runtime_process();
  return process && dmi_access_read_now(&process->access, addr, size, buf, mode) ? DMI_TRUE
                                                                                 : DMI_FALSE;
}

int32_t DMI_try_write(int64_t addr, int64_t size, const void *buf, int8_t mode) {
  struct dmi_process *process = dmi_runtime_process();
  return process && dmi_access_write_now(&process->access, addr, size, buf, mode) ? DMI_TRUE
                                                                                  : DMI_FALSE;
}

int32_t DMI_hold(int64_t addr, int64_t size, const void **ptr_ptr, DMI_local_hold_t *hold) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_hold_begin(&process->access, addr, size, ptr_ptr, hold) : DMI_FALSE,
      DMI_RANGE(addr, size));
}

int32_t DMI_release(DMI_local_hold_t *hold) {
  return DMI_REPORTED(dmi_hold_end(hold), DMI_NOTHING);
}

static int32_t block(int64_t n, int32_t rank, int32_t pnum, int64_t *begin, int64_t *end) {
  int64_t size, more;
  if (n < 0) return dmi_fail(dmi_because_of(DMI_EINVAL, "n is negative", n));
  if (pnum < 1) return dmi_fail(dmi_because_of(DMI_EINVAL, "pnum is below 1", pnum));
  if (rank < 0 || rank >= pnum)
    return dmi_fail(
        dmi_because_so(DMI_EINVAL, "rank %d is not from 0 to pnum - 1, %d", rank, pnum - 1));
  if (!begin || !end) return dmi_fail(dmi_because(DMI_EINVAL, "a pointer is NULL"));
  size = n / pnum;
  more = n % pnum; /* so many ranges have one more */
  *begin = rank * size + (rank < more ? rank : more);
  *end = *begin + size + (rank < more);
  return DMI_TRUE;
}

int32_t DMI_block(int64_t n, int32_t rank, int32_t pnum, int64_t *begin_ptr, int64_t *end_ptr) {
  return DMI_REPORTED(block(n, rank, pnum, begin_ptr, end_ptr), DMI_NOTHING);
}

int32_t DMI_survive(int32_t copies) {
  return DMI_REPORTED(dmi_call_survive(dmi_runtime_process(), copies), DMI_NOTHING);
}

int32_t DMI_exit(int32_t status) {
  return DMI_REPORTED(dmi_call_exit(dmi_runtime_process(), status), DMI_NOTHING);
}

int32_t DMI_stopping(int32_t *flag_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_REPORTED(DMI_FALSE, DMI_NOTHING);
  if (!flag_ptr)
    return DMI_REPORTED(dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL")), DMI_NOTHING);
  *flag_ptr = atomic_load(&process->access.core.stopping) ? DMI_TRUE : DMI_FALSE;
  return DMI_TRUE;
}

int32_t DMI_notify(int64_t value) {
  return DMI_REPORTED(dmi_call_notify(dmi_runtime_process(), value, NULL), DMI_NOTHING);
}

int32_t DMI_root_set(const char *name, int64_t addr) {
  return DMI_REPORTED(dmi_call_root_set(dmi_runtime_process(), name, addr), DMI_NOTHING);
}

int32_t DMI_root_get(const char *name, int64_t *addr_ptr) {
  return DMI_REPORTED(dmi_call_root_get(dmi_runtime_process(), name, addr_ptr), DMI_NOTHING);
}

int32_t DMI_revive(int64_t addr, int64_t size, int64_t *pages_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_access_revive(&process->access, addr, size, false, pages_ptr) : DMI_FALSE,
      DMI_RANGE(addr, size));
}

int32_t DMI_wake_with(DMI_thread_t thread, const void *ptr, int64_t size,
                      DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(dmi_call_wake_with(dmi_runtime_process(), &thread, ptr, size, status),
                            status, DMI_NOTHING);
}

int32_t DMI_suspend_with(void *ptr, int64_t capacity, int64_t *size_ptr) {
  return DMI_REPORTED(dmi_call_suspend_with(dmi_runtime_process(), ptr, capacity, size_ptr),
                      DMI_NOTHING);
}

/* ---- Small numbers -------------------------------------------------------------------------- */

enum pool_call { INIT, DESTROY, GET, PUT };

static int32_t on_pool(enum pool_call call, int64_t addr, int32_t *id) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_idpool pool;
  if (!process) return DMI_FALSE;
  if (!id) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  pool = (struct dmi_idpool){&process->access, process->alloc, process->sync, addr};
  switch (call) {
    case INIT:
      return dmi_idpool_init(&pool);
    case DESTROY:
      return dmi_idpool_destroy(&pool);
    case GET:
      return dmi_idpool_get(&pool, id);
    default:
      return dmi_idpool_put(&pool, *id);
  }
}

#define ON_POOL(call, addr, id) \
  DMI_REPORTED(on_pool((call), (addr), (id)), DMI_RANGE((addr), sizeof(DMI_idpool_t)))

int32_t DMI_idpool_init(int64_t addr) {
  int32_t none = 0;
  return ON_POOL(INIT, addr, &none);
}

int32_t DMI_idpool_destroy(int64_t addr) {
  int32_t none = 0;
  return ON_POOL(DESTROY, addr, &none);
}

int32_t DMI_idpool_get(int64_t addr, int32_t *id_ptr) {
  return ON_POOL(GET, addr, id_ptr);
}

int32_t DMI_idpool_put(int64_t addr, int32_t id) {
  return ON_POOL(PUT, addr, &id);
}
