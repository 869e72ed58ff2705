/*
 * lend.c - who receives on a connection: the daemon, or a thread that waits for an answer.
 *
 * docs/wire.md has the diagram and table of the turn. One epoll descriptor watches all connections,
 * and libev watches that, so any thread can arm and disarm a connection.
 *
 * Failure modes: no event descriptor is left (nobody borrows; the daemon receives); the connection
 * fails while it is lent (the borrower leaves that to the daemon).
 *
 * Must not: log, free or end a connection in a borrower; wait for a borrower in the daemon while
 * the loop runs, but for dmi_net_keep: a borrower handles answers only, and waits for nobody.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/doing.h"
#include "base/futex.h"
#include "base/lock.h"
#include "net/net_int.h"

/* Epoll always reports the end of a connection, even without EPOLLIN; with EPOLLET it does so
 * only once. */
#define ARMED EPOLLIN
#define DISARMED EPOLLET

#define SPINS 32       /* looks at memory before a yield: about a microsecond */
#define READY_ROUNDS 8 /* rounds of a look in which sockets are looked at once */
#define LATE_ROUNDS 8  /* rounds that serve what came while others computed: more is much */
#define STREAK 2       /* messages in a row before a connection is quiet, which costs two calls */

#define NOT_LENT (DMI_NET_ENDED | DMI_NET_KEPT)

static bool arm(struct dmi_conn *conn, int how, uint32_t events) {
  struct epoll_event event = {.events = events, .data = {.ptr = conn}};
  return epoll_ctl(conn->net->epoll, how, conn->link->in, &event) == 0;
}

/* ---- The daemon's side ----------------------------------------------------------------------- */

/* Epoll tells of more bytes no more, or again.  With the turn lock held. */
static void deafen(struct dmi_conn *conn) {
  if (!conn->deaf) arm(conn, EPOLL_CTL_MOD, DISARMED);
  conn->deaf = true;
}

static void hear(struct dmi_conn *conn) {
  if (!conn->deaf || conn->quiet) return;
  arm(conn, EPOLL_CTL_MOD, ARMED);
  conn->deaf = false;
}

/* The daemon looks at this connection all the time: until it stops that, epoll need not be told of
 * each message, which its sender would pay for. */
static void hush(struct dmi_conn *conn) {
  struct dmi_net *net = conn->net;
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  if (conn->turn == DMI_TURN_FREE && !dmi_link_has_arm(conn->link)) {
    deafen(conn);
    conn->quiet = true;
    net->quiet = conn;
  }
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
}

/* Who has borrowed it arms it when it gives it back; who leaves it to the daemon, not before that
 * has received. */
static void unhush(struct dmi_net *net) {
  struct dmi_conn *conn = net->quiet;
  if (conn == NULL) return;
  net->quiet = NULL;
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  conn->quiet = false;
  if (conn->turn == DMI_TURN_FREE) hear(conn);
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
}

/* If the link has to be armed, the daemon does that before it sleeps, not each time that it has
 * received something. */
static void loosen(struct dmi_conn *conn) {
  struct dmi_net *net = conn->net;
  if (conn->loose || !dmi_link_has_arm(conn->link)) return;
  conn->loose = true;
  conn->loose_next = net->loose;
  net->loose = conn;
  if (net->asleep) ev_async_send(net->loop, &net->wake); /* it is not going to sleep after all */
}

static void unlist(struct dmi_conn *conn) {
  struct dmi_conn **at = &conn->net->loose;
  if (!conn->loose) return;
  while (*at != conn)
    at = &(*at)->loose_next;
  *at = conn->loose_next;
  conn->loose = false;
  if (conn->net->loose_at == conn) conn->net->loose_at = conn->loose_next;
}

/* Takes the turn if it is still `from`.  *later: not now, as a large body is arriving there. */
static bool take_turn(struct dmi_conn *conn, enum dmi_turn from, bool *later) {
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  bool mine = conn->turn == from;
  if (mine && later != NULL && dmi_receive_is_long(conn)) {
    *later = true;
    mine = false;
  }
  if (mine) conn->turn = DMI_TURN_DAEMON;
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
  return mine;
}

