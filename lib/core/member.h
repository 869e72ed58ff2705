/*
 * member.h - membership: joining, leaving, and what the coordinator keeps (docs/membership.md).
 *
 * Pure: no sockets, threads, clocks, locks or printing.  Only the daemon thread calls it.  Every
 * process runs one struct dmi_member; the one that is the coordinator has the coordinator's state
 * inside, and messages between the two roles of one process never leave this layer.
 *
 * Use: call an event function, carry out the actions in `out` IN ORDER, call dmi_mout_clear, then
 * the next event. Some actions need an answer (CONNECT, VIEW, STOP_THREADS, START_DRAIN, FORGET):
 * call the event function named beside them, at once or later, but never from inside another event
 * function.
 */
#ifndef DMI_CORE_MEMBER_H
#define DMI_CORE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/birth.h"
#include "core/pulse.h"
#include "msg/addr.h"
#include "msg/msg.h"

/* ---- Values -------------------------------------------------------------------------------- */

#define DMI_HOST_MAX 255 /* most bytes of a host name, without the final zero */

/* What a process tells about itself. */
struct dmi_node_info {
  uint32_t cores;              /* processor cores it may use */
  uint64_t memory;             /* bytes of its pool */
  char host[DMI_HOST_MAX + 1]; /* zero-terminated */
  char tag[DMI_HOST_MAX + 1];  /* likewise: what its launcher calls it; "": it has none */
  struct dmi_birth birth;      /* in JOIN and views; zero in notices */
};

/* A notice, or an element of DMI_nodes. */
struct dmi_notice {
  uint32_t state;  /* DMI_OPEN, DMI_CLOSE, DMI_OPENED, DMI_LOST, DMI_NOTE of dmi_api.h */
  dmi_id_t dmi_id; /* the process it is about */
  dmi_uid_t uid;   /* likewise */
  struct dmi_node_info info;
  /* DMI_NOTE: what DMI_notify was given; which one it is of those of that process, from 1; all of
   * them below `floor` have been given */
  uint64_t value, number, floor;
};

/* A member, as every member knows it. */
struct dmi_peer {
  dmi_uid_t uid;
  dmi_id_t dmi_id;
  bool left;    /* it has nothing of the program any more; its DMI_main may still run */
  bool voter;   /* its vote counts after a loss (only with `survive`) */
  bool tie;     /* ... and is the heavier one; only in ACCEPT */
  bool witness; /* it only votes: it is never an heir, a home or the coordinator, lends no memory,
                   and the program does not see it (docs/crashes.md, "Witnesses") */
  /* address as reached from here; of this process: as given to dmi_member_new */
  struct dmi_addr addr;
  struct dmi_node_info info;
};

/* A process that has left or was lost. */
struct dmi_removed {
  dmi_uid_t uid;
  dmi_uid_t heir; /* new home of the mappings of uid, which has left; 0: it had none, or is lost */
  bool main;      /* it was lost, and DMI_main with it */
  bool lost;      /* by a crash view: its heir is named by RECOVER */
};

/* An entry of the directory of mappings. */
struct dmi_entry {
  uint64_t base;      /* global address */
  uint64_t page_size; /* bytes */
  uint64_t page_num;
  dmi_uid_t home;
  uint64_t tag; /* DMI_WORD_* of core/heap.h, or an arena's number */
};

/* The result of a DMI thread that ended and was not joined when its process left. */
struct dmi_ended {
  uint64_t seq;   /* the thread's number in its process */
  uint64_t value; /* opaque: what DMI_thread returned */
};

/* ---- Actions ------------------------------------------------------------------------------- */

