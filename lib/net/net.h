/*
 * net.h - connections to the other processes of the program, and the daemon's loop.
 *
 * Members are named by uid.  A connection to or from a process that has no uid yet (a joiner) has a
 * temporary id >= DMI_NET_TEMP instead, until dmi_net_rename.  Messages of one sender are handed up
 * in the order in which they were sent.  No function here blocks.
 *
 * Threads: the daemon thread runs the loop and all callbacks, except that `lendable`, and `body`,
 * `arrived` and `message` for what it says yes to, are also called in threads that are in
 * dmi_net_receive; for one connection in one thread at a time.  What they send there they flush.
 * dmi_net_send, dmi_net_flush, dmi_net_connected, dmi_net_post and dmi_net_stop and "Lending" may
 * be called from any thread, everything else only from the daemon's (in callbacks), or before
 * dmi_net_run.  No callback is called from inside a function declared here, except dmi_net_run and
 * dmi_net_receive.
 */
#ifndef DMI_NET_NET_H
#define DMI_NET_NET_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "msg/addr.h"
#include "msg/msg.h"

struct dmi_net;
struct dmi_stream;
struct dmi_transport;

/* Who we are, said in HELLO; and what is secret. */
struct dmi_net_config {
  uint16_t listen_port; /* 0: any free one */
  const char *bind;     /* address or host to listen at and to connect from; NULL: any, but
                         * loopback once we join by way of a process that listens only there */
  uint8_t key[32];      /* of the program: who does not know it is not let in */
  bool encrypt;         /* seal everything; who joins a program that does, does as well */
  uint8_t build[16];    /* hash of the executable */
  char name[64];        /* program name, for messages */
  double patience;      /* seconds for a handshake, to join, for a stranger's first word; 0: 10 */
  struct dmi_stream *stream; /* is told what happens; NULL: nobody is, but the user (`log` below) */
  uint32_t dead_after; /* seconds after which a member whose machine is silent is lost; 0: never */
  struct dmi_transport *transport; /* what carries it; the net's once it is open.  NULL: TCP */
};

struct dmi_net_handler {
  void *arg;
  bool lends; /* threads that wait may receive answers themselves: dmi_net_borrow */
  /* The header and list of a message with body_len > 0 have arrived: where shall the body go?
   * Returns memory for msg->body.len bytes that stays valid until `message` or `lost`; sets
   * msg->body.frame if it belongs to a frame (one reference passes with the message).  NULL: throw
   * the body away (msg->body.ptr is NULL then).  The list is there already: see `message`. */
  void *(*body)(void *arg, uint32_t from, struct dmi_msg *msg);
  /* A whole message.  Takes over the references in its slices; a list is always borrowed (frame
   * NULL), aligned for its element, and valid only during the call.  `from` and the lengths have
   * been checked against the table in wire.h, nothing else has.  False: it cannot come from a
   * correct peer; the connection is closed, `lost` follows. */
  bool (*message)(void *arg, uint32_t from, struct dmi_msg *msg);
  /* Bytes [off, off + len) of this message's body are in `body` now.  Called for large bodies, in
   * order, in the thread that receives.  May be NULL. */
  void (*arrived)(void *arg, const struct dmi_msg *msg, const void *body, uint64_t off,
                  uint64_t len);
  /* The connection to (or from) this uid or temporary id is gone, without dmi_net_close.  `why` is
   * a sentence. */
  void (*lost)(void *arg, uint32_t id, const char *why);
  /* Somebody without uid connected, and HELLO is done both ways. */
  void (*stranger)(void *arg, uint32_t temp);
  /* dmi_net_join: the connection stands (why NULL), or did not come about. `why` says what to
   * change. */
  void (*joined)(void *arg, uint32_t temp, const char *why);
  void (*posted)(void *arg); /* after dmi_net_post, once or more per call of it, coalesced */
  void (*signal)(void *arg, int signo); /* those of dmi_net_signals; NULL: they are left alone */
  /* A line for the user (who was refused and why, malformed messages), rate-limited; NULL: to
   * stderr, after "dmi: ". */
  void (*log)(void *arg, const char *line);
};

/* Opens the listening socket (IPv6 with IPv4, or IPv4 where there is no IPv6).  NULL: *why says
 * what to change (static or in a per-thread buffer). */
struct dmi_net *dmi_net_open(const struct dmi_net_config *config,
                             const struct dmi_net_handler *handler, const char **why);
uint16_t dmi_net_port(const struct dmi_net *net);

/* A second network of this process, with a loop and thread of its own, for messages that must not
 * wait until the first one's daemon has time.  It does not listen: who connects to it is accepted
 * by `first`, which hands the connection over behind the handshake.  A member that was lost is not
 * lost for good here: the next dmi_net_send connects again.  `first` lives longer.
 *
 * Called by the daemon of `first`, behind dmi_net_set_self.  handler.log must be there; stranger,
 * joined and signal are never called.  NULL: *why. */
struct dmi_net *dmi_net_open_beside(struct dmi_net *first, const struct dmi_net_handler *handler,
                                    const char **why);

/* Runs the loop in the calling thread until dmi_net_stop.  When it returns, no connection is lent
 * any more. */
void dmi_net_run(struct dmi_net *net);
/* The loop ends after what is queued has been sent and has arrived, or 2 s have passed.  Without
 * dmi_net_close before, the others take it for a loss. */
void dmi_net_stop(struct dmi_net *net);
void dmi_net_free(struct dmi_net *net);

