/*
 * pressure_events.c - events: stalled pages, the members, reports about their memory, and whether
 * this process leaves.
 *
 * Any thread: each function changes only what the lock guards.
 */
#include "core/pressure_int.h"

bool dmi_pressure_stalled(struct dmi_pressure *p, struct dmi_page *page) {
  bool closed;
  dmi_mutex_lock(&p->lock);
  closed = p->closed;
  if (!closed) {
    dmi_page_list_add(&p->stalled, page);
    dmi_pool_close(p->pool, true);
  }
  dmi_mutex_unlock(&p->lock);
  return !closed;
}

void dmi_pressure_kept(struct dmi_pressure *p, uint32_t from) {
  dmi_mutex_lock(&p->lock);
  dmi_capacity_refused(p->capacity, from);
  dmi_mutex_unlock(&p->lock);
}

void dmi_pressure_open(struct dmi_pressure *p) {
  dmi_mutex_lock(&p->lock);
  p->open = true;
  dmi_mutex_unlock(&p->lock);
}

/* ---- The members ---------------------------------------------------------------------------- */

void dmi_pressure_view(struct dmi_pressure *p, const uint32_t *uid, uint64_t num) {
  uint64_t freed;
  dmi_mutex_lock(&p->lock);
  freed = dmi_capacity_view(p->capacity, uid, num);
  if (freed) dmi_pool_release(p->pool, freed);
  dmi_mutex_unlock(&p->lock);
}

bool dmi_pressure_message(struct dmi_pressure *p, uint32_t from, const struct dmi_msg *msg) {
  uint64_t freed;
  bool good;
  dmi_mutex_lock(&p->lock);
  good = dmi_capacity_message(p->capacity, from, msg, &freed);
  if (freed) dmi_pool_release(p->pool, freed);
  dmi_mutex_unlock(&p->lock);
  return good;
}

void dmi_pressure_taken(struct dmi_pressure *p, uint32_t from, uint64_t bytes) {
  uint64_t freed;
  dmi_mutex_lock(&p->lock);
  freed = dmi_capacity_taken(p->capacity, from, bytes);
  if (freed) dmi_pool_release(p->pool, freed);
  dmi_mutex_unlock(&p->lock);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

void dmi_pressure_leave(struct dmi_pressure *p, uint32_t heir) {
  dmi_mutex_lock(&p->lock);
  p->leaving = true;
  if (!heir) p->dismissed = true;
  dmi_mutex_unlock(&p->lock);
}

void dmi_pressure_stay(struct dmi_pressure *p) {
  dmi_mutex_lock(&p->lock);
  p->leaving = p->dismissed;
  p->refused = true;
  dmi_mutex_unlock(&p->lock);
}

uint64_t dmi_pressure_promised(struct dmi_pressure *p) {
  uint64_t bytes;
  dmi_mutex_lock(&p->lock);
  bytes = dmi_capacity_promised(p->capacity);
  dmi_mutex_unlock(&p->lock);
  return bytes;
}
