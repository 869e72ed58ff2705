/*
 * coord_pack.c - the coordinator's state as bytes: the body of COORD, for the next coordinator.
 *
 * Both functions go through the fields in the same order. Addresses of members are left out: the
 * next coordinator uses those that it has itself.
 */
#include "core/coord_int.h"

#define RECORD_BYTES 51u /* least packed bytes of a record */
#define QUEUED_BYTES 29u
#define CALLER_BYTES 12u
#define GIVEN_BYTES (CALLER_BYTES + QUEUED_BYTES)
#define FORGET_BYTES 32u
#define ADOPT_BYTES 52u
#define RESULT_BYTES 20u
#define DEFERRED_BYTES 22u

#define WELCOMED 0x01u
#define BUSY 0x02u
#define VITAL 0x04u
#define NO_CAPACITY 0x08u
#define LEFT 0x10u
#define MAIN 0x20u
#define WITNESS 0x40u
#define FLAGS 0x7fu

/* ---- Elements ------------------------------------------------------------------------------ */

static void pack_record(struct dmi_pack *pack, const struct dmi_record *record) {
  dmi_pack_u32(pack, record->uid);
  dmi_pack_u32(pack, record->dmi_id.n);
  dmi_pack_u8(pack, (uint8_t)record->life);
  dmi_pack_u32(pack, record->heir);
  dmi_pack_u8(pack,
              (uint8_t)((record->welcomed ? WELCOMED : 0u) | (record->busy ? BUSY : 0u) |
                        (record->vital ? VITAL : 0u) | (record->no_capacity ? NO_CAPACITY : 0u) |
                        (record->left ? LEFT : 0u) | (record->main ? MAIN : 0u) |
                        (record->witness ? WITNESS : 0u)));
  dmi_member_pack_caller(pack, &record->welcome);
  dmi_member_pack_caller(pack, &record->goodbye);
  dmi_info_pack(pack, &record->info);
}

static void unpack_record(struct dmi_unpack *unpack, struct dmi_record *record) {
  uint8_t life, flags;
  record->uid = dmi_unpack_u32(unpack);
  record->dmi_id.n = dmi_unpack_u32(unpack);
  life = dmi_unpack_u8(unpack);
  record->life = (enum dmi_life)life;
  record->heir = dmi_unpack_u32(unpack);
  flags = dmi_unpack_u8(unpack);
  record->welcomed = flags & WELCOMED;
  record->busy = flags & BUSY;
  record->vital = flags & VITAL;
  record->no_capacity = flags & NO_CAPACITY;
  record->left = flags & LEFT;
  record->main = flags & MAIN;
  record->witness = flags & WITNESS;
  dmi_member_unpack_caller(unpack, &record->welcome);
  dmi_member_unpack_caller(unpack, &record->goodbye);
  dmi_info_unpack(unpack, &record->info);
  /* no change is under way when the role moves */
  if (life >= DMI_LIFE_NONE || life == DMI_LIFE_JOINING || life == DMI_LIFE_FLUSHING ||
      life == DMI_LIFE_EXITING || flags > FLAGS) {
    unpack->bad = true;
  }
}

static void pack_deferred(struct dmi_pack *pack, const struct dmi_deferred_list *list) {
  dmi_pack_u32(pack, list->num);
  for (uint32_t i = 0; i < list->num; i++) {
    const struct dmi_deferred *item = &list->at[i];
    dmi_pack_u32(pack, item->from);
    dmi_pack_u8(pack, item->msg.type);
    dmi_pack_u8(pack, (item->msg.flags & DMI_F_AGAIN) != 0);
    dmi_pack_u64(pack, item->msg.member.op);
    dmi_pack_u32(pack, (uint32_t)item->msg.member.error);
    dmi_pack_bytes(pack, item->msg.body.ptr, item->msg.body.len);
  }
}

