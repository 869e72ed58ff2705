/*
 * range_set.c - a set of numbers as a balanced tree of ranges.
 *
 * The ranges in the tree are disjoint and do not touch. Ranges that overlap compare as equal, so a
 * search finds any range of the tree that overlaps the one searched for. The bounds of a range are
 * changed in the tree if the order of the ranges stays the same.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for tdestroy */
#endif
#include "mem/range_set.h"

#include <search.h>
#include <stdlib.h>

struct range {
  uint64_t first, end; /* `end` is not part of the range */
};

static int compare(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->end <= y->first) return -1;
  return x->first >= y->end;
}

/* Any range of the set that overlaps [first, end). */
static struct range *find(const struct dmi_range_set *ranges, uint64_t first, uint64_t end) {
  struct range probe = {first, end};
  void *node = first < end ? tfind(&probe, &ranges->tree, compare) : NULL;
  return node ? *(struct range **)node : NULL;
}

static bool insert(struct dmi_range_set *ranges, uint64_t first, uint64_t end) {
  struct range *range = malloc(sizeof(*range));
  if (!range) return false;
  *range = (struct range){first, end};
  if (tsearch(range, &ranges->tree, compare)) return true;
  free(range);
  return false;
}

static void drop(struct dmi_range_set *ranges, struct range *range) {
  tdelete(range, &ranges->tree, compare);
  free(range);
}

bool dmi_range_set_add(struct dmi_range_set *ranges, uint64_t first, uint64_t end) {
  /* Ranges that only touch are merged as well. */
  uint64_t low = first ? first - 1 : 0, high = end < UINT64_MAX ? end + 1 : end;
  struct range *kept = find(ranges, low, high), *other;
  if (!kept) return insert(ranges, first, end);
  if (kept->first < first) first = kept->first;
  if (kept->end > end) end = kept->end;
  while ((other = find(ranges, low, kept->first)) || (other = find(ranges, kept->end, high))) {
    if (other->first < first) first = other->first;
    if (other->end > end) end = other->end;
    drop(ranges, other);
  }
  kept->first = first;
  kept->end = end;
  return true;
}

bool dmi_range_set_remove(struct dmi_range_set *ranges, uint64_t first, uint64_t end) {
  struct range *hit;
  while ((hit = find(ranges, first, end))) {
    uint64_t hit_end = hit->end;
    if (hit->first < first) {
      hit->end = first;
      if (hit_end > end && !insert(ranges, end, hit_end)) {
        hit->end = hit_end; /* it was the only hit, so this undoes all changes */
        return false;
      }
    } else if (hit_end > end) {
      hit->first = end;
    } else {
      drop(ranges, hit);
    }
  }
  return true;
}

bool dmi_range_set_has(const struct dmi_range_set *ranges, uint64_t number) {
  return find(ranges, number, number + 1) != NULL;
}

void dmi_range_set_clear(struct dmi_range_set *ranges) {
  tdestroy(ranges->tree, free);
  ranges->tree = NULL;
}
