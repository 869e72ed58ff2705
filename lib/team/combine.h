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

/* to[i] = a[i] op b[i]; integers wrap around.  `to` may be `a` or `b`.  Type and operation were
 * checked. */
void dmi_team_combine(DMI_type_t type, DMI_op_t op, void *to, const void *a, const void *b,
                      uint64_t num);

#endif
