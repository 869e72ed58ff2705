/*
 * member_int.h - the inside of membership: the state of the member role, and the functions that
 * its files (member*.c) share.  The coordinator role: coord_int.h.
 *
 * A role sends with dmi_member_send; messages to this process itself go through member->loop.
 */
#ifndef DMI_CORE_MEMBER_INT_H
#define DMI_CORE_MEMBER_INT_H

#include <string.h>

#include "base/mutation.h"
#include "core/member.h"
#include "core/heap.h"
#include "core/member_list.h"
#include "core/root.h"
#include "msg/pack.h"
#include "dmi_api.h"

/*
 *   START ---first process---> JOINED <------------------------------+
 *     |                         ^   |  LEAVE_GO                      | threads run: LEAVE_NO
 *     v            JOINED       |   +---------> STOPPING ------------+
 *  ASKING --> ACCEPTED ---------+                  | stopped
 *    JOIN     ACCEPT                               v      drained, heir
 *                                   +--------> DRAINING ----------> DRAIN_SENT
 *                 LEAVE_GO, now     |              | drained,             | DRAIN_OK
 *                 there is an heir  |              v no heir              |
 *                                   +---------- DRAINED <-----------------+
 *                                                  | FLUSH
 *  JOINED .. DRAINED, LEFT                         v        all LAST_REQUEST
 *     |                                     LAST_REQUESTS ------------> LAST_MESSAGES
 *     | END          FINISH                                                  | all
 *     +------> ENDED ------> FINISHED <----------------- LEFT <--------------+ LAST_MESSAGE_OK
 *                               ^            EXIT
 *  any ----------FATAL----------+
 */
enum dmi_phase {
  DMI_PHASE_START,
  DMI_PHASE_ASKING,   /* looks for the coordinator */
  DMI_PHASE_ACCEPTED, /* in a view that not all others have taken */
  DMI_PHASE_JOINED,
  DMI_PHASE_STOPPING,      /* waits for the answer to STOP_THREADS */
  DMI_PHASE_DRAINING,      /* waits for the answer to START_DRAIN */
  DMI_PHASE_DRAIN_SENT,    /* waits for the answer to DRAIN_END */
  DMI_PHASE_DRAINED,       /* its pages are elsewhere, or stay here (no heir) */
  DMI_PHASE_LAST_REQUESTS, /* has left in all views, waits for the last requests of others */
  DMI_PHASE_LAST_MESSAGES, /* waits for LAST_MESSAGE_OK */
  DMI_PHASE_LEFT,          /* FLUSHED sent */
  DMI_PHASE_ENDED,
  DMI_PHASE_FINISHED,
  DMI_PHASE_NUM
};

struct dmi_caller {
  dmi_uid_t uid; /* 0: none */
  uint64_t op;
};

struct dmi_member_call {
  uint64_t op;
  uint64_t addr;         /* LOOKUP: the address */
  uint8_t type;          /* enum dmi_msg_type of the request */
  struct dmi_slice body; /* with `survive`: it may have to be asked again */
  bool later;            /* LOOKUP: to be asked again at RESUME, when each mapping has a home */
  uint64_t asked;        /* ... number of the view in which it was asked again; 0: it was not */
  struct dmi_slice mmap; /* LOOKUP: the MMAP that it stands for, as that has been answered */
  dmi_uid_t about;       /* with `survive`: WELCOME, GOODBYE: the process with that id; 0: none */
  bool left;             /* ... it has left, by a view */
};

struct dmi_queued {
  dmi_uid_t uid; /* the process that the notice is about */
  bool witness;  /* `losses`: it only voted, so the program hears nothing of it */
  struct dmi_notice notice;
};

/* A view that was agreed on. */
struct dmi_agreed {
  struct dmi_slice body;
  uint64_t number;
  bool crash;
};

/* A mapping that this process has forgotten; `number`: of the FORGET. */
struct dmi_forgotten {
  uint64_t base, number;
};

/* A mapping of which this process has become the home, for another that asked for it. */
struct dmi_adopted {
  struct dmi_caller caller;
  uint64_t base;
};

/* A notice that this process was given. */
struct dmi_got {
  dmi_uid_t uid;
  uint32_t state; /* of a DMI_NOTE: which one it was (member_note.c) */
};

/* What DMI_notify was given here, and nobody was given yet. */
struct dmi_note {
  uint64_t number, value;
  uint64_t op; /* the call, while it has no answer; 0: it has */
};

