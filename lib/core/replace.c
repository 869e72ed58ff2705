/*
 * replace.c - the replacement policy: a clock hand for each mapping, larger pages first.
 *
 * A sweep goes round all mappings once, those with the largest pages first. Copies leave when they
 * are found. Owned pages are noted, as many as are needed, and leave when there are no more copies
 * of this size. A page with the bit USED only loses this bit, so if one round is not enough, the
 * second one finds all pages.
 *
 * Must not use locks, page tables or messages.
 */
#include "core/replace.h"

#include <stdlib.h>

enum dmi_class dmi_replace_class(const struct dmi_look *look) {
  if (look->saved) return DMI_CLASS_NONE;
  if (look->droppable) return DMI_CLASS_COPY;
  if (!look->offerable) return DMI_CLASS_NONE;
  return look->shared ? DMI_CLASS_SHARED : DMI_CLASS_SOLE;
}

/* The state of a sweep. */
struct sweep {
  struct dmi_replace *work;
  const struct dmi_replace_env *env;
  struct dmi_replace_map *map;
  uint64_t need, made;
  enum dmi_class last;
  bool no_copies; /* `go` returned NOWHERE for copies of this size */
};

static bool enough(const struct sweep *sweep) {
  return sweep->made >= sweep->need;
}

/* True if as many pages of this class are noted as could be needed. */
static bool noted_enough(const struct sweep *sweep, const struct dmi_replace_found *found,
                         uint64_t page_size) {
  uint64_t left = sweep->need - sweep->made;
  return found->num == DMI_REPLACE_MOST || found->num > (left - 1) / page_size;
}

static void note(struct dmi_replace_found *found, uint64_t map, uint64_t index) {
  found->page[found->num].map = map;
  found->page[found->num].index = index;
  found->num++;
}

/* Handles one page. False: enough pages of its class are noted, so it was left as it is. */
static bool pass(struct sweep *sweep, uint64_t at, const struct dmi_look *look) {
  struct dmi_replace_map *map = &sweep->map[at];
  enum dmi_class class = dmi_replace_class(look);
  struct dmi_replace_found *found;
  if (class == DMI_CLASS_NONE || class > sweep->last) return true;
  if (class == DMI_CLASS_COPY) {
    if (sweep->no_copies) return true;
    if (look->used) {
      sweep->env->spare(sweep->env->arg, map->map, look->index);
    } else {
      uint64_t bytes = sweep->env->go(sweep->env->arg, map->map, look->index, class);
      sweep->no_copies = bytes == DMI_REPLACE_NOWHERE;
      if (!sweep->no_copies) sweep->made += bytes;
    }
    return true;
  }
  found = &sweep->work->found[class - DMI_CLASS_SHARED];
  if (noted_enough(sweep, found, map->page_size)) return class != DMI_CLASS_SOLE;
  if (look->used) {
    sweep->env->spare(sweep->env->arg, map->map, look->index);
  } else {
    note(found, at, look->index);
  }
  return true;
}

/* Goes round a mapping once, starting at its hand. */
static void go_round(struct sweep *sweep, uint64_t at) {
  struct dmi_replace_map *map = &sweep->map[at];
  uint64_t start = *map->hand, from = start;
  bool wrapped = false, passed = true;
  struct dmi_look look;
  while (!enough(sweep)) {
    if (!sweep->env->look(sweep->env->arg, map->map, from, &look)) {
      if (wrapped) return;
      wrapped = true;
      from = 0;
      continue;
    }
    if (wrapped && look.index >= start) return;
    sweep->work->looks++;
    if (!pass(sweep, at, &look) && passed) { /* the next sweep begins here */
      passed = false;
      *map->hand = look.index;
    }
    from = look.index + 1;
  }
  if (passed) *map->hand = from;
}

/* Evicts the noted pages until it is enough. The hand goes back to the first page that stays. */
static void go_noted(struct sweep *sweep, enum dmi_class class) {
  struct dmi_replace_found *found = &sweep->work->found[class - DMI_CLASS_SHARED];
  uint64_t i;
  for (i = 0; i < found->num && !enough(sweep); i++) {
    struct dmi_replace_map *map = &sweep->map[found->page[i].map];
    uint64_t bytes = sweep->env->go(sweep->env->arg, map->map, found->page[i].index, class);
    if (bytes == DMI_REPLACE_NOWHERE) break;
    sweep->made += bytes;
  }
  if (class != DMI_CLASS_SOLE) return;
  for (uint64_t left = found->num; left-- > i;)
    *sweep->map[found->page[left].map].hand = found->page[left].index;
}

/* All mappings of one size, [first, end). */
static void go_size(struct sweep *sweep, uint64_t first, uint64_t end) {
  sweep->work->found[0].num = sweep->work->found[1].num = 0;
  sweep->no_copies = false;
  for (uint64_t i = 0; i < end - first && !enough(sweep); i++)
    go_round(sweep, first + (i + sweep->work->turn) % (end - first));
  if (sweep->last >= DMI_CLASS_SHARED) go_noted(sweep, DMI_CLASS_SHARED);
  if (sweep->last >= DMI_CLASS_SOLE) go_noted(sweep, DMI_CLASS_SOLE);
}

static int larger_first(const void *a, const void *b) {
  uint64_t x = ((const struct dmi_replace_map *)a)->page_size;
  uint64_t y = ((const struct dmi_replace_map *)b)->page_size;
  return (x < y) - (x > y);
}

uint64_t dmi_replace_sweep(struct dmi_replace *work, const struct dmi_replace_env *env,
                           struct dmi_replace_map *map, uint64_t num, uint64_t need,
                           enum dmi_class last) {
  struct sweep sweep = {work, env, map, need, 0, last, false};
  if (num) qsort(map, num, sizeof(*map), larger_first);
  work->looks = 0;
  work->turn++;
  for (int round = 0; round < 2; round++) {
    uint64_t end;
    for (uint64_t first = 0; first < num && !enough(&sweep); first = end) {
      for (end = first + 1; end < num && map[end].page_size == map[first].page_size; end++)
        continue;
      go_size(&sweep, first, end);
    }
  }
  return sweep.made;
}

uint32_t dmi_replace_target(const struct dmi_replace_member *member, uint64_t num,
                            const uint32_t *holder, uint64_t holders, uint64_t bytes) {
  const struct dmi_replace_member *best = NULL;
  bool holds = false;
  for (uint64_t i = 0; i < num; i++) {
    bool has = false;
    if (member[i].capacity < bytes) continue;
    for (uint64_t h = 0; h < holders && !has; h++)
      has = holder[h] == member[i].uid;
    if (holds && !has) continue;
    if (!best || (has && !holds) || member[i].capacity > best->capacity) best = &member[i];
    holds = has;
  }
  return best ? best->uid : 0;
}
