/*
 * profile.h - where a program waits: how many pages each place of it asks for, in which mapping,
 * and how long it waits there (dmirun --profile; docs/seeing.md).
 *
 * A *line* is one place that calls the API, and one mapping, with the pages of it that were asked
 * for most often.  There are at most DMI_PROFILE_LINES; then a new one takes the place of the one
 * that has cost least, which counts for `rest` from there on.  So the memory is bounded, sums are
 * right, and what costs much is there.
 *
 * Fed by faults and by waits, never by hits.  Not there: neither costs more than a look at a
 * pointer.
 */
#ifndef DMI_ACCESS_PROFILE_H
#define DMI_ACCESS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/doing.h"
#include "base/hot.h"

#define DMI_PROFILE_LINES 1024
#define DMI_PROFILE_PAGES 8 /* of a line */

struct dmi_access;
struct dmi_page;
struct dmi_profile;

/* What something has cost. */
struct dmi_profile_cost {
  uint64_t faults, waits;
  uint64_t ns;      /* waited */
  uint64_t longest; /* ns */
};

struct dmi_profile_line {
  const void *caller; /* return address of the call; NULL: a thread of the library itself */
  const char *name;   /* of the call; NULL likewise */
  uint64_t mapping;   /* base; 0: it was about no mapping, or several */
  uint64_t page_size;
  uint32_t kinds; /* what was waited for: 1 << enum dmi_doing_what */
  struct dmi_profile_cost cost;
  struct dmi_hot page[DMI_PROFILE_PAGES]; /* faults */
  uint64_t page_ns[DMI_PROFILE_PAGES];    /* waited for each, since it has its counter */
};

/* Begins; before there are threads.  NULL: no memory. */
struct dmi_profile *dmi_profile_new(struct dmi_access *access);
/* When no thread calls the API any more. */
void dmi_profile_free(struct dmi_profile *profile);

/* This thread asks for a page, which is locked. */
void dmi_profile_fault(struct dmi_profile *profile, const struct dmi_page *page);

/* ---- Looking: any thread ---- */
struct dmi_profile_sum {
  struct dmi_profile_cost all, rest; /* rest: of lines that had to go */
  uint64_t gone;                     /* how many */
};
void dmi_profile_sum(struct dmi_profile *profile, struct dmi_profile_sum *sum);
/* Copies a line; they are numbered from 0, in no order.  False: there are not so many. */
bool dmi_profile_look(struct dmi_profile *profile, uint32_t number, struct dmi_profile_line *line);

/* ---- For tests ---- */
/* A wait of so many ns at this place of the program for a page of a mapping; 0: for something
 * else. */
void dmi_profile_wait(struct dmi_profile *profile, const struct dmi_doing_wait *wait,
                      uint64_t mapping, uint64_t page_size, uint64_t page);

#endif
