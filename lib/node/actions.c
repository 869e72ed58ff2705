/*
 * actions.c - carries out what the protocol of this process decides (core/node.h).
 *
 * Runs in the daemon thread.  Actions are carried out in order; an input that one of them causes
 * adds its own actions at the end of the same list.
 */
#include "node/actions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "node/dying.h"
#include "node/openxm.h"
#include "node/pager.h"
#include "node/pulser.h"
#include "node/records.h"
#include "node/runtime.h"
#include "node/see.h"
#include "node/stall.h"
#include "node/tracer.h"
#include "sync/barrier.h"

/* ns that the end waits for what others tell of themselves, if this process writes a trace */
#define TRACE_END INT64_C(10000000000)
#define TRACE_FATAL INT64_C(300000000)

struct dmi_actions {
  struct dmi_out out;
  bool carrying;
  bool coordinating;      /* the event "coordinating" was emitted */
  bool keeps;             /* this process leaves, but no other can take its pages */
  struct dmi_wait *waits; /* calls that have no result yet */
  uint64_t last_op;
};

static struct dmi_actions *events(struct dmi_process *process) {
  if (!process->events) {
    process->events = dmi_xalloc(1, sizeof(*process->events));
    dmi_out_init(&process->events->out);
  }
  return process->events;
}

struct dmi_out *dmi_actions(struct dmi_process *process) {
  return &events(process)->out;
}

bool dmi_actions_input(struct dmi_process *process, const struct dmi_input *in) {
  bool good = dmi_node_step(process->node, in, dmi_actions(process));
  dmi_actions_carry(process);
  return good;
}

uint64_t dmi_wait_add(struct dmi_process *process, struct dmi_wait *wait) {
  struct dmi_actions *own = events(process);
  wait->op = ++own->last_op;
  wait->next = own->waits;
  own->waits = wait;
  return wait->op;
}

static void result(struct dmi_process *process, const struct dmi_mact *act) {
  struct dmi_wait **at = &events(process)->waits;
  while (*at && (*at)->op != act->op)
    at = &(*at)->next;
  if (*at) {
    struct dmi_wait *wait = *at;
    *at = wait->next;
    wait->done(process, wait, act);
  }
}

/* ---- Busy ----------------------------------------------------------------------------------- */

struct busy_wait {
  struct dmi_wait wait;
  void (*known)(void *arg, int32_t error);
  void *arg;
};

static void busy_known(struct dmi_process *process, struct dmi_wait *wait,
                       const struct dmi_mact *act) {
  struct busy_wait *busy = (struct busy_wait *)(void *)wait;
  (void)process;
  if (busy->known) busy->known(busy->arg, act->error);
  free(busy);
}

void dmi_runtime_busy(struct dmi_process *process, void (*known)(void *arg, int32_t error),
                      void *arg) {
  struct busy_wait *busy = dmi_xalloc(1, sizeof(*busy));
  busy->wait.done = busy_known;
  busy->known = known;
  busy->arg = arg;
  (void)dmi_actions_input(
      process, &(struct dmi_input){.type = DMI_IN_BUSY, .op = dmi_wait_add(process, &busy->wait)});
}

void dmi_runtime_idle(struct dmi_process *process) {
  atomic_fetch_add(&process->access.idle_owed, 1);
  dmi_runtime_idle_look(process);
}

void dmi_runtime_idle_look(struct dmi_process *process) {
  /* This process may not end before its asynchronous writes have arrived, also those that nobody
   * waits for. */
  while (atomic_load(&process->access.idle_owed) && !dmi_ops_any(process->access.ops)) {
    atomic_fetch_sub(&process->access.idle_owed, 1);
    (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_IDLE});
  }
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void coordinating(struct dmi_process *process) {
  struct dmi_actions *own = events(process);
  if (own->coordinating) return;
  own->coordinating = true;
  dmi_emit(&process->stream, coordinating, .view = dmi_member_view(process->member));
}

