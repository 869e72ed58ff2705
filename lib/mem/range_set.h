/*
 * range_set.h - a set of numbers, kept as ranges: its memory grows with how scattered the set is,
 * not with how many numbers are in it.
 *
 * Not thread-safe: the caller has a lock.
 */
#ifndef DMI_MEM_RANGE_SET_H
#define DMI_MEM_RANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_range_set {
  void *tree; /* of struct range; made by tsearch */
};

/* Adds [first, end); first < end. Numbers may be in the set already. False: no memory, nothing
 * was changed. */
bool dmi_range_set_add(struct dmi_range_set *ranges, uint64_t first, uint64_t end);

/* Removes [first, end), as far as it is in the set. False as above. */
bool dmi_range_set_remove(struct dmi_range_set *ranges, uint64_t first, uint64_t end);

bool dmi_range_set_has(const struct dmi_range_set *ranges, uint64_t number);

/* Empties the set. */
void dmi_range_set_clear(struct dmi_range_set *ranges);

#endif