enum dmi_mact_type {
  DMI_MACT_SEND,    /* dmi_net_send(id, &msg).  id: uid or temporary id, never this process */
  DMI_MACT_CONNECT, /* dmi_net_join_addr(&addr); addr all zero: dmi_net_join(seed host, port).
                       Answer: dmi_member_connected or dmi_member_not_connected */
  /* dmi_net_set_self(id, program_id); `op`: number of the last crash view so far, 0: none */
  DMI_MACT_SELF,
  DMI_MACT_SETTINGS,   /* the program that accepts this process has dmi_member_settings */
  DMI_MACT_RENAME,     /* dmi_net_rename(id, uid) */
  DMI_MACT_ADD_PEER,   /* dmi_net_add_peer(uid, &addr) */
  DMI_MACT_CLOSE_PEER, /* dmi_net_close(id): uid or temporary id */
  /* The view changed: peers[peer_num] were added, removed[removed_num] have left or are lost.
   * For those that left: change the homes of known mappings to the heirs, and core->heir too if
   * it left; make is_member false; and stop all threads of this process from sending them
   * anything except answers. This process itself may be one of them. Answer: dmi_member_viewed */
  DMI_MACT_VIEW,
  DMI_MACT_JOINED, /* this process is member `uid` with id `dmi_id`: === joined === */
  DMI_MACT_OPENED, /* === opened ===; from now on creates are accepted here */
  DMI_MACT_CLOSED, /* === closed === (the request to leave was sent) */
  /* if no DMI thread runs here and no create is in progress here, refuse creates from now on
     (DMI_ELEAVING). Answer: dmi_member_stopped(true if no thread ran) */
  DMI_MACT_STOP_THREADS,
  DMI_MACT_START_DRAIN, /* leave with heir `uid` (protocol.md R8); uid 0: keep the pages.
                           Answer: dmi_member_drained or dmi_member_no_capacity, once */
  /* === left ===. From dmi_member_drained on, calls about threads that ended here get the answer
   * "moved": the caller then asks dmi_member_thread. */
  DMI_MACT_LEFT,
  /* removed[removed_num] were lost in the crash view `op`, or before it (VIEW has come before);
   * `heir` is now home of what each was home of.  mappings[mapping_num] have other homes, perhaps
   * lost ones, than this process has told; or it inherits them, and does not know them.  Recover
   * the pages (docs/crashes-pages.md).  Marks of recoveries up to `value` count, if they are in
   * doubt here; else what was being recovered for an older view is void. Answer:
   * dmi_member_recovered */
  DMI_MACT_RECOVER,
  /* RESUME follows: the process of notices[0] was lost, and `value` pages with all that were lost
   * together, of which it is the last (else 0).  peer_num processes go on.  `text`: why it has
   * ended, as it has told one of them; NULL: it has not. */
  DMI_MACT_LOST,
  DMI_MACT_RESUME, /* all are ready: go on. Answer: dmi_member_resumed */
  /* DMI_main was lost with process `dmi_id`: run DMI_recover, one more reason to be busy.  Answer:
   * dmi_member_main_ended */
  DMI_MACT_MAIN_LOST,
  /* member `uid` has called DMI_exit(`value`): calls that wait fail from now on (DMI_EEND), no
   * thread is created, and this process is to end with that status at FINISH */
  DMI_MACT_STOPPING,
  DMI_MACT_ADOPT, /* this process is now the home of `mapping`, as if it had mapped it */
  /* forget all pages of mapping.base (protocol.md R10), if it is known here. Answer:
     dmi_member_forgot(base) */
  DMI_MACT_FORGET,
  /* the call `op` is complete: error (DMI_OK or DMI_E*) and the results listed at the calls below
   */
  DMI_MACT_RESULT,
  DMI_MACT_TELL,         /* print `text`, a sentence for the user */
  DMI_MACT_EXPECT_CLOSE, /* dmi_net_expect_close(): FINISH follows */
  /* this process ends: dmi_net_stop (which sends what is queued), === finalized === */
  DMI_MACT_FINISH,
  DMI_MACT_FATAL /* print `text`, end with status 1 */
};

