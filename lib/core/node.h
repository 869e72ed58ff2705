/*
 * node.h - one process's side of the whole protocol behind one entry: pages, handover, capacity and
 * membership.
 *
 * Pure: no sockets, threads, clocks or locks. Actions of one part for another (START_DRAIN of
 * membership for the handover, "drained" back to membership, a view for all) are carried out in
 * here; the caller sees only inputs and actions:
 *
 *   dmi_node_step(node, &input, &out);            may be called while actions are being carried out
 *   while (dmi_node_next(node, &out, &act)) {     ... but this loop runs once at a time
 *     carry out act;  dmi_act_end(&act);
 *   }
 *
 * Actions are taken one at a time, because an action may be an input to another part, whose own
 * actions follow in the same list.
 *
 * Who may call, with which lock:
 *   - page: DMI_IN_PAGE, DMI_IN_BEGIN. Any thread, with the page locked. `out` is of this step
 *     only, on the stack, and its messages are queued before the page is unlocked. These are
 *     dmi_page_message and dmi_page_begin, which lib/access calls directly.
 *   - pager: the functions that core/pressure.h marks "Pager". The pager's thread, no lock.
 *   - daemon: all other inputs, and dmi_node_next. The daemon's thread, no lock; always the same
 *     list. Pages are locked by functions of dmi_handover_env.
 *
 * The actions that the caller sees: SEND (not to itself), REPLAY, FREED, TAKEN, DRAINED, LOOK,
 * LEAVES, STAYS, HOLD, RESUMED, and MEMBER with any of enum dmi_mact_type but SEND and ADOPT. SELF,
 * START_DRAIN, FORGET, RECOVER and RESUME are already carried out then, except for what the network
 * or a log must know. After VIEW the homes are changed, and no answer is needed.
 *
 * A crash view (VIEW with `flag`) finds all pages frozen; when it is carried out nothing is handled
 * any more that a removed process has sent. From then until RESUMED steps of pages and the node say
 * HOLD: that message of `to` is kept, in the order of all that are held, and at RESUMED given again
 * (DMI_IN_PAGE or DMI_IN_MESSAGE) before anything else of its sender. A page message about a
 * mapping that is not known here, while dmi_core.frozen: dmi_recover_unknown of dmi_node_recover.
 */
#ifndef DMI_CORE_NODE_H
#define DMI_CORE_NODE_H

#include "core/handover.h"
#include "core/member.h"
#include "core/out.h"
#include "core/page.h"
#include "core/pressure.h"
#include "core/recover.h"

/* ---- Surroundings --------------------------------------------------------------------------- */

struct dmi_node_env {
  void *arg;
  struct dmi_member_env net;       /* functions of the network for membership */
  struct dmi_handover_env records; /* mappings and page records */
  struct dmi_recover_env ops;      /* own operations; only with `net.survive` */
};

/* ---- Inputs --------------------------------------------------------------------------------- */

