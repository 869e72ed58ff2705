/*
 * join.c - how a thread comes into a team, from one epoch to the next, and out of it; and what a
 * lost process means for all of that.
 *
 * The happy path: the thread tells the table that it has arrived, and sleeps until EPOCH comes from
 * the process whose step was the last; the table then says who has which rank.
 *
 * Failure modes: that process is lost before EPOCH is sent; a member is lost that has not arrived.
 * Each view wakes the threads that wait, and they look at the table for processes that are no
 * members.
 */
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "team/team_int.h"

void dmi_team_rank_free(struct dmi_team_rank *rank) {
  dmi_team_port_free(&rank->port);
  free(rank->uids);
  free(rank);
}

/* ---- Lost processes ------------------------------------------------------------------------- */

/* Numbers of processes go up: this one and all older ones have joined before. */
static dmi_uid_t newest_of(const struct dmi_process *process) {
  const struct dmi_uids *uids;
  dmi_uid_t newest = process->access.core.self;
  const dmi_uid_t removed = atomic_load(&process->teams->removed);
  if (removed > newest) newest = removed;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  if (uids->num && uids->uid[uids->num - 1] > newest) newest = uids->uid[uids->num - 1];
  dmi_epoch_leave();
  return newest;
}

/* No member any more.  One that is newer than all that are known here has joined just now. */
static bool is_gone(const struct dmi_process *process, dmi_uid_t uid) {
  const struct dmi_core *core = &process->access.core;
  return uid && uid != core->self && uid <= newest_of(process) && !core->is_there(core->arg, uid);
}

void dmi_team_view(struct dmi_teams *teams, const struct dmi_mact *view) {
  struct dmi_team_rank *rank;
  for (uint32_t i = 0; i < view->removed_num; i++) {
    struct dmi_team_carry carry;
    if (view->removed[i].uid > atomic_load(&teams->removed)) /* only this thread writes it */
      atomic_store(&teams->removed, view->removed[i].uid);
    if (!view->removed[i].lost) continue;
    dmi_team_lock(teams, &carry);
    DL_FOREACH(teams->ranks, rank) {
      for (int32_t r = 0; r < rank->port.size; r++) {
        if (rank->uids[r] == view->removed[i].uid) dmi_team_port_lost(&rank->port, r, &carry.out);
      }
      dmi_team_news(rank);
    }
    dmi_team_unlock(teams, NULL, &carry);
  }
}

/* Has the table forget processes that were lost.  *answer: as it is then. */
static int32_t forget_lost(struct dmi_team_at *at, struct dmi_team_answer *answer,
                           struct dmi_team_slot **slots) {
  struct dmi_team_step step = {.what = DMI_TEAM_LOOK};
  int32_t error = dmi_team_ask(at, &step, answer, slots);
  if (error != DMI_OK) return error;
  for (uint32_t i = 0; i < answer->capacity; i++) {
    const struct dmi_team_slot *slot = &(*slots)[i];
    dmi_uid_t gone = is_gone(at->process, slot->member) ? slot->member
                     : is_gone(at->process, slot->next) ? slot->next
                                                        : 0;
    if (!gone) continue;
    step = (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = gone};
    free(*slots);
    error = dmi_team_ask(at, &step, answer, slots);
    if (error != DMI_OK) return error;
    i = UINT32_MAX; /* from the beginning: they are other slots now */
  }
  return DMI_OK;
}

int32_t dmi_team_ask_free(struct dmi_team_at *at, const struct dmi_team_step *step,
                          struct dmi_team_answer *answer) {
  struct dmi_team_slot *slots = NULL;
  int32_t error = dmi_team_ask(at, step, answer, NULL);
  if (error != DMI_EBUSY) return error;
  error = forget_lost(at, answer, &slots);
  if (error != DMI_OK) return error;
  free(slots);
  return dmi_team_ask(at, step, answer, NULL);
}

/* ---- The next epoch ------------------------------------------------------------------------- */

/* Where the other ranks are, for waits for any of them. */
static void find_others(struct dmi_team_rank *rank, const uint32_t *uids, int32_t size) {
  const dmi_uid_t self = rank->teams->process->access.core.self;
  bool several = false;
  rank->near = false;
  rank->only = 0;
  for (int32_t i = 0; i < size; i++) {
    if (i == rank->port.rank || !uids[i]) continue;
    if (uids[i] == self) rank->near = true;
    if (rank->only && uids[i] != rank->only) several = true;
    rank->only = uids[i];
  }
  if (several) rank->only = 0;
}

