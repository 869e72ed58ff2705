/*
 * pulser_news.c - what the pulse thread and the daemon have for each other: two lists under the
 * lock of the pure part, each handed over by a post.
 *
 * So neither waits for the other, and what one call decides is carried out before what a later one
 * does.  Messages that a call of the daemon's decides are sent by the thread, behind the members
 * that the daemon has told it before.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "node/actions.h"
#include "node/dying.h"
#include "node/lease.h"
#include "node/pulser_int.h"
#include "node/runtime.h"
#include "node/stall.h"

/* ---- The daemon hears ------------------------------------------------------------------------ */

/* A member is lost.  One that has ended may have said why, so the connection with it has the first
 * word. */
static void hear_lost(struct dmi_process *process, const struct dmi_pulser_news *news) {
  const struct dmi_pulse_act *act = &news->act;
  if (news->told && dmi_net_connected(process->access.net, act->uid)) return;
  dmi_stall_lost(process, act->uid);
  (void)dmi_actions_input(process,
                          &(struct dmi_input){.type = DMI_IN_LOST,
                                              .id = act->uid,
                                              .text = dmi_dying_why(process, act->uid, act->text)});
}

static void may_change(struct dmi_process *process) {
  (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_MAY_CHANGE});
}

/* The others have agreed on a view. */
static void hear_view(struct dmi_process *process, const struct dmi_pulse_act *act) {
  struct dmi_msg msg = {.body = act->body};
  (void)dmi_actions_input(
      process, &(struct dmi_input){.type = DMI_IN_AGREED, .msg = &msg, .yes = act->crash});
}

static void hear_act(struct dmi_process *process, const struct dmi_pulser_news *news) {
  const struct dmi_pulse_act *act = &news->act;
  switch (act->type) {
    case DMI_PULSE_SILENT:
      dmi_stall_silent(process, act->uid, true);
      break;
    case DMI_PULSE_HEARD:
      dmi_stall_silent(process, act->uid, false);
      dmi_dying_heard(process, act->uid);
      break;
    case DMI_PULSE_DOUBT:
      dmi_dying_doubt(process, act->uid, act->text);
      break;
    case DMI_PULSE_LOST:
      hear_lost(process, news);
      break;
    case DMI_PULSE_VIEW:
      hear_view(process, act);
      break;
    case DMI_PULSE_END:
      (void)dmi_actions_input(process,
                              &(struct dmi_input){.type = DMI_IN_CUT_OFF, .text = act->text});
      break;
    default: /* SEND is carried out elsewhere */
      break;
  }
}

void dmi_pulser_news_free(struct dmi_pulser_news *news, uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    dmi_slice_drop(&news[i].act.body);
    free(news[i].act.text);
  }
  free(news);
}

void dmi_pulser_hear(struct dmi_process *process, struct dmi_post *post) {
  struct dmi_pulser *pulser = process->pulser;
  struct dmi_pulser_news *news;
  uint32_t num;
  (void)post;
  dmi_mutex_lock(&pulser->lock);
  news = pulser->news;
  num = pulser->news_num;
  pulser->news = NULL;
  pulser->news_num = pulser->news_capacity = 0;
  pulser->posted = false;
  dmi_mutex_unlock(&pulser->lock);
  for (uint32_t i = 0; i < num; i++) {
    if (news[i].type == DMI_NEWS_MAY_CHANGE) {
      may_change(process);
    } else {
      hear_act(process, &news[i]);
    }
  }
  dmi_pulser_news_free(news, num);
}

/* ---- What was decided ------------------------------------------------------------------------ */

static struct dmi_pulser_news *add_news(struct dmi_pulser *pulser, enum dmi_pulser_news_type type) {
  DMI_XALLOC_GROW(pulser->news, pulser->news_num, pulser->news_capacity);
  pulser->news[pulser->news_num] = (struct dmi_pulser_news){.type = type};
  return &pulser->news[pulser->news_num++];
}

