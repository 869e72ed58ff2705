/*
 * room.c - who has room for pages of others (docs/replacement.md).
 *
 * For each other member: what it said last, whether it was asked, what it asked and is to be told,
 * and promises in both directions.  Nothing is asked twice before the answer to the first, and a
 * member that had too little is not asked for as much before it says that it has more.
 */
#include "core/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/replace.h"

/* AHEAD and URGENT are asked by one and the same question at a time, PROMISE by another. */
enum { ORDINARY, LEAVE, QUESTIONS };

struct question {
  uint64_t number; /* 0: none */
  uint8_t kind;
  uint64_t bytes, unit;
  bool now;
  bool held;      /* ... back, in this look */
  uint32_t looks; /* in which it was */
  uint64_t until; /* turned: then it is answered */
};

struct peer {
  uint32_t uid;
  uint64_t word;                    /* bytes it can take, less what it was offered since */
  uint8_t word_kind;                /* for which they are: AHEAD: for both */
  uint64_t refused[2];              /* by kind: it has no room for pages of this size */
  struct question asked[QUESTIONS]; /* by us, no answer yet */
  struct question asks[QUESTIONS];  /* by it, not answered yet */
  uint64_t owed[2];                 /* by kind: it waits for room for such a page; 0: no */
  uint64_t promised;                /* bytes reserved here for what it gives away */
  uint64_t promise;                 /* bytes it has reserved for what we give away */
  uint64_t planned;                 /* of them for pages in the list of shares */
  bool tried;                       /* it was asked for a promise in this leave */
};

/* Pages of one size that one member is to get. */
struct share {
  uint32_t uid;
  uint64_t size, num;
};

struct dmi_rooms {
  struct peer *peer;
  uint64_t num;
  uint64_t last_number;
#ifdef DMI_MUTATIONS
  enum dmi_room_break broken;
#endif
  bool spills;                       /* asks for answers at once */
  struct dmi_replace_member *member; /* room to choose in: `num` of them */
  enum dmi_room_leave leave;
  uint32_t heir;
  struct dmi_room_lot *lot; /* what there was when the leave began; largest pages first */
  uint64_t lots;
  struct share *share; /* who gets what, as far as was promised */
  uint64_t shares;
};

struct dmi_rooms *dmi_rooms_new(void) {
  return dmi_xalloc(1, sizeof(struct dmi_rooms));
}

void dmi_rooms_free(struct dmi_rooms *rooms) {
  if (!rooms) return;
  free(rooms->peer);
  free(rooms->member);
  free(rooms->lot);
  free(rooms->share);
  free(rooms);
}

void dmi_rooms_spill(struct dmi_rooms *rooms) {
  rooms->spills = true;
}

#ifdef DMI_MUTATIONS
void dmi_rooms_set_break(struct dmi_rooms *rooms, enum dmi_room_break broken) {
  rooms->broken = broken;
}
#endif

enum dmi_room_leave dmi_room_leave_state(const struct dmi_rooms *rooms) {
  return rooms->leave;
}

/* ---- Messages ------------------------------------------------------------------------------- */

void dmi_room_out_init(struct dmi_room_out *out) {
  memset(out, 0, sizeof(*out));
}

void dmi_room_out_free(struct dmi_room_out *out) {
  free(out->send);
  dmi_room_out_init(out);
}

static void send(struct dmi_room_out *out, uint32_t to, enum dmi_room_type type, uint8_t kind,
                 uint64_t number, uint64_t bytes, uint64_t unit) {
  DMI_XALLOC_GROW(out->send, out->num, out->room);
  out->send[out->num++] =
      (struct dmi_room_send){to, {(uint8_t)type, kind, number, bytes, unit, false}};
}

static struct peer *find(const struct dmi_rooms *rooms, uint32_t uid) {
  for (uint64_t i = 0; i < rooms->num; i++) {
    if (rooms->peer[i].uid == uid) return &rooms->peer[i];
  }
  return NULL;
}

