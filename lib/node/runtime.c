/*
 * runtime.c - the life of one process: opened, run to its end, freed.
 *
 * The happy path: dmi_runtime_open makes it listen.  dmi_runtime_run starts the daemon and the
 * pager thread; in the first process it runs DMI_main as soon as the process is a member.  Then it
 * waits for the end of the daemon, and frees everything.
 *
 * Failure modes: wrong options or a port in use end the process with a line before any thread is
 * started.  A program that cannot be joined, or a lost member that had not left, ends the process
 * with a line and status 1.
 *
 * Must not touch what belongs to the OS process (struct dmi_host, main.c): it may contain several
 * DMI processes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/heap.h"
#include "core/member.h"
#include "msg/pack.h"
#include "net/transport.h"
#include "node/control.h"
#include "node/daemon.h"
#include "node/actions.h"
#include "node/calls.h"
#include "node/dying.h"
#include "node/exits.h"
#include "node/fatal.h"
#include "node/key.h"
#include "node/openxm.h"
#include "node/pager.h"
#include "node/parent.h"
#include "node/pulser.h"
#include "node/records.h"
#include "node/profiler.h"
#include "node/see.h"
#include "node/self.h"
#include "node/stall.h"
#include "node/stays.h"
#include "node/tracer.h"
#include "sync/alloc.h"
#include "sync/barrier.h"
#include "sync/sync.h"

__thread struct dmi_process *dmi_runtime_mine __attribute__((tls_model("initial-exec")));
struct dmi_process *_Atomic dmi_runtime_only;

void dmi_runtime_enter(struct dmi_process *process) {
  dmi_runtime_mine = process;
}

static __thread bool is_main;

bool dmi_runtime_is_main(void) {
  return is_main;
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

/* ---- Opening and freeing -------------------------------------------------------------------- */

struct dmi_process *dmi_runtime_new(const struct dmi_program *program,
                                    const struct dmi_host *host) {
  struct dmi_process *process = calloc(1, sizeof(*process));
  struct dmi_uids *uids = calloc(1, sizeof(*uids));
  if (!process || !uids) abort();
  dmi_epoch_begin();
  dmi_stream_init(&process->stream);
  process->host = *host;
  process->config.event_fd = process->config.control_fd = process->profile_fd = -1;
  dmi_log_open(&process->log, &process->stream, host->err);
  process->program = *program;
  dmi_access_init(&process->access, &dmi_runtime_above, process);
  process->access.stream = &process->stream;
  dmi_daemon_core(process);
  process->threads = dmi_threads_new();
  process->alloc = dmi_alloc_new(&process->access);
  process->sync = dmi_sync_new(&process->access);
  process->barriers = dmi_barriers_new(&process->access);
  process->see = dmi_see_new(process);
  if (program->remote) process->remote = program->remote->make(process);
  if (program->team) process->teams = program->team->make(process);
  if (!process->threads || !process->alloc || !process->sync || !process->barriers || !process->see)
    abort();
  atomic_init(&process->uids, uids);
  atomic_init(&process->uids_number, dmi_daemon_uids_number());
  dmi_mutex_init(&process->post_lock, DMI_RANK_LEAF);
  dmi_mutex_init(&process->recover_lock, DMI_RANK_LEAF);
  process->posts_end = &process->posts;
  return process;
}

static void forget_only(struct dmi_process *process) {
  struct dmi_process *only = process;
  atomic_compare_exchange_strong(&dmi_runtime_only, &only, NULL);
}

static void contact_end(struct dmi_process *process) {
  if (!process->contact) return;
  /* Who is still the coordinator at the end was the last process of the program. */
  dmi_contact_end(process->contact,
                  dmi_member_coordinator(process->member) == dmi_member_uid(process->member));
}

