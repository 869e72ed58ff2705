/*
 * records.c - the mappings and page records of this process, and their locks, as the handover and
 * the node walk over them (struct dmi_handover_env).
 *
 * Runs in the daemon thread.  Locks: a mapping's, then a page's; see docs/locking.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "node/records.h"

static struct dmi_mapping *of(struct dmi_map *map) {
  return (struct dmi_mapping *)map;
}

/* ---- What the handover walks over ----------------------------------------------------------- */

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

struct visit {
  void (*map)(struct dmi_map *map, void *with);
  void *with;
};

static void visit_map(struct dmi_mapping *mapping, void *arg) {
  const struct visit *visit = arg;
  visit->map(&mapping->map, visit->with);
}

static void env_each_map(void *arg, void (*visit)(struct dmi_map *map, void *with), void *with) {
  struct dmi_process *process = arg;
  struct visit all = {visit, with};
  dmi_space_each(&process->access.space, visit_map, &all);
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

/* Nothing is added to the list while nobody arrives, so it can stay where it is until REPLAY. */
static void env_arrived(void *arg, struct dmi_map *map) {
  struct dmi_process *process = arg;
  dmi_mutex_lock(&process->access.deferred_lock);
  atomic_store(&map->arriving, 0);
  dmi_mutex_unlock(&process->access.deferred_lock);
}

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  struct dmi_process *process = arg;
  int32_t error;
  return make ? dmi_mapping_get(&process->access.core, of(map), index, &error)
              : dmi_mapping_find(of(map), index);
}

static void env_each_record(void *arg, struct dmi_map *map,
                            void (*visit)(struct dmi_page *page, void *with), void *with) {
  (void)arg;
  dmi_mapping_each(of(map), visit, with);
}

static void env_lock(void *arg, struct dmi_page *page) {
  (void)arg;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
}

static void env_unlock(void *arg, struct dmi_page *page) {
  (void)arg;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

static void env_unlock_step(void *arg, struct dmi_page *page, struct dmi_out *out) {
  dmi_access_step_end(&((struct dmi_process *)arg)->access, page, out);
}

void dmi_records_env(struct dmi_process *process, struct dmi_handover_env *env) {
  *env = (struct dmi_handover_env){.arg = process,
                                   .find = env_find,
                                   .enter = env_enter,
                                   .forget = env_forget,
                                   .each_map = env_each_map,
                                   .ref = env_ref,
                                   .unref = env_unref,
                                   .hold = env_hold,
                                   .release = env_release,
                                   .arrived = env_arrived,
                                   .record = env_record,
                                   .each_record = env_each_record,
                                   .lock = env_lock,
                                   .unlock = env_unlock,
                                   .unlock_step = env_unlock_step};
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
