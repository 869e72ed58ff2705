/*
 * see_page.c - what can be seen of global memory in this process: its pages of each mapping, and a
 * page with what waits there.  Any thread; a page is locked while a few words of it are copied.
 */
#include <inttypes.h>
#include <string.h>

#include "base/epoch.h"
#include "core/heap.h"
#include "core/syncop.h"
#include "node/see_int.h"

#define RECORDS (1u << 15) /* that are counted for one piece of an answer */
#define WAITERS 64         /* of one piece */

/* ---- Mappings -------------------------------------------------------------------------------- */

struct counts {
  uint64_t owned, copies;
};

/* Counts records from this page on, at most *left.  Returns where to go on; the number of pages:
 * all were counted. */
static uint64_t count(struct dmi_mapping *mapping, uint64_t from, uint32_t *left,
                      struct counts *counts) {
  struct dmi_page *page;
  while (*left && (page = dmi_mapping_next(mapping, from))) {
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    counts->owned += page->role == DMI_ROLE_OWNER;
    counts->copies += page->copy != 0;
    from = page->index + 1;
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    --*left;
  }
  return *left ? mapping->map.page_num : from;
}

/* The mapping that contains this address, or the first behind it. */
static struct dmi_mapping *from_address(struct dmi_space *space, uint64_t at) {
  struct dmi_mapping *mapping = at ? dmi_space_find(space, at) : NULL;
  return mapping ? mapping : dmi_space_next(space, at);
}

/* What is copied from a mapping, so that its line is made outside of the epoch: to find the place
 * of a call takes long. */
struct seen_mapping {
  uint64_t base, end, page_size, page_num, faults;
  uint64_t next; /* address of the first page that was not counted; `end`: all were */
  dmi_uid_t home;
  bool user; /* made by DMI_mmap, not by the allocator */
  struct counts counts;
  struct dmi_doing_called made;
};

/* Copies the mapping at this address, or behind it.  False: there is none. */
static bool copy_mapping(struct dmi_process *process, uint64_t at, uint32_t *left,
                         struct seen_mapping *seen) {
  struct dmi_mapping *mapping;
  uint64_t off, page;
  dmi_epoch_enter();
  mapping = from_address(&process->access.space, at);
  if (mapping) {
    const struct dmi_map *map = &mapping->map;
    *seen = (struct seen_mapping){map->base,
                                  mapping->end,
                                  map->page_size,
                                  map->page_num,
                                  .home = atomic_load(&map->home),
                                  .user = map->tag == DMI_TAG_USER};
    page = at > map->base ? dmi_mapping_index(mapping, at, &off) : 0;
    if (!page) { /* a mapping that comes in several lines tells these in the first */
      seen->faults = atomic_load_explicit(&mapping->faults, memory_order_relaxed);
      seen->made.name = atomic_load_explicit(&mapping->made.name, memory_order_acquire);
      seen->made.caller = atomic_load_explicit(&mapping->made.caller, memory_order_relaxed);
    }
    page = count(mapping, page, left, &seen->counts);
    seen->next = page < map->page_num ? map->base + page * map->page_size : mapping->end;
  }
  dmi_epoch_leave();
  return mapping != NULL;
}

uint64_t dmi_see_mappings(struct dmi_process *process, uint64_t at, struct dmi_json *to) {
  struct seen_mapping seen;
  uint32_t left = RECORDS;
  while (copy_mapping(process, at, &left, &seen)) {
    const size_t before = to->at;
    dmi_json_put(to,
                 "{\"mapping\":\"0x%" PRIx64 "\",\"page_size\":%" PRIu64 ",\"pages\":%" PRIu64
                 ",\"home\":%" PRIu32 ",\"owned\":%" PRIu64 ",\"copies\":%" PRIu64
                 ",\"faults\":%" PRIu64 "%s",
                 seen.base, seen.page_size, seen.page_num, seen.home, seen.counts.owned,
                 seen.counts.copies, seen.faults, seen.user ? "" : ",\"allocator\":true");
    if (seen.user) dmi_see_call(to, &seen.made);
    dmi_json_put(to, "}");
    if (!dmi_see_line(to, before)) return at ? at : seen.base;
    if (seen.next != seen.end) return seen.next;
    at = seen.end;
  }
  return 0;
}

/* ---- A page ---------------------------------------------------------------------------------- */

static const char *const roles[] = {"none", "pending", "owner"}; /* enum dmi_role */

/* What is copied from a page with its lock held. */
struct seen_page {
  uint64_t base, page;
  uint8_t role, copy;
  dmi_uid_t hint;
  uint32_t acks;
  bool bytes; /* `object` is valid */
  unsigned char object[sizeof(struct dmi_round)];
  uint32_t num;  /* of `waiter` */
  uint64_t next; /* place of the first that did not fit; 0: all did */
  struct waiter {
    dmi_uid_t uid;
    uint8_t kind;
    uint64_t op, place;
  } waiter[WAITERS];
};

/* Operations that wait at this offset (or, for PAGE, anywhere in the page), from a place on. */
static void copy_waiters(const struct dmi_page *page, const struct dmi_msg_see *ask, uint64_t off,
                         struct seen_page *seen) {
  const struct dmi_req *req = page->busy ? page->busy->waiting_ops.first : NULL;
  for (uint64_t place = 1; req; req = req->next) {
    if (ask->what != DMI_SEE_PAGE && req->off != off) continue;
    if (place >= ask->at && seen->num == WAITERS) {
      seen->next = place;
      return;
    }
    if (place >= ask->at)
      seen->waiter[seen->num++] = (struct waiter){req->origin, req->kind, req->op.n, place};
    place++;
  }
}

