/*
 * recover.c - a process recovers from a loss: it freezes, waits for the messages in flight, and
 * tells who has which operation (docs/crashes-pages.md).
 *
 * What homes do is in recover_home.c, how all goes on in recover_resume.c; what becomes of one
 * page, in page_crash.c.
 */
#include "core/recover.h"

#include <stdlib.h>
#include <string.h>

#include "core/recover_int.h"

struct dmi_recover *dmi_recover_new(struct dmi_core *core, const struct dmi_handover_env *records,
                                    const struct dmi_recover_env *env) {
  struct dmi_recover *r = dmi_xalloc(1, sizeof(*r));
  r->core = core;
  r->env = records;
  r->ops = env;
  return r;
}

static void early_free(struct dmi_recover *r) {
  for (uint64_t i = 0; i < r->early_num; i++) {
    dmi_slice_drop(&r->early[i].msg.list);
    dmi_slice_drop(&r->early[i].msg.body);
  }
  free(r->early);
}

void dmi_recover_free(struct dmi_recover *r) {
  if (!r) return;
  early_free(r);
  free(r->peer);
  free(r->note);
  free(r->place);
  free(r->said);
  free(r->mark);
  free(r->rebuilt);
  dmi_recover_rounds_free(r);
  free(r);
}

enum dmi_recover_state dmi_recover_state(const struct dmi_recover *r) {
  return r->state;
}

struct dmi_recover_peer *dmi_recover_peer(const struct dmi_recover *r, dmi_uid_t uid) {
  for (uint32_t i = 0; i < r->peer_num; i++) {
    if (r->peer[i].uid == uid) return &r->peer[i];
  }
  return NULL;
}

/* ---- For dmi_core --------------------------------------------------------------------------- */

bool dmi_recover_is_cut(const struct dmi_recover *r, dmi_uid_t from) {
  const struct dmi_recover_peer *peer;
  bool cut;
  dmi_recover_lock(r);
  peer = dmi_recover_peer(r, from);
  cut = r->doubt || (peer && peer->ended[DMI_ROUND_CUT] && !DMI_BROKEN(r->core, DMI_BREAK_CUT));
  dmi_recover_unlock(r);
  return cut;
}

static void note(struct dmi_recover *r, dmi_uid_t origin, dmi_op_t op, enum dmi_op_place what) {
  dmi_recover_lock(r);
  DMI_XALLOC_GROW(r->note, r->note_num, r->note_capacity);
  r->note[r->note_num++] = (struct dmi_recover_note){origin, {op, what}};
  dmi_recover_unlock(r);
}

void dmi_recover_dropped(struct dmi_recover *r, dmi_uid_t origin, dmi_op_t op) {
  note(r, origin, op, DMI_OP_DROPPED);
}

void dmi_recover_held(struct dmi_recover *r, dmi_uid_t origin, dmi_op_t op) {
  note(r, origin, op, DMI_OP_HELD);
}

bool dmi_recover_unknown(struct dmi_recover *r, dmi_uid_t from, const struct dmi_msg *msg) {
  if (dmi_recover_is_cut(r, from)) return true;
  if (msg->type == DMI_MSG_PUT) dmi_recover_dropped(r, msg->origin, msg->access.op);
  if (msg->type == DMI_MSG_ATOMIC) dmi_recover_dropped(r, msg->origin, msg->atomic.op);
  return false;
}

/* ---- Freeze, CUT ---------------------------------------------------------------------------- */

static const struct dmi_recover_rebuilt *rebuilt(const struct dmi_recover *r, uint64_t base) {
  for (uint64_t i = 0; i < r->rebuilt_num; i++) {
    if (r->rebuilt[i].base == base) return &r->rebuilt[i];
  }
  return NULL;
}

bool dmi_recover_is_rebuilt(const struct dmi_recover *r, uint64_t base) {
  return rebuilt(r, base) != NULL;
}

void dmi_recover_rebuild(struct dmi_recover *r, uint64_t base, dmi_uid_t lost) {
  if (dmi_recover_is_rebuilt(r, base)) return;
  DMI_XALLOC_GROW(r->rebuilt, r->rebuilt_num, r->rebuilt_capacity);
  r->rebuilt[r->rebuilt_num++] = (struct dmi_recover_rebuilt){base, lost};
}

