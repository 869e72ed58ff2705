/*
 * handover.c - the leaver: promises, homes, pages, copies, in this order; and what every process
 * does when a member has left or a mapping is unmapped.
 *
 * A leave consists of small steps (dmi_handover_go_on). The caller decides what happens between
 * them; the simulator tries everything that is possible.
 */
#include "core/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/handover_int.h"

#define TAILS_AT_ONCE 4096 /* entries in one HOME_TAILS: 64 KiB */

/* Most bytes of pages in flight: enough to keep the network busy, but so few that requests of
 * others need not wait until everything is sent. */
#define BYTES_AT_ONCE (UINT64_C(4) << 20)

/* ---- States --------------------------------------------------------------------------------- */

#define TO(state) (1u << DMI_HANDOVER_##state)

static const uint32_t may[DMI_HANDOVER_STATES] = {
    [DMI_HANDOVER_STAYS] = TO(NO_HEIR) | TO(ASKS),
    [DMI_HANDOVER_NO_HEIR] = TO(ASKS) | TO(NO_HEIR), /* its heir was lost, and there is no other */
    [DMI_HANDOVER_ASKS] = TO(HOMES) | TO(STAYS) | TO(NO_HEIR),
    [DMI_HANDOVER_HOMES] = TO(BEGUN) | TO(PAGES) | TO(STAYS) | TO(NO_HEIR),
    [DMI_HANDOVER_BEGUN] = TO(TAILS),
    [DMI_HANDOVER_TAILS] = TO(HOMES),
    [DMI_HANDOVER_PAGES] = TO(COPIES) | TO(HOMES) | TO(STAYS) | TO(NO_HEIR),
    [DMI_HANDOVER_COPIES] = TO(DRAINED) | TO(HOMES) | TO(STAYS) | TO(NO_HEIR),
    [DMI_HANDOVER_DRAINED] = TO(STAYS) | TO(NO_HEIR),
};

bool dmi_handover_may(enum dmi_handover_state from, enum dmi_handover_state to) {
  return may[from] >> to & 1;
}

static void move(struct dmi_handover *h, enum dmi_handover_state to) {
#ifdef DMI_DEBUG
  if (!dmi_handover_may(h->state, to)) {
    fprintf(stderr, "dmi: bug: the handover goes from state %d to %d\n", h->state, to);
    abort();
  }
#endif
  h->state = to;
}

enum dmi_handover_state dmi_handover_state(const struct dmi_handover *h) {
  return h->state;
}

/* ---- Making and ending ---------------------------------------------------------------------- */

struct dmi_handover *dmi_handover_new(struct dmi_core *core, const struct dmi_handover_env *env) {
  struct dmi_handover *h = dmi_xalloc(1, sizeof(*h));
  h->core = core;
  h->env = env;
  h->promises = core->promises = dmi_promises_new(core);
  dmi_handover_set_sizes(h, TAILS_AT_ONCE, BYTES_AT_ONCE);
  return h;
}

void dmi_handover_set_sizes(struct dmi_handover *h, uint64_t tails, uint64_t bytes) {
  h->tails_at_once = tails;
  h->bytes_at_once = bytes;
}

#ifdef DMI_MUTATIONS
void dmi_handover_set_break(struct dmi_handover *h, enum dmi_handover_break broken,
                            enum dmi_capacity_break promises) {
  h->broken = broken;
  dmi_promises_set_break(h->promises, promises);
}

void dmi_handover_set_receiver(struct dmi_handover *h,
                               uint32_t (*receiver)(void *arg, uint64_t bytes)) {
  dmi_promises_set_receiver(h->promises, receiver, h->env->arg);
}
#endif

static void forget_pages(struct dmi_handover *h) {
  while (h->page_next < h->page_num)
    ENV(h, unref, h->page[h->page_next++]->map);
  free(h->page);
  h->page = NULL;
  h->page_num = h->page_capacity = h->page_next = 0;
}

void dmi_handover_free(struct dmi_handover *h) {
  if (!h) return;
  if (h->home) ENV(h, unref, h->home);
  free(h->tail);
  forget_pages(h);
  dmi_handover_takes_free(h);
  h->core->promises = NULL;
  dmi_promises_free(h->promises);
  free(h);
}

struct dmi_msg dmi_handover_about(const struct dmi_handover *h, uint64_t base,
                                  enum dmi_msg_type type) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = h->core->self;
  msg.map = base;
  return msg;
}

/* ---- Collecting ----------------------------------------------------------------------------- */

