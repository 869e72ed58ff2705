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
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "core/pulse.h"
#include "msg/wire.h"
#include "node/actions.h"
#include "node/runtime.h"
#include "node/stall.h"

enum order_type { ADD_PEER, CLOSE_PEER, END, END_AT_ONCE };

/* From the daemon to this thread. */
struct order {
  enum order_type type;
  uint32_t uid;
  struct dmi_addr addr; /* ADD_PEER, and so is this */
  struct dmi_birth birth;
};

/* A member on this machine, whose end can be seen for certain. */
struct neighbour {
  struct neighbour *next;
  struct dmi_pulser *pulser;
  struct ev_io end; /* of its process (pidfd) */
  uint32_t uid;
};

/* From this thread to the daemon. */
struct news {
  struct dmi_pulse_act act;
  bool told; /* LOST: a connection with it tells that, too, behind all that it has sent before */
};

struct dmi_pulser {
  struct dmi_process *process;
  struct dmi_net *net; /* the second one; its daemon is this thread */
  pthread_t thread;
  struct ev_timer timer;        /* this thread's: what is due next */
  struct neighbour *neighbours; /* this thread's */
  struct dmi_mutex lock;        /* guards all below */
  struct dmi_pulse *core;
  struct order *orders;
  uint32_t order_num, order_capacity;
  struct news *news; /* for the daemon */
  uint32_t news_num, news_capacity;
  bool posted;          /* it was told that there are some */
  struct dmi_post post; /* how */
};

/* Goes on while the machine sleeps. */
static dmi_ms_t now(void) {
  struct timespec at;
  clock_gettime(CLOCK_BOOTTIME, &at);
  return (dmi_ms_t)at.tv_sec * 1000 + (dmi_ms_t)at.tv_nsec / 1000000;
}

/* ---- What was decided ------------------------------------------------------------------------ */

/* The daemon: a member is lost.  One that has ended may have said why, so the connection with it
 * has the first word. */
static void hear_lost(struct dmi_process *process, const struct news *news) {
  const struct dmi_pulse_act *act = &news->act;
  if (news->told && dmi_net_connected(process->access.net, act->uid)) return;
  dmi_stall_lost(process, act->uid);
  (void)dmi_actions_input(
      process, &(struct dmi_input){.type = DMI_IN_LOST, .id = act->uid, .text = act->text});
}

/* The daemon: what has happened to others. */
static void hear_one(struct dmi_process *process, const struct news *news) {
  switch (news->act.type) {
    case DMI_PULSE_SILENT:
      dmi_stall_silent(process, news->act.uid, true);
      break;
    case DMI_PULSE_HEARD:
      dmi_stall_silent(process, news->act.uid, false);
      break;
    case DMI_PULSE_LOST:
      hear_lost(process, news);
      break;
    default: /* SEND is carried out elsewhere; the others come only when a program survives losses
              */
      break;
  }
}

static void free_news(struct news *news, uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    dmi_slice_drop(&news[i].act.body);
    free(news[i].act.text);
  }
  free(news);
}

static void hear(struct dmi_process *process, struct dmi_post *post) {
  struct dmi_pulser *pulser = process->pulser;
  struct news *news;
  uint32_t num;
  (void)post;
  dmi_mutex_lock(&pulser->lock);
  news = pulser->news;
  num = pulser->news_num;
  pulser->news = NULL;
  pulser->news_num = pulser->news_capacity = 0;
  pulser->posted = false;
  dmi_mutex_unlock(&pulser->lock);
  for (uint32_t i = 0; i < num; i++)
    hear_one(process, &news[i]);
  free_news(news, num);
}

/* With the lock held: all but SEND becomes news.  True: the daemon must be told. */
static bool keep_news(struct dmi_pulser *pulser, struct dmi_pulse_out *out, bool told) {
  bool tell;
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    if (act->type == DMI_PULSE_SEND) continue;
    DMI_XALLOC_GROW(pulser->news, pulser->news_num, pulser->news_capacity);
    pulser->news[pulser->news_num++] = (struct news){*act, told};
    *act = (struct dmi_pulse_act){.type = DMI_PULSE_SEND}; /* moved; to nobody */
  }
  tell = pulser->news_num > 0 && !pulser->posted;
  if (tell) pulser->posted = true;
  return tell;
}