dmi_uid_t dmi_recover_home_before(const struct dmi_recover *r, uint64_t base, dmi_uid_t home) {
  const struct dmi_recover_rebuilt *known = rebuilt(r, base);
  return known ? known->lost : home;
}

/* What waits here for a home that does not come, or comes otherwise, is dropped: the pages are
 * frozen. */
static void end_arrival(struct dmi_recover *r, struct dmi_map *map, struct dmi_out *out) {
  if (!atomic_load(&map->arriving)) return;
  ENV(r, arrived, map);
  dmi_out_add(out, DMI_ACT_REPLAY)->map = map;
}

/* A leaver that lives tells the rest itself.  But this process may have become the heir in a
 * recovery that is void; then it is no more the home than anybody else. */
void dmi_recover_correct_home(struct dmi_recover *r, struct dmi_map *map, dmi_uid_t home,
                              struct dmi_out *out) {
  const struct dmi_recover_rebuilt *known = rebuilt(r, map->base);
  dmi_uid_t from = atomic_load(&map->arriving);
  if (from && from != r->core->self && r->core->is_member(r->core->arg, from)) return;
  ENV(r, hold, map);
  end_arrival(r, map, out);
  if (known) r->rebuilt[known - r->rebuilt] = r->rebuilt[--r->rebuilt_num];
  atomic_store(&map->home, home);
  ENV(r, release, map);
}

/* The lost process that was the home of this mapping, or that was handing it over to this process
 * and had not finished.  NULL: the home lives. */
static const struct dmi_homeless *home_of(const struct dmi_recover *r, const struct dmi_map *map,
                                          const struct dmi_recover_view *view) {
  const struct dmi_recover_rebuilt *known = rebuilt(r, map->base);
  static const struct dmi_homeless none;
  dmi_uid_t home = dmi_recover_home_before(r, map->base, atomic_load(&map->home));
  dmi_uid_t from = atomic_load(&map->arriving);
  for (uint32_t i = 0; i < view->removed_num; i++) {
    dmi_uid_t lost = view->removed[i].uid;
    if (home == lost || from == lost) return &view->removed[i];
  }
  /* This process was named as the heir of a mapping that it did not know, and stays it. */
  return known && !known->lost ? &none : NULL;
}

/* Moves the home of a lost process to its heir.  Until RESUME no record that is made there becomes
 * OWNER. */
static void move_home(struct dmi_recover *r, struct dmi_map *map,
                      const struct dmi_recover_view *view, struct dmi_out *out) {
  const struct dmi_homeless *lost = home_of(r, map, view);
  dmi_uid_t heir;
  if (!lost) return;
  heir = lost->heir;
  dmi_recover_rebuild(r, map->base, lost->uid);
  ENV(r, hold, map);
  end_arrival(r, map, out);
  if (!heir || heir == r->core->self) atomic_store(&map->arriving, r->core->self);
  if (heir) atomic_store(&map->home, heir);
  ENV(r, release, map);
}

static void freeze_all(struct dmi_recover *r) {
  struct dmi_map *map;
  struct dmi_page *page;
  atomic_store(&r->core->frozen, true);
  EACH_MAP(r, map) {
    ENV(r, hold, map); /* a record made before `frozen` was set is among those gone through */
    ENV(r, release, map);
    EACH_RECORD(r, map, page) {
      dmi_page_freeze(r->core, page);
      ENV(r, unlock, page);
    }
  }
}

/* ---- BACK ----------------------------------------------------------------------------------- */

static int by_op(const void *a, const void *b) {
  const struct dmi_place *x = a, *y = b;
  return x->op.n < y->op.n ? -1 : x->op.n > y->op.n;
}

static void learn(struct dmi_recover *r, const struct dmi_place *place) {
  DMI_XALLOC_GROW(r->place, r->place_num, r->place_capacity);
  r->place[r->place_num++] = *place;
}

static void tell_one(struct dmi_recover *r, dmi_uid_t to, const struct dmi_recover_note *notes,
                     struct dmi_out *out) {
  struct dmi_recover_list list = {.msg = dmi_recover_about(r, DMI_MSG_BACK, 0), .to = to};
  for (uint64_t i = 0; i < r->note_num; i++) {
    if (notes[i].origin == to) dmi_recover_add(&list, &notes[i].place, sizeof(notes[i].place), out);
  }
  dmi_recover_send(&list, false, out);
  dmi_recover_list_free(&list);
}

