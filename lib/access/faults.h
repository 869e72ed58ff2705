/*
 * faults.h - where and how often threads of this process had to ask other processes for a page, or
 * for something done at one: a *fault*.  For those who look at the program (docs/seeing.md).
 *
 * Fed on faults only, which send a message; hits do not come here.
 */
#ifndef DMI_ACCESS_FAULTS_H
#define DMI_ACCESS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "msg/table.h"

struct dmi_page;

/* Bytes of a page that a thread was about to read or write when it asked: from <= byte < to,
 * counted from the page's start. */
struct dmi_faults_bytes {
  uint64_t from, to; /* equal: none */
  bool write;
};

/* The first and last of those bytes of many faults. */
struct dmi_faults_touched {
  struct dmi_faults_bytes wrote, read;
};

#define DMI_FAULTS_HOT 32    /* pages that are counted one by one */
#define DMI_FAULTS_FRESH 128 /* of a page whose last faults are not in `hot` yet */
#define DMI_FAULTS_SECONDS 5 /* over which `now` is an average */

struct dmi_faults {
  _Atomic uint32_t lock; /* guards all below */
  int64_t begin;         /* clock, when the first one happened; 0: none has */
  uint64_t num;          /* since the start */
  uint64_t lately; /* sum of the counts of `hot` and `fresh`, before those that were replaced */
  struct dmi_hot hot[DMI_FAULTS_HOT]; /* by mapping (base) and page */
  /* Of the same pages: since counts were last halved, and in the time before that. */
  struct dmi_faults_touched touched[DMI_FAULTS_HOT], before[DMI_FAULTS_HOT];
  /* Faults that are to be added to `hot`, which takes a look at each counter: a page's are gathered
   * in one place until another page needs that, or somebody looks. */
  struct dmi_faults_fresh {
    uint64_t of, which;
    uint64_t num; /* 0: free */
    struct dmi_faults_touched touched;
  } fresh[DMI_FAULTS_FRESH];
  struct dmi_faults_second {
    int64_t at; /* of the clock */
    uint64_t num;
  } second[DMI_FAULTS_SECONDS + 1];
};

/* True for a message by which a process asks for a page. */
bool dmi_faults_are(enum dmi_msg_type type);

/* A thread of this process asks for these pages, at least one, which stay meanwhile, because of
 * these bytes of each. */
void dmi_faults_note(struct dmi_faults *faults, struct dmi_page *const page[],
                     const struct dmi_faults_bytes bytes[], uint32_t num);

/* ---- For those who look: any thread ---- */
struct dmi_faults_seen {
  uint64_t num;
  double now;                         /* a second, over the last ones */
  uint64_t lately;                    /* of the last thousands: as many as `hot` counts */
  struct dmi_hot hot[DMI_FAULTS_HOT]; /* the most frequent first */
  struct dmi_faults_touched touched[DMI_FAULTS_HOT]; /* of the same pages */
};
void dmi_faults_look(struct dmi_faults *faults, struct dmi_faults_seen *seen);
/* A second, at this time of the clock. */
double dmi_faults_rate(const struct dmi_faults *faults, int64_t now);

#endif
