/*
 * coord_int.h - the inside of the coordinator role: what it knows of the members, and the functions
 * of coord*.c and directory*.c.
 *
 * Beside member_int.h, the inside of the member role, as the coordinator is a member, too.
 */
#ifndef DMI_CORE_COORD_INT_H
#define DMI_CORE_COORD_INT_H

#include "core/cause.h"
#include "core/member_int.h"

/*
 *  none
 *   | JOIN
 *   v      view taken by all       OPENED               LEAVE_ASK
 *  JOINING ----------------> JOINED -----> OPENED -------------------> CLOSING <----------+
 *   |                          |  |  LEAVE_ASK                           ^ |  DMI_goodbye |
 *   |                          |  +--------------------------------------+ v              |
 *   |  lost, not vital         |                                        LEAVING --LEAVE_NO+
 *   +----------+---------------+                DRAINED, no heir         ^ | |
 *              |  (from the states          NO_HEIR <--------------------|-+ | DRAINED
 *              |   to the right too)           |     there is an heir    |   v
 *              |                               +-------------------------+ DRAINED
 *              |                                                             | view in which it
 *              v       EXITED, or lost             idle          FLUSHED        v has left taken
 *            LOST <--------------------- EXITING <--- LEFT <-------------- FLUSHING
 *              | view without it
 *              v taken by all
 *            none
 */
enum dmi_life {
  DMI_LIFE_JOINING, /* in a view that not all have taken yet */
  DMI_LIFE_JOINED,
  DMI_LIFE_OPENED,
  DMI_LIFE_CLOSING,  /* has asked to leave; threads may still be created there if `welcomed` */
  DMI_LIFE_LEAVING,  /* LEAVE_GO sent */
  DMI_LIFE_DRAINED,  /* its pages are at the heir */
  DMI_LIFE_NO_HEIR,  /* dismissed, but no member could take its pages */
  DMI_LIFE_FLUSHING, /* has left in the view; others may still wait for it */
  DMI_LIFE_LEFT,     /* nobody does */
  DMI_LIFE_EXITING,  /* told to end */
  DMI_LIFE_LOST,     /* ended, or lost while it was not vital; still in the view */
  DMI_LIFE_NONE,     /* no record */
  DMI_LIFE_NUM
};

/* What the coordinator knows about a member. */
struct dmi_record {
  dmi_uid_t uid;
  dmi_id_t dmi_id;
  enum dmi_life life;
  dmi_uid_t heir; /* LEAVING, DRAINED and behind: uid; 0: none */
  bool witness;   /* it only votes; never welcomed or vital */
  bool welcomed;  /* OPENED has arrived */
  bool vital;     /* others may need it: it is welcomed or the first process, and has not LEFT */
  bool left;      /* in the current view it has left */
  bool main;      /* LOST, and DMI_main was lost with it */
  bool busy;
  bool ended;                /* ENDED has arrived */
  bool removed;              /* removed by the current view change */
  bool flushed;              /* STATE says so: FLUSHED may be lost */
  uint64_t ready, resumed;   /* STATE: as of the member */
  dmi_uid_t last_request_to; /* STATE: the last one that had left to which it sent LAST_REQUEST */
  struct dmi_caller welcome; /* the call that waits for OPENED, vote and lease */
  /* the call that waits for FLUSHED, DRAINED without an heir, or LEAVE_NO */
  struct dmi_caller goodbye;
  /* CLOSING, NO_HEIR: no member had capacity for its pages, and none may have become free since */
  bool no_capacity;
  /* LEAVING: the coordinator's `capacity_changes` when it began; not handed over */
  uint64_t capacity_changes;
  struct dmi_node_info info;
};

/* A joiner that is in no view yet. */
struct dmi_join {
  uint32_t temp;
  struct dmi_peer peer; /* uid and dmi_id still 0 */
};

/* To whom the homes of a lost process go. */
struct dmi_inherits {
  dmi_uid_t uid, heir;
};

/* A notice in flight to a caller, with `survive`. */
struct dmi_given {
  struct dmi_caller caller;
  struct dmi_queued queued;
};

struct dmi_forget {
  uint64_t base;
  uint64_t number;
  struct dmi_caller caller;
  struct dmi_uid_set awaits; /* members whose FORGOT has not arrived */
};