static void send_backs(struct dmi_recover *r, struct dmi_out *out) {
  const struct dmi_msg end = dmi_recover_about(r, DMI_MSG_BACK, 0);
  uint64_t dropped = r->note_num;
  uint32_t first = out->num;
  struct dmi_map *map;
  struct dmi_page *page;
  EACH_MAP(r, map) {
    EACH_RECORD(r, map, page) {
      dmi_page_held(r->core, page);
      ENV(r, unlock, page);
    }
  }
  for (uint32_t i = 0; i < r->peer_num; i++)
    tell_one(r, r->peer[i].uid, r->note, out);
  dmi_recover_end_round(r, DMI_ROUND_BACK, &end, first, out);
  for (uint64_t i = 0; i < r->note_num; i++) {
    if (r->note[i].origin == r->core->self) learn(r, &r->note[i].place);
  }
  r->note_num = dropped; /* who holds what is asked anew at a second crash */
}

enum dmi_op_place dmi_recover_place_of(const struct dmi_recover *r, dmi_op_t op) {
  struct dmi_place key = {.op = op};
  const struct dmi_place *place =
      r->place_num ? bsearch(&key, r->place, r->place_num, sizeof(key), by_op) : NULL;
  return place ? (enum dmi_op_place)place->what : DMI_OP_AWAY;
}

/* Everybody has answered.  A copy is not known to be exact if its process has an operation away. */
static void look_for_away(struct dmi_recover *r) {
  struct dmi_page *page;
  struct dmi_req *req;
  uint64_t at = 0;
  if (r->place_num) qsort(r->place, r->place_num, sizeof(*r->place), by_op);
  while ((req = r->ops->next_op(r->ops->arg, &at, &page))) {
    if (dmi_recover_place_of(r, req->op) == DMI_OP_AWAY) dmi_page_op_away(page, req);
    ENV(r, unlock, page);
  }
}

/* ---- From step to step ---------------------------------------------------------------------- */

void dmi_recover_go_on(struct dmi_recover *r, struct dmi_out *out) {
  bool cut = dmi_recover_round_over(r, DMI_ROUND_CUT) || DMI_BROKEN(r->core, DMI_BREAK_CUT);
  if (r->state == DMI_RECOVER_CUTS && cut) {
    r->state = DMI_RECOVER_BACKS;
    if (r->ops->settle) r->ops->settle(r->ops->arg);
    send_backs(r, out);
  }
  if (r->state == DMI_RECOVER_BACKS && dmi_recover_round_over(r, DMI_ROUND_BACK)) {
    r->state = DMI_RECOVER_DECIDES;
    look_for_away(r);
    dmi_recover_report(r, out);
  }
  if (r->state == DMI_RECOVER_DECIDES) dmi_recover_reported(r, out);
}

/* With this rule switched off decisions are carried out at once, instead of being marked. */
static void drop_early(struct dmi_recover *r) {
  struct dmi_map *map;
  struct dmi_page *page;
  EACH_MAP(r, map) {
    EACH_RECORD(r, map, page) {
      if (!dmi_recover_mark_of(r, page).promoted) dmi_page_forget_copy(r->core, page);
      ENV(r, unlock, page);
    }
  }
}

void dmi_recover_ready(struct dmi_recover *r, struct dmi_out *out) {
  if (DMI_BROKEN(r->core, DMI_BREAK_DROP_EARLY)) {
    dmi_recover_sort_marks(r);
    drop_early(r);
  }
  r->state = DMI_RECOVER_READY;
  dmi_out_add(out, DMI_ACT_READY)->number = r->number;
}

/* ---- Events --------------------------------------------------------------------------------- */

/* Handles messages of this recovery that arrived before it began here. */
static void replay_early(struct dmi_recover *r, struct dmi_out *out) {
  struct dmi_recover_early *early = r->early;
  uint64_t num = r->early_num;
  r->early = NULL;
  r->early_num = r->early_capacity = 0;
  for (uint64_t i = 0; i < num; i++)
    (void)dmi_recover_message(r, early[i].from, &early[i].msg, out);
  free(early);
}