static void send_all(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    if (act->uid && dmi_net_send(pulser->net, act->uid, &act->msg)) {
      act->msg.body = (struct dmi_slice){0}; /* taken over */
      dmi_net_flush(pulser->net, act->uid);
    }
  }
}

/* Behind each call of the pure part, which was made with the lock held: gives that up. */
static void carry_as(struct dmi_pulser *pulser, struct dmi_pulse_out *out, bool told) {
  bool tell = keep_news(pulser, out, told);
  dmi_mutex_unlock(&pulser->lock);
  send_all(pulser, out);
  dmi_pulse_out_free(out);
  if (tell) dmi_post(pulser->process, &pulser->post);
}

static void carry(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  carry_as(pulser, out, false);
}

/* ---- This thread ----------------------------------------------------------------------------- */

static void set_timer(struct dmi_pulser *pulser) {
  struct ev_loop *loop = dmi_net_loop(pulser->net);
  dmi_ms_t wake, at = now();
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
  dmi_pulse_tick(pulser->core, now(), &out);
  carry(pulser, &out);
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
    good = dmi_pulse_message(pulser->core, now(), from, msg, &out);
    carry(pulser, &out);
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
  dmi_pulse_broken(pulser->core, now(), uid, &out);
  carry_as(pulser, &out, true);
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
  dmi_pulse_dead(pulser->core, now(), uid, &out);
  carry_as(pulser, &out, true);
  set_timer(pulser);
}

static void forget(struct dmi_pulser *pulser, struct neighbour **at) {
  struct neighbour *one = *at;
  ev_io_stop(dmi_net_loop(pulser->net), &one->end);
  close(one->end.fd);
  *at = one->next;
  free(one);
}

static void forget_uid(struct dmi_pulser *pulser, uint32_t uid) {
  struct neighbour **at = &pulser->neighbours;
  while (*at && (*at)->uid != uid)
    at = &(*at)->next;
  if (*at) forget(pulser, at);
}

static void on_end(struct ev_loop *loop, struct ev_io *io, int events) {
  struct neighbour *one = io->data;
  struct dmi_pulser *pulser = one->pulser;
  uint32_t uid = one->uid;
  (void)loop;
  (void)events;
  forget_uid(pulser, uid);
  say_dead(pulser, uid);
}