static void ask(struct dmi_rooms *rooms, struct peer *peer, enum dmi_room_kind kind, uint64_t bytes,
                uint64_t unit, struct dmi_room_out *out) {
  struct question *asked = &peer->asked[kind == DMI_ROOM_PROMISE ? LEAVE : ORDINARY];
  *asked = (struct question){
      .number = ++rooms->last_number, .kind = (uint8_t)kind, .bytes = bytes, .unit = unit};
  send(out, peer->uid, DMI_ROOM_ASK, (uint8_t)kind, asked->number, bytes, unit);
  out->send[out->num - 1].msg.now = rooms->spills && kind == DMI_ROOM_URGENT;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void give_back(struct dmi_rooms *rooms, struct dmi_room_out *out) {
  for (uint64_t i = 0; i < rooms->num; i++) {
    struct peer *peer = &rooms->peer[i];
    if (peer->promise) send(out, peer->uid, DMI_ROOM_BACK, 0, 0, peer->promise, 0);
    peer->promise = peer->planned = 0;
  }
}

/* The heir if it was not asked yet, then who said that it has the most room; NULL: all were. */
static struct peer *next_promiser(const struct dmi_rooms *rooms) {
  struct peer *best = NULL;
  for (uint64_t i = 0; i < rooms->num; i++) {
    struct peer *peer = &rooms->peer[i];
    if (peer->tried) continue;
    if (peer->uid == rooms->heir) return peer;
    if (!best || peer->word > best->word) best = peer;
  }
  return best;
}

static void share(struct dmi_rooms *rooms, struct peer *peer, uint64_t size, uint64_t *left) {
  uint64_t fit = (peer->promise - peer->planned) / size;
  if (fit > *left) fit = *left;
  if (!fit) return;
  rooms->share[rooms->shares++] = (struct share){peer->uid, size, fit};
  peer->planned += fit * size;
  *left -= fit;
}

/* Who gets what, whole pages, larger ones first and the heir before others.  Returns the bytes of
 * pages that fit nowhere, *unit: the size of the smallest of them. */
static uint64_t plan(struct dmi_rooms *rooms, uint64_t *unit) {
  struct peer *heir = find(rooms, rooms->heir);
  uint64_t missing = 0;
  free(rooms->share);
  rooms->share = dmi_xalloc(rooms->lots * rooms->num, sizeof(*rooms->share));
  rooms->shares = 0;
  for (uint64_t i = 0; i < rooms->num; i++)
    rooms->peer[i].planned = 0;
  for (uint64_t l = 0; l < rooms->lots; l++) {
    uint64_t size = rooms->lot[l].size, left = rooms->lot[l].num;
    if (heir) share(rooms, heir, size, &left);
    for (uint64_t i = 0; i < rooms->num; i++) {
      if (&rooms->peer[i] != heir) share(rooms, &rooms->peer[i], size, &left);
    }
    missing += left * size;
    if (left) *unit = size;
  }
  for (uint64_t i = 0; DMI_BROKEN(rooms, DMI_ROOM_BREAK_WHOLE) && i < rooms->num; i++) {
    uint64_t left = rooms->peer[i].promise - rooms->peer[i].planned;
    missing -= left < missing ? left : missing;
  }
  return missing;
}

/* One after the other, so that nobody sets aside what is not needed. */
static void leave_look(struct dmi_rooms *rooms, struct dmi_room_out *out) {
  uint64_t missing, unit = 0;
  struct peer *next;
  if (rooms->leave != DMI_ROOM_LEAVE_ASKS) return;
  for (uint64_t i = 0; i < rooms->num; i++) {
    if (rooms->peer[i].asked[LEAVE].number) return;
  }
  missing = plan(rooms, &unit);
  if (!missing) {
    rooms->leave = DMI_ROOM_LEAVE_READY;
    return;
  }
  next = next_promiser(rooms);
  if (next) {
    next->tried = true;
    ask(rooms, next, DMI_ROOM_PROMISE, missing, unit, out);
    return;
  }
  rooms->leave = DMI_ROOM_LEAVE_FAILED;
}

static int larger_first(const void *left, const void *right) {
  const struct dmi_room_lot *a = left, *b = right;
  return (a->size < b->size) - (a->size > b->size);
}

void dmi_room_leave(struct dmi_rooms *rooms, uint32_t heir, const struct dmi_room_lot *lot,
                    uint64_t lots, struct dmi_room_out *out) {
  rooms->leave = DMI_ROOM_LEAVE_ASKS;
  rooms->heir = heir;
  free(rooms->lot);
  rooms->lot = dmi_xalloc(lots, sizeof(*lot));
  rooms->lots = lots;
  if (lots) memcpy(rooms->lot, lot, lots * sizeof(*lot));
  qsort(rooms->lot, lots, sizeof(*lot), larger_first);
  for (uint64_t i = 0; i < rooms->num; i++)
    rooms->peer[i].tried = false;
  leave_look(rooms, out);
}

/* What was promised beyond the pages that were counted: for those that got bytes since. */
static struct peer *spare(const struct dmi_rooms *rooms, uint64_t bytes) {
  struct peer *best = NULL;
  for (uint64_t i = 0; i < rooms->num; i++) {
    struct peer *peer = &rooms->peer[i];
    uint64_t left = peer->promise - peer->planned;
    if (left < bytes) continue;
    if (peer->uid == rooms->heir) return peer;
    if (!best || left > best->promise - best->planned) best = peer;
  }
  return best;
}

uint32_t dmi_room_give(struct dmi_rooms *rooms, uint64_t bytes) {
  struct peer *peer;
  for (uint64_t i = 0; i < rooms->shares; i++) {
    struct share *at = &rooms->share[i];
    peer = at->size == bytes ? find(rooms, at->uid) : NULL;
    if (!peer) continue;
    if (!--at->num) *at = rooms->share[--rooms->shares];
    peer->planned -= bytes;
    peer->promise -= bytes;
    return peer->uid;
  }
  peer = spare(rooms, bytes);
  if (!peer) return rooms->heir;
  peer->promise -= bytes;
  return peer->uid;
}

void dmi_room_leave_end(struct dmi_rooms *rooms, struct dmi_room_out *out) {
  rooms->leave = DMI_ROOM_NO_LEAVE;
  rooms->shares = 0;
  if (!DMI_BROKEN(rooms, DMI_ROOM_BREAK_GIVE_UP)) give_back(rooms, out);
}

uint64_t dmi_room_taken(struct dmi_rooms *rooms, uint32_t from, uint64_t bytes) {
  struct peer *peer = find(rooms, from);
  if (!peer) return 0;
  if (bytes > peer->promised) bytes = peer->promised;
  peer->promised -= bytes;
  return bytes;
}

uint64_t dmi_room_promised(const struct dmi_rooms *rooms) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < rooms->num; i++)
    bytes += rooms->peer[i].promised;
  return bytes;
}