enum dmi_input_type {
  /* ---- a page's ---- */
  /* `msg` from `id` for `page`; `req`: the operation that it answers (dmi_page_message) */
  DMI_IN_PAGE,
  DMI_IN_BEGIN, /* the operation `req` on `page` begins (dmi_page_begin) */
  /* ---- the network's ---- */
  DMI_IN_CONNECTED,     /* answer to CONNECT: it has the temporary `id` */
  DMI_IN_NOT_CONNECTED, /* answer to CONNECT: `text` says why not */
  DMI_IN_MESSAGE, /* `msg` of `class` MEMBER, HANDOVER, RECOVER or CAPACITY, from `id`, a uid or
                     (MEMBER only) a temporary one; its slices pass */
  DMI_IN_LOST,    /* the connection with `id` broke; `text`: why */
  DMI_IN_CUT_OFF, /* it cannot go on, as the agreement says; `text`: why */
  /* ---- the life of this process ---------------------------------------------------------------
   */
  DMI_IN_FIRST, /* this process starts the program; `program_id` */
  DMI_IN_JOIN,  /* this process joins a program */
  /* ---- the agreement's (core/pulse.h), with `survive` ---- */
  DMI_IN_AGREED,     /* DMI_PULSE_VIEW: `msg`->body, `yes`: a crash view */
  DMI_IN_MAY_CHANGE, /* dmi_member_may_change */
  /* ---- */
  DMI_IN_LEAVE_ASKED, /* a signal asks to leave */
  DMI_IN_STOPPED,     /* answer to STOP_THREADS: `yes` */
  DMI_IN_DRAINED,     /* answer to DMI_ACT_DRAINED: `ended` */
  DMI_IN_STEPPED,     /* a step of some page has ended, while this process leaves */
  DMI_IN_BUSY,        /* one more reason to be busy; `op` */
  DMI_IN_IDLE,        /* one reason to be busy less */
  DMI_IN_MAIN_ENDED,  /* dmi_member_main_ended: `yes` */
  /* A call of this process: `call` is its message of class MEMBER, answered by RESULT(op).  POLL,
   * PEEK, NODES; WELCOME, GOODBYE: `dmi_id`; MMAP: page size `a`, number `b`, `word`; LOOKUP:
   * address `a`; MUNMAP: `a`, `word`; THREAD: uid `a`, seq `b`; ROOT_SET, ROOT_GET: `b` bytes of
   * `text`, and address `a`; STOP: status `a`; NOTIFY:
   * value `a`. */
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
  DMI_NODE_BREAK_OPEN,     /* pressure: this process may own pages */
  DMI_NODE_BREAK_VIEW,     /* pressure: who the members are */
  DMI_NODE_BREAK_TAKEN,    /* pressure: a page with promised memory has arrived */
  DMI_NODE_BREAK_MEMBERS,  /* handover: who the members are */
  DMI_NODE_BREAK_REPORT,   /* handover: a promise */
  DMI_NODE_BREAK_REFUSED,  /* membership: there is no memory for the leave */
  DMI_NODE_BREAK_STAYS,    /* the caller: there is no memory for the leave */
  DMI_NODE_BREAK_TOLD,     /* membership: some member has memory now */
  DMI_NODE_BREAK_FORGOT,   /* membership: a mapping is forgotten */
  DMI_NODE_BREAK_ADOPT,    /* handover: this process is the home of a mapping */
  DMI_NODE_BREAK_FOUND,    /* handover: the directory's answer */
  DMI_NODE_BREAK_GO_ON,    /* handover: a step of some page has ended */
  DMI_NODE_BREAK_PROMISED, /* handover: memory here is promised to others that leave */
  DMI_NODE_BREAK_FREEZE,   /* recovery: a crash view was taken */
  DMI_NODE_BREAK_RECOVER,  /* recovery: all have taken it */
  DMI_NODE_BREAK_READY,    /* membership: the pages here are recovered */
  DMI_NODE_BREAK_RESUME,   /* recovery: those of all are */
  DMI_NODE_BREAK_HOLD,     /* the caller: a message of the handover came behind CUT */
  DMI_NODE_BREAK_LAST
};

/* ---- The node ------------------------------------------------------------------------------- */

struct dmi_node;

/* `core`, `pressure` and `env` must live as long as the node; `info` and `own` as for
 * dmi_member_new. */
struct dmi_node *dmi_node_new(struct dmi_core *core, struct dmi_pressure *pressure,
                              const struct dmi_node_env *env, const struct dmi_node_info *info,
                              const struct dmi_addr *own);
void dmi_node_free(struct dmi_node *node);
#ifdef DMI_MUTATIONS
void dmi_node_set_break(struct dmi_node *node, enum dmi_node_break broken);
#endif

/* Its parts, only for reading (and for tests that break a rule). */
struct dmi_member *dmi_node_member(const struct dmi_node *node);
struct dmi_handover *dmi_node_handover(const struct dmi_node *node);
struct dmi_core *dmi_node_core(const struct dmi_node *node);
struct dmi_recover *dmi_node_recover(const struct dmi_node *node);

/* Handles all inputs except a page's. */
bool dmi_node_input(struct dmi_node *node, const struct dmi_input *in, struct dmi_out *out);

/* Handles any input. False: the message is not from a correct peer. */
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

/* Called by the daemon: the next action for the caller. False: there is none. */
bool dmi_node_next(struct dmi_node *node, struct dmi_out *out, struct dmi_act *act);
/* Frees what the action still holds: of a SEND the slices, unless they are zero. */
void dmi_act_end(struct dmi_act *act);

#endif