/* Frees everything but the stream, which still reports the end. */
static void process_end(struct dmi_process *process) {
  dmi_posts_end(process);
  dmi_tracer_end(process);
  dmi_openxm_end(process); /* its functions get no answer from the daemon any more */
  dmi_see_end(process);
  dmi_profiler_end(process);
  dmi_pulser_end(process);
  dmi_actions_end(process); /* first, because calls that it completes use threads */
  /* Ends its threads, which may have waited for such a call. */
  if (process->remote) process->program.remote->free(process->remote);
  process->remote = NULL;
  if (process->teams) process->program.team->free(process->teams);
  process->teams = NULL;
  dmi_pager_stop(process->pager);
  dmi_threads_free(process->threads);
  dmi_stall_end(process);
  dmi_stays_end(process);
  dmi_dying_free(process);
  contact_end(process);
  dmi_node_free(process->node);
  dmi_alloc_free(process->alloc);
  dmi_access_end(&process->access);
  dmi_sync_free(process->sync);
  dmi_barriers_free(process->barriers);
  dmi_parent_free(process->parent);
  if (process->contact) dmi_contact_free(process->contact); /* no thread emits events any more */
  dmi_tracer_free(process);
  if (process->access.net) dmi_net_free(process->access.net);
  forget_only(process);
  dmi_runtime_enter(NULL);
  free(atomic_load(&process->uids));
  dmi_epoch_end();
  dmi_pager_free(process->pager);
  dmi_access_fini(&process->access);
  dmi_machine_free(&process->machine);
  dmi_mutex_destroy(&process->post_lock);
  dmi_mutex_destroy(&process->recover_lock);
  process->ended = true;
}

void dmi_runtime_free(struct dmi_process *process) {
  if (!process->ended) process_end(process);
  if (process->config.event_fd >= 0) dmi_outlet_close(&process->outlet, &process->stream);
  if (process->config.events_file) dmi_outlet_close(&process->events_file, &process->stream);
  free(process);
}

bool dmi_runtime_not_made(struct dmi_process *process, const char *option, const char *path,
                          int error) {
  char why[DMI_FILE_WHY];
  dmi_say(&process->stream, DMI_LOG_ERROR, "start", "cannot write %s (%s): %s", path, option,
          dmi_file_why_not_made(why, path, error));
  process->exit_code = DMI_EXIT_OPTION;
  return false;
}

/* Lines are appended whole, so processes of one machine may share the file.  False: it cannot be
 * written. */
static bool open_events_file(struct dmi_process *process) {
  const char *path = process->config.events_file;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd >= 0 && dmi_outlet_open(&process->events_file, &process->stream, fd, DMI_LOG_DEBUG, path))
    return true;
  (void)dmi_runtime_not_made(process, "--events", path, errno);
  if (fd >= 0) close(fd);
  process->config.events_file = NULL;
  return false;
}

bool dmi_runtime_configure(struct dmi_process *process, const struct dmi_config *config) {
  struct dmi_stream *stream = &process->stream;
  bool good;
  process->config = *config;
  if (config->event_fd >= 0 &&
      !dmi_outlet_open(&process->outlet, stream, config->event_fd, config->event_level, NULL)) {
    dmi_say(stream, DMI_LOG_WARN, "start", "cannot write to descriptor %d (DMI_EVENT_FD): %s",
            config->event_fd, strerror(errno));
    process->config.event_fd = -1;
  }
  if (config->check) process->config.events_file = NULL; /* what is tried writes none */
  good = !process->config.events_file || open_events_file(process);
  if (config->control_fd >= 0 && !dmi_control_own(config->control_fd)) {
    dmi_say(stream, DMI_LOG_WARN, "start", "cannot read descriptor %d (DMI_CONTROL_FD): %s",
            config->control_fd, strerror(errno));
    process->config.control_fd = -1;
  }
  dmi_announce_open(&process->announce, stream, config->port_file, config->ready_fd);
  return good;
}

