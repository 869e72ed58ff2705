/*
 * team.c - entry points of dmi_team.h.
 */
#include "team/team.h"

#include "access/status.h"
#include "api/reported.h"
#include "base/error.h"
#include "node/runtime.h"

#define ON_TEAM(addr) DMI_RANGE((addr), sizeof(DMI_team_t))

/* Begins an operation between ranks: the trace, if there is one, shows it with what it waits for.
 */
static int64_t begins(const struct dmi_process *process) {
  return process && dmi_trace_on(&process->access.trace) ? dmi_clock_ns() : 0;
}

static int32_t ends(struct dmi_process *process, const char *name, int64_t begin, int32_t result) {
  if (begin) dmi_trace_step(&process->access.trace, name, begin, 0);
  return result;
}

/* What an operation between ranks returns; `process` NULL: it is not begun. */
#define BETWEEN_RANKS(process, call)                                   \
  __extension__({                                                      \
    const int64_t begin_ = begins(process);                            \
    ends((process), __func__, begin_, (process) ? (call) : DMI_FALSE); \
  })

int32_t DMI_team_init(int64_t addr, int32_t size) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_init(process, addr, size) : DMI_FALSE, ON_TEAM(addr));
}

int32_t DMI_team_destroy(int64_t addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_destroy(process, addr) : DMI_FALSE, ON_TEAM(addr));
}

int32_t DMI_team_resize(int64_t addr, int32_t size) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_resize(process, addr, size) : DMI_FALSE, ON_TEAM(addr));
}

int32_t DMI_team_join(DMI_local_team_t *team_ptr, int64_t addr, int32_t rank) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_join(process, team_ptr, addr, rank) : DMI_FALSE,
                      ON_TEAM(addr));
}

int32_t DMI_team_leave(DMI_local_team_t *team_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_leave(process, team_ptr) : DMI_FALSE, DMI_NOTHING);
}

int32_t DMI_team_rank(DMI_local_team_t *team_ptr, int32_t *rank_ptr, int32_t *size_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_rank(process, team_ptr, rank_ptr, size_ptr) : DMI_FALSE,
                      DMI_NOTHING);
}

int32_t DMI_team_reset(DMI_local_team_t *team_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_team_reset(process, team_ptr) : DMI_FALSE, DMI_NOTHING);
}

int32_t DMI_team_send(DMI_local_team_t *team_ptr, int32_t rank, const void *buf, int64_t size,
                      DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process && status) (void)dmi_status_refuse(status, dmi_error_last());
  return DMI_REPORTED_ASYNC(
      BETWEEN_RANKS(process, dmi_team_send(process, team_ptr, rank, buf, size, status)), status,
      DMI_NOTHING);
}

int32_t DMI_team_recv(DMI_local_team_t *team_ptr, int32_t rank, void *buf, int64_t size,
                      DMI_got_t *got_ptr, DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process && status) (void)dmi_status_refuse(status, dmi_error_last());
  return DMI_REPORTED_ASYNC(
      BETWEEN_RANKS(process, dmi_team_recv(process, team_ptr, rank, buf, size, got_ptr, status)),
      status, DMI_NOTHING);
}

int32_t DMI_team_probe(DMI_local_team_t *team_ptr, int32_t rank, DMI_got_t *got_ptr,
                       int32_t *flag_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_team_probe(process, team_ptr, rank, got_ptr, flag_ptr) : DMI_FALSE,
      DMI_NOTHING);
}

int32_t DMI_team_bcast(DMI_local_team_t *team_ptr, int32_t root, void *buf, int64_t size) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(BETWEEN_RANKS(process, dmi_team_bcast(process, team_ptr, root, buf, size)),
                      DMI_NOTHING);
}

int32_t DMI_team_reduce(DMI_local_team_t *team_ptr, int32_t root, const void *in, void *out,
                        int64_t num, DMI_type_t type, DMI_op_t op) {
  struct dmi_process *process = dmi_runtime_usable();
  const struct dmi_team_reduction how = {.num = num, .type = type, .op = op};
  return DMI_REPORTED(
      BETWEEN_RANKS(process, dmi_team_reduce(process, team_ptr, root, in, out, &how)), DMI_NOTHING);
}

int32_t DMI_team_allreduce(DMI_local_team_t *team_ptr, const void *in, void *out, int64_t num,
                           DMI_type_t type, DMI_op_t op) {
  struct dmi_process *process = dmi_runtime_usable();
  const struct dmi_team_reduction how = {.num = num, .type = type, .op = op};
  return DMI_REPORTED(BETWEEN_RANKS(process, dmi_team_allreduce(process, team_ptr, in, out, &how)),
                      DMI_NOTHING);
}

int32_t DMI_team_reduce_by(DMI_local_team_t *team_ptr, int32_t root, const void *in, void *out,
                           int64_t num, int64_t size, DMI_combine_t combine) {
  struct dmi_process *process = dmi_runtime_usable();
  const struct dmi_team_reduction how = {.num = num, .size = size, .combine = combine};
  int32_t result = DMI_FALSE;
  DMI_CALLS();
  if (process && !combine) {
    (void)dmi_fail(dmi_because(DMI_EINVAL, "there is no function"));
  } else if (process) {
    result = BETWEEN_RANKS(process, dmi_team_reduce(process, team_ptr, root, in, out, &how));
  }
  return DMI_REPORTED(result, DMI_NOTHING);
}

int32_t DMI_team_gather(DMI_local_team_t *team_ptr, int32_t root, const void *in, int64_t size,
                        void *out) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      BETWEEN_RANKS(process, dmi_team_gather(process, team_ptr, root, in, size, out)), DMI_NOTHING);
}

int32_t DMI_team_scatter(DMI_local_team_t *team_ptr, int32_t root, const void *in, int64_t size,
                         void *out) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      BETWEEN_RANKS(process, dmi_team_scatter(process, team_ptr, root, in, size, out)),
      DMI_NOTHING);
}

int32_t DMI_team_barrier(DMI_local_team_t *team_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(BETWEEN_RANKS(process, dmi_team_barrier(process, team_ptr)), DMI_NOTHING);
}