struct dmi_busy_wait {
  uint64_t op;
  uint64_t seq; /* number of the BUSY for which it waits */
};

struct dmi_coord;

struct dmi_member {
  struct dmi_member_env env; /* .survive: NULL unless the program survives losses */
  const struct dmi_member_survive *agreement; /* what that is then */
  struct dmi_node_info info;
  struct dmi_addr own; /* where this process listens; ip of zeros: as others see it */
#ifdef DMI_MUTATIONS
  enum dmi_member_break broken; /* tests only */
#endif
  enum dmi_phase phase;
  bool first; /* it started the program */
  dmi_uid_t uid;
  dmi_id_t dmi_id;
  uint8_t program_id[16];
  struct dmi_mout *out;          /* actions of the current event */
  struct dmi_deferred_list loop; /* messages to this process itself */
  uint32_t loop_next;            /* index of the first one not handled yet */
  /* joining */
  uint32_t temp;                /* ASKING: the connection on which JOIN was sent, or 0 */
  uint32_t retries;             /* ASKING: how often it went back to the seed */
  bool redirected;              /* ASKING: it connects to, or asks, another process than the seed */
  struct dmi_uid_set strangers; /* temporary ids that sent JOIN before ACCEPTED */
  /* the view */
  uint64_t view;                   /* its number */
  dmi_uid_t coordinator;           /* where messages for the coordinator go */
  dmi_uid_t coordinator_next;      /* the same after VIEW is carried out */
  dmi_uid_t coordinator_before;    /* the process that may send COORD; 0: none */
  bool hears_on;                   /* the view in which the role moves was taken for a crash view
                                      behind it, and has not come from who had the role */
  uint64_t refused;                /* number of the last VIEW that came and was not taken: so all is
                                      here that its coordinator said before.  0: none since the last
                                      crash view */
  bool viewing;                    /* VIEW is not answered yet */
  struct dmi_roots roots;          /* as of that view */
  uint64_t stop;                   /* DMI_exit was called: as member_stop.c packs it; 0: no */
  struct dmi_uid_set viewing_left; /* others that have left in that view */
  struct dmi_uid_set viewing_lost; /* lost in that view */
  DMI_LIST(struct dmi_peer) peers;
  /* with `survive` */
  DMI_LIST(struct dmi_agreed) agreed; /* views behind the one that is being taken */
  uint64_t crash;    /* number of the crash view that is being recovered from; 0: none */
  uint32_t next_uid; /* a new coordinator gives none below: above all in views, and more behind each
                        crash view */
  uint64_t last_crash; /* number of the last crash view, taken here or before it joined; 0: none */
  uint64_t ready;      /* number of the last one in which this process was READY, and ... */
  uint64_t resumed;    /* of the last one whose end it knows; also of the view that let it join */
  bool unheard;        /* its coordinator is another one than before, and has not said RECOVER */
  bool exits;          /* EXIT came in a recovery: it ends at RESUME */
  DMI_LIST(struct dmi_removed) lost;  /* by crash views, since RESUME */
  DMI_LIST(struct dmi_queued) losses; /* all that were ever lost: who took the notice may die */
  uint32_t losses_told;               /* so many of them by the action LOST */
  DMI_LIST(struct dmi_got) got;
  DMI_LIST(struct dmi_note) notes;          /* by number */
  DMI_LIST(struct dmi_forgotten) forgotten; /* of which some members may not have heard */
  DMI_LIST(struct dmi_adopted) adopted;
  uint64_t limit;        /* addresses below it may have been given */
  struct dmi_slice args; /* of DMI_main */
  bool main_said;        /* MAIN was sent: */
  dmi_uid_t main_is;     /* ... with this */
  int main_error;        /* ... and this */
  uint64_t last_note;    /* number of the last DMI_notify here */
  /* leaving */
  bool asked; /* the user asked to leave */
  bool stays; /* it was dismissed, but DMI threads ran here */
  bool opened;
  bool left; /* LEFT has arrived */
  bool left_shown;
  bool no_capacity; /* no member had memory at the last DMI_goodbye, or since it keeps its pages */
  bool no_capacity_told;              /* the user was told about it */
  dmi_uid_t heir;                     /* from LEAVE_GO; 0: keep the pages */
  dmi_uid_t last_request_to;          /* the last leaver that it has sent LAST_REQUEST; 0: none */
  DMI_LIST(struct dmi_ended) results; /* of threads that nobody has joined */
  bool results_sent;                  /* the coordinator has them */
  struct dmi_uid_set last_requests;   /* which members have sent LAST_REQUEST */
  /* members whose message is missing: LAST_REQUESTS: LAST_REQUEST; LAST_MESSAGES: LAST_MESSAGE_OK
   */
  struct dmi_uid_set awaits;
  /* calls */
  DMI_LIST(struct dmi_member_call) calls;
  uint32_t calls_busy; /* number of calls that are not polls */
  uint32_t busy;       /* number of reasons to be busy */
  bool busy_told;      /* BUSY was sent after the last IDLE */
  uint64_t busy_seq;   /* number of the last BUSY */
  uint64_t busy_acked; /* number of the last BUSY_OK */
  DMI_LIST(struct dmi_busy_wait) busy_waits;
  /* the coordinator role */
  struct dmi_coord *coord;
  /* the process that sent COORD; uid 0: none, the state is this process's own */
  struct dmi_peer handed_by;
  struct dmi_deferred_list early; /* of members that have taken a newer view */
  struct dmi_deferred_list
      deferred; /* messages for the coordinator, deferred until COORD gives this process the role */
  uint64_t deferred_bytes; /* bytes of their bodies */
};

