/*
 * profile.c - see profile.h.
 */
#include "access/profile.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "access/access.h"
#include "base/epoch.h"
#include "base/lock.h"

#define FAULT_NS 1000 /* what a fault counts for when a line has to go */

struct key {
  const void *caller;
  uint64_t mapping;
};

struct line {
  UT_hash_handle hh;
  struct key key;
  struct dmi_profile_line line;
};

struct dmi_profile {
  struct dmi_doing_watcher watcher; /* first */
  struct dmi_access *access;
  _Atomic uint32_t lock; /* guards all below */
  uint32_t num;
  struct line *by_key;
  struct dmi_profile_sum sum;
  struct line lines[DMI_PROFILE_LINES];
};

static void add_cost(struct dmi_profile_cost *to, uint64_t faults, uint64_t waits, uint64_t ns) {
  to->faults += faults;
  to->waits += waits;
  to->ns += ns;
  if (waits && ns > to->longest) to->longest = ns;
}

/* ---- Lines: with the lock held --------------------------------------------------------------- */

static uint64_t worth(const struct line *line) {
  return line->line.cost.ns + line->line.cost.faults * FAULT_NS;
}

/* The place of the line that has cost least. */
static struct line *make_room(struct dmi_profile *profile) {
  struct line *least = profile->lines;
  const struct dmi_profile_cost *cost = &least->line.cost;
  uint64_t longest;
  for (uint32_t i = 1; i < profile->num; i++) {
    if (worth(&profile->lines[i]) < worth(least)) least = &profile->lines[i];
  }
  cost = &least->line.cost;
  longest = profile->sum.rest.longest;
  add_cost(&profile->sum.rest, cost->faults, cost->waits, cost->ns);
  profile->sum.rest.longest = cost->longest > longest ? cost->longest : longest;
  profile->sum.gone++;
  HASH_DEL(profile->by_key, least);
  return least;
}

/* The line of this place of the program and this mapping. */
static struct dmi_profile_line *line_of(struct dmi_profile *profile, const char *name,
                                        const void *caller, uint64_t mapping, uint64_t page_size) {
  const struct key key = {caller, mapping};
  struct line *line;
  HASH_FIND(hh, profile->by_key, &key, sizeof(key), line);
  if (line) return &line->line;
  line = profile->num < DMI_PROFILE_LINES ? &profile->lines[profile->num++] : make_room(profile);
  memset(line, 0, sizeof(*line));
  line->key = key;
  line->line = (struct dmi_profile_line){
      .caller = caller, .name = name, .mapping = mapping, .page_size = page_size};
  HASH_ADD(hh, profile->by_key, key, sizeof(key), line);
  return &line->line;
}

/* ---- Events ---------------------------------------------------------------------------------- */

void dmi_profile_fault(struct dmi_profile *profile, const struct dmi_page *page) {
  const struct dmi_doing_called call = dmi_doing_called(&dmi_doing_mine.call);
  struct dmi_profile_line *line;
  uint32_t at;
  dmi_lock(&profile->lock, DMI_RANK_LEAF);
  line = line_of(profile, call.name, call.caller, page->map->base, page->map->page_size);
  line->cost.faults++;
  profile->sum.all.faults++;
  at = dmi_hot_add(line->page, DMI_PROFILE_PAGES, page->map->base, page->index, 1);
  if (line->page[at].count == line->page[at].more + 1) line->page_ns[at] = 0; /* another page */
  dmi_unlock(&profile->lock, DMI_RANK_LEAF);
}

void dmi_profile_wait(struct dmi_profile *profile, const struct dmi_doing_wait *wait,
                      uint64_t mapping, uint64_t page_size, uint64_t page) {
  const uint64_t ns = (uint64_t)(wait->until - wait->since);
  struct dmi_profile_line *line;
  dmi_lock(&profile->lock, DMI_RANK_LEAF);
  line = line_of(profile, wait->name, wait->caller, mapping, page_size);
  line->kinds |= 1u << wait->what;
  add_cost(&line->cost, 0, 1, ns);
  add_cost(&profile->sum.all, 0, 1, ns);
  for (uint32_t i = 0; mapping && i < DMI_PROFILE_PAGES; i++) {
    if (line->page[i].count && line->page[i].which == page) line->page_ns[i] += ns;
  }
  dmi_unlock(&profile->lock, DMI_RANK_LEAF);
}

/* A thread has waited; of several pages the first one is meant. */
static void waited(struct dmi_doing_watcher *watcher, const struct dmi_doing_wait *wait) {
  struct dmi_profile *profile = (struct dmi_profile *)watcher;
  uint64_t base = 0, page_size = 0, page = 0, off;
  if (dmi_doing_has_addr(wait->what) && wait->addr) {
    const struct dmi_mapping *mapping;
    dmi_epoch_enter();
    mapping = dmi_space_find(&profile->access->space, wait->addr);
    if (mapping) {
      base = mapping->map.base;
      page_size = mapping->map.page_size;
      page = dmi_mapping_index(mapping, wait->addr, &off);
    }
    dmi_epoch_leave();
  }
  dmi_profile_wait(profile, wait, base, page_size, page);
}

/* ---- Its life -------------------------------------------------------------------------------- */

struct dmi_profile *dmi_profile_new(struct dmi_access *access) {
  struct dmi_profile *profile = calloc(1, sizeof(*profile));
  if (!profile) return NULL;
  profile->access = access;
  profile->watcher.waited = waited;
  profile->watcher.next = access->doings.watchers;
  access->doings.watchers = &profile->watcher;
  access->profile = profile;
  return profile;
}

void dmi_profile_free(struct dmi_profile *profile) {
  if (!profile) return;
  HASH_CLEAR(hh, profile->by_key);
  free(profile);
}

/* ---- Looking --------------------------------------------------------------------------------- */

void dmi_profile_sum(struct dmi_profile *profile, struct dmi_profile_sum *sum) {
  dmi_lock(&profile->lock, DMI_RANK_LEAF);
  *sum = profile->sum;
  dmi_unlock(&profile->lock, DMI_RANK_LEAF);
}

bool dmi_profile_look(struct dmi_profile *profile, uint32_t number, struct dmi_profile_line *line) {
  bool there;
  dmi_lock(&profile->lock, DMI_RANK_LEAF);
  there = number < profile->num;
  if (there) *line = profile->lines[number].line;
  dmi_unlock(&profile->lock, DMI_RANK_LEAF);
  return there;
}