/* Its end is seen at once, if it is on this machine. */
static void watch(struct dmi_pulser *pulser, uint32_t uid, const struct dmi_birth *birth) {
  struct neighbour *one;
  int fd;
  switch (dmi_birth_look(birth, &fd)) {
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

static void obey(struct dmi_pulser *pulser, const struct order *order) {
  switch (order->type) {
    case ADD_PEER:
      dmi_net_add_peer(pulser->net, order->uid, &order->addr);
      watch(pulser, order->uid, &order->birth);
      break;
    case CLOSE_PEER:
      forget_uid(pulser, order->uid);
      dmi_net_close(pulser->net, order->uid);
      break;
    case END:
      dmi_net_finish(pulser->net);
      break;
    case END_AT_ONCE:
      dmi_net_halt(pulser->net);
      break;
  }
}

/* The daemon has given orders, or called the pure part, so something else may be due. */
static void on_posted(void *arg) {
  struct dmi_pulser *pulser = arg;
  struct order *orders;
  uint32_t num;
  dmi_mutex_lock(&pulser->lock);
  orders = pulser->orders;
  num = pulser->order_num;
  pulser->orders = NULL;
  pulser->order_num = pulser->order_capacity = 0;
  dmi_mutex_unlock(&pulser->lock);
  for (uint32_t i = 0; i < num; i++)
    obey(pulser, &orders[i]);
  free(orders);
  set_timer(pulser);
}

static void *body(void *arg) {
  struct dmi_pulser *pulser = arg;
  pthread_setname_np(pthread_self(), "dmi-pulse");
  dmi_runtime_enter(pulser->process);
  set_timer(pulser);
  dmi_net_run(pulser->net);
  return NULL;
}

/* ---- The daemon ------------------------------------------------------------------------------ */

/* With the lock held. */
static void order(struct dmi_pulser *pulser, enum order_type type, uint32_t uid,
                  const struct dmi_peer *peer) {
  struct order one = {.type = type, .uid = uid};
  if (peer) {
    one.addr = peer->addr;
    one.birth = peer->info.birth;
  }
  DMI_XALLOC_GROW(pulser->orders, pulser->order_num, pulser->order_capacity);
  pulser->orders[pulser->order_num++] = one;
}

static bool start_thread(struct dmi_pulser *pulser) {
  sigset_t all, before;
  bool started;
  sigfillset(&all); /* signals are the daemon's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  started = pthread_create(&pulser->thread, NULL, body, pulser) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

static struct dmi_pulser *begin(struct dmi_process *process, const char **why) {
  struct dmi_pulser *pulser = dmi_xalloc(1, sizeof(*pulser));
  const struct dmi_net_handler handler = {.arg = pulser,
                                          .body = on_body,
                                          .message = on_message,
                                          .lost = on_lost,
                                          .posted = on_posted,
                                          .log = on_log};
  const struct dmi_pulse_config config = {
      .self = process->access.core.self,
      .dead_after = (dmi_ms_t)dmi_member_settings(process->member).dead_after * 1000};
  pulser->process = process;
  pulser->post.run = hear;
  dmi_mutex_init(&pulser->lock, DMI_RANK_LEAF);
  pulser->core = dmi_pulse_new(&config);
  pulser->net = dmi_net_open_beside(process->access.net, &handler, why);
  if (pulser->net) {
    ev_init(&pulser->timer, on_timer);
    pulser->timer.data = pulser;
    return pulser;
  }
  dmi_pulse_free(pulser->core);
  dmi_mutex_destroy(&pulser->lock);
  free(pulser);
  return NULL;
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
    dmi_pulse_start(pulser->core, now(), &view, 0, out);
  } else {
    (void)dmi_pulse_take(pulser->core, now(), &view, 0, out);
  }
  dmi_pulse_all_taken(pulser->core, now(), view.number, out);
  free((void *)view.members);
}

static void order_peers(struct dmi_pulser *pulser, const struct dmi_mact *view) {
  uint32_t self = pulser->process->access.core.self;
  for (uint32_t i = 0; i < view->peer_num; i++) {
    if (view->peers[i].uid != self) order(pulser, ADD_PEER, view->peers[i].uid, &view->peers[i]);
  }
  for (uint32_t i = 0; i < view->removed_num; i++) {
    if (view->removed[i].heir == 0) order(pulser, CLOSE_PEER, view->removed[i].uid, NULL);
  }
}

bool dmi_pulser_view(struct dmi_process *process, const struct dmi_mact *view) {
  const char *why = "the system allows no more threads (ulimit -u)";
  struct dmi_pulser *pulser = process->pulser;
  struct dmi_pulse_out out;
  bool first = !pulser;
  if (pulser && !pulser->net) return false;
  if (first) process->pulser = pulser = begin(process, &why);
  if (pulser) {
    dmi_pulse_out_init(&out);
    dmi_mutex_lock(&pulser->lock);
    order_peers(pulser, view);
    tell_view(pulser, first, &out);
    carry(pulser, &out);
    dmi_net_post(pulser->net);
    if (!first || start_thread(pulser)) return true;
    dmi_net_free(pulser->net);
    pulser->net = NULL; /* there is no thread */
  }
  dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", why);
  return false;
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
  if (!pulser) return;
  if (pulser->net) {
    dmi_mutex_lock(&pulser->lock);
    order(pulser, process->exit_code == 0 ? END : END_AT_ONCE, 0, NULL);
    dmi_mutex_unlock(&pulser->lock);
    dmi_net_post(pulser->net);
    pthread_join(pulser->thread, NULL);
    while (pulser->neighbours)
      forget(pulser, &pulser->neighbours);
    dmi_net_free(pulser->net);
  }
  dmi_pulse_free(pulser->core);
  free_news(pulser->news, pulser->news_num);
  free(pulser->orders);
  dmi_mutex_destroy(&pulser->lock);
  free(pulser);
  process->pulser = NULL;
}
