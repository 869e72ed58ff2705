/*
 * pressure_int.h - what the files of pressure share; no other file includes it.
 */
#ifndef DMI_CORE_PRESSURE_INT_H
#define DMI_CORE_PRESSURE_INT_H

#include "base/lock.h"
#include "base/mutation.h"
#include "core/pressure.h"

/* A list of pages, each pinned. */
struct dmi_page_list {
  uint64_t num, capacity;
  struct dmi_page **page;
};

/* What the pager does at the moment; the diagram is in docs/replacement.md, the allowed transitions
 * in pressure.c. Each stage but LOOKING is one action. */
enum dmi_pressure_stage {
  DMI_STAGE_REST,        /* between two looks, perhaps asleep */
  DMI_STAGE_SETTLE,      /* asks what became of offers */
  DMI_STAGE_CHECK,       /* asks whether waiting pages are still stalled */
  DMI_STAGE_ADMIT,       /* lets a page go on for which there is memory */
  DMI_STAGE_COPIES,      /* drops copies for a member that asks */
  DMI_STAGE_ARM_COPIES,  /* arms the end of a step: an answer waits for it */
  DMI_STAGE_SWEEP,       /* offers pages to members with memory */
  DMI_STAGE_OFFER,       /* offers the stalled page */
  DMI_STAGE_SPILL,       /* writes pages to the file */
  DMI_STAGE_ARM,         /* arms the end of a step: a page may be able to leave then */
  DMI_STAGE_CHECK_FIRST, /* no memory anywhere: is the first page still stalled? */
  DMI_STAGE_FAIL,        /* it fails, or (spilled) goes on above the limit */
  DMI_STAGES
};

struct dmi_pressure {
  struct dmi_core *core;
  struct dmi_pool *pool; /* what this process lends; atomic counters */
#ifdef DMI_MUTATIONS
  enum dmi_pressure_break broken;
#endif
  bool spills; /* there is a file */

  struct dmi_mutex lock; /* rank PAGER */
  /* ---- guarded by it ---- */
  struct dmi_capacity *capacity; /* which members have memory */
  struct dmi_page_list stalled;  /* in order; the pager has not seen them yet */
  bool open;                     /* may own pages */
  bool leaving;                  /* takes nothing more */
  bool refused;   /* asked to leave, but no member had memory: takes only pages that it must */
  bool dismissed; /* dismissed: takes nothing more, even if the leave fails */
  bool closed;    /* the process ends */

  /* ---- the pager's alone ---- */
  enum dmi_pressure_stage stage;
  struct dmi_page_list waiting; /* stalled pages, in order */
  uint64_t marked;              /* so many of them, the first ones, waited already ... */
  uint64_t mark;                /* ... when this was the last question to members */
  struct dmi_page_list offered; /* offered pages without an answer */
  uint64_t at, kept; /* SETTLE, CHECK: index in the list; how many remain of those before it */
  uint64_t offered_bytes;
  uint64_t ended; /* dmi_pool_transient_ended when this look began */
  /* when dmi_pool_transient_ended reaches this, the first waiting page fails; 0: not set */
  uint64_t patience;
  uint64_t without;                /* bytes of the first waiting page; 0: none waits */
  uint64_t need;                   /* bytes that must leave */
  uint64_t unit;                   /* bytes: page size for which the members are asked */
  enum dmi_capacity_have have;     /* the members' answer to that */
  bool arm;                        /* an answer waits for the end of a step */
  struct dmi_capacity_asker asker; /* COPIES: the member for which they are dropped */
  dmi_uid_t *holder;               /* uids of members that may have a copy of one page */
  uint64_t holders, holders_capacity;
  /* for a sweep */
  struct dmi_replace work;
  const struct dmi_pressure_env *env; /* during a sweep */
  uint64_t sweep_need;                /* bytes */
  enum dmi_class last;                /* COPY: the sweep drops copies only */
  enum dmi_capacity_kind kind;        /* how urgent it is */
  bool to_file;                       /* owned pages go to the file */
  bool full;                          /* the file is full */
  bool busy_seen;                     /* a page could not leave only because it is busy */
  bool copy_seen;                     /* a copy could not be dropped only because it is busy */
  uint64_t nowhere; /* bytes of the smallest page for which no member has memory; 0: none */
};

/* ---- pressure.c ---- */
void dmi_page_list_add(struct dmi_page_list *list, struct dmi_page *page);
/* Removes the first `num` pages. */
void dmi_page_list_take(struct dmi_page_list *list, uint64_t num);
/* The marks, in bytes below the limit (docs/replacement.md). The pager begins at the low one... */
uint64_t dmi_pressure_low(const struct dmi_pressure *pressure);
/* ... and stops at the high one. */
uint64_t dmi_pressure_high(const struct dmi_pressure *pressure);

/* Sets the marks of the pool: it wakes the pager when its use rises above one, or falls so far
 * that a page or member can go on. False: that is so already. */
bool dmi_pressure_set_marks(const struct dmi_pressure *pressure);

/* In debug builds: aborts if `to` must not follow `from`. */
void dmi_pressure_check_move(enum dmi_pressure_stage from, enum dmi_pressure_stage to);

/* ---- pressure_others.c: members that ask for memory ---- */
/* True if other members may be given memory now. */
bool dmi_pressure_can_give(const struct dmi_pressure *pressure);
/* Finds the next member to answer: p->asker. False: there are no more. */
bool dmi_pressure_asker(struct dmi_pressure *pressure);
/* Bytes of copies that must be dropped for p->asker first; 0: it can be answered. */
uint64_t dmi_pressure_copies_for_asker(const struct dmi_pressure *pressure);
/* Answers p->asker, or defers the answer. */
void dmi_pressure_answer(struct dmi_pressure *pressure, struct dmi_capacity_out *out);
/* Reports to members that wait for memory. */
void dmi_pressure_tell(struct dmi_pressure *pressure, struct dmi_capacity_out *out);

#endif