static void collect_tails(struct dmi_handover *h, struct dmi_map *map) {
  struct dmi_page *page;
  h->tail_num = h->tail_next = 0;
  EACH_RECORD(h, map, page) {
    struct dmi_tail tail = {page->index, dmi_page_tail(h->core, page), 0};
    ENV(h, unlock, page);
    if (DMI_BROKEN(h, DMI_HBREAK_RECORD) && tail.tail == h->core->self) continue;
    DMI_XALLOC_GROW(h->tail, h->tail_num, h->tail_capacity);
    h->tail[h->tail_num++] = tail;
  }
}

/* Collects the pages that are owned; or (`copies`) those with a copy, or with a fetch that may
 * bring one. */
static void collect_pages(struct dmi_handover *h, bool copies) {
  struct dmi_map *map;
  struct dmi_page *page;
  EACH_MAP(h, map) {
    EACH_RECORD(h, map, page) {
      bool wanted = copies ? page->copy || page->busy : page->role == DMI_ROLE_OWNER;
      ENV(h, unlock, page);
      if (!wanted || !ENV(h, ref, map)) continue;
      DMI_XALLOC_GROW(h->page, h->page_num, h->page_capacity);
      h->page[h->page_num++] = page;
    }
  }
}

/* ---- Promises ------------------------------------------------------------------------------- */

void dmi_handover_view(struct dmi_handover *h, const uint32_t *uid, uint64_t num) {
  dmi_promises_view(h->promises, uid, num);
}

bool dmi_handover_report(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg) {
  return dmi_promises_report(h->promises, from, msg);
}

void dmi_handover_begin(struct dmi_handover *h, uint32_t heir, struct dmi_out *out) {
  h->heir = heir;
  atomic_store(&h->core->counted, false);
  if (heir) {
    move(h, DMI_HANDOVER_ASKS);
    return;
  }
  h->keeps = true;
  move(h, DMI_HANDOVER_NO_HEIR);
  (void)dmi_out_add(out, DMI_ACT_DRAINED);
}

/* Will it have bytes when it is handed over, as far as is known? */
static bool needs_memory(const struct dmi_page *page) {
  if (page->role == DMI_ROLE_PENDING) return true;
  if (page->role != DMI_ROLE_OWNER) return false;
  return dmi_page_has_bytes(page) || (page->flags & DMI_PAGE_STALLED); /* its first write waits */
}

/* Counts the pages to hand over, by size. From here on this process comes to own no others. */
static void count_pages(struct dmi_handover *h) {
  struct dmi_promise_size *sizes = NULL;
  uint64_t num = 0, capacity = 0;
  struct dmi_map *map;
  struct dmi_page *page;
  atomic_store(&h->core->counted, true);
  EACH_MAP(h, map) {
    uint64_t pages = 0, at = 0;
    EACH_RECORD(h, map, page) {
      pages += needs_memory(page);
      ENV(h, unlock, page);
    }
    if (!pages) continue;
    while (at < num && sizes[at].size != map->page_size)
      at++;
    DMI_XALLOC_GROW(sizes, at, capacity);
    if (at == num) sizes[num++] = (struct dmi_promise_size){map->page_size, 0};
    sizes[at].num += pages;
  }
  dmi_promises_begin(h->promises, h->heir, sizes, num);
  free(sizes);
}

static bool go_on_asks(struct dmi_handover *h, struct dmi_out *out) {
  if (!atomic_load(&h->core->counted)) count_pages(h);
  switch (dmi_promises_ask(h->promises, out)) {
    case DMI_PROMISES_WAIT:
      return false;
    case DMI_PROMISES_ENOUGH:
      atomic_store(&h->core->heir, h->heir);
      (void)dmi_out_add(out, DMI_ACT_LEAVES);
      if (DMI_BROKEN(h, DMI_HBREAK_PAGES)) collect_pages(h, false);
      move(h, DMI_HANDOVER_HOMES);
      return true;
    case DMI_PROMISES_TOO_LITTLE:
      dmi_promises_end(h->promises, false, out);
      atomic_store(&h->core->counted, false);
      (void)dmi_out_add(out, DMI_ACT_STAYS);
      move(h, h->keeps ? DMI_HANDOVER_NO_HEIR : DMI_HANDOVER_STAYS);
      return true;
    default: /* another member was asked */
      return true;
  }
}

/* ---- Homes: R8.1 ---------------------------------------------------------------------------- */

static void send_home_end(struct dmi_handover *h, uint64_t base, struct dmi_out *out) {
  struct dmi_msg msg = dmi_handover_about(h, base, DMI_MSG_HOME_END);
  dmi_out_send(out, h->heir, &msg);
  h->homes_in_flight++;
}

/* Finds the next mapping whose home is here, with a reference. NULL: there is none, and there
 * will be none: this process does not become the home of new mappings (dmi_directory_on_mmap),
 * nor the heir of others, as heirs do not leave. */
static struct dmi_map *next_home(struct dmi_handover *h) {
  struct dmi_map *map = ENV(h, next_map, h->home_from);
  for (; map; map = ENV(h, next_map, map->base)) {
    if (atomic_load(&map->home) == h->core->self && ENV(h, ref, map)) return map;
  }
  return NULL;
}

