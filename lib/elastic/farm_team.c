/*
 * farm_team.c - the threads that do tasks on one process: slots for them in the table, their
 * arguments, their handles.
 *
 * All threads of a process are asked for at once, and those of several processes before the first
 * one is waited for: so one process that answers late does not keep the others idle.
 *
 * Failure modes: the process is lost meanwhile, or its system allows no more threads: then the team
 * has those that could be started, perhaps none.
 */
#include "elastic/farm_int.h"

#include <stdlib.h>

#include "access/status.h"
#include "base/error.h"
#include "node/calls.h"
#include "sync/alloc.h"

#define ARG_PAGE 4096 /* bytes of a page of arguments */

struct dmi_farm_worker {
  DMI_thread_t thread;
  uint32_t slot;
  DMI_local_status_t asked; /* of the call that creates it */
};

/* A slot for a thread of this process. */
static int32_t take_slot(struct dmi_farm_at *at, int32_t dmi_id, uint32_t *slot) {
  const struct dmi_farm_step step = {.op = DMI_FARM_SLOT, .process = dmi_id + 1};
  struct dmi_farm_answer answer;
  if (!dmi_farm_table_insert(at, &step, &answer)) return DMI_FALSE;
  *slot = answer.slot;
  dmi_farm_table_reserve(at, 2 * (answer.slot + 1)); /* a thread may take another one */
  return DMI_TRUE;
}

/* No thread has come to use it. */
static void drop_slot(struct dmi_farm_at *at, int32_t dmi_id, uint32_t slot) {
  const struct dmi_farm_step step = {
      .op = DMI_FARM_WORK, .process = dmi_id + 1, .slot = slot, .ends = 1};
  struct dmi_farm_answer answer;
  (void)dmi_farm_table_ask(at, &step, &answer);
}

/* Writes what each thread is told. */
static int32_t write_args(struct dmi_farm_team *team, const struct dmi_farm_at *at,
                          const struct dmi_farm_arg *arg) {
  const int64_t size = team->num * (int64_t)sizeof(struct dmi_farm_arg);
  struct dmi_farm_arg *args = malloc((size_t)size);
  int32_t good;
  if (!args) return dmi_fail(DMI_ENOMEM);
  for (int32_t i = 0; i < team->num; i++) {
    args[i] = *arg;
    args[i].table = at->addr;
    args[i].table_size = at->size;
    args[i].slot = team->workers[i].slot;
  }
  good = dmi_alloc_malloc(at->process->alloc, &team->args, size, ARG_PAGE);
  if (!good) team->args = 0;
  good =
      good && dmi_access_write(&at->process->access, team->args, size, args, DMI_PUT_WRITE, NULL);
  free(args);
  return good;
}

void dmi_farm_team_ask(struct dmi_farm_team *team, struct dmi_farm_at *at,
                       const struct dmi_farm_arg *arg, int32_t dmi_id, int32_t num) {
  *team = (struct dmi_farm_team){.dmi_id = dmi_id};
  team->workers = calloc((size_t)num, sizeof(*team->workers));
  while (team->workers && team->num < num && take_slot(at, dmi_id, &team->workers[team->num].slot))
    team->num++;
  if (team->num && !write_args(team, at, arg)) {
    while (team->num)
      drop_slot(at, dmi_id, team->workers[--team->num].slot);
  }
  for (int32_t i = 0; i < team->num; i++)
    (void)dmi_call_create_inner(at->process, &team->workers[i].thread, dmi_id, DMI_BODY_FARM,
                                team->args + i * (int64_t)sizeof(struct dmi_farm_arg),
                                &team->workers[i].asked);
  team->asked = team->num;
}

void dmi_farm_team_await(struct dmi_farm_team *team, struct dmi_farm_at *at) {
  team->num = 0;
  for (int32_t i = 0; i < team->asked; i++) {
    struct dmi_farm_worker *worker = &team->workers[i];
    if (dmi_status_wait(dmi_status_of(&worker->asked)) == DMI_OK) {
      team->workers[team->num++] = *worker;
    } else {
      drop_slot(at, team->dmi_id, worker->slot);
    }
  }
  team->asked = 0;
}

void dmi_farm_team_join(struct dmi_farm_team *team, struct dmi_process *process) {
  /* Those of a process that was lost have ended. */
  for (int32_t i = 0; i < team->num; i++)
    (void)dmi_call_join(process, &team->workers[i].thread, NULL, NULL);
  if (team->args) (void)dmi_alloc_release(process->alloc, team->args);
  free(team->workers);
  *team = (struct dmi_farm_team){.dmi_id = team->dmi_id, .stopping = team->stopping};
}
