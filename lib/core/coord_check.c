/*
 * coord_check.c - checks the state that another coordinator hands over.
 *
 * It comes from another process, so everything on which the role relies is checked: uids are those
 * of members, states are consistent, and addresses are in order.
 */
#include "core/coord_int.h"

static bool is_there(const struct dmi_coord *c, uint32_t uid) {
  return dmi_coord_find(c, uid) != NULL;
}

static bool record_good(const struct dmi_member *m, const struct dmi_coord *c,
                        const struct dmi_record *record) {
  bool leaves = record->life == DMI_LIFE_LEAVING || record->life == DMI_LIFE_DRAINED ||
                record->life == DMI_LIFE_LEFT;
  const struct dmi_peer *peer = dmi_member_find(m, record->uid);
  if (!peer || record->witness != peer->witness) return false;
  if (record->witness && (record->welcomed || record->vital)) return false;
  if (record->welcomed && !record->vital && !record->left) return false;
  if (record->left != peer->left) return false;
  if (record->left && record->life != DMI_LIFE_LEFT && record->life != DMI_LIFE_LOST) return false;
  if (record->life == DMI_LIFE_LEFT && (!record->left || record->vital)) return false;
  if (record->life == DMI_LIFE_OPENED && !record->welcomed) return false;
  if (record->life == DMI_LIFE_DRAINED && !record->heir) return false;
  if (record->life == DMI_LIFE_LEFT && !record->heir) return false;
  if (!record->heir) return true;
  return leaves && record->heir != record->uid && is_there(c, record->heir);
}

/* One record for each member of the view, sorted by uid. */
static bool records_good(const struct dmi_member *m, const struct dmi_coord *c) {
  uint32_t last = 0;
  if (c->records.num != m->peers.num) return false;
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    if (record->uid <= last || !record_good(m, c, record)) return false;
    last = record->uid;
    for (uint32_t j = 0; j < i; j++) {
      if (dmi_id_is(c->records.at[j].dmi_id, record->dmi_id)) return false;
    }
  }
  return c->next_uid > last && c->next_uid < DMI_NET_TEMP;
}

/* The record of the new coordinator agrees with what it knows of itself. */
static bool self_good(const struct dmi_member *m, const struct dmi_coord *c) {
  const struct dmi_record *self = dmi_coord_find(c, m->uid);
  if (!self || !self->vital) return false;
  if (self->life == DMI_LIFE_DRAINED || self->life == DMI_LIFE_LOST) return false;
  return m->opened == (self->welcomed || self->welcome.uid != 0);
}

static bool mappings_good(const struct dmi_coord *c) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < c->mappings.num; i++) {
    const struct dmi_entry *mapping = &c->mappings.at[i];
    if (!dmi_member_mapping_good(mapping) || mapping->base < end || !is_there(c, mapping->home))
      return false;
    end = mapping->base + mapping->page_size * mapping->page_num;
  }
  if (c->system.base != DMI_SYSTEM_BASE || c->system.page_size != DMI_SYSTEM_PAGE ||
      c->system.page_num != DMI_SYSTEM_NUM || !is_there(c, c->system.home)) {
    return false;
  }
  return end <= c->next_base && c->next_base <= c->limit && c->limit <= DMI_SYSTEM_BASE;
}

/* It waits only for members, so what it waits for will arrive. */
static bool waits_good(const struct dmi_coord *c) {
  for (uint32_t i = 0; i < c->forgets.num; i++) {
    const struct dmi_uid_set *awaits = &c->forgets.at[i].awaits;
    if (awaits->num == 0 || awaits->num > c->records.num) return false;
    for (uint32_t j = 0; j < awaits->num; j++) {
      if (!is_there(c, awaits->at[j])) return false;
    }
  }
  for (uint32_t i = 0; i < c->adopts.num; i++) {
    if (!is_there(c, c->adopts.at[i].home) || !dmi_member_mapping_good(&c->adopts.at[i].mapping))
      return false;
  }
  return true;
}

/* Deferred messages come from members and are for a coordinator. */
static bool deferred_good(const struct dmi_deferred_list *list) {
  for (uint32_t i = 0; i < list->num; i++) {
    if (!dmi_member_for_coordinator(list->at[i].msg.type)) return false;
  }
  return true;
}

bool dmi_coord_good(const struct dmi_member *m, const struct dmi_coord *c) {
  return c->view == m->view && records_good(m, c) && self_good(m, c) && mappings_good(c) &&
         waits_good(c) && deferred_good(&c->blocked_calls) && deferred_good(&c->deferred);
}