static struct dmi_node *node_new(struct dmi_process *process, const struct dmi_node_info *info,
                                 const struct dmi_addr *addr) {
  struct dmi_node_env *env = &process->node_env;
  env->arg = process;
  env->net = dmi_daemon_member_env(process);
  dmi_records_env(process, &env->records);
  dmi_records_ops(process, &env->ops);
  return dmi_node_new(&process->access.core, dmi_pager_pressure(process->pager), env, info, addr);
}

static struct dmi_net *open_net(struct dmi_process *process, struct dmi_net_config *config,
                                const char **why) {
  const struct dmi_net_handler handler = dmi_daemon_handler(process);
  const struct dmi_host *host = &process->host;
  struct dmi_transport *transport = host->transport ? host->transport(host->arg) : NULL;
  struct dmi_net *net;
  config->transport = transport;
  config->shm = !transport && !process->config.no_shm;
  config->common = dmi_barriers_common();
  net = dmi_net_open(config, &handler, why);
  if (!net && transport) transport->ops->free(transport);
  return net;
}

/* The first process writes that file soon.  For others it is the file of -i, which they may only be
 * able to read; when one of them becomes the coordinator, it says if it cannot write. */
static bool contact_good(struct dmi_process *process) {
  const char *path = process->config.contact_file;
  if (!path || dmi_config_joins(&process->config) || dmi_file_can_replace(path)) return true;
  return dmi_runtime_not_made(process, "--contact", path, errno);
}

/* Who looks without naming a port would see another program there. */
static void say_port(struct dmi_process *process, const char *host) {
  const char *bind = process->config.bind;
  const bool narrow = bind && strcmp(bind, "0.0.0.0") != 0 && strcmp(bind, "::") != 0;
  const char *at = narrow ? bind : host;
  const bool is_ipv6 = strchr(at, ':') != NULL;
  const uint16_t port = dmi_net_port(process->access.net);
  if (dmi_config_joins(&process->config) || process->config.witness) return;
  dmi_say(&process->stream, DMI_LOG_WARN, "start",
          "port %u is not free on this machine: this program is at port %u, and dmirun --status "
          "%s%s%s:%u (or --threads, --top ...) shows it",
          process->config.listen_port, port, is_ipv6 ? "[" : "", at, is_ipv6 ? "]" : "", port);
}

bool dmi_runtime_open(struct dmi_process *process, const char *argv0) {
  struct dmi_net_config net;
  struct dmi_node_info info = {0};
  struct dmi_self self;
  const char *why = NULL;
  dmi_log_begin(&process->log, &process->stream, process->config.log,
                "-"); /* because its name may be the error */
  if (!dmi_self_find(&self, &process->config, argv0, process->program.identity)) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", self.why);
    return false;
  }
  dmi_log_begin(&process->log, &process->stream, process->config.log, self.host);
  net = dmi_self_net(&self, &process->config);
  net.stream = &process->stream;
  if (!dmi_key_read(net.key, process->config.key_file, process->config.key_fd, &process->stream))
    return false;
  process->access.net = open_net(process, &net, &why);
  if (!process->access.net && process->config.listen_else) {
    net.listen_port = 0;
    process->access.net = open_net(process, &net, &why);
    if (process->access.net) say_port(process, self.host);
  }
  sodium_memzero(net.key, sizeof net.key);
  if (!process->access.net) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", why);
    return false;
  }
  /* not before the port is ours: it empties the file */
  if (!dmi_profiler_begin(process) || !contact_good(process)) return false;
  dmi_machine_look(&process->machine, (uint32_t)process->config.share,
                   (uint32_t)process->config.shares);
  process->access.look =
      (struct dmi_look_rule){.us = process->config.spin, .near = process->machine.cores > 1};
  process->pager = dmi_pager_new(process);
  if (!process->pager) return false;
  info.cores = process->machine.cores;
  info.memory = process->config.pool_bytes;
  dmi_birth_find(&info.birth);
  memcpy(info.host, self.host, sizeof(info.host));
  if (process->config.tag) snprintf(info.tag, sizeof(info.tag), "%s", process->config.tag);
  self.addr.port = dmi_net_port(process->access.net);
  process->node = node_new(process, &info, &self.addr);
  process->member = dmi_node_member(process->node);
  process->contact = dmi_contact_new(process->config.contact_file, info.host,
                                     dmi_net_port(process->access.net), &process->stream);
  process->tracer = dmi_tracer_new(process, info.host);
  if (!dmi_tracer_good(process)) return false;
  dmi_emit(&process->stream, listening, .name = self.name, .host = self.host,
           .port = self.addr.port, .cores = info.cores, .memory = info.memory);
  return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* The first process is the first home of the system mapping, which has the allocator's pages. */