/* Unused fields of an action are zero. */
struct dmi_mact {
  uint8_t type;    /* enum dmi_mact_type */
  bool flag;       /* RESULT of peek: a notice was there; VIEW: it is a crash view; LOST: a witness;
                      FATAL: of all processes, which all say it */
  int error;       /* RESULT */
  uint32_t id;     /* SEND, RENAME, CLOSE_PEER: uid or temporary id; SELF: uid */
  dmi_uid_t uid;   /* RENAME, ADD_PEER, JOINED, START_DRAIN, STOPPING */
  dmi_id_t dmi_id; /* JOINED */
  uint32_t peer_num;        /* VIEW; LOST */
  uint32_t removed_num;     /* VIEW */
  uint32_t notice_num;      /* RESULT of poll, peek: 1 or 0; of nodes.  LOST: 1 */
  uint32_t mapping_num;     /* RECOVER */
  uint64_t op;              /* RESULT; RECOVER: number of the view */
  uint64_t value;           /* RESULT of thread, root_get; RECOVER; LOST; STOPPING */
  struct dmi_entry mapping; /* ADOPT, FORGET (base only); RESULT of mmap, lookup */
  struct dmi_addr addr;     /* CONNECT, ADD_PEER */
  /* SEND: take its slices and set them to zero (dmi_net_send takes them over), or leave them to
   * dmi_mout_clear */
  struct dmi_msg msg;
  uint8_t program_id[16];      /* SELF */
  struct dmi_peer *peers;      /* VIEW; freed by dmi_mout_clear */
  struct dmi_removed *removed; /* VIEW, RECOVER; likewise */
  struct dmi_notice *notices;  /* RESULT, LOST; likewise */
  struct dmi_entry *mappings;  /* RECOVER; likewise */
  char *text;                  /* FATAL, TELL, LOST; likewise */
};

/* A list of actions, in order. */
struct dmi_mout {
  uint32_t num, capacity;
  struct dmi_mact *act;
};

void dmi_mout_init(struct dmi_mout *out);
/* Empties the list and frees what its actions still hold. */
void dmi_mout_clear(struct dmi_mout *out);
void dmi_mout_free(struct dmi_mout *out);

/* ---- The member ---------------------------------------------------------------------------- */

/* What the first process decides for all of the program; the others get it with ACCEPT. */
struct dmi_settings {
  bool survive;        /* the program goes on without processes that are lost */
  uint32_t dead_after; /* seconds after which a silent process is lost; 0: never.  The same in all
                          processes, as how long a lease lasts follows from it */
  bool trust_refused;  /* a port that refuses connections proves that its process is dead */
};
#define DMI_DEAD_AFTER_MAX 999999999u

/* What becomes of a program that survives losses when DMI_main is lost with its process. */
enum dmi_main_lost {
  DMI_MAIN_IGNORED,  /* it goes on without (simulators) */
  DMI_MAIN_ENDS,     /* it ends */
  DMI_MAIN_RECOVERS, /* MAIN_LOST: the coordinator runs DMI_recover, in place of DMI_main */
};

/* Functions of the caller; they answer at once. */
struct dmi_member_env {
  void *arg;
  /* dmi_net_connected: true if a connection is established or being made */
  bool (*connected)(void *arg, dmi_uid_t uid);
  /* dmi_net_addrs: both ends of an established connection */
  void (*addrs)(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs);
  /* The first mapping known here that begins above this address, with its home, and who that was
   * before a recovery that is not over (0: not known), or before this process gave it away. False:
   * there is none.  NULL: no mapping is known here. */
  bool (*next_mapping)(void *arg, uint64_t above, struct dmi_entry *entry, dmi_uid_t *before);
  void *mapping_arg;
  /* What this member has told of its end (DYING); NULL: nothing.  The function may be NULL. */
  const char *(*cause)(void *arg, dmi_uid_t uid);
  /* dmi_pulse_stood_still.  Asked if the program does not survive losses; may be NULL. */
  bool (*stood_still)(void *arg, char text[DMI_PULSE_STOOD]);
  /* Used if the program survives losses (its settings).  NULL: this process cannot. */
  const struct dmi_member_survive *survive;
  void *survive_arg;
  struct dmi_settings settings;  /* of a program that this process starts */
  struct dmi_settings surviving; /* of such a program when it calls DMI_survive */
  bool witness;                  /* this process joins as one */
  enum dmi_main_lost main_lost;
};

