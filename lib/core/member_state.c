/*
 * member_state.c - the basis of membership: phases, lists, sending, packing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/member_int.h"

/* ---- Phases -------------------------------------------------------------------------------- */

#define TO(phase) (1u << DMI_PHASE_##phase)

/* The phases that may follow each phase. */
static const uint32_t phase_next[DMI_PHASE_NUM] = {
    [DMI_PHASE_START] = TO(ASKING) | TO(JOINED),
    [DMI_PHASE_ASKING] = TO(ACCEPTED) | TO(FINISHED),
    [DMI_PHASE_ACCEPTED] = TO(JOINED) | TO(ENDED) | TO(FINISHED), /* ENDED: behind a loss */
    [DMI_PHASE_JOINED] = TO(STOPPING) | TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_STOPPING] = TO(JOINED) | TO(DRAINING) | TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_DRAINING] =
        TO(DRAINING) | TO(JOINED) | TO(DRAIN_SENT) | TO(DRAINED) | TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_DRAIN_SENT] = TO(DRAINING) | TO(DRAINED) | TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_DRAINED] = TO(DRAINING) | TO(LAST_REQUESTS) | TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_LAST_REQUESTS] = TO(LAST_MESSAGES) | TO(FINISHED),
    [DMI_PHASE_LAST_MESSAGES] = TO(LEFT) | TO(FINISHED),
    [DMI_PHASE_LEFT] = TO(ENDED) | TO(FINISHED),
    [DMI_PHASE_ENDED] = TO(FINISHED),
    [DMI_PHASE_FINISHED] = 0,
};

void dmi_member_move(struct dmi_member *m, enum dmi_phase phase) {
  if (!(phase_next[m->phase] & (1u << phase))) {
    fprintf(stderr, "dmi: bug: member %u goes from phase %d to %d\n", m->uid, m->phase, phase);
    abort();
  }
  m->phase = phase;
}

/* ---- Lists --------------------------------------------------------------------------------- */

void *dmi_list_grow(void *at, uint32_t num, uint32_t *capacity, size_t size) {
  if (num == *capacity) {
    *capacity = *capacity ? 2 * *capacity : 4;
    at = dmi_xalloc_again(at, *capacity, size);
  }
  memset((char *)at + num * size, 0, size);
  return at;
}

bool dmi_uid_set_has(const struct dmi_uid_set *uids, uint32_t uid) {
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->at[i] == uid) return true;
  }
  return false;
}

void dmi_uid_set_add(struct dmi_uid_set *uids, uint32_t uid) {
  if (!dmi_uid_set_has(uids, uid)) *DMI_LIST_ADD(uids) = uid;
}

bool dmi_uid_set_drop(struct dmi_uid_set *uids, uint32_t uid) {
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->at[i] != uid) continue;
    DMI_LIST_DROP(uids, i);
    return true;
  }
  return false;
}

void dmi_uid_set_free(struct dmi_uid_set *uids) {
  free(uids->at);
  memset(uids, 0, sizeof(*uids));
}

void dmi_deferred_add(struct dmi_deferred_list *list, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_deferred *item = DMI_LIST_ADD(list);
  item->from = from;
  item->msg.type = msg->type;
  item->msg.flags = msg->flags;
  item->msg.member.op = msg->member.op;
  item->msg.member.error = msg->member.error;
  if (msg->body.len == 0) return;
  item->msg.body = msg->body;
  if (msg->body.frame) {
    dmi_frame_ref(msg->body.frame);
  } else {
    item->msg.body = dmi_slice_xcopy(msg->body.ptr, msg->body.len);
  }
}

void dmi_deferred_drop(struct dmi_deferred_list *list, uint32_t i) {
  dmi_slice_drop(&list->at[i].msg.body);
  DMI_LIST_DROP(list, i);
}

void dmi_deferred_free(struct dmi_deferred_list *list) {
  for (uint32_t i = 0; i < list->num; i++)
    dmi_slice_drop(&list->at[i].msg.body);
  free(list->at);
  memset(list, 0, sizeof(*list));
}

/* ---- Actions ------------------------------------------------------------------------------- */

void dmi_mout_init(struct dmi_mout *out) {
  memset(out, 0, sizeof(*out));
}

void dmi_mout_clear(struct dmi_mout *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_mact *act = &out->act[i];
    dmi_slice_drop(&act->msg.list);
    dmi_slice_drop(&act->msg.body);
    free(act->peers);
    free(act->removed);
    free(act->notices);
    free(act->mappings);
    free(act->text);
  }
  out->num = 0;
}

