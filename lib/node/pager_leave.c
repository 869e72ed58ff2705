/*
 * pager_leave.c - the pager's part that the daemon does: hands core/pressure.h the events of
 * membership and the messages of other pagers, and carries out what comes of them.
 *
 * The daemon thread's, but for dmi_pager_step_begin and _end; the pager's lock is held for a few
 * instructions.
 */
#include <stdlib.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "msg/service.h"
#include "node/pager_int.h"
#include "node/runtime.h"

/* ---- What comes of a step ------------------------------------------------------------------- */

void dmi_pager_step_begin(struct dmi_pager *pager, struct dmi_pressure_out *out) {
  dmi_pressure_out_init(out);
  dmi_mutex_lock(&pager->lock);
}

static void put_in_line(struct dmi_pager *pager, const struct dmi_room_send *send) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)(DMI_SVC_ROOM_ASK + send->msg.type);
  msg.kind = send->msg.kind;
  msg.origin = pager->process->access.core.self;
  msg.op = send->msg.number;
  msg.len = send->msg.bytes;
  msg.off = send->msg.unit;
  if (send->msg.now) msg.flags = DMI_F_MUST;
  (void)dmi_net_send(pager->process->access.net, send->to, &msg); /* false: it has left */
}

/* What this process has to give away. */
struct count {
  struct dmi_room_lot *lot;
  uint64_t lots, room;
  uint64_t pages; /* of the mapping at hand */
};

static void add_page(struct dmi_page *page, void *arg) {
  struct count *count = arg;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  count->pages += dmi_pressure_counts(page);
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

static void count_pages(struct dmi_pager *pager) {
  struct count count = {NULL, 0, 0, 0};
  struct dmi_pressure_out out;
  dmi_space_each(&pager->process->access.space, add_mapping, &count);
  dmi_pager_step_begin(pager, &out);
  dmi_pressure_counted(pager->pressure, count.lot, count.lots, &out);
  free(count.lot);
  dmi_pager_step_end(pager, &out);
}

void dmi_pager_step_end(struct dmi_pager *pager, struct dmi_pressure_out *out) {
  struct dmi_room_out *room = &out->room;
  for (uint64_t i = 0; i < room->num; i++)
    put_in_line(pager, &room->send[i]);
  dmi_mutex_unlock(&pager->lock);
  for (uint64_t i = 0; i < room->num; i++)
    dmi_net_flush(pager->process->access.net, room->send[i].to);
  dmi_pressure_out_free(out);
  if (out->look) dmi_pager_wake(pager);
  if (out->count) count_pages(pager);
  if (out->promised) dmi_leave_promised(pager->process, out->promised);
  if (out->refused) dmi_leave_refused(pager->process);
  if (out->told) dmi_leave_room_told(pager->process);
}

/* ---- Events --------------------------------------------------------------------------------- */

void dmi_pager_view(struct dmi_pager *pager, const struct dmi_uids *uids) {
  uint32_t *others = dmi_xalloc(uids->num + 1, sizeof(*others)), num = 0;
  struct dmi_pressure_out out;
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->uid[i] != pager->process->access.core.self) others[num++] = uids->uid[i];
  }
  dmi_pager_step_begin(pager, &out);
  dmi_pressure_view(pager->pressure, others, num, &out);
  dmi_pager_step_end(pager, &out);
  free(others);
}

bool dmi_pager_message(struct dmi_pager *pager, uint32_t from, const struct dmi_msg *msg) {
  const struct dmi_room_msg room = {
      (uint8_t)(msg->type - DMI_SVC_ROOM_ASK), msg->kind, msg->op, msg->len, msg->off,
      (msg->flags & DMI_F_MUST) != 0};
  struct dmi_pressure_out out;
  bool good;
  dmi_pager_step_begin(pager, &out);
  good = dmi_pressure_message(pager->pressure, from, &room, &out);
  dmi_pager_step_end(pager, &out);
  return good;
}

void dmi_pager_taken(struct dmi_pager *pager, uint32_t from, uint64_t bytes) {
  struct dmi_pressure_out out;
  dmi_pager_step_begin(pager, &out);
  dmi_pressure_taken(pager->pressure, from, bytes, &out);
  dmi_pager_step_end(pager, &out);
}

void dmi_pager_count_taken(struct dmi_pager *pager) {
  atomic_fetch_add_explicit(&pager->taken, 1, memory_order_relaxed);
}

void dmi_pager_leave(struct dmi_pager *pager, uint32_t heir) {
  struct dmi_pressure_out out;
  dmi_pager_step_begin(pager, &out);
  dmi_pressure_leave(pager->pressure, heir, &out);
  dmi_pager_step_end(pager, &out);
}

uint32_t dmi_pager_give(struct dmi_pager *pager, uint64_t bytes) {
  uint32_t to;
  dmi_mutex_lock(&pager->lock);
  to = dmi_pressure_give(pager->pressure, bytes);
  dmi_mutex_unlock(&pager->lock);
  return to;
}

void dmi_pager_leave_end(struct dmi_pager *pager) {
  struct dmi_pressure_out out;
  dmi_pager_step_begin(pager, &out);
  dmi_pressure_leave_end(pager->pressure, &out);
  dmi_pager_step_end(pager, &out);
}

void dmi_pager_keep(struct dmi_pager *pager) {
  dmi_mutex_lock(&pager->lock);
  dmi_pressure_keep(pager->pressure);
  dmi_mutex_unlock(&pager->lock);
}
