/*
 * farm_team.c - the threads that do tasks on one process: slots for them in the table, their
 * arguments, their handles.
 *
 * Failure modes: the process is lost meanwhile, or its system allows no more threads: then the team
 * has those that could be started, perhaps none.
 */
#include "elastic/farm_int.h"

#include <stdlib.h>

#include "base/error.h"
#include "node/calls.h"
#include "sync/alloc.h"

#define ARG_PAGE 4096 /* bytes of a page of arguments */

/* A slot for a thread of this process. */
static int32_t take_slot(struct dmi_farm_at *at, int32_t dmi_id, uint32_t *slot) {
  const struct dmi_farm_step step = {.op = DMI_FARM_SLOT, .process = dmi_id + 1};
  struct dmi_farm_answer answer;
  do {
    if (!dmi_farm_table_ask(at, &step, &answer)) return DMI_FALSE;
    if (answer.what == DMI_FARM_FULL && !dmi_farm_table_more(at)) return DMI_FALSE;
  } while (answer.what == DMI_FARM_FULL);
  *slot = answer.slot;
  return DMI_TRUE;
}

/* No thread has come to use it. */
static void drop_slot(struct dmi_farm_at *at, int32_t dmi_id, uint32_t slot) {
  const struct dmi_farm_step step = {
      .op = DMI_FARM_WORK, .process = dmi_id + 1, .slot = slot, .ends = 1};
  struct dmi_farm_answer answer;
  (void)dmi_farm_table_ask(at, &step, &answer);
}

static int32_t start_thread(struct dmi_farm_team *team, struct dmi_farm_at *at) {
  struct dmi_farm_arg arg;
  int64_t addr = team->args + team->num * (int64_t)sizeof(arg);
  uint32_t slot;
  if (!take_slot(at, team->dmi_id, &slot)) return DMI_FALSE;
  arg = (struct dmi_farm_arg){.table = at->addr, .slot = slot};
  if (dmi_access_write(&at->process->access, addr, sizeof(arg), &arg, DMI_PUT_WRITE, NULL) &&
      dmi_call_create_inner(at->process, &team->threads[team->num], team->dmi_id, DMI_BODY_FARM,
                            addr, NULL)) {
    team->num++;
    return DMI_TRUE;
  }
  drop_slot(at, team->dmi_id, slot);
  return DMI_FALSE;
}

void dmi_farm_team_start(struct dmi_farm_team *team, struct dmi_farm_at *at, int32_t dmi_id,
                         int32_t num) {
  *team = (struct dmi_farm_team){.dmi_id = dmi_id};
  team->threads = calloc((size_t)num, sizeof(*team->threads));
  if (!team->threads) return;
  if (!dmi_alloc_malloc(at->process->alloc, &team->args, num * (int64_t)sizeof(struct dmi_farm_arg),
                        ARG_PAGE)) {
    team->args = 0;
    return;
  }
  while (team->num < num && start_thread(team, at))
    continue;
}

void dmi_farm_team_join(struct dmi_farm_team *team, struct dmi_process *process) {
  /* Those of a process that was lost have ended. */
  for (int32_t i = 0; i < team->num; i++)
    (void)dmi_call_join(process, &team->threads[i], NULL, NULL);
  if (team->args) (void)dmi_alloc_release(process->alloc, team->args);
  free(team->threads);
  *team = (struct dmi_farm_team){.dmi_id = team->dmi_id, .stopping = team->stopping};
}