/* Begins with the next home: HOME_BEGIN is sent before anything else is sent to the heir as the
 * home. */
static void begin_home(struct dmi_handover *h, struct dmi_out *out) {
  struct dmi_map *map = h->home = next_home(h);
  struct dmi_msg msg;
  if (!map) {
    /* No home is here any more, so no new record begins as an owner: what is here is all. */
    if (!DMI_BROKEN(h, DMI_HBREAK_PAGES)) collect_pages(h, false);
    move(h, DMI_HANDOVER_PAGES);
    return;
  }
  h->home_from = map->base;
  msg = dmi_handover_about(h, map->base, DMI_MSG_HOME_BEGIN);
  msg.home = (struct dmi_msg_home){
      .page_size = map->page_size, .page_num = map->page_num, .tag = map->tag};
  if (atomic_load(&map->hole)) msg.flags |= DMI_F_LOST;
  dmi_out_send(out, h->heir, &msg);
  if (DMI_BROKEN(h, DMI_HBREAK_LIST)) collect_tails(h, map);
  move(h, DMI_HANDOVER_BEGUN);
}

/* From here on this process does not act as the home; after that the tails are collected.
 * Records made later have no tails. */
static void move_home(struct dmi_handover *h, struct dmi_out *out) {
  struct dmi_map *map = h->home;
  ENV(h, hold, map);
  map->given = h->heir;
  atomic_store(&map->home, h->heir);
  if (!DMI_BROKEN(h, DMI_HBREAK_LIST)) collect_tails(h, map);
  ENV(h, release, map);
  if (DMI_BROKEN(h, DMI_HBREAK_END)) send_home_end(h, map->base, out);
  move(h, DMI_HANDOVER_TAILS);
}

static void send_tails(struct dmi_handover *h, struct dmi_out *out) {
  struct dmi_map *map = h->home;
  uint64_t num = h->tail_num - h->tail_next;
  struct dmi_msg msg;
  if (!num) {
    if (!DMI_BROKEN(h, DMI_HBREAK_END)) send_home_end(h, map->base, out);
    h->home = NULL;
    ENV(h, unref, map);
    move(h, DMI_HANDOVER_HOMES);
    return;
  }
  if (num > h->tails_at_once) num = h->tails_at_once;
  msg = dmi_handover_about(h, map->base, DMI_MSG_HOME_TAILS);
  msg.list = dmi_slice_copy(&h->tail[h->tail_next], num * sizeof(h->tail[0]));
  if (!msg.list.ptr) dmi_xalloc_fail(num * sizeof(h->tail[0]));
  h->tail_next += num;
  dmi_out_send(out, h->heir, &msg);
}

bool dmi_handover_on_home_done(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                               struct dmi_out *out) {
  (void)msg, (void)out;
  if (!h->homes_in_flight || h->heir != from) return false;
  h->homes_in_flight--;
  return true;
}

/* ---- Pages and copies: R8.3, R8.4 ----------------------------------------------------------- */

static void offer(struct dmi_handover *h, struct dmi_page *page) {
  struct dmi_out out;
  dmi_out_init(&out);
  ENV(h, record, page->map, page->index, false);
  dmi_page_hand_over(h->core, page, &out);
  ENV(h, step_end, page, &out);
}

/* Offers another page, if not too many bytes are in flight. */
static bool offer_next(struct dmi_handover *h) {
  struct dmi_page *page;
  int64_t left = (int64_t)(h->page_num - h->page_next), out;
  if (!left) return false;
  page = h->page[h->page_next];
  /* pages that were offered and are still here */
  out = (int64_t)atomic_load(&h->core->owned) - left;
  if (out > 0 && (uint64_t)out > h->bytes_at_once / page->map->page_size) return false;
  h->page_next++;
  offer(h, page);
  ENV(h, unref, page->map);
  return true;
}

static bool go_on_pages(struct dmi_handover *h) {
  if (offer_next(h)) return true;
  if (h->homes_in_flight && !DMI_BROKEN(h, DMI_HBREAK_DONE)) return false;
  if (atomic_load(&h->core->owned) && !DMI_BROKEN(h, DMI_HBREAK_OWNED)) return false;
  forget_pages(h);
  collect_pages(h, true);
  move(h, DMI_HANDOVER_COPIES);
  return true;
}

/* Drops the copies: no owner will wait for their acknowledgements when this process has left. No
 * operation here brings new ones, but a fetch in flight may. */
