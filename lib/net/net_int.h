/*
 * net_int.h - peers, connections and the loop: what the files of lib/net share. No other file
 * includes it.
 *
 *   net.c        the loop: open, run, stop, post, what other threads ask the daemon to do
 *   net_log.c    lines about connections, not too many
 *   peer.c       the table of peers: make, find, lose, free
 *   peer_member.c  what the layer above says of them: add, rename, close, fence
 *   outgoing.c   the queue of a peer
 *   send.c       writing that queue to the link, from any thread
 *   lend.c       who receives on a connection: the daemon, or a thread that waits
 *   receive.c    a connection's incoming bytes -> handler.body, handler.message
 *   conn.c       an established connection: beginning, orderly end, loss
 *   alive.c      finds machines and daemons that do not answer
 *   addr.c       addresses as bytes, the system's structs and text
 *   tcp.c        the transport below all of them (transport.h)
 *   common.c     memory that processes of one host have in common
 *   shm.c, ring.c  links in shared memory, which take the place of TCP's on one host
 * and those of connect_int.h, for what comes before a connection is established.
 *
 * Threads and locks: only the daemon uses a field, unless it is marked
 *   [L] guarded by the peer's `lock`, [T] by `temp_lock`, [W] by `work_lock`, [A] atomic,
 *   [B] by `beside_lock` of the first of two networks,
 *   [R] by the peer's `turn_lock`; the daemon alone writes it, or only while it has the turn,
 *   [C] of whoever has the connection's turn (docs/wire.md).
 * Order: temp_lock, then a peer's lock, then work_lock; turn_lock, then work_lock.  No system call
 * and no callback under any of them, but epoll_ctl under turn_lock: the turn and who is told of
 * more bytes change together.
 */
#ifndef DMI_NET_INT_H
#define DMI_NET_INT_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/event.h"
#include "base/lock.h"
#include "net/common.h"
#include "net/connect_int.h"
#include "net/net.h"
#include "net/seal.h"
#include "net/transport.h"
#include "msg/packed.h"
#include "msg/wire.h"

#define DMI_NET_BUFFER (64 * 1024) /* bytes of a member's receive buffer */
#define DMI_NET_BUFFER_SMALL 4096  /* bytes of a stranger's receive buffer */
#define DMI_NET_PATIENCE 10.0      /* seconds: default of config.patience */
#define DMI_ALIVE_LOOKS 8.0        /* checks for silent machines in config.dead_after */
#define DMI_NET_STRANGERS 1024     /* connections without uid at the same time */
#define DMI_NET_UNANNOUNCED 256    /* peers that connected before they were announced */
#define DMI_NET_TEMP_SLOTS 256
#define DMI_NET_RECORD (DMI_SEAL_MOST + DMI_SEAL_OVER)
#define DMI_NET_OUT (2 * DMI_NET_RECORD) /* bytes of records that each peer can seal at once */
#define DMI_NET_IN (2 * DMI_NET_OUT)     /* and that each connection can hold, half at a time */
/* The same while a large body travels: 512 KiB of it, and the record of its header; a connection
 * opens half of that at a time. */
#define DMI_NET_MUCH (16 * DMI_NET_RECORD + 4096)
/* What a peer seals at once then: 96 KiB, and that record. With more, the other end waits for too
 * long, and the bytes leave the cache before they are sent. */
#define DMI_NET_SEALED (3 * DMI_NET_RECORD + 4096)
#define DMI_NET_BATCH 64 /* connections served per epoll_wait */
/* The most chances to borrow that are passed over when lending does not pay. */
#define DMI_NET_LEND_REST 64

/* A piece of a peer's queue: bytes (headers and small payloads, copied), then one big payload. */
struct dmi_seg {
  struct dmi_seg *next;
  uint32_t start;       /* [L] bytes up to here are sent */
  uint32_t end;         /* [L] bytes up to here are filled */
  uint64_t sent;        /* [L] bytes of `big` that are sent */
  struct dmi_slice big; /* len 0: none; after it no bytes are added to this segment */
  unsigned char bytes[4096 - 64];
};