void dmi_actions_coordinator(struct dmi_process *process) {
  if (dmi_member_coordinator(process->member) == dmi_member_uid(process->member)) {
    coordinating(process);
  } else {
    events(process)->coordinating = false;
  }
}

/* All have recovered from a loss. */
static void resumed(struct dmi_process *process) {
  dmi_actions_coordinator(process); /* it may have been lost, and this process have its role */
  dmi_records_replay_held(process);
  /* It may have resumed what was in doubt, and recover from the next loss. */
  if (!atomic_load(&process->access.core.frozen)) dmi_net_lend(process->access.net);
}

static void connect_to(struct dmi_process *process, const struct dmi_mact *act) {
  static const struct dmi_addr none;
  struct dmi_seed *seed = &process->seed;
  char why[DMI_CONTACT_WHY];
  seed->trying = memcmp(&act->addr, &none, sizeof(none)) == 0;
  if (!seed->trying) {
    dmi_net_join_addr(process->access.net, &act->addr);
  } else if (!process->config.join_file) {
    dmi_net_join(process->access.net, process->config.join_host, process->config.join_port);
  } else if (dmi_contact_read(process->config.join_file, seed->host, &seed->port, why) || !*why) {
    dmi_net_join(process->access.net, seed->host, seed->port);
  } else {
    (void)dmi_actions_input(process,
                            &(struct dmi_input){.type = DMI_IN_NOT_CONNECTED, .text = why});
  }
}

bool dmi_actions_seed_moved(struct dmi_process *process) {
  struct dmi_seed *seed = &process->seed;
  char why[DMI_CONTACT_WHY];
  if (!seed->trying || !process->config.join_file ||
      !dmi_contact_read(process->config.join_file, seed->host, &seed->port, why)) {
    return false;
  }
  dmi_net_join(process->access.net, seed->host, seed->port);
  return true;
}

/* This process does not leave after all. */
static void stays(struct dmi_process *process) {
  if (process->remote) process->program.remote->stays(process->remote);
  if (process->teams) process->program.team->stays(process->teams);
}

void dmi_actions_stopped(struct dmi_process *process, bool stopped) {
  if (stopped) stopped = dmi_threads_stop(process->threads);
  /* A thread may have begun while remote functions were waited for: they begin here again. */
  if (!stopped) stays(process);
  (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_STOPPED, .yes = stopped});
}

/* Functions for OpenXM clients, and remote functions, that run here may take a while to end;
 * threads of the program are not waited for. */
void dmi_actions_stop_threads(struct dmi_process *process) {
  int32_t error = DMI_OK;
  bool runs = dmi_threads_running(process->threads);
  if (process->teams && !process->program.team->stop(process->teams)) runs = true;
  if (!runs && !dmi_openxm_leave(process)) return; /* it comes here again when it has ended */
  if (process->remote && !runs) error = process->program.remote->stop(process->remote);
  if (error == DMI_OK || error == DMI_EBUSY) dmi_actions_stopped(process, error == DMI_OK && !runs);
}

struct ended_list {
  uint32_t num, capacity;
  struct dmi_ended *ended;
};

static void ended_add(void *arg, uint64_t number, int64_t value) {
  struct ended_list *list = arg;
  DMI_XALLOC_GROW(list->ended, list->num, list->capacity);
  list->ended[list->num++] = (struct dmi_ended){number, (uint64_t)value};
}

/* The pages are gone; now adds the results of threads that ended here. */
static void drained(struct dmi_process *process) {
  struct ended_list list = {0, 0, NULL};
  struct dmi_input in = {.type = DMI_IN_DRAINED};
  atomic_store(&process->access.drain, 0);
  dmi_threads_hand_over(process, ended_add, &list);
  in.ended = list.ended;
  in.ended_num = list.num;
  (void)dmi_actions_input(process, &in);
  free(list.ended);
}

