/*
 * capacity.c - which members have free memory for pages (docs/replacement.md).
 *
 * For each other member: its last report, questions in both directions that are not answered yet,
 * reports owed to it, and what is promised to it. A question is not sent again before its answer,
 * and a member that had too little is not asked for as much until it reports that it has more.
 */
#include "core/capacity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/replace.h"

/* AHEAD and URGENT share one question at a time, PROMISE has another (our own questions of that
 * kind: promise.c). */
enum { ORDINARY, LEAVE, QUESTIONS };

struct question {
  uint64_t number; /* 0: no question */
  uint8_t kind;
  uint64_t bytes, unit;
  bool now;
  bool deferred;  /* its answer was deferred in this look */
  uint32_t looks; /* number of looks in which it was deferred */
  /* if deferred: transient use that must have ended when it is answered at the latest */
  uint64_t until;
};

/* What this process and another one told each other. */
struct lender {
  uint32_t uid;
  uint64_t known;                  /* bytes it reported, less what it was offered since then */
  uint8_t known_kind;              /* the kind for which they are; AHEAD: for both */
  uint64_t refused[2];             /* by kind: it has no memory for pages of this size */
  uint64_t refused_by[2];          /* ... as it answered this question of ours */
  struct question asked;           /* our question, not answered yet */
  struct question asks[QUESTIONS]; /* its questions, not answered yet */
  uint64_t owed[2];  /* by kind: size of a page for which it waits for a report; 0: none */
  uint64_t promised; /* bytes reserved here for the pages that it hands over */
};

struct dmi_capacity {
  struct lender *peer;
  uint64_t num;
  uint64_t last_number;
#ifdef DMI_MUTATIONS
  enum dmi_capacity_break broken;
#endif
  bool spills;                       /* this process asks for answers at once */
  struct dmi_replace_member *member; /* working memory for a choice: `num` elements */
};

struct dmi_capacity *dmi_capacity_new(void) {
  return dmi_xalloc(1, sizeof(struct dmi_capacity));
}

void dmi_capacity_free(struct dmi_capacity *capacity) {
  if (!capacity) return;
  free(capacity->peer);
  free(capacity->member);
  free(capacity);
}

void dmi_capacity_spill(struct dmi_capacity *capacity) {
  capacity->spills = true;
}

#ifdef DMI_MUTATIONS
void dmi_capacity_set_break(struct dmi_capacity *capacity, enum dmi_capacity_break broken) {
  capacity->broken = broken;
}
#endif

/* ---- Messages ------------------------------------------------------------------------------- */

void dmi_capacity_out_init(struct dmi_capacity_out *out) {
  memset(out, 0, sizeof(*out));
}

void dmi_capacity_out_free(struct dmi_capacity_out *out) {
  free(out->send);
  dmi_capacity_out_init(out);
}

static void send(struct dmi_capacity_out *out, uint32_t to, struct dmi_msg msg) {
  DMI_XALLOC_GROW(out->send, out->num, out->capacity);
  out->send[out->num++] = (struct dmi_capacity_send){to, msg};
}

/* Adds a report: so many bytes are free. Number 0: not an answer. */
static void report(struct dmi_capacity_out *out, uint32_t to, uint8_t kind, uint64_t number,
                   uint64_t bytes) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_REPORT};
  msg.capacity_report =
      (struct dmi_msg_capacity_report){.number = number, .kind = kind, .bytes = bytes};
  send(out, to, msg);
}

static struct lender *find(const struct dmi_capacity *capacity, uint32_t uid) {
  for (uint64_t i = 0; i < capacity->num; i++) {
    if (capacity->peer[i].uid == uid) return &capacity->peer[i];
  }
  return NULL;
}

