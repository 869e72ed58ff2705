/*
 * net.c - the daemon's loop: opening, running, ending, and requests from other threads.
 *
 * Some work only the daemon can do: connect, wait for a full socket, close. Other threads put the
 * peer into net->work and wake the loop, and dmi_peer_serve does it here.
 *
 * Must not block, and must not depend on what messages mean.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "net/net_int.h"

#define ENDING_SECONDS 2.0 /* in which nothing has arrived */
#define ENDING_MOST 10.0   /* seconds in all: whoever reads a byte at a time holds up nobody */
#define ENDING_LOOK 0.001

/* The network whose daemon this thread is; NULL: none. */
static _Thread_local struct dmi_net *daemon_of;

double dmi_net_now(void) {
  return dmi_clock_s();
}

/* ---- What other threads ask for -------------------------------------------------------------- */

bool dmi_net_is_daemon(struct dmi_net *net) {
  return daemon_of == net;
}

bool dmi_net_need_daemon(struct dmi_net_peer *peer) {
  struct dmi_net *net = peer->net;
  dmi_mutex_lock(&net->work_lock);
  bool news = !peer->listed;
  if (news) {
    peer->listed = true;
    peer->work_next = net->work;
    net->work = peer;
  }
  dmi_mutex_unlock(&net->work_lock);
  return news;
}

void dmi_net_wake(struct dmi_net *net) {
  if (dmi_net_is_daemon(net))
    ev_feed_event(net->loop, &net->wake, EV_CUSTOM);
  else
    ev_async_send(net->loop, &net->wake);
}

void dmi_net_post(struct dmi_net *net) {
  if (!atomic_exchange(&net->posted, true)) ev_async_send(net->loop, &net->wake);
}

void dmi_net_stop(struct dmi_net *net) {
  atomic_store(&net->stop, true);
  ev_async_send(net->loop, &net->wake);
}

void dmi_net_halt(struct dmi_net *net) {
  atomic_store(&net->halt, true);
  ev_async_send(net->loop, &net->wake);
}

void dmi_net_finish(struct dmi_net *net) {
  net->expect_close = true;
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->conn != NULL) {
      dmi_net_close(net, peer->id);
    } else if (peer->dial != NULL) {
      dmi_dial_cancel(peer->dial);
      dmi_peer_lost(peer, "this process ends");
    }
  }
  dmi_net_stop(net);
}

/* Takes one peer at a time: serving it may free another one, which is then removed from the
 * list. */
static struct dmi_net_peer *next_work(struct dmi_net *net) {
  dmi_mutex_lock(&net->work_lock);
  struct dmi_net_peer *peer = net->work;
  if (peer != NULL) {
    net->work = peer->work_next;
    peer->listed = false;
  }
  dmi_mutex_unlock(&net->work_lock);
  return peer;
}

static void on_wake(struct ev_loop *loop, struct ev_async *async, int events) {
  (void)events;
  struct dmi_net *net = async->data;
  if (atomic_load(&net->halt)) {
    ev_break(loop, EVBREAK_ALL);
    return;
  }
  for (struct dmi_net_peer *peer; (peer = next_work(net)) != NULL;)
    dmi_peer_serve(peer);
  dmi_lend_loose(net);
  if (net->first != NULL) dmi_beside_take(net);
  dmi_beside_clean(net);
  if (atomic_exchange(&net->posted, false)) net->handler.posted(net->handler.arg);
  dmi_alive_begin(net);
  if (atomic_load(&net->stop) && !ev_is_active(&net->ending)) {
    ev_now_update(loop);
    net->ending_end = ev_now(loop) + ENDING_MOST;
    net->ending_until = ev_now(loop) + ENDING_SECONDS;
    ev_timer_again(loop, &net->ending);
  }
}

/* Before the loop sleeps: flushes what callbacks have sent, and looks for more. */
static void on_before(struct ev_loop *loop, struct ev_prepare *prepare, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = prepare->data;
  dmi_send_dirty(net);
  dmi_lend_look(net);
  dmi_lend_sleep(net);
}

static void on_after(struct ev_loop *loop, struct ev_check *check, int events) {
  (void)loop, (void)events;
  dmi_lend_wake(check->data);
}

static void on_signal(struct ev_loop *loop, struct ev_signal *signal, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = signal->data;
  net->handler.signal(net->handler.arg, signal->signum);
}

