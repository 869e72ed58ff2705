/*
 * pool_memory.c - memory of a pool: which calls get it, which bytes are fetched into it, and when
 * it is free again (docs/remote.md, rule 12).
 */
#include "remote/pool_int.h"
#include "remote/bytes.h"

/* ---- What counts ---------------------------------------------------------------------------- */

void dmi_remote_value_count(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  bool blocked = value->held && !value->active && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_WAITS);
  bool counts = value->bytes != DMI_REMOTE_NONE && !blocked;
  if (counts == value->counted) return;
  value->counted = counts;
  if (counts)
    pool->used += value->fetch.size;
  else
    pool->used -= value->fetch.size;
}

static void unidle(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  if (!value->idle) return;
  value->idle = false;
  DL_DELETE2(pool->idle, value, prev_idle, next_idle);
}

/* Of bytes that are here and that no call with memory needs: kept, if others wait for them. */
static void rest(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  if (value->held || value->bytes != DMI_REMOTE_HERE || value->idle || !value->uses) return;
  value->idle = true;
  DL_APPEND2(pool->idle, value, prev_idle, next_idle);
}

void dmi_remote_value_release(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  unidle(pool, value);
  dmi_remote_pool_act(pool, DMI_REMOTE_RELEASE)->fetch = &value->fetch;
  value->bytes = DMI_REMOTE_NONE;
  dmi_remote_value_count(pool, value);
}

/* Bytes of inputs and outputs; with `missing` only of those that do not count yet. Marks the
 * inputs, so that one that is there twice counts once. */
static uint64_t bytes_of(struct dmi_remote_pool *pool, const struct dmi_remote_task *task,
                         bool missing) {
  uint64_t bytes = task->room;
  pool->mark++;
  for (uint32_t i = 0; i < task->call.input_num; i++) {
    struct dmi_remote_value *value = task->uses[i].value;
    if (value->mark == pool->mark) continue;
    value->mark = pool->mark;
    if (!missing || !value->counted) bytes = dmi_remote_sum(bytes, value->at.size);
  }
  return bytes;
}

uint64_t dmi_remote_task_bytes(struct dmi_remote_pool *pool, const struct dmi_remote_task *task) {
  return bytes_of(pool, task, false);
}

/* ---- Fetching ------------------------------------------------------------------------------- */

static void fetch(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  value->fetch.addr = value->at.addr;
  value->fetch.size = value->at.size;
  value->fetch.here = value->made && value->page.addr == value->at.addr;
  pool->carried -= value->carried; /* from now on it counts as bytes that are held */
  value->carried = 0;
  value->bytes = DMI_REMOTE_READING;
  dmi_remote_value_count(pool, value);
  dmi_remote_pool_act(pool, DMI_REMOTE_FETCH)->fetch = &value->fetch;
}

static bool is_waited_for(const struct dmi_remote_value *value) {
  const struct dmi_remote_use *use;
  DL_FOREACH(value->uses, use) {
    const struct dmi_remote_task *task = use->task;
    if (task->stage == DMI_REMOTE_WAITING && !(task->call.flags & DMI_REMOTE_LATE)) return true;
  }
  return false;
}

/* Calls that are complete come first, and what is not held by a call can be released, so nobody
 * waits for this memory; but such bytes may be released in vain, and read twice, so half is left.
 */
void dmi_remote_value_ahead(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  const uint64_t most =
      DMI_BROKEN(pool, DMI_REMOTE_BREAK_AHEAD) ? UINT64_MAX : pool->config.limit / 2;
  if (value->at.state != DMI_REMOTE_DONE || value->bytes != DMI_REMOTE_NONE) return;
  if (value->carried || (value->made && value->page.addr == value->at.addr)) return;
  if (pool->leaves || pool->complete) return;
  if (dmi_remote_sum(pool->used, value->at.size) > most || !is_waited_for(value)) return;
  fetch(pool, value);
}

/* The bytes are here. */
static void arrived(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  struct dmi_remote_use *use;
  value->bytes = DMI_REMOTE_HERE;
  DL_FOREACH(value->uses, use) {
    if (use->task->stage == DMI_REMOTE_FETCHING && !--use->task->unread)
      dmi_remote_task_ready(pool, use->task);
  }
  rest(pool, value);
}

