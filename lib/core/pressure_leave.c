/*
 * pressure_leave.c - events: who stalls, who the members are, what they say of their room, and how
 * a leave gets its promises.
 */
#include "core/pressure_int.h"

void dmi_pressure_out_init(struct dmi_pressure_out *out) {
  *out = (struct dmi_pressure_out){.look = false};
  dmi_room_out_init(&out->room);
}

void dmi_pressure_out_free(struct dmi_pressure_out *out) {
  dmi_room_out_free(&out->room);
}

/* ---- Room ----------------------------------------------------------------------------------- */

void dmi_pressure_stalled(struct dmi_pressure *p, struct dmi_page *page) {
  dmi_page_list_add(&p->stalled, page);
  dmi_pool_close(p->pool, true);
}

void dmi_pressure_kept(struct dmi_pressure *p, uint32_t from) {
  dmi_room_kept(p->rooms, from);
}

void dmi_pressure_open(struct dmi_pressure *p) {
  p->open = true;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* With what was promised to others here it waits: they are to be gone, or through, first. */
static void leave_look(struct dmi_pressure *p, struct dmi_pressure_out *out) {
  if (!p->heir) return;
  switch (dmi_room_leave_state(p->rooms)) {
    case DMI_ROOM_NO_LEAVE:
      out->count = dmi_room_promised(p->rooms) == 0;
      break;
    case DMI_ROOM_LEAVE_READY:
      out->promised = p->heir;
      p->heir = 0;
      break;
    case DMI_ROOM_LEAVE_FAILED:
      dmi_room_leave_end(p->rooms, &out->room);
      p->heir = 0;
      p->leaving = p->keeping;
      p->refused = true;
      out->look = out->refused = true;
      break;
    default: /* answers are to come */
      break;
  }
}

void dmi_pressure_leave(struct dmi_pressure *p, uint32_t heir, struct dmi_pressure_out *out) {
  p->leaving = true;
  p->heir = heir;
  leave_look(p, out);
}

bool dmi_pressure_counts(const struct dmi_page *page) {
  return page->role == DMI_ROLE_PENDING ||
         (page->role == DMI_ROLE_OWNER && (page->frame || (page->flags & DMI_PAGE_SPILLED)));
}

void dmi_pressure_counted(struct dmi_pressure *p, const struct dmi_room_lot *lot, uint64_t lots,
                          struct dmi_pressure_out *out) {
  dmi_room_leave(p->rooms, p->heir, lot, lots, &out->room);
  leave_look(p, out);
}

uint32_t dmi_pressure_give(struct dmi_pressure *p, uint64_t bytes) {
  return dmi_room_give(p->rooms, bytes);
}

void dmi_pressure_leave_end(struct dmi_pressure *p, struct dmi_pressure_out *out) {
  dmi_room_leave_end(p->rooms, &out->room);
}

void dmi_pressure_keep(struct dmi_pressure *p) {
  p->leaving = p->keeping = true;
}

/* ---- The members ---------------------------------------------------------------------------- */

void dmi_pressure_view(struct dmi_pressure *p, const uint32_t *uid, uint64_t num,
                       struct dmi_pressure_out *out) {
  uint64_t freed = dmi_room_view(p->rooms, uid, num, &out->room);
  if (freed) dmi_pool_release(p->pool, freed);
  out->look = true;
  leave_look(p, out);
}

bool dmi_pressure_message(struct dmi_pressure *p, uint32_t from, const struct dmi_room_msg *msg,
                          struct dmi_pressure_out *out) {
  uint64_t freed;
  bool good = dmi_room_message(p->rooms, from, msg, &freed, &out->room);
  if (freed) dmi_pool_release(p->pool, freed);
  out->look = true;
  leave_look(p, out);
  out->told = good && msg->type == DMI_ROOM_TELL && msg->number == 0;
  return good;
}

void dmi_pressure_taken(struct dmi_pressure *p, uint32_t from, uint64_t bytes,
                        struct dmi_pressure_out *out) {
  uint64_t freed = dmi_room_taken(p->rooms, from, bytes);
  if (freed) dmi_pool_release(p->pool, freed);
  leave_look(p, out); /* this process may wait for that itself */
}
