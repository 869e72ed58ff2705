/*
 * leave.c - carries out what the handover decides (core/handover.h): a leave's homes, pages and
 * copies, pages and homes of others that come, and forgetting mappings.
 *
 * Runs in the daemon thread.  Locks: a mapping's, then a page's; see docs/locking.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/handover.h"
#include "core/member.h"
#include "node/pager.h"
#include "node/runtime.h"

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
  mapping->map.word = what->word;
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
  dmi_mutex_lock(&process->access.park_lock);
  atomic_store(&map->arriving, 0);
  dmi_mutex_unlock(&process->access.park_lock);
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

static uint32_t env_receiver(void *arg, uint64_t bytes) {
  return dmi_pager_give(((struct dmi_process *)arg)->pager, bytes);
}

void dmi_leave_init(struct dmi_process *process) {
  process->handover_env = (struct dmi_handover_env){.arg = process,
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
                                                    .unlock_step = env_unlock_step,
                                                    .receiver = env_receiver};
  process->handover = dmi_handover_new(&process->access.core, &process->handover_env);
}

void dmi_leave_end(struct dmi_process *process) {
  dmi_handover_free(process->handover);
  process->handover = NULL;
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void carry(struct dmi_process *process, struct dmi_out *out);

/* What was kept until HOME_END goes through the core again. */
static void replay(struct dmi_process *process, struct dmi_mapping *mapping) {
  struct dmi_parked *parked;
  dmi_mutex_lock(&process->access.park_lock);
  parked = mapping->parked;
  mapping->parked = NULL;
  mapping->parked_end = &mapping->parked;
  dmi_mutex_unlock(&process->access.park_lock);
  while (parked) {
    struct dmi_parked *item = parked;
    parked = item->next;
    (void)dmi_access_message(&process->access, item->from, &item->msg);
    free(item);
  }
}

struct lookup {
  struct dmi_wait wait;
  uint64_t number;
};

static void looked_up(struct dmi_process *process, struct dmi_wait *wait,
                      const struct dmi_mact *result) {
  struct lookup *lookup = (struct lookup *)(void *)wait;
  struct dmi_mapping *mapping = NULL;
  struct dmi_out out;
  if (result->error == DMI_OK) {
    mapping = dmi_enter_mapping(process, &result->mapping);
    if (!mapping) dmi_xalloc_fail(sizeof(*mapping));
  }
  dmi_out_init(&out);
  dmi_handover_found(process->handover, lookup->number, mapping ? &mapping->map : NULL, &out);
  free(lookup);
  carry(process, &out);
}

static void look_up(struct dmi_process *process, uint64_t base, uint64_t number) {
  struct lookup *lookup = dmi_xalloc(1, sizeof(*lookup));
  lookup->wait.done = looked_up;
  lookup->number = number;
  dmi_member_lookup(process->member, dmi_wait_add(process, &lookup->wait), base,
                    dmi_events(process));
  dmi_events_carry(process);
}

struct ended_list {
  uint32_t num, room;
  struct dmi_ended *ended;
};

static void ended_add(void *arg, uint64_t number, int64_t value) {
  struct ended_list *list = arg;
  DMI_XALLOC_GROW(list->ended, list->num, list->room);
  list->ended[list->num++] = (struct dmi_ended){number, (uint64_t)value};
}

static void drained(struct dmi_process *process) {
  struct ended_list list = {0, 0, NULL};
  if (dmi_handover_state(process->handover) == DMI_HANDOVER_DRAINED)
    dmi_pager_leave_end(process->pager);
  atomic_store(&process->access.drain, 0);
  dmi_threads_hand_over(process, ended_add, &list);
  dmi_member_drained(process->member, list.ended, list.num, dmi_events(process));
  free(list.ended);
  dmi_events_carry(process);
}

static void carry_one(struct dmi_process *process, struct dmi_act *act) {
  switch ((enum dmi_act_type)act->type) {
    case DMI_ACT_SEND:
      dmi_runtime_send(process, act->to, &act->msg);
      break;
    case DMI_ACT_REPLAY:
      replay(process, of(act->map));
      break;
    case DMI_ACT_FREED:
      dmi_pager_wake(process->pager); /* some of its pages may have stalled */
      dmi_mapping_unref(&process->access.core, of(act->map));
      break;
    case DMI_ACT_LOOKUP:
      look_up(process, act->value, act->number);
      break;
    case DMI_ACT_PROMISED:
      dmi_pager_taken(process->pager, act->to, act->value);
      break;
    case DMI_ACT_TAKEN:
      dmi_pager_count_taken(process->pager);
      break;
    case DMI_ACT_KEPT:
      dmi_pager_kept(process->pager, act->to);
      break;
    case DMI_ACT_DRAINED:
      drained(process);
      break;
    case DMI_ACT_COMPLETE: /* of pages only */
    case DMI_ACT_PARK:
    case DMI_ACT_ROOM:
      break;
  }
}

static void carry(struct dmi_process *process, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++)
    carry_one(process, &out->act[i]);
  dmi_out_free(out);
}

/* ---- Events --------------------------------------------------------------------------------- */

void dmi_leave_start(struct dmi_process *process, uint32_t heir) {
  if (heir) {
    dmi_pager_leave(process->pager, heir);
  } else {
    dmi_pager_keep(process->pager);
    dmi_leave_promised(process, 0);
  }
}

void dmi_leave_refused(struct dmi_process *process) {
  if (dmi_handover_state(process->handover) == DMI_HANDOVER_STAYS)
    dmi_threads_go_on(process->threads); /* else it was dismissed before */
  dmi_member_no_room(process->member, dmi_events(process));
  dmi_events_carry(process);
}

void dmi_leave_room_told(struct dmi_process *process) {
  dmi_member_room(process->member, dmi_events(process));
  dmi_events_carry(process);
}

void dmi_leave_promised(struct dmi_process *process, uint32_t heir) {
  struct dmi_out out;
  dmi_out_init(&out);
  dmi_handover_begin(process->handover, heir, &out);
  if (heir) atomic_store(&process->access.drain, 1);
  carry(process, &out);
  dmi_leave_look(process);
}

void dmi_leave_look(struct dmi_process *process) {
  struct dmi_out out;
  dmi_out_init(&out);
  while (dmi_handover_go_on(process->handover, &out))
    carry(process, &out);
}

bool dmi_leave_message(struct dmi_process *process, uint32_t from, struct dmi_msg *msg) {
  bool good, done = msg->type == DMI_MSG_HOME_DONE;
  struct dmi_out out;
  dmi_out_init(&out);
  good = dmi_handover_message(process->handover, from, msg, &out);
  carry(process, &out);
  if (done) dmi_leave_look(process);
  return good;
}

void dmi_leave_removed(struct dmi_process *process, uint32_t uid, uint32_t heir) {
  dmi_handover_removed(process->handover, uid, heir);
}

void dmi_forget_mapping(struct dmi_process *process, uint64_t base) {
  struct dmi_out out;
  dmi_out_init(&out);
  dmi_handover_forget(process->handover, base, &out);
  carry(process, &out);
}