/* What membership tells the agreement (core/pulse.h), when the program is to survive losses. */
struct dmi_member_survive {
  void (*start)(void *arg, const struct dmi_pulse_view *view, uint64_t ballot);
  bool (*take)(void *arg, const struct dmi_pulse_view *view, uint64_t ballot);
  /* dmi_pulse_may_change: the ballot, or 0: not now, the event that makes it possible comes to
   * dmi_member_may_change.  From a ballot to `change` nothing else may come to the agreement. */
  uint64_t (*may_change)(void *arg);
  void (*change)(void *arg, const struct dmi_pulse_view *view);
  uint32_t (*tie)(void *arg); /* dmi_pulse_tie */
  void (*all_taken)(void *arg, uint64_t number);
  /* dmi_pulse_leased.  False: not yet, the event that changes it comes to dmi_member_may_change. */
  bool (*leased)(void *arg, dmi_uid_t uid);
};

/* Deliberate faults, one rule of docs/membership.md switched off each, so that tests can show that
 * they would notice. See base/mutation.h. */
enum dmi_member_break {
  DMI_MBREAK_NOTHING,
  DMI_MBREAK_TAKEN,        /* a joiner is JOINED before all have taken the view with it */
  DMI_MBREAK_HEIR,         /* an heir may begin to leave */
  DMI_MBREAK_DEFER,        /* messages that the old coordinator deferred at the handover are lost */
  DMI_MBREAK_POLLS,        /* the queue of poll callers is not handed over */
  DMI_MBREAK_LAST_REQUEST, /* a leaver does not wait for LAST_REQUEST */
  DMI_MBREAK_FLUSHED,      /* the next leave does not wait for FLUSHED of the one before */
  DMI_MBREAK_BUSY,         /* dmi_member_busy is complete before the coordinator knows */
  DMI_MBREAK_OPENED,       /* DMI_welcome does not wait for OPENED */
  DMI_MBREAK_VOTE,         /* ... nor, with `survive`, until the process has its vote */
  DMI_MBREAK_LEASE,        /* ... nor until it has a lease */
  DMI_MBREAK_UID,          /* uids are used again */
  DMI_MBREAK_UNMAP,        /* an unmap does not wait for the home's leave */
  DMI_MBREAK_ADOPT,        /* a leaver becomes home of what it maps */
  DMI_MBREAK_FORGOT,       /* an unmap is complete at once */
  DMI_MBREAK_LEFT,         /* a leaver may be lost as soon as it is drained */
  DMI_MBREAK_AWAITS,       /* a leaver waits for lost processes, too */
  DMI_MBREAK_ROLE,         /* the role is handed over only when DMI_main has returned */
  DMI_MBREAK_LOST,         /* the loss of a process that has left ends the program */
  DMI_MBREAK_RETRY,        /* a goodbye that found no capacity is forgotten */
  DMI_MBREAK_RETRIED,      /* ... if capacity became free before that goodbye failed */
  DMI_MBREAK_LAST_KIND
};

struct dmi_member;

/* `own` is the address at which this process listens; with an ip of zeros, others use the one
 * that they see. Never returns NULL (aborts if there is no memory). */
struct dmi_member *dmi_member_new(const struct dmi_member_env *env,
                                  const struct dmi_node_info *info, const struct dmi_addr *own);