/* Takes part in the epoch that has begun. */
static int32_t begin(struct dmi_team_rank *rank, const struct dmi_team_answer *answer,
                     const struct dmi_team_slot *slots) {
  struct dmi_process *process = rank->teams->process;
  const size_t size = (size_t)answer->size;
  uint32_t *uids = dmi_xalloc(size, sizeof(*uids));
  struct dmi_team_carry carry;
  for (size_t i = 0; i < size; i++)
    uids[i] = slots[i].member;
  dmi_team_lock(rank->teams, &carry);
  free(rank->uids);
  rank->uids = uids;
  find_others(rank, uids, answer->size);
  (void)dmi_team_port_begin(&rank->port, answer->epoch, answer->size, uids, &carry.out);
  for (size_t i = 0; i < size; i++) { /* lost since: no view tells it any more */
    if (is_gone(process, uids[i])) dmi_team_port_lost(&rank->port, (int32_t)i, &carry.out);
  }
  dmi_team_unlock(rank->teams, rank, &carry);
  return DMI_OK;
}

/* What the thread waits for. */
enum waits { TO_JOIN, TO_RESET, TO_LEAVE };

/* Looks at the table: DMI_OK if the rank's epoch has begun; DMI_EBUSY: not yet. */
static int32_t look(struct dmi_team_rank *rank, enum waits waits) {
  const dmi_uid_t self = rank->teams->process->access.core.self;
  const struct dmi_team_port *port = &rank->port;
  struct dmi_team_answer answer;
  struct dmi_team_slot *slots = NULL;
  int32_t error = forget_lost(&rank->at, &answer, &slots);
  if (error != DMI_OK) return error;
  if (waits == TO_JOIN) {
    error = dmi_team_joins_as(&answer, slots, self, port->rank, port->before);
  } else if (waits == TO_RESET) {
    error = dmi_team_goes_on_as(&answer, slots, self, port->rank, port->epoch);
    if (error == DMI_EINVAL)
      (void)dmi_because(error, "the team has become smaller (DMI_team_resize)");
  } else if (answer.epoch == port->epoch && !dmi_team_all_arrived(slots, answer.capacity)) {
    error = DMI_EBUSY; /* the next epoch may have to wait for others that join */
  }
  if (error == DMI_OK && waits != TO_LEAVE) error = begin(rank, &answer, slots);
  free(slots);
  return error;
}

/* Sleeps until there is news, unless there is some since it was `seen`. */
static void wait_news(struct dmi_team_rank *rank, uint32_t seen) {
  bool noted = dmi_doing_waits(&rank->teams->process->access.doings, DMI_DOING_RANKS, 0,
                               (uint64_t)(rank->port.rank + 1), 0);
  dmi_futex_wait(&rank->news, seen);
  dmi_doing_waited(noted);
}

static int32_t wait_epoch(struct dmi_team_rank *rank, enum waits waits) {
  for (;;) {
    uint32_t seen = atomic_load(&rank->news);
    int32_t error = look(rank, waits);
    if (error != DMI_EBUSY) return error;
    if (atomic_load(&rank->teams->stopping)) return DMI_EEND;
    wait_news(rank, seen);
  }
}

static int32_t arrive(struct dmi_team_rank *rank, enum dmi_team_arrived arrived) {
  const struct dmi_team_step step = {.what = DMI_TEAM_ARRIVE,
                                     .process = rank->teams->process->access.core.self,
                                     .rank = rank->port.rank,
                                     .arrived = arrived,
                                     .epoch = rank->port.epoch};
  struct dmi_team_answer answer;
  return dmi_team_ask(&rank->at, &step, &answer, NULL);
}

/* ---- Joining -------------------------------------------------------------------------------- */

/* From here on the process does not leave.  False: it leaves. */
static bool begin_join(struct dmi_teams *teams) {
  bool can;
  dmi_lock(&teams->lock, DMI_RANK_LEAF);
  can = !teams->leaving;
  if (can) teams->joining++;
  dmi_unlock(&teams->lock, DMI_RANK_LEAF);
  return can;
}

