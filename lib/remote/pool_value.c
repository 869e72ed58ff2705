/*
 * pool_value.c - what a pool knows of values: records, HAVE, WANT, DROP (docs/remote.md, rules 9 to
 * 11).
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "remote/pool_int.h"

#define CARRIED 16 /* of this many bytes of the limit one may be kept that came with HAVEs */

/* ---- Records -------------------------------------------------------------------------------- */

struct dmi_remote_value *dmi_remote_value_get(struct dmi_remote_pool *pool,
                                              struct dmi_remote_pool_client *client,
                                              uint64_t number) {
  struct dmi_remote_value *value = dmi_remote_table_find(&pool->values, client->id, number);
  if (value) return value;
  value = dmi_xalloc(1, sizeof(*value));
  value->fetch.client = client->id;
  value->fetch.number = number;
  value->client = client;
  dmi_remote_table_put(&pool->values, client->id, number, value);
  DL_APPEND2(client->values, value, prev_own, next_own);
  return value;
}

/* Out of the table: no name finds it any more. */
static void hide(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  dmi_remote_table_remove(&pool->values, value->fetch.client, value->fetch.number);
  DL_DELETE2(value->client->values, value, prev_own, next_own);
  value->client = NULL;
  value->orphan = true;
}

void dmi_remote_value_settle(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  if (value->uses) return;
  if (value->bytes == DMI_REMOTE_HERE) dmi_remote_value_release(pool, value);
  if (!value->orphan) {
    if (value->made || value->maker || value->early) return;
    if (value->bytes == DMI_REMOTE_READING && DMI_BROKEN(pool, DMI_REMOTE_BREAK_STALE)) return;
    /* What a fetch that still goes on will bring may be the bytes of another value: the page may be
       used again from now on. So a call that comes later does not find it. */
    hide(pool, value);
  }
  if (value->bytes == DMI_REMOTE_READING) return;
  pool->carried -= value->carried;
  value->carried = 0;
  value->next_trash = pool->old_values;
  pool->old_values = value;
}

void dmi_remote_value_unread(struct dmi_remote_value *value) {
  while (value->readers) {
    struct dmi_remote_reader *reader = value->readers;
    value->readers = reader->next;
    free(reader);
  }
}

static void free_page(struct dmi_remote_pool *pool, struct dmi_remote_value *value, bool retire) {
  value->made = false;
  pool->made--;
  if (value->page.state == DMI_REMOTE_DONE) {
    struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_FREE);
    action->client = value->fetch.client;
    action->number = value->fetch.number;
    action->result = value->page;
    action->retire = retire;
  }
}

void dmi_remote_value_close(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  if (value->made) free_page(pool, value, false);
  value->maker = NULL;
  value->early = 0;
  hide(pool, value);
  dmi_remote_value_settle(pool, value);
}

/* ---- What is known -------------------------------------------------------------------------- */

static void set(struct dmi_remote_result *at, const struct dmi_remote_result *result) {
  if (result->why) dmi_remote_why_hold(result->why);
  dmi_remote_why_release(at->why);
  *at = *result;
}

void dmi_remote_value_forget(struct dmi_remote_pool *pool, struct dmi_remote_value *value) {
  const struct dmi_remote_result nothing = {.state = DMI_REMOTE_PENDING};
  /* A call that is to come will not be told again: it has to find the lost page, and go back. */
  if (value->early && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_KEEP)) return;
  set(&value->at, value->made ? &value->page : &nothing);
}

/* Tells the calls here.  `was`: what was known before. */
static void tell_calls(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                       enum dmi_remote_state was) {
  struct dmi_remote_use *use;
  bool failed = value->at.state == DMI_REMOTE_FAILED && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_POISON);
  DL_FOREACH(value->uses, use) {
    struct dmi_remote_task *task = use->task;
    if (!dmi_remote_task_unfired(task)) continue;
    if (failed) {
      dmi_remote_task_fail(pool, task, value->at.why);
    } else if (was == DMI_REMOTE_PENDING && task->stage == DMI_REMOTE_WAITING && !--task->unknown) {
      dmi_remote_task_complete(pool, task);
    }
  }
}

void dmi_remote_value_learn(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                            uint32_t gen, const struct dmi_remote_result *result) {
  enum dmi_remote_state was = value->at.state;
  if (was == DMI_REMOTE_FAILED) return;
  set(&value->at, result);
  if (value->gen < gen) value->gen = gen;
  tell_calls(pool, value, was);
}

/* True if a HAVE tells of pages that the client may have dropped since, which other values may use
 * now. */
static bool is_old(const struct dmi_remote_pool *pool, const struct dmi_remote_value *value,
                   uint32_t gen) {
  /* What was made here is newer, unless it is lost, which this pool may not have heard yet. */
  if (value->made && gen <= value->page_gen) return true;
  return gen < value->gen && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_GEN);
}

/* ---- HAVE, WANT, DROP ----------------------------------------------------------------------- */

/* Keeps bytes that came with a HAVE, for calls that need them: so that these need not be read. They
 * count only when a call has memory, so they are few. */
