/*
 * runtime.c - the life of this process: start, daemon thread, events of the network and of the
 * membership core, end.
 *
 * The happy path: main() opens the network and starts the daemon thread; in the first process it
 * runs DMI_main as soon as this process is a member; then it waits for the daemon to end, and
 * cleans up.
 *
 * Failure modes: bad options or a port in use end the process with a line before anything is
 * started; a program that cannot be joined likewise; a lost member that matters ends the process
 * with a line and status 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/runtime.h"

#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/heap.h"
#include "core/member.h"
#include "node/check.h"
#include "node/config.h"
#include "access/early.h"
#include "node/events.h"
#include "node/key.h"
#include "node/pager.h"
#include "node/parent.h"
#include "node/records.h"
#include "node/self.h"
#include "msg/service.h"
#include "msg/wire.h"
#include "node/stall.h"
#include "sync/alloc.h"
#include "sync/barrier.h"
#include "sync/sync.h"

__thread struct dmi_process *dmi_runtime_mine __attribute__((tls_model("initial-exec")));
struct dmi_process *_Atomic dmi_runtime_only;

void dmi_runtime_enter(struct dmi_process *process) {
  dmi_runtime_mine = process;
}

struct dmi_access *dmi_runtime_access(void) {
  struct dmi_process *process = dmi_runtime_process();
  return process ? &process->access : NULL;
}

struct dmi_process *dmi_runtime_usable(void) {
  struct dmi_process *process = dmi_runtime_process();
  int32_t error = dmi_runtime_error(process);
  if (error == DMI_OK) return process;
  dmi_fail(error);
  return NULL;
}

/* ---- Work for the daemon thread ------------------------------------------------------------- */

void dmi_post(struct dmi_process *process, struct dmi_post *post) {
  post->next = NULL;
  dmi_mutex_lock(&process->post_lock);
  *process->posts_end = post;
  process->posts_end = &post->next;
  /* Told with the lock held: a thread's last post may be what lets the process end, and with it the
   * network; the daemon cannot take the post before we are through here. */
  dmi_net_post(process->access.net);
  dmi_mutex_unlock(&process->post_lock);
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
    (void)dmi_events_input(process, &(struct dmi_input){.type = DMI_IN_STEPPED});
  dmi_runtime_idle_look(process);
  dmi_stall_begin(process);
}

/* ---- The network's events ------------------------------------------------------------------- */

