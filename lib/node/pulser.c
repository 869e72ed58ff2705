/*
 * pulser.c - see pulser.h.
 *
 * Happy path: a timer of this thread asks the pure part what is due; pulses go out, answers come
 * in. The daemon is told only when somebody is silent, is heard again, or is lost.
 *
 * What the daemon asks of this thread (new members, the end) is a list under the lock; what this
 * thread has for the daemon is another one, handed over by a post.  So neither waits for the other,
 * and what one call decides is carried out before what a later one does.
 *
 * Failure modes: a connection that breaks is an event like any other; without memory for the second
 * network this process cannot take part.
 *
 * Must not touch anything that is the daemon's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/pulser.h"

#include <ev.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "msg/wire.h"
#include "node/actions.h"
#include "node/dying.h"
#include "node/lease.h"
#include "node/pulser_int.h"
#include "node/runtime.h"

/* A member on this machine, whose end can be seen for certain. */
struct dmi_pulser_neighbour {
  struct dmi_pulser_neighbour *next;
  struct dmi_pulser *pulser;
  struct ev_io end; /* of its process (pidfd) */
  uint32_t uid;
};

dmi_ms_t dmi_pulser_now(void) {
  struct timespec at;
  clock_gettime(CLOCK_BOOTTIME, &at);
  return (dmi_ms_t)at.tv_sec * 1000 + (dmi_ms_t)at.tv_nsec / 1000000;
}

/* ---- This thread ----------------------------------------------------------------------------- */

static void set_timer(struct dmi_pulser *pulser) {
  struct ev_loop *loop = dmi_net_loop(pulser->net);
  dmi_ms_t wake, at = dmi_pulser_now();
  dmi_mutex_lock(&pulser->lock);
  wake = dmi_pulse_wake(pulser->core);
  dmi_mutex_unlock(&pulser->lock);
  ev_timer_stop(loop, &pulser->timer);
  if (wake >= DMI_MS_NEVER) return;
  ev_now_update(loop);
  ev_timer_set(&pulser->timer, wake > at ? (double)(wake - at) / 1000 : 0., 0.);
  ev_timer_start(loop, &pulser->timer);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct dmi_pulser *pulser = timer->data;
  struct dmi_pulse_out out;
  (void)loop;
  (void)events;
  dmi_pulse_out_init(&out);
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_tick(pulser->core, dmi_pulser_now(), &out);
  dmi_pulser_carry(pulser, &out, true, false);
  set_timer(pulser);
}

static void *on_body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  (void)arg;
  (void)from;
  (void)class;
  msg->body.frame = dmi_frame_new(msg->body.len); /* the wire's table sets the limit */
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

