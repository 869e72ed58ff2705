/*
 * out.h - actions: what a step of the protocol asks its caller to do. Pages, the handover and the
 * whole node use the same kind of list.
 *
 * A step appends to a list; the caller carries the actions out in order.
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
  /* send msg to `to`, which may be this process itself: then give it to dmi_page_message */
  DMI_ACT_SEND,
  DMI_ACT_COMPLETE, /* the caller's req is complete; req->error is its result */
  /* msg from `to` needs the home, which is arriving: keep it, and give it to dmi_page_message again
     after HOME_END */
  DMI_ACT_DEFER,
  /* msg from `to` arrived after its CUT: give it to dmi_page_message, or (one of the handover) to
     the node again after RESUMED (docs/crashes-pages.md) */
  DMI_ACT_HOLD,
  /* this page is stalled (R12): call dmi_page_unstall, or dmi_page_unspill, later */
  DMI_ACT_STALLED,
  /* ---- of the handover (core/handover.h), which sends to others only ---- */
  /* give the messages of `map` that DEFER kept, and dmi_handover_env.arrived returned, to
     dmi_page_message again, in order */
  DMI_ACT_REPLAY,
  DMI_ACT_FREED, /* `map` is forgotten: drop the reference that dmi_handover_env.forget returned */
  /* the ownership of a page that was offered will come here; `value`: its size, if that was
     promised to a leaver, or 0 */
  DMI_ACT_TAKEN,
  /* from now on until DRAINED: give DMI_IN_STEPPED when a step of any page has ended */
  DMI_ACT_LEAVES,
  /* the other members have no memory for the leave: threads may be created here again */
  DMI_ACT_STAYS,
  /* the leave is complete here: nothing is owned, no home, no copy (R8.4); or there is no heir, and
     the pages stay. Answer: DMI_IN_DRAINED */
  DMI_ACT_DRAINED,
  /* ---- of the handover, carried out by the node (core/node.h) ---- */
  /* ask the directory for the mapping that begins at `value`; answer with dmi_handover_found and
     `number` */
  DMI_ACT_LOOKUP,
  /* a page of `value` bytes from the leaver `to` was taken or refused: reduce what is reserved for
     `to` by it */
  DMI_ACT_PROMISED,
  DMI_ACT_KEPT, /* `to` has refused pages that were offered to it */
  /* ---- of the recovery from a loss (core/recover.h) ---- */
  DMI_ACT_READY,   /* all that this process decides as a home is decided and known: tell the
                      coordinator.  Answer: dmi_recover_resume, or another dmi_recover_begin */
  DMI_ACT_BEGUN,   /* behind REPLAY and RESUMED.  Answer: dmi_recover_begun */
  DMI_ACT_RESUMED, /* give what was held (HOLD) to the pages, in order */
  /* ---- of the node ---- */
  DMI_ACT_MEMBER, /* an action of membership: `member` (core/member.h) */
  DMI_ACT_LOOK    /* wake the pager, as any event for which it sleeps (core/pressure.h) */
};

struct dmi_act {
  uint8_t type;
  uint32_t to;
  union {
    struct dmi_req *req;     /* COMPLETE */
    struct dmi_map *map;     /* REPLAY, FREED */
    struct dmi_mact *member; /* MEMBER; dmi_act_end frees it */
    uint64_t number;         /* LOOKUP; READY: of the view */
  };
  uint64_t value;
  struct dmi_msg msg; /* whoever carries out the action frees its slices */
};

/* A list of actions, in order. The first few are stored inside, so that common steps allocate
 * nothing. */
#define DMI_OUT_SPACE 512
struct dmi_out {
  /* NULL, or DMI_OUT_SPACE bytes for the body of one GOT or DONE, which then has no frame: for a
   * caller that sends by copying before they are gone.  Aligned as what malloc returns. */
  unsigned char *space;
  uint32_t num, capacity;
  uint32_t first; /* actions before it are taken out; 0 in the list of a page's step */
  struct dmi_act *act;
  struct dmi_act inside[4];
};

void dmi_out_init(struct dmi_out *out);
/* Frees the list, not what the actions hold. */
void dmi_out_free(struct dmi_out *out);

/* Takes the first action out. False: there is none. */
bool dmi_out_take(struct dmi_out *out, struct dmi_act *act);

/* ---- For the steps ---- */

void dmi_out_send(struct dmi_out *out, uint32_t to, const struct dmi_msg *msg);
/* Takes the message over. Its list may be borrowed from the connection that received it. */
void dmi_out_hold(struct dmi_out *out, uint32_t from, struct dmi_msg *msg);
/* Appends an action without a message; its fields are zero. */
struct dmi_act *dmi_out_add(struct dmi_out *out, enum dmi_act_type type);

#endif
