/*
 * pool_ready.c - in which order calls of a pool are fired (docs/remote.md, "The pool").
 *
 * A call is awaited if another server, or several calls here, wait for what it makes.  The client
 * issued some call first, and what that needs is needed first; so those that an awaited call waits
 * for, one behind the other, are due with it, and of all that are due the one that leads to the
 * call with the lowest number is fired first.  A chain of calls whose result is sent away is so
 * ahead of work that only has to be done at some time, and others seldom wait for it.
 */
#include "base/xalloc.h"
#include "remote/pool_int.h"

/* ---- Those that are due, in a heap ---------------------------------------------------------- */

static bool is_before(const struct dmi_remote_task *a, const struct dmi_remote_task *b) {
  return a->due != b->due ? a->due < b->due : a->place < b->place;
}

static void put(struct dmi_remote_pool *pool, size_t at, struct dmi_remote_task *task) {
  pool->due[at] = task;
  task->at = at;
}

static void move_up(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  size_t at = task->at;
  while (at && is_before(task, pool->due[(at - 1) / 2])) {
    put(pool, at, pool->due[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(pool, at, task);
}

static void move_down(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  size_t at = task->at, child;
  while ((child = 2 * at + 1) < pool->due_num) {
    if (child + 1 < pool->due_num && is_before(pool->due[child + 1], pool->due[child])) child++;
    if (!is_before(pool->due[child], task)) break;
    put(pool, at, pool->due[child]);
    at = child;
  }
  put(pool, at, task);
}

static void add_due(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  DMI_XALLOC_GROW(pool->due, pool->due_num, pool->due_capacity);
  DL_APPEND(pool->urgent, task);
  put(pool, pool->due_num++, task);
  move_up(pool, task);
}

static void remove_due(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  struct dmi_remote_task *last = pool->due[--pool->due_num];
  DL_DELETE(pool->urgent, task);
  if (last == task) return;
  put(pool, task->at, last);
  move_up(pool, last);
  move_down(pool, last);
}

/* ---- What is due ---------------------------------------------------------------------------- */

/* Only calls with outputs are awaited. */
static uint64_t number_of(const struct dmi_remote_task *task) {
  return task->call.outputs[0].number;
}

static bool is_awaited(const struct dmi_remote_task *task) {
  for (uint32_t i = 0; i < task->call.output_num; i++) {
    const struct dmi_remote_value *value = task->outputs[i];
    if (value && (value->readers || (value->uses && value->uses->next))) return true;
  }
  return false;
}

static void set_due(struct dmi_remote_pool *pool, struct dmi_remote_task *task, uint64_t due) {
  const bool listed = task->stage == DMI_REMOTE_READY && !task->alone, was = task->due;
  task->due = due;
  if (!listed) return;
  if (was) {
    move_up(pool, task);
  } else {
    DL_DELETE(pool->ready, task);
    add_due(pool, task);
  }
}

#define REACH 256 /* calls that one look goes back to at most */

/* The call is due by then, and so are those that it waits for. */
static void press(struct dmi_remote_pool *pool, struct dmi_remote_task *task, uint64_t due,
                  uint32_t *reach) {
  if ((task->due && task->due <= due) || !*reach) return;
  --*reach;
  set_due(pool, task, due);
  if (task->stage != DMI_REMOTE_WAITING) return;
  for (uint32_t i = 0; i < task->call.input_num; i++) {
    if (task->uses[i].value->maker) press(pool, task->uses[i].value->maker, due, reach);
  }
}

void dmi_remote_task_urge(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  uint32_t reach = REACH;
  press(pool, task, number_of(task), &reach);
}

/* What was not reached from behind may be known by now from the call that comes next. */
static uint64_t due_of(const struct dmi_remote_task *task) {
  uint64_t due = task->due;
  if (!due && is_awaited(task)) return number_of(task);
  for (uint32_t i = 0; i < task->call.output_num && !due; i++) {
    const struct dmi_remote_value *value = task->outputs[i];
    if (value && value->uses) due = value->uses->task->due;
  }
  return due;
}

/* ---- In which order ------------------------------------------------------------------------- */

void dmi_remote_task_ready(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  task->stage = DMI_REMOTE_READY;
  task->place = ++pool->readied;
  task->alone = task->call.flags & DMI_REMOTE_ALONE;
  task->due = due_of(task);
  if (task->alone)
    DL_APPEND(pool->alone, task);
  else if (task->due)
    add_due(pool, task);
  else
    DL_APPEND(pool->ready, task);
}

void dmi_remote_task_unready(struct dmi_remote_pool *pool, struct dmi_remote_task *task) {
  if (task->alone)
    DL_DELETE(pool->alone, task);
  else if (task->due)
    remove_due(pool, task);
  else
    DL_DELETE(pool->ready, task);
}

#define ROW 16 /* that are due and are fired in a row at most, if there are others */

struct dmi_remote_task *dmi_remote_pool_first(struct dmi_remote_pool *pool) {
  struct dmi_remote_task *ready = pool->ready, *urgent = pool->urgent;
  /* If the process is lost, it must have been this call.  It waits only for calls that go on
   * without another one: those that are BLOCKED do not count, on either side, so what they wait for
   * can run; and nothing is fired before it, so its turn comes. */
  if (pool->alone_active) return NULL;
  if (pool->alone) return pool->active ? NULL : pool->alone;
  /* While a call waits inside, the newest one is first: most likely that is what is waited for.
   * In order, each would wait inside before what an older one needs is begun. */
  if (pool->running > pool->active) {
    if (ready) ready = ready->prev;
    if (urgent) urgent = urgent->prev;
    return !urgent || (ready && ready->place > urgent->place) ? ready : urgent;
  }
  if (urgent) urgent = pool->due[0];
  pool->row = ready && urgent && pool->row < ROW ? pool->row + 1 : 0;
  return !urgent || (ready && !pool->row) ? ready : urgent;
}
