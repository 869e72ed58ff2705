/*
 * ask.c - steps on the tables of teams in global memory; making, ending and resizing teams.
 *
 * A table that is too small is replaced by a larger one, and is told where that is.  It stays until
 * the team ends, since threads may know only the old one.
 */
#include <stdlib.h>
#include <string.h>

#include "access/save.h"
#include "base/error.h"
#include "base/xalloc.h"
#include "node/calls.h"
#include "team/team_int.h"

#define NO_TEAM "there is no team at this address"

/* A DMI_team_t. */
struct object {
  uint64_t made;
  int64_t table; /* the first one */
  uint64_t zero[2];
};
_Static_assert(sizeof(struct object) <= sizeof(DMI_team_t), "fits");

/* ---- At the owner of a table ---------------------------------------------------------------- */

void dmi_team_step(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  struct dmi_team_step step;
  (void)out2, (void)out2_size, (void)tag;
  if (out1_size != (int64_t)sizeof(step) || size < (int64_t)sizeof(struct dmi_team_table)) return;
  memcpy(&step, out1, sizeof(step));
  dmi_team_table_step(page, (uint64_t)size, &step, in, (uint64_t)in_size);
}

/* ---- Who asks ------------------------------------------------------------------------------- */

static struct dmi_access *access_of(const struct dmi_team_at *at) {
  return &at->process->access;
}

static int32_t read_capacity(struct dmi_team_at *at) {
  struct dmi_team_table head;
  if (!dmi_access_read(access_of(at), at->addr, sizeof(head), &head, DMI_GET_READ, NULL))
    return dmi_error_last();
  if (head.made != DMI_TEAM_MADE || head.capacity > DMI_TEAM_RANKS_MOST)
    return dmi_because(DMI_EINVAL, NO_TEAM);
  at->capacity = head.capacity;
  return DMI_OK;
}

int32_t dmi_team_find(struct dmi_process *process, int64_t addr, struct dmi_team_at *at) {
  struct object object;
  if (!dmi_access_read(&process->access, addr, sizeof(object), &object, DMI_GET_READ, NULL))
    return dmi_error_last();
  if (object.made != DMI_TEAM_MADE) return dmi_because(DMI_EINVAL, NO_TEAM);
  *at = (struct dmi_team_at){.process = process, .addr = object.table};
  return read_capacity(at);
}

static int32_t ask_once(const struct dmi_team_at *at, const struct dmi_team_step *step, void *in,
                        uint64_t in_size) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_USER,
                              .addr = at->addr,
                              .size = (int64_t)dmi_team_table_size(at->capacity),
                              .out1 = step,
                              .in = in,
                              .sizes = {sizeof(*step), 0, in_size},
                              .tag = DMI_STEP_TEAM,
                              .mode = DMI_PUT_ATOMIC};
  return dmi_access_rmw(access_of(at), &call, NULL) ? DMI_OK : dmi_error_last();
}

/* Those whom it may concern look at the table again: an epoch has begun, or those that leave may
 * go, or a rank of one that joins is cut off. */
static void tell_epoch(const struct dmi_team_at *at, const struct dmi_team_answer *answer,
                       const struct dmi_team_slot *slots) {
  struct dmi_msg msg = {.type = DMI_TEAM_EPOCH, .map = answer->team};
  uint32_t *uids = dmi_xalloc(3 * (size_t)answer->capacity, sizeof(*uids)), num = 0;
  msg.team.epoch = answer->epoch;
  for (uint32_t i = 0; i < answer->capacity; i++) {
    uids[num++] = slots[i].member;
    uids[num++] = slots[i].was;
    uids[num++] = slots[i].next;
  }
  dmi_team_tell(at->process->teams, &msg, uids, num);
  free(uids);
}

/* The program may have overwritten the table. */
static bool is_right(const struct dmi_team_at *at, const struct dmi_team_step *step,
                     const struct dmi_team_answer *answer) {
  if (answer->capacity != at->capacity) return false;
  if (answer->size < 0 || (uint32_t)answer->size > answer->capacity) return false;
  if (step->what != DMI_TEAM_JOIN || answer->error != DMI_OK) return true;
  return answer->rank >= 0 && (uint32_t)answer->rank < answer->capacity;
}

int32_t dmi_team_ask(struct dmi_team_at *at, const struct dmi_team_step *step,
                     struct dmi_team_answer *answer, struct dmi_team_slot **slots) {
  for (;;) {
    uint64_t size = sizeof(*answer) + at->capacity * sizeof(struct dmi_team_slot);
    char *in = calloc(1, size);
    int32_t error;
    if (!in) return DMI_ENOMEM;
    error = ask_once(at, step, in, size);
    memcpy(answer, in, sizeof(*answer));
    if (error == DMI_OK && answer->made != DMI_TEAM_MADE) error = dmi_because(DMI_EINVAL, NO_TEAM);
    if (error == DMI_OK && answer->error == DMI_TEAM_HAS_MOVED) {
      free(in);
      at->addr = answer->moved;
      error = read_capacity(at);
      if (error != DMI_OK) return error;
      continue;
    }
    if (error == DMI_OK && !is_right(at, step, answer)) error = dmi_because(DMI_EINVAL, NO_TEAM);
    if (error == DMI_OK && answer->news)
      tell_epoch(at, answer, (const struct dmi_team_slot *)(void *)(in + sizeof(*answer)));
    if (error == DMI_OK && slots) {
      memmove(in, in + sizeof(*answer), size - sizeof(*answer));
      *slots = (struct dmi_team_slot *)(void *)in;
    } else {
      free(in);
    }
    return error == DMI_OK ? answer->error : error;
  }
}

