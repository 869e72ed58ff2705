/*
 * stall.c - see stall.h.
 *
 * While anything is in flight, the daemon looks once a second for processes that may owe an answer:
 * those that the membership core waits for, those that have not answered a DMI_create, and, if an
 * operation is in flight that was so at the last look, those that may have it.  It sends PING to
 * each (dmi_net_ping).  A process that shows no sign of life for QUIET looks is named in one line,
 * and in another one when it answers again.  Only lib/net decides that a process is lost.
 *
 * An operation may have been forwarded, and only others know to whom.  So all members are asked:
 * those with a connection at once, a few of the others at each look.
 *
 * Operations do not report here, and need no clock: their numbers show whether they are the same as
 * at the last look.
 */
#include "node/stall.h"

#include <inttypes.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/xalloc.h"
#include "core/member.h"
#include "node/see.h"
#include "node/thread.h"

#define LOOK 1.0       /* seconds */
#define QUIET 3        /* looks without a sign of life, until it is named */
#define CONNECT_MOST 4 /* the most members to which one look connects */

#define TAKEN (64 << 10) /* bytes between two looks that show that a transfer goes on */

#define OPERATION "a read or write here may need its answer"

/* A process that may owe us an answer. */
struct stalled {
  struct stalled *next;
  uint32_t uid;
  const char *what; /* what waits for it; for the line */
  char lost[80];    /* that it will be lost */
  bool awaited;     /* it may owe an answer at this look */
  bool silent;      /* nothing comes of it, not even pulses */
  bool said;        /* a line has named it */
  bool known;       /* `signs` is valid */
  uint32_t quiet;   /* consecutive looks at which `signs` did not change */
  struct dmi_net_signs signs;
  time_t since; /* time of the last change */
};

struct dmi_stall {
  struct dmi_process *process;
  struct ev_timer timer;
  struct stalled *all;
};

static struct stalled *find(struct dmi_stall *stall, uint32_t uid) {
  struct stalled *one = stall->all;
  while (one && one->uid != uid)
    one = one->next;
  return one;
}

/* NULL: no memory. */
static struct stalled *find_or_add(struct dmi_stall *stall, uint32_t uid) {
  struct stalled *one = find(stall, uid);
  if (one) return one;
  one = calloc(1, sizeof(*one));
  if (!one) return NULL;
  one->uid = uid;
  one->since = time(NULL);
  one->next = stall->all;
  return stall->all = one;
}

static void want(void *arg, uint32_t uid, const char *what) {
  struct dmi_stall *stall = arg;
  struct stalled *one = find_or_add(stall, uid);
  if (!one) return;
  if (!one->awaited) one->what = what;
  one->awaited = true;
}

static void want_all(struct dmi_stall *stall) {
  struct dmi_process *process = stall->process;
  uint32_t num, fresh = 0;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  for (uint32_t i = 0; i < num; i++) {
    uint32_t uid = peers[i].uid;
    if (uid == process->access.core.self) continue;
    if (dmi_net_connected(process->access.net, uid) || fresh++ < CONNECT_MOST)
      want(stall, uid, OPERATION);
  }
}

static void say_back(struct dmi_stall *stall, struct stalled *one) {
  char name[DMI_NAME_TEXT];
  dmi_member_name(stall->process->member, one->uid, name);
  dmi_emit(&stall->process->stream, answers, .member = one->uid, .name = name);
  one->said = false;
}

static void say_waiting(struct dmi_stall *stall, struct stalled *one) {
  char name[DMI_NAME_TEXT];
  dmi_member_name_pid(stall->process->member, one->uid, name);
  dmi_emit(&stall->process->stream, stalled, .member = one->uid, .name = name,
           .since = (uint64_t)one->since, .effect = one->what);
  dmi_member_name(stall->process->member, one->uid, name);
  dmi_see_stalled(stall->process, one->uid, name);
  one->said = true;
}

/* True if there is a sign that its daemon runs: a message from it, or many bytes that its machine
 * took from us, since a machine buffers only a few for a daemon that hangs.  Once it was named,
 * only messages count. */
static bool lives(const struct stalled *one, const struct dmi_net_signs *now) {
  if (now->heard != one->signs.heard) return true;
  return !one->said && now->taken - one->signs.taken >= TAKEN;
}