static bool on_message(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  struct dmi_pulser *pulser = arg;
  struct dmi_pulse_out out;
  bool good = class == DMI_CLASS_PULSE;
  if (good && (!msg->body.len || msg->body.ptr)) { /* else there was no memory for it */
    dmi_pulse_out_init(&out);
    dmi_mutex_lock(&pulser->lock);
    good = dmi_pulse_message(pulser->core, dmi_pulser_now(), from, msg, &out);
    dmi_pulser_carry(pulser, &out, true, false);
    set_timer(pulser);
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

static void on_lost(void *arg, uint32_t uid, const char *why) {
  struct dmi_pulser *pulser = arg;
  struct dmi_pulse_out out;
  (void)why; /* the daemon has a connection of its own, and says it better */
  dmi_pulse_out_init(&out);
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_broken(pulser->core, dmi_pulser_now(), uid, &out);
  dmi_pulser_carry(pulser, &out, true, true);
  set_timer(pulser);
}

static void on_refused(void *arg, dmi_uid_t uid) {
  struct dmi_pulser *pulser = arg;
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_refused(pulser->core, dmi_pulser_now(), uid, &out);
  dmi_pulser_carry(pulser, &out, true, true);
  set_timer(pulser);
}

static void on_log(void *arg, const char *line) {
  struct dmi_pulser *pulser = arg;
  dmi_say(&pulser->process->stream, DMI_LOG_WARN, "net", "%s", line);
}

static void say_dead(struct dmi_pulser *pulser, uint32_t uid) {
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_dead(pulser->core, dmi_pulser_now(), uid, &out);
  dmi_pulser_carry(pulser, &out, true, true);
  set_timer(pulser);
}

static void forget(struct dmi_pulser *pulser, struct dmi_pulser_neighbour **at) {
  struct dmi_pulser_neighbour *one = *at;
  ev_io_stop(dmi_net_loop(pulser->net), &one->end);
  close(one->end.fd);
  *at = one->next;
  free(one);
}

static void forget_uid(struct dmi_pulser *pulser, uint32_t uid) {
  struct dmi_pulser_neighbour **at = &pulser->neighbours;
  while (*at && (*at)->uid != uid)
    at = &(*at)->next;
  if (*at) forget(pulser, at);
}

static void on_end(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_pulser_neighbour *one = io->data;
  struct dmi_pulser *pulser = one->pulser;
  uint32_t uid = one->uid;
  (void)loop;
  (void)events;
  forget_uid(pulser, uid);
  say_dead(pulser, uid);
}

/* Its end is seen at once, if it is on this machine. */
static void watch(struct dmi_pulser *pulser, uint32_t uid, const struct dmi_birth *birth) {
  struct dmi_pulser_neighbour *one;
  int fd;
  switch (dmi_birth_look(birth, &pulser->mine, &fd)) {
    case DMI_BIRTH_GONE:
      say_dead(pulser, uid);
      break;
    case DMI_BIRTH_LIVES:
      if (fd < 0) break;
      one = dmi_xalloc(1, sizeof(*one));
      one->pulser = pulser;
      one->uid = uid;
      one->next = pulser->neighbours;
      pulser->neighbours = one;
      ev_io_init(&one->end, on_end, fd, EV_READ);
      one->end.data = one;
      ev_io_start(dmi_net_loop(pulser->net), &one->end);
      break;
    case DMI_BIRTH_ELSEWHERE:
      break;
  }
}

/* The launcher has reaped a member that it had started. */
static void on_told_dead(void *arg, const uint8_t program[16], dmi_uid_t uid) {
  struct dmi_pulser *pulser = arg;
  const struct dmi_process *process = pulser->process;
  if (memcmp(program, pulser->program, sizeof(pulser->program)) != 0 ||
      uid == process->access.core.self)
    return;
  say_dead(pulser, uid);
}

static void on_told_wrong(void *arg, const char *line) {
  struct dmi_pulser *pulser = arg;
  dmi_say(&pulser->process->stream, DMI_LOG_WARN, "start",
          "DMI_CONTROL_FD: \"%s\" is not understood; nothing more is read there", line);
}

static void begin_control(struct dmi_pulser *pulser) {
  pulser->control.dead = on_told_dead;
  pulser->control.wrong = on_told_wrong;
  pulser->control.arg = pulser;
  dmi_control_begin(&pulser->control, dmi_net_loop(pulser->net),
                    pulser->process->config.control_fd);
}

static void obey(struct dmi_pulser *pulser, struct dmi_pulser_order *order) {
  switch (order->type) {
    case DMI_ORDER_SETTINGS:
      dmi_net_set_dead_after(pulser->net, order->dead_after);
      break;
    case DMI_ORDER_ADD:
      forget_uid(pulser, order->uid); /* it may be watched already */
      dmi_net_add_peer(pulser->net, order->uid, &order->addr);
      watch(pulser, order->uid, &order->birth);
      break;
    case DMI_ORDER_CLOSE:
      forget_uid(pulser, order->uid);
      dmi_net_close(pulser->net, order->uid);
      break;
    case DMI_ORDER_SEND:
      if (!dmi_net_send(pulser->net, order->uid, &order->msg)) break;
      order->msg.body = (struct dmi_slice){0}; /* taken over */
      dmi_net_flush(pulser->net, order->uid);
      break;
    case DMI_ORDER_END:
      dmi_net_finish(pulser->net);
      break;
    case DMI_ORDER_HALT:
      dmi_net_halt(pulser->net);
      break;
  }
}

/* The daemon has given orders, or called the pure part, so something else may be due. */
static void on_posted(void *arg) {
  struct dmi_pulser *pulser = arg;
  struct dmi_pulser_order *orders;
  uint32_t num;
  dmi_dying_send(pulser->process);
  dmi_mutex_lock(&pulser->lock);
  orders = pulser->orders;
  num = pulser->order_num;
  pulser->orders = NULL;
  pulser->order_num = pulser->order_capacity = 0;
  dmi_mutex_unlock(&pulser->lock);
  for (uint32_t i = 0; i < num; i++)
    obey(pulser, &orders[i]);
  dmi_pulser_orders_free(orders, num);
  set_timer(pulser);
}

static void *body(void *arg) {
  struct dmi_pulser *pulser = arg;
  dmi_runtime_enter(pulser->process);
  begin_control(pulser);
  set_timer(pulser);
  dmi_dying_thread();
  dmi_net_run(pulser->net);
  dmi_dying_end(pulser->net);
  dmi_control_end(&pulser->control);
  return NULL;
}

/* ---- The daemon ------------------------------------------------------------------------------ */

static bool start_thread(struct dmi_pulser *pulser) {
  sigset_t all, before;
  bool started;
  sigfillset(&all); /* signals are the daemon's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  dmi_dying_begin(pulser->net);
  started = pthread_create(&pulser->thread, NULL, body, pulser) == 0;
  if (started) pthread_setname_np(pulser->thread, "dmi-pulse"); /* from here on all see it */
  if (!started) dmi_dying_end(pulser->net);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

static struct dmi_pulse *new_core(struct dmi_process *process) {
  const struct dmi_settings settings = dmi_member_settings(process->member);
  const struct dmi_pulse_config config = {.self = dmi_member_uid(process->member),
                                          .dead_after = (dmi_ms_t)settings.dead_after * 1000,
                                          .survive = settings.survive,
                                          .trust_refused = settings.trust_refused};
  return dmi_pulse_new(&config);
}

struct dmi_pulser *dmi_pulser_new(struct dmi_process *process) {
  struct dmi_pulser *pulser = dmi_xalloc(1, sizeof(*pulser));
  pulser->process = process;
  pulser->survive = dmi_member_settings(process->member).survive;
  memcpy(pulser->program, dmi_member_program(process->member), sizeof(pulser->program));
  dmi_birth_find(&pulser->mine);
  pulser->post.run = dmi_pulser_hear;
  dmi_mutex_init(&pulser->lock, DMI_RANK_LEAF);
  pulser->core = new_core(process);
  ev_init(&pulser->timer, on_timer);
  pulser->timer.data = pulser;
  return pulser;
}

static bool open_net(struct dmi_pulser *pulser, const char **why) {
  const struct dmi_net_handler handler = {.arg = pulser,
                                          .body = on_body,
                                          .message = on_message,
                                          .lost = on_lost,
                                          .refused = on_refused,
                                          .posted = on_posted,
                                          .log = on_log};
  pulser->net = dmi_net_open_beside(pulser->process->access.net, &handler, why);
  return pulser->net != NULL;
}

/* The first lease may have run out already. */
static bool start_lease(struct dmi_pulser *pulser) {
  struct dmi_lease *lease = pulser->survive ? dmi_lease_new(pulser->process) : NULL;
  if (!pulser->survive || !lease) return !pulser->survive;
  dmi_mutex_lock(&pulser->lock);
  pulser->lease = lease;
  dmi_lease_set(lease, dmi_pulse_frozen(pulser->core));
  dmi_mutex_unlock(&pulser->lock);
  return true;
}

/* What was known of the members, without the agreement, is forgotten: so each is watched anew. */
static void watch_again(struct dmi_pulser *pulser) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(pulser->process->member, &num);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_pulser_order *order;
    if (peers[i].uid == pulser->process->access.core.self) continue;
    order = dmi_pulser_order(pulser, DMI_ORDER_ADD, peers[i].uid);
    order->addr = peers[i].addr;
    order->birth = peers[i].info.birth;
  }
}

void dmi_pulser_survives(struct dmi_pulser *pulser, const struct dmi_pulse_view *view,
                         uint64_t ballot) {
  struct dmi_pulse_out out;
  if (pulser->failed) return;
  dmi_pulse_out_init(&out);
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_free(pulser->core);
  pulser->core = new_core(pulser->process);
  pulser->survive = true;
  dmi_pulser_order(pulser, DMI_ORDER_SETTINGS, 0)->dead_after =
      dmi_member_settings(pulser->process->member).dead_after;
  watch_again(pulser);
  dmi_pulse_start(pulser->core, dmi_pulser_now(), view, ballot, &out);
  dmi_pulser_carry(pulser, &out, false, false);
  if (!start_lease(pulser))
    dmi_actions_fatal(pulser->process, "the system allows no more threads (ulimit -u)");
}

/* Of the view that this process has taken. */
static struct dmi_pulse_view view_of(struct dmi_process *process) {
  struct dmi_pulse_view view = {.number = dmi_member_view(process->member),
                                .coordinator = dmi_member_coordinator_next(process->member)};
  const struct dmi_peer *peers = dmi_member_peers(process->member, &view.num);
  struct dmi_pulse_member *members = dmi_xalloc(view.num, sizeof(*members));
  for (uint32_t i = 0; i < view.num; i++)
    members[i] = (struct dmi_pulse_member){.uid = peers[i].uid, .voter = !peers[i].left};
  view.members = members;
  return view;
}

/* The lock is held.  Nobody agrees on views without --survive, so there are no ballots, and each
 * view counts as taken by all. */
static void tell_view(struct dmi_pulser *pulser, bool first, struct dmi_pulse_out *out) {
  struct dmi_process *process = pulser->process;
  struct dmi_pulse_view view = view_of(process);
  if (first) {
    dmi_pulse_start(pulser->core, dmi_pulser_now(), &view, 0, out);
  } else {
    (void)dmi_pulse_take(pulser->core, dmi_pulser_now(), &view, 0, out);
  }
  dmi_pulse_all_taken(pulser->core, dmi_pulser_now(), view.number, out);
  free((void *)view.members);
}

/* With the lock held.  One that the others have removed stays known to the network: it is told so
 * when it sends a pulse. */
static void order_peers(struct dmi_pulser *pulser, const struct dmi_mact *view) {
  uint32_t self = pulser->process->access.core.self;
  for (uint32_t i = 0; i < view->peer_num; i++) {
    const struct dmi_peer *peer = &view->peers[i];
    struct dmi_pulser_order *order;
    if (peer->uid == self) continue;
    order = dmi_pulser_order(pulser, DMI_ORDER_ADD, peer->uid);
    order->addr = peer->addr;
    order->birth = peer->info.birth;
  }
  for (uint32_t i = 0; i < view->removed_num; i++) {
    const struct dmi_removed *removed = &view->removed[i];
    if (!removed->heir && !removed->lost)
      (void)dmi_pulser_order(pulser, DMI_ORDER_CLOSE, removed->uid);
  }
}

bool dmi_pulser_view(struct dmi_process *process, const struct dmi_mact *view) {
  const char *why = NULL;
  struct dmi_pulser *pulser = process->pulser;
  struct dmi_pulse_out out;
  bool first = !pulser, begins;
  if (first) process->pulser = pulser = dmi_pulser_new(process);
  if (pulser->failed) return false;
  begins = !pulser->net;
  pulser->failed = begins && !open_net(pulser, &why);
  if (!pulser->failed) {
    dmi_pulse_out_init(&out);
    dmi_mutex_lock(&pulser->lock);
    order_peers(pulser, view);
    if (!pulser->survive) tell_view(pulser, first, &out);
    dmi_pulser_carry(pulser, &out, false, false);
    why = "the system allows no more threads (ulimit -u)";
    pulser->failed = begins && !(start_lease(pulser) && start_thread(pulser));
  }
  if (!pulser->failed) return true;
  dmi_actions_fatal(process, why);
  return false;
}

bool dmi_pulser_stood_still(struct dmi_process *process, char text[DMI_PULSE_STOOD]) {
  struct dmi_pulser *pulser = process->pulser;
  bool stood;
  if (!pulser) return false;
  dmi_mutex_lock(&pulser->lock);
  stood = dmi_pulse_stood_still(pulser->core, dmi_pulser_now(), text);
  dmi_mutex_unlock(&pulser->lock);
  return stood;
}

void dmi_pulser_ending(struct dmi_process *process) {
  struct dmi_pulser *pulser = process->pulser;
  if (!pulser) return;
  dmi_mutex_lock(&pulser->lock);
  dmi_pulse_ending(pulser->core);
  dmi_mutex_unlock(&pulser->lock);
}

void dmi_pulser_end(struct dmi_process *process) {
  struct dmi_pulser *pulser = process->pulser;
  bool well = process->finished;
  if (!pulser) return;
  if (pulser->net && !pulser->failed) {
    dmi_mutex_lock(&pulser->lock);
    (void)dmi_pulser_order(pulser, well ? DMI_ORDER_END : DMI_ORDER_HALT, 0);
    dmi_mutex_unlock(&pulser->lock);
    dmi_net_post(pulser->net);
    pthread_join(pulser->thread, NULL);
    while (pulser->neighbours)
      forget(pulser, &pulser->neighbours);
  }
  if (pulser->net) dmi_net_free(pulser->net);
  dmi_lease_free(pulser->lease);
  dmi_pulse_free(pulser->core);
  dmi_pulser_news_free(pulser->news, pulser->news_num);
  dmi_pulser_orders_free(pulser->orders, pulser->order_num);
  dmi_mutex_destroy(&pulser->lock);
  free(pulser);
  process->pulser = NULL;
}
