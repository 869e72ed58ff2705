/*
 * pressure_int.h - what the files of pressure share; nobody else includes it.
 */
#ifndef DMI_CORE_PRESSURE_INT_H
#define DMI_CORE_PRESSURE_INT_H

#include "base/lock.h"
#include "base/mutation.h"
#include "core/pressure.h"

/* Pages, each held. */
struct dmi_page_list {
  uint64_t num, capacity;
  struct dmi_page **page;
};

/* What the pager does at the moment; the diagram is in docs/replacement.md, the allowed transitions
 * in pressure.c. Each stage but LOOKING is one action. */
enum dmi_pressure_stage {
  DMI_STAGE_REST,        /* between two looks: asleep, or not */
  DMI_STAGE_SETTLE,      /* asks how offers stand */
  DMI_STAGE_CHECK,       /* asks whether the pages that wait still stall */
  DMI_STAGE_ADMIT,       /* lets a page go on for which there is memory */
  DMI_STAGE_COPIES,      /* drops copies for a member that asks */
  DMI_STAGE_ARM_COPIES,  /* arms the end of a step: an answer waits for it */
  DMI_STAGE_SWEEP,       /* offers pages to members with memory */
  DMI_STAGE_OFFER,       /* offers the page that stalls */
  DMI_STAGE_SPILL,       /* writes pages to the file */
  DMI_STAGE_ARM,         /* arms the end of a step: a page may be able to leave then */
  DMI_STAGE_CHECK_FIRST, /* no memory anywhere: does the first one still stall? */
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
  struct dmi_capacity *capacity; /* who has room */
  struct dmi_page_list stalled;  /* in their order; the pager has not seen them yet */
  bool open;                     /* may own pages */
  bool leaving;                  /* takes nothing more */
  bool refused;   /* has asked to leave, and found no memory elsewhere: takes only what it must */
  bool dismissed; /* dismissed: takes nothing more, whatever comes of a leave */
  bool closed;    /* the process ends */

  /* ---- the pager's alone ---- */
  enum dmi_pressure_stage stage;
  struct dmi_page_list waiting; /* pages that stall, in their order */
  uint64_t marked;              /* so many of them, the first ones, waited already ... */
  uint64_t mark;                /* ... when this was the last question to members */
  struct dmi_page_list offered; /* no answer yet */
  uint64_t at, kept;            /* SETTLE, CHECK: how far in the list; of them remain */
  uint64_t offered_bytes;
  uint64_t ended;              /* dmi_pool_transient_ended when this look began */
  uint64_t patience;           /* the first that waits fails when so much has ended; 0: not set */
  uint64_t without;            /* size of the first that waits; 0: none does */
  uint64_t need;               /* bytes that are to leave */
  uint64_t unit;               /* bytes: for pages of this size the members are asked */
  enum dmi_capacity_have have; /* ... and had this */
  bool arm;                    /* an answer waits for the end of a step */
  struct dmi_capacity_asker asker; /* COPIES: for whom */
  dmi_uid_t *holder;               /* uids, of one page at a time */
  uint64_t holders, holders_capacity;
  /* of a sweep */
  struct dmi_replace work;
  const struct dmi_pressure_env *env; /* during it */
  uint64_t sweep_need;                /* bytes */
  enum dmi_class last;                /* COPY: drops copies only */
  enum dmi_capacity_kind kind;        /* how urgent it is */
  bool to_file;                       /* owned pages go to the file */
  bool full;                          /* ... which took no more */
  bool busy_seen;                     /* a page could not go only because something goes on */
  bool copy_seen;                     /* a copy could not go for that reason */
  uint64_t nowhere; /* size of the smallest pages for which nobody has room; 0: none */
};

/* ---- pressure.c ---- */
void dmi_page_list_add(struct dmi_page_list *list, struct dmi_page *page);
/* Takes out the first `num`. */
void dmi_page_list_take(struct dmi_page_list *list, uint64_t num);
/* Marks, in bytes below the limit: docs/replacement.md.  The pager begins at the low one... */
uint64_t dmi_pressure_low(const struct dmi_pressure *pressure);
/* ... and stops at the high one. */
uint64_t dmi_pressure_high(const struct dmi_pressure *pressure);

/* Sets when the pool calls: when it rises above the mark, or falls so far that a page or member can
 * go on. False: that is so already. */
bool dmi_pressure_set_marks(const struct dmi_pressure *pressure);

/* Debug builds: aborts when `to` must not follow `from`. */
void dmi_pressure_check_move(enum dmi_pressure_stage from, enum dmi_pressure_stage to);

/* ---- pressure_others.c: members that ask for room ---- */
/* True if others may have memory now. */
bool dmi_pressure_can_give(const struct dmi_pressure *pressure);
/* The next member to be answered: true, and p->asker.  False: no more of them. */
bool dmi_pressure_asker(struct dmi_pressure *pressure);
/* Bytes of copies that are to go for p->asker first; 0: it can be answered. */
uint64_t dmi_pressure_copies_for_asker(const struct dmi_pressure *pressure);
/* Answers p->asker, or defers the answer. */
void dmi_pressure_answer(struct dmi_pressure *pressure, struct dmi_capacity_out *out);
/* Reports to members that wait for memory. */
void dmi_pressure_tell(struct dmi_pressure *pressure, struct dmi_capacity_out *out);

#endif
