/*
 * hot.c - see hot.h.
 */
#include "base/hot.h"

#include <stdlib.h>

uint32_t dmi_hot_add(struct dmi_hot *hot, uint32_t num, uint64_t of, uint64_t which,
                     uint64_t events) {
  struct dmi_hot *least = hot;
  for (uint32_t i = 0; i < num; i++) {
    if (hot[i].count && hot[i].which == which && hot[i].of == of) {
      hot[i].count += events;
      return i;
    }
    if (hot[i].count < least->count) least = &hot[i];
  }
  *least = (struct dmi_hot){of, which, least->count + events, least->count};
  return (uint32_t)(least - hot);
}

void dmi_hot_halve(struct dmi_hot *hot, uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    hot[i].count /= 2;
    hot[i].more /= 2;
  }
}

static int by_count(const void *a, const void *b) {
  const struct dmi_hot *one = a, *other = b;
  return (one->count < other->count) - (one->count > other->count);
}

void dmi_hot_sort(struct dmi_hot *hot, uint32_t num) {
  qsort(hot, num, sizeof(*hot), by_count);
}