static bool go_on_copies(struct dmi_handover *h, struct dmi_out *out) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < h->page_num; i++) {
    struct dmi_page *page = h->page[i];
    bool gone;
    ENV(h, record, page->map, page->index, false);
    gone = DMI_BROKEN(h, DMI_HBREAK_COPY) || dmi_page_depart(h->core, page);
    ENV(h, unlock, page); /* not step_end: that would call this again at once */
    if (gone) {
      ENV(h, unref, page->map);
    } else {
      h->page[kept++] = page;
    }
  }
  h->page_num = kept;
  if (kept) return false;
  forget_pages(h);
  move(h, DMI_HANDOVER_DRAINED);
  dmi_promises_end(h->promises, false, out);
  (void)dmi_out_add(out, DMI_ACT_DRAINED);
  return true;
}

bool dmi_handover_go_on(struct dmi_handover *h, struct dmi_out *out) {
  switch (h->state) {
    case DMI_HANDOVER_ASKS:
      return go_on_asks(h, out);
    case DMI_HANDOVER_HOMES:
      begin_home(h, out);
      return true;
    case DMI_HANDOVER_BEGUN:
      move_home(h, out);
      return true;
    case DMI_HANDOVER_TAILS:
      send_tails(h, out);
      return true;
    case DMI_HANDOVER_PAGES:
      return go_on_pages(h);
    case DMI_HANDOVER_COPIES:
      return go_on_copies(h, out);
    default:
      return false;
  }
}

/* ---- Who is lost ---------------------------------------------------------------------------- */

static bool is_among(const dmi_uid_t *uid, uint32_t num, dmi_uid_t of) {
  for (uint32_t i = 0; i < num; i++) {
    if (uid[i] == of) return true;
  }
  return false;
}

void dmi_handover_lost(struct dmi_handover *h, const dmi_uid_t *uid, uint32_t num,
                       struct dmi_out *out) {
  bool leaves = h->state != DMI_HANDOVER_STAYS && h->state != DMI_HANDOVER_NO_HEIR;
  if (!leaves || !is_among(uid, num, h->heir)) return;
  if (h->home) ENV(h, unref, h->home);
  h->home = NULL;
  h->home_from = 0;
  h->tail_num = h->tail_next = 0;
  h->homes_in_flight = 0;
  forget_pages(h);
  dmi_promises_end(h->promises, true, out);
  atomic_store(&h->core->heir, 0);
  atomic_store(&h->core->counted, false);
  h->heir = 0;
  move(h, h->keeps ? DMI_HANDOVER_NO_HEIR : DMI_HANDOVER_STAYS);
}

/* TAKEs in flight come to nothing at those that are frozen.  Those that offered them offer them
 * again, if they still want that at RESUME; or they have gone by then.  So what waits here for the
 * directory is forgotten; for what is offered from here see dmi_page_freeze. */
void dmi_handover_frozen(struct dmi_handover *h) {
  dmi_handover_takes_free(h);
}

/* This process may own more pages than before, or be home of more mappings; what it had offered was
 * not taken. */
void dmi_handover_resumed(struct dmi_handover *h) {
  bool moves = h->state == DMI_HANDOVER_PAGES || h->state == DMI_HANDOVER_COPIES;
  if (h->state == DMI_HANDOVER_ASKS) atomic_store(&h->core->counted, false); /* count again */
  if (!moves && h->state != DMI_HANDOVER_HOMES) return;
  forget_pages(h);
  h->home_from = 0;
  if (moves) move(h, DMI_HANDOVER_HOMES);
}

/* ---- Who has left, and what is unmapped ----------------------------------------------------- */

void dmi_handover_removed(struct dmi_handover *h, uint32_t uid, uint32_t heir) {
  struct dmi_map *map;
  if (!heir || DMI_BROKEN(h, DMI_HBREAK_HEIR)) return;
  EACH_MAP(h, map) {
    if (atomic_load(&map->home) == uid) atomic_store(&map->home, heir);
  }
  if (h->heir == uid) h->heir = heir; /* it has left, and has given to its own heir what it got */
  if (atomic_load(&h->core->heir) == uid) atomic_store(&h->core->heir, heir);
}

static void kill_pages(struct dmi_handover *h, struct dmi_map *map) {
  struct dmi_page *page;
  EACH_RECORD(h, map, page) {
    struct dmi_out out;
    dmi_out_init(&out);
    dmi_page_kill(h->core, page, &out);
    ENV(h, step_end, page, &out);
  }
}

void dmi_handover_forget(struct dmi_handover *h, uint64_t base, struct dmi_out *out) {
  struct dmi_map *map = ENV(h, find, base);
  if (!map) return;
  ENV(h, forget, map);
  if (!DMI_BROKEN(h, DMI_HBREAK_KILL)) kill_pages(h, map);
  ENV(h, arrived, map);
  dmi_out_add(out, DMI_ACT_REPLAY)->map = map;
  dmi_out_add(out, DMI_ACT_FREED)->map = map;
}
