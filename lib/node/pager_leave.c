/*
 * pager_leave.c - the pager's part that the daemon does: who the members are, what they say of
 * their room, and the promises of a leave.
 *
 * The daemon thread's; the pager's lock is held for a few instructions.
 */
#include <stdlib.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "node/pager_int.h"
#include "node/runtime.h"
#include "msg/service.h"

static void leave_look(struct dmi_pager *pager);

void dmi_pager_view(struct dmi_pager *pager, const struct dmi_uids *uids) {
  uint32_t *others = malloc((uids->num + 1) * sizeof(*others)), num = 0;
  struct dmi_room_out out;
  uint64_t freed;
  if (!others) abort();
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->uid[i] != pager->process->access.core.self) others[num++] = uids->uid[i];
  }
  dmi_pager_rooms_begin(pager, &out);
  freed = dmi_room_view(pager->rooms, others, num, &out);
  dmi_pager_rooms_end(pager, &out);
  free(others);
  if (freed) dmi_pool_release(pager->pool, freed);
  dmi_pager_wake(pager);
  leave_look(pager);
}

bool dmi_pager_message(struct dmi_pager *pager, uint32_t from, const struct dmi_msg *msg) {
  const struct dmi_room_msg room = {
      (uint8_t)(msg->type - DMI_SVC_ROOM_ASK), msg->kind, msg->op, msg->len, msg->off,
      (msg->flags & DMI_F_MUST) != 0};
  struct dmi_room_out out;
  uint64_t freed;
  bool good;
  dmi_pager_rooms_begin(pager, &out);
  good = dmi_room_message(pager->rooms, from, &room, &freed, &out);
  dmi_pager_rooms_end(pager, &out);
  if (freed) dmi_pool_release(pager->pool, freed);
  dmi_pager_wake(pager);
  leave_look(pager);
  if (good && room.type == DMI_ROOM_TELL && room.number == 0) dmi_leave_room_told(pager->process);
  return good;
}

void dmi_pager_taken(struct dmi_pager *pager, uint32_t from, uint64_t bytes) {
  uint64_t freed;
  dmi_mutex_lock(&pager->lock);
  freed = dmi_room_taken(pager->rooms, from, bytes);
  dmi_mutex_unlock(&pager->lock);
  if (freed) dmi_pool_release(pager->pool, freed);
  leave_look(pager); /* this process may wait for that itself */
}

void dmi_pager_count_taken(struct dmi_pager *pager) {
  atomic_fetch_add_explicit(&pager->taken, 1, memory_order_relaxed);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* What this process has to give away. */
struct count {
  struct dmi_room_lot *lot;
  uint64_t lots, room;
  uint64_t pages; /* of the mapping at hand */
};

static void add_page(struct dmi_page *page, void *arg) {
  struct count *count = arg;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  count->pages +=
      page->role == DMI_ROLE_PENDING ||
      (page->role == DMI_ROLE_OWNER && (page->frame || (page->flags & DMI_PAGE_SPILLED)));
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

static void add_mapping(struct dmi_mapping *mapping, void *arg) {
  struct count *count = arg;
  uint64_t at = 0;
  count->pages = 0;
  dmi_mapping_each(mapping, add_page, count);
  if (!count->pages) return;
  while (at < count->lots && count->lot[at].size != mapping->map.page_size)
    at++;
  DMI_XALLOC_GROW(count->lot, at, count->room);
  if (at == count->lots)
    count->lot[count->lots++] = (struct dmi_room_lot){mapping->map.page_size, 0};
  count->lot[at].num += count->pages;
}

static void ask_promises(struct dmi_pager *pager) {
  struct count count = {NULL, 0, 0, 0};
  struct dmi_room_out out;
  dmi_space_each(&pager->process->access.space, add_mapping, &count);
  dmi_pager_rooms_begin(pager, &out);
  dmi_room_leave(pager->rooms, pager->heir, count.lot, count.lots, &out);
  dmi_pager_rooms_end(pager, &out);
  free(count.lot);
}

/* With what was promised to others here it waits: they are to be gone, or through, first. */
static void leave_look(struct dmi_pager *pager) {
  enum dmi_room_leave state;
  uint64_t promised;
  if (!pager->heir) return;
  dmi_mutex_lock(&pager->lock);
  promised = dmi_room_promised(pager->rooms);
  state = dmi_room_leave_state(pager->rooms);
  dmi_mutex_unlock(&pager->lock);
  if (state == DMI_ROOM_NO_LEAVE) {
    if (promised) return;
    ask_promises(pager);
    leave_look(pager);
  } else if (state == DMI_ROOM_LEAVE_READY) {
    uint32_t heir = pager->heir;
    pager->heir = 0;
    dmi_leave_promised(pager->process, heir);
  } else if (state == DMI_ROOM_LEAVE_FAILED) {
    dmi_pager_leave_end(pager);
    pager->heir = 0;
    dmi_mutex_lock(&pager->lock);
    pager->leaving = pager->keeping;
    pager->refused = true;
    dmi_mutex_unlock(&pager->lock);
    dmi_pager_wake(pager);
    dmi_leave_refused(pager->process);
  }
}

void dmi_pager_leave(struct dmi_pager *pager, uint32_t heir) {
  dmi_mutex_lock(&pager->lock);
  pager->leaving = true;
  dmi_mutex_unlock(&pager->lock);
  pager->heir = heir;
  leave_look(pager);
}

uint32_t dmi_pager_give(struct dmi_pager *pager, uint64_t bytes) {
  uint32_t to;
  dmi_mutex_lock(&pager->lock);
  to = dmi_room_give(pager->rooms, bytes);
  dmi_mutex_unlock(&pager->lock);
  return to;
}

void dmi_pager_leave_end(struct dmi_pager *pager) {
  struct dmi_room_out out;
  dmi_pager_rooms_begin(pager, &out);
  dmi_room_leave_end(pager->rooms, &out);
  dmi_pager_rooms_end(pager, &out);
}

void dmi_pager_keep(struct dmi_pager *pager) {
  dmi_mutex_lock(&pager->lock);
  pager->leaving = pager->keeping = true;
  dmi_mutex_unlock(&pager->lock);
}