void dmi_member_free(struct dmi_member *m);
#ifdef DMI_MUTATIONS
void dmi_member_set_break(struct dmi_member *m, enum dmi_member_break broken);
#endif

/* ---- Events: start ------------------------------------------------------------------------- */

/* This process starts the program.  It is busy (DMI_main): dmi_member_idle when DMI_main has
 * returned. */
void dmi_member_start_first(struct dmi_member *m, const uint8_t program_id[16],
                            struct dmi_mout *out);
/* Arguments of the program, for DMI_recover; of the first process, before it starts.  Copied. */
void dmi_member_set_args(struct dmi_member *m, const void *bytes, size_t len);
struct dmi_slice dmi_member_args(const struct dmi_member *m); /* borrowed */
/* The process in which DMI_main runs, in a program that survives losses; else, or when it has
 * returned, 0. */
dmi_uid_t dmi_member_main(const struct dmi_member *m);
/* This process joins, beginning with CONNECT to the seed. */
void dmi_member_start_join(struct dmi_member *m, struct dmi_mout *out);

/* ---- Events: the network ------------------------------------------------------------------- */

/* Answers to CONNECT. */
void dmi_member_connected(struct dmi_member *m, uint32_t temp, struct dmi_mout *out);
void dmi_member_not_connected(struct dmi_member *m, const char *why, struct dmi_mout *out);

/* Handles a message of class MEMBER (msg/table.h). The caller keeps msg and its slices. False,
 * with nothing changed: a correct peer does not send it. */
bool dmi_member_message(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg,
                        struct dmi_mout *out);

/* The connection with this uid or temporary id was lost. */
void dmi_member_lost(struct dmi_member *m, uint32_t id, const char *why, struct dmi_mout *out);

/* ---- Events: the agreement --------------------------------------------------------------------
 */

/* DMI_PULSE_VIEW: take this view.  `body` is borrowed. */
void dmi_member_agreed(struct dmi_member *m, const struct dmi_slice *body, bool crash,
                       struct dmi_mout *out);
/* The answer of may_change may be another one now: its lease is back, for example. */
void dmi_member_may_change(struct dmi_member *m, struct dmi_mout *out);
/* This process cannot go on: the others have removed it, or it has nobody to agree with. */
void dmi_member_cut_off(struct dmi_member *m, const char *why, struct dmi_mout *out);
/* Answer to RECOVER of the crash view `number`: this process has decided that so many pages are
 * lost. */
void dmi_member_recovered(struct dmi_member *m, uint64_t number, uint64_t pages,
                          struct dmi_mout *out);
/* Answer to RESUME. */
void dmi_member_resumed(struct dmi_member *m, struct dmi_mout *out);

/* ---- Events: the life of this process ------------------------------------------------------ */

/* SIGINT, SIGTERM or SIGHUP. Only the first call has an effect; before JOINED it is remembered. */
void dmi_member_leave_asked(struct dmi_member *m, struct dmi_mout *out);
/* A sentence that says why this process is still here, for the second Ctrl+C; static. */
const char *dmi_member_waits_for(const struct dmi_member *m);
/* True if, as far as this process knows, the program goes on when it is lost: before its
 * welcome, and when it has left (docs/membership.md, "Having left"). */
bool dmi_member_losable(const struct dmi_member *m);

/* Answer to STOP_THREADS: true when nothing ran and creates are refused from now on. */
void dmi_member_stopped(struct dmi_member *m, bool stopped, struct dmi_mout *out);
/* Answer to START_DRAIN. With an heir: this process owns nothing, is home of nothing and has no
 * copies. `ended`: threads that ended here and were neither joined nor detached (only the first
 * time). */
void dmi_member_drained(struct dmi_member *m, const struct dmi_ended *ended, uint32_t num,
                        struct dmi_mout *out);
/* The other answer, with an heir: the members have no capacity for the pages here; nothing was
 * changed, and this process goes on as before. DMI_goodbye fails with DMI_ENOMEM if it has no
 * answer yet. The request to leave stays, and is announced again (DMI_CLOSE) when there may be
 * capacity. */
