/*
 * channel.c - sends, receives and probes of the threads of this process.
 *
 * The happy path of 8 bytes between two threads here: the send copies them into the buffer of the
 * receive that is posted, and completes it; the receiver, which looks for a while before it sleeps,
 * goes on.  From another process: the receiver reads the connection itself (access/status.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "access/access.h"
#include "base/error.h"
#include "team/team_int.h"

/* ---- The rank of a thread ------------------------------------------------------------------- */

struct dmi_team_rank *dmi_team_of(struct dmi_process *process, const DMI_local_team_t *team) {
  struct dmi_team_rank *rank;
  if (!team || !process->teams) return NULL;
  memcpy(&rank, team, sizeof(rank));
  /* Bytes that were never set must not be taken for a rank. */
  if (rank && team->dmi_private[1] == dmi_team_mark(process, rank) &&
      rank->port.epoch == (uint64_t)team->dmi_private[2])
    return rank;
  return NULL;
}

int64_t dmi_team_mark(const struct dmi_process *process, const struct dmi_team_rank *rank) {
  return (int64_t)(~(uint64_t)(uintptr_t)rank << 32 | process->access.core.self);
}

int32_t dmi_team_no_rank(int32_t rank, int32_t size) {
  return dmi_because_so(DMI_EINVAL, "the team has no rank %d: they are 0 to %d", rank, size - 1);
}

/* DMI_OK, or why the call is wrong. */
static int32_t check(const struct dmi_team_rank *rank, int32_t with, bool any, const void *buf,
                     int64_t size) {
  if (!rank) return dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)");
  if (size < 0) return dmi_because_of(DMI_EINVAL, "the size is negative", size);
  if ((uint64_t)size > DMI_WIRE_PAGE)
    return dmi_because_of(DMI_EINVAL, "the size is too large", size);
  if (size > 0 && !buf) return dmi_because(DMI_EINVAL, "there is no buffer");
  if (any && with == DMI_ANY) return DMI_OK;
  if (with >= 0 && with < rank->port.size) return DMI_OK;
  return dmi_team_no_rank(with, rank->port.size);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* May somebody in this process end the wait? */
static bool is_near(const struct dmi_team_rank *rank, int32_t with) {
  return with < 0 ? rank->near : rank->uids[with] == rank->teams->process->access.core.self;
}

/* The process that ends the wait: its thread may receive from there.  0: not known. */
static dmi_uid_t asked(const struct dmi_team_rank *rank, int32_t with) {
  if (is_near(rank, with)) return 0;
  return with < 0 ? rank->only : rank->uids[with];
}

