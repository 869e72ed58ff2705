/*
 * connect_int.h - what comes before a connection is established: accepting, connecting, and both
 * sides of the handshake. Part of net_int.h, whose rules about threads and locks apply here, too;
 * no other file includes it.
 *
 *   accept.c     accepting connections, with limits for strangers
 *   handshake.c  the accepting side of the handshake
 *   caller.c     the connecting side of the handshake
 *   dial.c       connecting: addresses, attempts and their results
 *   join.c       beginning attempts, for a member or a program to join
 *   beside.c     handing accepted connections to the second network of this process
 *
 * Only the daemon thread uses all of it.
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
#include "net/shm.h"
#include "net/transport.h"

#define DMI_NET_UNKNOWN 256 /* places of connections that have not proved the key */
#define DMI_NET_CALLED 192  /* of these, for those that have sent a CALL made with the key */
#define DMI_NET_CROWDS 256  /* counters of connections, by hash of the address */
#define DMI_NET_CALLS 16384 /* sets of remembered CALLs; a repeated CALL is refused */
#define DMI_NET_CALLS_SET 4 /* CALLs in a set */

struct dmi_net_peer;

#define DMI_HANDSHAKE_BYTES \
  (DMI_PROOF_BYTES + DMI_SEAL_OVER + DMI_HELLO_BYTES) /* PROOF and HELLO */
#define DMI_NET_KEY_ADVICE \
  "give all the same one, by copying ~/.dmi/key, or with dmirun's option --key"

/* The states of an accepted connection: docs/wire.md. */
enum dmi_handshake_state {
  DMI_HANDSHAKE_CALL,  /* waits for CALL */
  DMI_HANDSHAKE_PROOF, /* ANSWER is sent; waits for PROOF and HELLO */
  /* waits until our own attempt to reach this peer has succeeded or failed */
  DMI_HANDSHAKE_DEFERRED,
  DMI_HANDSHAKE_REFUSED /* waits until the other closes */
};

/* An accepted connection before it is a struct dmi_conn. */
struct dmi_handshake {
  struct dmi_net *net;
  struct dmi_link *link;
  enum dmi_handshake_state state;
  struct ev_io io;
  struct ev_timer patience;
  struct dmi_net_peer *holder; /* the peer whose `deferred` this is, without a place; or NULL */
  struct dmi_unknown *among;   /* net->silent or net->called; the place there is `slot` */
  uint32_t slot;
  uint64_t since; /* value of net->accepted when it was accepted */
  struct dmi_addr from;
  uint8_t crowd;
  bool proved;  /* the other knows the key */
  bool encrypt; /* what our ANSWER says */
  uint16_t got; /* bytes in buf */
  unsigned char buf[DMI_HANDSHAKE_BYTES];
  struct dmi_proof proof;
  struct dmi_proof_keys keys; /* valid if `proved` */
  struct dmi_hello hello;
  struct dmi_handshake *next; /* [B] in the list `given` of a second network */
};

/* Accepted connections that compete for a number of places. */
struct dmi_unknown {
  struct dmi_handshake *handshakes[DMI_NET_UNKNOWN];
  uint32_t num;
  uint16_t crowds[DMI_NET_CROWDS]; /* number of them, by hash of the address */
};

/* A token bucket: limits how often something is done for strangers. */
struct dmi_bucket {
  double tokens, since; /* tokens, and dmi_net_now when there were that many */
};

enum dmi_dial_state {
  DMI_DIAL_CONNECTING,
  DMI_DIAL_CALLED, /* CALL is sent */
  DMI_DIAL_SAID    /* PROOF and HELLO are sent: the other may use the connection */
};

/* An attempt to connect, to one or more addresses. */
struct dmi_dial {
  struct dmi_net *net;
  struct dmi_net_peer *peer;
  bool join;      /* it is a joiner's: ends with handler.joined */
  char host[256]; /* for messages */
  uint16_t port;
  struct dmi_addr *addrs; /* to try in this order; `at` is the next one */
  size_t count, at;
  double deadline;       /* of a joiner: when (dmi_net_now) it gives up */
  double heard;          /* when (dmi_net_now) its machine last answered, or the attempt began */
  uint32_t again;        /* number of repeated attempts, which makes the pauses longer */
  struct dmi_link *link; /* NULL: no connection is being made */
  struct ev_io io;
  struct ev_timer patience; /* time limit for this address, or the pause before the next attempt */
  enum dmi_dial_state state;
  bool refused;               /* nobody listened at the last address that was tried */
  int error;                  /* see enum dmi_dial_outcome */
  uint16_t their_port;        /* from HELLO_OK */
  bool encrypt;               /* what the other's ANSWER says */
  struct dmi_shm_offer offer; /* made with HELLO */
  struct dmi_link *shm;       /* the link that takes the place of `link`; NULL: none */
  struct dmi_proof proof;
  struct dmi_proof_keys keys;
  uint16_t got;
  unsigned char buf[DMI_REFUSE_BYTES + DMI_SEAL_OVER];
  char why[DMI_NET_WHY]; /* why the last address failed */
};