/* False if SIGHUP is ignored: a program under nohup goes on when its terminal is closed. */
static bool hears_hangup(void) {
  struct sigaction now;
  return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN;
}

void dmi_net_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
  if (hears_hangup()) sigaddset(set, SIGHUP);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* True if the other machine has acknowledged everything that was sent. */
static bool arrived(struct dmi_conn *conn) {
  return conn->got_eof || conn->link->ops->unacknowledged(conn->link) == 0;
}

/* Bytes that the other sides have got, as far as it is known. */
static uint64_t arrived_bytes(struct dmi_net *net) {
  uint64_t bytes = dmi_net_traffic(net).sent;
  for (struct dmi_conn *conn = net->conns; conn != NULL; conn = conn->next)
    bytes -= conn->link->ops->unacknowledged(conn->link);
  return bytes;
}

/* True if it does not pay to wait any more. */
static bool ends_anyway(struct dmi_net *net, double now) {
  const uint64_t bytes = arrived_bytes(net);
  if (bytes != net->ending_arrived) net->ending_until = now + ENDING_SECONDS;
  net->ending_arrived = bytes;
  return now >= net->ending_until || now >= net->ending_end;
}

/* After dmi_net_stop: shuts the connections when all queues are empty, and ends the loop when
 * everything has arrived. (Closing earlier could destroy data in flight if the other side has
 * sent data that is not read.) */
static void on_ending(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)events;
  struct dmi_net *net = timer->data;
  bool all = dmi_net_flushed(net);
  if (all) net->expect_close = true; /* we close our side, so the others may close theirs */
  for (struct dmi_conn *conn = net->conns; all && conn != NULL; conn = conn->next) {
    if (!conn->shut) {
      conn->shut = true;
      conn->link->ops->finish(conn->link);
    }
    if (!arrived(conn)) all = false;
  }
  if (all || ends_anyway(net, ev_now(loop))) ev_break(loop, EVBREAK_ALL);
}

/* ---- Life ------------------------------------------------------------------------------------ */

struct dmi_hello dmi_net_hello(struct dmi_net *net, uint8_t kind) {
  struct dmi_hello hello = {.kind = kind, .version = DMI_WIRE_VERSION};
  hello.uid = net->uid;
  hello.port = net->port;
  hello.narrow = net->narrow;
  hello.beside = net->first != NULL;
  memcpy(hello.build, net->config.build, sizeof hello.build);
  memcpy(hello.program, net->program, sizeof hello.program);
  memcpy(hello.name, net->config.name, sizeof hello.name);
  hello.name[sizeof hello.name - 1] = '\0';
  return hello;
}

char *dmi_net_why_not(void) {
  static _Thread_local char text[DMI_NET_WHY];
  return text;
}

/* The transport of the configuration, or TCP. NULL: *why says why not. */
static struct dmi_transport *open_transport(const struct dmi_net_config *config, const char **why) {
  char *text = dmi_net_why_not();
  const char *reason;
  if (config->transport != NULL) return config->transport;
  struct dmi_transport *tcp = dmi_tcp_open(config->bind, &reason);
  *why = "there is no memory for the network";
  if (tcp != NULL || reason == NULL) return tcp;
  snprintf(text, DMI_NET_WHY, "cannot find the address '%.200s': %s; check dmirun's option --bind",
           config->bind, reason);
  *why = text;
  return NULL;
}

static void watch_signals(struct dmi_net *net) {
  if (net->handler.signal == NULL) return;
  ev_signal_init(&net->interrupt, on_signal, SIGINT);
  ev_signal_init(&net->terminate, on_signal, SIGTERM);
  ev_signal_init(&net->hangup, on_signal, SIGHUP);
  net->interrupt.data = net->terminate.data = net->hangup.data = net;
  ev_signal_start(net->loop, &net->interrupt);
  ev_signal_start(net->loop, &net->terminate);
  if (hears_hangup()) ev_signal_start(net->loop, &net->hangup);
}