static void look_at(struct dmi_stall *stall, struct stalled *one) {
  struct dmi_net_signs signs;
  if (!dmi_net_ping(stall->process->access.net, one->uid, &signs)) {
    one->awaited = false; /* it is lost, or has left */
    one->said = false;
    return;
  }
  if (one->known && !lives(one, &signs)) {
    one->signs.taken = signs.taken;
    if (++one->quiet >= QUIET && !one->said) say_waiting(stall, one);
    return;
  }
  if (one->said && !one->silent) say_back(stall, one);
  if (one->known) one->since = time(NULL);
  one->known = true;
  one->signs = signs;
  one->quiet = 0;
}

/* Nothing waits for it any more.  If the reason is that it has answered, says so. */
static void say_whether_back(struct dmi_stall *stall, struct stalled *one) {
  struct dmi_net_signs signs;
  if (dmi_net_ping(stall->process->access.net, one->uid, &signs) && lives(one, &signs)) {
    say_back(stall, one);
  }
}

/* True if any process may owe an answer. */
static bool look_at_all(struct dmi_stall *stall) {
  for (struct stalled **at = &stall->all, *one; (one = *at);) {
    if (one->awaited) look_at(stall, one);
    if (one->awaited || one->silent) {
      at = &one->next;
      continue;
    }
    if (one->said) say_whether_back(stall, one);
    *at = one->next;
    free(one);
  }
  return stall->all != NULL;
}

static void on_look(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct dmi_stall *stall = timer->data;
  struct dmi_process *process = stall->process;
  bool any = false;
  (void)loop;
  (void)events;
  /* First: operations that begin from here on are seen by the next look. */
  atomic_store(&process->access.stalling, 0);
  for (struct stalled *one = stall->all; one; one = one->next)
    one->awaited = false;
  dmi_member_awaits(process->member, want, stall);
  dmi_threads_awaits(process->threads, want, stall);
  if (dmi_ops_look(process->access.ops, &any)) want_all(stall);
  if (look_at_all(stall) || any) atomic_store(&process->access.stalling, 1);
  dmi_stall_begin(process);
}

static struct dmi_stall *stall_of(struct dmi_process *process) {
  struct dmi_stall *stall = process->stall;
  if (stall) return stall;
  stall = dmi_xalloc(1, sizeof(*stall));
  stall->process = process;
  ev_timer_init(&stall->timer, on_look, LOOK, 0.);
  stall->timer.data = stall;
  return process->stall = stall;
}

void dmi_stall_silent(struct dmi_process *process, uint32_t uid, bool silent) {
  struct dmi_stall *stall = stall_of(process);
  struct stalled *one = find_or_add(stall, uid);
  if (!one) return;
  one->silent = silent;
  if (silent && !one->said) {
    uint32_t after = dmi_member_settings(process->member).dead_after;
    snprintf(one->lost, sizeof(one->lost),
             "it is lost when it is silent for %" PRIu32 " s (dmirun --dead-after)", after);
    one->what = one->lost;
    one->since = time(NULL) - after / 2;
    say_waiting(stall, one);
  } else if (!silent && one->said) {
    say_back(stall, one);
  }
}

void dmi_stall_lost(struct dmi_process *process, uint32_t uid) {
  struct stalled *one = process->stall ? find(process->stall, uid) : NULL;
  if (one) one->silent = one->said = false;
}

static void found(void *arg, uint32_t uid, const char *what) {
  (void)uid;
  (void)what;
  *(bool *)arg = true;
}

void dmi_stall_begin(struct dmi_process *process) {
  struct dmi_stall *stall = stall_of(process);
  bool any = atomic_load(&process->access.stalling);
  if (ev_is_active(&stall->timer)) return;
  if (!any) dmi_member_awaits(process->member, found, &any);
  if (!any) return;
  atomic_store(&process->access.stalling, 1);
  ev_timer_set(&stall->timer, LOOK, 0.);
  ev_timer_start(dmi_net_loop(process->access.net), &stall->timer);
}

void dmi_stall_end(struct dmi_process *process) {
  struct dmi_stall *stall = process->stall;
  if (!stall) return;
  ev_timer_stop(dmi_net_loop(process->access.net), &stall->timer);
  while (stall->all) {
    struct stalled *one = stall->all;
    stall->all = one->next;
    free(one);
  }
  free(stall);
  process->stall = NULL;
}
