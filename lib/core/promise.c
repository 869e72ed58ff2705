/*
 * promise.c - the promises that a leaver gets, and which member gets which of its pages.
 *
 * The members are asked one after the other, each for what is still missing, so that none reserves
 * memory that is not needed. After each answer the whole plan is made again, in whole pages.
 */
#include "core/promise.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/mutation.h"
#include "base/xalloc.h"

/* A member that may take pages of this process. */
struct promiser {
  uint32_t uid;
  bool heir;        /* it is the heir, which is asked first */
  uint64_t known;   /* bytes that it reported last */
  uint64_t number;  /* number of the unanswered question; 0: none */
  uint64_t asked;   /* bytes asked for */
  uint64_t promise; /* bytes that it has reserved for our pages and that no page has used yet */
  uint64_t given;   /* bytes of pages that were offered to it by a promise, in this leave */
  uint64_t planned; /* of these, bytes for pages in the list of shares */
  bool tried;       /* it was asked in this leave */
};

/* Pages of one size that one member will get. */
struct share {
  uint32_t uid;
  uint64_t size, num;
};

struct dmi_promises {
  const struct dmi_core *core;
#ifdef DMI_MUTATIONS
  enum dmi_capacity_break broken;
  dmi_uid_t (*receiver)(void *arg, uint64_t bytes);
  void *arg;
#endif
  struct dmi_mutex lock; /* guards what follows */
  struct promiser *peer; /* in the order in which they are asked and get pages */
  uint64_t num;
  uint64_t last_number; /* number of the last question */
  uint32_t heir;
  struct dmi_promise_size *sizes; /* the pages when the leave began; largest pages first */
  uint64_t size_num;
  struct share *share; /* the plan: which member gets which pages, as far as promised */
  uint64_t shares;
};

struct dmi_promises *dmi_promises_new(const struct dmi_core *core) {
  struct dmi_promises *p = dmi_xalloc(1, sizeof(*p));
  p->core = core;
  dmi_mutex_init(&p->lock, DMI_RANK_PAGER);
  return p;
}

void dmi_promises_free(struct dmi_promises *p) {
  if (!p) return;
  free(p->peer);
  free(p->sizes);
  free(p->share);
  dmi_mutex_destroy(&p->lock);
  free(p);
}

#ifdef DMI_MUTATIONS
void dmi_promises_set_break(struct dmi_promises *p, enum dmi_capacity_break broken) {
  p->broken = broken;
}

void dmi_promises_set_receiver(struct dmi_promises *p, uint32_t (*receiver)(void *, uint64_t),
                               void *arg) {
  p->receiver = receiver;
  p->arg = arg;
}
#endif

/* ---- The members ---------------------------------------------------------------------------- */

static struct promiser *find(const struct dmi_promises *p, uint32_t uid) {
  for (uint64_t i = 0; i < p->num; i++) {
    if (p->peer[i].uid == uid) return &p->peer[i];
  }
  return NULL;
}

/* Order: the heir, then the members that reported the most memory. */
static int first_to_ask(const void *left, const void *right) {
  const struct promiser *a = left, *b = right;
  if (a->heir != b->heir) return a->heir ? -1 : 1;
  if (a->known != b->known) return a->known > b->known ? -1 : 1;
  return a->uid < b->uid ? -1 : 1;
}

static void order(struct dmi_promises *p) {
  for (uint64_t i = 0; i < p->num; i++)
    p->peer[i].heir = p->peer[i].uid == p->heir;
  if (p->num) qsort(p->peer, p->num, sizeof(*p->peer), first_to_ask);
}

void dmi_promises_view(struct dmi_promises *p, const uint32_t *uid, uint64_t num) {
  struct promiser *fresh = dmi_xalloc(num, sizeof(*fresh));
  dmi_mutex_lock(&p->lock);
  for (uint64_t i = 0; i < num; i++) {
    const struct promiser *old = find(p, uid[i]);
    if (old) fresh[i] = *old;
    fresh[i].uid = uid[i];
  }
  free(p->peer);
  p->peer = fresh;
  p->num = num;
  order(p);
  dmi_mutex_unlock(&p->lock);
}

static bool is_reported(struct dmi_promises *p, uint32_t from,
                        const struct dmi_msg_capacity_report *report) {
  struct promiser *peer = find(p, from);
  if (report->kind > DMI_CAPACITY_PROMISE) return false;
  if (!peer) return true; /* it is not in the view any more, or not yet */
  if (report->kind != DMI_CAPACITY_PROMISE) {
    peer->known = report->bytes;
    return true;
  }
  if (!report->number || report->number != peer->number || report->bytes > peer->asked)
    return false;
  peer->number = 0;
  peer->promise += report->bytes;
  return true;
}

bool dmi_promises_report(struct dmi_promises *p, uint32_t from, const struct dmi_msg *msg) {
  bool good;
  dmi_mutex_lock(&p->lock);
  good = is_reported(p, from, &msg->capacity_report);
  dmi_mutex_unlock(&p->lock);
  return good;
}

/* ---- Asking --------------------------------------------------------------------------------- */

static int larger_first(const void *left, const void *right) {
  const struct dmi_promise_size *a = left, *b = right;
  return (a->size < b->size) - (a->size > b->size);
}

void dmi_promises_begin(struct dmi_promises *p, uint32_t heir, const struct dmi_promise_size *sizes,
                        uint64_t size_num) {
  dmi_mutex_lock(&p->lock);
  p->heir = heir;
  free(p->sizes);
  p->sizes = dmi_xalloc(size_num, sizeof(*sizes));
  p->size_num = size_num;
  if (size_num) memcpy(p->sizes, sizes, size_num * sizeof(*sizes));
  qsort(p->sizes, size_num, sizeof(*sizes), larger_first);
  for (uint64_t i = 0; i < p->num; i++) {
    p->peer[i].tried = false;
    p->peer[i].given = 0;
  }
  order(p);
  dmi_mutex_unlock(&p->lock);
}