/* Pages are paused at once, also if the daemon is busy. */
static bool is_lease(struct dmi_pulser *pulser, const struct dmi_pulse_act *act) {
  if (act->type != DMI_PULSE_FREEZE && act->type != DMI_PULSE_THAW) return false;
  if (pulser->lease) dmi_lease_set(pulser->lease, act->type == DMI_PULSE_FREEZE);
  return true;
}

static bool may_change_now(struct dmi_pulser *pulser) {
  if (!pulser->refused || !dmi_pulse_may_change(pulser->core, dmi_pulser_now())) return false;
  pulser->refused = false;
  return true;
}

/* True: the daemon must be told that there is some. */
static bool has_news(struct dmi_pulser *pulser) {
  if (!pulser->news_num || pulser->posted) return false;
  pulser->posted = true;
  return true;
}

/* With the lock held: all but SEND becomes news.  True: the daemon must be told. */
static bool keep_news(struct dmi_pulser *pulser, struct dmi_pulse_out *out, bool told) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulser_news *news;
    if (out->act[i].type == DMI_PULSE_SEND) continue;
    if (is_lease(pulser, &out->act[i])) continue;
    news = add_news(pulser, DMI_NEWS_ACT);
    news->act = out->act[i];
    news->told = told;
    out->act[i] = (struct dmi_pulse_act){.type = DMI_PULSE_SEND}; /* moved; to nobody */
  }
  if (may_change_now(pulser)) (void)add_news(pulser, DMI_NEWS_MAY_CHANGE);
  return has_news(pulser);
}

/* With the lock held: a lease that an answer gives is given now, whatever becomes of this process.
 */
static bool sending_ends(struct dmi_pulser *pulser) {
  pulser->sends = false;
  if (!pulser->awaits_lease) return false;
  pulser->awaits_lease = false; /* if it still has none it asks again */
  (void)add_news(pulser, DMI_NEWS_MAY_CHANGE);
  return has_news(pulser);
}

struct dmi_pulser_order *dmi_pulser_order(struct dmi_pulser *pulser,
                                          enum dmi_pulser_order_type type, dmi_uid_t uid) {
  DMI_XALLOC_GROW(pulser->orders, pulser->order_num, pulser->order_capacity);
  pulser->orders[pulser->order_num] = (struct dmi_pulser_order){.type = type, .uid = uid};
  return &pulser->orders[pulser->order_num++];
}

void dmi_pulser_orders_free(struct dmi_pulser_order *orders, uint32_t num) {
  for (uint32_t i = 0; i < num; i++)
    dmi_slice_drop(&orders[i].msg.body);
  free(orders);
}

/* With the lock held: the thread is to send these. */
static void order_sends(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    if (!act->uid || act->type != DMI_PULSE_SEND) continue;
    dmi_pulser_order(pulser, DMI_ORDER_SEND, act->uid)->msg = act->msg;
    act->msg.body = (struct dmi_slice){0}; /* moved */
  }
}

static void send_all(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    if (act->uid && dmi_net_send(pulser->net, act->uid, &act->msg)) {
      act->msg.body = (struct dmi_slice){0}; /* taken over */
      dmi_net_flush(pulser->net, act->uid);
    }
  }
  dmi_net_flush_gathered(pulser->net);
}

void dmi_pulser_carry(struct dmi_pulser *pulser, struct dmi_pulse_out *out, bool thread,
                      bool told) {
  bool tell = keep_news(pulser, out, told);
  if (!thread) order_sends(pulser, out);
  if (thread) pulser->sends = true;
  dmi_mutex_unlock(&pulser->lock);
  if (thread) {
    send_all(pulser, out);
    dmi_mutex_lock(&pulser->lock);
    tell |= sending_ends(pulser);
    dmi_mutex_unlock(&pulser->lock);
  } else if (pulser->net) {
    dmi_net_post(pulser->net); /* it obeys orders, and sets its timer again */
  }
  dmi_pulse_out_free(out);
  if (tell) dmi_post(pulser->process, &pulser->post);
}
