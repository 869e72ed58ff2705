/*
 * member_mapping.c - what the coordinator tells a member about mappings, and what the member
 * remembers of it for a coordinator that knows nothing (docs/crashes.md).
 *
 * It remembers what the mappings known here do not show: which were unmapped, for whom this process
 * has become a home, and which addresses may have been given.
 */
#include "core/member_int.h"

/* ---- ADOPT ------------------------------------------------------------------------------------
 */

bool dmi_member_on_adopt(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_entry mapping;
  struct dmi_caller caller;
  struct dmi_pack answer;
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  dmi_member_unpack_mapping(&body, &mapping);
  dmi_member_unpack_caller(&body, &caller);
  if (!dmi_unpack_done(&body) || mapping.home != m->uid || !dmi_member_mapping_good(&mapping))
    return false;
  if (m->env.survive) *DMI_LIST_ADD(&m->adopted) = (struct dmi_adopted){caller, mapping.base};
  dmi_mout_add(m->out, DMI_MACT_ADOPT)->mapping = mapping;
  dmi_pack_init(&answer);
  dmi_pack_u64(&answer, mapping.base);
  dmi_member_send(m, m->coordinator, DMI_CTL_ADOPTED, 0, 0, &answer);
  return true;
}

/* ---- FORGET -----------------------------------------------------------------------------------
 */

/* FORGETs below `done` have been answered by all. */
static void note_forgotten(struct dmi_member *m, uint64_t base, uint64_t number, uint64_t done) {
  for (uint32_t i = m->forgotten.num; i-- > 0;) {
    if (m->forgotten.at[i].number < done) DMI_LIST_DROP(&m->forgotten, i);
  }
  for (uint32_t i = m->adopted.num; i-- > 0;) {
    if (m->adopted.at[i].base == base) DMI_LIST_DROP(&m->adopted, i);
  }
  *DMI_LIST_ADD(&m->forgotten) = (struct dmi_forgotten){base, number};
}

bool dmi_member_on_forget(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  uint64_t base, done;
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  base = dmi_unpack_u64(&body);
  done = dmi_unpack_u64(&body);
  if (!dmi_unpack_done(&body)) return false;
  if (m->env.survive) note_forgotten(m, base, msg->member.op, done);
  dmi_mout_add(m->out, DMI_MACT_FORGET)->mapping.base = base;
  return true;
}

void dmi_member_mapping_forgot(struct dmi_member *m, uint64_t base) {
  struct dmi_pack body;
  if (m->phase >= DMI_PHASE_ENDED) return;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, base);
  dmi_member_send(m, m->coordinator, DMI_CTL_FORGOT, 0, 0, &body);
}

/* ---- RESERVE ----------------------------------------------------------------------------------
 */

bool dmi_member_on_reserve(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_pack answer;
  uint64_t limit;
  (void)from;
  if (!dmi_member_unpack_number(msg, &limit) || limit > DMI_SYSTEM_BASE) return false;
  if (limit > m->limit) m->limit = limit;
  dmi_pack_init(&answer);
  dmi_pack_u64(&answer, limit);
  dmi_member_send(m, m->coordinator, DMI_CTL_RESERVED, 0, 0, &answer);
  return true;
}

/* ---- STATE ------------------------------------------------------------------------------------
 */

static void pack_known(struct dmi_member *m, struct dmi_pack *pack) {
  struct dmi_pack list;
  struct dmi_entry entry = {0};
  dmi_uid_t before;
  uint32_t num = 0;
  dmi_pack_init(&list);
  while (m->env.next_mapping &&
         m->env.next_mapping(m->env.mapping_arg, entry.base, &entry, &before)) {
    dmi_member_pack_mapping(&list, &entry);
    dmi_pack_u32(&list, before);
    num++;
  }
  dmi_pack_u32(pack, num);
  dmi_pack_raw(pack, list.bytes, list.len);
  dmi_pack_free(&list);
}

/* Results that were sent, and may be lost with the coordinator; others will be sent. */
static void pack_results(struct dmi_member *m, struct dmi_pack *pack) {
  uint32_t num = m->results_sent ? m->results.num : 0;
  dmi_pack_u32(pack, num);
  for (uint32_t i = 0; i < num; i++) {
    dmi_pack_u64(pack, m->results.at[i].seq);
    dmi_pack_u64(pack, m->results.at[i].value);
  }
}

void dmi_member_pack_state(struct dmi_member *m, struct dmi_pack *pack) {
  dmi_pack_u64(pack, m->limit);
  pack_known(m, pack);
  dmi_pack_u32(pack, m->forgotten.num);
  for (uint32_t i = 0; i < m->forgotten.num; i++)
    dmi_pack_u64(pack, m->forgotten.at[i].base);
  dmi_pack_u32(pack, m->adopted.num);
  for (uint32_t i = 0; i < m->adopted.num; i++) {
    dmi_member_pack_caller(pack, &m->adopted.at[i].caller);
    dmi_pack_u64(pack, m->adopted.at[i].base);
  }
  pack_results(m, pack);
}
