/*
 * out.h - actions: what a step of the protocol asks its caller to do.  One kind of list for pages,
 * the handover and the node as a whole.
 *
 * A step fills a list; the caller carries it out in order.
 */
#ifndef DMI_CORE_OUT_H
#define DMI_CORE_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"

struct dmi_mact;
struct dmi_map;
struct dmi_req;

enum dmi_act_type {
  /* ---- of a page (core/page.h) ---- */
  DMI_ACT_SEND, /* msg to `to`; `to` may be this process itself: deliver it to dmi_page_message */
  DMI_ACT_COMPLETE, /* the caller's req is done, req->error tells */
  DMI_ACT_DEFER, /* msg of `to` (its sender) needs the home, which is arriving: keep it, and give it
                   to dmi_page_message again after HOME_END */
  DMI_ACT_HOLD,  /* msg of `to` (its sender) came behind its CUT: give it to dmi_page_message again
                    after RESUME (docs/crashes-pages.md) */
  DMI_ACT_STALLED, /* this page stalls (R12): call dmi_page_unstall, or dmi_page_unspill, later */
  /* ---- of the handover (core/handover.h), which sends to others only ---- */
  DMI_ACT_REPLAY,  /* what was kept for `map` by PARK, and given back by dmi_handover_env.arrived,
                      goes to dmi_page_message again, in order */
  DMI_ACT_FREED,   /* `map` is forgotten: give the reference of dmi_handover_env.forget back */
  DMI_ACT_TAKEN,   /* the ownership of a page that was offered will come here */
  DMI_ACT_LEAVES,  /* from now on until DRAINED, DMI_IN_STEPPED when a step of some page is over */
  DMI_ACT_STAYS,   /* there is no memory for the leave: threads may be created here again */
  DMI_ACT_DRAINED, /* the leave is over here: nothing is owned, no home, no copy (R8.4); or there
                      is no heir, and the pages stay.  Answer: DMI_IN_DRAINED */
  /* ---- of the handover, carried out by the node (core/node.h) ---- */
  DMI_ACT_LOOKUP,   /* ask the directory for the mapping that begins at `value`; answer:
                       dmi_handover_found, with `number` */
  DMI_ACT_PROMISED, /* a page of `value` bytes of the leaver `to` has been here, taken or not: so
                       much less of what was promised to `to` has to be set aside */
  DMI_ACT_KEPT,     /* `to` has refused pages that were offered to it */
  /* ---- of the recovery from a loss (core/recover.h) ---- */
  DMI_ACT_READY,   /* all that this process decides as a home is decided and known: tell the
                      coordinator.  Answer: dmi_recover_resume, or another dmi_recover_begin */
  DMI_ACT_RESUMED, /* give what was held (HOLD) to the pages, in order */
  /* ---- of the node ---- */
  DMI_ACT_MEMBER, /* what membership asks for: `member` (core/member.h) */
  DMI_ACT_LOOK    /* the pager is to look: as any event for which it sleeps (core/pressure.h) */
};

struct dmi_act {
  uint8_t type;
  uint32_t to;
  union {
    struct dmi_req *req;     /* COMPLETE */
    struct dmi_map *map;     /* REPLAY, FREED */
    struct dmi_mact *member; /* MEMBER; dmi_act_end frees it */
    uint64_t number;         /* LOOKUP */
  };
  uint64_t value;
  struct dmi_msg msg; /* its slices belong to whoever carries out the action */
};

/* Actions in order. The first few are inside, so that common steps allocate nothing. */
struct dmi_out {
  uint32_t num, capacity;
  uint32_t first; /* those before it have been taken out; 0 in the list of a page's step */
  struct dmi_act *act;
  struct dmi_act inside[4];
};

void dmi_out_init(struct dmi_out *out);
/* Frees the list, not what the actions hold. */
void dmi_out_free(struct dmi_out *out);

/* Takes the first one out.  False: there is none. */
bool dmi_out_take(struct dmi_out *out, struct dmi_act *act);

/* ---- For the steps ---- */

void dmi_out_send(struct dmi_out *out, uint32_t to, const struct dmi_msg *msg);
/* One without a message, all else zero. */
struct dmi_act *dmi_out_add(struct dmi_out *out, enum dmi_act_type type);

#endif
