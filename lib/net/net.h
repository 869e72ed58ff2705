/*
 * net.h - connections to the other processes of the program, and the daemon's loop.
 *
 * Members are named by uid. A connection to or from a process that has no uid yet (a joiner) has a
 * temporary id >= DMI_NET_TEMP instead, until dmi_net_rename. The handler gets the messages of one
 * sender in the order in which they were sent. No function here blocks, except where it says so.
 *
 * Threads: the daemon thread runs the loop and all callbacks. Only `body`, `arrived` and `message`
 * are also called in threads that are in dmi_net_receive, for messages that the table in lib/msg
 * marks as lendable; for one connection in one thread at a time. There they must flush what they
 * send. dmi_net_send, dmi_net_flush, dmi_net_connected, dmi_net_sent, dmi_net_post, dmi_net_stop
 * and the functions of "Lending" may be called from any thread, everything else only from the
 * daemon thread (in callbacks), or before dmi_net_run. No function declared here calls a callback,
 * except dmi_net_run and dmi_net_receive.
 */
#ifndef DMI_NET_NET_H
#define DMI_NET_NET_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/look.h"
#include "msg/addr.h"
#include "msg/msg.h"

#define DMI_NET_WHY 800 /* bytes of a text that says why: it may name a host twice */

struct dmi_net;
struct dmi_stream;
struct dmi_transport;

/* What HELLO says about this process, and settings of the network. */
struct dmi_net_config {
  uint16_t listen_port; /* 0: any free one */
  /* address or host to listen at and to connect from; NULL: any. But a process that joins through
   * one that listens at one address only does so, too, unless others are told of another address.
   */
  const char *bind;
  bool advertised;   /* others connect to an address that they are told */
  uint8_t key[32];   /* of the program: processes without it cannot connect */
  bool encrypt;      /* seal everything; a joiner takes over the setting of the program */
  uint8_t build[16]; /* hash of the executable */
  char name[64];     /* program name, for messages */
  /* seconds for a handshake, for joining, and for a stranger's first message; 0: 10 */
  double patience;
  struct dmi_stream *stream; /* gets the events of the network; NULL: no events */
  struct dmi_look_rule look; /* whether who waits looks before it sleeps */
  uint32_t dead_after; /* seconds after which a member whose machine is silent is lost; 0: never */
  bool shm;      /* connections with processes of this host and user go through shared memory */
  size_t common; /* with `shm`: bytes of memory that these have in common; 0: none */
  struct dmi_transport *transport; /* carries the bytes; dmi_net_open takes it over. NULL: TCP */
  /* for a user whose process cannot join: what to check. NULL: the options of dmirun */
  const char *join_advice;
};

struct dmi_net_handler {
  void *arg;
  /* `class` below is that of msg: not looked up again on its way. */
  bool lends; /* waiting threads may receive answers: dmi_net_borrow */
  /* `message` may be given bodies of types with DMI_BORROWS that `body` was not asked about:
   * msg->borrowed is set, and they are valid only during the call, as a list is. */
  bool borrows;
  /* The header and list of a message that has a body have arrived: where must the body be
   * received? Returns memory for msg->body.len bytes that stays valid until `message` or `lost`;
   * sets msg->body.frame if it belongs to a frame (one reference passes with the message). NULL:
   * the body is discarded (`message` gets a msg->body.ptr of NULL). The list is valid already:
   * see `message`. */
  void *(*body)(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg);
  /* A complete message. Takes over the references in its slices. A list is always borrowed
   * (frame NULL), aligned for its element, and valid only during the call. Only the sender and
   * the lengths have been checked, by the table in lib/msg. False: a correct peer cannot have
   * sent it; the connection is closed and `lost` is called. */
  bool (*message)(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg);
  /* Bytes [off, off + len) of this message's body have arrived, at msg->body.ptr. Called for large
   * bodies only, in order, in the thread that receives. May be NULL. */
  void (*arrived)(void *arg, const struct dmi_msg *msg, uint64_t off, uint64_t len);
  /* The connection to (or from) this uid or temporary id has ended without dmi_net_close. `why`
   * is a sentence. */
  void (*lost)(void *arg, uint32_t id, const char *why);
  /* The last connection with this member has ended, behind all that came on it, in whatever way:
   * also after dmi_net_close or dmi_net_expect_close, and behind `lost`.  May be NULL. */
  void (*gone)(void *arg, dmi_uid_t uid);
  /* Nobody listens at this member's port, while `lost` may or may not follow.  May be NULL. */
  void (*refused)(void *arg, dmi_uid_t uid);
  /* A process without uid has connected, and the handshake is complete. */
  void (*stranger)(void *arg, uint32_t temp);
  /* The result of dmi_net_join: the connection is established (why NULL), or `why` says what
   * failed and what to change. */
  void (*joined)(void *arg, uint32_t temp, const char *why);
  void (*posted)(void *arg);            /* after dmi_net_post; one call may serve several posts */
  void (*signal)(void *arg, int signo); /* one of dmi_net_signals; NULL: signals are not handled */
  /* A line for the user (which process was refused and why, malformed messages), at a limited
   * rate. NULL: it is written to stderr, after "dmi: ". */
  void (*log)(void *arg, const char *line);
};