struct dmi_adopt {
  dmi_uid_t home; /* the member whose ADOPTED has not arrived */
  struct dmi_caller caller;
  struct dmi_entry mapping;
};

struct dmi_result {
  dmi_uid_t uid;
  struct dmi_ended ended;
};

/* Member `by` says that it knows this mapping. */
struct dmi_told {
  dmi_uid_t by;
  /* the home before a recovery that is not over, 0: not known; `by`: it has given it away */
  dmi_uid_t before;
  struct dmi_entry entry;
};

/* Whom the coordinator took for the home of a mapping. */
struct dmi_home {
  uint64_t base;
  dmi_uid_t uid;
};

/* What members have told in STATE about mappings and results. */
struct dmi_known {
  DMI_LIST(struct dmi_told) told;
  DMI_LIST(uint64_t) forgotten; /* bases */
  DMI_LIST(struct dmi_adopted) adopted;
  DMI_LIST(struct dmi_result) results;
  uint64_t limit; /* the highest */
};

enum dmi_change {
  DMI_CHANGE_NONE,
  DMI_CHANGE_VIEW,
  DMI_CHANGE_HANDOVER,
  DMI_CHANGE_STATES, /* crash view: until STATE of all is here */
  DMI_CHANGE_READY   /* ... until READY of all is */
};

struct dmi_coord {
  uint64_t view; /* number of the newest view */
  dmi_uid_t next_uid;
  uint64_t next_base;        /* address of the next mapping */
  uint64_t limit;            /* all members know that addresses below it may have been given */
  uint64_t next_forget;      /* number of the next FORGET */
  bool ending;               /* END was sent */
  bool retry;                /* try `blocked_calls` again */
  uint64_t capacity_changes; /* how often capacity may have become free */
  /* the member that is FLUSHING without FLUSHED, or EXITING without EXITED; 0: none */
  dmi_uid_t removing;
  DMI_LIST(struct dmi_record) records; /* by uid */
  DMI_LIST(struct dmi_queued) notices;
  DMI_LIST(struct dmi_caller) polls;
  struct dmi_entry system;             /* the system mapping: always exists */
  DMI_LIST(struct dmi_entry) mappings; /* all others, by base */
  DMI_LIST(struct dmi_forget) forgets;
  DMI_LIST(struct dmi_adopt) adopts;
  DMI_LIST(struct dmi_result) results;
  struct dmi_uid_set dead; /* lost by crash views */
  dmi_uid_t since;         /* of those with lower uids that are gone nothing is known */
  struct dmi_deferred_list blocked_calls; /* wait until a leave, or a welcome, has ended */
  DMI_LIST(struct dmi_given) given;       /* notices whose NOTICE_OK has not come */
  /* below: not handed over, except `deferred` */
  uint32_t candidates;          /* other processes with a vote, in the view that all have taken */
  uint64_t pages_lost;          /* READY: as all that are ready have decided */
  struct dmi_caller survives;   /* SURVIVE, which the next view brings */
  bool settles;                 /* that view is being made */
  bool rebuilds;                /* STATES, READY: what it knows comes from the members' STATE */
  DMI_LIST(struct dmi_got) got; /* STATES: notices that members were given */
  struct dmi_causes causes;     /* STATE: what members were told; until the next crash view */
  DMI_LIST(struct dmi_inherits) inherits; /* STATE: as RECOVER before this one said */
  struct dmi_known known;                 /* until RESUME */
  DMI_LIST(struct dmi_home) homes;        /* until RESUME: as of the last one; none: it rebuilds */
  uint64_t reserve;                       /* the next `limit`; 0: none is asked for */
  struct dmi_uid_set reserves;            /* members whose RESERVED has not arrived */
  DMI_LIST(struct dmi_queued) lost;       /* whose loss is to be told at RESUME */
  enum dmi_change change;
  dmi_uid_t successor;               /* HANDOVER: the next coordinator */
  struct dmi_uid_set awaits;         /* members whose VIEW_TAKEN has not arrived */
  struct dmi_uid_set last_requests;  /* members that send LAST_REQUEST to the leaver */
  struct dmi_deferred_list deferred; /* HANDOVER: deferred until the successor has the role */
  DMI_LIST(struct dmi_join) joins;
  struct dmi_deferred_list root_sets; /* ROOT_SET without an answer; handed over in `deferred` */
  uint32_t root_sets_in_view;         /* the first ones, which the view that is being made has */
  struct dmi_deferred_list root_gets; /* ROOT_GET that wait for the end of such a view */
  struct dmi_deferred_list stops; /* STOP behind the first one, until all know of that; likewise */
};

