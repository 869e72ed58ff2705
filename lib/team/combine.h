/*
 * combine.h - what a reduce of a team does to two arrays.
 *
 * Pure.
 */
#ifndef DMI_TEAM_COMBINE_H
#define DMI_TEAM_COMBINE_H

#include <stdint.h>

#include "dmi_team.h"

/* Bytes of an element; 0: no such type, or no such operation for it. */
uint64_t dmi_team_combine_size(DMI_type_t type, DMI_op_t op);

/* into[i] = into[i] op with[i]; integers wrap around.  Size and operation were checked. */
void dmi_team_combine(DMI_type_t type, DMI_op_t op, void *into, const void *with, uint64_t num);

#endif