void dmi_member_no_capacity(struct dmi_member *m, struct dmi_mout *out);
/* A member that had too little capacity for this process's pages has more now. */
void dmi_member_leave_retry(struct dmi_member *m, struct dmi_mout *out);
/* Answer to VIEW. */
void dmi_member_viewed(struct dmi_member *m, struct dmi_mout *out);
/* Answer to FORGET. */
void dmi_member_forgot(struct dmi_member *m, uint64_t base, struct dmi_mout *out);

/* Adds, or removes, a reason to be busy: DMI_main runs, a DMI thread runs here, a DMI_create
 * from here has no answer. The core counts them. RESULT(op) comes when the coordinator knows
 * that this process is busy (often at once); a DMI_create of another process must not be
 * answered before. */
void dmi_member_busy(struct dmi_member *m, uint64_t op, struct dmi_mout *out);
void dmi_member_idle(struct dmi_member *m, struct dmi_mout *out);
/* DMI_main, or DMI_recover, has returned here; dmi_member_idle follows.  Not `good`: DMI_recover
 * could not recover. */
void dmi_member_main_ended(struct dmi_member *m, bool good, struct dmi_mout *out);

/* ---- Events: calls ------------------------------------------------------------------------- */

/* Calls. `op` is unique among the incomplete calls of this process. Each call gets exactly one
 * RESULT(op). DMI_EINACTIVE before JOINED and when this process is ending. The comments list the
 * results and errors. */
/* POLL and PEEK: DMI_EEND behind DMI_exit */
void dmi_member_poll(struct dmi_member *m, uint64_t op, struct dmi_mout *out); /* notices[0] */
void dmi_member_peek(struct dmi_member *m, uint64_t op,
                     struct dmi_mout *out); /* flag, notices[0] */
void dmi_member_nodes(struct dmi_member *m, uint64_t op, struct dmi_mout *out); /* notices[] */
/* DMI_EMEMBER, DMI_ENOTASKED */
void dmi_member_welcome(struct dmi_member *m, uint64_t op, dmi_id_t dmi_id, struct dmi_mout *out);
/* DMI_EMEMBER, DMI_ENOTASKED, DMI_EBUSY */
void dmi_member_goodbye(struct dmi_member *m, uint64_t op, dmi_id_t dmi_id, struct dmi_mout *out);
/* Result: mapping; DMI_ESIZE, DMI_ENOMEM (no addresses left). mapping.home is this process or,
 * while it leaves, another one. The mapping must be entered before the next event, because a
 * VIEW or FORGET may be about it. */
void dmi_member_mmap(struct dmi_member *m, uint64_t op, uint64_t page_size, uint64_t page_num,
                     struct dmi_mout *out);
/* The same for the allocator, with a tag. */
void dmi_member_mmap_tag(struct dmi_member *m, uint64_t op, uint64_t page_size, uint64_t page_num,
                         uint64_t tag, struct dmi_mout *out);
/* Result: the mapping that contains the address; DMI_EADDR. To be entered before the next event,
 * as above. */
void dmi_member_lookup(struct dmi_member *m, uint64_t op, uint64_t addr, struct dmi_mout *out);
/* DMI_EADDR. Before the RESULT every process, including this one, gets the action FORGET. */
void dmi_member_munmap(struct dmi_member *m, uint64_t op, uint64_t base, struct dmi_mout *out);
/* The same for the allocator: DMI_EADDR unless the mapping has this tag. */
void dmi_member_munmap_tag(struct dmi_member *m, uint64_t op, uint64_t base, uint64_t tag,
                           struct dmi_mout *out);
/* The program goes on without processes that are lost, from now on; for the first process, while it
 * has welcomed no other: else DMI_EBUSY. */
