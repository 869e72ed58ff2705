/*
 * handover_heir.c - the receiver's side: homes that arrive (R8.2), offered pages (TAKE), and at the
 * leaver the answer REFUSE_PAGE.
 *
 * All fields of a message are checked before they are used.
 */
#include <stdlib.h>
#include <string.h>

#include "core/handover_int.h"

/* ---- Homes ---------------------------------------------------------------------------------- */

/* True if a mapping can have these values. */
static bool is_mapping(uint64_t base, uint64_t page_size, uint64_t page_num) {
  if (!page_size || !page_num || page_size > (UINT64_C(1) << 62) / page_num) return false;
  return base && base <= INT64_MAX - page_size * page_num;
}

bool dmi_handover_on_home_begin(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                                struct dmi_out *out) {
  struct dmi_map *map = ENV(h, find, msg->map);
  uint32_t arriving = DMI_BROKEN(h, DMI_HBREAK_DEFER) ? 0 : from;
  (void)out;
  if (!is_mapping(msg->map, msg->home.page_size, msg->home.page_num)) return false;
  if (!map) {
    struct dmi_map what = {.base = msg->map,
                           .page_size = msg->home.page_size,
                           .page_num = msg->home.page_num,
                           .tag = msg->home.tag};
    atomic_init(&what.home, h->core->self);
    atomic_init(&what.arriving, arriving);
    ENV(h, enter, &what);
    map = ENV(h, find, msg->map);
    atomic_store(&map->hole, (msg->flags & DMI_F_LOST) != 0);
    return true;
  }
  if (map->page_size != msg->home.page_size || map->page_num != msg->home.page_num) return false;
  if (atomic_load(&map->home) == h->core->self) return false;
  ENV(h, hold, map);
  atomic_store(&map->hole, (msg->flags & DMI_F_LOST) != 0);
  atomic_store(&map->arriving, arriving); /* before other threads can see that the home is here */
  atomic_store(&map->home, h->core->self);
  ENV(h, release, map);
  return true;
}

/* Called with the page locked; unlocks it. */
static bool tail_arrives(struct dmi_handover *h, struct dmi_page *page, bool listed,
                         uint32_t tail) {
  struct dmi_out out;
  bool good;
  dmi_out_init(&out);
  good = dmi_page_home_arrived(h->core, page, listed, tail, &out);
  ENV(h, step_end, page, &out);
  return good;
}

/* The mapping whose home `from` is handing over. NULL: there is none. */
static struct dmi_map *arriving(struct dmi_handover *h, uint64_t base, uint32_t from) {
  struct dmi_map *map = ENV(h, find, base);
  bool is = map && atomic_load(&map->arriving) == from;
  return is || (map && DMI_BROKEN(h, DMI_HBREAK_DEFER)) ? map : NULL;
}

bool dmi_handover_on_home_tails(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                                struct dmi_out *out) {
  struct dmi_map *map = arriving(h, msg->map, from);
  /* One may be lost that lived when this was sent: the recovery asks about its pages. */
  bool frozen = atomic_load(&h->core->frozen);
  struct dmi_tail tail;
  (void)out;
  if (!map) return false;
  for (uint64_t at = 0; at + sizeof(tail) <= msg->list.len; at += sizeof(tail)) {
    struct dmi_page *page;
    memcpy(&tail, msg->list.ptr + at, sizeof(tail));
    if (tail.page >= map->page_num) return false;
    if (!frozen && !h->core->is_member(h->core->arg, tail.tail)) return false;
    page = ENV(h, record, map, tail.page, true);
    if (!page) dmi_xalloc_fail(sizeof(*page));
    (void)tail_arrives(h, page, true, tail.tail);
  }
  return true;
}

/* Handles the remaining records: of pages that were in no list. */
static bool tails_end(struct dmi_handover *h, struct dmi_map *map) {
  struct dmi_page *page;
  bool good = true;
  EACH_RECORD(h, map, page) {
    if (DMI_BROKEN(h, DMI_HBREAK_NEVER) && !(page->flags & DMI_PAGE_LISTED)) {
      ENV(h, unlock, page);
    } else if (!tail_arrives(h, page, false, 0)) {
      good = false;
    }
  }
  return good;
}

bool dmi_handover_on_home_end(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                              struct dmi_out *out) {
  struct dmi_map *map = arriving(h, msg->map, from);
  struct dmi_msg reply;
  bool good;
  if (!map) return false;
  ENV(h, hold, map); /* no record may be made before `arriving` is 0 and be missed by this loop */
  good = tails_end(h, map);
  ENV(h, arrived, map);
  ENV(h, release, map);
  if (!DMI_BROKEN(h, DMI_HBREAK_REPLAY)) dmi_out_add(out, DMI_ACT_REPLAY)->map = map;
  if (!good) return false;
  reply = dmi_handover_about(h, msg->map, DMI_MSG_HOME_DONE);
  dmi_out_send(out, from, &reply);
  return true;
}

/* ---- Pages ---------------------------------------------------------------------------------- */

/* Adds a page to a REFUSE_PAGE, which has at most `most` bytes. */
static void refusal_add(struct dmi_msg *refusal, const struct dmi_tail *entry, uint64_t most) {
  if (!refusal->list.frame) {
    refusal->list.frame = dmi_frame_new(most);
    if (!refusal->list.frame) dmi_xalloc_fail(most);
    refusal->list.ptr = refusal->list.frame->bytes;
  }
  memcpy(refusal->list.frame->bytes + refusal->list.len, entry, sizeof(*entry));
  refusal->list.len += sizeof(*entry);
}

