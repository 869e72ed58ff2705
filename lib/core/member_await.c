/*
 * member_await.c - the members for which this process waits: their daemons must send a message to
 * it, or to the program, and do so at once.
 *
 * Too many members may be named, because node/stall.c asks each one first whether it runs. But
 * waits that last as long as the program wants, such as a DMI_poll, must not be named.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/coord_int.h"

#define MEMBERSHIP "processes cannot join or leave meanwhile"
#define LEAVING "this process cannot leave meanwhile"
#define ENDING "the program cannot end meanwhile"
#define JOINING "this process cannot join meanwhile"

#define CONNECT_MOST \
  4u /* members to which a joiner connects at a time, only to see whether they run */

struct awaits {
  const struct dmi_member *m;
  void (*visit)(void *arg, uint32_t uid, const char *what);
  void *arg;
};

static void name(const struct awaits *awaits, uint32_t uid, const char *what) {
  if (uid && uid != awaits->m->uid) awaits->visit(awaits->arg, uid, what);
}

static void name_all(const struct awaits *awaits, const struct dmi_uid_set *uids,
                     const char *what) {
  for (uint32_t i = 0; i < uids->num; i++)
    name(awaits, uids->at[i], what);
}

static void by_coordinator(const struct awaits *awaits) {
  const struct dmi_coord *c = awaits->m->coord;
  if (c->change != DMI_CHANGE_NONE) name_all(awaits, &c->awaits, MEMBERSHIP);
  name(awaits, c->removing, MEMBERSHIP);
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    if (c->ending && !record->ended && !record->removed) name(awaits, record->uid, ENDING);
    if (record->welcome.uid) name(awaits, record->uid, "DMI_welcome waits for it");
    if (record->life == DMI_LIFE_LEAVING) name(awaits, record->uid, "DMI_goodbye waits for it");
  }
  for (uint32_t i = 0; i < c->forgets.num; i++)
    name_all(awaits, &c->forgets.at[i].awaits, "DMI_munmap waits for it");
  for (uint32_t i = 0; i < c->adopts.num; i++)
    name(awaits, c->adopts.at[i].home, "DMI_mmap waits for it");
}

/* While its pages leave, any member that takes some of them may delay it. */
static void by_drain(const struct awaits *awaits) {
  const struct dmi_member *m = awaits->m;
  for (uint32_t i = 0; i < m->peers.num; i++) {
    uint32_t uid = m->peers.at[i].uid;
    if (uid != m->uid && m->env.connected(m->env.arg, uid)) name(awaits, uid, LEAVING);
  }
}

/* The coordinator waits until all members have taken the view in which this process is new; each
 * of them may delay it. */
static void by_join(const struct awaits *awaits) {
  const struct dmi_member *m = awaits->m;
  uint32_t fresh = 0;
  name(awaits, m->coordinator, JOINING);
  for (uint32_t i = 0; i < m->peers.num; i++) {
    const struct dmi_peer *peer = &m->peers.at[i];
    if (peer->left || peer->uid == m->uid || peer->uid == m->coordinator) continue;
    if (m->env.connected(m->env.arg, peer->uid) || fresh++ < CONNECT_MOST)
      name(awaits, peer->uid, JOINING);
  }
}

static void by_member(const struct awaits *awaits) {
  const struct dmi_member *m = awaits->m;
  switch (m->phase) {
    case DMI_PHASE_ACCEPTED:
      by_join(awaits);
      break;
    case DMI_PHASE_DRAINING:
    case DMI_PHASE_DRAIN_SENT:
      by_drain(awaits);
      break;
    case DMI_PHASE_DRAINED:
      if (m->heir) name(awaits, m->coordinator, LEAVING);
      break;
    case DMI_PHASE_LEFT:
      if (m->busy == 0) name(awaits, m->coordinator, LEAVING);
      break;
    case DMI_PHASE_LAST_REQUESTS:
    case DMI_PHASE_LAST_MESSAGES:
      name_all(awaits, &m->awaits, LEAVING);
      break;
    case DMI_PHASE_ENDED:
      name(awaits, m->coordinator, ENDING);
      break;
    default:
      break;
  }
  if (m->calls_busy || m->busy_waits.num)
    name(awaits, m->coordinator, "a call of DMI waits for it");
}

void dmi_member_awaits(const struct dmi_member *m,
                       void (*visit)(void *arg, uint32_t uid, const char *what), void *arg) {
  struct awaits awaits = {m, visit, arg};
  if (m->uid == 0 || m->phase == DMI_PHASE_FINISHED) return;
  by_member(&awaits);
  if (m->coord) by_coordinator(&awaits);
}

/* Names of hosts may be long; what tells processes apart is short. */
static void write_name(char text[DMI_NAME_TEXT], dmi_id_t dmi_id, const struct dmi_node_info *info,
                       const char *pid, const char *more) {
  snprintf(text, DMI_NAME_TEXT, "process %u (%.90s%s%.90s%s)%s", dmi_id.n, info->host,
           *info->tag ? ", " : "", info->tag, pid, more);
}

void dmi_info_name(char text[DMI_NAME_TEXT], dmi_id_t dmi_id, const struct dmi_node_info *info) {
  write_name(text, dmi_id, info, "", "");
}

static void name_member(const struct dmi_member *m, uint32_t uid, bool with_pid,
                        char text[DMI_NAME_TEXT]) {
  const struct dmi_peer *peer = dmi_member_find(m, uid);
  const struct dmi_record *record = peer || !m->coord ? NULL : dmi_coord_find(m->coord, uid);
  const struct dmi_node_info *info = peer ? &peer->info : record ? &record->info : NULL;
  dmi_id_t dmi_id = peer ? peer->dmi_id : record ? record->dmi_id : (dmi_id_t){0};
  char pid[17] = "";
  if (info && with_pid && info->birth.pid)
    snprintf(pid, sizeof(pid), ", pid %" PRIu32, info->birth.pid);
  if (info) {
    write_name(text, dmi_id, info, pid, peer && peer->left ? ", which has left the program," : "");
  } else {
    snprintf(text, DMI_NAME_TEXT, "a process that has left");
  }
}

void dmi_member_name(const struct dmi_member *m, uint32_t uid, char text[DMI_NAME_TEXT]) {
  name_member(m, uid, false, text);
}

void dmi_member_name_pid(const struct dmi_member *m, uint32_t uid, char text[DMI_NAME_TEXT]) {
  name_member(m, uid, true, text);
}