/* Sealed records that are not sent yet. The writing thread's, but for `start` and `end`. */
struct dmi_sealed {
  struct dmi_seal *seal;
  size_t start, end;    /* [L] part of `bytes` that is not sent */
  unsigned char *bytes; /* `few`, or DMI_NET_SEALED bytes until all that was sealed there is sent */
  unsigned char few[DMI_NET_OUT];
};

/* What we do towards a peer:
 *
 *            send or dial             HELLO done
 *    IDLE -----------------> DIALING ------------> UP --------------> SHUT
 *      |                        |                  |   close, queue    ^
 *      | close                  | failed           | broken    empty   |
 *      |                        v                  v                   |
 *      |                       LOST <--------------+                   |
 *      +---------------------------------------------------------------+
 *
 * An accepted connection goes from IDLE or DIALING to UP. In SHUT and LOST what is sent is dropped.
 * A peer that was closed and then lost is SHUT, too. One that claimed a uid that nobody has
 * announced, and is lost, is IDLE again. The table of transitions is in peer.c. */
enum dmi_peer_state {
  DMI_PEER_IDLE,
  DMI_PEER_DIALING,
  DMI_PEER_UP,
  DMI_PEER_SHUT,
  DMI_PEER_LOST,
  DMI_PEER_STATES
};

struct dmi_conn;

/* Another process. Peers with a uid live until dmi_net_free, temporary ones until they are
 * renamed or lost. */
struct dmi_net_peer {
  struct dmi_net *net;
  _Atomic uint32_t lock;
  uint32_t id;               /* uid or temporary id */
  enum dmi_peer_state state; /* [L] set by dmi_peer_move */
  struct dmi_link *link;     /* [L] of `conn`, for writing; NULL unless UP */
  int broken;    /* [L] errno of a failed write, 0: none; the daemon ends the connection */
  bool closing;  /* [L] dmi_net_close was called: no more messages */
  bool barred;   /* [L] dmi_net_bar was called: other threads send no more requests */
  bool fenced;   /* [L] dmi_net_fence was called: it was removed, and cannot come back */
  bool writing;  /* [L] a thread is writing from `head` on; it checks the queue again */
  bool settling; /* [L] the daemon waits until no thread is writing */
  _Atomic uint32_t settled;    /* futex: how often such a wait has ended */
  bool blocked;                /* [L] the socket is full: the daemon waits for it */
  bool ended;                  /* [L] FIN is in the queue or sent */
  struct dmi_seg *head, *tail; /* [L] the queue; only the writing thread takes segments out */
  /* [L] large messages, each a header and its body; `sent` bytes of the first one have moved to
   * the queue, which is not empty meanwhile */
  struct dmi_seg *bulk, *bulk_tail;
  /* [L] in the queue: the header of the last message, if the next one may be packed behind it */
  unsigned char *envelope;
  struct dmi_packed_before before; /* [L] the last header in the envelope */
  uint32_t packed;                 /* [L] bytes packed behind its first message */
  uint64_t messages;               /* [L] queued so far; an envelope counts as one */
  struct dmi_sealed *out;          /* [L] not NULL if UP and sealing */
  struct dmi_seg *spare;           /* [L] recycled segments */
  uint32_t spares;                 /* [L] how many */
  bool listed;                     /* [W] in net->work */
  struct dmi_net_peer *work_next;  /* [W] */
  bool dirty;                      /* in net->dirty: the daemon has sent to it and must flush */
  struct dmi_net_peer *dirty_next;
  uint64_t gathered;     /* bytes that the daemon has queued since it became dirty or was flushed */
  uint64_t sent;         /* [L] bytes handed to the system */
  bool pinged;           /* PING is not answered yet */
  bool announced;        /* dmi_net_add_peer or dmi_net_rename named it */
  struct dmi_addr addr;  /* where it listens; all zero: unknown */
  struct dmi_conn *conn; /* [R] the connection on which messages to it are sent */
  _Atomic uint32_t turn_lock;
  int nudge;             /* [R] event descriptor that wakes a borrower; -1: never borrowed */
  uint32_t lend_rest;    /* [R] chances to borrow that will be passed over */
  uint32_t lend_step;    /* [R] how many the next time */
  struct dmi_dial *dial; /* our attempt to connect */
  struct dmi_handshake *deferred;   /* its attempt, deferred while ours is in progress */
  struct dmi_net_peer *temp_next;   /* [T] same slot of net->temp */
  struct dmi_net_peer *prev, *next; /* net->peers */
};

