/*
 * daemon.c - what the daemon thread does: the work that other threads post to it, and the events of
 * the network.
 *
 * Messages about pages may also be received by threads that wait for an answer (docs/wire.md).
 */
#include "node/daemon.h"

#include <signal.h>
#include <stdlib.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "msg/wire.h"
#include "node/actions.h"
#include "node/dying.h"
#include "node/exits.h"
#include "node/pager.h"
#include "node/parent.h"
#include "node/profiler.h"
#include "node/pulser.h"
#include "node/runtime.h"
#include "node/see.h"
#include "node/stall.h"
#include "node/stays.h"
#include "node/tracer.h"

static void drop(struct dmi_post *post) {
  if (post->drop) post->drop(post);
}

void dmi_post(struct dmi_process *process, struct dmi_post *post) {
  post->next = NULL;
  dmi_mutex_lock(&process->post_lock);
  if (process->posts_ended) {
    dmi_mutex_unlock(&process->post_lock);
    drop(post);
    return;
  }
  *process->posts_end = post;
  process->posts_end = &post->next;
  /* With the lock held: this may be the last post of a thread, after which the process ends and
   * frees the network.  While we hold the lock the daemon cannot take the post. */
  dmi_net_post(process->access.net);
  dmi_mutex_unlock(&process->post_lock);
}

void dmi_posts_end(struct dmi_process *process) {
  struct dmi_post *list;
  dmi_mutex_lock(&process->post_lock);
  process->posts_ended = true;
  list = process->posts;
  process->posts = NULL;
  process->posts_end = &process->posts;
  dmi_mutex_unlock(&process->post_lock);
  while (list) {
    struct dmi_post *post = list;
    list = list->next;
    drop(post);
  }
}

static void on_posted(void *arg) {
  struct dmi_process *process = arg;
  if (process->cut_off) return;
  for (;;) {
    struct dmi_post *post;
    dmi_mutex_lock(&process->post_lock);
    post = process->posts;
    if (post && !(process->posts = post->next)) process->posts_end = &process->posts;
    dmi_mutex_unlock(&process->post_lock);
    if (!post) break;
    post->run(process, post);
  }
  dmi_access_self(&process->access);
  if (atomic_load(&process->access.drain))
    (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_STEPPED});
  dmi_runtime_idle_look(process);
  dmi_stall_begin(process);
}

/* ---- Events of the network ------------------------------------------------------------------ */

static void *on_body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  struct dmi_process *process = arg;
  if (class == DMI_CLASS_PAGE || class == DMI_CLASS_HANDOVER)
    return dmi_access_body(&process->access, from, msg);
  if (class == DMI_CLASS_TEAM && process->teams && msg->type == DMI_TEAM_BODY)
    return process->program.team->where(process->teams, from, msg);
  /* Small, as msg/table.h limits it, but for WAKE_WITH, which is told when there is no memory. */
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