void dmi_member_survives(struct dmi_member *m, uint64_t op, struct dmi_mout *out);
/* DMI_exit: the program ends, with this status (0 to 255).  The result comes when all members know
 * it.  DMI_EEND: it is ending already. */
void dmi_member_exit(struct dmi_member *m, uint64_t op, uint32_t status, struct dmi_mout *out);
/* DMI_notify: a notice DMI_NOTE with this value is in the queue when the result comes. */
void dmi_member_notify(struct dmi_member *m, uint64_t op, uint64_t value, struct dmi_mout *out);
/* Result: value, the result of a thread whose process has left (or answered "moved"), which is
 * removed there; DMI_ETHREAD; DMI_ELOST: lost with its process, or with a coordinator. */
void dmi_member_thread(struct dmi_member *m, uint64_t op, dmi_uid_t uid, uint64_t seq,
                       struct dmi_mout *out);

/* A named root (core/root.h): 1 to DMI_ROOT_NAME_MAX bytes.  addr 0 removes it.  Set: DMI_ENOMEM
 * when there are too many.  Get: `value`, 0 if there is none. */
void dmi_member_root_set(struct dmi_member *m, uint64_t op, const void *name, size_t len,
                         uint64_t addr, struct dmi_mout *out);
void dmi_member_root_get(struct dmi_member *m, uint64_t op, const void *name, size_t len,
                         struct dmi_mout *out);

/* ---- Looking ------------------------------------------------------------------------------- */

dmi_uid_t dmi_member_uid(const struct dmi_member *m); /* 0: none yet */
dmi_id_t dmi_member_dmi_id(const struct dmi_member *m);
/* The id of the program: 16 bytes, zero before this process belongs to one. */
const uint8_t *dmi_member_program(const struct dmi_member *m);
uint64_t dmi_member_view(const struct dmi_member *m); /* number of the last view taken here */
dmi_uid_t dmi_member_coordinator(const struct dmi_member *m); /* uid, in that view */
/* As of that view, also while it is being taken. */
dmi_uid_t dmi_member_coordinator_next(const struct dmi_member *m);
/* True if the program has not ended and this process is a member of it. */
bool dmi_member_is_active(const struct dmi_member *m);
/* true if it has the coordinator's state */
bool dmi_member_is_coordinator(const struct dmi_member *m);
/* True if it has been welcomed, or is the first process. */
bool dmi_member_is_welcome(const struct dmi_member *m);
/* The member with this uid in the last view taken here; NULL: not a member. Valid until the next
 * event. */
const struct dmi_peer *dmi_member_peer(const struct dmi_member *m, dmi_uid_t uid);
const struct dmi_peer *dmi_member_peers(const struct dmi_member *m, uint32_t *num);

/* Of the program; before ACCEPT: what this process was given. */
struct dmi_settings dmi_member_settings(const struct dmi_member *m);

/* Calls `visit` for each member for which this process waits, with what cannot go on meanwhile:
 * members whose daemons send a message at once, if they run. A member may be visited more than
 * once. */
void dmi_member_awaits(const struct dmi_member *m,
                       void (*visit)(void *arg, dmi_uid_t uid, const char *what), void *arg);
/* Writes "process 3 (node7)", or "process 3 (node7, node7/2)" if its launcher calls it so. */
#define DMI_NAME_TEXT 256
void dmi_info_name(char text[DMI_NAME_TEXT], dmi_id_t dmi_id, const struct dmi_node_info *info);
void dmi_member_name(const struct dmi_member *m, dmi_uid_t uid, char text[DMI_NAME_TEXT]);
/* "process 2 (node7, pid 4711)": who is asked to look at it needs the pid. */
void dmi_member_name_pid(const struct dmi_member *m, dmi_uid_t uid, char text[DMI_NAME_TEXT]);

/* Aborts with a message if an invariant is violated. */
void dmi_member_check(const struct dmi_member *m);

#endif