/* The handlers of class MEMBER of the member role. False: a correct peer does not send it. */
#define DMI_MEMBER_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg);
DMI_MSGS_MEMBER(DMI_MEMBER_HANDLER)

/* True if it is a message of a member to the coordinator. */
bool dmi_member_for_coordinator(uint8_t type);

/* member.c */
bool dmi_member_handle(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg);

/* member_state.c */
/* aborts if the transition is not allowed */
void dmi_member_move(struct dmi_member *m, enum dmi_phase phase);
/* These are the settings of the program. */
void dmi_member_settle(struct dmi_member *m, const struct dmi_settings *settings);
void dmi_settings_pack(struct dmi_pack *pack, const struct dmi_settings *settings);
void dmi_settings_unpack(struct dmi_unpack *unpack, struct dmi_settings *settings);
struct dmi_mact *dmi_mout_add(struct dmi_mout *out, enum dmi_mact_type type);
/* Sends a message. Takes over the content of body (may be NULL). */
void dmi_member_send(struct dmi_member *m, uint32_t to, enum dmi_msg_type type, uint64_t op,
                     int error, struct dmi_pack *body);
/* A call, to a new coordinator. */
void dmi_member_send_again(struct dmi_member *m, uint8_t type, uint64_t op, struct dmi_pack *body);
void dmi_member_tell(struct dmi_member *m, const char *text);
/* This process ends, with this text; the second one: with the program, so that all say it. */
void dmi_member_fatal(struct dmi_member *m, const char *text);
void dmi_member_fatal_all(struct dmi_member *m, const char *text);

/* Writes "lost process 2 (node7): ", as dmi_info_name names it, and the reason from lib/net. peer
 * NULL: unknown. */
void dmi_lost_text(char text[DMI_TEXT_SIZE], const struct dmi_peer *peer, const char *why);

/* As dmi_member_fatal_all, because a process was lost that had a part of the program. `fact` says
 * which; the text goes on with what that means. */
void dmi_member_fatal_lost(struct dmi_member *m, const char *fact);
struct dmi_peer *dmi_member_find(const struct dmi_member *m, dmi_uid_t uid);
/* That this process was lost; NULL: as far as this one knows, it was not. */
const struct dmi_queued *dmi_member_loss(const struct dmi_member *m, dmi_uid_t uid);
void dmi_notice_pack(struct dmi_pack *pack, const struct dmi_notice *notice);
void dmi_notice_unpack(struct dmi_unpack *unpack, struct dmi_notice *notice);
void dmi_info_pack(struct dmi_pack *pack, const struct dmi_node_info *info);
void dmi_info_unpack(struct dmi_unpack *unpack, struct dmi_node_info *info);
void dmi_member_pack_birth(struct dmi_pack *pack, const struct dmi_birth *birth);
void dmi_member_unpack_birth(struct dmi_unpack *unpack, struct dmi_birth *birth);
void dmi_member_pack_addr(struct dmi_pack *pack, const struct dmi_addr *addr);
void dmi_member_unpack_addr(struct dmi_unpack *unpack, struct dmi_addr *addr);
/* A body that is one number.  False: malformed. */
bool dmi_member_unpack_number(const struct dmi_msg *msg, uint64_t *number);
bool dmi_member_unpack_flag(struct dmi_unpack *unpack);
void dmi_member_pack_peer(struct dmi_pack *pack, const struct dmi_peer *peer);
void dmi_member_unpack_peer(struct dmi_unpack *unpack, struct dmi_peer *peer);
void dmi_member_pack_mapping(struct dmi_pack *pack, const struct dmi_entry *mapping);
void dmi_member_unpack_mapping(struct dmi_unpack *unpack, struct dmi_entry *mapping);
void dmi_member_pack_caller(struct dmi_pack *pack, const struct dmi_caller *caller);
void dmi_member_unpack_caller(struct dmi_unpack *unpack, struct dmi_caller *caller);
/* True if a correct coordinator could send this mapping (its home is not checked). */
bool dmi_member_mapping_good(const struct dmi_entry *mapping);
/* What DMI_main was called with: strings, so the last byte is 0. */
bool dmi_member_args_good(const struct dmi_slice *args);
#define DMI_PEER_BYTES 76    /* least packed bytes */
#define DMI_REMOVED_BYTES 9  /* packed bytes */
#define DMI_NOTICE_BYTES 25  /* least packed bytes */
#define DMI_MAPPING_BYTES 36 /* packed bytes */