static void set_peers(struct dmi_recover *r, const struct dmi_recover_view *view) {
  dmi_recover_lock(r);
  r->peer = dmi_xalloc_again(r->peer, view->member_num, sizeof(*r->peer));
  r->peer_num = 0;
  for (uint32_t i = 0; i < view->member_num; i++) {
    if (view->member[i] == r->core->self) continue;
    r->peer[r->peer_num++] = (struct dmi_recover_peer){.uid = view->member[i]};
  }
  dmi_recover_unlock(r);
}

void dmi_recover_freeze(struct dmi_recover *r) {
  dmi_recover_lock(r);
  if (r->state == DMI_RECOVER_READY) r->doubt = true;
  r->state = DMI_RECOVER_FROZEN;
  r->peer_num = 0; /* no CUT has come */
  dmi_recover_unlock(r);
  freeze_all(r);
}

void dmi_recover_carry(struct dmi_recover *r, uint64_t carried, struct dmi_out *out) {
  bool doubt = r->doubt;
  dmi_recover_lock(r);
  r->doubt = false;
  dmi_recover_unlock(r);
  if (!doubt || r->number > carried || DMI_BROKEN(r->core, DMI_BREAK_DOUBT)) return;
  dmi_recover_resume(r, out);
  dmi_recover_freeze(r);
}

void dmi_recover_begin(struct dmi_recover *r, const struct dmi_recover_view *view,
                       struct dmi_out *out) {
  struct dmi_msg cut;
  struct dmi_map *map;
  if (r->state != DMI_RECOVER_FROZEN) dmi_recover_freeze(r);
  dmi_recover_carry(r, 0, out); /* unless that was done: nothing is carried */
  r->number = view->number;
  r->coordinator = view->coordinator;
  atomic_store(&r->core->losses, (uint32_t)view->number);
  r->state = DMI_RECOVER_CUTS;
  r->asked = false;
  r->marking = 0;
  r->place_num = r->said_num = r->mark_num = 0;
  set_peers(r, view);
  dmi_recover_rounds_begin(r);
  EACH_MAP(r, map) {
    move_home(r, map, view, out);
  }
  cut = dmi_recover_about(r, DMI_MSG_CHANNEL_CUT, 0);
  dmi_recover_end_round(r, DMI_ROUND_CUT, &cut, out->first, out);
  dmi_out_add(out, DMI_ACT_BEGUN)->number = r->number;
}

/* A CUT that came early must not be taken before what was kept so far is given to the pages: that
 * would look as if it came behind the CUT, and wait for RESUME. */
void dmi_recover_begun(struct dmi_recover *r, uint64_t number, struct dmi_out *out) {
  if (number != r->number || r->state != DMI_RECOVER_CUTS) return; /* another loss */
  replay_early(r, out);
  dmi_recover_go_on(r, out);
}

static bool handle(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg, struct dmi_out *out) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(r, from, msg, out);
    DMI_MSGS_RECOVER(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

bool dmi_recover_message(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                         struct dmi_out *out) {
  bool good = true;
  if (msg->recover.number > r->number) {
    DMI_XALLOC_GROW(r->early, r->early_num, r->early_capacity);
    if (msg->list.len && !msg->list.frame)
      msg->list = dmi_slice_xcopy(msg->list.ptr, msg->list.len);
    r->early[r->early_num++] = (struct dmi_recover_early){from, *msg};
    return true;
  }
  if (msg->recover.number == r->number && r->state > DMI_RECOVER_FROZEN)
    good = dmi_recover_peer(r, from) && handle(r, from, msg, out);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

bool dmi_recover_on_cut(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                        struct dmi_out *out) {
  (void)msg;
  dmi_recover_lock(r);
  dmi_recover_peer(r, from)->ended[DMI_ROUND_CUT] = true;
  dmi_recover_unlock(r);
  dmi_recover_go_on(r, out);
  return true;
}

bool dmi_recover_on_back(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                         struct dmi_out *out) {
  struct dmi_place place;
  for (uint64_t at = 0; at + sizeof(place) <= msg->list.len; at += sizeof(place)) {
    memcpy(&place, msg->list.ptr + at, sizeof(place));
    if (place.what != DMI_OP_DROPPED && place.what != DMI_OP_HELD) return false;
    learn(r, &place);
  }
  if (!msg->list.len) dmi_recover_peer(r, from)->ended[DMI_ROUND_BACK] = true;
  dmi_recover_go_on(r, out);
  return true;
}
