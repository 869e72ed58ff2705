/*
 * connect_int.h - before a connection stands: accepting, calling, and the handshake of both.  Part
 * of net_int.h, whose rules of threads and locks hold here too; nobody else includes it.
 *
 *   accept.c     accepting connections, and how many strangers at once
 *   handshake.c  the handshake of those who connect to us
 *   caller.c     the handshake of us with those to whom we connect
 *   dial.c       connecting: addresses, attempts and what becomes of them
 *   join.c       beginning that, for a member and for a program to be joined
 *   beside.c     handing accepted connections to the second network of this process
 *
 * All of it is the daemon's alone.
 */
#ifndef DMI_NET_CONNECT_INT_H
#define DMI_NET_CONNECT_INT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/hello.h"
#include "net/net.h"
#include "net/proof.h"
#include "net/seal.h"
#include "net/transport.h"

#define DMI_NET_UNKNOWN 256 /* connections at once that have not proved the key */
#define DMI_NET_CALLED 192  /* of these, such that have said a CALL made with it */
#define DMI_NET_CROWDS 256  /* into which they are counted, by address */
#define DMI_NET_CALLS 16384 /* sets of CALLs that are remembered: nobody says one twice */
#define DMI_NET_CALLS_SET 4 /* in a set */
#define DMI_NET_WHY 600     /* bytes of a sentence */

struct dmi_net_peer;

#define DMI_HANDSHAKE_BYTES \
  (DMI_PROOF_BYTES + DMI_SEAL_OVER + DMI_HELLO_BYTES) /* PROOF and HELLO */
/* What a user who joins can change. */
#define DMI_NET_JOIN_ADVICE "check dmirun's options -i HOST and -p PORT"
#define DMI_NET_KEY_ADVICE \
  "give all the same one, by copying ~/.dmi/key, or with dmirun's option --key"

/* Of an accepted connection: docs/wire.md. */
enum dmi_handshake_state {
  DMI_HANDSHAKE_CALL,     /* CALL is to come */
  DMI_HANDSHAKE_PROOF,    /* ANSWER is sent; PROOF and HELLO are to come */
  DMI_HANDSHAKE_DEFERRED, /* by a peer, until our own attempt is decided */
  DMI_HANDSHAKE_REFUSED   /* only waits for the other to close */
};

/* An accepted connection that is no struct dmi_conn yet. */
struct dmi_handshake {
  struct dmi_net *net;
  struct dmi_link *link;
  enum dmi_handshake_state state;
  struct ev_io io;
  struct ev_timer patience;
  struct dmi_net_peer *holder; /* not NULL: held by it, and has no place */
  struct dmi_unknown *among;   /* net->silent or net->called: at `slot`, counted in `crowd` */
  uint32_t slot;
  uint64_t since; /* net->accepted when it came */
  struct dmi_addr from;
  uint8_t crowd;
  bool proved;  /* the other knows the key */
  bool encrypt; /* as we said in ANSWER */
  uint16_t got; /* bytes of buf */
  unsigned char buf[DMI_HANDSHAKE_BYTES];
  struct dmi_proof proof;
  struct dmi_proof_keys keys; /* once `proved` */
  struct dmi_hello hello;
  struct dmi_handshake *next; /* [B] in `given` of a second network */
};

/* Accepted connections that compete for their places. */
struct dmi_unknown {
  struct dmi_handshake *handshakes[DMI_NET_UNKNOWN];
  uint32_t num;
  uint16_t crowds[DMI_NET_CROWDS]; /* how many of them, by address */
};

/* How often something may be done for strangers. */
struct dmi_right {
  double left, since; /* so many times more; at what dmi_net_now that was */
};

enum dmi_dial_state {
  DMI_DIAL_CONNECTING,
  DMI_DIAL_CALLED, /* CALL is sent */
  DMI_DIAL_SAID    /* PROOF and HELLO are sent: the other may count on it */
};

