/*
 * farm_member.c - the processes that a farm knows, and how they are dismissed.
 *
 * They are kept as a list, as notices may be about processes that were never in it: one was lost
 * before it was welcomed, or had asked to leave before the farm began.
 *
 * Goodbyes are said without waiting for their answers, which come when the pages have moved.
 * Failure modes: no other process has memory for the pages (DMI_ENOMEM: the notice comes again when
 * there may be some); threads that the program made itself still run there (DMI_EBUSY: no notice
 * comes, so it is said again with each notice about others).
 */
#include "elastic/farm_int.h"

#include <stdlib.h>

#include "access/status.h"
#include "base/error.h"
#include "node/calls.h"

#define UNDER_WAY (-1) /* no DMI_E* */

int32_t dmi_farm_members_in(const struct dmi_farm_members *members) {
  int32_t num = 0;
  for (const struct dmi_farm_member *m = members->first; m; m = m->next)
    num += m->state == DMI_FARM_IN;
  return num;
}

struct dmi_farm_member *dmi_farm_member_of(const struct dmi_farm_members *members, int32_t dmi_id) {
  struct dmi_farm_member *m = members->first;
  while (m && m->dmi_id != dmi_id)
    m = m->next;
  return m;
}

struct dmi_farm_member *dmi_farm_member_add(struct dmi_farm_members *members,
                                            const DMI_node_t *node) {
  struct dmi_farm_member **end = &members->first, *m = calloc(1, sizeof(*m));
  if (!m) {
    (void)dmi_fail(DMI_ENOMEM);
    return NULL;
  }
  while (*end)
    end = &(*end)->next;
  m->dmi_id = node->dmi_id;
  m->core = node->core;
  return *end = m;
}

void dmi_farm_member_drop(struct dmi_farm_members *members, struct dmi_farm_member *m) {
  struct dmi_farm_member **at = &members->first;
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  if (m->state == DMI_FARM_GOES) (void)dmi_status_wait(dmi_status_of(&m->goodbye));
  free(m);
}

void dmi_farm_member_goodbye(struct dmi_farm_members *members, struct dmi_farm_member *m) {
  m->state = DMI_FARM_GOES;
  (void)dmi_call_goodbye(members->process, m->dmi_id, &m->goodbye);
}

/* What became of a goodbye?  UNDER_WAY: nothing yet. */
static int32_t answer_of(struct dmi_farm_member *m) {
  struct dmi_status *status = dmi_status_of(&m->goodbye);
  return dmi_status_is_done(status) ? DMI_WITHOUT_WHY(dmi_status_wait(status)) : UNDER_WAY;
}

void dmi_farm_member_asks_again(struct dmi_farm_members *members, struct dmi_farm_member *m) {
  int32_t error = answer_of(m); /* of the goodbye before: there may be memory now */
  if (error != DMI_OK && error != UNDER_WAY) dmi_farm_member_goodbye(members, m);
}

void dmi_farm_members_look(struct dmi_farm_members *members) {
  for (struct dmi_farm_member *m = members->first, *next; m; m = next) {
    int32_t error = m->state == DMI_FARM_GOES ? answer_of(m) : UNDER_WAY;
    next = m->next;
    if (error == DMI_OK || error == DMI_ENOTASKED) dmi_farm_member_drop(members, m);
    if (error == DMI_EBUSY) dmi_farm_member_goodbye(members, m);
  }
}

void dmi_farm_members_finish(struct dmi_farm_members *members) {
  while (members->first) {
    struct dmi_farm_member *m = members->first;
    if (m->state == DMI_FARM_GOES) {
      int32_t error = DMI_WITHOUT_WHY(dmi_status_wait(dmi_status_of(&m->goodbye)));
      if (error == DMI_EBUSY || error == DMI_ENOMEM) dmi_farm_member_goodbye(members, m);
    }
    dmi_farm_member_drop(members, m);
  }
}