static void *on_body(void *arg, uint32_t from, struct dmi_msg *msg) {
  struct dmi_process *process = arg;
  enum dmi_msg_class class = dmi_wire_class(msg);
  if (class == DMI_CLASS_PAGE || class == DMI_CLASS_HANDOVER)
    return dmi_access_body(&process->access, from, msg);
  msg->body.frame = dmi_frame_new(msg->body.len); /* small: the wire's table sets the limit */
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

static bool on_message(void *arg, uint32_t from, struct dmi_msg *msg) {
  struct dmi_process *process = arg;
  struct dmi_input in = {.type = DMI_IN_MESSAGE, .id = from, .msg = msg};
  enum dmi_msg_class class = dmi_wire_class(msg);
  bool good;
  if (from < DMI_NET_TEMP && class == DMI_CLASS_PAGE)
    return dmi_access_message(&process->access, from, msg);
  if (class != DMI_CLASS_THREAD) return dmi_events_input(process, &in);
  good = from < DMI_NET_TEMP && dmi_thread_message(process, from, msg);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

static bool on_lendable(void *arg, const struct dmi_msg *msg) {
  (void)arg;
  return dmi_access_lendable(msg);
}

/* In any thread that receives. */
static void on_arrived(void *arg, const struct dmi_msg *msg, const void *body, uint64_t off,
                       uint64_t len) {
  struct dmi_process *process = arg;
  dmi_early_arrived(process->access.ops, msg, body, off, len);
  dmi_access_arrived(&process->access, msg, off + len);
}

static void on_lost(void *arg, uint32_t id, const char *why) {
  struct dmi_process *process = arg;
  (void)dmi_events_input(process, &(struct dmi_input){.type = DMI_IN_LOST, .id = id, .text = why});
}

static void on_stranger(void *arg, uint32_t temp) {
  (void)arg;
  (void)temp; /* it speaks first: JOIN */
}

static void on_joined(void *arg, uint32_t temp, const char *why) {
  struct dmi_process *process = arg;
  if (why && dmi_events_seed_moved(process)) return;
  (void)dmi_events_input(
      process, &(struct dmi_input){
                   .type = why ? DMI_IN_NOT_CONNECTED : DMI_IN_CONNECTED, .id = temp, .text = why});
}

/* The first signal of any kind asks to leave.  Behind it only Ctrl+C counts: a batch system
 * sends SIGTERM again for reasons of its own (warning, limit, end of the script), a shell and the
 * terminal each send SIGHUP, and no number of them may end what is on its way out in order.  There
 * is SIGKILL for that. */
static void on_signal(void *arg, int signo) {
  struct dmi_process *process = arg;
  if (signo == SIGTERM) dmi_parent_look(process->parent);
  if (process->signals > 0 && signo != SIGINT) return;
  switch (++process->signals) {
    case 1:
      (void)dmi_events_input(process, &(struct dmi_input){.type = DMI_IN_LEAVE_ASKED});
      break;
    case 2:
      dmi_say(&process->stream, DMI_LOG_WARN, "member", "still here: %s; once more ends %s",
              dmi_member_waits_for(process->member),
              dmi_member_losable(process->member)
                  ? "only this process, at once: the program goes on without it"
                  : "this process at once, and with it the program");
      break;
    default:
      dmi_say(&process->stream, DMI_LOG_ERROR, "member", "ended by Ctrl+C");
      _exit(130);
  }
}

static bool env_connected(void *arg, uint32_t uid) {
  return dmi_net_connected(((struct dmi_process *)arg)->access.net, uid);
}

static void env_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  dmi_net_addrs(((struct dmi_process *)arg)->access.net, id, ours, theirs);
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

static bool is_member(void *arg, uint32_t uid) {
  struct dmi_process *process = arg;
  const struct dmi_uids *uids;
  bool is;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  is = is_among(uids->uid, uids->num, uid);
  dmi_epoch_leave();
  return is;
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

/* DMI_function, marked so that it cannot call back into DMI. */
static void call_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                          int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  dmi_in_function = true;
  dmi_runtime_process()->program.function(page, size, out1, out1_size, out2, out2_size, in, in_size,
                                          tag);
  dmi_in_function = false;
}

void dmi_runtime_send(struct dmi_process *process, uint32_t to, struct dmi_msg *msg) {
  if (dmi_net_send(process->access.net, to, msg)) {
    dmi_net_flush(process->access.net, to);
  } else {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
}

struct dmi_mapping *dmi_enter_mapping(struct dmi_process *process, const struct dmi_entry *entry) {
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, entry->base);
  dmi_epoch_leave(); /* only this thread removes mappings */
  if (mapping) return mapping;
  mapping = dmi_mapping_new(entry->base, entry->page_size, entry->page_num, entry->home);
  if (mapping) mapping->map.word = entry->word;
  if (mapping) dmi_space_add(&process->access.space, &process->access.core, mapping);
  return mapping;
}

/* ---- Start and end -------------------------------------------------------------------------- */

/* The first process is the first home of the allocator's pages. */
static void enter_system(struct dmi_process *process) {
  struct dmi_entry entry = {DMI_SYSTEM_BASE, DMI_SYSTEM_PAGE, DMI_SYSTEM_NUM,
                            dmi_member_uid(process->member), DMI_WORD_SYSTEM};
  if (!dmi_enter_mapping(process, &entry)) abort();
}

static bool joins(const struct dmi_process *process) {
  return process->config.join_host || process->config.join_file;
}

static void contact_end(struct dmi_process *process) {
  if (!process->contact) return;
  /* Whoever is the coordinator at the end has nobody to hand that over to. */
  dmi_contact_end(process->contact,
                  dmi_member_coordinator(process->member) == dmi_member_uid(process->member));
}

static void *daemon_body(void *arg) {
  struct dmi_process *process = arg;
  if (joins(process)) {
    (void)dmi_events_input(process, &(struct dmi_input){.type = DMI_IN_JOIN});
  } else {
    uint8_t program_id[16];
    struct dmi_input in = {.type = DMI_IN_FIRST, .program_id = program_id};
    randombytes_buf(program_id, sizeof(program_id));
    dmi_threads_main_begins(process);
    (void)dmi_node_step(process->node, &in, dmi_events(process));
    enter_system(process); /* before DMI_main may begin */
    dmi_events_carry(process);
  }
  dmi_net_run(process->access.net);
  if (process->cut_off) {
    contact_end(process);
    fflush(stdout); /* not all streams: a thread that waits for input holds its stream's lock */
    _exit(process->exit_code);
  }
  return NULL;
}

static struct dmi_node *node_new(struct dmi_process *process, const struct dmi_node_info *info,
                                 const struct dmi_addr *addr) {
  struct dmi_node_env *env = &process->node_env;
  env->arg = process;
  env->net = (struct dmi_member_env){process, env_connected, env_addrs};
  dmi_records_env(process, &env->records);
  env->lock_room = dmi_pager_lock;
  env->unlock_room = dmi_pager_unlock;
  return dmi_node_new(&process->access.core, dmi_pager_pressure(process->pager), env, info, addr);
}

static bool process_open(struct dmi_process *process, const char *argv0) {
  struct dmi_net_config net;
  struct dmi_node_info info = {0};
  struct dmi_self self;
  struct dmi_net_handler handler = {.arg = process,
                                    .body = on_body,
                                    .message = on_message,
                                    .arrived = on_arrived,
                                    .lendable = on_lendable,
                                    .lost = on_lost,
                                    .stranger = on_stranger,
                                    .joined = on_joined,
                                    .posted = on_posted,
                                    .signal = on_signal};
  const char *why = NULL;
  dmi_log_begin(&process->log, &process->stream, process->config.log,
                "-"); /* its name may be what is wrong */
  if (!dmi_self_find(&self, &process->config, argv0)) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", self.why);
    return false;
  }
  dmi_log_begin(&process->log, &process->stream, process->config.log, self.host);
  net = dmi_self_net(&self, &process->config);
  net.stream = &process->stream;
  if (!dmi_key_read(net.key, process->config.key_file, process->config.key_fd, &process->stream))
    return false;
  process->access.net = dmi_net_open(&net, &handler, &why);
  if (!process->access.net && process->config.listen_else) {
    net.listen_port = 0;
    process->access.net = dmi_net_open(&net, &handler, &why);
  }
  sodium_memzero(net.key, sizeof net.key);
  if (!process->access.net) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", why);
    return false;
  }
  dmi_machine_look(&process->machine);
  process->pager = dmi_pager_new(process);
  if (!process->pager) return false;
  info.cores = process->machine.cores;
  info.memory = process->config.pool_bytes;
  memcpy(info.host, self.host, sizeof(info.host));
  self.addr.port = dmi_net_port(process->access.net);
  process->node = node_new(process, &info, &self.addr);
  process->member = dmi_node_member(process->node);
  process->contact = dmi_contact_new(process->config.contact_file, info.host,
                                     dmi_net_port(process->access.net), &process->stream);
  dmi_emit(&process->stream, listening, .name = self.name, .host = self.host,
           .port = self.addr.port, .cores = info.cores, .memory = info.memory);
  return true;
}