/* The handlers of class MEMBER of the coordinator role. `record` is the sender's, and not LOST.
 * False: a correct peer does not send it. */
#define DMI_COORD_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg);
DMI_MSGS_COORD(DMI_COORD_HANDLER)

/* coord.c */
struct dmi_coord *dmi_coord_new(void);
void dmi_coord_free(struct dmi_coord *c);
void dmi_coord_start(struct dmi_member *m); /* the first process */
bool dmi_coord_message(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg);
void dmi_coord_advance(struct dmi_member *m); /* after each event: begins what is possible */
struct dmi_record *dmi_coord_find(const struct dmi_coord *c, dmi_uid_t uid);
/* aborts if the transition is not allowed */
void dmi_record_move(struct dmi_record *record, enum dmi_life life);
const char *dmi_life_name(enum dmi_life life);
/* Sends RESULT to the caller and empties `caller`. */
void dmi_coord_answer(struct dmi_member *m, struct dmi_caller *caller, int error,
                      struct dmi_pack *body);
bool dmi_coord_abort(struct dmi_member *m, const struct dmi_record *record, const char *why);

/* Stops waiting for the VIEW_TAKEN of a lost process. At a handover our own messages may go to
 * the next coordinator already, but this process still waits for VIEW_TAKEN. False: the program
 * was ended. */
bool dmi_coord_untake(struct dmi_member *m, dmi_uid_t uid, const char *why);

/* coord_view.c */
bool dmi_coord_on_join(struct dmi_member *m, uint32_t temp, const struct dmi_msg *msg);
void dmi_coord_drop_join(struct dmi_member *m, uint32_t temp);
void dmi_coord_refuse_joins(struct dmi_member *m); /* the program is ending */
bool dmi_coord_begin_change(struct dmi_member *m); /* false: there was nothing to do */
void dmi_coord_end_view(struct dmi_member *m);     /* what follows once all have the newest view */
void dmi_coord_replay(struct dmi_member *m, struct dmi_deferred_list *list);
void dmi_coord_end_change(struct dmi_member *m); /* all have taken the view; may free m->coord */

/* coord_crash.c */
void dmi_coord_crash(struct dmi_member *m); /* this process is the coordinator of a crash view */
void dmi_coord_over(struct dmi_member *m);  /* the same, in phase ENDED: there is no recovery */
void dmi_coord_end_states(struct dmi_member *m);
void dmi_coord_end_ready(struct dmi_member *m);
bool dmi_coord_recovers(const struct dmi_coord *c);
/* Was some living process given this notice, as STATE of all has told? */
bool dmi_coord_has_got(const struct dmi_coord *c, dmi_uid_t uid, uint32_t state);
/* DMI_goodbye that the coordinator before had begun.  False: it had not. */
bool dmi_coord_goodbye_again(struct dmi_member *m, struct dmi_caller *caller, dmi_id_t dmi_id);

/* coord_leave.c */
/* It is CLOSING: the program hears of it, and dismisses it; a witness it does not see, so that
 * leaves at once. */
void dmi_coord_closing(struct dmi_member *m, struct dmi_record *record);
/* It leaves with this heir (NULL: none), from any state before the view in which it has left. */
void dmi_coord_leave_go(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_record *heir);
/* LEAVE_ASK, LEAVE_NO, LEAVE_RETRY, DRAINED, FLUSHED, EXITED */
void dmi_coord_leave_retry(struct dmi_member *m);
struct dmi_record *dmi_coord_heir(const struct dmi_coord *c, dmi_uid_t but); /* NULL: none */
bool dmi_coord_is_heir(const struct dmi_coord *c, dmi_uid_t uid); /* of one that is LEAVING */
struct dmi_record *dmi_coord_keeper(const struct dmi_coord *c, dmi_uid_t but);
void dmi_coord_retry(struct dmi_member *m);
/* After a crash there may be two: one that is FLUSHED, as another coordinator had heard, and the
 * next one. */