static int32_t wait_for(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t with,
                        enum dmi_doing_what what) {
  struct dmi_process *process = rank->teams->process;
  struct dmi_status *status = wait->status;
  bool noted = false;
  int32_t error;
  if (process->access.look.near && is_near(rank, with))
    dmi_status_look(status, &rank->near_look, &process->access.look);
  if (!dmi_status_is_done(status))
    noted = dmi_doing_waits(&process->access.doings, what, with < 0 ? 0 : rank->uids[with],
                            (uint64_t)(with + 1), 0);
  error = dmi_status_receive(status, process->access.net, &rank->look);
  dmi_doing_waited(noted);
  return error;
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void begin(struct dmi_team_rank *rank, struct dmi_team_wait *wait, bool is_send) {
  struct dmi_team_carry carry;
  dmi_team_lock(rank->teams, &carry);
  if (is_send) {
    dmi_team_port_send(&rank->port, &wait->op, &carry.out);
  } else {
    dmi_team_port_receive(&rank->port, &wait->op, &carry.out);
  }
  dmi_team_unlock(rank->teams, rank, &carry);
}

/* `status` NULL: waits. */
static int32_t run(struct dmi_team_rank *rank, const struct dmi_team_wait *call, bool is_send,
                   DMI_local_status_t *status) {
  DMI_local_status_t own;
  struct dmi_team_wait here = *call, *wait = &here;
  const int32_t with = call->op.peer;
  struct dmi_status *done = dmi_status_of(status ? status : &own);
  int32_t error;
  if (status) {
    wait = malloc(sizeof(*wait));
    if (!wait) return dmi_status_refuse(status, DMI_ENOMEM);
    *wait = *call;
    wait->heap = true;
  }
  wait->status = done;
  dmi_status_begin(done);
  done->asked = asked(rank, with);
  begin(rank, wait, is_send);
  if (status) return DMI_TRUE;
  error = wait_for(rank, wait, with, is_send ? DMI_DOING_TAKEN : DMI_DOING_MESSAGE);
  if (error == DMI_ESIZE)
    error = dmi_because_so(error, "the message has %" PRIu64 " bytes, and the buffer %" PRIu64,
                           here.op.got, here.op.size);
  return error == DMI_OK ? DMI_TRUE : dmi_fail(error);
}

int32_t dmi_team_send(struct dmi_process *process, DMI_local_team_t *team, int32_t rank,
                      const void *buf, int64_t size, DMI_local_status_t *status) {
  struct dmi_team_rank *self = dmi_team_of(process, team);
  struct dmi_team_wait wait = {.op = {.peer = rank, .size = (uint64_t)size}};
  int32_t error = check(self, rank, false, buf, size);
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  memcpy(&wait.op.buf, &buf, sizeof(buf)); /* only read */
  return run(self, &wait, true, status);
}

int32_t dmi_team_recv(struct dmi_process *process, DMI_local_team_t *team, int32_t rank, void *buf,
                      int64_t size, DMI_got_t *got, DMI_local_status_t *status) {
  struct dmi_team_rank *self = dmi_team_of(process, team);
  struct dmi_team_wait wait = {.op = {.peer = rank, .size = (uint64_t)size, .buf = buf},
                               .got = got};
  int32_t error = check(self, rank, true, buf, size);
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  return run(self, &wait, false, status);
}

int32_t dmi_team_probe(struct dmi_process *process, DMI_local_team_t *team, int32_t rank,
                       DMI_got_t *got, int32_t *flag) {
  struct dmi_team_rank *self = dmi_team_of(process, team);
  struct dmi_team_wait wait = {.op = {.peer = rank, .probe = true}, .got = got};
  struct dmi_team_carry carry;
  int32_t error = check(self, rank, true, NULL, 0);
  if (error != DMI_OK) return dmi_fail(error);
  if (!flag) return run(self, &wait, false, NULL);
  dmi_team_lock(self->teams, &carry);
  *flag = dmi_team_port_look(&self->port, &wait.op) && wait.op.error == DMI_OK;
  dmi_team_unlock(self->teams, self, &carry);
  if (wait.op.error != DMI_OK) return dmi_fail(wait.op.error);
  if (*flag && got) *got = (DMI_got_t){(int64_t)wait.op.got, wait.op.from};
  return DMI_TRUE;
}

/* ---- For collective calls ------------------------------------------------------------------- */

static void begin_collective(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t with,
                             bool is_send) {
  wait->op.lane = DMI_TEAM_COLLECTIVE;
  wait->op.peer = with;
  wait->op.probe = false;
  wait->got = NULL;
  wait->heap = false;
  wait->sends = is_send;
  dmi_status_begin(wait->status);
  wait->status->asked = asked(rank, with);
  begin(rank, wait, is_send);
}

void dmi_team_begin_send(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t to,
                         const void *buf, uint64_t size) {
  memcpy(&wait->op.buf, &buf, sizeof(buf)); /* only read */
  wait->op.size = size;
  begin_collective(rank, wait, to, true);
}

void dmi_team_begin_recv(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t from,
                         void *buf, uint64_t size) {
  wait->op.buf = buf;
  wait->op.size = size;
  begin_collective(rank, wait, from, false);
}

int32_t dmi_team_end(struct dmi_team_rank *rank, struct dmi_team_wait *wait) {
  return wait_for(rank, wait, wait->op.peer, wait->sends ? DMI_DOING_TAKEN : DMI_DOING_MESSAGE);
}