/* Receives, and gives the turn back.  False: it was freed. */
static bool receive(struct dmi_conn *conn) {
  _Atomic uint32_t *lock;
  struct dmi_net *net = conn->net;
  uint64_t heard = atomic_load_explicit(&conn->heard, memory_order_relaxed);
  if (!dmi_receive(conn)) return false;
  if (atomic_load_explicit(&conn->heard, memory_order_relaxed) != heard && conn->member) {
    net->served = true;
    net->streak = net->hot == conn ? net->streak + 1 : 1;
    net->hot = conn;
  }
  lock = &conn->peer->turn_lock; /* the peer may have been renamed */
  dmi_lock(lock, DMI_RANK_TURN);
  if (conn->turn == DMI_TURN_DAEMON) { /* otherwise the connection has ended */
    conn->turn = DMI_TURN_FREE;
    hear(conn);
    loosen(conn);
  }
  dmi_unlock(lock, DMI_RANK_TURN);
  return true;
}

/* Of those in net->loose, all for which it is right now (*later: not NULL), or all. */
static void receive_loose(struct dmi_net *net, bool *later) {
  for (struct dmi_conn *conn = net->loose; conn != NULL; conn = net->loose_at) {
    net->loose_at = conn->loose_next; /* changes if that one ends */
    if (take_turn(conn, DMI_TURN_FREE, later)) receive(conn);
  }
}

void dmi_lend_loose(struct dmi_net *net) {
  bool later = false;
  receive_loose(net, &later);
  if (later) receive_loose(net, NULL);
}

void dmi_lend_sleep(struct dmi_net *net) {
  struct dmi_conn *conn, **at = &net->loose;
  bool more = false;
  if (ev_async_pending(&net->wake)) return; /* then the loop does not sleep */
  while ((conn = *at) != NULL) {
    dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
    bool stays = conn->turn == DMI_TURN_FREE && !dmi_link_arm(conn->link);
    dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
    if (stays) {
      more = true;
      at = &conn->loose_next;
    } else {
      conn->loose = false;
      *at = conn->loose_next;
    }
  }
  net->asleep = true;
  if (more) ev_async_send(net->loop, &net->wake);
}

void dmi_lend_wake(struct dmi_net *net) {
  net->asleep = false;
}

/* Epoll has told of a connection that is lent: the borrower looks at it, and is not going to sleep
 * before it has made epoll deaf itself. */
static void pass_by(struct dmi_conn *conn) {
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  if (conn->turn == DMI_TURN_LENT) deafen(conn);
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
}

/* Receives on all connections that have something.  Those on which a large body is arriving come
 * last: what comes on the others is short, and somebody may wait for its answer. */
static void serve_ready(struct dmi_net *net) {
  struct epoll_event ready[DMI_NET_BATCH];
  int num = epoll_wait(net->epoll, ready, DMI_NET_BATCH, 0);
  for (int i = 0; i < num; i++)
    net->batch[i] = ready[i].data.ptr;
  net->batch_num = num < 0 ? 0 : num;
  for (int i = 0; i < net->batch_num; i++) {
    struct dmi_conn *conn = net->batch[i];
    bool later = false;
    if (conn == NULL) continue;
    if (take_turn(conn, DMI_TURN_FREE, &later))
      receive(conn);
    else if (!later)
      pass_by(conn);
    if (!later) net->batch[i] = NULL;
  }
  for (int i = 0; i < net->batch_num; i++) {
    struct dmi_conn *conn = net->batch[i];
    if (conn != NULL && take_turn(conn, DMI_TURN_FREE, NULL)) receive(conn);
  }
  net->batch_num = 0;
}

static void on_ready(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  serve_ready(io->data);
}

/* The connection served last is looked at in each round, so that it may be quiet; but not while a
 * large body is arriving on it (`later`), which takes its turn among the others. */
static void keep_quiet(struct dmi_net *net, bool later) {
  struct dmi_conn *hot = net->hot;
  if (net->quiet != NULL && (net->quiet != hot || later)) unhush(net);
  if (net->quiet == NULL && hot != NULL && !later && net->streak >= STREAK) hush(hot);
}

/* True if something came.  The connection served last is asked first; those that take a system
 * call not each time, if there are others. */