void dmi_mout_free(struct dmi_mout *out) {
  dmi_mout_clear(out);
  free(out->act);
  dmi_mout_init(out);
}

struct dmi_mact *dmi_mout_add(struct dmi_mout *out, enum dmi_mact_type type) {
  struct dmi_mact *act;
  out->act = dmi_list_grow(out->act, out->num, &out->capacity, sizeof(*out->act));
  act = &out->act[out->num++];
  act->type = (uint8_t)type;
  return act;
}

void dmi_member_send(struct dmi_member *m, uint32_t to, enum dmi_msg_type type, uint64_t op,
                     int error, struct dmi_pack *body) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = m->uid;
  msg.member.op = op;
  msg.member.error = error;
  if (body) msg.body = dmi_pack_slice(body);
  if (to == m->uid && m->uid != 0) {
    dmi_deferred_add(&m->loop, m->uid, &msg);
    dmi_slice_drop(&msg.body);
  } else {
    struct dmi_mact *act = dmi_mout_add(m->out, DMI_MACT_SEND);
    act->id = to;
    act->msg = msg;
  }
}

void dmi_member_send_again(struct dmi_member *m, uint8_t type, uint64_t op, struct dmi_pack *body) {
  uint32_t before = m->out->num, loop = m->loop.num;
  dmi_member_send(m, m->coordinator, (enum dmi_msg_type)type, op, 0, body);
  if (m->loop.num > loop) m->loop.at[loop].msg.flags = DMI_F_AGAIN;
  if (m->out->num > before) m->out->act[before].msg.flags = DMI_F_AGAIN;
}

void dmi_member_tell(struct dmi_member *m, const char *text) {
  struct dmi_mact *act = dmi_mout_add(m->out, DMI_MACT_TELL);
  act->text = dmi_xalloc_text(text);
}

static void fatal(struct dmi_member *m, const char *text, bool all) {
  struct dmi_mact *act;
  if (m->phase == DMI_PHASE_FINISHED) return;
  act = dmi_mout_add(m->out, DMI_MACT_FATAL);
  act->text = dmi_xalloc_text(text);
  act->flag = all;
  m->phase = DMI_PHASE_FINISHED; /* allowed from any phase */
}

void dmi_member_fatal(struct dmi_member *m, const char *text) {
  fatal(m, text, false);
}

void dmi_member_fatal_all(struct dmi_member *m, const char *text) {
  fatal(m, text, true);
}

void dmi_member_fatal_lost(struct dmi_member *m, const char *fact) {
  char text[DMI_TEXT_SIZE + 400], own[DMI_PULSE_STOOD];
  /* then the others may have ended the program for that, or something else has happened meanwhile
   */
  if (!m->env.survive && m->env.stood_still && m->env.stood_still(m->env.arg, own)) {
    snprintf(text, sizeof(text),
             "%s; this process itself stood still for %s, so the others may have lost it first "
             "(--dead-after; was it stopped?); this ends the program in all processes",
             fact, own);
    dmi_member_fatal_all(m, text);
    return;
  }
  snprintf(text, sizeof(text), "%s; this ends the program in all processes%s", fact,
           m->env.survive ? ""
                          : ", as what that one held is gone (dmirun --survive lets a program go "
                            "on without it)");
  dmi_member_fatal_all(m, text);
}

/* ---- Looking ------------------------------------------------------------------------------- */

struct dmi_peer *dmi_member_find(const struct dmi_member *m, uint32_t uid) {
  for (uint32_t i = 0; i < m->peers.num; i++) {
    if (m->peers.at[i].uid == uid) return &m->peers.at[i];
  }
  return NULL;
}

uint32_t dmi_member_uid(const struct dmi_member *m) {
  return m->uid;
}

struct dmi_settings dmi_member_settings(const struct dmi_member *m) {
  return m->env.settings;
}

dmi_id_t dmi_member_dmi_id(const struct dmi_member *m) {
  return m->dmi_id;
}

uint64_t dmi_member_view(const struct dmi_member *m) {
  return m->view;
}

uint32_t dmi_member_coordinator(const struct dmi_member *m) {
  return m->coordinator;
}

dmi_uid_t dmi_member_coordinator_next(const struct dmi_member *m) {
  return m->viewing ? m->coordinator_next : m->coordinator;
}