static bool remote_runs(struct dmi_process *process) {
  return process->remote && process->program.remote->runs(process->remote);
}

static void fatal(struct dmi_process *process, const char *why, bool all) {
  if (process->remote) process->program.remote->fatal(process->remote);
  dmi_emit(&process->stream, error, .subsystem = "member", .text = why, .all = all);
  process->exit_code = 1;
  /* User code that runs cannot be stopped: the process ends without it, once all messages for
   * others are sent. */
  process->cut_off = dmi_threads_main_runs(process->threads) ||
                     dmi_threads_running(process->threads) || remote_runs(process) ||
                     dmi_openxm_runs(process);
  dmi_net_expect_close(process->access.net);
  dmi_tracer_finish(process, TRACE_FATAL);
}

void dmi_actions_fatal(struct dmi_process *process, const char *why) {
  fatal(process, why, false);
}

/* True if another member has not left. */
static bool has_company(struct dmi_process *process) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  for (uint32_t i = 0; i < num; i++) {
    if (!peers[i].left && peers[i].uid != process->access.core.self) return true;
  }
  return false;
}

/* If it keeps pages that others may need, it says so; the only process of a program need not. */
static void left(struct dmi_process *process) {
  uint64_t pages = atomic_load(&process->access.core.owned);
  if (events(process)->keeps && pages > 0 && has_company(process))
    dmi_emit(&process->stream, keeps_pages, .pages = pages);
  dmi_emit(&process->stream, left);
}

/* The user of a witness sees nothing else of the program. */
static void say_witness(struct dmi_process *process) {
  struct dmi_slice args = dmi_member_args(process->member);
  const struct dmi_peer *of = dmi_member_peer(process->member, dmi_member_main(process->member));
  if (!of) of = dmi_member_peer(process->member, dmi_member_coordinator(process->member));
  dmi_emit(&process->stream, witness, .program = args.len ? (const char *)args.ptr : "the program",
           .id = of->dmi_id.n, .host = of->info.host);
}

static void joined(struct dmi_process *process, const struct dmi_mact *act) {
  char program[33];
  if (process->takes_no_part) return; /* DMI_main does not begin */
  process->dmi_id = act->dmi_id;
  dmi_stream_is(&process->stream, act->dmi_id);
  atomic_store(&process->access.active, 1);
  for (int i = 0; i < 16; i++)
    snprintf(program + 2 * i, 3, "%02x", dmi_member_program(process->member)[i]);
  dmi_emit(&process->stream, joined, .member = act->uid, .id = act->dmi_id.n, .program = program);
  if (process->config.witness) say_witness(process);
  dmi_status_done(&process->member_now, DMI_OK);
  dmi_openxm_joined(process);
}

/* Those of the program that has accepted this process.  Who has asked for others is told. */
static void settings(struct dmi_process *process) {
  const struct dmi_config *own = &process->config;
  struct dmi_settings theirs = dmi_member_settings(process->member);
  dmi_net_set_dead_after(process->access.net, theirs.dead_after);
  if (own->dead_after_set && (uint32_t)own->dead_after != theirs.dead_after) {
    dmi_say(&process->stream, DMI_LOG_WARN, "member",
            "--dead-after %d does not count: this program has %" PRIu32 ", from its first process",
            own->dead_after, theirs.dead_after);
  }
  if (own->survive && !theirs.survive) {
    dmi_say(&process->stream, DMI_LOG_WARN, "member",
            "--survive does not count: the first process of this program does not have it");
  }
  if (own->witness && !theirs.survive && !own->trace) { /* it may be there for its trace only */
    dmi_say(&process->stream, DMI_LOG_WARN, "member",
            "a witness is of no use for this program: its first process does not have --survive");
  }
  if (own->trust_refused && !theirs.trust_refused) {
    dmi_say(&process->stream, DMI_LOG_WARN, "member",
            "--trust-refused does not count: the first process of this program does not have it");
  }
}