static bool serve(struct dmi_net *net, uint32_t round) {
  struct dmi_conn *hot = net->hot;
  bool later = false;
  net->served = false;
  if (hot != NULL && take_turn(hot, DMI_TURN_FREE, &later)) receive(hot);
  keep_quiet(net, later);
  if (!net->served) dmi_lend_loose(net);
  if (!net->served && (net->loose == NULL || round % READY_ROUNDS == 0)) serve_ready(net);
  dmi_send_dirty(net);
  return net->served;
}

/* True if there is other work, of this thread or others, which is done in the loop. */
static bool is_asked(struct dmi_net *net) {
  return ev_async_pending(&net->wake) || ev_pending_count(net->loop) > 0;
}

/* Looks at memory for about a microsecond.  True: there is something to do. */
static bool spin(struct dmi_net *net) {
  for (int i = 0; i < SPINS; i++) {
    if (is_asked(net)) return true;
    for (struct dmi_conn *conn = net->loose; conn != NULL; conn = conn->loose_next) {
      if (dmi_link_seems(conn->link)) return true;
    }
    dmi_relax();
  }
  return false;
}

/* A large body is arriving there, for the daemon to receive. */
static bool is_long(struct dmi_conn *conn) {
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  bool large = conn->turn == DMI_TURN_FREE && dmi_receive_is_long(conn);
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
  return large;
}

/* A thread that computes has had the processor for long.  Serves what has come meanwhile; true if
 * somebody has waited for that: another process, which is answered, or who sends something long, or
 * a thread that is woken. */
static bool is_late(struct dmi_net *net) {
  const uint64_t queued = net->queued, wakes = dmi_wakes;
  bool more = true;
  for (int i = 0; i < LATE_ROUNDS && more; i++)
    more = serve(net, 0);
  if (more || (net->hot != NULL && is_long(net->hot))) return true;
  return net->queued != queued || dmi_wakes != wakes || is_asked(net);
}

/* Looks for what comes next, and for what others ask. */
static void look_around(struct dmi_net *net, const struct dmi_look_rule *rule) {
  struct dmi_look_one one;
  int64_t now;
  net->looks++;
  net->streak = 0;
  dmi_look_begin(&one, rule, dmi_clock_ns());
  for (uint32_t round = 0;; round++) {
    bool news = serve(net, round);
    if (is_asked(net)) {
      net->served = one.found || news; /* goes on behind it */
      return;
    }
    now = dmi_clock_ns();
    if (news) dmi_look_news(&one, now);
    if (net->loose != NULL && dmi_look_spins(&one, &net->look, now) && spin(net)) continue;
    dmi_look_yields(&one, now);
    sched_yield();
    if (!dmi_look_goes_on(&one, dmi_clock_ns())) break;
  }
  if (one.is == DMI_LOOK_CROWDED && !is_late(net)) one.is = DMI_LOOK_UNMISSED;
  dmi_look_end(&net->look, rule, one.is);
  net->served = one.is == DMI_LOOK_PAID;
  if (net->served)
    ev_async_send(net->loop, &net->wake); /* its turn is over, but the loop shall not sleep */
}

void dmi_lend_look(struct dmi_net *net) {
  const struct dmi_look_rule *rule = &net->config.look;
  if (!net->served || net->full != 0 || is_asked(net)) return;
  net->served = false;
  if (dmi_look_rests(&net->look, rule)) return;
  look_around(net, rule);
  unhush(net);
}

bool dmi_lend_open(struct dmi_net *net) {
  net->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (net->epoll < 0) return false;
  ev_io_init(&net->ready, on_ready, net->epoll, EV_READ);
  net->ready.data = net;
  ev_io_start(net->loop, &net->ready);
  return true;
}

void dmi_lend_close(struct dmi_net *net) {
  ev_io_stop(net->loop, &net->ready);
  close(net->epoll);
}

bool dmi_lend_begin(struct dmi_conn *conn) {
  conn->turn = DMI_TURN_FREE;
  if (!arm(conn, EPOLL_CTL_ADD, ARMED)) return false;
  loosen(conn);
  return true;
}