/* member_mapping.c */
/* What this process knows of mappings and results, for STATE. */
void dmi_member_pack_state(struct dmi_member *m, struct dmi_pack *pack);
void dmi_member_mapping_forgot(struct dmi_member *m, uint64_t base);

/* member_join.c */
void dmi_member_found(struct dmi_member *m);              /* start as the first process */
void dmi_member_seek(struct dmi_member *m);               /* start as a joiner */
void dmi_member_ask(struct dmi_member *m, uint32_t temp); /* connected: sends JOIN */
void dmi_member_redirect(struct dmi_member *m, uint32_t temp, dmi_uid_t uid);
void dmi_member_refuse(struct dmi_member *m, uint32_t temp, const char *why);
void dmi_member_retry(struct dmi_member *m, const char *why);

/* member_view.c */
struct dmi_view_body {
  uint64_t number;
  dmi_uid_t coordinator;
  struct dmi_peer *added;
  uint32_t added_num;
  struct dmi_removed *removed;
  uint32_t removed_num;
  struct dmi_roots roots; /* changes; in ACCEPT: all */
  bool settles;           /* VIEW: from now on the program has these settings (DMI_survive): */
  struct dmi_settings settings;
  uint64_t limit;        /* of addresses */
  struct dmi_slice args; /* of DMI_main; borrowed */
};
bool dmi_view_unpack(struct dmi_unpack *unpack, struct dmi_view_body *view);
/* True if the added members are different and have valid numbers. */
bool dmi_view_peers_good(const struct dmi_view_body *view);
/* Those who are removed are members, each named once, and so are their heirs; this process is
 * removed only if it has an heir. */
bool dmi_view_removed_good(const struct dmi_member *m, const struct dmi_view_body *view);
void dmi_view_free(struct dmi_view_body *view);
/* True if the address is empty; the receiver then uses the source address. */
bool dmi_member_addr_unsaid(const struct dmi_addr *addr);
/* `coordinator`: its address as known here. */
void dmi_view_take(struct dmi_member *m, struct dmi_view_body *view,
                   const struct dmi_addr *coordinator);
void dmi_view_taken(struct dmi_member *m); /* the answer to VIEW */
struct dmi_addr dmi_member_addr_resolve(const struct dmi_addr *addr, const struct dmi_addr *by);

/* member_survive.c */
void dmi_survive_pack(struct dmi_pack *pack, const struct dmi_view_body *view);
void dmi_survive_unpack(struct dmi_unpack *unpack, struct dmi_view_body *view);
/* A view that settles comes in `msg`: the agreement begins with it. */
void dmi_survive_take(struct dmi_member *m, const struct dmi_view_body *view,
                      const struct dmi_msg *msg);
void dmi_coord_survive_view(struct dmi_member *m,
                            struct dmi_view_body *view); /* it is being made */
void dmi_coord_survive_taken(struct dmi_member *m);      /* a view has been taken by all */
void dmi_coord_welcome_taken(struct dmi_member *m);
void dmi_coord_welcome_look(struct dmi_member *m); /* somebody has got a lease */

/* member_crash.c */
/* Flags of STATE. */
#define DMI_STATE_OPENED 0x01u
#define DMI_STATE_ASKED 0x02u
#define DMI_STATE_LEFT 0x04u
#define DMI_STATE_FIRST 0x08u
#define DMI_STATE_NO_CAPACITY 0x10u
/* The members behind this view, as the agreement wants them; free .members. */
struct dmi_pulse_view dmi_member_pulse_view(const struct dmi_member *m,
                                            const struct dmi_view_body *view);