static uint64_t size_of(uint32_t what) {
  return what == DMI_SEE_MUTEX     ? sizeof(struct dmi_locked_by)
         : what == DMI_SEE_COND    ? sizeof(struct dmi_tickets)
         : what == DMI_SEE_BARRIER ? sizeof(struct dmi_round)
                                   : 0;
}

/* False: no mapping of this address is known here. */
static bool copy_page(struct dmi_process *process, const struct dmi_msg_see *ask,
                      struct seen_page *seen) {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
  uint64_t off, index, size = size_of(ask->what);
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, ask->addr);
  if (!mapping) {
    dmi_epoch_leave();
    return false;
  }
  index = dmi_mapping_index(mapping, ask->addr, &off);
  page = dmi_mapping_find(mapping, index);
  seen->base = mapping->map.base;
  seen->page = index;
  seen->hint = atomic_load(&mapping->map.home);
  if (page) {
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    seen->role = page->role;
    seen->copy = page->copy;
    if (page->hint) seen->hint = page->hint;
    if (page->busy) seen->acks = page->busy->acks;
    seen->bytes = size && page->role == DMI_ROLE_OWNER && size <= mapping->map.page_size - off &&
                  !(page->flags & DMI_PAGE_SPILLED);
    if (seen->bytes && page->frame) memcpy(seen->object, page->frame->bytes + off, size);
    if (ask->at != UINT64_MAX) copy_waiters(page, ask, off, seen);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
  } else if (seen->hint == process->access.core.self) {
    seen->role = DMI_ROLE_OWNER; /* of zeros */
    seen->bytes = size != 0;
  }
  dmi_epoch_leave();
  return true;
}

/* ,"holder":{...} and the like; nothing if the bytes are no such object. */
static void put_object(const struct seen_page *seen, uint32_t what, struct dmi_json *to) {
  struct dmi_locked_by lock;
  struct dmi_tickets tickets;
  struct dmi_round round;
  if (!seen->bytes) return;
  if (what == DMI_SEE_MUTEX) {
    memcpy(&lock, seen->object, sizeof(lock));
    if (dmi_locked_by_valid(&lock) && lock.uid)
      dmi_json_put(to, ",\"holder\":{\"member\":%" PRIu32 ",\"op\":\"%" PRIu64 "\"}", lock.uid,
                   lock.op);
  } else if (what == DMI_SEE_BARRIER) {
    memcpy(&round, seen->object, sizeof(round));
    if (dmi_round_valid(&round) && round.arrived)
      dmi_json_put(to, ",\"arrived\":%" PRIu64 ",\"needed\":%" PRIu32,
                   round.arrived * DMI_SYNC_COUNT, round.pnum);
  } else if (what == DMI_SEE_COND) {
    memcpy(&tickets, seen->object, sizeof(tickets));
    if (dmi_tickets_valid(&tickets))
      dmi_json_put(to, ",\"tickets\":%" PRId64,
                   (int64_t)((tickets.next - tickets.serving) * DMI_SYNC_COUNT));
  }
}

static const char *kind_name(uint8_t kind) {
  return kind == DMI_RMW_LOCK    ? "lock"
         : kind == DMI_RMW_TURN  ? "cond"
         : kind == DMI_RMW_ROUND ? "barrier"
                                 : "watch";
}

static void put_head(const struct seen_page *seen, const struct dmi_msg_see *ask,
                     struct dmi_json *to) {
  dmi_json_put(to, "{\"addr\":\"0x%" PRIx64 "\",\"role\":\"%s\",\"hint\":%" PRIu32, ask->addr,
               roles[seen->role], seen->hint);
  if (seen->acks) dmi_json_put(to, ",\"acks\":%" PRIu32, seen->acks);
  put_object(seen, ask->what, to);
  dmi_json_put(to, "}\n");
}

uint64_t dmi_see_page(struct dmi_process *process, const struct dmi_msg_see *ask,
                      struct dmi_json *to) {
  struct seen_page seen = {0};
  if (!copy_page(process, ask, &seen)) return 0;
  if (!ask->at) put_head(&seen, ask, to); /* pieces that come later are only of the queue */
  for (uint32_t i = 0; i < seen.num; i++) {
    dmi_json_put(to,
                 "{\"queued\":\"%s\",\"member\":%" PRIu32 ",\"op\":\"%" PRIu64
                 "\",\"place\":%" PRIu64 "}\n",
                 kind_name(seen.waiter[i].kind), seen.waiter[i].uid, seen.waiter[i].op,
                 seen.waiter[i].place);
  }
  return seen.next;
}

bool dmi_see_find(struct dmi_process *process, uint64_t addr, struct dmi_see_at *at) {
  const struct dmi_msg_see ask = {.what = DMI_SEE_PAGE, .addr = addr, .at = UINT64_MAX};
  struct seen_page seen = {0};
  if (!copy_page(process, &ask, &seen)) return false;
  *at = (struct dmi_see_at){seen.base, seen.page, seen.hint, seen.role};
  return true;
}

void dmi_see_place(struct dmi_process *process, uint64_t addr, struct dmi_json *to) {
  struct dmi_see_at at;
  if (!dmi_see_find(process, addr, &at)) return;
  dmi_json_put(
      to, ",\"mapping\":\"0x%" PRIx64 "\",\"page\":%" PRIu64 ",\"role\":\"%s\",\"hint\":%" PRIu32,
      at.base, at.page, roles[at.role], at.hint);
}