/* Plans which member gets which pages, larger pages first. Returns the bytes of pages that fit
 * nowhere; *unit: size of the smallest of them. */
static uint64_t plan(struct dmi_promises *p, uint64_t *unit) {
  uint64_t missing = 0;
  free(p->share);
  p->share = dmi_xalloc(p->size_num * p->num, sizeof(*p->share));
  p->shares = 0;
  for (uint64_t i = 0; i < p->num; i++)
    p->peer[i].planned = 0;
  for (uint64_t s = 0; s < p->size_num; s++) {
    uint64_t size = p->sizes[s].size, left = p->sizes[s].num;
    for (uint64_t i = 0; i < p->num; i++) {
      struct promiser *peer = &p->peer[i];
      uint64_t fit = (peer->promise - peer->planned) / size;
      if (fit > left) fit = left;
      if (!fit) continue;
      p->share[p->shares++] = (struct share){peer->uid, size, fit};
      peer->planned += fit * size;
      left -= fit;
    }
    missing += left * size;
    if (left) *unit = size;
  }
  for (uint64_t i = 0; DMI_BROKEN(p, DMI_CAPACITY_BREAK_WHOLE) && i < p->num; i++) {
    uint64_t left = p->peer[i].promise - p->peer[i].planned;
    missing -= left < missing ? left : missing;
  }
  return missing;
}

static enum dmi_promises_state ask_next(struct dmi_promises *p, struct dmi_out *out) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_ASK, .origin = p->core->self};
  struct promiser *next = NULL;
  uint64_t missing, unit = 0;
  for (uint64_t i = 0; i < p->num; i++) {
    if (p->peer[i].number) return DMI_PROMISES_WAIT;
    if (!next && !p->peer[i].tried) next = &p->peer[i];
  }
  missing = plan(p, &unit);
  if (!missing) return DMI_PROMISES_ENOUGH;
  if (!next) return DMI_PROMISES_TOO_LITTLE;
  next->tried = true;
  next->number = ++p->last_number;
  next->asked = missing;
  msg.capacity_ask = (struct dmi_msg_capacity_ask){
      .number = next->number, .kind = DMI_CAPACITY_PROMISE, .bytes = missing, .unit = unit};
  dmi_out_send(out, next->uid, &msg);
  return DMI_PROMISES_ASKED;
}

enum dmi_promises_state dmi_promises_ask(struct dmi_promises *p, struct dmi_out *out) {
  enum dmi_promises_state state;
  dmi_mutex_lock(&p->lock);
  state = ask_next(p, out);
  dmi_mutex_unlock(&p->lock);
  return state;
}

/* ---- Giving --------------------------------------------------------------------------------- */

/* A member with promised memory that the plan does not need: for pages that got bytes after they
 * were counted. */
static struct promiser *spare(const struct dmi_promises *p, uint64_t bytes) {
  struct promiser *best = NULL;
  for (uint64_t i = 0; i < p->num; i++) {
    struct promiser *peer = &p->peer[i];
    uint64_t left = peer->promise - peer->planned;
    if (left < bytes) continue;
    if (peer->heir) return peer;
    if (!best || left > best->promise - best->planned) best = peer;
  }
  return best;
}

/* NULL: nobody has promised memory for it. */
static struct promiser *receiver(struct dmi_promises *p, uint64_t bytes) {
  for (uint64_t i = 0; i < p->shares; i++) {
    struct share *at = &p->share[i];
    struct promiser *peer = at->size == bytes ? find(p, at->uid) : NULL;
    if (!peer) continue;
    if (!--at->num) *at = p->share[--p->shares];
    peer->planned -= bytes;
    return peer;
  }
  return spare(p, bytes);
}

uint32_t dmi_promises_give(struct dmi_promises *p, uint64_t bytes) {
  struct promiser *peer;
  uint32_t uid;
#ifdef DMI_MUTATIONS
  if (p->receiver) return p->receiver(p->arg, bytes);
#endif
  dmi_mutex_lock(&p->lock);
  peer = receiver(p, bytes);
  uid = peer ? peer->uid : 0;
  if (peer) {
    peer->promise -= bytes;
    peer->given += bytes;
  }
  dmi_mutex_unlock(&p->lock);
  return uid;
}

void dmi_promises_untaken(struct dmi_promises *p, uint32_t uid, uint64_t bytes) {
  struct promiser *peer;
  dmi_mutex_lock(&p->lock);
  peer = find(p, uid);
  if (peer && peer->given >= bytes) {
    peer->given -= bytes;
    peer->promise += bytes;
  }
  dmi_mutex_unlock(&p->lock);
}

void dmi_promises_end(struct dmi_promises *p, bool untaken, struct dmi_out *out) {
  dmi_mutex_lock(&p->lock);
  p->shares = 0;
  for (uint64_t i = 0; !DMI_BROKEN(p, DMI_CAPACITY_BREAK_GIVE_UP) && i < p->num; i++) {
    struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_RETURN, .origin = p->core->self};
    struct promiser *peer = &p->peer[i];
    msg.capacity_return.bytes = peer->promise + (untaken ? peer->given : 0);
    if (msg.capacity_return.bytes) dmi_out_send(out, peer->uid, &msg);
    peer->promise = peer->planned = 0;
  }
  dmi_mutex_unlock(&p->lock);
}