/* It has a rank here; NULL: it has none. */
static void end_join(struct dmi_teams *teams, struct dmi_team_rank *rank) {
  dmi_lock(&teams->lock, DMI_RANK_LEAF);
  teams->joining--;
  if (rank) {
    if (atomic_load(&teams->stopping)) rank->port.stopped = true;
    DL_APPEND(teams->ranks, rank);
  }
  dmi_unlock(&teams->lock, DMI_RANK_LEAF);
}

static void end(struct dmi_team_rank *rank) {
  dmi_lock(&rank->teams->lock, DMI_RANK_LEAF);
  DL_DELETE(rank->teams->ranks, rank);
  dmi_unlock(&rank->teams->lock, DMI_RANK_LEAF);
  dmi_team_rank_free(rank);
}

/* The program's object; with a rank of NULL it is in no team. */
static void name(DMI_local_team_t *team, const struct dmi_team_rank *rank) {
  memset(team, 0, sizeof(*team));
  if (!rank) return;
  memcpy(team, &rank, sizeof(rank));
  team->dmi_private[1] = dmi_team_mark(rank->teams->process, rank);
  team->dmi_private[2] = (int64_t)rank->port.epoch;
}

static void keep(void *arg, uint64_t bytes) {
  struct dmi_core *core = &((struct dmi_process *)arg)->access.core;
  (void)core->account->reserve(core->arg, bytes, true);
}

static void drop(void *arg, uint64_t bytes) {
  struct dmi_core *core = &((struct dmi_process *)arg)->access.core;
  core->account->release(core->arg, bytes);
}

static int32_t take_rank(struct dmi_process *process, int64_t addr, int32_t want,
                         struct dmi_team_rank *rank) {
  struct dmi_team_step step = {
      .what = DMI_TEAM_JOIN, .process = process->access.core.self, .rank = want};
  struct dmi_team_answer answer = {0};
  int32_t error = dmi_team_find(process, addr, &rank->at);
  if (error == DMI_OK) error = dmi_team_ask_free(&rank->at, &step, &answer);
  if (error == DMI_EBUSY)
    return dmi_because(
        error, want < 0 ? "each rank of the team has a thread" : "another thread has this rank");
  if (error == DMI_EINVAL && answer.made == DMI_TEAM_MADE && (want < -1 || want >= answer.wanted))
    return dmi_team_no_rank(want, answer.wanted);
  if (error != DMI_OK) return error;
  dmi_team_port_init(&rank->port, answer.team, answer.rank, answer.epoch);
  rank->port.account = (struct dmi_team_account){keep, drop, process};
  return DMI_OK;
}

/* A rank for a thread of this process, for which it waits. */
static int32_t new_rank(struct dmi_process *process, int64_t addr, int32_t want,
                        struct dmi_team_rank **rank) {
  struct dmi_teams *teams = process->teams;
  struct dmi_team_rank *new = calloc(1, sizeof(*new));
  int32_t error;
  if (!new) return DMI_ENOMEM;
  new->teams = teams;
  if (!begin_join(teams)) {
    free(new);
    return dmi_because(DMI_ELEAVING, "this process was dismissed (DMI_goodbye)");
  }
  error = take_rank(process, addr, want, new);
  end_join(teams, error == DMI_OK ? new : NULL);
  if (error != DMI_OK) free(new);
  *rank = new;
  return error;
}

/* Gives the rank back.  DMI_OK: it is in an epoch, which has begun since the last look. */
static int32_t unjoin(struct dmi_team_rank *rank, int32_t error) {
  const dmi_uid_t self = rank->teams->process->access.core.self;
  const struct dmi_team_step step = {
      .what = DMI_TEAM_UNJOIN, .process = self, .rank = rank->port.rank};
  struct dmi_team_answer answer;
  struct dmi_team_slot *slots = NULL;
  if (dmi_team_ask(&rank->at, &step, &answer, &slots) == DMI_OK &&
      dmi_team_joins_as(&answer, slots, self, rank->port.rank, rank->port.before) == DMI_OK)
    error = begin(rank, &answer, slots);
  free(slots);
  return error;
}