void dmi_remote_pool_fetched(struct dmi_remote_pool *pool, struct dmi_remote_fetch *at, bool good) {
  struct dmi_remote_value *value = (struct dmi_remote_value *)at; /* its first field */
  dmi_remote_pool_begin(pool);
  if (value->uses && good) {
    arrived(pool, value);
  } else {
    dmi_remote_value_release(pool, value);
    if (value->uses && value->held && value->at.state == DMI_REMOTE_DONE &&
        value->at.addr != value->fetch.addr) {
      fetch(pool, value); /* it is made again, elsewhere */
    } else if (value->uses) {
      dmi_remote_value_lost(pool, value);
    } else {
      dmi_remote_value_settle(pool, value);
    }
  }
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_unfetched(struct dmi_remote_pool *pool, struct dmi_remote_fetch *at,
                               struct dmi_remote_why *why) {
  struct dmi_remote_value *value = (struct dmi_remote_value *)at; /* its first field */
  struct dmi_remote_use *use;
  dmi_remote_pool_begin(pool);
  dmi_remote_value_release(pool, value);
  DL_FOREACH(value->uses, use) {
    if (use->task->stage == DMI_REMOTE_FETCHING) dmi_remote_task_fail(pool, use->task, why);
  }
  dmi_remote_value_settle(pool, value);
  dmi_remote_pool_end(pool);
}

/* ---- Giving memory to calls ----------------------------------------------------------------- */

/* Releases bytes that only calls without memory need, oldest first, but not those that this call
 * needs (bytes_of has marked them). */
static void make_room(struct dmi_remote_pool *pool, uint64_t most) {
  struct dmi_remote_value *value, *next;
  DL_FOREACH_SAFE2(pool->idle, value, next, next_idle) {
    if (pool->used <= most) return;
    if (value->mark != pool->mark) dmi_remote_value_release(pool, value);
  }
}

static void take(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  task->stage = DMI_REMOTE_FETCHING;
  task->memory = true;
  pool->admitted++;
  pool->used += task->room;
  for (uint32_t i = 0; i < task->call.input_num; i++) {
    struct dmi_remote_value *value = task->uses[i].value;
    value->held++;
    value->active++;
    unidle(pool, value);
    if (value->bytes == DMI_REMOTE_NONE)
      fetch(pool, value);
    else
      dmi_remote_value_count(pool, value);
    task->unread += value->bytes != DMI_REMOTE_HERE;
  }
  if (!task->unread) dmi_remote_task_ready(pool, task);
}

void dmi_remote_pool_admit(struct dmi_remote_pool *pool) {
  struct dmi_remote_task *task;
  while ((task = pool->complete) != NULL) {
    uint64_t need, most;
    if ((task->call.flags & DMI_REMOTE_LATE) && pool->active + pool->admitted >= pool->config.cores)
      return;
    need = bytes_of(pool, task, true);
    most = need < pool->config.limit ? pool->config.limit - need : 0;
    if (pool->used > most) make_room(pool, most);
    if (pool->used > most && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_LIMIT)) return;
    DL_DELETE(pool->complete, task);
    take(pool, task);
  }
}

void dmi_remote_task_release(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  bool memory = task->memory, counts = task->stage != DMI_REMOTE_BLOCKED;
  if (memory && counts) pool->used -= task->room;
  for (uint32_t i = 0; i < task->call.input_num; i++) {
    struct dmi_remote_use *use = &task->uses[i];
    struct dmi_remote_value *value = use->value;
    DL_DELETE(value->uses, use);
    if (memory) value->held--;
    if (memory && counts) value->active--;
    dmi_remote_value_count(pool, value);
    rest(pool, value);
    dmi_remote_value_settle(pool, value);
  }
  task->memory = false;
}

/* ---- Calls that wait inside ----------------------------------------------------------------- */

void dmi_remote_pool_waits(struct dmi_remote_pool *pool, struct dmi_remote_run *run) {
  struct dmi_remote_task *task = run->task;
  dmi_remote_pool_begin(pool);
  if (task->stage == DMI_REMOTE_RUNNING) {
    task->stage = DMI_REMOTE_BLOCKED;
    dmi_remote_task_active(pool, task, false);
    if (!DMI_BROKEN(pool, DMI_REMOTE_BREAK_WAITS)) pool->used -= task->room;
    for (uint32_t i = 0; i < task->call.input_num; i++) {
      task->uses[i].value->active--;
      dmi_remote_value_count(pool, task->uses[i].value);
    }
  }
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_resumes(struct dmi_remote_pool *pool, struct dmi_remote_run *run) {
  struct dmi_remote_task *task = run->task;
  dmi_remote_pool_begin(pool);
  if (task->stage == DMI_REMOTE_BLOCKED) {
    task->stage = DMI_REMOTE_RUNNING;
    dmi_remote_task_active(pool, task, true);
    if (!DMI_BROKEN(pool, DMI_REMOTE_BREAK_WAITS)) pool->used += task->room;
    for (uint32_t i = 0; i < task->call.input_num; i++) {
      task->uses[i].value->active++;
      dmi_remote_value_count(pool, task->uses[i].value);
    }
  }
  dmi_remote_pool_end(pool);
}