enum dmi_receive_phase { DMI_RECEIVE_HEADER, DMI_RECEIVE_LIST, DMI_RECEIVE_BODY };

/* Who receives on a connection; docs/wire.md has the diagram and table. */
enum dmi_turn { DMI_TURN_FREE, DMI_TURN_DAEMON, DMI_TURN_LENT, DMI_TURN_OWED, DMI_TURN_OVER };

/* An established connection; mainly its receiving side. */
struct dmi_conn {
  struct dmi_net *net;
  /* the sender of the messages; after a merge peer->conn is another one. Does not change after
   * `member` is set */
  struct dmi_net_peer *peer;
  struct dmi_link *link;
  enum dmi_turn turn; /* [R] of `peer` */
  bool deaf;          /* [R] the turn is not OVER, and net->epoll does not tell of more bytes */
  bool quiet;         /* [R] it is net->quiet: deaf when its turn is FREE, too */
  bool loose;         /* in net->loose */
  struct dmi_conn *loose_next;
  /* [R] the daemon wants it back: it is not lent any more.  A borrower reads it without the lock */
  _Atomic bool wanted;
  struct ev_io writable;    /* active while peer->blocked */
  struct ev_timer patience; /* limit for a stranger's first message, or for closing */
  bool member;              /* it may send what members may; set before other threads can find it */
  bool stranger;            /* it has no uid yet and is counted in net->stranger_num */
  bool spoken;              /* [C] a whole message has arrived */
  bool got_end;             /* [C] FIN has arrived: EOF must follow */
  bool got_eof;             /* the peer's direction has ended */
  bool sent_end;            /* our direction has ended and is shut */
  bool shut;                /* shut by dmi_net_stop */
  int failed;               /* [C] errno that a borrower got, 0: none */
  bool refused;             /* [C] handler.message returned false for `msg` */
  enum dmi_receive_phase phase;    /* [C], as all fields from here to body_got */
  const struct dmi_wire_type *row; /* of `msg`, since its header was taken */
  uint32_t packed;                 /* bytes that are packed behind `msg` */
  struct dmi_packed_before before; /* if any are: the header of `msg` */
  unsigned char *buf;              /* bytes received, not yet consumed: [start, end) */
  size_t cap, start, end;
  struct dmi_seal *opener; /* NULL: without sealing */
  bool tampered;           /* a record was not authentic */
  unsigned char *in;       /* records received, not yet opened: [in_start, in_end) */
  size_t in_start, in_end;
  unsigned char *in_few; /* DMI_NET_IN bytes; `in` is this, or DMI_NET_MUCH for a large body */
  struct dmi_msg msg;    /* the message that is arriving */
  unsigned char *list;   /* its list, aligned; kept for the next one */
  size_t list_cap, list_got;
  unsigned char *body; /* where its body is received; NULL: discarded */
  uint64_t body_got;
  struct dmi_addr ours, theirs;
  _Atomic uint64_t heard;       /* [A] bytes received; written by the thread that has the turn */
  bool waiting;                 /* at the last check data was in flight */
  double mute_since;            /* if `waiting`: when (dmi_net_now) something last came back */
  struct dmi_conn *prev, *next; /* net->conns */
};

#define DMI_PEER_DIR 2048
#define DMI_PEER_MID 1024
#define DMI_PEER_LEAF 1024
struct dmi_peer_leaf {
  _Atomic(struct dmi_net_peer *) at[DMI_PEER_LEAF];
};
struct dmi_peer_mid {
  _Atomic(struct dmi_peer_leaf *) at[DMI_PEER_MID];
};

