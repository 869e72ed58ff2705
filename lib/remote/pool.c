/*
 * pool.c - the pool as a whole: its clients, its actions, and what is freed when they were taken.
 */
#include "remote/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "remote/pool_int.h"

struct dmi_remote_pool *dmi_remote_pool_new(const struct dmi_remote_pool_config *config) {
  struct dmi_remote_pool *pool = dmi_xalloc(1, sizeof(*pool));
  pool->config = *config;
  if (!pool->config.cores) pool->config.cores = 1;
  if (!pool->config.limit) pool->config.limit = UINT64_MAX;
  return pool;
}

#ifdef DMI_MUTATIONS
void dmi_remote_pool_set_break(struct dmi_remote_pool *pool, enum dmi_remote_pool_break broken) {
  pool->broken = broken;
}
#endif

/* ---- Trash ---------------------------------------------------------------------------------- */

static void free_task(struct dmi_remote_task *task) {
  for (uint32_t i = 0; i < task->call.output_num; i++)
    dmi_remote_why_release(task->call.outputs[i].at.why);
  dmi_remote_why_release(task->why);
  free(task);
}

static void free_value(struct dmi_remote_value *value) {
  free(value->fetch.carried);
  dmi_remote_value_unread(value);
  dmi_remote_why_release(value->at.why);
  dmi_remote_why_release(value->page.why);
  free(value);
}

static void empty_trash(struct dmi_remote_pool *pool) {
  while (pool->old_tasks) {
    struct dmi_remote_task *task = pool->old_tasks;
    pool->old_tasks = task->next;
    free_task(task);
  }
  while (pool->old_values) {
    struct dmi_remote_value *value = pool->old_values;
    pool->old_values = value->next_trash;
    free_value(value);
  }
}

/* ---- Events and actions --------------------------------------------------------------------- */

void dmi_remote_pool_begin(struct dmi_remote_pool *pool) {
  assert(pool->first == pool->num);
  pool->first = pool->num = 0;
  empty_trash(pool);
}

void dmi_remote_pool_end(struct dmi_remote_pool *pool) {
  dmi_remote_pool_fail(pool);
  dmi_remote_pool_admit(pool);
  dmi_remote_pool_fire(pool);
  if (pool->leaves && !pool->empty && !pool->running) {
    pool->empty = true;
    dmi_remote_pool_act(pool, DMI_REMOTE_EMPTY);
  }
}

struct dmi_remote_pool_action *dmi_remote_pool_act(struct dmi_remote_pool *pool,
                                                   enum dmi_remote_pool_do type) {
  struct dmi_remote_pool_action *action;
  DMI_XALLOC_GROW(pool->actions, pool->num, pool->capacity);
  action = &pool->actions[pool->num++];
  memset(action, 0, sizeof(*action));
  action->type = type;
  return action;
}

const struct dmi_remote_pool_action *dmi_remote_pool_next(struct dmi_remote_pool *pool) {
  return pool->first < pool->num ? &pool->actions[pool->first++] : NULL;
}

/* ---- Clients -------------------------------------------------------------------------------- */

struct dmi_remote_pool_client *dmi_remote_pool_client_of(struct dmi_remote_pool *pool,
                                                         dmi_remote_client_t id, bool make) {
  struct dmi_remote_pool_client *client = dmi_remote_table_find(&pool->clients, id, 0);
  if (client || !make || dmi_range_set_has(&pool->closed, dmi_remote_packed(id))) return client;
  client = dmi_xalloc(1, sizeof(*client));
  client->id = id;
  dmi_remote_table_put(&pool->clients, id, 0, client);
  DL_APPEND(pool->all, client);
  return client;
}

/* Never heard again: [first, end). */
static void shut(struct dmi_remote_pool *pool, uint64_t first, uint64_t end) {
  if (!dmi_range_set_add(&pool->closed, first, end)) dmi_xalloc_fail(sizeof(pool->closed));
}

static void close_client(struct dmi_remote_pool *pool, struct dmi_remote_pool_client *client) {
  while (client->tasks) {
    struct dmi_remote_task *task = client->tasks;
    if (task->stage == DMI_REMOTE_RUNNING || task->stage == DMI_REMOTE_BLOCKED) {
      DL_DELETE2(client->tasks, task, prev_own, next_own);
      task->client = NULL;
      for (uint32_t i = 0; i < task->call.output_num; i++)
        if (task->outputs[i]) task->outputs[i]->maker = NULL;
    } else {
      dmi_remote_task_out(pool, task);
      dmi_remote_task_release(pool, task);
      dmi_remote_task_over(pool, task);
    }
  }
  while (client->values)
    dmi_remote_value_close(pool, client->values);
  dmi_remote_table_remove(&pool->clients, client->id, 0);
  DL_DELETE(pool->all, client);
  free(client);
}

void dmi_remote_pool_close(struct dmi_remote_pool *pool, dmi_remote_client_t id) {
  struct dmi_remote_pool_client *client;
  dmi_remote_pool_begin(pool);
  client = dmi_remote_pool_client_of(pool, id, false);
  shut(pool, dmi_remote_packed(id), dmi_remote_packed(id) + 1);
  if (client) close_client(pool, client);
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_gone(struct dmi_remote_pool *pool, dmi_uid_t process) {
  struct dmi_remote_pool_client *client, *next;
  dmi_remote_pool_begin(pool);
  shut(pool, (uint64_t)process << 32, ((uint64_t)process + 1) << 32);
  DL_FOREACH_SAFE(pool->all, client, next) {
    if (client->id.process == process) close_client(pool, client);
  }
  dmi_remote_pool_end(pool);
}

void dmi_remote_pool_free(struct dmi_remote_pool *pool) {
  if (!pool) return;
  while (pool->all)
    close_client(pool, pool->all);
  empty_trash(pool);
  dmi_range_set_clear(&pool->closed);
  dmi_remote_table_free(&pool->values);
  dmi_remote_table_free(&pool->clients);
  free(pool->due);
  free(pool->actions);
  free(pool);
}

/* ---- Questions ------------------------------------------------------------------------------ */

struct dmi_remote_load dmi_remote_pool_load(const struct dmi_remote_pool *pool,
                                            dmi_remote_client_t id) {
  const struct dmi_remote_pool_client *client = dmi_remote_table_find(&pool->clients, id, 0);
  struct dmi_remote_load load = {0};
  load.ready = client ? client->ready : 0;
  load.foreign = (uint32_t)(pool->calls - (client ? client->calls : 0));
  return load;
}

struct dmi_remote_pool_counts dmi_remote_pool_counts(const struct dmi_remote_pool *pool) {
  return (struct dmi_remote_pool_counts){.calls = pool->calls,
                                         .running = pool->running,
                                         .values = pool->values.num,
                                         .made = pool->made,
                                         .used = pool->used,
                                         .carried = pool->carried,
                                         .fired = pool->fired};
}