static bool on_message(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  struct dmi_process *process = arg;
  bool good;
  if (from < DMI_NET_TEMP && class == DMI_CLASS_PAGE)
    return dmi_access_message(&process->access, from, msg);
  if (class == DMI_CLASS_TEAM) {
    good = from < DMI_NET_TEMP && process->teams &&
           process->program.team->message(process->teams, from, msg);
    dmi_slice_drop(&msg->body);
    return good;
  }
  if (class == DMI_CLASS_REMOTE) {
    good = from < DMI_NET_TEMP && process->remote &&
           process->program.remote->message(process->remote, from, msg);
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
    return good;
  }
  if (class == DMI_CLASS_SEE) {
    good = dmi_see_message(process, from, msg);
    dmi_slice_drop(&msg->body);
    return good;
  }
  if (class != DMI_CLASS_THREAD) {
    bool last = msg->type == DMI_CTL_LAST_MESSAGE;
    good = dmi_actions_input(
        process,
        &(struct dmi_input){.type = DMI_IN_MESSAGE, .id = from, .msg = msg, .class = class});
    /* Only when that was checked: not every member may say it at any time. */
    if (good && last && process->remote) process->program.remote->last(process->remote, from);
    return good;
  }
  good = from < DMI_NET_TEMP && dmi_thread_message(process, from, msg);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

/* Called in any thread that receives. */
static void on_arrived(void *arg, const struct dmi_msg *msg, uint64_t off, uint64_t len) {
  struct dmi_process *process = arg;
  dmi_access_arrived(&process->access, msg, off, off + len);
}

static void on_lost(void *arg, uint32_t id, const char *why) {
  struct dmi_process *process = arg;
  if (id < DMI_NET_TEMP) {
    dmi_pulser_broken(process, id);
  } else {
    dmi_see_lost(process, id);
  }
  (void)dmi_actions_input(
      process,
      &(struct dmi_input){.type = DMI_IN_LOST, .id = id, .text = dmi_dying_why(process, id, why)});
}

static void on_gone(void *arg, dmi_uid_t uid) {
  dmi_tracer_gone(arg, uid);
}

static void on_stranger(void *arg, uint32_t temp) {
  (void)arg;
  (void)temp; /* the joiner sends the first message: JOIN */
}

static void on_joined(void *arg, uint32_t temp, const char *why) {
  struct dmi_process *process = arg;
  if (why && dmi_actions_seed_moved(process)) return;
  (void)dmi_actions_input(
      process, &(struct dmi_input){
                   .type = why ? DMI_IN_NOT_CONNECTED : DMI_IN_CONNECTED, .id = temp, .text = why});
}

/* The first signal of any kind asks to leave.  After it only Ctrl+C counts.  A batch system may
 * send SIGTERM several times (warning, limit, end of the script), and a shell and a terminal both
 * send SIGHUP: none of them may end a process that is leaving in order.  SIGKILL does. */
static void on_signal(void *arg, int signo) {
  struct dmi_process *process = arg;
  struct dmi_safe told = {.len = 0};
  if (signo == SIGTERM) dmi_parent_look(process->parent);
  if (process->signals > 0 && signo != SIGINT) return;
  switch (++process->signals) {
    case 1:
      (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
      dmi_stays_begin(process);
      break;
    case 2:
      dmi_say(&process->stream, DMI_LOG_WARN, "member", "still here: %s; the next %s ends %s",
              dmi_member_waits_for(process->member),
              process->config.control_fd >= 0 ? "SIGINT to it" : "Ctrl+C", dmi_stays_ends(process));
      dmi_see_dump(process);
      break;
    default:
      dmi_say(&process->stream, DMI_LOG_ERROR, "member", "ended by Ctrl+C");
      dmi_safe_add(&told, "ended at once by a third Ctrl+C (SIGINT) to pid ");
      dmi_safe_number(&told, (uint64_t)getpid());
      dmi_dying_tell(&told);
      dmi_dying_wait();
      dmi_profiler_end(process); /* where a program that hangs waits is what it is for */
      process->host.end(130);
  }
}

struct signal {
  struct dmi_post post; /* first */
  int number;
};

static void forget_signal(struct dmi_post *post) {
  free(post);
}

static void signalled(struct dmi_process *process, struct dmi_post *post) {
  struct signal *sent = (struct signal *)(void *)post;
  on_signal(process, sent->number);
  free(sent);
}

void dmi_runtime_signal(struct dmi_process *process, int number) {
  struct signal *sent = dmi_xalloc(1, sizeof(*sent));
  sent->post.run = signalled;
  sent->post.drop = forget_signal;
  sent->number = number;
  dmi_post(process, &sent->post);
}

/* What the membership core asks about the network. */
static bool env_connected(void *arg, uint32_t uid) {
  return dmi_net_connected(((struct dmi_process *)arg)->access.net, uid);
}

static void env_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  dmi_net_addrs(((struct dmi_process *)arg)->access.net, id, ours, theirs);
}

static const char *env_cause(void *arg, dmi_uid_t uid) {
  return dmi_dying_told(arg, uid);
}

static bool env_stood_still(void *arg, char text[DMI_PULSE_STOOD]) {
  return dmi_pulser_stood_still(arg, text);
}

/* ---- Members -------------------------------------------------------------------------------- */

static bool is_among(const uint32_t *list, uint32_t num, uint32_t uid) {
  uint32_t low = 0, high = num;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (list[mid] < uid) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low < num && list[low] == uid;
}

uint64_t dmi_daemon_uids_number(void) {
  static _Atomic uint64_t last;
  return atomic_fetch_add(&last, 1) + 1;
}

/* Each request and each message asks, mostly about the same process as before: this thread
 * remembers the last answer, and by which list it was given. */
static bool is_member(void *arg, uint32_t uid) {
  static __thread struct {
    uint64_t number;
    uint32_t uid;
    bool is;
  } last __attribute__((tls_model("initial-exec")));
  struct dmi_process *process = arg;
  const uint64_t number = atomic_load(&process->uids_number); /* before the list, or older */
  const struct dmi_uids *uids;
  if (last.number == number && last.uid == uid) return last.is;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  last.is = is_among(uids->uid, uids->num, uid);
  dmi_epoch_leave();
  last.number = number;
  last.uid = uid;
  return last.is;
}

static bool is_there(void *arg, uint32_t uid) {
  struct dmi_process *process = arg;
  const struct dmi_uids *uids;
  bool is;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  is = is_among(uids->uid, uids->num, uid) || is_among(uids->uid + uids->num, uids->left, uid);
  dmi_epoch_leave();
  return is;
}

/* Calls DMI_function; meanwhile calls of the API fail with DMI_EINFUNC. */
static void call_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                          int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  struct dmi_process *process = dmi_runtime_process();
  dmi_exits_in_function(process);
  dmi_in_function = true;
  process->program.function(page, size, out1, out1_size, out2, out2_size, in, in_size, tag);
  dmi_in_function = false;
}