/* Log lines about strangers and others are limited separately, so that strangers cannot suppress
 * the others. */
enum dmi_net_about { DMI_ABOUT_OURS, DMI_ABOUT_STRANGERS };

/* Limits the number of log lines. */
struct dmi_net_limit {
  struct ev_timer end; /* ends the period in which lines are counted */
  uint32_t lines;
};

struct dmi_net {
  struct dmi_net_config config;
  struct dmi_stream *stream; /* never NULL */
  struct dmi_net_handler handler;
  struct ev_loop *loop;
  struct dmi_transport *transport;
  struct ev_io listener; /* of transport->incoming */
  struct ev_timer rest;  /* ends a pause of the listener */
  bool rested;           /* it paused for lack of descriptors, and none was found since */
  struct dmi_bucket accepts, refusals;
  int epoll;                             /* receiving sides of all connections */
  struct ev_io ready;                    /* watches `epoll` */
  struct dmi_conn *batch[DMI_NET_BATCH]; /* connections being served; NULL: ended meanwhile */
  int batch_num;
  /* Those that have to be armed before the daemon sleeps, if it has their turn to give: until then
   * it looks at them by itself. */
  struct dmi_conn *loose, *loose_at; /* `loose_at`: the next one that it looks at */
  bool asleep;               /* they were armed; the loop sleeps, or goes on without sleeping */
  struct dmi_conn *hot;      /* the daemon received from it last; NULL: none, or it has ended */
  uint32_t streak;           /* how often in a row, in the last look */
  struct dmi_conn *quiet;    /* the daemon, which looks, looks at it in each round; NULL: none */
  bool served;               /* a message has come since the daemon looked */
  uint32_t full;             /* connections whose `writable` is active */
  uint64_t looks;            /* how often the daemon has begun to look */
  uint64_t queued;           /* messages that the daemon has sent */
  struct dmi_look_past look; /* of the daemon */
  _Atomic uint32_t lent;     /* [A] connections that are lent, DMI_NET_ENDED, DMI_NET_KEPT */
  struct ev_async wake;      /* there is work, posted or stop */
  struct ev_prepare
      before;            /* the loop is going to sleep: flushes what the daemon sent, and looks */
  struct ev_check after; /* it has slept */
  struct ev_timer alive; /* checks data in flight: alive.c */
  _Atomic bool watching; /* [A] `alive` is active, or will be soon */
  struct ev_signal interrupt, terminate, hangup;
  struct ev_timer ending;          /* after dmi_net_stop: checks whether all is sent */
  double ending_until, ending_end; /* when to give up: if nothing arrives, and in any case */
  uint64_t ending_arrived;         /* bytes, when it checked last */
  struct dmi_net_traffic gone;     /* bytes of connections and peers that are freed */
  _Atomic bool posted;             /* [A] */
  _Atomic bool stop;               /* [A] */
  _Atomic bool halt;               /* [A] */
  bool expect_close;
  dmi_uid_t uid; /* ours; 0: none */
  uint8_t program[16];
  uint16_t port;
  bool narrow;     /* the listener is at one address only */
  bool short_said; /* the lack of descriptors was logged; until there is one */
  struct dmi_mutex work_lock;
  struct dmi_net_peer *work; /* [W] peers for which another thread needs the daemon */
  struct dmi_mutex temp_lock;
  struct dmi_net_peer *temp[DMI_NET_TEMP_SLOTS]; /* [T] temporary peers, chained */
  uint32_t next_temp;
  _Atomic(struct dmi_peer_mid *) dir[DMI_PEER_DIR]; /* [A] by uid; entries are set once */
  struct dmi_net_peer *peers;
  struct dmi_net_peer *dirty;
  bool gathering; /* the daemon handles what it has received: dmi_net_flush leaves that for later */
  struct dmi_conn *conns;
  struct dmi_unknown silent; /* those that have not sent a CALL made with the key */
  struct dmi_unknown called; /* those that have sent or repeated one */
  /* Hashes of the last CALLs made with the key, in sets by hash. Memory that is never written is
   * never allocated by the system. */
  uint64_t calls[DMI_NET_CALLS][DMI_NET_CALLS_SET];
  unsigned char crowd_key[16];  /* secret: nobody can predict which addresses share a crowd */
  uint64_t accepted, evictions; /* connections accepted; of them, closed to free a place */
  uint32_t stranger_num, unannounced;
  struct dmi_common common;    /* memory that it has in common with others */
  bool encrypt;                /* this process's setting, or that of the program that it joined */
  struct dmi_net_limit log[2]; /* by enum dmi_net_about */
  struct dmi_net *first;       /* the network that accepts for this one; NULL: it listens itself */
  struct dmi_mutex beside_lock;
  struct dmi_net *beside;      /* [B] the network for which this one accepts; NULL: none */
  struct dmi_handshake *given; /* [B] of `first`: accepted there, to be continued here */
  uint32_t given_num;          /* [B] of `first`: how many, at most DMI_NET_CALLED */
  struct dmi_link
      *unused; /* [B] of the first one: links that the second one does not need any more */
};

