/*
 * port.h - one rank's end of all its channels: which receive gets which message, how much may be
 * sent without asking, and what a reset or a loss ends (docs/teams.md, rules T1 to T8).
 *
 * Pure: no locks, threads or sockets.  The caller calls one function of a port at a time, sends
 * what `out` says in its order, and tells those who wait for the calls that are over.
 */
#ifndef DMI_TEAM_PORT_H
#define DMI_TEAM_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"

#define DMI_TEAM_FROM_ANY (-1)
#define DMI_TEAM_EAGER_MOST DMI_WIRE_EAGER    /* bytes: longer messages are pulled */
#define DMI_TEAM_WINDOW ((uint64_t)256 << 10) /* bytes kept at a receiver for each sender */
#define DMI_TEAM_OVERHEAD ((uint64_t)64)      /* bytes that each message counts beside its own */
#define DMI_TEAM_RETURN \
  (DMI_TEAM_WINDOW / 4) /* bytes of the window that are given back at a time */

/* What the program sends, and what collective calls send: two channels for each pair. */
enum dmi_team_lane { DMI_TEAM_USER, DMI_TEAM_COLLECTIVE, DMI_TEAM_LANES };

enum dmi_team_op_state {
  DMI_TEAM_OVER,    /* in no list */
  DMI_TEAM_OFFERED, /* a send that was offered; nobody has pulled it */
  DMI_TEAM_SENDING, /* a send whose bytes travel */
  DMI_TEAM_POSTED,  /* a receive or probe that waits for a message */
  DMI_TEAM_PULLING  /* a receive into whose buffer bytes come */
};

/* A send, receive or probe.  The caller fills in lane, peer, buf, size and probe; it may free it
 * when it is over. */
struct dmi_team_op {
  struct dmi_team_op *prev, *next;
  enum dmi_team_op_state state;
  enum dmi_team_lane lane;
  bool probe;         /* only looks at the message */
  int32_t peer;       /* rank; of a receive also DMI_TEAM_FROM_ANY */
  int32_t from;       /* of a receive: the sender */
  unsigned char *buf; /* a send only reads it */
  uint64_t size;      /* bytes */
  uint64_t got;       /* of a receive: bytes of the message, also with DMI_ESIZE */
  uint64_t serial;    /* of an offer */
  int32_t error;      /* DMI_E*, when it is over */
};

/* What is to be done after a call. */
struct dmi_team_out {
  struct dmi_msg *msgs; /* to be sent, in order; a body without a frame is of an operation */
  uint32_t num, capacity;
  struct dmi_team_op *over; /* operations that are over, by `next` */
};

struct dmi_team_item;  /* a message that is kept */
struct dmi_team_ahead; /* what a rank has sent in an epoch that has not begun */

struct dmi_team_peer {
  struct dmi_team_item *first[DMI_TEAM_LANES], *last[DMI_TEAM_LANES]; /* kept, in order */
  uint32_t process;  /* that has it in this epoch; 0: a hole from the beginning */
  uint64_t window;   /* bytes that may still be sent to it */
  uint64_t used;     /* bytes of its window here: kept, or not given back */
  uint64_t received; /* of these, received and not given back */
  bool hole;         /* has no thread, or was lost */
  bool left;         /* has called leave: sends nothing more, and takes nothing */
};

/* Deliberate faults, one rule of docs/teams.md switched off each (base/mutation.h). */
enum dmi_team_rule {
  DMI_TEAM_UNBROKEN,
  DMI_TEAM_NO_ORDER,   /* T1: a receive takes the newest message */
  DMI_TEAM_NO_POSTED,  /* T1: of two receives the last one gets it */
  DMI_TEAM_NO_LANES,   /* T1: collective calls and the program share a channel */
  DMI_TEAM_NO_WINDOW,  /* T2: the window is not looked at */
  DMI_TEAM_NO_CREDIT,  /* T2: the window is given back twice */
  DMI_TEAM_CUT,        /* T4: a message that is too long is cut off */
  DMI_TEAM_NO_EPOCH,   /* T5: old messages are taken */
  DMI_TEAM_NO_AHEAD,   /* T5: newer messages are dropped */
  DMI_TEAM_NO_GONE,    /* T5: a PULL that is too late is not answered */
  DMI_TEAM_NO_RELEASE, /* T6: receives that wait are not released */
  DMI_TEAM_NO_EMPTY,   /* T6: what was kept is not dropped */
  DMI_TEAM_NO_DRAIN,   /* T6: arrives while bytes come into a buffer */
  DMI_TEAM_NO_WAIT,    /* T6: the next epoch begins when one rank has arrived */
  DMI_TEAM_NO_HOLE,    /* T8: who waits for a lost rank is not told */
  DMI_TEAM_NO_FAIL,    /* T8: offers of collective calls are not taken back */
  DMI_TEAM_NO_STEPS,   /* a table that has changed is replaced by an older one */
  DMI_TEAM_NO_REASON,  /* T8: who pulls what was taken back is told of a reset */
  DMI_TEAM_RULES
};