void dmi_lend_end(struct dmi_conn *conn) {
  struct dmi_net *net = conn->net;
  _Atomic uint32_t *lock = &conn->peer->turn_lock;
  dmi_lock(lock, DMI_RANK_TURN);
  bool lent = conn->turn == DMI_TURN_LENT;
  if (conn->turn != DMI_TURN_OVER) arm(conn, EPOLL_CTL_DEL, 0);
  conn->turn = DMI_TURN_OVER;
  dmi_unlock(lock, DMI_RANK_TURN);
  if (lent) {
    fprintf(stderr, "dmi: bug: a connection ends while a thread receives on it\n");
    abort();
  }
  for (int i = 0; i < net->batch_num; i++) {
    if (net->batch[i] == conn) net->batch[i] = NULL;
  }
  unlist(conn);
  if (net->hot == conn) net->hot = NULL;
  if (net->quiet == conn) net->quiet = NULL;
}

void dmi_lend_eof(struct dmi_conn *conn) {
  dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
  conn->turn = DMI_TURN_OVER;
  arm(conn, EPOLL_CTL_DEL, 0); /* otherwise epoll would report EOF again and again */
  dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
}

void dmi_lend_resume(struct dmi_conn *conn) {
  if (take_turn(conn, DMI_TURN_OWED, NULL)) receive(conn);
}

bool dmi_lend_rest(struct dmi_conn *conn) {
  uint64_t heard = atomic_load_explicit(&conn->heard, memory_order_relaxed);
  if (!take_turn(conn, DMI_TURN_FREE, NULL)) return false;
  if (!receive(conn)) return true;
  if (atomic_load_explicit(&conn->heard, memory_order_relaxed) == heard) return false;
  if (dmi_net_need_daemon(conn->peer)) dmi_net_wake(conn->net);
  return true;
}

void dmi_lend_way_out(struct dmi_net_peer *peer, struct dmi_conn *conn) {
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  peer->conn = conn;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
}

bool dmi_lend_take(struct dmi_conn *conn) {
  struct dmi_net_peer *peer = conn->peer;
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  bool lent = conn->turn == DMI_TURN_LENT;
  conn->wanted = true;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  if (lent) dmi_net_nudge(peer->nudge); /* set once, by the first thread that borrows */
  return !lent;
}

/* Lends no more, and waits until all is given back. */
static void call_back(struct dmi_net *net, uint32_t why) {
  uint32_t left;
  atomic_fetch_or(&net->lent, why);
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->conn != NULL) dmi_lend_take(peer->conn);
  }
  while (((left = atomic_load(&net->lent)) & ~NOT_LENT) != 0)
    dmi_futex_wait(&net->lent, left);
}

void dmi_lend_settle(struct dmi_net *net) {
  call_back(net, DMI_NET_ENDED);
}

void dmi_net_keep(struct dmi_net *net) {
  call_back(net, DMI_NET_KEPT);
}

void dmi_net_lend(struct dmi_net *net) {
  for (struct dmi_conn *conn = net->conns; conn != NULL; conn = conn->next) {
    dmi_lock(&conn->peer->turn_lock, DMI_RANK_TURN);
    conn->wanted = false;
    dmi_unlock(&conn->peer->turn_lock, DMI_RANK_TURN);
  }
  atomic_fetch_and(&net->lent, ~DMI_NET_KEPT);
}

/* ---- The borrower's side --------------------------------------------------------------------- */

/* With the turn lock held: true if lending did not pay lately, so this chance is passed over. */
static bool rests(struct dmi_net_peer *peer) {
  if (peer->lend_rest == 0) return false;
  peer->lend_rest--;
  return true;
}

/* With the turn lock held. */
static bool can_borrow(struct dmi_net_peer *peer) {
  struct dmi_conn *conn = peer->conn;
  if (conn == NULL || conn->turn != DMI_TURN_FREE || conn->wanted) return false;
  if (!conn->member || !conn->spoken) return false;
  if (!dmi_receive_can_lend(conn)) return false;
  if ((atomic_load(&peer->net->lent) & NOT_LENT) != 0 || rests(peer)) return false;
  if (peer->nudge < 0) peer->nudge = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return peer->nudge >= 0;
}