static void enter_system(struct dmi_process *process) {
  struct dmi_entry entry = {DMI_SYSTEM_BASE, DMI_SYSTEM_PAGE, DMI_SYSTEM_NUM,
                            dmi_member_uid(process->member), DMI_TAG_SYSTEM};
  if (!dmi_enter_mapping(process, &entry)) abort();
}

static void daemon_body(struct dmi_process *process) {
  if (dmi_config_joins(&process->config)) {
    (void)dmi_actions_input(process, &(struct dmi_input){.type = DMI_IN_JOIN});
  } else {
    uint8_t program_id[16];
    struct dmi_input in = {.type = DMI_IN_FIRST, .program_id = program_id};
    randombytes_buf(program_id, sizeof(program_id));
    dmi_threads_main_begins(process);
    (void)dmi_node_step(process->node, &in, dmi_actions(process));
    enter_system(process); /* before DMI_main begins */
    dmi_actions_carry(process);
  }
  dmi_net_run(process->access.net);
  if (!dmi_status_is_done(&process->recover_now))
    dmi_status_done(&process->recover_now, DMI_EINACTIVE);
  if (process->cut_off) {
    dmi_profiler_end(process);
    contact_end(process);
    dmi_tracer_end(process);
    /* Not all streams: a thread that waits for input holds the lock of its stream. */
    fflush(stdout);
    process->host.end(process->exit_code);
  }
}

/* Signals go to the daemon thread: no other thread is interrupted. */
static void signals(const struct dmi_process *process, int how) {
  sigset_t set;
  if (!process->host.signals) return;
  dmi_net_signals(&set);
  pthread_sigmask(how, &set, NULL);
}

/* The daemon thread ends by pthread_exit: it has run code of the program only in DMI_function. */
static void daemon_exits(void *process) {
  dmi_exits_thread(process, "DMI_function");
}

DMI_EXITS_JUMP static void *daemon_start(void *arg) {
  void *stack = dmi_fatal_stack(); /* for DMI_function */
  pthread_setname_np(pthread_self(), "dmi-daemon");
  signals(arg, SIG_UNBLOCK);
  dmi_runtime_enter(arg);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_push(daemon_exits, arg);
  daemon_body(arg);
  pthread_cleanup_pop(0);
  dmi_fatal_stack_free(stack);
  return NULL;
}

/* The arguments of the first process, each with a final zero, for the others. */
static void keep_args(struct dmi_process *process, int argc, char **argv) {
  struct dmi_pack args;
  dmi_pack_init(&args);
  for (int i = 0; i < argc; i++)
    dmi_pack_raw(&args, argv[i], strlen(argv[i]) + 1);
  dmi_member_set_args(process->member, args.bytes, args.len);
  dmi_pack_free(&args);
}

static void main_begins(struct dmi_process *process) {
  is_main = true;
  dmi_doing_enter(&process->access.doings, DMI_DOING_MAIN, 0);
}

/* DMI_main, or DMI_recover, is over. */
static void main_over(struct dmi_process *process, bool good) {
  if (process->remote) process->program.remote->ends(process->remote);
  is_main = false;
  dmi_doing_leave();
  dmi_threads_main_ends(process, good);
}