int32_t dmi_team_join(struct dmi_process *process, DMI_local_team_t *team, int64_t addr,
                      int32_t want) {
  struct dmi_team_rank *rank = NULL;
  int32_t error;
  if (!team) return dmi_fail(dmi_because(DMI_EINVAL, "there is no DMI_local_team_t"));
  name(team, NULL);
  do {
    error = new_rank(process, addr, want, &rank);
    if (error != DMI_OK) return dmi_fail(error);
    error = arrive(rank, DMI_TEAM_NOT_ARRIVED);
    if (error == DMI_OK) error = wait_epoch(rank, TO_JOIN);
    if (error != DMI_OK) error = unjoin(rank, error);
    if (error == DMI_OK) {
      name(team, rank);
      return DMI_TRUE;
    }
    end(rank);
    /* The team has become smaller meanwhile, and that rank is gone: any other one will do. */
  } while (error == DMI_EINVAL && want == DMI_ANY);
  return dmi_fail(error);
}

int32_t dmi_team_rank(struct dmi_process *process, DMI_local_team_t *team, int32_t *number,
                      int32_t *size) {
  const struct dmi_team_rank *rank = dmi_team_of(process, team);
  if (!rank)
    return dmi_fail(dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)"));
  if (number) *number = rank->port.rank;
  if (size) *size = rank->port.size;
  return DMI_TRUE;
}

/* ---- Resets and leaves ---------------------------------------------------------------------- */

static bool is_drained(struct dmi_team_rank *rank) {
  bool drained;
  dmi_lock(&rank->teams->lock, DMI_RANK_LEAF);
  drained = dmi_team_port_drained(&rank->port) || rank->port.stopped;
  dmi_unlock(&rank->teams->lock, DMI_RANK_LEAF);
  return drained;
}

static void wait_drained(struct dmi_team_rank *rank) {
  for (;;) {
    uint32_t seen = atomic_load(&rank->news);
    if (is_drained(rank)) return;
    wait_news(rank, seen);
  }
}

/* State RESET; false: with `quiet`, calls of it wait. */
static bool reset_port(struct dmi_team_rank *rank, bool quiet) {
  struct dmi_team_carry carry;
  bool can;
  dmi_team_lock(rank->teams, &carry);
  can = !quiet || dmi_team_port_drained(&rank->port);
  if (can) dmi_team_port_reset(&rank->port, &carry.out);
  dmi_team_unlock(rank->teams, rank, &carry);
  return can;
}

static void tell(const struct dmi_team_rank *rank, enum dmi_msg_type type) {
  struct dmi_msg msg = {.type = (uint8_t)type, .map = rank->port.team};
  msg.team.from = (uint32_t)rank->port.rank;
  msg.team.epoch = rank->port.epoch;
  dmi_team_tell(rank->teams, &msg, rank->uids, (uint32_t)rank->port.size);
}

int32_t dmi_team_reset(struct dmi_process *process, DMI_local_team_t *team) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error;
  if (!rank)
    return dmi_fail(dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)"));
  (void)reset_port(rank, false);
  tell(rank, DMI_TEAM_RESET);
  wait_drained(rank);
  if (atomic_load(&rank->teams->stopping)) return dmi_fail(DMI_EEND); /* it may not be drained */
  error = arrive(rank, DMI_TEAM_RESETS);
  if (error == DMI_OK) error = wait_epoch(rank, TO_RESET);
  if (error == DMI_OK) {
    name(team, rank);
    return DMI_TRUE;
  }
  if (error == DMI_EINVAL) { /* it is not in the team any more */
    name(team, NULL);
    end(rank);
  }
  return dmi_fail(error);
}

int32_t dmi_team_leave(struct dmi_process *process, DMI_local_team_t *team) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error;
  if (!rank)
    return dmi_fail(dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)"));
  if (!reset_port(rank, true))
    return dmi_fail(dmi_because(DMI_EBUSY, "sends or receives of this rank are not over"));
  tell(rank, DMI_TEAM_LEAVE);
  error = arrive(rank, DMI_TEAM_LEAVES);
  if (error == DMI_OK) error = wait_epoch(rank, TO_LEAVE);
  name(team, NULL);
  end(rank);
  return error == DMI_OK ? DMI_TRUE : dmi_fail(error);
}