/* Opens the listening socket (IPv6 and IPv4, or IPv4 where there is no IPv6). NULL: *why says
 * what to change; the text is static or in a buffer of the thread. */
struct dmi_net *dmi_net_open(const struct dmi_net_config *config,
                             const struct dmi_net_handler *handler, const char **why);
uint16_t dmi_net_port(const struct dmi_net *net);

/* A second network of this process, with its own loop and thread, for messages that must not wait
 * until the first one's daemon has time. It does not listen: `first` accepts its connections and
 * hands them over after the handshake. Here a lost connection is not final: the next dmi_net_send
 * connects again. `first` must be freed later.
 *
 * Called by the daemon of `first`, after dmi_net_set_self. handler.log must not be NULL; stranger,
 * joined and signal are never called. NULL: *why says why not. */
struct dmi_net *dmi_net_open_beside(struct dmi_net *first, const struct dmi_net_handler *handler,
                                    const char **why);

/* Changes dead_after of this network.  One beside it that is opened later has it, too. */
void dmi_net_set_dead_after(struct dmi_net *net, uint32_t seconds);

/* Runs the loop in the calling thread until dmi_net_stop. When it returns, no thread borrows a
 * connection any more. */
void dmi_net_run(struct dmi_net *net);
/* Ends the loop when all queued messages have arrived, when nothing has arrived for 2 s, or after
 * 10 s. Other processes take that for a loss, unless dmi_net_close was called for them before. */
void dmi_net_stop(struct dmi_net *net);
/* The same of a second network, in order: all that it is connected with are told by FIN, and what
 * is being connected is given up. */
void dmi_net_finish(struct dmi_net *net);
/* Any thread: the loop ends at once. */
void dmi_net_halt(struct dmi_net *net);
void dmi_net_free(struct dmi_net *net);

/* This process is member `uid` of program `program_id`. */
void dmi_net_set_self(struct dmi_net *net, dmi_uid_t uid, const uint8_t program_id[16]);

/* Starts connecting to a process whose uid is unknown (tries all addresses of the name).
 * `joined` gets the result. Only resolving the name blocks. */
void dmi_net_join(struct dmi_net *net, const char *host, uint16_t port);
void dmi_net_join_addr(struct dmi_net *net, const struct dmi_addr *addr);

/* Finds the first address of a name; port 0. Returns NULL, or a text that says why not. Blocks. */
const char *dmi_net_resolve(const char *host, struct dmi_addr *addr);

/* The addresses of a connection's two ends: ours as the other process sees it, and the other's
 * (its port is the one where it listens). All zero: unknown. */
void dmi_net_addrs(struct dmi_net *net, uint32_t id, struct dmi_addr *ours,
                   struct dmi_addr *theirs);

