/*
 * member_join.c - becoming a member, and redirecting other joiners.
 *
 * Happy path: CONNECT to the seed, JOIN, REDIRECT to the coordinator, JOIN, ACCEPT with the whole
 * view, JOINED when all others have taken it. Failure: a coordinator that left meanwhile cannot be
 * reached; then this process asks the seed again, which knows the new one by then. If the seed
 * cannot be reached, this process ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "core/coord_int.h"

#define RETRIES_MAX 16u

/* ---- The first process --------------------------------------------------------------------- */

void dmi_member_found(struct dmi_member *m) {
  struct dmi_mact *act;
  struct dmi_peer *self = DMI_LIST_ADD(&m->peers);
  m->first = true;
  m->uid = m->coordinator = m->coordinator_next = 1;
  m->dmi_id = (dmi_id_t){0};
  m->view = 1;
  self->uid = m->uid;
  self->addr = m->own;
  self->info = m->info;
  self->voter = m->env.survive != NULL;
  m->busy = 1; /* DMI_main runs */
  m->busy_told = true;
  m->busy_seq = m->busy_acked = 1;

  act = dmi_mout_add(m->out, DMI_MACT_SELF);
  act->id = m->uid;
  memcpy(act->program_id, m->program_id, sizeof(act->program_id));
  act = dmi_mout_add(m->out, DMI_MACT_VIEW);
  act->peers = dmi_xalloc(1, sizeof(*act->peers));
  act->peers[0] = *self;
  act->peer_num = 1;
  m->viewing = true;
  act = dmi_mout_add(m->out, DMI_MACT_JOINED);
  act->uid = m->uid;
  act->dmi_id = m->dmi_id;
  dmi_member_move(m, DMI_PHASE_JOINED);
  dmi_member_main_found(m);
  if (m->env.survive) {
    const struct dmi_pulse_member only = {.uid = m->uid, .voter = true};
    const struct dmi_pulse_view first = {
        .number = 1, .coordinator = m->uid, .tie = m->uid, .num = 1, .members = &only};
    m->env.survive->start(m->env.survive_arg, &first, m->uid);
  }
  dmi_coord_start(m);
}

/* ---- A joiner ------------------------------------------------------------------------------ */

void dmi_member_seek(struct dmi_member *m) {
  dmi_member_move(m, DMI_PHASE_ASKING);
  dmi_mout_add(m->out, DMI_MACT_CONNECT); /* an address of zeros: the seed */
}

void dmi_member_ask(struct dmi_member *m, uint32_t temp) {
  struct dmi_pack body;
  if (m->phase != DMI_PHASE_ASKING) {
    dmi_mout_add(m->out, DMI_MACT_CLOSE_PEER)->id = temp;
    return;
  }
  m->temp = temp;
  dmi_pack_init(&body);
  dmi_member_pack_addr(&body, &m->own);
  dmi_info_pack(&body, &m->info);
  dmi_member_pack_birth(&body, &m->info.birth);
  dmi_pack_u8(&body, m->env.witness);
  dmi_member_send(m, temp, DMI_CTL_JOIN, 0, 0, &body);
}

/* The connection could not be made, or broke before ACCEPT. */
void dmi_member_retry(struct dmi_member *m, const char *why) {
  if (m->phase != DMI_PHASE_ASKING) return;
  if (!m->redirected || m->retries == RETRIES_MAX) {
    dmi_member_fatal(m, why);
    return;
  }
  m->retries++;
  m->redirected = false;
  m->temp = 0;
  dmi_mout_add(m->out, DMI_MACT_CONNECT);
}

bool dmi_member_addr_unsaid(const struct dmi_addr *addr) {
  static const uint8_t zero[16];
  return memcmp(addr->ip, zero, sizeof(zero)) == 0;
}

static bool is_loopback(const struct dmi_addr *addr) {
  static const uint8_t mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  static const uint8_t one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return memcmp(addr->ip, mapped, sizeof(mapped)) == 0 || memcmp(addr->ip, one, sizeof(one)) == 0;
}

/* Makes an address that another process sent usable here. If it is empty, or only usable on that
 * process's host, uses the one by which we reach that process. */
struct dmi_addr dmi_member_addr_resolve(const struct dmi_addr *addr, const struct dmi_addr *by) {
  struct dmi_addr result = *addr;
  if (dmi_member_addr_unsaid(addr) ||
      (is_loopback(addr) && !dmi_member_addr_unsaid(by) && !is_loopback(by))) {
    memcpy(result.ip, by->ip, sizeof(result.ip));
  }
  return result;
}

bool dmi_member_on_redirect(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_addr addr, ours, theirs;
  struct dmi_mact *act;
  dmi_unpack_init(&body, &msg->body);
  dmi_member_unpack_addr(&body, &addr);
  if (m->phase != DMI_PHASE_ASKING || from != m->temp || !dmi_unpack_done(&body)) return false;
  m->env.addrs(m->env.arg, from, &ours, &theirs);
  dmi_mout_add(m->out, DMI_MACT_CLOSE_PEER)->id = from;
  act = dmi_mout_add(m->out, DMI_MACT_CONNECT);
  act->addr = dmi_member_addr_resolve(&addr, &theirs);
  m->temp = 0;
  m->redirected = true;
  return true;
}

bool dmi_member_on_refuse(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  char text[DMI_TEXT_SIZE], said[DMI_TEXT_SIZE + 40];
  dmi_unpack_init(&body, &msg->body);
  dmi_unpack_text(&body, text);
  if (m->phase != DMI_PHASE_ASKING || from != m->temp || !dmi_unpack_done(&body)) return false;
  dmi_log_printable(text);
  snprintf(said, sizeof(said), "the program to join refuses: \"%s\"", text);
  dmi_member_fatal(m, said);
  return true;
}

