/*
 * member_stop.c - DMI_exit: the program ends in order in all processes, with one status
 * (docs/elastic.md, "DMI_exit").
 *
 * Whose call it was and the status are a root with a name that no program can give: so all members
 * have it by a view, also those that join later, and no loss loses it.  The first call counts.
 */
#include "base/error.h"
#include "core/coord_int.h"

#define SET (UINT64_C(1) << 62)
#define STATUS_MOST 255u /* that a process can end with */

static const char stop_name[] = {0, 'e', 'x', 'i', 't'};

bool dmi_member_stop_name(const void *name, size_t len) {
  return len == sizeof(stop_name) && memcmp(name, stop_name, len) == 0;
}

static uint32_t status_of(uint64_t stop) {
  return (uint32_t)(stop & STATUS_MOST);
}

static dmi_uid_t caller_of(uint64_t stop) {
  return (dmi_uid_t)((stop & ~SET) >> 8);
}

/* ---- Members -------------------------------------------------------------------------------- */

void dmi_member_exit_call(struct dmi_member *m, uint64_t op, uint32_t status) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, SET | (uint64_t)m->uid << 8 | (status & STATUS_MOST));
  dmi_pack_bytes(&body, stop_name, sizeof(stop_name));
  dmi_member_call_begin(m, DMI_CTL_STOP, op, &body);
}

/* The roots may have changed. */
void dmi_member_stop_look(struct dmi_member *m) {
  struct dmi_mact *act;
  if (m->stop) return;
  m->stop = dmi_root_get(&m->roots, stop_name, sizeof(stop_name));
  if (!m->stop) return;
  act = dmi_mout_add(m->out, DMI_MACT_STOPPING);
  act->uid = caller_of(m->stop);
  act->value = status_of(m->stop);
}

/* ---- The coordinator ------------------------------------------------------------------------ */

/* A call that waits for its view. */
static bool is_called(const struct dmi_coord *c) {
  for (uint32_t i = 0; i < c->root_sets.num; i++) {
    if (c->root_sets.at[i].msg.type == DMI_CTL_STOP) return true;
  }
  return false;
}

/* Only then may anybody be told: who hears DMI_EEND counts on the end of the program, and what only
 * this process knows may be lost with it, and with who has called DMI_exit. */
bool dmi_coord_stops(const struct dmi_member *m) {
  return m->stop && !is_called(m->coord);
}

bool dmi_coord_on_stop(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  struct dmi_caller caller = {record->uid, msg->member.op};
  struct dmi_unpack body;
  const uint8_t *name;
  uint64_t stop;
  size_t len;
  dmi_unpack_init(&body, &msg->body);
  stop = dmi_unpack_u64(&body);
  name = dmi_unpack_bytes(&body, &len);
  if (!dmi_unpack_done(&body) || !dmi_member_stop_name(name, len)) return false;
  if (stop != (SET | (uint64_t)record->uid << 8 | status_of(stop))) return false;
  if (m->stop == stop && (msg->flags & DMI_F_AGAIN)) { /* a coordinator that was lost has done it */
    dmi_coord_answer(m, &caller, DMI_OK, NULL);
  } else if (is_called(m->coord)) {
    dmi_deferred_add(&m->coord->stops, record->uid, msg);
  } else if (m->stop) {
    dmi_coord_answer(m, &caller, DMI_EEND, NULL);
  } else {
    dmi_deferred_add(&m->coord->root_sets, record->uid, msg); /* the next view brings it */
  }
  return true;
}

void dmi_coord_stop_taken(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  if (!dmi_coord_stops(m)) return;
  for (uint32_t i = 0; i < c->polls.num; i++)
    dmi_coord_answer(m, &c->polls.at[i], DMI_EEND, NULL);
  c->polls.num = 0;
  for (uint32_t i = 0; i < c->stops.num; i++) {
    struct dmi_caller caller = {c->stops.at[i].from, c->stops.at[i].msg.member.op};
    dmi_coord_answer(m, &caller, DMI_EEND, NULL);
  }
  dmi_deferred_free(&c->stops);
  dmi_coord_refuse_joins(m);
}
