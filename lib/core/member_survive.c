/*
 * member_survive.c - DMI_survive: a program that has begun without it goes on without lost
 * processes from one view on (docs/crashes.md, "DMI_survive").
 *
 * Only the process of DMI_main asks for that, before it has welcomed another one.  So it is the
 * coordinator, and in that view the only voter: whatever happens meanwhile, nobody decides without
 * it, and members that have not taken the view yet are not asked.
 */
#include <stdlib.h>

#include "base/error.h"
#include "core/coord_int.h"

/* ---- The coordinator ------------------------------------------------------------------------ */

static bool has_welcomed(const struct dmi_member *m) {
  for (uint32_t i = 0; i < m->coord->records.num; i++) {
    const struct dmi_record *record = &m->coord->records.at[i];
    if (record->uid != m->uid && (record->welcomed || record->welcome.uid)) return true;
  }
  return false;
}

bool dmi_coord_on_survive(struct dmi_member *m, struct dmi_record *record,
                          const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, msg->member.op};
  if (msg->body.len) return false;
  if (m->env.survive) {
    dmi_coord_answer(m, &caller, DMI_OK, NULL);
  } else if (!m->agreement || !m->first || record->uid != m->uid || c->survives.uid ||
             has_welcomed(m)) {
    dmi_coord_answer(m, &caller, DMI_EBUSY, NULL);
  } else {
    c->survives = caller; /* the next view brings it */
  }
  return true;
}

void dmi_coord_survive_view(struct dmi_member *m, struct dmi_view_body *view) {
  struct dmi_coord *c = m->coord;
  c->settles = true;
  dmi_member_settle(m, &m->env.surviving);
  c->limit = dmi_directory_limit(c->next_base);
  m->limit = c->limit;
  view->settles = true;
  view->settings = m->env.settings;
  view->limit = c->limit;
  view->args = m->args;
  if (m->env.main_lost != DMI_MAIN_IGNORED) dmi_root_add(&view->roots, "", 0, m->uid);
  dmi_mout_add(m->out, DMI_MACT_SETTINGS);
}

void dmi_coord_survive_taken(struct dmi_member *m) {
  m->coord->settles = false;
  if (m->env.survive && m->coord->survives.uid)
    dmi_coord_answer(m, &m->coord->survives, DMI_OK, NULL);
}

/* ---- A view that brings it --------------------------------------------------------------------
 */

void dmi_survive_pack(struct dmi_pack *pack, const struct dmi_view_body *view) {
  dmi_settings_pack(pack, &view->settings);
  dmi_pack_u64(pack, view->limit);
  dmi_pack_bytes(pack, view->args.ptr, view->args.len);
}

void dmi_survive_unpack(struct dmi_unpack *unpack, struct dmi_view_body *view) {
  view->settles = true;
  dmi_settings_unpack(unpack, &view->settings);
  view->limit = dmi_unpack_u64(unpack);
  view->args.ptr = dmi_unpack_bytes(unpack, &view->args.len);
  if (!view->settings.survive || !dmi_member_args_good(&view->args)) unpack->bad = true;
}

void dmi_survive_take(struct dmi_member *m, const struct dmi_view_body *view,
                      const struct dmi_msg *msg) {
  struct dmi_pulse_view pulse;
  dmi_member_settle(m, &view->settings);
  dmi_member_set_args(m, view->args.ptr, view->args.len);
  m->limit = view->limit; /* without losses to survive any address might have been given */
  dmi_mout_add(m->out, DMI_MACT_SETTINGS);
  pulse = dmi_member_pulse_view(m, view);
  pulse.body = msg->body;
  m->env.survive->start(m->env.survive_arg, &pulse, msg->member.op);
  free((void *)pulse.members);
}
