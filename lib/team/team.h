/*
 * team.h - teams in one process: the ranks that its threads have (include/dmi_team.h;
 * docs/teams.md).
 */
#ifndef DMI_TEAM_TEAM_H
#define DMI_TEAM_TEAM_H

#include "dmi_team.h"
#include "node/process.h"

/* Makes a program able to have teams. */
void dmi_team_use(struct dmi_program *program);

/* ---- For the entry points.  All return DMI_TRUE or DMI_FALSE. ---- */
int32_t dmi_team_init(struct dmi_process *process, int64_t addr, int32_t size);
int32_t dmi_team_destroy(struct dmi_process *process, int64_t addr);
int32_t dmi_team_resize(struct dmi_process *process, int64_t addr, int32_t size);
int32_t dmi_team_join(struct dmi_process *process, DMI_local_team_t *team, int64_t addr,
                      int32_t rank);
int32_t dmi_team_leave(struct dmi_process *process, DMI_local_team_t *team);
int32_t dmi_team_rank(struct dmi_process *process, DMI_local_team_t *team, int32_t *rank,
                      int32_t *size);
int32_t dmi_team_reset(struct dmi_process *process, DMI_local_team_t *team);

int32_t dmi_team_send(struct dmi_process *process, DMI_local_team_t *team, int32_t rank,
                      const void *buf, int64_t size, DMI_local_status_t *status);
int32_t dmi_team_recv(struct dmi_process *process, DMI_local_team_t *team, int32_t rank, void *buf,
                      int64_t size, DMI_got_t *got, DMI_local_status_t *status);
int32_t dmi_team_probe(struct dmi_process *process, DMI_local_team_t *team, int32_t rank,
                       DMI_got_t *got, int32_t *flag);

int32_t dmi_team_bcast(struct dmi_process *process, DMI_local_team_t *team, int32_t root, void *buf,
                       int64_t size);
/* `op` 0: by `combine`, of elements of `type` bytes. */
struct dmi_team_reduction {
  int64_t num, size; /* elements, bytes of each */
  DMI_type_t type;
  DMI_op_t op;
  DMI_combine_t combine;
};
int32_t dmi_team_reduce(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                        const void *in, void *out, const struct dmi_team_reduction *reduction);
int32_t dmi_team_allreduce(struct dmi_process *process, DMI_local_team_t *team, const void *in,
                           void *out, const struct dmi_team_reduction *reduction);
int32_t dmi_team_gather(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                        const void *in, int64_t size, void *out);
int32_t dmi_team_scatter(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                         const void *in, int64_t size, void *out);
int32_t dmi_team_barrier(struct dmi_process *process, DMI_local_team_t *team);

#endif
