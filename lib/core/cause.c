/*
 * cause.c - see cause.h.
 */
#include "core/cause.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/member_int.h"

#define CAUSE_BYTES 6 /* least packed bytes */

static struct dmi_cause *find(const struct dmi_causes *causes, dmi_uid_t uid) {
  for (uint32_t i = 0; i < causes->num; i++) {
    if (causes->at[i].uid == uid) return &causes->at[i];
  }
  return NULL;
}

void dmi_causes_add(struct dmi_causes *causes, dmi_uid_t uid, const char *text) {
  struct dmi_cause *cause = find(causes, uid);
  if (!*text) return;
  if (!cause) {
    cause = DMI_LIST_ADD(causes);
    cause->uid = uid;
  }
  if (strlen(text) > strlen(cause->text)) snprintf(cause->text, sizeof(cause->text), "%s", text);
}

const char *dmi_causes_of(const struct dmi_causes *causes, dmi_uid_t uid) {
  const struct dmi_cause *cause = find(causes, uid);
  return cause ? cause->text : NULL;
}

void dmi_causes_free(struct dmi_causes *causes) {
  free(causes->at);
  memset(causes, 0, sizeof(*causes));
}

void dmi_causes_pack(struct dmi_pack *pack, const struct dmi_causes *causes) {
  dmi_pack_u32(pack, causes->num);
  for (uint32_t i = 0; i < causes->num; i++) {
    dmi_pack_u32(pack, causes->at[i].uid);
    dmi_pack_text(pack, causes->at[i].text);
  }
}

void dmi_causes_unpack(struct dmi_unpack *unpack, struct dmi_causes *causes,
                       const struct dmi_member *m) {
  uint32_t num = dmi_unpack_count(unpack, CAUSE_BYTES);
  for (uint32_t i = 0; i < num && !unpack->bad; i++) {
    char text[DMI_TEXT_SIZE];
    dmi_uid_t uid = dmi_unpack_u32(unpack);
    dmi_unpack_text(unpack, text);
    if (strlen(text) > DMI_WIRE_DYING) unpack->bad = true;
    dmi_log_printable(text);
    if (!unpack->bad && dmi_member_loss(m, uid)) dmi_causes_add(causes, uid, text);
  }
}

void dmi_causes_own(struct dmi_causes *causes, const struct dmi_member *m) {
  for (uint32_t i = 0; m->env.cause && i < m->lost.num; i++) {
    const char *text = m->env.cause(m->env.arg, m->lost.at[i].uid);
    if (text) dmi_causes_add(causes, m->lost.at[i].uid, text);
  }
}