/* ---- The members ---------------------------------------------------------------------------- */

uint64_t dmi_room_view(struct dmi_rooms *rooms, const uint32_t *uid, uint64_t num,
                       struct dmi_room_out *out) {
  struct peer *fresh = dmi_xalloc(num, sizeof(*fresh));
  uint64_t freed = dmi_room_promised(rooms);
  for (uint64_t i = 0; i < num; i++) {
    const struct peer *old = find(rooms, uid[i]);
    if (old) {
      fresh[i] = *old;
    } else {
      fresh[i].uid = uid[i];
      fresh[i].refused[DMI_ROOM_AHEAD] = fresh[i].refused[DMI_ROOM_URGENT] = UINT64_MAX;
    }
    freed -= fresh[i].promised;
  }
  if (DMI_BROKEN(rooms, DMI_ROOM_BREAK_GONE) && num < rooms->num) {
    for (uint64_t i = 0; num > 0 && i < rooms->num; i++) {
      if (rooms->peer[i].asked[ORDINARY].number) fresh[0].asked[ORDINARY].number = UINT64_MAX;
    }
  }
  free(rooms->peer);
  free(rooms->member);
  rooms->peer = fresh;
  rooms->num = num;
  rooms->member = dmi_xalloc(num, sizeof(*rooms->member));
  leave_look(rooms, out);
  return freed;
}

static bool on_ask(struct peer *peer, const struct dmi_room_msg *msg) {
  struct question *asks = &peer->asks[msg->kind == DMI_ROOM_PROMISE ? LEAVE : ORDINARY];
  if (asks->number || !msg->number || !msg->unit || msg->bytes < msg->unit) return false;
  *asks = (struct question){.number = msg->number,
                            .kind = msg->kind,
                            .bytes = msg->bytes,
                            .unit = msg->unit,
                            .now = msg->now};
  return true;
}