static void ask(struct dmi_capacity *capacity, struct lender *peer, enum dmi_capacity_kind kind,
                uint64_t bytes, uint64_t unit, struct dmi_capacity_out *out) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_ASK};
  peer->asked = (struct question){
      .number = ++capacity->last_number, .kind = (uint8_t)kind, .bytes = bytes, .unit = unit};
  msg.capacity_ask = (struct dmi_msg_capacity_ask){
      .number = peer->asked.number, .kind = kind, .bytes = bytes, .unit = unit};
  if (capacity->spills && kind == DMI_CAPACITY_URGENT) msg.flags = DMI_F_URGENT;
  send(out, peer->uid, msg);
}

/* ---- Promises to others ---------------------------------------------------------------------- */

uint64_t dmi_capacity_taken(struct dmi_capacity *capacity, uint32_t from, uint64_t bytes) {
  struct lender *peer = find(capacity, from);
  if (!peer) return 0;
  if (bytes > peer->promised) bytes = peer->promised;
  peer->promised -= bytes;
  return bytes;
}

uint64_t dmi_capacity_promised(const struct dmi_capacity *capacity) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < capacity->num; i++)
    bytes += capacity->peer[i].promised;
  return bytes;
}

/* ---- The members ---------------------------------------------------------------------------- */

uint64_t dmi_capacity_view(struct dmi_capacity *capacity, const uint32_t *uid, uint64_t num) {
  struct lender *fresh = dmi_xalloc(num, sizeof(*fresh));
  uint64_t freed = dmi_capacity_promised(capacity);
  for (uint64_t i = 0; i < num; i++) {
    const struct lender *old = find(capacity, uid[i]);
    if (old) {
      fresh[i] = *old;
    } else {
      fresh[i].uid = uid[i];
      fresh[i].refused[DMI_CAPACITY_AHEAD] = fresh[i].refused[DMI_CAPACITY_URGENT] = UINT64_MAX;
    }
    freed -= fresh[i].promised;
  }
  if (DMI_BROKEN(capacity, DMI_CAPACITY_BREAK_GONE) && num < capacity->num) {
    for (uint64_t i = 0; num > 0 && i < capacity->num; i++) {
      if (capacity->peer[i].asked.number) fresh[0].asked.number = UINT64_MAX;
    }
  }
  free(capacity->peer);
  free(capacity->member);
  capacity->peer = fresh;
  capacity->num = num;
  capacity->member = dmi_xalloc(num, sizeof(*capacity->member));
  return freed;
}

static bool on_ask(struct lender *peer, const struct dmi_msg_capacity_ask *said, bool now) {
  struct question *asks;
  if (said->kind > DMI_CAPACITY_PROMISE) return false;
  if (!peer) return true;
  asks = &peer->asks[said->kind == DMI_CAPACITY_PROMISE ? LEAVE : ORDINARY];
  if (asks->number || !said->number || !said->unit || said->bytes < said->unit) return false;
  *asks = (struct question){.number = said->number,
                            .kind = (uint8_t)said->kind,
                            .bytes = said->bytes,
                            .unit = said->unit,
                            .now = now};
  return true;
}

/* Memory for AHEAD can be used for URGENT as well; and if there is none for URGENT, there is
 * none for AHEAD. */
static bool on_report(struct dmi_capacity *capacity, struct lender *peer,
                      const struct dmi_msg_capacity_report *said) {
  struct question *asked;
  uint64_t unit = 1;
  if (said->kind >= DMI_CAPACITY_PROMISE) return false;
  if (!peer) return true;
  asked = &peer->asked;
  if (said->number) {
    if (said->number != asked->number || said->kind != asked->kind) return false;
    unit = asked->unit;
    asked->number = 0;
  }
  peer->known = said->bytes;
  peer->known_kind = (uint8_t)said->kind;
  if (said->bytes >= unit) {
    peer->refused[DMI_CAPACITY_URGENT] = UINT64_MAX;
    if (said->kind == DMI_CAPACITY_AHEAD) peer->refused[DMI_CAPACITY_AHEAD] = UINT64_MAX;
  } else if (!DMI_BROKEN(capacity, DMI_CAPACITY_BREAK_REFUSED)) {
    for (uint64_t kind = 0; kind <= said->kind; kind++) {
      if (unit > peer->refused[kind]) continue;
      peer->refused[kind] = unit;
      peer->refused_by[kind] = said->number;
    }
  }
  return true;
}