/* Until the program has ended; returns the exit status. */
static int wait_for_end(struct dmi_process *process) {
  pthread_join(process->daemon, NULL);
  atomic_store(&process->access.active, 0);
  process_end(process);
  if (process->finished) dmi_emit(&process->stream, finalized);
  return process->exit_code;
}

static void over(struct dmi_process *process) {
  const int status = wait_for_end(process);
  if (process->host.over) process->host.over(process, status);
}

/* DMI_recover has called pthread_exit: as if it had returned.  It runs in no other process, as the
 * program ends when this one is lost. */
static void recover_exits(void *arg) {
  struct dmi_process *process = arg;
  if (dmi_in_function) dmi_exits_thread(process, "DMI_function");
  main_over(process, true);
  over(process);
}

/* Waits until DMI_main was lost with another process, and goes on in its place; or for the end. */
DMI_EXITS_JUMP static void recover(struct dmi_process *process) {
  struct dmi_slice args;
  int argc = 0;
  char **argv, *bytes;
  bool good = true;
  if (dmi_status_wait(&process->recover_now) != DMI_OK) return;
  args = dmi_member_args(process->member); /* they never change */
  bytes = dmi_xalloc(args.len + 1, 1);
  memcpy(bytes, args.ptr, args.len);
  argv = dmi_xalloc(args.len + 1, sizeof(*argv)); /* more than enough, and ends with NULL */
  for (size_t at = 0; at < args.len; at += strlen(bytes + at) + 1)
    argv[argc++] = bytes + at;
  main_begins(process);
  pthread_cleanup_push(recover_exits, process);
  good = process->program.recover(argc, argv, (int32_t)process->main_lost_with.n) != DMI_FALSE;
  pthread_cleanup_pop(0);
  main_over(process, good);
  free(argv);
  free(bytes);
}

static void note_command(struct dmi_process *process, int argc, char **argv) {
  size_t at = 0, most = sizeof(process->command);
  for (int i = 0; i < argc && at < most; i++)
    at += (size_t)snprintf(process->command + at, most - at, "%s%s", i ? " " : "", argv[i]);
}

/* DMI_main has called pthread_exit: as if it had returned.  What follows happens here, as nothing
 * returns from a thread that ends. */
static void main_exits(void *arg) {
  struct dmi_process *process = arg;
  if (dmi_in_function) dmi_exits_thread(process, "DMI_function");
  main_over(process, true);
  recover(process);
  over(process);
}

static void init_exits(void *process) {
  dmi_exits_thread(process, "DMI_init");
}

DMI_EXITS_JUMP static void run_init(struct dmi_process *process, int argc, char **argv) {
  if (!process->program.init) return;
  pthread_cleanup_push(init_exits, process);
  process->program.init(argc, argv);
  pthread_cleanup_pop(0);
}

DMI_EXITS_JUMP int dmi_runtime_run(struct dmi_process *process, int argc, char **argv) {
  note_command(process, argc, argv);
  signals(process, SIG_BLOCK); /* also in the threads that DMI_init starts */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  run_init(process, argc, argv);
  dmi_runtime_enter(process);
  if (process->host.only) atomic_store(&dmi_runtime_only, process);
  if (!dmi_openxm_begin(process)) {
    process_end(process);
    return 1;
  }
  dmi_emit(&process->stream, initialized);
  dmi_status_begin(&process->member_now);
  dmi_status_begin(&process->recover_now);
  if (!dmi_config_joins(&process->config)) keep_args(process, argc, argv);
  if (!dmi_pager_start(process->pager) ||
      pthread_create(&process->daemon, NULL, daemon_start, process) != 0) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start",
            "the system allows no more threads (ulimit -u)");
    process_end(process);
    return 1;
  }
  if (!dmi_config_joins(&process->config) && dmi_status_wait(&process->member_now) == DMI_OK) {
    main_begins(process);
    pthread_cleanup_push(main_exits, process);
    process->program.main(argc, argv);
    pthread_cleanup_pop(0);
    main_over(process, true);
  }
  recover(process);
  return wait_for_end(process);
}
