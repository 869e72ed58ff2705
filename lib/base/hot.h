/*
 * hot.h - which of very many things happen most often, in little memory: a fixed number of
 * counters, each for one thing ("space saving", Metwally, Agrawal and El Abbadi, 2005).
 *
 * A thing that has no counter takes the one with the smallest count, and goes on from there.  So a
 * count is never too small, and at most `more` too large; and whatever makes more than 1/num of all
 * events has a counter.  Pure; the caller locks.
 */
#ifndef DMI_BASE_HOT_H
#define DMI_BASE_HOT_H

#include <stdint.h>

/* A thing has a name of two numbers. */
struct dmi_hot {
  uint64_t of, which;
  uint64_t count; /* 0: the counter is free */
  uint64_t more;
};

/* So many events of this thing.  Returns the index of its counter; that is new for it if its count
 * is `more` and `events`. */
uint32_t dmi_hot_add(struct dmi_hot *hot, uint32_t num, uint64_t of, uint64_t which,
                     uint64_t events);
/* Halves all counts, so that what happens now counts for more than what was before. */
void dmi_hot_halve(struct dmi_hot *hot, uint32_t num);
/* The largest count first, free ones last. */
void dmi_hot_sort(struct dmi_hot *hot, uint32_t num);

#endif