/* net_log.c */
/* True if another line may be logged. Counts it, as logged or as left out. */
bool dmi_net_may_log(struct dmi_net *net, enum dmi_net_about about);
/* Logs a line; only after dmi_net_may_log returned true. */
void dmi_net_say(struct dmi_net *net, enum dmi_net_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Calls both. */
void dmi_net_log(struct dmi_net *net, enum dmi_net_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Some seconds after the first line: says how many were left out. */
void dmi_net_on_log_end(struct ev_loop *loop, struct ev_timer *timer, int events);

/* net.c */
/* Seconds of a monotonic clock. */
double dmi_net_now(void);
/* Any thread, with the peer's lock or turn_lock held: asks the daemon to call dmi_peer_serve.
 * True: call dmi_net_wake after unlocking. */
bool dmi_net_need_daemon(struct dmi_net_peer *peer);
void dmi_net_wake(struct dmi_net *net);
bool dmi_net_is_daemon(struct dmi_net *net); /* true in its daemon thread */
/* For the reason why no network was opened, DMI_NET_WHY bytes of the calling thread.  Only one: a
 * program that loads the library while it runs (Python) has little room for such memory. */
char *dmi_net_why_not(void);
struct dmi_hello dmi_net_hello(struct dmi_net *net, uint8_t kind);

/* peer.c */
struct dmi_net_peer *dmi_peer_find(struct dmi_net *net,
                                   uint32_t id); /* a temporary id only in the daemon thread */
/* Any thread. Returns the peer with its lock held, or NULL. */
struct dmi_net_peer *dmi_peer_find_locked(struct dmi_net *net, uint32_t id);
/* Bytes that have come from it, by all of its connections; never fewer while these are the same.
 * [daemon] */
uint64_t dmi_peer_heard(const struct dmi_net_peer *peer);
struct dmi_net_peer *dmi_peer_new(struct dmi_net *net,
                                  uint32_t id); /* id DMI_NET_TEMP: makes a new temporary id */
void dmi_peer_free_temp(struct dmi_net_peer *peer);
void dmi_peer_free_all(struct dmi_net *net);
/* Changes the state. The peer's lock is held. */
void dmi_peer_move(struct dmi_net_peer *peer, enum dmi_peer_state state);
/* Its connection or attempt has ended: empties its queue, and calls handler.lost unless that end
 * was expected. A temporary peer is freed. */
void dmi_peer_lost(struct dmi_net_peer *peer, const char *why);
/* In the daemon: does for the peer what other threads could not do: dial, wait for the socket,
 * end. */
void dmi_peer_serve(struct dmi_net_peer *peer);

/* outgoing.c: the peer's lock is held, except for dmi_outgoing_free and
 * dmi_outgoing_drop_payloads */
#define DMI_NET_IOV 64 /* most parts written by one call */
static inline bool dmi_outgoing_is_empty(const struct dmi_net_peer *peer) {
  const struct dmi_seg *seg = peer->head;
  return seg == NULL || (seg->next == NULL && seg->start == seg->end && seg->big.len == 0);
}
bool dmi_outgoing_append(struct dmi_net_peer *peer, struct dmi_msg *msg); /* false: no memory */
/* If the queue is empty, moves a part of the bulk there. False: no memory. */
bool dmi_outgoing_refill(struct dmi_net_peer *peer);
/* Fills `iov` with the unsent bytes at the head of the queue; returns the number of parts. Bit i of
 * *borrowed: part i is memory of the caller, who may change it meanwhile. */
size_t dmi_outgoing_gather(struct dmi_net_peer *peer, struct iovec iov[DMI_NET_IOV],
                           uint64_t *borrowed);
/* Removes `bytes` bytes, which were sent, from the queue. Returns the segments that are
 * finished; the caller frees their payloads, */
struct dmi_seg *dmi_outgoing_consume(struct dmi_net_peer *peer, uint64_t bytes);
void dmi_outgoing_drop_payloads(struct dmi_seg *list);
/* then calls this, which keeps some of the segments as spares and returns the others, to be
 * freed. */
struct dmi_seg *dmi_outgoing_keep_spares(struct dmi_net_peer *peer, struct dmi_seg *list);
/* the whole queue and the spares */
struct dmi_seg *dmi_outgoing_take_all(struct dmi_net_peer *peer);
void dmi_outgoing_free(struct dmi_seg *list); /* frees segments and payloads */

/* send.c */
void dmi_send_flush(struct dmi_net_peer *peer); /* any thread; the lock is not held */
/* the socket is writable; false: nothing more to send */
bool dmi_send_writable(struct dmi_net_peer *peer);
struct dmi_sealed *dmi_send_out(const struct dmi_proof_keys *keys); /* NULL: no memory */
void dmi_send_free_out(struct dmi_sealed *out);  /* no thread may be writing; NULL: does nothing */
void dmi_send_settle(struct dmi_net_peer *peer); /* lock held: waits until no thread is writing */
void dmi_send_dirty(struct dmi_net *net);        /* flushes what the daemon sent */
bool dmi_send_idle(struct dmi_net_peer *peer);   /* true if nothing waits to be sent */

/* The handlers of class NET, called in the daemon. False: a correct peer does not send it so. */
#define DMI_NET_MESSAGE(symbol, number, name, handler, ...) \
  bool handler(struct dmi_conn *conn, const struct dmi_msg *msg);
DMI_MSGS_NET(DMI_NET_MESSAGE)

/* receive.c: called by the thread that has the turn */
/* The daemon: receives, beginning with what a borrower has left. False: the connection is freed. */
bool dmi_receive(struct dmi_conn *conn);
/* With the turn FREE: true if the next turn will receive nothing but a part of a large body. */
bool dmi_receive_is_long(const struct dmi_conn *conn);
/* how many bytes it is worth to wait for, before receiving more */
size_t dmi_receive_least(const struct dmi_conn *conn);
/* With the turn FREE. False in the middle of a message that only the daemon may handle. */
bool dmi_receive_can_lend(struct dmi_conn *conn);
/* A borrower: receives what there is. False: the daemon has to go on. */
bool dmi_receive_lent(struct dmi_conn *conn);
/* Memory for records, for a new connection. False: there is none. */
bool dmi_receive_begin_in(struct dmi_conn *conn);
void dmi_receive_free_in(struct dmi_conn *conn); /* nothing if there is none */

/* lend.c: all called by the daemon */
/* In net->lent: no thread may borrow, as the loop has ended, or as the daemon keeps them. */
#define DMI_NET_ENDED 0x80000000u
#define DMI_NET_KEPT 0x40000000u
bool dmi_lend_open(struct dmi_net *net);
void dmi_lend_close(struct dmi_net *net);
/* Before the daemon sleeps: looks for more messages for a while, if one has come and it pays. */
void dmi_lend_look(struct dmi_net *net);
bool dmi_lend_begin(struct dmi_conn *conn); /* for a new connection; false: no memory */
void dmi_lend_end(struct dmi_conn *conn);   /* before it is freed; it must not be lent */
void dmi_lend_eof(struct dmi_conn *conn);   /* nothing more arrives on it */
void dmi_lend_loose(struct dmi_net *net);   /* receives from those in net->loose; may free them */
void dmi_lend_sleep(struct dmi_net *net);   /* the loop is going to sleep */
void dmi_lend_wake(struct dmi_net *net);    /* it has slept */
/* receives if a borrower left that to the daemon; may free it */
void dmi_lend_resume(struct dmi_conn *conn);
/* Before ending a connection whose receiving side is open. False: it is lent, and dmi_peer_serve
 * will be called when it is given back. */
bool dmi_lend_take(struct dmi_conn *conn);
/* After dmi_lend_take, when sending has failed: receives what has arrived. True: it was freed, or
 * more may have arrived, and dmi_peer_serve will be called. */
bool dmi_lend_rest(struct dmi_conn *conn);
/* after the loop: waits until all connections are given back */
void dmi_lend_settle(struct dmi_net *net);
/* Sets the connection on which messages to the peer are sent; NULL: none. */
void dmi_lend_way_out(struct dmi_net_peer *peer, struct dmi_conn *conn);

/* conn.c */
/* Takes over the link after the handshake; the peer's state becomes UP. `keys`: seals everything
 * from here on; NULL: without sealing. Returns NULL if there is no memory. */
struct dmi_conn *dmi_conn_new(struct dmi_net_peer *peer, struct dmi_link *link, bool member,
                              uint16_t their_port, const struct dmi_proof_keys *keys);
void dmi_conn_lose(struct dmi_conn *conn, const char *why); /* frees it; calls handler.lost */
bool dmi_conn_eof(struct dmi_conn *conn);            /* nothing more arrives; false: it was freed */
void dmi_conn_await_writable(struct dmi_conn *conn); /* then the daemon goes on sending */
void dmi_conn_end(struct dmi_conn *conn);            /* FIN is sent; may free it */
void dmi_conn_free_all(struct dmi_net *net);

/* alive.c */
/* true if this errno of a link says that the machine is silent */
bool dmi_alive_is_silence(int error);
/* true if it says that the other end has closed the connection, and takes no more: what it sent
 * before may still be to be received */
bool dmi_alive_is_closed(int error);
/* Writes why a connection is lost: "WHAT: error", or how long its machine has been silent. */
void dmi_alive_why(const struct dmi_net *net, char why[DMI_NET_WHY], const char *what, int error);
/* True if data is in flight; nothing came back since `*since`. Otherwise *since is `now`. */
bool dmi_alive_is_waiting(struct dmi_link *link, double now, double *since);
void dmi_alive_open(struct dmi_net *net);
void dmi_alive_close(struct dmi_net *net);
/* Something was sent: makes the daemon check from now on whether it arrives. Any thread. True:
 * call dmi_net_wake. */
bool dmi_alive_need(struct dmi_net *net);
/* in the daemon: begins the checks that dmi_alive_need asked for */
void dmi_alive_begin(struct dmi_net *net);

/* addr.c */
socklen_t dmi_addr_to_socket(const struct dmi_addr *addr, struct sockaddr_storage *out);
void dmi_addr_of_socket(struct dmi_addr *addr, const struct sockaddr_storage *in);
bool dmi_addr_is_ipv4(const struct dmi_addr *addr);
bool dmi_addr_is_loopback(const struct dmi_addr *addr);
/* True for fe80::/10. Such an address needs a scope, which struct dmi_addr does not have because
 * it differs from host to host. */
bool dmi_addr_is_link_local(const struct dmi_addr *addr);
bool dmi_addr_is_any(const struct dmi_addr *addr);  /* the ip is all zero */
bool dmi_addr_is_zero(const struct dmi_addr *addr); /* unknown: ip or port is zero */
const char *dmi_addr_text(const struct dmi_addr *addr, char out[80]); /* "10.0.0.1 port 7880" */

#endif