bool dmi_member_is_coordinator(const struct dmi_member *m) {
  return m->coord != NULL;
}

bool dmi_member_is_active(const struct dmi_member *m) {
  return m->phase >= DMI_PHASE_JOINED && m->phase <= DMI_PHASE_LEFT;
}

bool dmi_member_is_welcome(const struct dmi_member *m) {
  return m->opened || m->first;
}

const uint8_t *dmi_member_program(const struct dmi_member *m) {
  return m->program_id;
}

const struct dmi_peer *dmi_member_peer(const struct dmi_member *m, uint32_t uid) {
  return dmi_member_find(m, uid);
}

const struct dmi_peer *dmi_member_peers(const struct dmi_member *m, uint32_t *num) {
  *num = m->peers.num;
  return m->peers.at;
}

/* ---- Packing ------------------------------------------------------------------------------- */

bool dmi_member_unpack_number(const struct dmi_msg *msg, uint64_t *number) {
  struct dmi_unpack body;
  dmi_unpack_init(&body, &msg->body);
  *number = dmi_unpack_u64(&body);
  return dmi_unpack_done(&body);
}

bool dmi_member_unpack_flag(struct dmi_unpack *unpack) {
  uint8_t flag = dmi_unpack_u8(unpack);
  if (flag > 1) unpack->bad = true;
  return flag == 1;
}

void dmi_member_settle(struct dmi_member *m, const struct dmi_settings *settings) {
  m->env.settings = *settings;
  m->env.survive = settings->survive ? m->agreement : NULL;
}

void dmi_settings_pack(struct dmi_pack *pack, const struct dmi_settings *settings) {
  dmi_pack_u8(pack, settings->survive);
  dmi_pack_u32(pack, settings->dead_after);
  dmi_pack_u8(pack, settings->trust_refused);
}

void dmi_settings_unpack(struct dmi_unpack *unpack, struct dmi_settings *settings) {
  settings->survive = dmi_member_unpack_flag(unpack);
  settings->dead_after = dmi_unpack_u32(unpack);
  settings->trust_refused = dmi_member_unpack_flag(unpack);
  if (settings->dead_after > DMI_DEAD_AFTER_MAX) unpack->bad = true;
}

void dmi_info_pack(struct dmi_pack *pack, const struct dmi_node_info *info) {
  dmi_pack_u32(pack, info->cores);
  dmi_pack_u64(pack, info->memory);
  dmi_pack_string(pack, info->host);
  dmi_pack_string(pack, info->tag);
}

void dmi_info_unpack(struct dmi_unpack *unpack, struct dmi_node_info *info) {
  info->cores = dmi_unpack_u32(unpack);
  info->memory = dmi_unpack_u64(unpack);
  dmi_unpack_string(unpack, info->host);
  dmi_unpack_string(unpack, info->tag);
}

void dmi_member_pack_birth(struct dmi_pack *pack, const struct dmi_birth *birth) {
  dmi_pack_raw(pack, birth->boot, sizeof(birth->boot));
  dmi_pack_u64(pack, birth->space);
  dmi_pack_u64(pack, birth->time);
  dmi_pack_u32(pack, birth->pid);
  dmi_pack_u64(pack, birth->start);
}

void dmi_member_unpack_birth(struct dmi_unpack *unpack, struct dmi_birth *birth) {
  memset(birth, 0, sizeof(*birth));
  dmi_unpack_raw(unpack, birth->boot, sizeof(birth->boot));
  birth->space = dmi_unpack_u64(unpack);
  birth->time = dmi_unpack_u64(unpack);
  birth->pid = dmi_unpack_u32(unpack);
  birth->start = dmi_unpack_u64(unpack);
}

void dmi_notice_pack(struct dmi_pack *pack, const struct dmi_notice *notice) {
  dmi_pack_u32(pack, notice->state);
  dmi_pack_u32(pack, notice->dmi_id.n);
  dmi_pack_u32(pack, notice->uid);
  dmi_info_pack(pack, &notice->info);
  if (notice->state != DMI_NOTE) return;
  dmi_pack_u64(pack, notice->value);
  dmi_pack_u64(pack, notice->number);
  dmi_pack_u64(pack, notice->floor);
}