/* A member is lost, and the program goes on without it. */
static void member_lost(struct dmi_process *process, const struct dmi_mact *act) {
  const struct dmi_notice *lost = &act->notices[0];
  const char *why = act->text;
  char name[DMI_NAME_TEXT], pages[64] = "", effect[160 + DMI_WIRE_DYING];
  dmi_info_name(name, lost->dmi_id, &lost->info);
  if (act->flag) memcpy(name, "witness", strlen("process")); /* as long */
  if (act->value) {
    snprintf(pages, sizeof(pages), "%" PRIu64 " page%s lost with it; ", act->value,
             act->value == 1 ? " is" : "s are");
  }
  snprintf(effect, sizeof(effect), "%s%s%sthe program goes on with %" PRIu32 " process%s",
           why ? why : "", why ? "; " : "", pages, act->peer_num, act->peer_num == 1 ? "" : "es");
  dmi_emit(&process->stream, member_lost, .member = lost->uid, .id = lost->dmi_id.n,
           .host = lost->info.host, .name = name, .pages = act->value, .effect = effect);
  dmi_dying_forget(process, lost->uid);
}

/* The thread that would run DMI_main in the first process runs DMI_recover. */
static void main_lost(struct dmi_process *process, const struct dmi_mact *act) {
  const struct dmi_peer *own = dmi_member_peer(process->member, process->access.core.self);
  char name[DMI_NAME_TEXT] = "this process";
  if (own) dmi_info_name(name, own->dmi_id, &own->info);
  dmi_say(&process->stream, DMI_LOG_WARN, "member",
          "DMI_main was lost with process %" PRIu32 ": DMI_recover goes on in %s", act->dmi_id.n,
          name);
  process->main_lost_with = act->dmi_id;
  dmi_threads_main_begins(process);
  dmi_status_done(&process->recover_now, DMI_OK);
}

/* DMI_exit was called: threads here are asked to return. */
static void stopping(struct dmi_process *process, const struct dmi_mact *act) {
  dmi_emit(&process->stream, stopping, .member = act->uid, .status = act->value);
  dmi_threads_end_waits(process->threads);
  dmi_barriers_look_again(process->barriers);
  if (process->remote) process->program.remote->stopping(process->remote);
  if (process->teams) process->program.team->stopping(process->teams);
  dmi_openxm_stopping(process);
}

/* FINISH: all has ended in order. */
static void finish(struct dmi_process *process) {
  uint32_t stopping = atomic_load(&process->access.core.stopping);
  process->finished = true;
  process->cut_off = remote_runs(process); /* for a client that is lost */
  if (stopping) process->exit_code = (int)stopping - 1;
  dmi_see_farewell(process, stopping != 0, process->exit_code);
  dmi_tracer_finish(process, TRACE_END);
}

