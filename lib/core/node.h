/*
 * node.h - one process's side of the whole protocol behind one entry: pages, the handover, room and
 * membership.
 *
 * Pure: no sockets, threads, clocks or locks.  What one part asks of another (membership's
 * START_DRAIN of room, its promise of the handover, "drained" of membership, a view of all) happens
 * in here; the caller sees inputs and actions only:
 *
 *   dmi_node_step(node, &input, &out);            may be called while actions are being carried out
 *   while (dmi_node_next(node, &out, &act)) {     ... but this loop runs once at a time
 *     carry out act;  dmi_act_end(&act);
 *   }
 *
 * Actions come one at a time, as an action may be an input to another part, whose own actions
 * follow in the same list.
 *
 * Who may call, with which lock:
 * - page: DMI_IN_PAGE, DMI_IN_BEGIN.  Any thread, with the page locked.  `out` is of this step, on
 *   the stack, and what it sends is queued before the page is unlocked.  These are
 *   dmi_page_message and dmi_page_begin, which lib/access calls directly.
 * - pager: what core/pressure.h marks so.  The pager's thread, no lock.
 * - daemon: all other inputs, and dmi_node_next.  The daemon's thread, no lock; one list, for ever.
 *   Pages are locked by way of dmi_handover_env.
 *
 * The actions that the caller sees: SEND (not to itself), REPLAY, FREED, TAKEN, DRAINED, LOOK,
 * LEAVES, STAYS, and MEMBER with any of enum dmi_mact_type but SEND and ADOPT.  Of these SELF,
 * START_DRAIN and FORGET are done but for what the network, or a log, has to know; VIEW: the homes
 * are, and there is no answer to give.
 */
#ifndef DMI_CORE_NODE_H
#define DMI_CORE_NODE_H

#include "core/handover.h"
#include "core/member.h"
#include "core/out.h"
#include "core/page.h"
#include "core/pressure.h"

/* ---- Surroundings --------------------------------------------------------------------------- */

struct dmi_node_env {
  void *arg;
  struct dmi_member_env net;       /* what membership asks of the network */
  struct dmi_handover_env records; /* mappings and page records */
};

/* ---- Inputs --------------------------------------------------------------------------------- */

enum dmi_input_type {
  /* ---- a page's ---- */
  DMI_IN_PAGE,  /* `msg` of `id` for `page`; `req`: the operation it answers (dmi_page_message) */
  DMI_IN_BEGIN, /* the operation `req` on `page` begins (dmi_page_begin) */
  /* ---- the network's ---- */
  DMI_IN_CONNECTED,     /* answer to CONNECT: temporary `id` */
  DMI_IN_NOT_CONNECTED, /* ... `text`: why */
  DMI_IN_MESSAGE, /* `msg` of `class` MEMBER, HANDOVER or CAPACITY, from `id`, a uid or (MEMBER
                     only) a temporary one; its slices pass */
  DMI_IN_LOST,    /* the connection with `id` broke; `text`: why */
  /* ---- the life of this process ---------------------------------------------------------------
   */
  DMI_IN_FIRST, /* it starts the program; `program_id` */
  DMI_IN_JOIN,  /* it joins */
  /* ---- the agreement's (core/pulse.h), with `survive` ---- */
  DMI_IN_AGREED,     /* DMI_PULSE_VIEW: `msg`->body, `yes`: a crash view */
  DMI_IN_MAY_CHANGE, /* dmi_member_may_change */
  DMI_IN_RECOVERED,  /* answer to DMI_MACT_RECOVER: `op` */
  /* ---- */
  DMI_IN_LEAVE_ASKED, /* a signal */
  DMI_IN_STOPPED,     /* answer to STOP_THREADS: `yes` */
  DMI_IN_DRAINED,     /* answer to DMI_ACT_DRAINED: `ended` */
  DMI_IN_STEPPED,     /* a step of some page is over, and this process leaves */
  DMI_IN_BUSY,        /* one more reason to be; `op` */
  DMI_IN_IDLE,        /* one less */
  /* A call of this process: `call` is its message of class MEMBER, answered by RESULT(op).  POLL,
   * PEEK, NODES; WELCOME, GOODBYE: `dmi_id`; MMAP: page size `a`, number `b`, `word`; LOOKUP:
   * address `a`; MUNMAP: `a`, `word`; THREAD: uid `a`, seq `b`. */
  DMI_IN_CALL
};