void dmi_notice_unpack(struct dmi_unpack *unpack, struct dmi_notice *notice) {
  notice->state = dmi_unpack_u32(unpack);
  notice->dmi_id.n = dmi_unpack_u32(unpack);
  notice->uid = dmi_unpack_u32(unpack);
  dmi_info_unpack(unpack, &notice->info);
  if (notice->state != DMI_NOTE) return;
  notice->value = dmi_unpack_u64(unpack);
  notice->number = dmi_unpack_u64(unpack);
  notice->floor = dmi_unpack_u64(unpack);
  if (!notice->floor || notice->floor > notice->number) unpack->bad = true;
}

void dmi_member_pack_addr(struct dmi_pack *pack, const struct dmi_addr *addr) {
  dmi_pack_raw(pack, addr->ip, sizeof(addr->ip));
  dmi_pack_u16(pack, addr->port);
}

void dmi_member_unpack_addr(struct dmi_unpack *unpack, struct dmi_addr *addr) {
  memset(addr, 0, sizeof(*addr));
  dmi_unpack_raw(unpack, addr->ip, sizeof(addr->ip));
  addr->port = dmi_unpack_u16(unpack);
}

/* Of a peer. */
#define LEFT 0x01u
#define VOTER 0x02u
#define TIE 0x04u
#define WITNESS 0x08u

void dmi_member_pack_peer(struct dmi_pack *pack, const struct dmi_peer *peer) {
  dmi_pack_u32(pack, peer->uid);
  dmi_pack_u32(pack, peer->dmi_id.n);
  dmi_pack_u8(pack, (uint8_t)((peer->left ? LEFT : 0u) | (peer->voter ? VOTER : 0u) |
                              (peer->tie ? TIE : 0u) | (peer->witness ? WITNESS : 0u)));
  dmi_member_pack_addr(pack, &peer->addr);
  dmi_info_pack(pack, &peer->info);
  dmi_member_pack_birth(pack, &peer->info.birth);
}

void dmi_member_unpack_peer(struct dmi_unpack *unpack, struct dmi_peer *peer) {
  uint8_t flags;
  peer->uid = dmi_unpack_u32(unpack);
  peer->dmi_id.n = dmi_unpack_u32(unpack);
  flags = dmi_unpack_u8(unpack);
  if (flags > (LEFT | VOTER | TIE | WITNESS)) unpack->bad = true;
  peer->left = flags & LEFT;
  peer->voter = flags & VOTER;
  peer->tie = flags & TIE;
  peer->witness = flags & WITNESS;
  if (peer->witness && peer->tie) unpack->bad = true;
  dmi_member_unpack_addr(unpack, &peer->addr);
  dmi_info_unpack(unpack, &peer->info);
  dmi_member_unpack_birth(unpack, &peer->info.birth);
}

void dmi_member_pack_mapping(struct dmi_pack *pack, const struct dmi_entry *mapping) {
  dmi_pack_u64(pack, mapping->base);
  dmi_pack_u64(pack, mapping->page_size);
  dmi_pack_u64(pack, mapping->page_num);
  dmi_pack_u32(pack, mapping->home);
  dmi_pack_u64(pack, mapping->tag);
}

bool dmi_member_mapping_good(const struct dmi_entry *mapping) {
  uint64_t size;
  if (!mapping->base || !mapping->page_size || !mapping->page_num) return false;
  if (__builtin_mul_overflow(mapping->page_size, mapping->page_num, &size)) return false;
  return size < (uint64_t)1 << 62 && mapping->base <= INT64_MAX - size;
}

bool dmi_member_args_good(const struct dmi_slice *args) {
  return !args->len || !((const char *)args->ptr)[args->len - 1];
}

void dmi_member_pack_caller(struct dmi_pack *pack, const struct dmi_caller *caller) {
  dmi_pack_u32(pack, caller->uid);
  dmi_pack_u64(pack, caller->op);
}

void dmi_member_unpack_caller(struct dmi_unpack *unpack, struct dmi_caller *caller) {
  caller->uid = dmi_unpack_u32(unpack);
  caller->op = dmi_unpack_u64(unpack);
}

void dmi_member_unpack_mapping(struct dmi_unpack *unpack, struct dmi_entry *mapping) {
  mapping->base = dmi_unpack_u64(unpack);
  mapping->page_size = dmi_unpack_u64(unpack);
  mapping->page_num = dmi_unpack_u64(unpack);
  mapping->home = dmi_unpack_u32(unpack);
  mapping->tag = dmi_unpack_u64(unpack);
}
