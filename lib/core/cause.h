/*
 * cause.h - why members are lost, as they have told others themselves (DYING) or these have seen
 * (silence), on the way to all: each member says in STATE what it was told, and the coordinator in
 * RESUME what it has heard.
 *
 * What others say is bounded: one printable line of DMI_WIRE_DYING bytes for each process that this
 * one knows to be lost.
 */
#ifndef DMI_CORE_CAUSE_H
#define DMI_CORE_CAUSE_H

#include "core/member.h"
#include "core/member_list.h"
#include "msg/pack.h"

struct dmi_cause {
  dmi_uid_t uid;
  char text[DMI_WIRE_DYING + 1];
};

struct dmi_causes {
  struct dmi_cause *at;
  uint32_t num, capacity;
};

/* Of several texts about the same process the longest is kept: the last that it has told says more
 * than the one before (node/fatal.h). */
void dmi_causes_add(struct dmi_causes *causes, dmi_uid_t uid, const char *text);
const char *dmi_causes_of(const struct dmi_causes *causes, dmi_uid_t uid); /* NULL: not told */
void dmi_causes_free(struct dmi_causes *causes);

void dmi_causes_pack(struct dmi_pack *pack, const struct dmi_causes *causes);
/* Adds those of the processes that m knows to be lost.  What is malformed marks `unpack` as bad. */
void dmi_causes_unpack(struct dmi_unpack *unpack, struct dmi_causes *causes,
                       const struct dmi_member *m);

/* What this process was told by those that were lost since RESUME. */
void dmi_causes_own(struct dmi_causes *causes, const struct dmi_member *m);

#endif
