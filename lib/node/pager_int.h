/*
 * pager_int.h - what the files of the pager share; nobody else includes it.
 */
#ifndef DMI_NODE_PAGER_INT_H
#define DMI_NODE_PAGER_INT_H

#include "base/lock.h"
#include "core/room.h"
#include "base/pool.h"
#include "core/replace.h"
#include "node/pager.h"

/* A page with a reference to its mapping. */
struct dmi_held_page {
  struct dmi_page *page;
  uint32_t to; /* uid it was offered to */
};

struct dmi_held_pages {
  uint64_t num, room;
  struct dmi_held_page *at;
};

struct dmi_pager {
  struct dmi_process *process;
  struct dmi_pool *pool;  /* what this process lends */
  struct dmi_spill *file; /* NULL: pages are not spilled */
  pthread_t thread;
  bool started;
  _Atomic uint32_t events;   /* goes up with each; what the thread sleeps on */
  _Atomic uint32_t sleeping; /* bool: it must be woken */
  _Atomic uint32_t stop;     /* bool */
  _Atomic uint64_t sent, taken, dropped;

  struct dmi_mutex lock;         /* guards what follows; see docs/locking.md */
  struct dmi_rooms *rooms;       /* who has room */
  struct dmi_held_pages stalled; /* in their order; they have not been seen by the thread */
  bool open;                     /* may own pages */
  bool leaving;                  /* takes nothing more */
  bool refused; /* has asked to leave, and found no room: takes what it must only */
  bool keeping; /* dismissed: takes nothing more, whatever comes of a leave */

  /* ---- the daemon's alone ---- */
  uint32_t heir; /* of a leave that waits for promises; 0: none does */

  /* ---- the pager thread's alone ---- */
  struct dmi_held_pages waiting; /* stalled pages, in their order */
  struct dmi_held_pages offered; /* no answer yet */
  uint64_t offered_bytes;
  uint64_t turned;   /* dmi_pool_turned when this look began */
  uint64_t patience; /* the first that waits fails when so much has turned; 0: not set */
  bool curious;      /* it is to look again after the next step */
  struct dmi_replace work;
  struct dmi_replace_map *map; /* mappings of a sweep, each with a reference */
  uint64_t maps, maps_room;
  enum dmi_room_kind kind; /* of a sweep: how urgent it is */
  bool spill;              /* of a sweep: owned pages go to the file */
  bool spill_full;         /* ... which took no more */
  bool spill_said;         /* that it did not was said */
  bool busy_seen;          /* ... a page that could not go only because something goes on */
  bool copy_seen;          /* ... a copy that could not go for that reason */
  uint64_t nowhere;        /* ... size of the smallest pages for which nobody has room; 0 */
};

/* ---- pager_sweep.c ---- */
/* Has pages leave, for `need` bytes that are freed now or soon.  `last` COPY: drops copies only.
 * Returns the bytes. */
uint64_t dmi_pager_sweep(struct dmi_pager *pager, uint64_t need, enum dmi_class last,
                         enum dmi_room_kind kind, bool spill);
/* Forgets offers that are no more: accepted, refused, or in vain. */
void dmi_pager_settle(struct dmi_pager *pager);
/* Offers a stalled page itself.  False: nobody is known to have room. */
bool dmi_pager_offer_stalled(struct dmi_pager *pager, struct dmi_page *page);

/* ---- pager_others.c ---- */
/* Answers who asks; tells who waits. */
void dmi_pager_answer(struct dmi_pager *pager);
/* May others have something now?  With the lock held. */
bool dmi_pager_can_give(const struct dmi_pager *pager);
/* A step of the rooms: begins with `out` empty and the lock held; what it has to say is put in line
 * with the lock held, so that the order is that of the steps, and goes out without. */
void dmi_pager_rooms_begin(struct dmi_pager *pager, struct dmi_room_out *out);
void dmi_pager_rooms_end(struct dmi_pager *pager, struct dmi_room_out *out);

/* ---- pager.c ---- */
void dmi_held_add(struct dmi_held_pages *list, struct dmi_page *page, uint32_t to);
/* The bytes of a spilled page come back into room that is reserved; takes both over.  False: it has
 * been overwritten meanwhile. */
bool dmi_pager_put_back(struct dmi_pager *pager, struct dmi_page *page, struct dmi_frame *frame);
/* Marks: docs/replacement.md. */
uint64_t dmi_pager_low(const struct dmi_pager *pager);
uint64_t dmi_pager_high(const struct dmi_pager *pager);

#endif
