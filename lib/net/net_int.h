/*
 * net_int.h - peers, connections and the loop: what the files of lib/net share.  Nobody else
 * includes it.
 *
 *   net.c        the loop: open, run, stop, post, what other threads ask the daemon to do
 *   peer.c       who there is: table of ids, add, rename, close
 *   outgoing.c   the queue of a peer
 *   send.c       writing it out from any thread
 *   lend.c       who receives on a connection: the daemon, or a thread that waits
 *   receive.c    a connection's incoming bytes -> handler.body, handler.message
 *   conn.c       an established connection: birth, orderly end, loss
 *   alive.c      whose machine is silent, and whose daemon is
 *   addr.c       addresses as bytes, the system's structs and text
 *   tcp.c        the transport below all of them (transport.h)
 * and those of connect_int.h, for what comes before a connection stands.
 *
 * Threads and locks: everything is the daemon's alone, except what is marked
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
#include "net/connect_int.h"
#include "net/net.h"
#include "net/seal.h"
#include "net/transport.h"
#include "msg/wire.h"

#define DMI_NET_COPY 512           /* payloads up to this many bytes are copied into the queue */
#define DMI_NET_BUFFER (64 * 1024) /* of a member's connection, incoming */
#define DMI_NET_BUFFER_SMALL 4096  /* of a stranger's */
#define DMI_NET_PATIENCE 10.0      /* seconds: handshake, connect, first word of a stranger */
#define DMI_ALIVE_LOOKS 8.0        /* in config.dead_after: whether a machine is silent */
#define DMI_NET_STRANGERS 1024     /* connections at once that have no uid */
#define DMI_NET_UNANNOUNCED 256    /* members that connected before we heard of them */
#define DMI_NET_TEMP_SLOTS 256
#define DMI_NET_RECORDS 2 /* sealed at once, and room for twice as many that come */
#define DMI_NET_IN (2 * DMI_NET_RECORDS * (DMI_SEAL_MOST + DMI_SEAL_OVER))
#define DMI_NET_BATCH 64 /* connections that are served per look at net->epoll */
/* Chances to borrow passed over, at most, when lending does not pay. */
#define DMI_NET_LEND_REST 64

/* A piece of a peer's queue: bytes (headers and small payloads, copied), then one big payload. */
struct dmi_seg {
  struct dmi_seg *next;
  uint32_t start;       /* [L] of bytes: sent up to here */
  uint32_t end;         /* [L] filled up to here */
  uint64_t sent;        /* [L] bytes of `big` that are sent */
  struct dmi_slice big; /* len 0: none (yet); a segment with one takes no more bytes */
  unsigned char bytes[4096 - 64];
};

/* Records of a connection that seals: those that are not sent yet. */
struct dmi_sealed {
  struct dmi_seal *seal; /* of the writing thread */
  size_t start, end;     /* [L] of bytes: what is not sent */
  unsigned char
      bytes[DMI_NET_RECORDS * (DMI_SEAL_MOST + DMI_SEAL_OVER)]; /* of the writing thread */
};

/*
 * What we do towards a peer:
 *
 *            send or dial             HELLO done
 *    IDLE -----------------> DIALING ------------> UP --------------> SHUT
 *      |                        |                  |   close, queue    ^
 *      | close                  | failed           | broken    empty   |
 *      |                        v                  v                   |
 *      |                       LOST <--------------+                   |
 *      +---------------------------------------------------------------+
 *
 * An accepted connection goes from IDLE or DIALING to UP.  In SHUT and LOST what is sent is
 * dropped.  Who was closed and is lost then is SHUT, too; who only called itself by a number that
 * nobody has announced, and is lost, is IDLE again.  The table of moves is in peer.c.
 */
enum dmi_peer_state {
  DMI_PEER_IDLE,
  DMI_PEER_DIALING,
  DMI_PEER_UP,
  DMI_PEER_SHUT,
  DMI_PEER_LOST,
  DMI_PEER_STATES
};

struct dmi_conn;

/* Another process.  Those with a uid live until dmi_net_free, temporary ones until renamed or gone.
 */