static bool on_promise(struct dmi_rooms *rooms, struct peer *peer, const struct dmi_room_msg *msg,
                       struct dmi_room_out *out) {
  struct question *asked = &peer->asked[LEAVE];
  if (!msg->number || msg->number != asked->number || msg->bytes > asked->bytes) return false;
  asked->number = 0;
  peer->promise += msg->bytes;
  if (rooms->leave != DMI_ROOM_LEAVE_ASKS) {
    give_back(rooms, out); /* it stays after all */
  } else {
    leave_look(rooms, out);
  }
  return true;
}

/* Room for AHEAD is room for URGENT, too; and no room for URGENT is none for AHEAD. */
static bool on_tell(struct dmi_rooms *rooms, struct peer *peer, const struct dmi_room_msg *msg) {
  struct question *asked = &peer->asked[ORDINARY];
  uint64_t unit = 1;
  if (msg->number) {
    if (msg->number != asked->number || msg->kind != asked->kind) return false;
    unit = asked->unit;
    asked->number = 0;
  }
  peer->word = msg->bytes;
  peer->word_kind = msg->kind;
  if (msg->bytes >= unit) {
    peer->refused[DMI_ROOM_URGENT] = UINT64_MAX;
    if (msg->kind == DMI_ROOM_AHEAD) peer->refused[DMI_ROOM_AHEAD] = UINT64_MAX;
  } else if (!DMI_BROKEN(rooms, DMI_ROOM_BREAK_REFUSED)) {
    for (int kind = 0; kind <= msg->kind; kind++) {
      if (unit < peer->refused[kind]) peer->refused[kind] = unit;
    }
  }
  return true;
}

bool dmi_room_message(struct dmi_rooms *rooms, uint32_t from, const struct dmi_room_msg *msg,
                      uint64_t *freed, struct dmi_room_out *out) {
  struct peer *peer = find(rooms, from);
  *freed = 0;
  if (msg->kind > DMI_ROOM_PROMISE) return false;
  if (!peer) return true; /* it has left the view, and forwards only; or is not in it yet */
  switch (msg->type) {
    case DMI_ROOM_ASK:
      return on_ask(peer, msg);
    case DMI_ROOM_TELL:
      return msg->kind == DMI_ROOM_PROMISE ? on_promise(rooms, peer, msg, out)
                                           : on_tell(rooms, peer, msg);
    case DMI_ROOM_BACK:
      *freed = dmi_room_taken(rooms, from, msg->bytes);
      return true;
    default:
      return false;
  }
}

void dmi_room_kept(struct dmi_rooms *rooms, uint32_t from) {
  struct peer *peer = find(rooms, from);
  if (peer) peer->word = 0;
}

/* ---- This process needs room ---------------------------------------------------------------- */

/* What it can take of this kind, as far as is known. */
static uint64_t usable(const struct peer *peer, enum dmi_room_kind kind) {
  return peer->word_kind <= kind ? peer->word : 0;
}

enum dmi_room_have dmi_room_need(struct dmi_rooms *rooms, uint64_t bytes, uint64_t unit,
                                 enum dmi_room_kind kind, struct dmi_room_out *out) {
  enum dmi_room_have have = DMI_ROOM_NONE;
  for (uint64_t i = 0; i < rooms->num; i++) {
    if (usable(&rooms->peer[i], kind) >= unit) return DMI_ROOM_SOME;
  }
  for (uint64_t i = 0; i < rooms->num; i++) {
    struct peer *peer = &rooms->peer[i];
    if (!peer->asked[ORDINARY].number && unit < peer->refused[kind])
      ask(rooms, peer, kind, bytes > unit ? bytes : unit, unit, out);
    if (peer->asked[ORDINARY].number) have = DMI_ROOM_ASKED;
  }
  return have;
}

uint32_t dmi_room_pick(struct dmi_rooms *rooms, const uint32_t *holder, uint64_t holders,
                       uint64_t bytes, enum dmi_room_kind kind) {
  uint32_t uid;
  for (uint64_t i = 0; i < rooms->num; i++)
    rooms->member[i] =
        (struct dmi_replace_member){rooms->peer[i].uid, usable(&rooms->peer[i], kind)};
  uid = dmi_replace_target(rooms->member, rooms->num, holder, holders, bytes);
  if (uid && !DMI_BROKEN(rooms, DMI_ROOM_BREAK_WORD)) find(rooms, uid)->word -= bytes;
  return uid;
}

/* ---- Others need room ----------------------------------------------------------------------- */