static void begin_loop(struct dmi_net *net) {
  for (int i = 0; i < 2; i++) {
    ev_timer_init(&net->log[i].end, dmi_net_on_log_end, 0, 0);
    net->log[i].end.data = net;
  }
  ev_async_init(&net->wake, on_wake);
  ev_prepare_init(&net->before, on_before);
  ev_check_init(&net->after, on_after);
  ev_set_priority(&net->after, EV_MAXPRI); /* before all that has happened meanwhile */
  ev_timer_init(&net->ending, on_ending, 0, ENDING_LOOK);
  net->wake.data = net->before.data = net->after.data = net->ending.data = net;
  dmi_alive_open(net);
  ev_async_start(net->loop, &net->wake);
  ev_prepare_start(net->loop, &net->before);
  ev_check_start(net->loop, &net->after);
  watch_signals(net);
}

/* libev, which ends the process if it gets none, can have a descriptor to wake its loop. */
static bool may_wake(void) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd >= 0) (void)close(fd);
  return fd >= 0;
}

/* A descriptor was not to be had. */
static const char *not_made(int error) {
  return error == EMFILE || error == ENFILE
             ? "the system allows no more open files, which the network needs (ulimit -n)"
             : "there is no memory for the network";
}

/* Makes a network that does not listen yet. NULL: *why says why not. */
static struct dmi_net *make(const struct dmi_net_config *config,
                            const struct dmi_net_handler *handler, struct dmi_transport *transport,
                            const char **why) {
  struct dmi_net *net = calloc(1, sizeof *net);
  *why = "there is no memory for the network";
  if (net == NULL) return NULL;
  net->transport = transport;
  net->config = *config;
  if (net->config.join_advice == NULL)
    net->config.join_advice = "check dmirun's options -i HOST and -p PORT";
  net->stream = config->stream ? config->stream : &dmi_stream_none;
  net->config.name[sizeof net->config.name - 1] = '\0';
  net->encrypt = config->encrypt;
  if (net->encrypt) (void)dmi_seal_has_ocb(); /* loads a library before the program has threads */
  dmi_common_init(&net->common, config->shm ? config->common : 0);
  if (net->config.patience <= 0) net->config.patience = DMI_NET_PATIENCE;
  net->handler = *handler;
  net->next_temp = DMI_NET_TEMP + 1;
  net->loop = ev_loop_new(EVFLAG_AUTO);
  if (net->loop == NULL) goto err_net;
  if (!dmi_lend_open(net)) {
    *why = not_made(errno);
    goto err_loop;
  }
  if (!may_wake()) {
    *why = not_made(errno);
    goto err_lend;
  }
  dmi_mutex_init(&net->work_lock, DMI_RANK_WORK);
  dmi_mutex_init(&net->temp_lock, DMI_RANK_TEMP);
  dmi_mutex_init(&net->beside_lock, DMI_RANK_LEAF);
  begin_loop(net);
  return net;

err_lend:
  dmi_lend_close(net);
err_loop:
  ev_loop_destroy(net->loop);
err_net:
  free(net);
  return NULL;
}

/* Frees all but the transport. */
static void free_all(struct dmi_net *net) {
  dmi_accept_free_all(net);
  dmi_dial_free_all(net);
  dmi_conn_free_all(net);
  dmi_peer_free_all(net);
  dmi_beside_clean(net);
  dmi_lend_close(net);
  for (int i = 0; i < 2; i++)
    ev_timer_stop(net->loop, &net->log[i].end);
  ev_prepare_stop(net->loop, &net->before);
  ev_check_stop(net->loop, &net->after);
  ev_async_stop(net->loop, &net->wake);
  ev_timer_stop(net->loop, &net->ending);
  dmi_alive_close(net);
  if (net->handler.signal != NULL) {
    ev_signal_stop(net->loop, &net->interrupt);
    ev_signal_stop(net->loop, &net->terminate);
    ev_signal_stop(net->loop, &net->hangup);
  }
  ev_loop_destroy(net->loop);
  dmi_mutex_destroy(&net->work_lock);
  dmi_mutex_destroy(&net->temp_lock);
  dmi_mutex_destroy(&net->beside_lock);
  dmi_common_close(&net->common);
  sodium_memzero(&net->config, sizeof net->config);
  free(net);
}