struct dmi_net_peer {
  struct dmi_net *net;
  struct dmi_mutex lock;
  uint32_t id;               /* uid or temporary id */
  enum dmi_peer_state state; /* [L] set by dmi_peer_move */
  struct dmi_link *link;     /* [L] of `conn`, for writing; NULL unless UP */
  int broken;                /* [L] errno of a failed write, 0: none.  The daemon ends it then */
  bool closing;              /* [L] dmi_net_close was called: no more messages */
  bool barred;               /* [L] dmi_net_bar was called: no more of other threads */
  bool writing; /* [L] a thread is writing the queue out and has head..; it looks again */
  bool blocked; /* [L] the socket is full: the daemon waits for it */
  bool ended;   /* [L] FIN is in the queue or sent */
  struct dmi_seg *head, *tail; /* [L] the queue; only the writing thread takes segments out */
  /* [L] large messages, each a header and its body; `sent` bytes of it have gone over to the
   * queue, which is not empty meanwhile */
  struct dmi_seg *bulk, *bulk_tail;
  struct dmi_sealed *out;         /* [L] UP, and everything is sealed; else NULL */
  struct dmi_seg *spare;          /* [L] recycled segments */
  uint32_t spares;                /* [L] how many */
  bool listed;                    /* [W] in net->work */
  struct dmi_net_peer *work_next; /* [W] */
  bool dirty;                     /* in net->dirty: sent by the daemon, flushed before it sleeps */
  struct dmi_net_peer *dirty_next;
  uint64_t sent;         /* [L] bytes handed to the system */
  bool pinged;           /* PING has no answer */
  bool announced;        /* dmi_net_add_peer or dmi_net_rename named it */
  struct dmi_addr addr;  /* where it listens; all zero: unknown */
  struct dmi_conn *conn; /* [R] the connection it is sent on */
  struct dmi_mutex turn_lock;
  int nudge;                        /* [R] event descriptor of who borrows; -1: nobody has yet */
  uint32_t lend_rest;               /* [R] chances to borrow that are passed over from now on */
  uint32_t lend_step;               /* [R] as many the next time */
  struct dmi_dial *dial;            /* our attempt */
  struct dmi_handshake *deferred;   /* its attempt, not answered while ours is under way */
  struct dmi_net_peer *temp_next;   /* [T] same slot of net->temp */
  struct dmi_net_peer *prev, *next; /* net->peers */
};

enum dmi_receive_phase { DMI_RECEIVE_HEADER, DMI_RECEIVE_LIST, DMI_RECEIVE_BODY };

/* Who receives on a connection: diagram and table in docs/wire.md. */
enum dmi_turn { DMI_TURN_FREE, DMI_TURN_DAEMON, DMI_TURN_LENT, DMI_TURN_OWED, DMI_TURN_OVER };