/* The account of the bytes that are kept. */
struct dmi_team_account {
  void (*keep)(void *arg, uint64_t bytes);
  void (*drop)(void *arg, uint64_t bytes);
  void *arg;
};

struct dmi_team_port {
  uint64_t team;   /* its number */
  uint64_t epoch;  /* 0: FORMING */
  uint64_t before; /* FORMING: only newer epochs concern it */
  uint64_t begun;  /* newest epoch that is known to have begun */
  int32_t rank, size;
  bool reset;   /* state RESET */
  bool stopped; /* the program is ending */
  bool failed;  /* a collective call has failed, or must: all do until the next epoch */
  struct dmi_team_peer *peers;
  uint32_t holes; /* peers that are holes */
  uint32_t left;  /* other peers that have left */
  struct dmi_team_item *first[DMI_TEAM_LANES], *last[DMI_TEAM_LANES]; /* of all, as they came */
  struct dmi_team_item *ahead, *ahead_last;                           /* of newer epochs */
  struct dmi_team_ahead *windows;             /* what they use of the windows, by uthash.h */
  struct dmi_team_op *sends, *posted, *pulls; /* lists of utlist.h, in order of the calls */
  uint64_t serial;                            /* of the last offer */
  uint64_t kept;                              /* bytes in items */
  struct dmi_team_account account;            /* functions may be NULL */
  enum dmi_team_rule broken;
};

/* The handlers of class TEAM.  False: a correct peer does not send it. */
#define DMI_TEAM_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_team_port *port, struct dmi_msg *msg, struct dmi_team_out *out);
DMI_MSGS_TEAM(DMI_TEAM_HANDLER)

/* ---- port.c ---- */
/* State FORMING, of a struct of zero bytes.  `before`: the epoch of the table when it joined. */
void dmi_team_port_init(struct dmi_team_port *port, uint64_t team, int32_t rank, uint64_t before);
/* Frees what it holds; no operation may be in it. */
void dmi_team_port_free(struct dmi_team_port *port);
/* An epoch has begun, in which `size` ranks are; processes[i] has rank i, or it is 0: a hole. Takes
 * what came ahead.  False: a message that came ahead was not of a correct peer. */
bool dmi_team_port_begin(struct dmi_team_port *port, uint64_t epoch, int32_t size,
                         const uint32_t *processes, struct dmi_team_out *out);
/* The program is ending: who waits gets DMI_EEND, as all calls from here on. */
void dmi_team_port_stop(struct dmi_team_port *port, struct dmi_team_out *out);
/* State RESET: releases who waits. */
void dmi_team_port_reset(struct dmi_team_port *port, struct dmi_team_out *out);
/* No bytes come into a buffer, or are taken from one. */
bool dmi_team_port_drained(const struct dmi_team_port *port);
/* A rank was lost with its process. */
void dmi_team_port_lost(struct dmi_team_port *port, int32_t rank, struct dmi_team_out *out);
/* T8: a collective call has failed, and so do all that wait, and all until the next epoch. */
void dmi_team_fail(struct dmi_team_port *port, struct dmi_team_out *out);

/* ---- port_message.c ---- */
/* A message for this port, from process msg->origin.  It takes over msg->body; a body without a
 * frame is only valid during the call.  False: a correct peer does not send it. */
bool dmi_team_port_message(struct dmi_team_port *port, struct dmi_msg *msg,
                           struct dmi_team_out *out);
/* Where to receive the body of a BODY; NULL: nobody waits for it. */
void *dmi_team_port_where(const struct dmi_team_port *port, const struct dmi_msg *msg);

/* ---- port_op.c ---- */
void dmi_team_port_send(struct dmi_team_port *port, struct dmi_team_op *op,
                        struct dmi_team_out *out);
void dmi_team_port_receive(struct dmi_team_port *port, struct dmi_team_op *op,
                           struct dmi_team_out *out);
/* A probe that does not wait: false if there is no message. */
bool dmi_team_port_look(struct dmi_team_port *port, struct dmi_team_op *op);

/* The next one to be sent. */
struct dmi_msg *dmi_team_out_msg(struct dmi_team_out *out);
void dmi_team_out_free(struct dmi_team_out *out);

#endif