static void keep_bytes(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                       const void *bytes, uint64_t size) {
  if (value->at.state != DMI_REMOTE_DONE || value->at.size != size) return;
  if (!value->uses && !value->early) return;
  if (value->bytes != DMI_REMOTE_NONE || value->fetch.carried) return;
  if (size > pool->config.limit / CARRIED - pool->carried) return;
  value->fetch.carried = dmi_xalloc(1, size);
  memcpy(value->fetch.carried, bytes, size);
  value->carried = size;
  pool->carried += size;
}

bool dmi_remote_pool_have(struct dmi_remote_pool *pool, dmi_remote_client_t id, uint64_t number,
                          uint32_t gen, uint64_t seq, const struct dmi_remote_result *result,
                          const void *bytes) {
  struct dmi_remote_pool_client *client;
  struct dmi_remote_value *value;
  bool early;
  if (result->state == DMI_REMOTE_PENDING) return false;
  if (result->state == DMI_REMOTE_FAILED && !result->why) return false;
  dmi_remote_pool_begin(pool);
  client = dmi_remote_pool_client_of(pool, id, true);
  if (client) {
    early = seq > client->received && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_EARLY);
    early |= DMI_BROKEN(pool, DMI_REMOTE_BREAK_LATE);
    value = early ? dmi_remote_value_get(pool, client, number)
                  : dmi_remote_table_find(&pool->values, id, number);
    if (early && value->early < seq) value->early = seq;
    if (value && !is_old(pool, value, gen)) dmi_remote_value_learn(pool, value, gen, result);
    if (value && bytes && result->size) keep_bytes(pool, value, bytes, result->size);
    if (value) dmi_remote_value_ahead(pool, value);
  }
  dmi_remote_pool_end(pool);
  return true;
}

static void send_have(struct dmi_remote_pool *pool, const struct dmi_remote_value *value,
                      dmi_uid_t to, uint64_t seq, const void *bytes) {
  struct dmi_remote_pool_action *action = dmi_remote_pool_act(pool, DMI_REMOTE_SEND_HAVE);
  action->to = to;
  action->client = value->fetch.client;
  action->number = value->fetch.number;
  action->gen = value->page_gen;
  action->seq = seq;
  action->result = value->page;
  action->bytes = bytes;
}

void dmi_remote_value_make(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                           uint32_t gen, const struct dmi_remote_result *result,
                           const void *bytes) {
  if (value->made) free_page(pool, value, false); /* a correct client has dropped it */
  pool->made++;
  value->made = true;
  value->page_gen = gen;
  set(&value->page, result);
  for (const struct dmi_remote_reader *at = value->readers; at; at = at->next)
    send_have(pool, value, at->to, at->seq, bytes);
  dmi_remote_value_unread(value);
  /* A call that knows another address goes on with that: the client may drop this page. */
  if (value->at.state == DMI_REMOTE_PENDING || !value->uses)
    dmi_remote_value_learn(pool, value, gen, result);
}

/* One HAVE is enough for several calls of a server: the latest one. */
static void add_reader(struct dmi_remote_value *value, dmi_uid_t to, uint64_t seq) {
  struct dmi_remote_reader *reader = value->readers;
  while (reader && reader->to != to)
    reader = reader->next;
  if (!reader) {
    reader = dmi_xalloc(1, sizeof(*reader));
    reader->to = to;
    reader->next = value->readers;
    value->readers = reader;
  }
  if (reader->seq < seq) reader->seq = seq;
}

bool dmi_remote_pool_want(struct dmi_remote_pool *pool, dmi_remote_client_t id, uint64_t number,
                          dmi_uid_t to, uint64_t seq) {
  struct dmi_remote_value *value;
  if (!to || !seq) return false;
  dmi_remote_pool_begin(pool);
  value = dmi_remote_table_find(&pool->values, id, number);
  if (value && value->made) {
    if (!DMI_BROKEN(pool, DMI_REMOTE_BREAK_TOLD)) send_have(pool, value, to, seq, NULL);
  } else if (value && value->maker) {
    add_reader(value, to, seq);
    dmi_remote_task_urge(pool, value->maker);
  }
  dmi_remote_pool_end(pool);
  return true;
}

bool dmi_remote_pool_drop(struct dmi_remote_pool *pool, dmi_remote_client_t id, uint64_t number,
                          bool lost) {
  struct dmi_remote_value *value;
  dmi_remote_pool_begin(pool);
  value = dmi_remote_table_find(&pool->values, id, number);
  if (value && value->made) {
    bool is_page = value->at.state == value->page.state && value->at.addr == value->page.addr;
    free_page(pool, value, lost && !DMI_BROKEN(pool, DMI_REMOTE_BREAK_RETIRE));
    /* Calls that know the lost page will try to read it, and go back. */
    if (!value->uses && is_page) dmi_remote_value_forget(pool, value);
    dmi_remote_value_settle(pool, value);
  }
  dmi_remote_pool_end(pool);
  return true;
}
