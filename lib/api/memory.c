/*
 * memory.c - entry points: mapping, reading, writing, read-modify-write (chapters 4 and 5).
 *
 * Each checks its arguments as far as it can here, and calls the layers below.  Hits are tried
 * first: they pay nothing for what only other calls need (reported.h).
 */
#include "api/reported.h"
#include "base/error.h"
#include "core/rmw.h"
#include "sync/alloc.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "access/save.h"

/* The result of a call in a thread that belongs to no process. */
static int32_t inactive(DMI_local_status_t *status) {
  return dmi_status_refuse(status, dmi_access_usable(NULL));
}

int32_t DMI_mmap(int64_t *addr_ptr, int64_t page_size, int64_t page_num,
                 DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(
      dmi_call_mmap(dmi_runtime_process(), addr_ptr, page_size, page_num, status), status,
      DMI_NOTHING);
}

int32_t DMI_munmap(int64_t addr, DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(dmi_call_munmap(dmi_runtime_process(), addr, status), status,
                            DMI_PLACE(addr));
}

int32_t DMI_read(int64_t addr, int64_t size, void *buf, int8_t mode, DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  if (!status && process && dmi_access_read_now(&process->access, addr, size, buf, mode))
    return DMI_TRUE;
  return DMI_REPORTED_ASYNC(
      process ? dmi_access_read(&process->access, addr, size, buf, mode, status) : inactive(status),
      status, DMI_RANGE(addr, size));
}

int32_t DMI_write(int64_t addr, int64_t size, const void *buf, int8_t mode,
                  DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  if (!status && process && dmi_access_write_now(&process->access, addr, size, buf, mode))
    return DMI_TRUE;
  return DMI_REPORTED_ASYNC(process
                                ? dmi_access_write(&process->access, addr, size, buf, mode, status)
                                : inactive(status),
                            status, DMI_RANGE(addr, size));
}

int32_t DMI_save(int64_t addr, int64_t size) {
  struct dmi_process *process = dmi_runtime_process();
  return DMI_REPORTED(process ? dmi_save(&process->access, addr, size, true) : inactive(NULL),
                      DMI_RANGE(addr, size));
}

int32_t DMI_unsave(int64_t addr, int64_t size) {
  struct dmi_process *process = dmi_runtime_process();
  return DMI_REPORTED(process ? dmi_save(&process->access, addr, size, false) : inactive(NULL),
                      DMI_RANGE(addr, size));
}

static struct dmi_alloc *allocator(void) {
  struct dmi_process *process = dmi_runtime_process();
  return process ? process->alloc : NULL;
}

int32_t DMI_malloc(int64_t *addr_ptr, int64_t size, int64_t page_size) {
  return DMI_REPORTED(dmi_alloc_malloc(allocator(), addr_ptr, size, page_size), DMI_NOTHING);
}

int32_t DMI_realloc(int64_t old_addr, int64_t *new_addr_ptr, int64_t size, int64_t page_size) {
  return DMI_REPORTED(dmi_alloc_realloc(allocator(), old_addr, new_addr_ptr, size, page_size),
                      DMI_PLACE(old_addr));
}

int32_t DMI_free(int64_t addr) {
  return DMI_REPORTED(dmi_alloc_release(allocator(), addr), DMI_PLACE(addr));
}

static int32_t no_pointer(DMI_local_status_t *status) {
  return dmi_status_refuse(status, dmi_because(DMI_EINVAL, "a pointer is NULL"));
}

static int32_t rmw(const struct dmi_rmw_call *call, DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  return process ? dmi_access_rmw(&process->access, call, status) : inactive(status);
}

int32_t DMI_cas(int64_t addr, int64_t size, const void *cmp_ptr, const void *swap_ptr,
                int8_t *flag_ptr, int8_t mode, DMI_local_status_t *status) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_CAS,
                              .addr = addr,
                              .size = size,
                              .out1 = cmp_ptr,
                              .out2 = swap_ptr,
                              .in = flag_ptr,
                              .sizes = {(uint64_t)size, (uint64_t)size, 1},
                              .mode = mode};
  bool given = cmp_ptr && swap_ptr && flag_ptr;
  return DMI_REPORTED_ASYNC(given ? rmw(&call, status) : no_pointer(status), status,
                            DMI_RANGE(addr, size));
}

int32_t DMI_fas(int64_t addr, int64_t size, const void *out_ptr, void *in_ptr, int8_t mode,
                DMI_local_status_t *status) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_FAS,
                              .addr = addr,
                              .size = size,
                              .out1 = out_ptr,
                              .in = in_ptr,
                              .sizes = {(uint64_t)size, 0, (uint64_t)size},
                              .mode = mode};
  bool given = out_ptr && in_ptr;
  return DMI_REPORTED_ASYNC(given ? rmw(&call, status) : no_pointer(status), status,
                            DMI_RANGE(addr, size));
}

int32_t DMI_fad(int64_t addr, int64_t add, int64_t *old_ptr, int8_t mode,
                DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  return DMI_REPORTED_ASYNC(process
                                ? dmi_access_fad(&process->access, addr, add, old_ptr, mode, status)
                                : inactive(status),
                            status, DMI_RANGE(addr, (int64_t)sizeof(add)));
}

/* Why DMI_function cannot be called with these arguments; DMI_OK if it can. */
static int32_t bad_function_call(const struct dmi_process *process,
                                 const struct dmi_rmw_call *call) {
  const struct dmi_rmw_sizes *sizes = &call->sizes;
  if ((int64_t)sizes->out1 < 0)
    return dmi_because_of(DMI_EINVAL, "out1_size is negative", (int64_t)sizes->out1);
  if ((int64_t)sizes->out2 < 0)
    return dmi_because_of(DMI_EINVAL, "out2_size is negative", (int64_t)sizes->out2);
  if ((int64_t)sizes->in < 0)
    return dmi_because_of(DMI_EINVAL, "in_size is negative", (int64_t)sizes->in);
  if (call->tag < 0) return dmi_because_of(DMI_EINVAL, "negative tags are reserved", call->tag);
  if ((sizes->out1 && !call->out1) || (sizes->out2 && !call->out2) || (sizes->in && !call->in)) {
    return dmi_because(DMI_EINVAL, "a pointer is NULL, but its size is not 0");
  }
  if (sizes->out1 + sizes->out2 > DMI_RMW_MOST)
    return dmi_because_of(DMI_EINVAL, "the inputs together take 4 GiB or more",
                          (int64_t)(sizes->out1 + sizes->out2));
  if (sizes->in > DMI_RMW_MOST)
    return dmi_because_of(DMI_EINVAL, "the answer takes 4 GiB or more", (int64_t)sizes->in);
  return process && !process->program.function ? DMI_ENOFUNC : DMI_OK;
}

int32_t DMI_atomic(int64_t addr, int64_t size, const void *out1_ptr, int64_t out1_size,
                   const void *out2_ptr, int64_t out2_size, void *in_ptr, int64_t in_size,
                   int8_t tag, int8_t mode, DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_process();
  struct dmi_rmw_call call = {
      .rmw = DMI_RMW_USER,
      .addr = addr,
      .size = size,
      .out1 = out1_ptr,
      .out2 = out2_ptr,
      .in = in_ptr,
      .sizes = {(uint64_t)out1_size, (uint64_t)out2_size, (uint64_t)in_size},
      .tag = tag,
      .mode = mode};
  int32_t error = bad_function_call(process, &call);
  return DMI_REPORTED_ASYNC(error == DMI_OK ? rmw(&call, status) : dmi_status_refuse(status, error),
                            status, DMI_RANGE(addr, size));
}