static void act_member(struct dmi_process *process, struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_CONNECT:
      connect_to(process, act);
      break;
    case DMI_MACT_SELF:
      dmi_net_set_self(process->access.net, act->id, act->program_id);
      break;
    case DMI_MACT_SETTINGS:
      settings(process);
      break;
    case DMI_MACT_LOST:
      member_lost(process, act);
      break;
    case DMI_MACT_MAIN_LOST:
      main_lost(process, act);
      break;
    case DMI_MACT_RENAME:
      dmi_net_rename(process->access.net, act->id, act->uid);
      break;
    case DMI_MACT_ADD_PEER:
      dmi_net_add_peer(process->access.net, act->uid, &act->addr);
      break;
    case DMI_MACT_CLOSE_PEER:
      dmi_net_close(process->access.net, act->id);
      break;
    case DMI_MACT_VIEW:
      dmi_actions_view(process, act);
      break;
    case DMI_MACT_JOINED:
      joined(process, act);
      break;
    case DMI_MACT_OPENED:
      dmi_threads_open(process->threads);
      if (process->remote) process->program.remote->opened(process->remote);
      dmi_emit(&process->stream, opened);
      break;
    case DMI_MACT_CLOSED:
      dmi_emit(&process->stream, closed);
      break;
    case DMI_MACT_STOP_THREADS:
      dmi_actions_stop_threads(process);
      break;
    case DMI_MACT_START_DRAIN:
      dmi_emit(&process->stream, dismissed, .heir = act->uid);
      events(process)->keeps = act->uid == 0;
      break;
    case DMI_MACT_LEFT:
      left(process);
      break;
    case DMI_MACT_FORGET:
      dmi_emit(&process->stream, unmapped, .mapping = act->mapping.base);
      break;
    case DMI_MACT_RESULT:
      result(process, act);
      break;
    case DMI_MACT_TELL:
      dmi_say(&process->stream, DMI_LOG_WARN, "member", "%s", act->text);
      break;
    case DMI_MACT_EXPECT_CLOSE:
      dmi_pulser_ending(process);
      dmi_net_expect_close(process->access.net);
      break;
    case DMI_MACT_STOPPING:
      stopping(process, act);
      break;
    case DMI_MACT_FINISH:
      finish(process);
      break;
    case DMI_MACT_FATAL:
      fatal(process, act->text, act->flag);
      break;
    default:
      break;
  }
}

void dmi_runtime_send(struct dmi_process *process, uint32_t to, struct dmi_msg *msg) {
  if (dmi_net_send(process->access.net, to, msg)) {
    dmi_net_flush(process->access.net, to);
  } else {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
}

static void act_one(struct dmi_process *process, struct dmi_act *act) {
  switch (act->type) {
    case DMI_ACT_SEND:
      dmi_runtime_send(process, act->to, &act->msg);
      memset(&act->msg, 0, sizeof(act->msg));
      break;
    case DMI_ACT_MEMBER:
      act_member(process, act->member);
      break;
    case DMI_ACT_REPLAY:
      dmi_records_replay(process, act->map);
      break;
    case DMI_ACT_FREED:
      dmi_records_freed(process, act->map);
      break;
    case DMI_ACT_LOOK:
      dmi_pager_wake(process->pager);
      break;
    case DMI_ACT_TAKEN:
      dmi_pager_taken(process->pager, act->value);
      break;
    case DMI_ACT_LEAVES:
      atomic_store(&process->access.drain, 1);
      break;
    case DMI_ACT_STAYS:
      dmi_threads_go_on(process->threads);
      stays(process);
      break;
    case DMI_ACT_DRAINED:
      drained(process);
      break;
    case DMI_ACT_HOLD:
      dmi_access_hold(&process->access, act->to, &act->msg);
      break;
    case DMI_ACT_RESUMED:
      resumed(process);
      dmi_barriers_look_again(process->barriers);
      break;
    default: /* actions of pages, or of the node itself */
      break;
  }
}

void dmi_actions_carry(struct dmi_process *process) {
  struct dmi_actions *own = events(process);
  struct dmi_act act;
  if (own->carrying) return;
  own->carrying = true;
  while (dmi_node_next(process->node, &own->out, &act)) {
    act_one(process, &act);
    dmi_act_end(&act);
  }
  own->carrying = false;
  dmi_stall_begin(process);
}

void dmi_actions_end(struct dmi_process *process) {
  struct dmi_mact inactive;
  struct dmi_act act;
  if (!process->events) return;
  memset(&inactive, 0, sizeof(inactive));
  inactive.error = DMI_EINACTIVE;
  while (process->events->waits) {
    struct dmi_wait *wait = process->events->waits;
    process->events->waits = wait->next;
    wait->done(process, wait, &inactive);
  }
  while (dmi_out_take(&process->events->out, &act))
    dmi_act_end(&act);
  dmi_out_free(&process->events->out);
  free(process->events);
  process->events = NULL;
}