/* A step on a table: by the part of the library whose tag it has. */
static void call_step(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                      int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  const struct dmi_program *program = &dmi_runtime_process()->program;
  if (tag == DMI_STEP_TEAM && program->team) {
    program->team->step(page, size, out1, out1_size, out2, out2_size, in, in_size, tag);
  } else if (tag == DMI_STEP_FARM && program->step) {
    program->step(page, size, out1, out1_size, out2, out2_size, in, in_size, tag);
  }
}

struct dmi_mapping *dmi_enter_mapping(struct dmi_process *process, const struct dmi_entry *entry) {
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, entry->base);
  dmi_epoch_leave(); /* only this thread removes mappings */
  if (mapping) return mapping;
  mapping = dmi_mapping_new(entry->base, entry->page_size, entry->page_num, entry->home);
  if (mapping) mapping->map.tag = entry->tag;
  if (mapping) dmi_space_add(&process->access.space, &process->access.core, mapping);
  return mapping;
}

static bool is_near(void *arg, uint32_t uid) {
  return dmi_net_is_near(((struct dmi_process *)arg)->access.net, uid);
}

/* ---- For runtime.c, which opens the process ------------------------------------------------- */

void dmi_daemon_core(struct dmi_process *process) {
  struct dmi_core *core = &process->access.core;
  core->is_member = is_member;
  core->is_there = is_there;
  core->is_near = is_near;
  core->function = process->program.function ? call_function : NULL;
  core->step = process->program.step || process->program.team ? call_step : NULL;
  core->account = &dmi_pager_account;
  core->arg = process;
}

struct dmi_net_handler dmi_daemon_handler(struct dmi_process *process) {
  return (struct dmi_net_handler){.arg = process,
                                  .body = on_body,
                                  .message = on_message,
                                  .arrived = on_arrived,
                                  .lends = true,
                                  .borrows = true,
                                  .lost = on_lost,
                                  .gone = on_gone,
                                  .stranger = on_stranger,
                                  .joined = on_joined,
                                  .posted = on_posted,
                                  .signal = process->host.signals ? on_signal : NULL};
}

struct dmi_member_env dmi_daemon_member_env(struct dmi_process *process) {
  return (struct dmi_member_env){
      .arg = process,
      .connected = env_connected,
      .addrs = env_addrs,
      .cause = env_cause,
      .stood_still = env_stood_still,
      .survive = &dmi_pulser_survive,
      .survive_arg = process,
      .settings = dmi_config_settings(&process->config, process->config.survive),
      .surviving = dmi_config_settings(&process->config, true),
      .witness = process->config.witness,
      .main_lost = process->program.recover ? DMI_MAIN_RECOVERS : DMI_MAIN_ENDS};
}