int dmi_net_borrow(struct dmi_net *net, uint32_t uid, struct dmi_net_loan *loan) {
  if (uid >= DMI_NET_TEMP || !net->handler.lends || dmi_net_is_daemon(net)) return -1;
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer == NULL) return -1;
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  bool can = can_borrow(peer);
  if (can) {
    *loan = (struct dmi_net_loan){.net = net, .peer = peer, .conn = peer->conn};
    peer->conn->turn = DMI_TURN_LENT;
    if (!dmi_link_has_arm(peer->conn->link)) deafen(peer->conn); /* else before it sleeps */
    atomic_fetch_add(&net->lent, 1);
  }
  int nudge = can ? peer->nudge : -1;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  return nudge;
}

/* Without the lock: who wants it nudges a borrower, too. */
static bool is_wanted(const struct dmi_net_loan *loan) {
  return atomic_load_explicit(&loan->conn->wanted, memory_order_acquire);
}

static bool waits(const _Atomic uint32_t *word, uint32_t bit) {
  return (atomic_load_explicit(word, memory_order_acquire) & bit) != 0;
}

/* True if it is worth to call receive.  For the rest of something long that is found out without
 * the lock of the socket, for which what arrives would have to wait. */
static bool may_receive(const struct dmi_conn *conn) {
  struct pollfd in = {.fd = conn->link->in, .events = POLLIN};
  if (dmi_link_has_arm(conn->link) || !dmi_receive_is_long(conn)) return true;
  return poll(&in, 1, 0) != 0;
}

/* Looks at memory for about a microsecond.  True: there may be something to receive, or no need. */
static bool spin_lent(struct dmi_conn *conn, const _Atomic uint32_t *word, uint32_t bit) {
  for (int i = 0; i < SPINS; i++) {
    if (dmi_link_seems(conn->link) || !waits(word, bit)) return true;
    dmi_relax();
  }
  return false;
}

/* Receives what has come.  True: there is no need to look for more. */
static bool look_once(struct dmi_net_loan *loan, struct dmi_look_one *one, int64_t *now) {
  struct dmi_conn *conn = loan->conn;
  uint64_t heard = atomic_load_explicit(&conn->heard, memory_order_relaxed);
  loan->owed = may_receive(conn) && !dmi_receive_lent(conn);
  *now = dmi_clock_ns(); /* handling what has come may take longer than a yield */
  if (atomic_load_explicit(&conn->heard, memory_order_relaxed) != heard) {
    loan->used = true;
    dmi_look_news(one, *now);
  }
  if (!loan->owed && is_wanted(loan)) loan->owed = true; /* the daemon may stand until then */
  return loan->owed;
}

/* Receives, without sleeping, until there is no need to wait any more, or it does not pay.  The
 * processor is offered to others all the time: one that computes keeps it for milliseconds, and
 * then a thread that sleeps is woken earlier than one that looks. */
static enum dmi_look_is look(struct dmi_net_loan *loan, const _Atomic uint32_t *word, uint32_t bit,
                             int64_t now) {
  struct dmi_conn *conn = loan->conn;
  const bool spins = dmi_link_has_arm(conn->link);
  bool early = !spins && dmi_look_is_early(loan->look);
  struct dmi_look_one one;
  dmi_look_begin(&one, &loan->net->config.look, now);
  for (;; early = false) {
    if (!early && look_once(loan, &one, &now)) return DMI_LOOK_PAID;
    if (!waits(word, bit)) {
      if (!early) dmi_doing_found(now);
      return DMI_LOOK_PAID;
    }
    dmi_look_follows(&one, dmi_receive_is_long(conn));
    if (spins && dmi_look_spins(&one, loan->look, now) && spin_lent(conn, word, bit)) continue;
    dmi_look_yields(&one, now);
    sched_yield();
    const bool goes_on = dmi_look_goes_on(&one, dmi_clock_ns());
    loan->look->shared = one.shared;
    if (!goes_on) break;
  }
  if (one.is == DMI_LOOK_CROWDED || one.is == DMI_LOOK_BUSY) return one.is;
  return one.follows ? DMI_LOOK_MIXED : DMI_LOOK_VAIN; /* what came was for others */
}