static struct dmi_process *process_new(const struct dmi_program *program) {
  struct dmi_process *process = calloc(1, sizeof(*process));
  struct dmi_uids *uids = calloc(1, sizeof(*uids));
  if (!process || !uids) abort();
  dmi_epoch_begin();
  dmi_stream_init(&process->stream);
  dmi_log_open(&process->log, &process->stream);
  process->program = *program;
  dmi_access_init(&process->access, &dmi_runtime_above, process);
  process->access.stream = &process->stream;
  process->access.core.is_member = is_member;
  process->access.core.is_there = is_there;
  process->access.core.function = program->function ? call_function : NULL;
  process->access.core.room = &dmi_pager_room;
  process->access.core.arg = process;
  process->threads = dmi_threads_new();
  process->alloc = dmi_alloc_new(&process->access);
  process->sync = dmi_sync_new(&process->access);
  process->barriers = dmi_barriers_new(&process->access);
  if (!process->threads || !process->alloc || !process->sync || !process->barriers) abort();
  atomic_init(&process->uids, uids);
  dmi_mutex_init(&process->post_lock, DMI_RANK_LEAF);
  process->posts_end = &process->posts;
  return process;
}

/* All but the stream, by which the end can be told. */
static void process_end(struct dmi_process *process) {
  dmi_events_end(process); /* what waits there may answer by, or wake, threads */
  dmi_pager_stop(process->pager);
  dmi_threads_free(process->threads);
  dmi_stall_end(process);
  contact_end(process);
  dmi_node_free(process->node);
  dmi_alloc_free(process->alloc);
  dmi_access_end(&process->access);
  dmi_sync_free(process->sync);
  dmi_barriers_free(process->barriers);
  if (process->contact) dmi_contact_free(process->contact);
  dmi_parent_free(process->parent);
  if (process->access.net) dmi_net_free(process->access.net);
  atomic_store(&dmi_runtime_only, NULL);
  dmi_runtime_enter(NULL);
  free(atomic_load(&process->uids));
  dmi_epoch_end();
  dmi_pager_free(process->pager);
  dmi_access_fini(&process->access);
  dmi_machine_free(&process->machine);
  dmi_mutex_destroy(&process->post_lock);
}