/* An unknown sender is not in the view any more, and only forwards; or is not in it yet. */
bool dmi_capacity_message(struct dmi_capacity *capacity, uint32_t from, const struct dmi_msg *msg,
                          uint64_t *freed) {
  struct lender *peer = find(capacity, from);
  *freed = 0;
  switch (msg->type) {
    case DMI_SVC_CAPACITY_ASK:
      return on_ask(peer, &msg->capacity_ask, (msg->flags & DMI_F_URGENT) != 0);
    case DMI_SVC_CAPACITY_REPORT:
      return on_report(capacity, peer, &msg->capacity_report);
    case DMI_SVC_CAPACITY_RETURN:
      *freed = dmi_capacity_taken(capacity, from, msg->capacity_return.bytes);
      return true;
    default:
      return false;
  }
}

void dmi_capacity_refused(struct dmi_capacity *capacity, uint32_t from) {
  struct lender *peer = find(capacity, from);
  if (peer) peer->known = 0;
}

/* ---- This process needs memory ----------------------------------------------------------------
 */

/* Bytes of this kind that the member can take, as far as known. */
static uint64_t usable(const struct lender *peer, enum dmi_capacity_kind kind) {
  return peer->known_kind <= kind ? peer->known : 0;
}

enum dmi_capacity_have dmi_capacity_need(struct dmi_capacity *capacity, uint64_t bytes,
                                         uint64_t unit, enum dmi_capacity_kind kind,
                                         struct dmi_capacity_out *out) {
  enum dmi_capacity_have have = DMI_CAPACITY_NONE;
  for (uint64_t i = 0; i < capacity->num; i++) {
    if (usable(&capacity->peer[i], kind) >= unit) return DMI_CAPACITY_SOME;
  }
  for (uint64_t i = 0; i < capacity->num; i++) {
    struct lender *peer = &capacity->peer[i];
    if (!peer->asked.number && unit < peer->refused[kind])
      ask(capacity, peer, kind, bytes > unit ? bytes : unit, unit, out);
    if (peer->asked.number) have = DMI_CAPACITY_ASKED;
  }
  return have;
}

uint64_t dmi_capacity_asked(const struct dmi_capacity *capacity) {
  return capacity->last_number;
}

bool dmi_capacity_forget(struct dmi_capacity *capacity, uint64_t number) {
  bool any = false;
  for (uint64_t i = 0; i < capacity->num; i++) {
    struct lender *peer = &capacity->peer[i];
    if (peer->refused[DMI_CAPACITY_URGENT] == UINT64_MAX ||
        peer->refused_by[DMI_CAPACITY_URGENT] > number)
      continue;
    peer->refused[DMI_CAPACITY_URGENT] = UINT64_MAX;
    any = true;
  }
  return any;
}

uint32_t dmi_capacity_pick(struct dmi_capacity *capacity, const uint32_t *holder, uint64_t holders,
                           uint64_t bytes, enum dmi_capacity_kind kind) {
  uint32_t uid;
  for (uint64_t i = 0; i < capacity->num; i++)
    capacity->member[i] =
        (struct dmi_replace_member){capacity->peer[i].uid, usable(&capacity->peer[i], kind)};
  uid = dmi_replace_target(capacity->member, capacity->num, holder, holders, bytes);
  if (uid && !DMI_BROKEN(capacity, DMI_CAPACITY_BREAK_KNOWN)) find(capacity, uid)->known -= bytes;
  return uid;
}

/* ---- Others need memory -----------------------------------------------------------------------
 */

bool dmi_capacity_asker(const struct dmi_capacity *capacity, struct dmi_capacity_asker *asker) {
  for (uint64_t i = 0; i < capacity->num; i++) {
    for (int q = 0; q < QUESTIONS; q++) {
      const struct question *asks = &capacity->peer[i].asks[q];
      if (!asks->number || asks->deferred) continue;
      *asker =
          (struct dmi_capacity_asker){capacity->peer[i].uid, asks->kind, asks->bytes, asks->unit};
      return true;
    }
  }
  return false;
}

