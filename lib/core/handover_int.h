/*
 * handover_int.h - what the files of the handover share; no other file includes it.
 */
#ifndef DMI_CORE_HANDOVER_INT_H
#define DMI_CORE_HANDOVER_INT_H

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/handover.h"

/* A TAKE of a mapping that is not known here; the directory was asked. */
struct dmi_handover_take {
  struct dmi_handover_take *next;
  uint64_t number; /* number of the question */
  dmi_uid_t from;
  bool must;
  uint64_t base;
  struct dmi_slice list;
};

struct dmi_handover {
  struct dmi_core *core;
  const struct dmi_handover_env *env;
#ifdef DMI_MUTATIONS
  enum dmi_handover_break broken;
#endif
  /* ---- the leaver ---- */
  enum dmi_handover_state state;
  dmi_uid_t heir;
  bool keeps; /* it was in state NO_HEIR */
  struct dmi_promises *promises;
  uint64_t tails_at_once, bytes_at_once;
  uint64_t homes_in_flight; /* homes with HOME_END sent and HOME_DONE not arrived */
  struct dmi_map *home;     /* the home being handed over, with a reference; NULL: none */
  uint64_t home_from;       /* the search for the next home begins above this address */
  uint64_t tail_num, tail_capacity, tail_next;
  struct dmi_tail *tail; /* tails of that home; those before tail_next were sent */
  uint64_t page_num, page_capacity, page_next;
  /* PAGES: pages to offer, from page_next on; COPIES: pages that may have a copy; each with a
   * reference to the mapping */
  struct dmi_page **page;
  /* ---- the receiver ---- */
  struct dmi_handover_take *takes;
  uint64_t numbers; /* the last number of a question */
};

#define ENV(h, what, ...) (h)->env->what((h)->env->arg, __VA_ARGS__)

#define EACH_MAP(h, map) DMI_EACH_MAP((h)->env, map)
#define EACH_RECORD(h, map, page) DMI_EACH_RECORD((h)->env, map, page)

/* A message about this mapping; its other fields are zero. */
struct dmi_msg dmi_handover_about(const struct dmi_handover *h, uint64_t base,
                                  enum dmi_msg_type type);

/* The handlers of class HANDOVER. False: a correct peer does not send it. */
#define DMI_HANDOVER_HANDLER(symbol, number, name, handler, ...)                  \
  bool handler(struct dmi_handover *h, dmi_uid_t from, const struct dmi_msg *msg, \
               struct dmi_out *out);
DMI_MSGS_HANDOVER(DMI_HANDOVER_HANDLER)

/* ---- handover_heir.c ---- */
void dmi_handover_takes_free(struct dmi_handover *h);

#endif