static void process_free(struct dmi_process *process) {
  if (process->config.event_fd >= 0) dmi_outlet_close(&process->outlet, &process->stream);
  free(process);
}

/* A process that has not begun ends. */
static int give_up(struct dmi_process *process, int exit_code) {
  process_end(process);
  process_free(process);
  return exit_code;
}

/* What the environment says, and who is to be told what happens.  False: it says something wrong.
 */
static bool configure(struct dmi_process *process) {
  struct dmi_config *config = &process->config;
  struct dmi_stream *stream = &process->stream;
  char wrong[DMI_CONFIG_WRONG];
  bool good = dmi_config_read(config, wrong);
  if (config->event_fd >= 0 &&
      !dmi_outlet_open(&process->outlet, stream, config->event_fd, config->event_level)) {
    dmi_say(stream, DMI_LOG_WARN, "start", "cannot write to descriptor %d (DMI_EVENT_FD): %s",
            config->event_fd, strerror(errno));
    config->event_fd = -1;
  }
  unsetenv("DMI_EVENT_FD"); /* the descriptor is not for what this program starts */
  dmi_announce_open(&process->announce, stream, config->port_file, config->ready_fd);
  if (!good) dmi_say(stream, DMI_LOG_ERROR, "start", "%s", wrong);
  return good;
}

/* Signals are the daemon's: no other thread is interrupted. */
static void block_signals(void) {
  sigset_t set;
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *daemon_start(void *arg) {
  sigset_t set;
  pthread_setname_np(pthread_self(), "dmi-daemon");
  dmi_net_signals(&set);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  dmi_runtime_enter(arg);
  return daemon_body(arg);
}

int dmi_runtime_main(const struct dmi_program *program, int argc, char **argv) {
  struct dmi_process *process = process_new(program);
  pthread_t daemon;
  bool has_parent;
  int exit_code;
  signal(SIGPIPE, SIG_IGN);
  if (!configure(process) || sodium_init() < 0) return give_up(process, 1);
  dmi_on_error = process->config.on_error;
  if (process->config.check) {
    return give_up(process, dmi_check(&process->config, argv[0], &process->stream) ? 0 : 1);
  }
  dmi_machine_raise_files();
  process->parent =
      dmi_parent_new(process->config.parent, process->config.grace, &process->stream, &has_parent);
  if (!has_parent || !process_open(process, argv[0])) return give_up(process, 1);
  dmi_runtime_enter(process);
  atomic_store(&dmi_runtime_only, process);
  dmi_emit(&process->stream, initialized);
  block_signals();
  dmi_status_begin(&process->member_now);
  if (!dmi_pager_start(process->pager) ||
      pthread_create(&daemon, NULL, daemon_start, process) != 0) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start",
            "the system allows no more threads (ulimit -u)");
    return give_up(process, 1);
  }
  if (!joins(process) && dmi_status_wait(&process->member_now) == DMI_OK) {
    program->main(argc, argv);
    dmi_threads_main_ends(process);
  }
  pthread_join(daemon, NULL);
  atomic_store(&process->access.active, 0);
  exit_code = process->exit_code;
  process_end(process);
  if (exit_code == 0) dmi_emit(&process->stream, finalized);
  process_free(process);
  return exit_code;
}