/* In so many looks at most an answer is deferred because of busy copies: a copy that is written
 * all the time is unreleased at nearly every look. */
#define LOOKS_AT_COPIES 64

bool dmi_capacity_defer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                        uint64_t bytes, const struct dmi_capacity_transient *transient) {
  bool promise = asker->kind == DMI_CAPACITY_PROMISE;
  struct lender *peer = find(capacity, asker->uid);
  struct question *asks = peer ? &peer->asks[promise ? LEAVE : ORDINARY] : NULL;
  if (!asks || asks->now || asker->kind == DMI_CAPACITY_AHEAD) return false;
  if (bytes >= (promise ? asks->bytes : asks->unit)) return false;
  if (DMI_BROKEN(capacity, DMI_CAPACITY_BREAK_DEFER)) return false;
  if (asks->looks == 0) asks->until = transient->ended + transient->bytes;
  asks->deferred = (transient->bytes && transient->ended < asks->until) ||
                   (transient->copies && asks->looks < LOOKS_AT_COPIES);
  asks->looks++;
  return asks->deferred;
}

void dmi_capacity_again(struct dmi_capacity *capacity) {
  for (uint64_t i = 0; i < capacity->num; i++) {
    capacity->peer[i].asks[ORDINARY].deferred = capacity->peer[i].asks[LEAVE].deferred = false;
  }
}

bool dmi_capacity_answer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                         uint64_t bytes, struct dmi_capacity_out *out) {
  struct lender *peer = find(capacity, asker->uid);
  struct question *asks =
      peer ? &peer->asks[asker->kind == DMI_CAPACITY_PROMISE ? LEAVE : ORDINARY] : NULL;
  if (!asks || !asks->number) return false;
  if (asker->kind == DMI_CAPACITY_PROMISE) {
    /* The rest of what it must hand over needs memory for at least one more page. */
    uint64_t *owed = &peer->owed[DMI_CAPACITY_URGENT], more = bytes + asks->unit;
    if (bytes < asks->bytes && (!*owed || more < *owed)) *owed = more;
    peer->promised += bytes;
  } else if (bytes < asker->unit && !DMI_BROKEN(capacity, DMI_CAPACITY_BREAK_OWED)) {
    for (int kind = 0; kind <= asker->kind; kind++) { /* see on_report */
      uint64_t *owed = &peer->owed[kind];
      if (!*owed || asker->unit < *owed) *owed = asker->unit;
    }
  }
  report(out, peer->uid, asker->kind, asks->number, bytes);
  asks->number = 0;
  return true;
}

uint64_t dmi_capacity_owed(const struct dmi_capacity *capacity, enum dmi_capacity_kind kind) {
  uint64_t least = 0;
  for (uint64_t i = 0; i < capacity->num; i++) {
    uint64_t owed = capacity->peer[i].owed[kind];
    if (owed && (!least || owed < least)) least = owed;
  }
  return least;
}

void dmi_capacity_freed(struct dmi_capacity *capacity, uint64_t ahead, uint64_t urgent,
                        struct dmi_capacity_out *out) {
  for (uint64_t i = 0; i < capacity->num; i++) {
    struct lender *peer = &capacity->peer[i];
    uint64_t *owed = peer->owed;
    if (owed[DMI_CAPACITY_AHEAD] && ahead >= owed[DMI_CAPACITY_AHEAD]) {
      report(out, peer->uid, DMI_CAPACITY_AHEAD, 0, ahead);
      owed[DMI_CAPACITY_AHEAD] = owed[DMI_CAPACITY_URGENT] = 0;
    } else if (owed[DMI_CAPACITY_URGENT] && urgent >= owed[DMI_CAPACITY_URGENT]) {
      report(out, peer->uid, DMI_CAPACITY_URGENT, 0, urgent);
      owed[DMI_CAPACITY_URGENT] = 0;
    }
  }
}
