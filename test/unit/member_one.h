/*
 * member_one.h - what tests of single members (core/member.h) share: their surroundings, and the
 * messages that they get.
 */
#ifndef MEMBER_ONE_H
#define MEMBER_ONE_H

#include <string.h>

#include "agree.h"
#include "core/coord_int.h"

static const uint8_t program_id[16] = {7};

/* All are connected with all. */
static inline bool connected(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return true;
}

/* The other side is always at 10.0.0.9. */
static inline void addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  (void)arg, (void)id;
  memset(ours, 0, sizeof(*ours));
  memset(theirs, 0, sizeof(*theirs));
  theirs->ip[10] = theirs->ip[11] = 0xff;
  theirs->ip[12] = 10;
  theirs->ip[15] = 9;
}

/* ---- Messages and actions -------------------------------------------------------------------- */

/* The member gets a message with this body (NULL: none), which is taken over; `out` gets what it
 * does.  False: it refuses the message. */
static inline bool give_member(struct dmi_member *m, uint32_t from, enum dmi_msg_type type,
                               uint64_t op, uint16_t flags, struct dmi_pack *body,
                               struct dmi_mout *out) {
  struct dmi_msg msg = {.type = (uint8_t)type, .flags = flags};
  bool good;
  msg.member.op = op;
  if (body) msg.body = dmi_pack_slice(body);
  dmi_mout_clear(out);
  good = dmi_member_message(m, from, &msg, out);
  dmi_slice_drop(&msg.body);
  dmi_member_check(m);
  return good;
}

/* What a process says that asks to join. */
static inline struct dmi_pack join_body(const struct dmi_addr *addr,
                                        const struct dmi_node_info *info, bool witness) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_member_pack_addr(&body, addr);
  dmi_info_pack(&body, info);
  dmi_member_pack_birth(&body, &info->birth);
  dmi_pack_u8(&body, witness);
  return body;
}

/* The first action of this type, or a message of this type to `to`; NULL: there is none. */
static inline struct dmi_mact *find_action(const struct dmi_mout *out, enum dmi_mact_type type) {
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->act[i].type == type) return &out->act[i];
  }
  return NULL;
}

static inline struct dmi_mact *find_send(const struct dmi_mout *out, uint32_t to, uint8_t type) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_mact *act = &out->act[i];
    if (act->type == DMI_MACT_SEND && act->id == to && act->msg.type == type) return act;
  }
  return NULL;
}

#endif