/* Looks, unless that did not pay lately. */
static void may_look(struct dmi_net_loan *loan, const _Atomic uint32_t *word, uint32_t bit) {
  const struct dmi_look_rule *rule = &loan->net->config.look;
  if (loan->look == NULL || dmi_look_rests(loan->look, rule)) return;
  const int64_t began = dmi_doing_began();
  dmi_look_end(loan->look, rule, look(loan, word, bit, began != 0 ? began : dmi_clock_ns()));
}

/* Looks for the rest of a large body of which a part has just come. */
static void may_follow(struct dmi_net_loan *loan, const _Atomic uint32_t *word, uint32_t bit) {
  const struct dmi_look_rule *rule = &loan->net->config.look;
  if (loan->look == NULL || loan->owed || !waits(word, bit)) return;
  if (!dmi_receive_is_long(loan->conn) || !dmi_look_may_follow(loan->look, rule)) return;
  if (look(loan, word, bit, dmi_clock_ns()) == DMI_LOOK_CROWDED)
    dmi_look_end(loan->look, rule, DMI_LOOK_CROWDED);
}

/* What comes from now on is for the borrower, which sleeps on it, and not for the daemon. */
static void sleeps(struct dmi_net_loan *loan) {
  dmi_lock(&loan->peer->turn_lock, DMI_RANK_TURN);
  deafen(loan->conn);
  dmi_unlock(&loan->peer->turn_lock, DMI_RANK_TURN);
}

/* Sleeps until something has come, and receives it. */
static void sleep_once(struct dmi_net_loan *loan) {
  struct dmi_conn *conn = loan->conn;
  struct pollfd fds[2] = {{.fd = conn->link->in, .events = POLLIN},
                          {.fd = loan->peer->nudge, .events = POLLIN}};
  const size_t least = dmi_receive_least(conn);
  loan->sleeps++;
  sleeps(loan);
  if (least > 1) dmi_link_await(conn->link, least);
  if (!dmi_link_arm(conn->link))
    fds[0].revents = POLLIN;
  else if (poll(fds, 2, -1) < 0 && errno != EINTR)
    loan->owed = true;
  if (least > 1) dmi_link_await(conn->link, 1);
  if (fds[1].revents != 0) {
    uint64_t count;
    if (read(fds[1].fd, &count, sizeof count) > 0 && is_wanted(loan)) loan->owed = true;
  }
  if (fds[0].revents != 0 && !loan->owed) {
    loan->owed = !dmi_receive_lent(conn);
    loan->used = true;
  }
}

void dmi_net_receive(struct dmi_net_loan *loan, _Atomic uint32_t *word, uint32_t bit) {
  may_look(loan, word, bit);
  while (!loan->owed && waits(word, bit)) {
    sleep_once(loan);
    may_follow(loan, word, bit);
  }
}

void dmi_net_give_back(struct dmi_net_loan *loan) {
  struct dmi_net *net = loan->net;
  struct dmi_net_peer *peer = loan->peer;
  bool wake = false;
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  if (loan->owed || loan->conn->wanted) {
    uint32_t step = peer->lend_step;
    peer->lend_rest = step;
    peer->lend_step = step == 0 ? 1 : step < DMI_NET_LEND_REST ? 2 * step : step;
    loan->conn->turn = DMI_TURN_OWED;
    wake = dmi_net_need_daemon(peer);
  } else {
    if (loan->used) peer->lend_step = 0;
    if (dmi_link_arm(loan->conn->link)) {
      loan->conn->turn = DMI_TURN_FREE;
      hear(loan->conn);
    } else { /* more has come */
      loan->conn->turn = DMI_TURN_OWED;
      wake = dmi_net_need_daemon(peer);
    }
  }
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  if (wake) dmi_net_wake(net);
  /* The last access to the net: after it dmi_net_run may return. */
  uint32_t left = atomic_fetch_sub(&net->lent, 1) - 1;
  if ((left & NOT_LENT) != 0 && (left & ~NOT_LENT) == 0) dmi_futex_wake(&net->lent, 1);
}

void dmi_net_nudge(int nudge) {
  uint64_t one = 1;
  dmi_wakes++;
  if (write(nudge, &one, sizeof one) < 0) return; /* full: a wake-up is pending already */
}