static void unpack_deferred(struct dmi_unpack *unpack, struct dmi_deferred_list *list) {
  uint32_t num = dmi_unpack_count(unpack, DEFERRED_BYTES);
  for (uint32_t i = 0; i < num && !unpack->bad; i++) {
    struct dmi_msg msg = {0};
    uint32_t from = dmi_unpack_u32(unpack);
    size_t len;
    msg.type = dmi_unpack_u8(unpack);
    if (dmi_member_unpack_flag(unpack)) msg.flags = DMI_F_AGAIN;
    msg.member.op = dmi_unpack_u64(unpack);
    msg.member.error = (int32_t)dmi_unpack_u32(unpack);
    msg.body.ptr = dmi_unpack_bytes(unpack, &len);
    msg.body.len = len;
    dmi_deferred_add(list, from, &msg);
  }
}

static void pack_queued(struct dmi_pack *pack, const struct dmi_queued *queued) {
  dmi_pack_u32(pack, queued->uid);
  dmi_notice_pack(pack, &queued->notice);
}

static void unpack_queued(struct dmi_unpack *unpack, struct dmi_queued *queued) {
  queued->uid = dmi_unpack_u32(unpack);
  dmi_notice_unpack(unpack, &queued->notice);
}

static void pack_uids(struct dmi_pack *pack, const struct dmi_uid_set *uids) {
  dmi_pack_u32(pack, uids->num);
  for (uint32_t i = 0; i < uids->num; i++)
    dmi_pack_u32(pack, uids->at[i]);
}

static void unpack_uids(struct dmi_unpack *unpack, struct dmi_uid_set *uids) {
  uint32_t num = dmi_unpack_count(unpack, 4);
  for (uint32_t i = 0; i < num; i++)
    *DMI_LIST_ADD(uids) = dmi_unpack_u32(unpack);
}

/* ---- The whole ----------------------------------------------------------------------------- */

static void pack_lists(struct dmi_pack *pack, const struct dmi_coord *c) {
  dmi_member_pack_mapping(pack, &c->system);
  dmi_pack_u32(pack, c->mappings.num);
  for (uint32_t i = 0; i < c->mappings.num; i++)
    dmi_member_pack_mapping(pack, &c->mappings.at[i]);
  dmi_pack_u32(pack, c->forgets.num);
  for (uint32_t i = 0; i < c->forgets.num; i++) {
    dmi_pack_u64(pack, c->forgets.at[i].base);
    dmi_pack_u64(pack, c->forgets.at[i].number);
    dmi_member_pack_caller(pack, &c->forgets.at[i].caller);
    pack_uids(pack, &c->forgets.at[i].awaits);
  }
  dmi_pack_u32(pack, c->adopts.num);
  for (uint32_t i = 0; i < c->adopts.num; i++) {
    dmi_pack_u32(pack, c->adopts.at[i].home);
    dmi_member_pack_caller(pack, &c->adopts.at[i].caller);
    dmi_member_pack_mapping(pack, &c->adopts.at[i].mapping);
  }
  dmi_pack_u32(pack, c->results.num);
  for (uint32_t i = 0; i < c->results.num; i++) {
    dmi_pack_u32(pack, c->results.at[i].uid);
    dmi_pack_u64(pack, c->results.at[i].ended.seq);
    dmi_pack_u64(pack, c->results.at[i].ended.value);
  }
}