bool dmi_room_asker(const struct dmi_rooms *rooms, struct dmi_room_asker *asker) {
  for (uint64_t i = 0; i < rooms->num; i++) {
    for (int q = 0; q < QUESTIONS; q++) {
      const struct question *asks = &rooms->peer[i].asks[q];
      if (!asks->number || asks->held) continue;
      *asker = (struct dmi_room_asker){rooms->peer[i].uid, asks->kind, asks->bytes, asks->unit};
      return true;
    }
  }
  return false;
}

/* A copy that is written again and again is held at nearly every look. */
#define LOOKS_AT_COPIES 64

bool dmi_room_hold(struct dmi_rooms *rooms, const struct dmi_room_asker *asker, uint64_t bytes,
                   const struct dmi_room_passing *passing) {
  bool promise = asker->kind == DMI_ROOM_PROMISE;
  struct peer *peer = find(rooms, asker->uid);
  struct question *asks = peer ? &peer->asks[promise ? LEAVE : ORDINARY] : NULL;
  if (!asks || asks->now || asker->kind == DMI_ROOM_AHEAD) return false;
  if (bytes >= (promise ? asks->bytes : asks->unit)) return false;
  if (DMI_BROKEN(rooms, DMI_ROOM_BREAK_HOLD)) return false;
  if (asks->looks == 0) asks->until = passing->turned + passing->bytes;
  asks->held = (passing->bytes && passing->turned < asks->until) ||
               (passing->copies && asks->looks < LOOKS_AT_COPIES);
  asks->looks++;
  return asks->held;
}

void dmi_room_again(struct dmi_rooms *rooms) {
  for (uint64_t i = 0; i < rooms->num; i++) {
    rooms->peer[i].asks[ORDINARY].held = rooms->peer[i].asks[LEAVE].held = false;
  }
}

bool dmi_room_answer(struct dmi_rooms *rooms, const struct dmi_room_asker *asker, uint64_t bytes,
                     struct dmi_room_out *out) {
  struct peer *peer = find(rooms, asker->uid);
  struct question *asks =
      peer ? &peer->asks[asker->kind == DMI_ROOM_PROMISE ? LEAVE : ORDINARY] : NULL;
  if (!asks || !asks->number) return false;
  if (asker->kind == DMI_ROOM_PROMISE) {
    /* The rest of what it has to give away needs another page's room at least. */
    uint64_t *owed = &peer->owed[DMI_ROOM_URGENT], more = bytes + asks->unit;
    if (bytes < asks->bytes && (!*owed || more < *owed)) *owed = more;
    peer->promised += bytes;
  } else if (bytes < asker->unit && !DMI_BROKEN(rooms, DMI_ROOM_BREAK_OWED)) {
    for (int kind = 0; kind <= asker->kind; kind++) { /* see on_tell */
      uint64_t *owed = &peer->owed[kind];
      if (!*owed || asker->unit < *owed) *owed = asker->unit;
    }
  }
  send(out, peer->uid, DMI_ROOM_TELL, asker->kind, asks->number, bytes, 0);
  asks->number = 0;
  return true;
}

uint64_t dmi_room_owed(const struct dmi_rooms *rooms, enum dmi_room_kind kind) {
  uint64_t least = 0;
  for (uint64_t i = 0; i < rooms->num; i++) {
    uint64_t owed = rooms->peer[i].owed[kind];
    if (owed && (!least || owed < least)) least = owed;
  }
  return least;
}

void dmi_room_freed(struct dmi_rooms *rooms, uint64_t ahead, uint64_t urgent,
                    struct dmi_room_out *out) {
  for (uint64_t i = 0; i < rooms->num; i++) {
    struct peer *peer = &rooms->peer[i];
    uint64_t *owed = peer->owed;
    if (owed[DMI_ROOM_AHEAD] && ahead >= owed[DMI_ROOM_AHEAD]) {
      send(out, peer->uid, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 0, ahead, 0);
      owed[DMI_ROOM_AHEAD] = owed[DMI_ROOM_URGENT] = 0;
    } else if (owed[DMI_ROOM_URGENT] && urgent >= owed[DMI_ROOM_URGENT]) {
      send(out, peer->uid, DMI_ROOM_TELL, DMI_ROOM_URGENT, 0, urgent, 0);
      owed[DMI_ROOM_URGENT] = 0;
    }
  }
}