/* An attempt to connect. */
struct dmi_dial {
  struct dmi_net *net;
  struct dmi_net_peer *peer;
  bool join;      /* ends with handler.joined */
  char host[256]; /* for messages */
  uint16_t port;
  struct dmi_addr *addrs; /* to try, in order */
  size_t count, at;
  double deadline;       /* joining: ev_now of the end of all attempts */
  double heard;          /* ev_now of the last sign of life of its machine, or of the beginning */
  uint32_t again;        /* attempts that are made again, as far as they make the pauses longer */
  struct dmi_link *link; /* NULL: none */
  struct ev_io io;
  struct ev_timer patience; /* of this address; or the pause before it is tried again */
  enum dmi_dial_state state;
  int error;           /* see enum dmi_dial_outcome */
  uint16_t their_port; /* of HELLO_OK */
  bool encrypt;        /* as the other said in ANSWER */
  struct dmi_proof proof;
  struct dmi_proof_keys keys;
  uint16_t got;
  unsigned char buf[DMI_REFUSE_BYTES + DMI_SEAL_OVER];
  char why[DMI_NET_WHY]; /* of the last address that failed */
};

/* accept.c */
bool dmi_accept_open(struct dmi_net *net, const char **why);
/* The process by way of which we join listens at loopback only: so do we from now on, unless --bind
 * is given, at the same port, at our end of this connection.  Nobody else knows the port yet.
 * False: `why` says why not. */
bool dmi_accept_narrow(struct dmi_net *net, struct dmi_link *connection, char why[DMI_NET_WHY]);
void dmi_accept_unlist(struct dmi_handshake *handshake); /* it leaves its place */
void dmi_accept_list(struct dmi_handshake *handshake);   /* and takes one beside those that call */
void dmi_accept_called(struct dmi_handshake *handshake); /* it has said a CALL made with the key */
bool dmi_accept_may_refuse(struct dmi_net *net);         /* a stranger, with a sentence */
/* A CALL that was made with the key: has it come before, as far as we remember? */
bool dmi_accept_repeats(struct dmi_net *net, const unsigned char call[DMI_CALL_BYTES]);
void dmi_accept_proved(struct dmi_net *net); /* one has proved the key */
void dmi_accept_free_all(struct dmi_net *net);

/* handshake.c */
/* `from`: who has connected.  NULL: no memory. */
struct dmi_handshake *dmi_handshake_new(struct dmi_net *net, struct dmi_link *link,
                                        const struct dmi_addr *from);
void dmi_handshake_look(
    struct dmi_handshake *handshake); /* at what was said already; may free it */
void dmi_handshake_drop(struct dmi_handshake *handshake); /* closes, with a reset, and frees it */
/* Our own attempt to reach the peer that `handshake` comes from is decided.  Returns whether
 * `handshake` became the connection. */
bool dmi_handshake_deferred(struct dmi_handshake *handshake, bool ours_won);

/* For beside.c: it leaves its place and its loop; */
void dmi_handshake_stop(struct dmi_handshake *handshake);
/* then it is closed and freed, */
void dmi_handshake_discard(struct dmi_handshake *handshake);
/* or goes on, its HELLO being complete, in the thread of `net`. */
void dmi_handshake_go_on(struct dmi_handshake *handshake, struct dmi_net *net);

/* beside.c: all but `give` in the second network's thread, or when that does not run */
void dmi_beside_begin(struct dmi_net *net); /* the daemon of net->first */
void dmi_beside_end(struct dmi_net *net);
void dmi_beside_give(struct dmi_handshake *handshake); /* the daemon of the first */
void dmi_beside_take(struct dmi_net *net);

/* caller.c */
/* What became of an attempt to connect. */
enum dmi_dial_outcome {
  DMI_CALLER_MORE,    /* it goes on when more comes */
  DMI_CALLER_FAILED,  /* at this address: dial->why */
  DMI_CALLER_REFUSED, /* at any: dial->why */
  DMI_CALLER_BROKEN,  /* sending failed: dial->error */
  DMI_CALLER_CLOSED,  /* the other has closed (dial->error 0), or receiving failed */
  DMI_CALLER_DONE     /* HELLO_OK has come: the link is a connection */
};
enum dmi_dial_outcome dmi_caller_begin(struct dmi_dial *dial);   /* the link came about */
enum dmi_dial_outcome dmi_caller_receive(struct dmi_dial *dial); /* something has come */

/* dial.c */
void dmi_dial_next(struct dmi_dial *dial);   /* tries the next address, or gives up; may free it */
void dmi_dial_cancel(struct dmi_dial *dial); /* frees it, tells nobody */

/* join.c */
void dmi_dial_peer(struct dmi_net_peer *peer);
void dmi_dial_free_all(struct dmi_net *net);

#endif
