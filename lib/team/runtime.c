/*
 * runtime.c - teams in the life of a process.
 */
#include <stdlib.h>

#include <utlist.h>

#include "base/xalloc.h"
#include "team/team_int.h"

static struct dmi_teams *make(struct dmi_process *process) {
  struct dmi_teams *teams = dmi_xalloc(1, sizeof(*teams));
  teams->process = process;
  return teams;
}

/* No thread uses them any more. */
static void free_all(struct dmi_teams *teams) {
  while (teams->ranks) {
    struct dmi_team_rank *rank = teams->ranks;
    DL_DELETE(teams->ranks, rank);
    dmi_team_rank_free(rank);
  }
  free(teams);
}

static bool stop(struct dmi_teams *teams) {
  bool any;
  dmi_lock(&teams->lock, DMI_RANK_LEAF);
  any = teams->ranks != NULL || teams->joining != 0;
  if (!any) teams->leaving = true;
  dmi_unlock(&teams->lock, DMI_RANK_LEAF);
  return !any;
}

static void stays(struct dmi_teams *teams) {
  dmi_lock(&teams->lock, DMI_RANK_LEAF);
  teams->leaving = false;
  dmi_unlock(&teams->lock, DMI_RANK_LEAF);
}

static void stopping(struct dmi_teams *teams) {
  struct dmi_team_carry carry;
  struct dmi_team_rank *rank;
  dmi_team_lock(teams, &carry);
  atomic_store(&teams->stopping, true);
  DL_FOREACH(teams->ranks, rank) {
    dmi_team_port_stop(&rank->port, &carry.out);
    dmi_team_news(rank);
  }
  dmi_team_unlock(teams, NULL, &carry);
}

void dmi_team_use(struct dmi_program *program) {
  static const struct dmi_program_team functions = {.make = make,
                                                    .free = free_all,
                                                    .where = dmi_team_where,
                                                    .message = dmi_team_message,
                                                    .view = dmi_team_view,
                                                    .stop = stop,
                                                    .stays = stays,
                                                    .stopping = stopping,
                                                    .step = dmi_team_step};
  program->team = &functions;
}
