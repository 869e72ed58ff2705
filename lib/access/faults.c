/*
 * faults.c - see faults.h.
 */
#include "access/faults.h"

#include <string.h>

#include "access/mapping.h"
#include "base/clock.h"
#include "base/lock.h"

#define SECOND INT64_C(1000000000)
#define LATELY 4096 /* faults after which those before count half */

bool dmi_faults_are(enum dmi_msg_type type) {
  return type == DMI_MSG_GET || type == DMI_MSG_READ || type == DMI_MSG_PUT ||
         type == DMI_MSG_ATOMIC || type == DMI_MSG_OWN;
}

static void count(struct dmi_faults *faults, uint32_t num, int64_t now) {
  struct dmi_faults_second *second = &faults->second[now / SECOND % (DMI_FAULTS_SECONDS + 1)];
  if (second->at != now / SECOND) *second = (struct dmi_faults_second){now / SECOND, 0};
  second->num += num;
  if (!faults->begin) faults->begin = now;
  faults->num += num;
}

static void add_bytes(struct dmi_faults_bytes *to, const struct dmi_faults_bytes *more) {
  if (more->from == more->to) return;
  if (to->from == to->to) {
    *to = *more;
    return;
  }
  if (more->from < to->from) to->from = more->from;
  if (more->to > to->to) to->to = more->to;
}

static void add_touched(struct dmi_faults_touched *to, const struct dmi_faults_touched *more) {
  add_bytes(&to->wrote, &more->wrote);
  add_bytes(&to->read, &more->read);
}

static void settle(struct dmi_faults *faults, struct dmi_faults_fresh *fresh) {
  static const struct dmi_faults_touched nothing;
  uint32_t at;
  if (!fresh->num) return;
  at = dmi_hot_add(faults->hot, DMI_FAULTS_HOT, fresh->of, fresh->which, fresh->num);
  if (faults->hot[at].count == faults->hot[at].more + fresh->num) /* it was another page's */
    faults->touched[at] = faults->before[at] = nothing;
  add_touched(&faults->touched[at], &fresh->touched);
  fresh->touched = nothing;
  fresh->num = 0;
}

static void settle_all(struct dmi_faults *faults) {
  for (uint32_t i = 0; i < DMI_FAULTS_FRESH; i++)
    settle(faults, &faults->fresh[i]);
}

/* What is touched now tells of now, too. */
static void halve(struct dmi_faults *faults) {
  settle_all(faults);
  dmi_hot_halve(faults->hot, DMI_FAULTS_HOT);
  memcpy(faults->before, faults->touched, sizeof(faults->before));
  memset(faults->touched, 0, sizeof(faults->touched));
  faults->lately /= 2;
}

static void count_page(struct dmi_faults *faults, uint64_t of, uint64_t which,
                       const struct dmi_faults_bytes *bytes) {
  struct dmi_faults_fresh *fresh = &faults->fresh[(which ^ of >> 12) % DMI_FAULTS_FRESH];
  if (fresh->which != which || fresh->of != of) settle(faults, fresh);
  fresh->of = of;
  fresh->which = which;
  fresh->num++;
  add_bytes(bytes->write ? &fresh->touched.wrote : &fresh->touched.read, bytes);
  if (++faults->lately >= LATELY) halve(faults);
}

/* Counts pages of one mapping there.  Returns how many these are.  With the lock held, so nobody else
 * adds meanwhile; who looks needs no lock. */
static uint32_t count_mapping(struct dmi_page *const page[], uint32_t num) {
  struct dmi_mapping *mapping = (struct dmi_mapping *)page[0]->map;
  uint32_t same = 1;
  while (same < num && page[same]->map == page[0]->map)
    same++;
  atomic_store_explicit(&mapping->faults,
                        atomic_load_explicit(&mapping->faults, memory_order_relaxed) + same,
                        memory_order_relaxed);
  return same;
}

void dmi_faults_note(struct dmi_faults *faults, struct dmi_page *const page[],
                     const struct dmi_faults_bytes bytes[], uint32_t num) {
  const int64_t now = dmi_clock_coarse_ns();
  dmi_lock(&faults->lock, DMI_RANK_LEAF);
  for (uint32_t i = 0; i < num;)
    i += count_mapping(page + i, num - i);
  count(faults, num, now);
  for (uint32_t i = 0; i < num; i++)
    count_page(faults, page[i]->map->base, page[i]->index, &bytes[i]);
  dmi_unlock(&faults->lock, DMI_RANK_LEAF);
}

double dmi_faults_rate(const struct dmi_faults *faults, int64_t now) {
  const int64_t last = now / SECOND;
  int64_t begin = (last - DMI_FAULTS_SECONDS) * SECOND;
  uint64_t sum = 0;
  if (!faults->begin) return 0;
  for (uint32_t i = 0; i <= DMI_FAULTS_SECONDS; i++) {
    const struct dmi_faults_second *second = &faults->second[i];
    if (second->at >= last - DMI_FAULTS_SECONDS && second->at <= last) sum += second->num;
  }
  /* Not so short that a few faults would make many a second. */
  if (faults->begin > begin) begin = faults->begin;
  if (now - begin < SECOND) begin = now - SECOND;
  return (double)sum * (double)SECOND / (double)(now - begin);
}

/* The bytes of a page of `hot`, both of now and of before. */
static struct dmi_faults_touched touched(const struct dmi_faults *faults,
                                         const struct dmi_hot *hot) {
  for (uint32_t i = 0; i < DMI_FAULTS_HOT; i++) {
    struct dmi_faults_touched all = faults->touched[i];
    if (faults->hot[i].of != hot->of || faults->hot[i].which != hot->which) continue;
    add_touched(&all, &faults->before[i]);
    return all;
  }
  return (struct dmi_faults_touched){0};
}

void dmi_faults_look(struct dmi_faults *faults, struct dmi_faults_seen *seen) {
  const int64_t now = dmi_clock_ns();
  dmi_lock(&faults->lock, DMI_RANK_LEAF);
  settle_all(faults);
  seen->num = faults->num;
  seen->now = dmi_faults_rate(faults, now);
  seen->lately = faults->lately;
  memcpy(seen->hot, faults->hot, sizeof(seen->hot));
  dmi_hot_sort(seen->hot, DMI_FAULTS_HOT);
  for (uint32_t i = 0; i < DMI_FAULTS_HOT; i++)
    seen->touched[i] = touched(faults, &seen->hot[i]);
  dmi_unlock(&faults->lock, DMI_RANK_LEAF);
}