/* ---- Teams ---------------------------------------------------------------------------------- */

static int32_t check_size(int32_t size) {
  if (size <= 0) return dmi_because_of(DMI_EINVAL, "the number of ranks is not positive", size);
  if (size > DMI_TEAM_RANKS_MOST)
    return dmi_because_of(DMI_EINVAL, "a team has at most 1048576 ranks", size);
  return DMI_OK;
}

/* A new mapping with these bytes. */
static int32_t new_table(struct dmi_process *process, const struct dmi_team_table *table,
                         int64_t *addr) {
  int64_t size = (int64_t)dmi_team_table_size(table->capacity);
  int32_t error;
  if (!dmi_call_mmap(process, addr, size, 1, NULL)) return dmi_error_last();
  (void)dmi_save(&process->access, *addr, size, true);
  if (dmi_access_write(&process->access, *addr, size, table, DMI_PUT_WRITE, NULL)) return DMI_OK;
  error = dmi_error_last();
  (void)dmi_call_munmap(process, *addr, NULL);
  return error;
}

/* No other team has had it: nor has a message of one. */
static uint64_t new_number(struct dmi_process *process) {
  uint64_t number;
  dmi_lock(&process->teams->lock, DMI_RANK_LEAF);
  number = (uint64_t)process->access.core.self << 32 | ++process->teams->made;
  dmi_unlock(&process->teams->lock, DMI_RANK_LEAF);
  return number;
}

int32_t dmi_team_init(struct dmi_process *process, int64_t addr, int32_t size) {
  struct object object = {.made = DMI_TEAM_MADE};
  struct dmi_team_table *table;
  int32_t error = check_size(size);
  if (error != DMI_OK) return dmi_fail(error);
  table = malloc(dmi_team_table_size((uint32_t)size));
  if (!table) return dmi_fail(DMI_ENOMEM);
  dmi_team_table_init(table, new_number(process), size, (uint32_t)size);
  error = new_table(process, table, &object.table);
  free(table);
  if (error == DMI_OK &&
      !dmi_access_write(&process->access, addr, sizeof(object), &object, DMI_PUT_WRITE, NULL)) {
    error = dmi_error_last();
    (void)dmi_call_munmap(process, object.table, NULL);
  }
  return dmi_result(error);
}

int32_t dmi_team_destroy(struct dmi_process *process, int64_t addr) {
  struct dmi_team_at at;
  struct dmi_team_answer answer;
  const struct dmi_team_step step = {.what = DMI_TEAM_END};
  struct object object, none = {0};
  int32_t error = dmi_team_find(process, addr, &at);
  if (error == DMI_OK) error = dmi_team_ask_free(&at, &step, &answer);
  if (error == DMI_EBUSY) (void)dmi_because(error, "threads have ranks of the team");
  if (error != DMI_OK) return dmi_fail(error);
  if (!dmi_access_read(&process->access, addr, sizeof(object), &object, DMI_GET_READ, NULL) ||
      !dmi_access_write(&process->access, addr, sizeof(none), &none, DMI_PUT_WRITE, NULL))
    return DMI_FALSE;
  while (object.table) {
    struct dmi_team_table head;
    if (!dmi_access_read(&process->access, object.table, sizeof(head), &head, DMI_GET_READ, NULL))
      return DMI_FALSE;
    (void)dmi_call_munmap(process, object.table, NULL);
    object.table = head.moved;
  }
  return DMI_TRUE;
}

/* The table is to have space for `size` ranks: a larger one with all that this one has takes its
 * place.  DMI_EBUSY: this one has changed meanwhile.  Who is lost in between leaves a mapping that
 * nobody uses. */
static int32_t grow(struct dmi_team_at *at, int32_t size) {
  struct dmi_team_at more = {.process = at->process, .capacity = (uint32_t)size};
  struct dmi_team_step step = {.what = DMI_TEAM_LOOK};
  struct dmi_team_answer answer;
  struct dmi_team_slot *slots = NULL;
  struct dmi_team_table *table;
  int32_t error = dmi_team_ask(at, &step, &answer, &slots);
  if (error != DMI_OK) return error;
  table = answer.capacity < (uint32_t)size ? malloc(dmi_team_table_size((uint32_t)size)) : NULL;
  if (table) {
    dmi_team_table_grow(table, &answer, slots, (uint32_t)size);
    error = new_table(at->process, table, &more.addr);
  } else {
    error = answer.capacity < (uint32_t)size ? DMI_ENOMEM : DMI_EBUSY;
  }
  free(slots);
  free(table);
  if (error != DMI_OK) return error;
  step = (struct dmi_team_step){.what = DMI_TEAM_MOVE,
                                .steps = answer.steps,
                                .size = (int32_t)answer.capacity,
                                .addr = more.addr};
  error = dmi_team_ask(at, &step, &answer, NULL);
  if (error != DMI_OK) (void)dmi_call_munmap(at->process, more.addr, NULL);
  if (error == DMI_OK) *at = more;
  return error;
}

int32_t dmi_team_resize(struct dmi_process *process, int64_t addr, int32_t size) {
  struct dmi_team_at at;
  struct dmi_team_answer answer;
  const struct dmi_team_step step = {.what = DMI_TEAM_RESIZE, .size = size};
  int32_t error = dmi_team_find(process, addr, &at);
  if (error == DMI_OK) error = check_size(size);
  if (error != DMI_OK) return dmi_fail(error);
  while ((error = dmi_team_ask(&at, &step, &answer, NULL)) == DMI_ESIZE) {
    error = grow(&at, size);
    if (error != DMI_OK && error != DMI_EBUSY) break;
  }
  return dmi_result(error);
}