/* Fields that an input does not use are zero. */
struct dmi_input {
  enum dmi_input_type type;
  uint32_t id; /* uid or temporary id */
  struct dmi_msg *msg;
  enum dmi_msg_class class; /* MESSAGE: of msg */
  const char *text;
  struct dmi_page *page;
  struct dmi_req *req;
  const uint8_t *program_id; /* 16 bytes */
  bool yes;
  uint32_t ended_num;
  const struct dmi_ended *ended;
  enum dmi_msg_type call;
  dmi_id_t dmi_id;
  uint64_t op, a, b, tag; /* `op` below DMI_NODE_OP */
};

/* Numbers of calls that the node makes itself begin here. */
#define DMI_NODE_OP (UINT64_C(1) << 63)

/* Deliberate faults in what one part hears of another, one each: base/mutation.h. */
enum dmi_node_break {
  DMI_NODE_BREAK_NOTHING,
  DMI_NODE_BREAK_OPEN,    /* room: this process may own pages */
  DMI_NODE_BREAK_VIEW,    /* room: who the members are */
  DMI_NODE_BREAK_TAKEN,   /* room: a page that was promised a place has come */
  DMI_NODE_BREAK_MEMBERS, /* handover: who the members are */
  DMI_NODE_BREAK_REPORT,  /* handover: a promise */
  DMI_NODE_BREAK_REFUSED, /* membership: there is no room for the leave */
  DMI_NODE_BREAK_STAYS,   /* the caller: the same */
  DMI_NODE_BREAK_TOLD,    /* membership: somebody has room now */
  DMI_NODE_BREAK_FORGOT,  /* membership: a mapping is forgotten */
  DMI_NODE_BREAK_ADOPT,   /* handover: this process is the home of a mapping */
  DMI_NODE_BREAK_FOUND,   /* handover: the directory's answer */
  DMI_NODE_BREAK_GO_ON,   /* handover: a step of some page is over */
  DMI_NODE_BREAK_LAST
};

/* ---- The node ------------------------------------------------------------------------------- */

struct dmi_node;

/* `core`, `pressure` and `env` must live as long; `info` and `own` as for dmi_member_new. */
struct dmi_node *dmi_node_new(struct dmi_core *core, struct dmi_pressure *pressure,
                              const struct dmi_node_env *env, const struct dmi_node_info *info,
                              const struct dmi_addr *own);
void dmi_node_free(struct dmi_node *node);
#ifdef DMI_MUTATIONS
void dmi_node_set_break(struct dmi_node *node, enum dmi_node_break broken);
#endif

/* Its parts, for who looks at them only (and tests that break a rule). */
struct dmi_member *dmi_node_member(const struct dmi_node *node);
struct dmi_handover *dmi_node_handover(const struct dmi_node *node);
struct dmi_core *dmi_node_core(const struct dmi_node *node);

/* All inputs but a page's. */
bool dmi_node_input(struct dmi_node *node, const struct dmi_input *in, struct dmi_out *out);

/* A step.  False: the message is not from a correct peer. */
static inline bool dmi_node_step(struct dmi_node *node, const struct dmi_input *in,
                                 struct dmi_out *out) {
  switch (in->type) {
    case DMI_IN_PAGE:
      return dmi_page_message(dmi_node_core(node), in->page, in->id, in->msg, in->req, out);
    case DMI_IN_BEGIN:
      dmi_page_begin(dmi_node_core(node), in->page, in->req, out);
      return true;
    default:
      return dmi_node_input(node, in, out);
  }
}

/* The daemon's: the next action for the caller.  False: there is none. */
bool dmi_node_next(struct dmi_node *node, struct dmi_out *out, struct dmi_act *act);
/* Frees what the action still has: of a SEND the slices, unless they are zero. */
void dmi_act_end(struct dmi_act *act);

#endif