void dmi_coord_pack(struct dmi_pack *pack, const struct dmi_coord *c) {
  dmi_pack_u64(pack, c->view);
  dmi_pack_u32(pack, c->next_uid);
  dmi_pack_u64(pack, c->next_base);
  dmi_pack_u64(pack, c->limit);
  dmi_pack_u64(pack, c->next_forget);
  dmi_pack_u32(pack, c->since);
  pack_uids(pack, &c->dead);
  dmi_pack_u32(pack, c->records.num);
  for (uint32_t i = 0; i < c->records.num; i++)
    pack_record(pack, &c->records.at[i]);
  dmi_pack_u32(pack, c->notices.num);
  for (uint32_t i = 0; i < c->notices.num; i++)
    pack_queued(pack, &c->notices.at[i]);
  dmi_pack_u32(pack, c->given.num);
  for (uint32_t i = 0; i < c->given.num; i++) {
    dmi_member_pack_caller(pack, &c->given.at[i].caller);
    pack_queued(pack, &c->given.at[i].queued);
  }
  dmi_pack_u32(pack, c->polls.num);
  for (uint32_t i = 0; i < c->polls.num; i++)
    dmi_member_pack_caller(pack, &c->polls.at[i]);
  pack_lists(pack, c);
  pack_deferred(pack, &c->blocked_calls);
  pack_deferred(pack, &c->deferred);
}

static void unpack_lists(struct dmi_unpack *unpack, struct dmi_coord *c) {
  uint32_t num;
  dmi_member_unpack_mapping(unpack, &c->system);
  num = dmi_unpack_count(unpack, DMI_MAPPING_BYTES);
  for (uint32_t i = 0; i < num; i++)
    dmi_member_unpack_mapping(unpack, DMI_LIST_ADD(&c->mappings));
  num = dmi_unpack_count(unpack, FORGET_BYTES);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_forget *forget = DMI_LIST_ADD(&c->forgets);
    forget->base = dmi_unpack_u64(unpack);
    forget->number = dmi_unpack_u64(unpack);
    dmi_member_unpack_caller(unpack, &forget->caller);
    unpack_uids(unpack, &forget->awaits);
  }
  num = dmi_unpack_count(unpack, ADOPT_BYTES);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_adopt *adopt = DMI_LIST_ADD(&c->adopts);
    adopt->home = dmi_unpack_u32(unpack);
    dmi_member_unpack_caller(unpack, &adopt->caller);
    dmi_member_unpack_mapping(unpack, &adopt->mapping);
  }
  num = dmi_unpack_count(unpack, RESULT_BYTES);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_result *result = DMI_LIST_ADD(&c->results);
    result->uid = dmi_unpack_u32(unpack);
    result->ended.seq = dmi_unpack_u64(unpack);
    result->ended.value = dmi_unpack_u64(unpack);
  }
}

struct dmi_coord *dmi_coord_unpack(struct dmi_unpack *unpack) {
  struct dmi_coord *c = dmi_coord_new();
  uint32_t num;
  /* not handed over: assume that capacity has become free since a leave began */
  c->capacity_changes = 1;
  c->view = dmi_unpack_u64(unpack);
  c->next_uid = dmi_unpack_u32(unpack);
  c->next_base = dmi_unpack_u64(unpack);
  c->limit = dmi_unpack_u64(unpack);
  c->next_forget = dmi_unpack_u64(unpack);
  c->since = dmi_unpack_u32(unpack);
  unpack_uids(unpack, &c->dead);
  num = dmi_unpack_count(unpack, RECORD_BYTES);
  for (uint32_t i = 0; i < num; i++)
    unpack_record(unpack, DMI_LIST_ADD(&c->records));
  num = dmi_unpack_count(unpack, QUEUED_BYTES);
  for (uint32_t i = 0; i < num; i++)
    unpack_queued(unpack, DMI_LIST_ADD(&c->notices));
  num = dmi_unpack_count(unpack, GIVEN_BYTES);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_given *given = DMI_LIST_ADD(&c->given);
    dmi_member_unpack_caller(unpack, &given->caller);
    unpack_queued(unpack, &given->queued);
  }
  num = dmi_unpack_count(unpack, CALLER_BYTES);
  for (uint32_t i = 0; i < num; i++)
    dmi_member_unpack_caller(unpack, DMI_LIST_ADD(&c->polls));
  unpack_lists(unpack, c);
  unpack_deferred(unpack, &c->blocked_calls);
  unpack_deferred(unpack, &c->deferred);
  if (dmi_unpack_done(unpack)) return c;
  dmi_coord_free(c);
  return NULL;
}