/* An established connection, incoming side. */
struct dmi_conn {
  struct dmi_net *net;
  struct dmi_net_peer *peer; /* whose messages these are; peer->conn is another one after a merge.
                                Does not change once `member` */
  struct dmi_link *link;
  enum dmi_turn turn;           /* [R] of `peer` */
  bool wanted;                  /* [R] the daemon wants it: not lent any more */
  struct ev_io writable;        /* active while peer->blocked */
  struct ev_timer patience;     /* strangers: say something; ended ones: close */
  bool member;                  /* may send what members may; set before others can find it */
  bool stranger;                /* counted in net->stranger_num: it has no uid yet */
  bool spoken;                  /* [C] has sent a whole message */
  bool got_end;                 /* [C] FIN has come: EOF is next */
  bool got_eof;                 /* its direction is finished */
  bool sent_end;                /* our direction is finished and shut */
  bool shut;                    /* by dmi_net_stop */
  int failed;                   /* [C] errno that a borrower met, 0: none */
  bool refused;                 /* [C] handler.message did not like `msg` */
  enum dmi_receive_phase phase; /* [C] and so are all from here to body_got */
  unsigned char *buf;           /* bytes received, not yet consumed: [start, end) */
  size_t cap, start, end;
  struct dmi_seal *opener; /* everything that comes is sealed; else NULL */
  bool tampered;           /* a record did not open */
  unsigned char *in;       /* records received, not yet opened: [in_start, in_end) */
  size_t in_start, in_end;
  struct dmi_msg msg;  /* the message that is arriving */
  unsigned char *list; /* its list, aligned; kept for the next one */
  size_t list_cap, list_got;
  unsigned char *body; /* where its body goes; NULL: away */
  uint64_t body_got;
  struct dmi_addr ours, theirs;
  _Atomic uint64_t heard;       /* [A] bytes received, written by whoever has the turn */
  bool waiting;                 /* at the last look something was on its way */
  double mute_since;            /* then: ev_now since which nothing has come back */
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

/* Whose lines: those about strangers must not use up the room of the others. */
enum dmi_net_about { DMI_ABOUT_OURS, DMI_ABOUT_STRANGERS };

/* How much has been said lately. */
struct dmi_net_limit {
  struct ev_timer end; /* of the time in which lines are counted */
  uint32_t lines;
};

struct dmi_net {
  struct dmi_net_config config;
  struct dmi_stream *stream; /* never NULL */
  struct dmi_net_handler handler;
  struct ev_loop *loop;
  struct dmi_transport *transport;
  struct ev_io listener; /* of transport->incoming */
  struct ev_timer rest;  /* the listener pauses */
  bool rested;           /* for want of a descriptor, and none was found since */
  struct dmi_right accepts, refusals;
  int epoll;                             /* receiving sides of all connections */
  struct ev_io ready;                    /* `epoll` has something */
  struct dmi_conn *batch[DMI_NET_BATCH]; /* what is being served; NULL: gone meanwhile */
  int batch_num;
  _Atomic uint32_t lent;    /* [A] connections that are lent, and DMI_NET_ENDED */
  struct ev_async wake;     /* work, posted or stop */
  struct ev_prepare before; /* flushes what the daemon sent */
  struct ev_timer alive;    /* looks at what is on its way: alive.c */
  _Atomic bool watching;    /* [A] it is active, or about to be */
  struct ev_signal interrupt, terminate, hangup;
  struct ev_timer ending; /* dmi_net_stop: looks whether all is sent */
  double ending_until;
  _Atomic bool posted; /* [A] */
  _Atomic bool stop;   /* [A] */
  bool expect_close;
  uint32_t uid; /* ours; 0: none */
  uint8_t program[16];
  uint16_t port;
  bool local;      /* the listener is at loopback only */
  bool short_said; /* that there is no descriptor for one more connection; till there is one */
  struct dmi_mutex work_lock;
  struct dmi_net_peer *work; /* [W] peers for which another thread needs the daemon */
  struct dmi_mutex temp_lock;
  struct dmi_net_peer *temp[DMI_NET_TEMP_SLOTS]; /* [T] temporary peers, chained */
  uint32_t next_temp;
  _Atomic(struct dmi_peer_mid *) dir[DMI_PEER_DIR]; /* [A] by uid; entries are set once */
  struct dmi_net_peer *peers;
  struct dmi_net_peer *dirty;
  struct dmi_conn *conns;
  struct dmi_unknown silent; /* have said no CALL yet, or a wrong one */
  struct dmi_unknown called; /* have said a CALL made with the key, or repeat one */
  /* Hashes of the last CALLs made with the key, in sets by hash.  Its memory is touched when they
   * come. */
  uint64_t calls[DMI_NET_CALLS][DMI_NET_CALLS_SET];
  unsigned char crowd_key[16];  /* so that nobody can tell which addresses share one */
  uint64_t accepted, evictions; /* connections; and those that made room */
  uint32_t stranger_num, unannounced;
  bool encrypt;                /* this process's setting, or that of the program it has joined */
  struct dmi_net_limit log[2]; /* by enum dmi_net_about */
  struct dmi_net *first;       /* accepts for this one; NULL: it listens itself */
  struct dmi_mutex beside_lock;
  struct dmi_net *beside;      /* [B] the one for which it accepts; NULL: none */
  struct dmi_handshake *given; /* [B] of `first`: accepted there, to be gone on with here */
};

/* net.c */
/* Seconds of a clock that nobody sets: for deadlines, and how long ago something was. */
double dmi_net_now(void);
/* May one more line be said?  It counts, as said or as left out. */
bool dmi_net_may_log(struct dmi_net *net, enum dmi_net_about about);
/* Says it, if dmi_net_may_log has said so. */
void dmi_net_say(struct dmi_net *net, enum dmi_net_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Both. */
void dmi_net_log(struct dmi_net *net, enum dmi_net_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Any thread, the peer's lock or turn_lock held: the daemon shall dmi_peer_serve it.  True: call
 * dmi_net_wake, after unlocking. */
bool dmi_net_need_daemon(struct dmi_net_peer *peer);
void dmi_net_wake(struct dmi_net *net);
bool dmi_net_is_daemon(struct dmi_net *net); /* does the caller run in its daemon? */
struct dmi_hello dmi_net_hello(struct dmi_net *net, uint8_t kind);

/* peer.c */
struct dmi_net_peer *dmi_peer_find(struct dmi_net *net,
                                   uint32_t id); /* the daemon only, or a uid */
/* Any thread: the peer with its lock held, or NULL. */
struct dmi_net_peer *dmi_peer_find_locked(struct dmi_net *net, uint32_t id);
struct dmi_net_peer *dmi_peer_new(struct dmi_net *net,
                                  uint32_t id); /* id DMI_NET_TEMP: a new one */
void dmi_peer_free_temp(struct dmi_net_peer *peer);
void dmi_peer_free_all(struct dmi_net *net);
/* Its lock is held. */
void dmi_peer_move(struct dmi_net_peer *peer, enum dmi_peer_state state);
/* Its connection or attempt is over: empties its queue, tells handler.lost if anybody should know.
 * A temporary peer is freed. */
void dmi_peer_lost(struct dmi_net_peer *peer, const char *why);
/* The daemon does for the peer what other threads could not: dial, wait for the socket, end. */
void dmi_peer_serve(struct dmi_net_peer *peer);

/* outgoing.c: lock held, but for dmi_outgoing_free and dmi_outgoing_drop_payloads */
#define DMI_NET_IOV 64 /* parts that are written at once */
static inline bool dmi_outgoing_is_empty(const struct dmi_net_peer *peer) {
  const struct dmi_seg *seg = peer->head;
  return seg == NULL || (seg->next == NULL && seg->start == seg->end && seg->big.len == 0);
}
bool dmi_outgoing_append(struct dmi_net_peer *peer, struct dmi_msg *msg); /* may lack memory */
/* Keeps the queue from being empty while there is bulk.  False: no memory. */
bool dmi_outgoing_refill(struct dmi_net_peer *peer);
/* The unsent bytes from the head on. */
size_t dmi_outgoing_gather(const struct dmi_net_peer *peer, struct iovec iov[DMI_NET_IOV]);
/* Takes `bytes` that were sent off the queue; returns the segments that are finished, whose
 * payloads are to be dropped, */
struct dmi_seg *dmi_outgoing_consume(struct dmi_net_peer *peer, uint64_t bytes);
void dmi_outgoing_drop_payloads(struct dmi_seg *list);
/* some of which become spares then; returns those too many, to be freed. */
struct dmi_seg *dmi_outgoing_keep_spares(struct dmi_net_peer *peer, struct dmi_seg *list);
struct dmi_seg *dmi_outgoing_take_all(struct dmi_net_peer *peer); /* and its spares */
void dmi_outgoing_free(struct dmi_seg *list);                     /* drops payloads */

/* send.c */
void dmi_send_flush(struct dmi_net_peer *peer);    /* any thread, lock not held */
bool dmi_send_writable(struct dmi_net_peer *peer); /* the socket has room: false: no more to send */
struct dmi_sealed *dmi_send_out(const unsigned char key[DMI_SEAL_KEY]); /* NULL: no memory */
void dmi_send_free_out(struct dmi_sealed *out);  /* nobody writes; NULL: nothing */
void dmi_send_settle(struct dmi_net_peer *peer); /* lock held: waits until nobody is writing */
void dmi_send_dirty(struct dmi_net *net);        /* flushes what the daemon sent */
bool dmi_send_idle(struct dmi_net_peer *peer);   /* nothing waits to be sent */

/* The handlers of class NET, in the daemon.  False: no correct peer sends it so. */
#define DMI_NET_MESSAGE(symbol, number, name, handler, ...) \
  bool handler(struct dmi_conn *conn, const struct dmi_msg *msg);
DMI_MSGS_NET(DMI_NET_MESSAGE)

/* receive.c: whoever has the turn */
/* The daemon: first what a borrower has left.  False: the connection is gone. */
bool dmi_receive(struct dmi_conn *conn);
/* With the turn FREE: false in the middle of a message that is for the daemon. */
bool dmi_receive_can_lend(struct dmi_conn *conn);
/* A borrower: what there is.  False: the daemon has to go on. */
bool dmi_receive_lent(struct dmi_conn *conn);

/* lend.c: the daemon's, all */
#define DMI_NET_ENDED 0x80000000u /* in net->lent: the loop is over, nobody borrows any more */
bool dmi_lend_open(struct dmi_net *net);
void dmi_lend_close(struct dmi_net *net);
bool dmi_lend_begin(struct dmi_conn *conn);  /* it is new; false: no memory */
void dmi_lend_end(struct dmi_conn *conn);    /* it is about to be freed; it must not be lent */
void dmi_lend_eof(struct dmi_conn *conn);    /* nothing more comes on it */
void dmi_lend_resume(struct dmi_conn *conn); /* goes on if a borrower owes it; may free it */
/* Before the end of a connection whose receiving side stands.  False: it is lent; dmi_peer_serve
 * will be called when it is back. */
bool dmi_lend_take(struct dmi_conn *conn);
void dmi_lend_settle(struct dmi_net *net); /* the loop is over: waits until all are back */
/* `conn` is the peer's way out from now on; NULL: none is. */
void dmi_lend_way_out(struct dmi_net_peer *peer, struct dmi_conn *conn);

/* conn.c */
/* Takes over the link, on which HELLOs are done; `peer` goes UP on it.  `keys`: everything is
 * sealed from here on; NULL: nothing is.  Returns NULL when there is no memory. */
struct dmi_conn *dmi_conn_new(struct dmi_net_peer *peer, struct dmi_link *link, bool member,
                              uint16_t their_port, const struct dmi_proof_keys *keys);
void dmi_conn_lose(struct dmi_conn *conn, const char *why); /* frees it; tells handler.lost */
bool dmi_conn_eof(struct dmi_conn *conn); /* nothing more comes; false: it is freed */
void dmi_conn_end(struct dmi_conn *conn); /* FIN is sent; may free it */
void dmi_conn_free_all(struct dmi_net *net);

/* alive.c */
bool dmi_alive_is_silence(int error); /* of a link: does it say that nothing comes back? */
/* Why a connection is lost: "WHAT: error", or how long its machine has been silent. */
void dmi_alive_why(const struct dmi_net *net, char why[DMI_NET_WHY], const char *what, int error);
/* Is something on its way?  Of it nothing may have come back since `*since`; else that is `now`. */
bool dmi_alive_is_waiting(struct dmi_link *link, double now, double *since);
void dmi_alive_open(struct dmi_net *net);
void dmi_alive_close(struct dmi_net *net);
/* Something was sent: whether it arrives is looked at from now on.  Any thread.  True: call
 * dmi_net_wake. */
bool dmi_alive_need(struct dmi_net *net);
void dmi_alive_begin(struct dmi_net *net); /* the daemon: what dmi_alive_need has asked for */

/* addr.c */
socklen_t dmi_addr_to_socket(const struct dmi_addr *addr, struct sockaddr_storage *out);
void dmi_addr_of_socket(struct dmi_addr *addr, const struct sockaddr_storage *in);
bool dmi_addr_is_ipv4(const struct dmi_addr *addr);
bool dmi_addr_is_loopback(const struct dmi_addr *addr);
/* fe80::/10: needs a scope, which struct dmi_addr does not have, as it differs from host to host.
 */
bool dmi_addr_is_link_local(const struct dmi_addr *addr);
bool dmi_addr_is_any(const struct dmi_addr *addr);  /* an ip of zeros */
bool dmi_addr_is_zero(const struct dmi_addr *addr); /* unknown: that, or no port */
const char *dmi_addr_text(const struct dmi_addr *addr, char out[80]); /* "10.0.0.1 port 7880" */

#endif