/* The process of this temporary connection is member `uid`. From now on messages to `uid`, and
 * those queued for `temp`, are sent on it, and messages from it come from `uid`. Nothing should
 * have been sent to `uid` before: otherwise there may be two connections, and no order between
 * their messages. */
void dmi_net_rename(struct dmi_net *net, uint32_t temp, dmi_uid_t uid);

/* Member `uid` listens at this address. Another call replaces the address. */
void dmi_net_add_peer(struct dmi_net *net, dmi_uid_t uid, const struct dmi_addr *addr);

/* True if a connection is established or being made. */
bool dmi_net_connected(struct dmi_net *net, uint32_t id);

/* Asks the daemon of member `uid` for a sign of life, unless an answer is missing already;
 * connects if necessary. *signs: compare with an earlier call to see whether anything arrived.
 * False: nothing may be sent to it any more. */
struct dmi_net_signs {
  uint64_t heard; /* goes up when anything arrives from it */
  uint64_t
      taken; /* bytes that its machine has acknowledged so far, even if its daemon does not read */
};
bool dmi_net_ping(struct dmi_net *net, dmi_uid_t uid, struct dmi_net_signs *signs);

/* Ends sending to `id`: what is queued is sent, then our direction is shut. Its messages still
 * arrive until it closes its direction, even if it connects only later. `lost` is not called,
 * here or there. The other process may send until it calls dmi_net_close as well. */
void dmi_net_close(struct dmi_net *net, uint32_t id);

/* Ends this temporary connection at once, in whatever state it is.  Not from its own callback;
 * `lost` is called. */
void dmi_net_drop(struct dmi_net *net, uint32_t temp);

/* Bytes that wait to be given to the system for this one; 0: there is no such peer.  Any thread. */
uint64_t dmi_net_queued(struct dmi_net *net, uint32_t to);

/* How many messages were sent to this one; those that were packed into one count as one.  Any
 * thread. */
uint64_t dmi_net_messages(struct dmi_net *net, uint32_t to);

/* Bytes that were received and sent since the start, of all connections.  The daemon. */
struct dmi_net_traffic {
  uint64_t received, sent;
};
struct dmi_net_traffic dmi_net_traffic(struct dmi_net *net);
/* The same of the connections with this process that are there now. */
struct dmi_net_traffic dmi_net_traffic_with(struct dmi_net *net, uint32_t id);

/* Memory that processes of this host and user have in common, zero bytes at first: config.common.
 * Each may write anything there at any time.  Not all of them need have the same, and
 * some may be of another program: *program is a number of this one, by which they can be told.
 * This process, the member `id`, holds that one's mark until it has ended.  NULL: none is here yet,
 * or everything is to be sealed, or the system cannot hold marks.  Any thread, once this process is
 * a member; the memory stays until dmi_net_free. */
void *dmi_net_common(struct dmi_net *net, uint32_t id, uint64_t *program);
/* The mark of a member of this program. */
uint64_t dmi_net_mark(const struct dmi_net *net, uint32_t id);
/* True if the process that held the mark, of this program or another one, has ended: it does not
 * write there any more.  Not for this process's own.  Any thread that has the memory. */
bool dmi_net_mark_ended(struct dmi_net *net, uint64_t mark);

/* What carries the messages to this process: the name of a transport.  NULL: no connection with it
 * is there now.  The daemon. */
const char *dmi_net_over(struct dmi_net *net, uint32_t id);
/* True if messages to this process use no network now, only memory of this host.  Any thread. */
bool dmi_net_is_near(struct dmi_net *net, uint32_t id);

/* True if all queued messages have been given to the kernel. */
bool dmi_net_flushed(struct dmi_net *net);
/* The same of those for this member.  Any thread. */
bool dmi_net_sent(struct dmi_net *net, dmi_uid_t uid);

/* The program is ending: from now on connections that end are normal, and `lost` is not called. */
void dmi_net_expect_close(struct dmi_net *net);