bool dmi_member_on_accept(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_view_body view;
  struct dmi_addr ours, theirs;
  struct dmi_mact *act;
  struct dmi_settings settings;
  struct dmi_slice args = {0};
  struct dmi_slice made = {0}; /* the view that lets it join, as the others got it */
  size_t len;
  uint8_t program_id[16];
  uint64_t last_crash = 0;
  uint32_t uid, next_uid = 0;
  bool in = false, led = false;
  if (m->phase != DMI_PHASE_ASKING || from != m->temp) return false;
  dmi_unpack_init(&body, &msg->body);
  dmi_unpack_raw(&body, program_id, sizeof(program_id));
  uid = dmi_unpack_u32(&body);
  dmi_settings_unpack(&body, &settings);
  if (settings.survive) {
    args.ptr = dmi_unpack_bytes(&body, &args.len);
    if (!dmi_member_args_good(&args)) body.bad = true;
    last_crash = dmi_unpack_u64(&body);
    next_uid = dmi_unpack_u32(&body);
    if (next_uid >= DMI_NET_TEMP) body.bad = true;
  }
  made.ptr = dmi_unpack_bytes(&body, &len);
  made.len = len;
  if (!dmi_view_unpack(&body, &view)) return false;
  for (uint32_t i = 0; i < view.added_num; i++) {
    if (view.added[i].uid == uid) in = true;
    if (view.added[i].uid == view.coordinator && !view.added[i].witness) led = true;
  }
  if (!in || !led || view.settles || uid == view.coordinator || view.removed_num > 0 ||
      !dmi_view_peers_good(&view)) {
    dmi_view_free(&view);
    return false;
  }
  dmi_member_settle(m, &settings);
  dmi_member_set_args(m, args.ptr, args.len);
  memcpy(m->program_id, program_id, sizeof(program_id));
  m->uid = uid;
  m->coordinator = view.coordinator;
  m->last_crash = last_crash;
  m->next_uid = next_uid;
  act = dmi_mout_add(m->out, DMI_MACT_SELF);
  act->id = uid;
  act->op = last_crash;
  memcpy(act->program_id, program_id, sizeof(program_id));
  dmi_mout_add(m->out, DMI_MACT_SETTINGS);
  act = dmi_mout_add(m->out, DMI_MACT_RENAME);
  act->id = from;
  act->uid = view.coordinator;
  m->env.addrs(m->env.arg, from, &ours, &theirs);
  if (m->env.survive) {
    struct dmi_pulse_view pulse = dmi_member_pulse_view(m, &view);
    pulse.body = made;
    m->env.survive->start(m->env.survive_arg, &pulse, msg->member.op);
    free((void *)pulse.members);
  }
  dmi_view_take(m, &view, &theirs);
  m->resumed = m->view; /* it was not there when others recovered */
  dmi_view_free(&view);
  m->dmi_id = dmi_member_find(m, uid)->dmi_id;
  m->temp = 0;
  dmi_member_move(m, DMI_PHASE_ACCEPTED);
  for (uint32_t i = 0; i < m->strangers.num; i++) {
    dmi_member_redirect(m, m->strangers.at[i], m->coordinator);
  }
  dmi_uid_set_free(&m->strangers);
  return true;
}

bool dmi_member_on_joined(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_mact *act;
  (void)from;
  if (m->phase != DMI_PHASE_ACCEPTED) return false;
  if (msg->member.op > m->limit) m->limit = msg->member.op;
  act = dmi_mout_add(m->out, DMI_MACT_JOINED);
  act->uid = m->uid;
  act->dmi_id = m->dmi_id;
  dmi_member_move(m, DMI_PHASE_JOINED);
  if (m->asked) dmi_member_ask_leave(m);
  return true;
}

/* ---- Others that want to join -------------------------------------------------------------- */

void dmi_member_redirect(struct dmi_member *m, uint32_t temp, uint32_t uid) {
  const struct dmi_peer *peer = dmi_member_find(m, uid);
  struct dmi_pack body;
  if (!peer) abort(); /* the coordinator is in every view */
  dmi_pack_init(&body);
  dmi_member_pack_addr(&body, &peer->addr);
  dmi_member_send(m, temp, DMI_CTL_REDIRECT, 0, 0, &body);
  dmi_mout_add(m->out, DMI_MACT_CLOSE_PEER)->id = temp; /* the other side closes its end, too */
}

void dmi_member_refuse(struct dmi_member *m, uint32_t temp, const char *why) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_text(&body, why);
  dmi_member_send(m, temp, DMI_CTL_REFUSE, 0, 0, &body);
}

/* The coordinator admits a joiner, other members redirect it. A process that does not know the
 * coordinator yet, or will become it, lets the joiner wait. */
bool dmi_member_on_join(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  if (from < DMI_NET_TEMP) return false;
  if (m->coord) return dmi_coord_on_join(m, from, msg);
  if (m->phase == DMI_PHASE_ENDED) {
    dmi_member_refuse(m, from, "that program is ending");
  } else if (m->phase < DMI_PHASE_ACCEPTED) {
    dmi_uid_set_add(&m->strangers, from);
  } else if (m->coordinator == m->uid) {
    dmi_deferred_add(&m->deferred, from, msg);
  } else {
    dmi_member_redirect(m, from, m->coordinator);
  }
  return true;
}
