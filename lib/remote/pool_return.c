/*
 * pool_return.c - calls that a pool gives back: it leaves, they are stolen, or an input is lost
 * (docs/remote.md, rules 11, 13, 14).
 */
#include "remote/bytes.h"
#include "remote/place.h"
#include "remote/pool_int.h"

bool dmi_remote_task_unfired(const struct dmi_remote_task *task) {
  return task->stage == DMI_REMOTE_WAITING || task->stage == DMI_REMOTE_COMPLETED ||
         task->stage == DMI_REMOTE_FETCHING || task->stage == DMI_REMOTE_READY;
}

static void send_return(struct dmi_remote_pool *pool, const struct dmi_remote_task *task,
                        enum dmi_remote_return reason, uint64_t lost, int64_t addr) {
  struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_RETURN);
  action->to = task->call.client.process;
  action->client = task->call.client;
  action->reason = reason;
  action->number = lost;
  action->result.addr = addr;
  action->call = &task->call;
}

void dmi_remote_task_return(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                            enum dmi_remote_return reason, uint64_t lost, int64_t addr) {
  dmi_remote_task_out(pool, task);
  dmi_remote_task_release(pool, task);
  for (uint32_t i = 0; i < task->call.output_num; i++) {
    struct dmi_remote_value *value = task->outputs[i];
    if (!value) continue;
    value->maker = NULL;
    dmi_remote_value_unread(value);
    dmi_remote_value_settle(pool, value);
  }
  send_return(pool, task, reason, lost, addr);
  dmi_remote_task_over(pool, task);
}

void dmi_remote_value_lost(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  int64_t addr = value->fetch.addr;
  uint64_t number = value->fetch.number;
  /* Calls that have not begun to fetch wait on if it is to be made here again. */
  bool all = value->at.state == DMI_REMOTE_DONE && value->at.addr == addr;
  struct dmi_remote_use *use = value->uses, *next;
  for (; use; use = next) {
    struct dmi_remote_task *task = use->task;
    for (next = use->next; next && next->task == task;)
      next = next->next; /* the same call again */
    if (dmi_remote_task_unfired(task) && (all || task->stage == DMI_REMOTE_FETCHING))
      dmi_remote_task_return(pool, task, DMI_REMOTE_INPUT_LOST, number, addr);
  }
  /* A record that is kept, as the value is made here, or is to be. */
  if (all && !value->uses) dmi_remote_value_forget(pool, value);
}

void dmi_remote_pool_unread(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                            uint32_t input) {
  struct dmi_remote_task *task = run->task;
  const struct dmi_remote_fetch *fetch;
  dmi_remote_pool_begin(pool);
  fetch = task->fetches[input];
  pool->running--;
  pool->fired--;
  if (task->stage == DMI_REMOTE_RUNNING) dmi_remote_task_active(pool, task, false);
  if (task->client) {
    dmi_remote_task_return(pool, task, DMI_REMOTE_INPUT_LOST, fetch->number, fetch->addr);
  } else {
    dmi_remote_task_release(pool, task);
    dmi_remote_task_over(pool, task);
  }
  dmi_remote_pool_end(pool);
}

/* Bytes that are moved if the call runs elsewhere: of inputs that are here, or come, and of outputs
 * that calls here need. */
static uint64_t bytes_to_move(const struct dmi_remote_task *task) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < task->call.input_num; i++) {
    const struct dmi_remote_value *value = task->uses[i].value;
    if (value->made || value->bytes != DMI_REMOTE_NONE)
      bytes = dmi_remote_sum(bytes, value->at.size);
  }
  for (uint32_t i = 0; i < task->call.output_num; i++) {
    if (task->outputs[i] && task->outputs[i]->uses)
      bytes = dmi_remote_sum(bytes, task->call.outputs[i].at.size);
  }
  return bytes;
}

/* Gives back the last calls; most likely nothing was fetched for them.  `before`: so many run
 * before the one that is looked at. */
static void give_back(struct dmi_remote_pool *pool, struct dmi_remote_pool_client *client,
                      uint32_t num, uint64_t rate) {
  struct dmi_remote_task *task = client->spare ? client->spare->prev_spare : NULL;
  const uint64_t each = pool->took / pool->config.cores;
  for (uint64_t before = client->ready; num && before; before--) {
    struct dmi_remote_task *next = task->prev_spare; /* of the first one: the last */
    if (!each || dmi_remote_place_worth(bytes_to_move(task), rate, before * each)) {
      dmi_remote_task_return(pool, task, DMI_REMOTE_STOLEN, 0, 0);
      num--;
    }
    task = next;
  }
}

bool dmi_remote_pool_steal(struct dmi_remote_pool *pool, dmi_remote_client_t id, uint32_t num,
                           uint64_t rate) {
  struct dmi_remote_pool_client *client;
  struct dmi_remote_pool_action *action;
  dmi_remote_pool_begin(pool);
  client = dmi_remote_pool_client_of(pool, id, false);
  if (client) give_back(pool, client, num, rate);
  action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_STOLEN);
  action->to = id.process;
  action->client = id;
  dmi_remote_pool_end(pool);
  return true;
}

static void return_all(struct dmi_remote_pool *pool, struct dmi_remote_pool_client *client) {
  struct dmi_remote_task *task, *next;
  DL_FOREACH_SAFE2(client->tasks, task, next, next_own) {
    if (dmi_remote_task_unfired(task))
      dmi_remote_task_return(pool, task, DMI_REMOTE_LEAVES, 0, 0);
    else if (DMI_BROKEN(pool, DMI_REMOTE_BREAK_UNFIRED))
      send_return(pool, task, DMI_REMOTE_LEAVES, 0, 0);
  }
}

void dmi_remote_pool_leave(struct dmi_remote_pool *pool) {
  struct dmi_remote_pool_client *client;
  dmi_remote_pool_begin(pool);
  pool->leaves = true;
  DL_FOREACH(pool->all, client)
  return_all(pool, client);
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_stay(struct dmi_remote_pool *pool) {
  dmi_remote_pool_begin(pool);
  pool->leaves = pool->empty = false;
  dmi_remote_pool_end(pool);
}
