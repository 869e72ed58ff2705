/*
 * recover_int.h - what the files of the recovery share; nobody else includes it.
 */
#ifndef DMI_CORE_RECOVER_INT_H
#define DMI_CORE_RECOVER_INT_H

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/recover.h"

/* Another process that is left. */
struct dmi_recover_peer {
  dmi_uid_t uid;
  /* it has ended these rounds for us: its CUT has come, all of its BACK, all of its REPORT; or it
   * has nothing to say in them */
  bool ended[DMI_ROUNDS_NUM];
  bool answered;              /* all of its REPORT has come that answers ASK */
  bool told;                  /* scratch: it is told the end of a round from here */
  bool tells[DMI_ROUNDS_NUM]; /* at the coordinator: its TELLS has come */
};

/* `from` tells `to` the end of a round itself. */
struct dmi_recover_teller {
  dmi_uid_t from, to;
};

/* A round, as the coordinator knows it. */
struct dmi_recover_tally {
  uint32_t heard; /* TELLS of so many have come */
  uint64_t num, capacity;
  struct dmi_recover_teller *at;
};

/* A page of a mapping. */
struct dmi_recover_at {
  uint64_t base; /* of the mapping */
  dmi_pageno_t page;
};

/* An operation of some process that was dropped, or is held, here. */
struct dmi_recover_note {
  dmi_uid_t origin;
  struct dmi_place place;
};

/* What somebody has said about a page whose home is here; uid 0: it was asked about. */
struct dmi_recover_said {
  struct dmi_recover_at at;
  dmi_uid_t uid;
  struct dmi_page_report report;
};

/* A decision about a page that concerns this process. */
struct dmi_recover_mark {
  struct dmi_recover_at at;
  struct dmi_page_mark mark;
};

/* A mapping whose home was lost since the last RESUME. */
struct dmi_recover_rebuilt {
  uint64_t base;
  dmi_uid_t lost; /* its home; 0: not known, as the mapping was not in use here */
};

/* A message with a list that is being filled. */
struct dmi_recover_list {
  struct dmi_msg msg;
  dmi_uid_t to;
  uint64_t bytes, capacity;
  unsigned char *entry;
};

struct dmi_recover_early {
  dmi_uid_t from;
  struct dmi_msg msg;
};

struct dmi_recover {
  struct dmi_core *core;
  const struct dmi_handover_env *env;
  const struct dmi_recover_env *ops;
  enum dmi_recover_state state;
  uint64_t number; /* of the newest crash view taken */
  bool doubt;      /* FROZEN, and was READY in `number`: whether all have resumed is not known */
  uint32_t peer_num;
  struct dmi_recover_peer *peer; /* all but this process */
  dmi_uid_t coordinator;
  bool tellers[DMI_ROUNDS_NUM];                   /* TELLERS of the round has come */
  struct dmi_recover_tally tally[DMI_ROUNDS_NUM]; /* at the coordinator */
  bool asked;                                     /* as a home, in this recovery */
  uint64_t marking;                               /* DECIDEs without MARKED */
  /* Arrays. */
  uint64_t note_num, note_capacity; /* dropped here since the last RESUME; in BACKS also held */
  struct dmi_recover_note *note;

  uint64_t place_num, place_capacity;
  struct dmi_place *place; /* of own operations; sorted once all have come */
  uint64_t said_num, said_capacity;
  struct dmi_recover_said *said;
  uint64_t mark_num, mark_capacity;
  struct dmi_recover_mark *mark;
  uint64_t rebuilt_num, rebuilt_capacity;
  struct dmi_recover_rebuilt *rebuilt;
  uint64_t early_num, early_capacity;
  struct dmi_recover_early *early; /* of a recovery whose view was not taken here so far */
};

#define ENV(r, what, ...) (r)->env->what((r)->env->arg, __VA_ARGS__)
#define EACH_MAP(r, map) DMI_EACH_MAP((r)->env, map)
#define EACH_RECORD(r, map, page) DMI_EACH_RECORD((r)->env, map, page)

/* For what dmi_core's functions use. */
static inline void dmi_recover_lock(const struct dmi_recover *r) {
  if (r->ops->lock) r->ops->lock(r->ops->arg);
}

static inline void dmi_recover_unlock(const struct dmi_recover *r) {
  if (r->ops->unlock) r->ops->unlock(r->ops->arg);
}

/* ---- recover.c ---- */
/* Where an own operation is, once all have told. */
enum dmi_op_place dmi_recover_place_of(const struct dmi_recover *r, dmi_op_t op);
bool dmi_recover_is_rebuilt(const struct dmi_recover *r, uint64_t base);
void dmi_recover_rebuild(struct dmi_recover *r, uint64_t base, dmi_uid_t lost);
void dmi_recover_ready(struct dmi_recover *r, struct dmi_out *out);

struct dmi_recover_peer *dmi_recover_peer(const struct dmi_recover *r, dmi_uid_t uid);
void dmi_recover_go_on(struct dmi_recover *r, struct dmi_out *out);

/* ---- recover_round.c ---- */
/* A recovery begins, or this one is given up. */
void dmi_recover_rounds_begin(struct dmi_recover *r);
void dmi_recover_rounds_free(struct dmi_recover *r);
/* Ends a round for those to whom this process has said something in it (actions of `out` from
 * `first` on), or with whom it speaks; `end` is the message. */
void dmi_recover_end_round(struct dmi_recover *r, enum dmi_recover_round round,
                           const struct dmi_msg *end, uint32_t first, struct dmi_out *out);
/* Have all ended it? */
bool dmi_recover_round_over(const struct dmi_recover *r, enum dmi_recover_round round);

/* ---- recover_list.c ---- */
/* A message of this recovery. */
struct dmi_msg dmi_recover_about(const struct dmi_recover *r, enum dmi_msg_type type,
                                 uint64_t base);
/* One more entry; what is too long is sent. */
void dmi_recover_add(struct dmi_recover_list *list, const void *entry, uint64_t size,
                     struct dmi_out *out);
/* Sends what there is, and an empty one if `end`; the list is empty then. */
void dmi_recover_send(struct dmi_recover_list *list, bool end, struct dmi_out *out);
void dmi_recover_list_free(struct dmi_recover_list *list);
/* Order of mappings and pages, for qsort. */
int dmi_recover_order(const struct dmi_recover_at *a, const struct dmi_recover_at *b);

/* ---- recover_home.c ---- */
/* BACK of all is here: REPORTs to the homes. */
void dmi_recover_report(struct dmi_recover *r, struct dmi_out *out);
/* REPORTs are here, perhaps of all. */
void dmi_recover_reported(struct dmi_recover *r, struct dmi_out *out);
void dmi_recover_sort_marks(struct dmi_recover *r);
/* The mark of a page, all zero: none.  They are sorted. */
struct dmi_page_mark dmi_recover_mark_of(const struct dmi_recover *r, const struct dmi_page *page);
/* The same for the pages of a mapping in their order: *at is the place where the search goes on, at
 * first that of the mapping's first mark. */
struct dmi_page_mark dmi_recover_next_mark(const struct dmi_recover *r, const struct dmi_page *page,
                                           uint64_t *at);
uint64_t dmi_recover_first_mark(const struct dmi_recover *r, uint64_t base);

/* Handlers, by the table. */
#define DMI_RECOVER_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg, struct dmi_out *out);
DMI_MSGS_RECOVER(DMI_RECOVER_HANDLER)
#undef DMI_RECOVER_HANDLER

#endif
