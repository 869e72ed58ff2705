/*
 * pressure_leave.c - events: who stalls, who the members are, what they say of their room, and how
 * a leave gets its promises.
 */
#include "core/pressure_int.h"

void dmi_pressure_out_init(struct dmi_pressure_out *out) {
  *out = (struct dmi_pressure_out){.look = false};
  dmi_capacity_out_init(&out->capacity);
}

void dmi_pressure_out_free(struct dmi_pressure_out *out) {
  dmi_capacity_out_free(&out->capacity);
}

/* ---- Room ----------------------------------------------------------------------------------- */

void dmi_pressure_stalled(struct dmi_pressure *p, struct dmi_page *page) {
  dmi_page_list_add(&p->stalled, page);
  dmi_pool_close(p->pool, true);
}

void dmi_pressure_kept(struct dmi_pressure *p, uint32_t from) {
  dmi_capacity_refused(p->capacity, from);
}

void dmi_pressure_open(struct dmi_pressure *p) {
  p->open = true;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* While memory here is promised to others the leave waits: their leaves must end first. */
static void leave_look(struct dmi_pressure *p, struct dmi_pressure_out *out) {
  if (!p->heir) return;
  switch (dmi_capacity_leave_state(p->capacity)) {
    case DMI_CAPACITY_NO_LEAVE:
      out->count = dmi_capacity_promised(p->capacity) == 0;
      break;
    case DMI_CAPACITY_LEAVE_READY:
      out->promised = p->heir;
      p->heir = 0;
      break;
    case DMI_CAPACITY_LEAVE_FAILED:
      dmi_capacity_leave_end(p->capacity, &out->capacity);
      p->heir = 0;
      p->leaving = p->dismissed;
      p->refused = true;
      out->look = out->refused = true;
      break;
    default: /* answers are missing */
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

void dmi_pressure_counted(struct dmi_pressure *p, const struct dmi_capacity_size *sizes,
                          uint64_t size_num, struct dmi_pressure_out *out) {
  dmi_capacity_leave(p->capacity, p->heir, sizes, size_num, &out->capacity);
  leave_look(p, out);
}

uint32_t dmi_pressure_give(struct dmi_pressure *p, uint64_t bytes) {
  return dmi_capacity_give(p->capacity, bytes);
}

void dmi_pressure_leave_end(struct dmi_pressure *p, struct dmi_pressure_out *out) {
  dmi_capacity_leave_end(p->capacity, &out->capacity);
}

void dmi_pressure_keep(struct dmi_pressure *p) {
  p->leaving = p->dismissed = true;
}

/* ---- The members ---------------------------------------------------------------------------- */

void dmi_pressure_view(struct dmi_pressure *p, const uint32_t *uid, uint64_t num,
                       struct dmi_pressure_out *out) {
  uint64_t freed = dmi_capacity_view(p->capacity, uid, num, &out->capacity);
  if (freed) dmi_pool_release(p->pool, freed);
  out->look = true;
  leave_look(p, out);
}

bool dmi_pressure_message(struct dmi_pressure *p, uint32_t from, const struct dmi_capacity_msg *msg,
                          struct dmi_pressure_out *out) {
  uint64_t freed;
  bool good = dmi_capacity_message(p->capacity, from, msg, &freed, &out->capacity);
  if (freed) dmi_pool_release(p->pool, freed);
  out->look = true;
  leave_look(p, out);
  out->told = good && msg->type == DMI_CAPACITY_REPORT && msg->number == 0;
  return good;
}

void dmi_pressure_taken(struct dmi_pressure *p, uint32_t from, uint64_t bytes,
                        struct dmi_pressure_out *out) {
  uint64_t freed = dmi_capacity_taken(p->capacity, from, bytes);
  if (freed) dmi_pool_release(p->pool, freed);
  leave_look(p, out); /* this process may wait for that itself */
}
