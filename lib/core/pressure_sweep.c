/*
 * pressure_sweep.c - decides which pages may leave, and how each page leaves that the policy
 * (core/replace.h) picks: a copy is dropped; an owned page is offered to a member with memory, or
 * goes to the file.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/pressure_int.h"

/* Most bytes of offers in flight: enough to keep the network busy. But at most an eighth of the
 * pool, and at least one page. */
#define ON_THE_WAY (UINT64_C(16) << 20)

/* A refused reservation costs its caller a message and an answer. In that time the pager can
 * look at this many records. */
#define LOOKS_A_REFUSAL 256

enum dmi_pressure_busy dmi_pressure_look_at(const struct dmi_page *page, struct dmi_look *look) {
  const struct dmi_page_busy *busy = page->busy;
  uint16_t flags = page->flags;
  *look = (struct dmi_look){.index = page->index, .used = (flags & DMI_PAGE_USED) != 0};
  if (!page->frame || (flags & (DMI_PAGE_DEAD | DMI_PAGE_OFFERED | DMI_PAGE_STALLED)))
    return DMI_PRESSURE_IDLE;
  look->shared = busy && busy->holders;
  if (flags & DMI_PAGE_FROZEN) { /* it stays until RESUME, when most copies go */
    return page->role == DMI_ROLE_NONE ? DMI_PRESSURE_BUSY_COPY : DMI_PRESSURE_BUSY;
  }
  if (page->role == DMI_ROLE_NONE) {
    look->droppable = page->copy && !(flags & DMI_PAGE_UNRELEASED) &&
                      !(busy && (dmi_fetch_any(busy->fetch) || busy->waiters.first));
  } else if (page->role == DMI_ROLE_OWNER) {
    if (busy && busy->waiting_ops.first) /* operations wait for it, perhaps for long */
      return DMI_PRESSURE_IDLE;
    look->offerable = !(flags & DMI_PAGE_NODATA) && !(busy && (busy->current || busy->queue.first));
  }
  if (look->droppable || look->offerable) return DMI_PRESSURE_IDLE;
  return page->role == DMI_ROLE_NONE ? DMI_PRESSURE_BUSY_COPY : DMI_PRESSURE_BUSY;
}

/* ---- Offers --------------------------------------------------------------------------------- */

/* Collects the members that may have a copy. */
static void holders_of(struct dmi_pressure *p, const struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  p->holders = 0;
  for (uint32_t i = 0; busy && i < busy->holders; i++) {
    DMI_XALLOC_GROW(p->holder, p->holders, p->holders_capacity);
    p->holder[p->holders++] = busy->holder[i].uid;
  }
}

enum dmi_pressure_offer dmi_pressure_offer(struct dmi_pressure *p, struct dmi_page *page,
                                           struct dmi_out *out) {
  uint64_t bytes = page->map->page_size;
  uint32_t to;
  holders_of(p, page);
  dmi_mutex_lock(&p->lock);
  to = dmi_capacity_pick(p->capacity, p->holder, p->holders, bytes, p->kind);
  dmi_mutex_unlock(&p->lock);
  if (!to) return DMI_PRESSURE_NOBODY;
  if (!dmi_page_offer(p->core, page, to, out)) return DMI_PRESSURE_NOT_NOW;
  dmi_page_list_add(&p->offered, page);
  p->offered_bytes += bytes;
  return DMI_PRESSURE_OFFERED;
}

/* ---- What the policy is shown, and what it decides ------------------------------------------ */

static bool look(void *arg, void *map, uint64_t from, struct dmi_look *look) {
  struct dmi_pressure *p = arg;
  enum dmi_pressure_busy busy = DMI_PRESSURE_IDLE;
  if (!p->env->look(p->env->arg, map, from, look, &busy)) return false;
  if (look->saved) return true; /* it stays, even if it is idle */
  if (busy != DMI_PRESSURE_IDLE) p->busy_seen = true;
  if (busy == DMI_PRESSURE_BUSY_COPY) p->copy_seen = true;
  return true;
}

static void spare(void *arg, void *map, uint64_t index) {
  struct dmi_pressure *p = arg;
  p->env->spare(p->env->arg, map, index);
}

static uint64_t give(struct dmi_pressure *p, void *map, uint64_t index, uint64_t bytes) {
  uint64_t most = dmi_pool_limit(p->pool) / 8;
  if (most > ON_THE_WAY) most = ON_THE_WAY;
  if (p->offered_bytes && p->offered_bytes + bytes > most) return DMI_REPLACE_NOWHERE;
  switch (p->env->offer(p->env->arg, map, index)) {
    case DMI_PRESSURE_OFFERED:
      return bytes;
    case DMI_PRESSURE_NOT_NOW:
      return 0;
    default:
      if (!p->nowhere || bytes < p->nowhere) p->nowhere = bytes;
      return DMI_REPLACE_NOWHERE;
  }
}

static uint64_t spill(struct dmi_pressure *p, void *map, uint64_t index, uint64_t bytes) {
  if (p->full) return DMI_REPLACE_NOWHERE;
  switch (p->env->spill(p->env->arg, map, index)) {
    case DMI_PRESSURE_WRITTEN:
      return bytes;
    case DMI_PRESSURE_NOT_IDLE:
      return 0;
    default:
      if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_FULL)) return bytes;
      p->full = true;
      return DMI_REPLACE_NOWHERE;
  }
}

static uint64_t leaves(void *arg, void *map, uint64_t index, enum dmi_class class) {
  struct dmi_pressure *p = arg;
  uint64_t bytes = ((const struct dmi_map *)map)->page_size;
  if (class != DMI_CLASS_COPY)
    return p->to_file ? spill(p, map, index, bytes) : give(p, map, index, bytes);
  return p->env->drop(p->env->arg, map, index) ? bytes : 0;
}

uint64_t dmi_pressure_sweep(struct dmi_pressure *p, const struct dmi_pressure_env *env,
                            struct dmi_replace_map *map, uint64_t maps) {
  const struct dmi_replace_env shown = {p, look, spare, leaves};
  uint64_t made;
  p->env = env;
  made = dmi_replace_sweep(&p->work, &shown, map, maps, p->sweep_need, p->last);
  dmi_pool_patience(p->pool, made ? 1 : 1 + p->work.looks / LOOKS_A_REFUSAL);
  return made;
}