/* Queues a message for a peer (connects if there is no connection) and takes over the references in
 * its slices. A borrowed slice (frame NULL) must stay valid until the peer's answer to the message
 * has arrived, or `lost` was called. Order: if one call happens before another, its message arrives
 * first, but BLOCKs and messages that are cut into them (DMI_NET_CUT) may arrive later. A message
 * to a lost or unknown id is dropped. Returns false, without changing the message, if the id was
 * closed by dmi_net_close, or dmi_net_bar forbids it to this thread.
 *
 * Nothing is written yet: call dmi_net_flush soon. What callbacks send is flushed before the loop
 * sleeps. */
bool dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg);

/* Payloads of up to so many bytes are copied by dmi_net_send: the caller may use the memory of a
 * borrowed one again at once. */
#define DMI_NET_COPY 512

/* DATA with a body of this many bytes or more is cut into BLOCKs, which other messages to the
 * same peer may overtake (docs/wire.md, "Bulk"). */
#define DMI_NET_CUT (((uint64_t)1 << 20) + 1)

/* This uid has left: from now on only the daemon, and answers (GOT, DONE, FAIL) of any thread,
 * may be sent to it. The last requests to it follow. Earlier messages of other threads are
 * queued before them. */
void dmi_net_bar(struct dmi_net *net, dmi_uid_t uid);

/* The daemon, after dmi_net_keep: this uid was removed, though it may live.  From now on nothing of
 * it comes to the handler (but `lost`, at most once), what is sent to it is dropped, and it cannot
 * connect again. */
void dmi_net_fence(struct dmi_net *net, dmi_uid_t uid);

/* Writes what can be written now; the daemon writes the rest.  In a callback of the daemon it waits
 * until all messages that were received together are handled, or some bytes have gathered, so that
 * answers go out together. */
void dmi_net_flush(struct dmi_net *net, uint32_t to);
/* In a callback of the daemon, before it does something that may take long: writes what has
 * gathered.  In other threads it does nothing. */
void dmi_net_flush_gathered(struct dmi_net *net);

/* Lending: a thread that has flushed a request and waits for the answer can receive it itself,
 * so the daemon need not wake up first (docs/wire.md). Call dmi_net_borrow, dmi_net_receive,
 * dmi_net_give_back in this order, with nothing between them that may block. */
struct dmi_net_loan {
  struct dmi_net *net;
  struct dmi_net_peer *peer;
  struct dmi_conn *conn;
  bool owed;                  /* the daemon has to receive */
  bool used;                  /* bytes were received */
  uint32_t sleeps;            /* how often the borrower slept */
  struct dmi_look_past *look; /* NULL: sleeps at once.  For the borrower to set */
};

/* Borrows the receiving side of the connection with member `uid`. Returns a number for
 * dmi_net_nudge, or -1: not possible now, wait in another way. */
int dmi_net_borrow(struct dmi_net *net, dmi_uid_t uid, struct dmi_net_loan *loan);
/* Receives and calls the handler, also for messages to other threads, until *word & bit is 0 or
 * the daemon has to receive. */
void dmi_net_receive(struct dmi_net_loan *loan, _Atomic uint32_t *word, uint32_t bit);
void dmi_net_give_back(struct dmi_net_loan *loan);
/* Makes the borrower read its word again. Call it after changing the word in another thread. A
 * late call does no harm, before dmi_net_free. */
void dmi_net_nudge(int nudge);

/* The daemon: from here to dmi_net_lend no connection is lent, so that all messages come in its
 * thread.  Those that are lent are called back and waited for. */
void dmi_net_keep(struct dmi_net *net);
void dmi_net_lend(struct dmi_net *net);

/* Makes the daemon thread call `posted`. */
void dmi_net_post(struct dmi_net *net);

/* The daemon's ev_loop (struct ev_loop *), for timers of the upper layer. */
void *dmi_net_loop(struct dmi_net *net);

/* The signals that are given to the handler: SIGINT, SIGTERM, and SIGHUP unless it is ignored
 * (nohup). All threads except the daemon must block them. */
void dmi_net_signals(sigset_t *set);

#endif