void dmi_member_crash_taken(struct dmi_member *m);  /* the answer to VIEW, of a crash view */
void dmi_member_replay_early(struct dmi_member *m); /* a view was taken, of which others knew */

/* member_over.c: the end of the program */
bool dmi_member_may_be_over(const struct dmi_member *m);
void dmi_member_leave_finish(struct dmi_member *m);
void dmi_member_alone(struct dmi_member *m, const char *why);
/* A connection broke behind END.  False: what follows is as ever. */
bool dmi_member_over_lost(struct dmi_member *m, dmi_uid_t uid);
void dmi_member_over_crash(struct dmi_member *m, const struct dmi_slice *body);
void dmi_member_crash_removed(struct dmi_member *m, const struct dmi_peer *peer);
/* Has a crash view removed it that is being recovered from? */
bool dmi_member_crash_lost(const struct dmi_member *m, dmi_uid_t uid);
void dmi_member_note_got(struct dmi_member *m, dmi_uid_t uid, uint32_t state);
/* No coordinator will ask what was given about this process. */
void dmi_member_forget_got(struct dmi_member *m, dmi_uid_t uid);
void dmi_member_agree(struct dmi_member *m, const struct dmi_slice *body, bool crash);
bool dmi_member_is_early(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg);
/* A message of the coordinator: is it of a time before a crash, when it was the coordinator, too?
 */
bool dmi_member_is_late(const struct dmi_member *m, const struct dmi_msg *msg);
void dmi_member_next_agreed(struct dmi_member *m);
void dmi_member_crash_recovered(struct dmi_member *m, uint64_t number, uint64_t pages);
void dmi_member_crash_resumed(struct dmi_member *m);
/* To the coordinator, again: calls that have no answer, and that this process is busy. */
void dmi_member_calls_again(struct dmi_member *m);
void dmi_member_calls_left(struct dmi_member *m, const struct dmi_peer *peer);
void dmi_member_calls_later(struct dmi_member *m); /* at RESUME */

/* member_main.c */
void dmi_member_main_found(struct dmi_member *m);
void dmi_member_main_again(struct dmi_member *m); /* to a new coordinator */
void dmi_member_main_over(struct dmi_member *m, bool good);
void dmi_coord_main_lost(struct dmi_member *m); /* ... if it is; behind RESUME */

/* member_stop.c */
void dmi_member_exit_call(struct dmi_member *m, uint64_t op, uint32_t status);
void dmi_member_stop_look(struct dmi_member *m); /* a view was taken */
/* The name of the root that tells of DMI_exit, which no program may set. */
bool dmi_member_stop_name(const void *name, size_t len);
bool dmi_coord_stops(const struct dmi_member *m); /* DMI_exit was called, and all know it */
void dmi_coord_stop_taken(struct dmi_member *m);  /* all have taken a view */

/* member_note.c */
void dmi_member_note_call(struct dmi_member *m, uint64_t op, uint64_t value);
void dmi_member_note_called(struct dmi_member *m, uint64_t op, int error);
void dmi_member_notes_again(struct dmi_member *m);
void dmi_member_note_given(struct dmi_member *m, const struct dmi_notice *note);
void dmi_coord_note_given(struct dmi_member *m, const struct dmi_queued *queued);

/* member_leave.c */
void dmi_member_ask_leave(struct dmi_member *m);
void dmi_member_leave_no_capacity(struct dmi_member *m);
void dmi_member_leave_retry_said(struct dmi_member *m);
void dmi_member_leave_stopped(struct dmi_member *m, bool stopped);
void dmi_member_leave_drained(struct dmi_member *m, const struct dmi_ended *ended, uint32_t num);
void dmi_member_leave_lost(struct dmi_member *m, dmi_uid_t uid);
void dmi_member_leave_exit(struct dmi_member *m);

/* member_call.c */
void dmi_member_call_begin(struct dmi_member *m, enum dmi_msg_type type, uint64_t op,
                           struct dmi_pack *body);
void dmi_member_grow_busy(struct dmi_member *m); /* one more reason: the coordinator is told */
void dmi_member_call_busy(struct dmi_member *m, uint64_t op);
void dmi_member_call_idle(struct dmi_member *m);
void dmi_member_end_calls(struct dmi_member *m); /* completes all calls with DMI_EINACTIVE */

#endif
