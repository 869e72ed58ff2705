/*
 * records.c - gives the handover and the node access to the mappings and page records of this
 * process, and to their locks (struct dmi_handover_env).
 *
 * Runs in the daemon thread.  Locks: a mapping's, then a page's; see docs/locking.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "msg/wire.h"
#include "node/records.h"
#include "node/runtime.h"

static struct dmi_mapping *of(struct dmi_map *map) {
  return (struct dmi_mapping *)map;
}

/* ---- Functions of struct dmi_handover_env --------------------------------------------------- */

static struct dmi_map *env_find(void *arg, uint64_t base) {
  struct dmi_process *process = arg;
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, base);
  dmi_epoch_leave(); /* only this thread removes mappings */
  return mapping && mapping->map.base == base ? &mapping->map : NULL;
}

static void env_enter(void *arg, const struct dmi_map *what) {
  struct dmi_process *process = arg;
  struct dmi_mapping *mapping =
      dmi_mapping_new(what->base, what->page_size, what->page_num, atomic_load(&what->home));
  if (!mapping) dmi_xalloc_fail(sizeof(*mapping));
  mapping->map.tag = what->tag;
  atomic_store(&mapping->map.arriving, atomic_load(&what->arriving));
  dmi_space_add(&process->access.space, &process->access.core, mapping);
}

static void env_forget(void *arg, struct dmi_map *map) {
  struct dmi_process *process = arg;
  (void)dmi_space_remove(&process->access.space, map->base);
  dmi_mutex_lock(&of(map)->lock);
  atomic_store(&of(map)->dead, 1);
  dmi_mutex_unlock(&of(map)->lock);
}

static struct dmi_map *env_next_map(void *arg, uint64_t base) {
  struct dmi_process *process = arg;
  struct dmi_mapping *mapping = dmi_space_next(&process->access.space, base);
  return mapping ? &mapping->map : NULL;
}

static bool env_ref(void *arg, struct dmi_map *map) {
  (void)arg;
  return dmi_mapping_ref(of(map));
}

static void env_unref(void *arg, struct dmi_map *map) {
  dmi_mapping_unref(&((struct dmi_process *)arg)->access.core, of(map));
}

static void env_hold(void *arg, struct dmi_map *map) {
  (void)arg;
  dmi_mutex_lock(&of(map)->lock);
}

static void env_release(void *arg, struct dmi_map *map) {
  (void)arg;
  dmi_mutex_unlock(&of(map)->lock);
}

/* No more messages are deferred when the home is not arriving any more, so the list can stay as it
 * is until REPLAY. */
static void env_arrived(void *arg, struct dmi_map *map) {
  struct dmi_process *process = arg;
  dmi_mutex_lock(&process->access.deferred_lock);
  atomic_store(&map->arriving, 0);
  dmi_mutex_unlock(&process->access.deferred_lock);
}

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  struct dmi_process *process = arg;
  int32_t error;
  struct dmi_page *page = make ? dmi_mapping_get(&process->access.core, of(map), index, &error)
                               : dmi_mapping_find(of(map), index);
  if (page) dmi_lock(&page->lock, DMI_RANK_PAGE);
  return page;
}

static struct dmi_page *env_next_record(void *arg, struct dmi_map *map, uint64_t from) {
  struct dmi_page *page = dmi_mapping_next(of(map), from);
  (void)arg;
  if (page) dmi_lock(&page->lock, DMI_RANK_PAGE);
  return page;
}

static void env_unlock(void *arg, struct dmi_page *page) {
  (void)arg;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

static void env_step_end(void *arg, struct dmi_page *page, struct dmi_out *out) {
  dmi_access_step_end(&((struct dmi_process *)arg)->access, page, out);
}

void dmi_records_env(struct dmi_process *process, struct dmi_handover_env *env) {
  *env = (struct dmi_handover_env){.arg = process,
                                   .find = env_find,
                                   .enter = env_enter,
                                   .forget = env_forget,
                                   .next_map = env_next_map,
                                   .ref = env_ref,
                                   .unref = env_unref,
                                   .hold = env_hold,
                                   .release = env_release,
                                   .arrived = env_arrived,
                                   .record = env_record,
                                   .next_record = env_next_record,
                                   .unlock = env_unlock,
                                   .step_end = env_step_end};
}

/* ---- Actions -------------------------------------------------------------------------------- */

void dmi_records_replay(struct dmi_process *process, struct dmi_map *map) {
  struct dmi_mapping *mapping = of(map);
  struct dmi_deferred_request *deferred;
  dmi_mutex_lock(&process->access.deferred_lock);
  deferred = mapping->deferred;
  mapping->deferred = NULL;
  mapping->deferred_end = &mapping->deferred;
  dmi_mutex_unlock(&process->access.deferred_lock);
  while (deferred) {
    struct dmi_deferred_request *item = deferred;
    deferred = item->next;
    (void)dmi_access_message(&process->access, item->from, &item->msg);
    free(item);
  }
}

void dmi_records_freed(struct dmi_process *process, struct dmi_map *map) {
  dmi_mapping_unref(&process->access.core, of(map));
}

/* ---- The recovery from a loss ---------------------------------------------------------------- */

static struct dmi_req *ops_next(void *arg, uint64_t *at, struct dmi_page **page) {
  return dmi_access_next_op(&((struct dmi_process *)arg)->access, at, page);
}

static void ops_settle(void *arg) {
  dmi_access_self(&((struct dmi_process *)arg)->access);
}

static bool ops_speaks(void *arg, dmi_uid_t uid) {
  return dmi_net_connected(((struct dmi_process *)arg)->access.net, uid);
}

static void ops_lock(void *arg) {
  dmi_mutex_lock(&((struct dmi_process *)arg)->recover_lock);
}

static void ops_unlock(void *arg) {
  dmi_mutex_unlock(&((struct dmi_process *)arg)->recover_lock);
}

void dmi_records_ops(struct dmi_process *process, struct dmi_recover_env *env) {
  *env = (struct dmi_recover_env){.arg = process,
                                  .next_op = ops_next,
                                  .settle = ops_settle,
                                  .speaks = ops_speaks,
                                  .lock = ops_lock,
                                  .unlock = ops_unlock};
}

/* What a process has sent that was lost meanwhile is not given to anybody. */
static bool is_there(const struct dmi_core *core, dmi_uid_t uid) {
  return core->is_member(core->arg, uid) || core->is_there(core->arg, uid);
}

void dmi_records_replay_held(struct dmi_process *process) {
  struct dmi_deferred_request *held = dmi_access_take_held(&process->access);
  while (held) {
    struct dmi_deferred_request *item = held;
    enum dmi_msg_class class = dmi_wire_class(&item->msg);
    held = item->next;
    item->next = NULL;
    if (!is_there(&process->access.core, item->from)) {
      dmi_access_free_held(item);
      continue;
    }
    if (class == DMI_CLASS_PAGE) {
      (void)dmi_access_message(&process->access, item->from, &item->msg);
    } else {
      struct dmi_input in = {
          .type = DMI_IN_MESSAGE, .id = item->from, .msg = &item->msg, .class = class};
      (void)dmi_actions_input(process, &in);
    }
    free(item);
  }
}
