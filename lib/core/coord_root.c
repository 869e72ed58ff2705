/*
 * coord_root.c - named roots at the coordinator: DMI_root_set, DMI_root_get.
 *
 * A change goes into the next view, which has no other purpose if nobody joins or leaves.  So the
 * call is complete when all members have it, and it is treated like the view if some are lost: a
 * new coordinator has what anybody was told.
 */
#include "base/error.h"
#include "core/coord_int.h"

/* What a message says.  Points into it. */
struct said {
  const uint8_t *name;
  size_t len;
  uint64_t addr; /* ROOT_SET */
};

static bool read_message(const struct dmi_msg *msg, struct said *said) {
  struct dmi_unpack body;
  dmi_unpack_init(&body, &msg->body);
  said->addr = msg->type == DMI_CTL_ROOT_GET ? 0 : dmi_unpack_u64(&body);
  said->name = dmi_unpack_bytes(&body, &said->len);
  return dmi_unpack_done(&body) && said->len <= DMI_ROOT_NAME_MAX &&
         (said->len > 0) == (msg->type != DMI_CTL_MAIN);
}

/* Bytes of all that wait for a view. */
static uint64_t waiting(const struct dmi_coord *c) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < c->root_sets.num; i++)
    bytes += c->root_sets.at[i].msg.body.len;
  return bytes;
}

bool dmi_coord_on_root_set(struct dmi_member *m, struct dmi_record *record,
                           const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, msg->member.op};
  struct said said;
  if (!read_message(msg, &said) || dmi_member_stop_name(said.name, said.len)) return false;
  if (said.addr && m->roots.bytes + waiting(c) + msg->body.len > DMI_ROOT_BYTES_MAX) {
    dmi_coord_answer(m, &caller, DMI_ENOMEM, NULL);
  } else {
    dmi_deferred_add(&c->root_sets, record->uid, msg);
  }
  return true;
}

static void answer_get(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_caller caller = {from, msg->member.op};
  struct dmi_pack body;
  struct said said;
  if (!read_message(msg, &said)) return; /* it was checked before */
  dmi_pack_init(&body);
  dmi_pack_u64(&body, dmi_root_get(&m->roots, said.name, said.len));
  dmi_coord_answer(m, &caller, DMI_OK, &body);
}

/* What only some members have may be lost with them: then nobody must have seen it. */
bool dmi_coord_on_root_get(struct dmi_member *m, struct dmi_record *record,
                           const struct dmi_msg *msg) {
  struct said said;
  if (!read_message(msg, &said)) return false;
  if (m->coord->root_sets_in_view) {
    dmi_deferred_add(&m->coord->root_gets, record->uid, msg);
  } else {
    answer_get(m, record->uid, msg);
  }
  return true;
}

void dmi_coord_root_view(struct dmi_coord *c, struct dmi_view_body *view) {
  for (uint32_t i = 0; i < c->root_sets.num; i++) {
    struct said said;
    if (read_message(&c->root_sets.at[i].msg, &said))
      dmi_root_add(&view->roots, said.name, said.len, said.addr);
  }
  c->root_sets_in_view = c->root_sets.num;
}

void dmi_coord_root_taken(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (; c->root_sets_in_view; c->root_sets_in_view--) {
    struct dmi_caller caller = {c->root_sets.at[0].from, c->root_sets.at[0].msg.member.op};
    bool call = c->root_sets.at[0].msg.type != DMI_CTL_MAIN;
    dmi_deferred_drop(&c->root_sets, 0);
    if (call) dmi_coord_answer(m, &caller, DMI_OK, NULL);
  }
  for (uint32_t i = 0; i < c->root_gets.num; i++)
    answer_get(m, c->root_gets.at[i].from, &c->root_gets.at[i].msg);
  dmi_deferred_free(&c->root_gets);
  dmi_coord_stop_taken(m);
}

void dmi_coord_root_defer(struct dmi_coord *c) {
  for (uint32_t i = 0; i < c->root_sets.num; i++)
    dmi_deferred_add(&c->deferred, c->root_sets.at[i].from, &c->root_sets.at[i].msg);
  for (uint32_t i = 0; i < c->stops.num; i++)
    dmi_deferred_add(&c->deferred, c->stops.at[i].from, &c->stops.at[i].msg);
}