struct dmi_net *dmi_net_open(const struct dmi_net_config *config,
                             const struct dmi_net_handler *handler, const char **why) {
  struct dmi_transport *transport = open_transport(config, why);
  if (transport == NULL) return NULL;
  struct dmi_net *net = make(config, handler, transport, why);
  if (net == NULL) goto err_transport;
  net->transport->dead_after = config->dead_after;
  if (!dmi_accept_open(net, why)) goto err_net;
  return net;

err_net:
  free_all(net);
err_transport:
  if (config->transport == NULL) transport->ops->free(transport);
  return NULL;
}

struct dmi_net *dmi_net_open_beside(struct dmi_net *first, const struct dmi_net_handler *handler,
                                    const char **why) {
  struct dmi_net_config config = first->config;
  config.look = (struct dmi_look_rule){.us = 0}; /* who waits for pulses has time */
  config.common = 0;
  config.stream = NULL; /* users are told only about the first network's connections */
  struct dmi_net_handler unsignalled = *handler;
  unsignalled.signal = NULL; /* a signal belongs to one loop, which is the first one's */
  struct dmi_net *net = make(&config, &unsignalled, first->transport, why);
  sodium_memzero(&config, sizeof config);
  if (net == NULL) return NULL;
  net->first = first;
  net->port = first->port;
  net->narrow = first->narrow;
  net->encrypt = first->encrypt;
  dmi_net_set_self(net, first->uid, first->program);
  dmi_beside_begin(net);
  return net;
}

uint16_t dmi_net_port(const struct dmi_net *net) {
  return net->port;
}

void *dmi_net_loop(struct dmi_net *net) {
  return net->loop;
}

void dmi_net_set_self(struct dmi_net *net, uint32_t uid, const uint8_t program_id[16]) {
  net->uid = uid;
  memcpy(net->program, program_id, sizeof net->program);
}

void dmi_net_expect_close(struct dmi_net *net) {
  net->expect_close = true;
}

void dmi_net_run(struct dmi_net *net) {
  daemon_of = net;
  ev_run(net->loop, 0);
  dmi_lend_settle(net);
  daemon_of = NULL;
}

/* Who sends and receives counts only for its own peer or connection, where no other thread writes
 * meanwhile. */
struct dmi_net_traffic dmi_net_traffic(struct dmi_net *net) {
  struct dmi_net_traffic traffic = net->gone;
  for (const struct dmi_conn *conn = net->conns; conn != NULL; conn = conn->next)
    traffic.received += atomic_load_explicit(&conn->heard, memory_order_relaxed);
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    dmi_lock(&peer->lock, DMI_RANK_PEER);
    traffic.sent += peer->sent;
    dmi_unlock(&peer->lock, DMI_RANK_PEER);
  }
  return traffic;
}

struct dmi_net_traffic dmi_net_traffic_with(struct dmi_net *net, uint32_t id) {
  struct dmi_net_traffic traffic = {0};
  struct dmi_net_peer *peer = dmi_peer_find(net, id);
  if (peer == NULL) return traffic;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  traffic.sent = peer->sent;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  traffic.received = dmi_peer_heard(peer);
  return traffic;
}

const char *dmi_net_over(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer = dmi_peer_find(net, id);
  return peer == NULL || peer->conn == NULL ? NULL : peer->conn->link->ops->name;
}

bool dmi_net_is_near(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, id);
  if (peer == NULL) return false;
  const bool near = peer->link != NULL && peer->link->ops->near;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return near;
}

static uint64_t program_of(const struct dmi_net *net) {
  uint64_t program;
  memcpy(&program, net->program, sizeof program);
  return program;
}

uint64_t dmi_net_mark(const struct dmi_net *net, uint32_t id) {
  return (program_of(net) & UINT64_C(0x7fffffff)) << 32 | id;
}

void *dmi_net_common(struct dmi_net *net, uint32_t id, uint64_t *program) {
  void *memory = atomic_load_explicit(&net->common.memory, memory_order_acquire);
  *program = program_of(net);
  return memory != NULL && dmi_common_hold(&net->common, dmi_net_mark(net, id)) ? memory : NULL;
}

bool dmi_net_mark_ended(struct dmi_net *net, uint64_t mark) {
  return dmi_common_has_ended(&net->common, mark);
}

void dmi_net_free(struct dmi_net *net) {
  if (net == NULL) return;
  struct dmi_transport *transport = net->first == NULL ? net->transport : NULL;
  if (net->first != NULL) dmi_beside_end(net);
  free_all(net);
  if (transport != NULL) transport->ops->free(transport);
}