static bool take_page(struct dmi_handover *h, struct dmi_map *map,
                      const struct dmi_handover_take *take, const struct dmi_tail *entry) {
  struct dmi_page *page = NULL;
  struct dmi_out out;
  bool taken;
  if (entry->page < map->page_num) page = ENV(h, record, map, entry->page, true);
  if (!page) return false; /* the mapping is being freed, or there is no memory for a record */
  dmi_out_init(&out);
  taken = dmi_page_take(h->core, page, take->must, entry->zero, &out);
  ENV(h, step_end, page, &out);
  return taken;
}

/* Takes the pages of the list, and refuses those for which there is no memory here. `map` NULL:
 * refuses all. */
static void take_pages(struct dmi_handover *h, struct dmi_map *map,
                       const struct dmi_handover_take *take, struct dmi_out *out) {
  const struct dmi_slice *list = &take->list;
  struct dmi_msg refusal = dmi_handover_about(h, take->base, DMI_MSG_REFUSE_PAGE);
  struct dmi_tail entry;
  for (uint64_t at = 0; at + sizeof(entry) <= list->len; at += sizeof(entry)) {
    memcpy(&entry, list->ptr + at, sizeof(entry));
    if (map && take_page(h, map, take, &entry)) {
      dmi_out_add(out, DMI_ACT_TAKEN)->value = take->must && !entry.zero ? map->page_size : 0;
    } else {
      refusal_add(&refusal, &entry, list->len);
    }
    if (map && take->must && !entry.zero) {
      struct dmi_act *act = dmi_out_add(out, DMI_ACT_PROMISED);
      act->to = take->from;
      act->value = map->page_size;
    }
  }
  if (take->must) refusal.flags = DMI_F_MUST;
  if (!refusal.list.len) return;
  if (DMI_BROKEN(h, DMI_HBREAK_REFUSED)) {
    dmi_slice_drop(&refusal.list);
  } else {
    dmi_out_send(out, take->from, &refusal);
  }
}

/* For a deliberate fault: makes the mapping known without asking the directory. */
static struct dmi_map *believed(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_map what = {.base = msg->map};
  atomic_init(&what.home, from);
  ENV(h, enter, &what);
  return ENV(h, find, msg->map);
}

bool dmi_handover_on_take(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                          struct dmi_out *out) {
  struct dmi_map *map = ENV(h, find, msg->map);
  struct dmi_handover_take now = {
      .from = from, .must = msg->flags & DMI_F_MUST, .base = msg->map, .list = msg->list};
  struct dmi_handover_take *asks;
  struct dmi_act *act;
  if (!msg->list.len) return false;
  /* Its owner offers it again, if it still wants that at RESUME, and counts on the promise. */
  if (atomic_load(&h->core->frozen)) return true;
  if (!map && DMI_BROKEN(h, DMI_HBREAK_LOOKUP)) map = believed(h, from, msg);
  if (map) {
    take_pages(h, map, &now, out);
    return true;
  }
  /* The mapping was not in use here, or is unmapped: ask the directory. */
  asks = dmi_xalloc(1, sizeof(*asks));
  *asks = now;
  asks->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  if (!asks->list.ptr) dmi_xalloc_fail(msg->list.len);
  asks->number = ++h->numbers;
  asks->next = h->takes;
  h->takes = asks;
  act = dmi_out_add(out, DMI_ACT_LOOKUP);
  act->value = msg->map;
  act->number = asks->number;
  return true;
}

static void take_free(struct dmi_handover_take *asks) {
  dmi_slice_drop(&asks->list);
  free(asks);
}

/* `map` NULL: unmapped; or this process has left and gets no answers any more. The member that
 * offered must be told. */
void dmi_handover_found(struct dmi_handover *h, uint64_t number, struct dmi_map *map,
                        struct dmi_out *out) {
  struct dmi_handover_take **at = &h->takes, *asks;
  while (*at && (*at)->number != number)
    at = &(*at)->next;
  asks = *at;
  if (!asks) return;
  *at = asks->next;
  take_pages(h, map, asks, out);
  take_free(asks);
}

void dmi_handover_takes_free(struct dmi_handover *h) {
  while (h->takes) {
    struct dmi_handover_take *asks = h->takes;
    h->takes = asks->next;
    take_free(asks);
  }
}

bool dmi_handover_on_refuse_page(struct dmi_handover *h, uint32_t from, const struct dmi_msg *msg,
                                 struct dmi_out *out) {
  struct dmi_map *map = ENV(h, find, msg->map);
  struct dmi_tail entry;
  for (uint64_t at = 0; map && at + sizeof(entry) <= msg->list.len; at += sizeof(entry)) {
    struct dmi_page *page = NULL;
    struct dmi_out step;
    memcpy(&entry, msg->list.ptr + at, sizeof(entry));
    if (entry.page < map->page_num) page = ENV(h, record, map, entry.page, false);
    if (!page) continue;
    dmi_out_init(&step);
    dmi_page_refused(h->core, page, from, msg->flags & DMI_F_MUST, &step);
    ENV(h, step_end, page, &step);
  }
  dmi_out_add(out, DMI_ACT_KEPT)->to = from;
  return true;
}

bool dmi_handover_message(struct dmi_handover *h, uint32_t from, struct dmi_msg *msg,
                          struct dmi_out *out) {
  bool good;
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    good = handler(h, from, msg, out);             \
    break;
    DMI_MSGS_HANDOVER(HANDLE)
#undef HANDLE
    default:
      good = false;
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}