void dmi_coord_look_removing(struct dmi_coord *c);
void dmi_coord_flush(struct dmi_member *m, struct dmi_record *record); /* all have taken the view */
void dmi_coord_exit(struct dmi_member *m, struct dmi_record *record);
void dmi_coord_exited(struct dmi_member *m, struct dmi_record *record);
bool dmi_coord_may_end(const struct dmi_coord *c);
void dmi_coord_end(struct dmi_member *m);
void dmi_coord_ended(struct dmi_member *m, struct dmi_record *record);

/* coord_notice.c */
void dmi_coord_notify(struct dmi_member *m, const struct dmi_record *record, uint32_t state);
void dmi_coord_deliver(struct dmi_member *m);
void dmi_coord_notify_lost(struct dmi_member *m, const struct dmi_queued *lost);
/* it is removed: drops its notices and polls */
void dmi_coord_unnotify(struct dmi_coord *c, dmi_uid_t uid);
void dmi_coord_unpoll(struct dmi_coord *c, dmi_uid_t uid);
struct dmi_record *dmi_coord_by_id(const struct dmi_coord *c,
                                   dmi_id_t dmi_id); /* NULL: none, or dismissed */

/* coord_root.c */
void dmi_coord_root_view(struct dmi_coord *c, struct dmi_view_body *view); /* it is being made */
void dmi_coord_root_taken(struct dmi_member *m);                           /* all have taken it */
void dmi_coord_root_defer(struct dmi_coord *c); /* the role is handed over */

/* directory.c */
void dmi_directory_rename(struct dmi_coord *c, dmi_uid_t uid, dmi_uid_t heir);
/* Stops waiting for its FORGOT and RESERVED. */
void dmi_directory_exited(struct dmi_member *m, dmi_uid_t uid);
/* The mapping that contains the address; NULL: none. */
struct dmi_entry *dmi_directory_find(const struct dmi_coord *c, uint64_t addr);
/* MMAP of sizes and tag of `what`. */
void dmi_directory_map(struct dmi_member *m, struct dmi_record *record, uint64_t op,
                       const struct dmi_entry *what);
void dmi_directory_drop(struct dmi_coord *c, uint64_t base);
void dmi_directory_unmap(struct dmi_member *m, uint64_t base); /* nobody waits for it */
/* FORGET to all, of a mapping that some have forgotten already. */
void dmi_directory_forget_again(struct dmi_member *m, uint64_t base);
uint64_t dmi_directory_limit(uint64_t base); /* a limit for mappings from `base` on */

/* directory_crash.c */
/* The rest of a STATE.  False: malformed, and nothing has changed. */
bool dmi_directory_unpack_state(struct dmi_known *known, dmi_uid_t by, struct dmi_unpack *body);
void dmi_directory_known_free(struct dmi_known *known);
/* STATE of all is here.  `lost`: some process that is lost; recoveries up to `carried` count. */
void dmi_directory_rebuild(struct dmi_coord *c, dmi_uid_t lost, uint64_t carried);
/* The mappings that have another home than `to` has told, or that `to` inherits and does not know.
 */
void dmi_directory_pack_homes(struct dmi_pack *pack, const struct dmi_coord *c, dmi_uid_t to,
                              const struct dmi_removed *lost, uint32_t lost_num);
/* The homes of lost processes are their heirs' now. */
void dmi_directory_inherit(struct dmi_coord *c, const struct dmi_removed *lost, uint32_t lost_num,
                           dmi_uid_t heir);
void dmi_directory_settle(struct dmi_coord *c); /* READY of all: these homes count */
void dmi_directory_lost(struct dmi_member *m, dmi_uid_t uid);
void dmi_directory_forget_rest(struct dmi_member *m);
void dmi_directory_resume(struct dmi_member *m);
const struct dmi_entry *dmi_directory_adopted_before(struct dmi_coord *c,
                                                     const struct dmi_caller *caller);

/* coord_check.c: true if a correct coordinator could have handed this over */
bool dmi_coord_good(const struct dmi_member *m, const struct dmi_coord *c);

/* coord_pack.c */
void dmi_coord_pack(struct dmi_pack *pack, const struct dmi_coord *c);
/* NULL: malformed. */
struct dmi_coord *dmi_coord_unpack(struct dmi_unpack *unpack);

#endif
