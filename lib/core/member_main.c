/*
 * member_main.c - the process in which DMI_main runs, and what becomes of the program when it is
 * lost: the coordinator runs DMI_recover, or ends it (docs/crashes.md, "When DMI_main is lost").
 *
 * All members know that process, as the root without a name: 0, when DMI_main has returned.
 */
#include <stdio.h>

#include "base/error.h"
#include "core/coord_int.h"

/* Only a member of a program that survives losses says it. */
static void say(struct dmi_member *m, dmi_uid_t uid, int error) {
  struct dmi_pack body;
  if (!m->env.survive || m->env.main_lost == DMI_MAIN_IGNORED || !dmi_member_is_active(m)) return;
  m->main_said = true;
  m->main_is = uid;
  m->main_error = error;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, uid);
  dmi_pack_bytes(&body, "", 0);
  dmi_member_send(m, m->coordinator, DMI_CTL_MAIN, 0, error, &body);
}

void dmi_member_main_found(struct dmi_member *m) {
  if (m->env.survive && m->env.main_lost != DMI_MAIN_IGNORED)
    dmi_root_set(&m->roots, "", 0, m->uid);
}

dmi_uid_t dmi_member_main(const struct dmi_member *m) {
  return (dmi_uid_t)dmi_root_get(&m->roots, "", 0);
}

void dmi_member_main_again(struct dmi_member *m) {
  if (m->main_said && dmi_root_get(&m->roots, "", 0) != m->main_is)
    say(m, m->main_is, m->main_error);
}

void dmi_member_main_over(struct dmi_member *m, bool good) {
  say(m, 0, good ? DMI_OK : DMI_ELOST);
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static void end_all(struct dmi_member *m, const char *text) {
  for (uint32_t i = 0; i < m->coord->records.num; i++) {
    struct dmi_pack body;
    if (m->coord->records.at[i].uid == m->uid) continue;
    dmi_pack_init(&body);
    dmi_pack_text(&body, text);
    dmi_member_send(m, m->coord->records.at[i].uid, DMI_CTL_ABORT, 0, DMI_EEND, &body);
  }
  dmi_member_fatal_all(m, text);
}

bool dmi_coord_on_main(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  char text[DMI_TEXT_SIZE], name[DMI_NAME_TEXT];
  uint64_t uid;
  size_t len;
  dmi_unpack_init(&body, &msg->body);
  uid = dmi_unpack_u64(&body);
  (void)dmi_unpack_bytes(&body, &len);
  if (!dmi_unpack_done(&body) || len || (uid && uid != record->uid)) return false;
  if (msg->member.error) {
    dmi_info_name(name, record->dmi_id, &record->info);
    snprintf(text, sizeof(text), "DMI_recover says, in %s, that the program cannot go on: it ends",
             name);
    end_all(m, text);
  } else {
    dmi_deferred_add(&m->coord->root_sets, record->uid, msg);
  }
  return true;
}

static void run_recover(struct dmi_member *m, const struct dmi_notice *lost) {
  struct dmi_mact *act;
  dmi_member_grow_busy(m);
  say(m, m->uid, DMI_OK);
  act = dmi_mout_add(m->out, DMI_MACT_MAIN_LOST);
  act->dmi_id = lost->dmi_id;
}

void dmi_coord_main_lost(struct dmi_member *m) {
  uint32_t uid = (uint32_t)dmi_root_get(&m->roots, "", 0);
  const struct dmi_queued *loss = dmi_member_loss(m, uid);
  const struct dmi_notice *lost = loss ? &loss->notice : NULL;
  const char *cause = dmi_causes_of(&m->coord->causes, uid);
  char text[DMI_TEXT_SIZE], name[DMI_NAME_TEXT];
  if (!uid || dmi_coord_find(m->coord, uid)) return;
  if (!lost ||
      m->stop) { /* it had left, or all is ending: threads of others go on until they end */
    say(m, 0, DMI_OK);
  } else if (m->env.main_lost == DMI_MAIN_RECOVERS) {
    run_recover(m, lost);
  } else {
    dmi_info_name(name, lost->dmi_id, &lost->info);
    snprintf(text, sizeof(text),
             "%s is lost%s%s, and DMI_main with it; the program defines no DMI_recover, so it ends",
             name, cause ? ": " : "", cause ? cause : "");
    end_all(m, text);
  }
}