/* accept.c */
bool dmi_accept_open(struct dmi_net *net, const char **why);
/* If the process through which we join listens at one address only, so does this process from now
 * on, at the same port and at our address of this connection, unless --bind or another address for
 * the others (--advertise) is given. No other process knows the port yet. False: `why` says why
 * not. */
bool dmi_accept_narrow(struct dmi_net *net, struct dmi_link *connection, char why[DMI_NET_WHY]);
void dmi_accept_unlist(struct dmi_handshake *handshake); /* frees its place */
void dmi_accept_list(struct dmi_handshake *handshake);   /* takes a place in net->called */
void dmi_accept_called(struct dmi_handshake *handshake); /* it has sent a CALL made with the key */
bool dmi_accept_may_refuse(struct dmi_net *net);         /* takes a token for a refusal */
/* True if this CALL, which was made with the key, is remembered; remembers it otherwise. */
bool dmi_accept_repeats(struct dmi_net *net, const unsigned char call[DMI_CALL_BYTES]);
/* a connection has proved the key: gives its token back */
void dmi_accept_proved(struct dmi_net *net);
void dmi_accept_free_all(struct dmi_net *net);

/* handshake.c */
/* `from`: the other's address. NULL: no memory. */
struct dmi_handshake *dmi_handshake_new(struct dmi_net *net, struct dmi_link *link,
                                        const struct dmi_addr *from);
void dmi_handshake_look(
    struct dmi_handshake *handshake); /* Handles the bytes that have arrived; may free it. */
void dmi_handshake_drop(struct dmi_handshake *handshake); /* closes it with a reset; frees it */
/* Our own attempt to reach this peer has succeeded (`ours_won`) or failed. Returns whether
 * `handshake` became the connection. */
bool dmi_handshake_deferred(struct dmi_handshake *handshake, bool ours_won);

/* The flags of our CALL or ANSWER. */
uint8_t dmi_handshake_flags(const struct dmi_net *net);

/* For beside.c: frees its place and removes it from its loop. After that one of the next two is
 * called: */
void dmi_handshake_stop(struct dmi_handshake *handshake);
/* closes and frees it; */
void dmi_handshake_discard(struct dmi_handshake *handshake);
/* or goes on in the thread of `net`, with a HELLO that is complete. */
void dmi_handshake_go_on(struct dmi_handshake *handshake, struct dmi_net *net);

/* beside.c: called in the second network's thread, or before and after that runs, except `give` and
 * `clean`, which the daemon of the first network calls */
void dmi_beside_begin(struct dmi_net *net); /* in the daemon of net->first */
void dmi_beside_end(struct dmi_net *net);
void dmi_beside_give(struct dmi_handshake *handshake); /* in the daemon of the first network */
void dmi_beside_take(struct dmi_net *net);
/* Closes a link of either network. */
void dmi_beside_close(struct dmi_net *net, struct dmi_link *link);
void dmi_beside_clean(struct dmi_net *first); /* closes what the second network has finished with */

/* caller.c */
/* The state of an attempt to connect. */
enum dmi_dial_outcome {
  DMI_CALLER_MORE,    /* waits for more bytes */
  DMI_CALLER_FAILED,  /* this address failed: dial->why */
  DMI_CALLER_REFUSED, /* all addresses would fail: dial->why */
  DMI_CALLER_BROKEN,  /* sending failed: dial->error */
  DMI_CALLER_CLOSED,  /* the other has closed (dial->error is 0), or receiving failed */
  DMI_CALLER_DONE     /* HELLO_OK has arrived: the connection is established */
};
enum dmi_dial_outcome dmi_caller_begin(struct dmi_dial *dial);   /* the link is connected */
enum dmi_dial_outcome dmi_caller_receive(struct dmi_dial *dial); /* bytes have arrived */

/* dial.c */
void dmi_dial_next(struct dmi_dial *dial);   /* tries the next address, or gives up; may free it */
void dmi_dial_cancel(struct dmi_dial *dial); /* frees it without calling the handler */
/* The attempt to join a program that has sent this CALL; NULL: none has. */
struct dmi_dial *dmi_dial_of_call(const struct dmi_net *net, const struct dmi_proof *proof);
/* This process has itself accepted the connection: fails at this address; may free it. */
void dmi_dial_met_itself(struct dmi_dial *dial);

/* join.c */
void dmi_dial_peer(struct dmi_net_peer *peer);
void dmi_dial_free_all(struct dmi_net *net);

#endif