/* This process is member `uid` of program `program_id`. */
void dmi_net_set_self(struct dmi_net *net, uint32_t uid, const uint8_t program_id[16]);

/* Starts connecting to a process of unknown uid (tries every address of the name); `joined` tells
 * the outcome.  Resolving the name blocks; nothing else does. */
void dmi_net_join(struct dmi_net *net, const char *host, uint16_t port);
void dmi_net_join_addr(struct dmi_net *net, const struct dmi_addr *addr);

/* The first address of a name, without port.  Returns NULL, or why not.  Blocks. */
const char *dmi_net_resolve(const char *host, struct dmi_addr *addr);

/* The addresses of a connection's two ends: ours as the other reaches it, and the other's (port:
 * where it listens). */
void dmi_net_addrs(struct dmi_net *net, uint32_t id, struct dmi_addr *ours,
                   struct dmi_addr *theirs);

/* The process behind this temporary connection is member `uid`: what is queued for the one and the
 * other goes out on it, what it sends comes from `uid`.  Nothing should have been sent to `uid`
 * before; otherwise there are two connections and the order between what came by the one and the
 * other is open. */
void dmi_net_rename(struct dmi_net *net, uint32_t temp, uint32_t uid);

/* Member `uid` listens there.  A second time: the address is replaced. */
void dmi_net_add_peer(struct dmi_net *net, uint32_t uid, const struct dmi_addr *addr);

/* Is there, or is coming about, a connection? */
bool dmi_net_connected(struct dmi_net *net, uint32_t id);

/* Has the daemon of member `uid` say something, unless it still has to (connects if need be).
 * *signs: what shows that it does.  False: nothing more is sent to it. */
struct dmi_net_signs {
  uint64_t heard; /* goes up when anything comes from it */
  uint64_t
      taken; /* bytes that its machine has taken over so far, whether its daemon reads or not */
};
bool dmi_net_ping(struct dmi_net *net, uint32_t uid, struct dmi_net_signs *signs);

/* Nothing more will be sent to it: what is queued is sent, then our direction is shut.  What it
 * sends is still handed up, until it closes; also if it connects only now.  No `lost` will come,
 * here or there; the other can go on sending until it calls dmi_net_close, too. */
void dmi_net_close(struct dmi_net *net, uint32_t id);

/* All that was queued for anybody has been handed to the kernel? */
bool dmi_net_flushed(struct dmi_net *net);

/* From now on a connection that ends is normal: no `lost` any more (the program is ending). */
void dmi_net_expect_close(struct dmi_net *net);

/*
 * Queues a message for a peer (connects if there is no connection) and takes over the
 * references in its slices; a borrowed slice (frame NULL) must stay valid until the peer's answer
 * to the message arrived, or `lost` was called.  Order: two calls in order (by happens-before)
 * arrive in that order, but BLOCKs and what is cut into them (DMI_NET_CUT) may be late.  To an id
 * that was lost or is unknown: dropped.  Returns false, leaving the message as it is, when the id
 * was closed by dmi_net_close, or barred to this thread.
 *
 * Nothing is written yet: call dmi_net_flush soon.  What callbacks send is flushed by itself before
 * the loop sleeps.
 */
bool dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg);

/* DATA with a body of this many bytes or more travels as BLOCKs, which other messages to the same
 * peer may overtake (docs/wire.md, "Bulk"). */
#define DMI_NET_CUT (((uint64_t)1 << 20) + 1)

/* From now on only the daemon's messages to this uid are taken, and answers (GOT, DONE, FAIL): it
 * has left, and the last messages to it that ask something are to follow.  Any thread's message of
 * before is queued before them. */
void dmi_net_bar(struct dmi_net *net, uint32_t uid);

/* Writes what can be written now; the daemon goes on with the rest. */
void dmi_net_flush(struct dmi_net *net, uint32_t to);

/*
 * Lending: a thread that has flushed a request and waits for the answer receives it itself, which
 * saves waking the daemon first (docs/wire.md).  dmi_net_borrow, dmi_net_receive,
 * dmi_net_give_back, in this order, without anything that may block between them.
 */
struct dmi_net_loan {
  struct dmi_net *net;
  struct dmi_net_peer *peer;
  struct dmi_conn *conn;
  bool owed; /* the daemon has to go on */
  bool used; /* something was received */
};

/* Borrows what comes from member `uid`.  Returns a number for dmi_net_nudge, or -1: not possible
 * now, the caller waits in another way. */
int dmi_net_borrow(struct dmi_net *net, uint32_t uid, struct dmi_net_loan *loan);
/* Hands up what comes, for all threads, until *word & bit is 0, or until the daemon has to go on.
 */
void dmi_net_receive(struct dmi_net_loan *loan, _Atomic uint32_t *word, uint32_t bit);
void dmi_net_give_back(struct dmi_net_loan *loan);
/* Has the word looked at again; after changing it in another thread than the one that borrowed. Too
 * late is no harm, before dmi_net_free. */
void dmi_net_nudge(int nudge);

/* Has `posted` called in the daemon thread. */
void dmi_net_post(struct dmi_net *net);

/* The daemon's ev_loop (struct ev_loop *), for timers of the upper layer. */
void *dmi_net_loop(struct dmi_net *net);

/* The signals that the handler hears of: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup).
 * All threads but the daemon are to block them. */
void dmi_net_signals(sigset_t *set);

#endif
