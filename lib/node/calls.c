/*
 * calls.c - calls of user threads that the daemon thread carries out.
 *
 * A call is posted to the daemon thread, which gives it to the membership core or to the threads'
 * tables; the result arrives there, too, and completes the caller's status.  These calls are rare,
 * so that the cost of handing over between threads does not matter.
 */
#include "node/calls.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/error.h"
#include "core/heap.h"
#include "core/member.h"
#include "core/root.h"
#include "node/backtrace.h"
#include "node/runtime.h"

enum kind {
  POLL,
  PEEK,
  NODES,
  WELCOME,
  GOODBYE,
  MMAP,
  MUNMAP,
  LOOKUP,
  ROOT_SET,
  ROOT_GET,
  SURVIVE,
  STOP,
  NOTIFY,
  CREATE,
  JOIN,
  DETACH,
  WAKE
};

struct call {
  struct dmi_post post; /* first */
  struct dmi_wait wait; /* the membership core's result */
  struct dmi_process *process;
  enum kind kind;
  bool heap; /* asynchronous: freed when complete */
  bool gone; /* POLL, PEEK: the note ends the poll of a process that is no member any more */
  struct dmi_status *status;
  struct dmi_status own; /* of a synchronous caller */
  /* ---- arguments ---- */
  dmi_id_t dmi_id;  /* WELCOME, GOODBYE, CREATE */
  uint64_t a, b;    /* page size and count; address; uid and number of a thread; bytes of `name` */
  const char *name; /* ROOT_SET, ROOT_GET: the caller's, who waits */
  int64_t addr;     /* CREATE */
  enum dmi_body body; /* CREATE: what the thread runs */
  uint64_t tag;       /* MMAP, MUNMAP: DMI_TAG_USER, or the allocator's tag */
  int32_t capacity;   /* NODES */
  /* ---- where results go; may be NULL where the API allows it ---- */
  DMI_node_t *nodes;
  int32_t *number; /* PEEK: flag, NODES: count */
  int64_t *value;  /* MMAP: address, JOIN: result */
  DMI_thread_t *thread;
  struct dmi_mapping *mapping;  /* LOOKUP: with a reference */
  struct dmi_doing_called made; /* MMAP: the call of the API */
  struct dmi_unmapper unmapper; /* MUNMAP */
};

static void complete(struct call *call, int32_t error) {
  struct dmi_status *status = call->status;
  if (call->heap) free(call);
  if (status) dmi_status_done(status, error);
}

/* ---- Results: the daemon thread ------------------------------------------------------------- */

static void node_fill(DMI_node_t *node, const struct dmi_notice *notice) {
  memset(node, 0, sizeof(*node));
  node->state = (int32_t)notice->state;
  node->dmi_id = (int32_t)notice->dmi_id.n;
  node->core = (int32_t)notice->info.cores;
  node->memory = (int64_t)notice->info.memory;
  node->value = (int64_t)notice->value;
  snprintf(node->hostname, sizeof(node->hostname), "%s", notice->info.host);
}

static int32_t enter(struct call *call, const struct dmi_mact *result) {
  struct dmi_mapping *mapping = dmi_enter_mapping(call->process, &result->mapping);
  if (!mapping) return DMI_ENOMEM;
  if (call->kind == LOOKUP) {
    call->mapping = dmi_mapping_ref(mapping) ? mapping : NULL;
    return call->mapping ? DMI_OK : DMI_EADDR;
  }
  atomic_store_explicit(&mapping->made.caller, call->made.caller, memory_order_relaxed);
  atomic_store_explicit(&mapping->made.name, call->made.name, memory_order_release);
  *call->value = (int64_t)result->mapping.base;
  return DMI_OK;
}

/* ---- Notes that end a poll ---- */

/* Above the uid of the process whose dmi_call_poll_or_end it ends; a number like any other. */
#define END_NOTE UINT64_C(0xd31e7ac5)

static bool is_end_note(const DMI_node_t *node) {
  return node->state == DMI_NOTE && (uint64_t)node->value >> 32 == END_NOTE;
}

int64_t dmi_call_end_note(const struct dmi_process *process) {
  return (int64_t)(END_NOTE << 32 | process->access.core.self);
}

static void got_notice(struct call *call, const struct dmi_notice *notice) {
  const struct dmi_peer *peer;
  node_fill(call->nodes, notice);
  if (!is_end_note(call->nodes)) return;
  peer = dmi_member_peer(call->process->member, (dmi_uid_t)call->nodes->value);
  call->gone = !peer || peer->left;
}

/* A process has been welcomed: from now on DMI_survive is refused. */
static void warn_of_trust(struct dmi_process *process, const struct call *call) {
  struct dmi_settings settings = dmi_member_settings(process->member);
  if (!settings.trust_refused || settings.survive || process->trust_warned) return;
  if (dmi_id_is(call->dmi_id, process->dmi_id)) return;
  process->trust_warned = true;
  dmi_say(&process->stream, DMI_LOG_WARN, "member",
          "--trust-refused does not count: this program ends when a process is lost; start it with "
          "--survive, too");
}

static void got_result(struct dmi_process *process, struct dmi_wait *wait,
                       const struct dmi_mact *result) {
  struct call *call = (struct call *)(void *)((char *)wait - offsetof(struct call, wait));
  int32_t error = result->error;
  if (error == DMI_OK) {
    switch (call->kind) {
      case POLL:
        got_notice(call, &result->notices[0]);
        break;
      case PEEK:
        *call->number = result->flag ? DMI_TRUE : DMI_FALSE;
        if (result->flag) got_notice(call, &result->notices[0]);
        break;
      case NODES:
        *call->number = 0;
        for (uint32_t i = 0; i < result->notice_num && *call->number < call->capacity; i++) {
          node_fill(&call->nodes[(*call->number)++], &result->notices[i]);
        }
        break;
      case MMAP:
      case LOOKUP:
        error = enter(call, result);
        break;
      case JOIN:
      case ROOT_GET:
        if (call->value) *call->value = (int64_t)result->value;
        break;
      case WELCOME:
        warn_of_trust(process, call);
        break;
      default:
        break;
    }
  }
  complete(call, error);
}

static void ask_node(struct call *call, enum dmi_msg_type type) {
  struct dmi_input in = {
      .type = DMI_IN_CALL, .call = type, .dmi_id = call->dmi_id, .a = call->a, .b = call->b};
  in.op = dmi_wait_add(call->process, &call->wait);
  in.tag = call->tag;
  in.text = call->name;
  (void)dmi_actions_input(call->process, &in);
}

/* The answer of the thread's process. */
static void thread_done(void *arg, int32_t error, int64_t value) {
  struct call *call = arg;
  if (error == DMI_E_HANDED_OVER) {
    /* The thread's process is leaving or has left: the coordinator keeps the results of its
     * threads. */
    ask_node(call, DMI_CTL_THREAD);
    return;
  }
  if (error == DMI_OK && call->kind == CREATE) {
    call->thread->dmi_private[0] = (int64_t)call->a;
    call->thread->dmi_private[1] = value;
  } else if (error == DMI_OK && call->kind == JOIN && call->value) {
    *call->value = value;
  }
  complete(call, error);
}

/* ---- Carrying out calls: the daemon thread -------------------------------------------------- */

/* If the mapping is known here; so that later calls with an address of it can tell the place. */
static void note_unmapper(struct dmi_process *process, const struct call *call) {
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, call->a);
  if (mapping && mapping->map.base == call->a && mapping->map.tag == call->tag)
    mapping->unmapper = call->unmapper;
  dmi_epoch_leave();
}

static void begin_create(struct dmi_process *process, struct call *call) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  if (atomic_load(&process->access.core.stopping)) {
    complete(call, DMI_EEND);
    return;
  }
  for (uint32_t i = 0; i < num; i++) {
    if (!dmi_id_is(peers[i].dmi_id, call->dmi_id)) continue;
    if (peers[i].left && peers[i].uid != process->access.core.self) break;
    call->a = peers[i].uid;
    dmi_thread_create(process, peers[i].uid, call->body, call->addr, thread_done, call);
    return;
  }
  complete(call, DMI_EMEMBER);
}

static void begin_thread(struct dmi_process *process, struct call *call) {
  uint32_t uid = (uint32_t)call->a;
  const struct dmi_peer *peer = dmi_member_peer(process->member, uid);
  if (!peer || (peer->left && uid != process->access.core.self)) {
    thread_done(call, DMI_E_HANDED_OVER, 0);
  } else if (call->kind == JOIN) {
    dmi_thread_join(process, uid, call->b, thread_done, call);
  } else {
    dmi_thread_detach(process, uid, call->b, thread_done, call);
  }
}

static void begin(struct dmi_process *process, struct dmi_post *post) {
  static const enum dmi_msg_type types[] = {
      [POLL] = DMI_CTL_POLL,         [PEEK] = DMI_CTL_PEEK,       [NODES] = DMI_CTL_NODES,
      [WELCOME] = DMI_CTL_WELCOME,   [GOODBYE] = DMI_CTL_GOODBYE, [MMAP] = DMI_CTL_MMAP,
      [MUNMAP] = DMI_CTL_MUNMAP,     [LOOKUP] = DMI_CTL_LOOKUP,   [ROOT_SET] = DMI_CTL_ROOT_SET,
      [ROOT_GET] = DMI_CTL_ROOT_GET, [SURVIVE] = DMI_CTL_SURVIVE, [STOP] = DMI_CTL_STOP,
      [NOTIFY] = DMI_CTL_NOTIFY};
  struct call *call = (struct call *)(void *)post;
  call->wait.done = got_result;
  if (call->kind == CREATE) {
    begin_create(process, call);
  } else if (call->kind == JOIN || call->kind == DETACH) {
    begin_thread(process, call);
  } else {
    if (call->kind == MUNMAP) note_unmapper(process, call);
    ask_node(call, types[call->kind]);
  }
}

/* ---- The callers ---------------------------------------------------------------------------- */

static void fail(struct dmi_post *post) {
  complete((struct call *)(void *)post, DMI_EINACTIVE);
}

static void post(struct dmi_process *process, struct call *call) {
  call->post.run = begin;
  call->post.drop = fail;
  dmi_post(process, &call->post);
}

/* The caller waits for the result. */
static int32_t await(struct call *call) {
  enum dmi_doing_what what = call->kind == POLL                           ? DMI_DOING_POLL
                             : call->kind == JOIN                         ? DMI_DOING_THREAD
                             : call->kind == WAKE || call->kind == DETACH ? DMI_DOING_PROCESS
                                                                          : DMI_DOING_COORD;
  bool of_thread = what == DMI_DOING_THREAD;
  bool noted = dmi_doing_waits(&call->process->access.doings, what, of_thread ? call->a : 0,
                               of_thread ? call->b : 0, 0);
  int32_t error = dmi_status_wait(&call->own);
  dmi_doing_waited(noted);
  return error;
}

/* Posts the call, or a copy of it when it is asynchronous. */
static int32_t run(struct dmi_process *process, struct call *call, DMI_local_status_t *status) {
  int32_t error = dmi_runtime_error(process);
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  call->process = process;
  call->heap = status != NULL;
  if (status) {
    struct call *copy = malloc(sizeof(*copy));
    if (!copy) return dmi_status_refuse(status, DMI_ENOMEM);
    *copy = *call;
    copy->status = dmi_status_of(status);
    dmi_status_begin(copy->status);
    post(process, copy);
    return DMI_TRUE;
  }
  call->status = &call->own;
  dmi_status_begin(call->status);
  post(process, call);
  error = await(call);
  return dmi_result(error);
}

/* Says a note again that ends the poll of another thread.  That comes to its turn, as the
 * coordinator gives notices to who has waited longest; so each passes the note on at most once
 * while that thread waits. */
static int32_t pass_on(struct dmi_process *process, const struct call *call) {
  return call->gone ? DMI_TRUE : dmi_call_notify(process, call->nodes->value, NULL);
}

static int32_t poll(struct dmi_process *process, DMI_node_t *node, int64_t end) {
  for (;;) {
    struct call call = {.kind = POLL, .nodes = node};
    if (!run(process, &call, NULL)) return DMI_FALSE;
    if (!is_end_note(node) || node->value == end) return DMI_TRUE;
    if (!pass_on(process, &call)) return DMI_FALSE;
  }
}

int32_t dmi_call_poll(struct dmi_process *process, DMI_node_t *node) {
  if (!node) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  return poll(process, node, 0);
}

int32_t dmi_call_poll_or_end(struct dmi_process *process, DMI_node_t *node) {
  return poll(process, node, dmi_call_end_note(process));
}

/* A note that was passed on is behind all others: when it comes again there is nothing else. */
int32_t dmi_call_peek(struct dmi_process *process, DMI_node_t *node, int32_t *flag) {
  int64_t first = 0;
  if (!node || !flag) return dmi_fail(dmi_because(DMI_EINVAL, "a pointer is NULL"));
  for (;;) {
    struct call call = {.kind = PEEK, .nodes = node, .number = flag};
    if (!run(process, &call, NULL)) return DMI_FALSE;
    if (!*flag || !is_end_note(node)) return DMI_TRUE;
    *flag = DMI_FALSE;
    if (!pass_on(process, &call)) return DMI_FALSE;
    if (node->value == first) return DMI_TRUE;
    if (!first) first = node->value;
  }
}

int32_t dmi_call_nodes(struct dmi_process *process, DMI_node_t *array, int32_t *num,
                       int32_t capacity) {
  struct call call = {.kind = NODES, .nodes = array, .number = num, .capacity = capacity};
  if (capacity < 0)
    return dmi_fail(dmi_because_of(DMI_EINVAL, "the capacity is negative", capacity));
  if (!num || (capacity && !array)) return dmi_fail(dmi_because(DMI_EINVAL, "a pointer is NULL"));
  return run(process, &call, NULL);
}

int32_t dmi_call_welcome(struct dmi_process *process, int32_t dmi_id) {
  struct call call = {.kind = WELCOME, .dmi_id = {(uint32_t)dmi_id}};
  return dmi_id >= 0 ? run(process, &call, NULL) : dmi_fail(DMI_EMEMBER);
}

int32_t dmi_call_goodbye(struct dmi_process *process, int32_t dmi_id, DMI_local_status_t *status) {
  struct call call = {.kind = GOODBYE, .dmi_id = {(uint32_t)dmi_id}};
  return dmi_id >= 0 ? run(process, &call, status) : dmi_status_refuse(status, DMI_EMEMBER);
}

/* Why a mapping cannot have these sizes; DMI_OK if it can. */
static int32_t bad_sizes(int64_t page_size, int64_t page_num) {
  if (page_size <= 0) return dmi_because_of(DMI_ESIZE, "the page size is not positive", page_size);
  if (page_num <= 0)
    return dmi_because_of(DMI_ESIZE, "the number of pages is not positive", page_num);
  if (page_size <= ((INT64_C(1) << 62) - 1) / page_num) return DMI_OK;
  return dmi_because_so(DMI_ESIZE, "%" PRId64 " pages of %" PRId64 " bytes are 2^62 bytes or more",
                        page_num, page_size);
}

int32_t dmi_call_mmap(struct dmi_process *process, int64_t *addr, int64_t page_size,
                      int64_t page_num, DMI_local_status_t *status) {
  struct call call = {.kind = MMAP,
                      .a = (uint64_t)page_size,
                      .b = (uint64_t)page_num,
                      .value = addr,
                      .made = dmi_doing_called(&dmi_doing_mine.call)};
  int32_t error =
      addr ? bad_sizes(page_size, page_num) : dmi_because(DMI_EINVAL, "the pointer is NULL");
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  return run(process, &call, status);
}

static struct call unmaps(uint64_t base, uint64_t tag) {
  struct call call = {.kind = MUNMAP, .a = base, .tag = tag};
  struct dmi_safe thread = {.len = 0};
  dmi_backtrace_thread(&thread);
  call.unmapper.call = dmi_doing_called(&dmi_doing_mine.call);
  snprintf(call.unmapper.thread, sizeof(call.unmapper.thread), "%.*s", (int)thread.len,
           thread.text);
  return call;
}

int32_t dmi_call_munmap(struct dmi_process *process, int64_t addr, DMI_local_status_t *status) {
  struct call call = unmaps((uint64_t)addr, DMI_TAG_USER);
  return run(process, &call, status);
}

int32_t dmi_call_map(struct dmi_process *process, uint64_t page_size, uint64_t page_num,
                     uint64_t tag, int64_t *addr) {
  struct call call = {.kind = MMAP, .a = page_size, .b = page_num, .tag = tag, .value = addr};
  if (tag == DMI_TAG_USER) {
    int32_t error = bad_sizes((int64_t)page_size, (int64_t)page_num);
    if (error != DMI_OK) return error;
  }
  return dmi_error_of(run(process, &call, NULL));
}

int32_t dmi_call_unmap(struct dmi_process *process, uint64_t base, uint64_t tag) {
  struct call call = unmaps(base, tag);
  return dmi_error_of(run(process, &call, NULL));
}

void dmi_call_unmap_later(struct dmi_process *process, uint64_t base, uint64_t tag) {
  struct call *call = calloc(1, sizeof(*call));
  if (!call) {
    (void)dmi_call_unmap(process, base, tag);
    return;
  }
  *call = unmaps(base, tag);
  call->process = process;
  call->heap = true;
  post(process, call);
}

/* DMI_OK, and the length in call->b. */
static int32_t name_call(struct call *call) {
  size_t len = call->name ? strlen(call->name) : 0;
  call->b = len;
  if (!call->name) return dmi_because(DMI_EINVAL, "the name is NULL");
  if (len == 0) return dmi_because(DMI_EINVAL, "the name is empty");
  if (len > DMI_ROOT_NAME_MAX) return dmi_because(DMI_EINVAL, "the name has over 65535 bytes");
  return DMI_OK;
}

int32_t dmi_call_root_set(struct dmi_process *process, const char *name, int64_t addr) {
  struct call call = {.kind = ROOT_SET, .a = (uint64_t)addr, .name = name};
  int32_t error = name_call(&call);
  return error == DMI_OK ? run(process, &call, NULL) : dmi_fail(error);
}

int32_t dmi_call_root_get(struct dmi_process *process, const char *name, int64_t *addr) {
  struct call call = {.kind = ROOT_GET, .name = name, .value = addr};
  int32_t error = addr ? name_call(&call) : dmi_because(DMI_EINVAL, "the pointer is NULL");
  return error == DMI_OK ? run(process, &call, NULL) : dmi_fail(error);
}

int32_t dmi_call_survive(struct dmi_process *process, int32_t copies) {
  struct call call = {.kind = SURVIVE};
  if (copies != 0)
    return dmi_fail(
        dmi_because(DMI_EINVAL, "there are no copies of pages yet: `copies` must be 0"));
  if (dmi_runtime_error(process) == DMI_OK && !dmi_threads_main_runs(process->threads))
    return dmi_fail(dmi_because(DMI_EBUSY, "DMI_main does not run in this process"));
  return run(process, &call, NULL);
}

int32_t dmi_call_exit(struct dmi_process *process, int32_t status) {
  struct call call = {.kind = STOP, .a = (uint64_t)status};
  if (status < 0 || status > 255)
    return dmi_fail(dmi_because_of(DMI_EINVAL, "the status must be 0 to 255", status));
  return run(process, &call, NULL);
}

int32_t dmi_call_notify(struct dmi_process *process, int64_t value, DMI_local_status_t *status) {
  struct call call = {.kind = NOTIFY, .a = (uint64_t)value};
  return run(process, &call, status);
}

int32_t dmi_call_create(struct dmi_process *process, DMI_thread_t *thread, int32_t dmi_id,
                        int64_t addr, DMI_local_status_t *status) {
  struct call call = {.kind = CREATE, .dmi_id = {(uint32_t)dmi_id}, .addr = addr, .thread = thread};
  if (!thread) {
    return dmi_status_refuse(status, dmi_because(DMI_EINVAL, "the pointer to the handle is NULL"));
  }
  if (process && !process->program.thread) return dmi_status_refuse(status, DMI_ENOFUNC);
  return dmi_id >= 0 ? run(process, &call, status) : dmi_status_refuse(status, DMI_EMEMBER);
}

int32_t dmi_call_create_inner(struct dmi_process *process, DMI_thread_t *thread, int32_t dmi_id,
                              enum dmi_body body, int64_t addr, DMI_local_status_t *status) {
  struct call call = {
      .kind = CREATE, .dmi_id = {(uint32_t)dmi_id}, .addr = addr, .body = body, .thread = thread};
  return run(process, &call, status);
}

static bool is_handle(const DMI_thread_t *thread) {
  return thread->dmi_private[0] > 0 && thread->dmi_private[0] <= UINT32_MAX;
}

static int32_t no_handle(DMI_local_status_t *status) {
  return dmi_status_refuse(status,
                           dmi_because(DMI_ETHREAD, "the handle was not stored by DMI_create"));
}

int32_t dmi_call_join(struct dmi_process *process, const DMI_thread_t *thread, int64_t *value,
                      DMI_local_status_t *status) {
  struct call call = {.kind = JOIN,
                      .a = (uint64_t)thread->dmi_private[0],
                      .b = (uint64_t)thread->dmi_private[1],
                      .value = value};
  if (!is_handle(thread)) return no_handle(status);
  if (process && call.a == process->access.core.self && call.b == dmi_thread_self()) {
    return dmi_status_refuse(status, dmi_because(DMI_ETHREAD, "a thread cannot join itself"));
  }
  return run(process, &call, status);
}

int32_t dmi_call_detach(struct dmi_process *process, const DMI_thread_t *thread,
                        DMI_local_status_t *status) {
  struct call call = {
      .kind = DETACH, .a = (uint64_t)thread->dmi_private[0], .b = (uint64_t)thread->dmi_private[1]};
  if (!is_handle(thread)) return no_handle(status);
  return run(process, &call, status);
}

/* These calls do not go through the daemon thread: the calling thread sends the message.  `bytes`:
 * NULL, or of a wake that carries some, whose reference it takes over. */
static int32_t wake(struct dmi_process *process, const DMI_thread_t *thread,
                    struct dmi_slice *bytes, DMI_local_status_t *status) {
  const uint32_t uid = (uint32_t)thread->dmi_private[0];
  const uint64_t number = (uint64_t)thread->dmi_private[1];
  struct call own = {.kind = WAKE, .process = process, .a = uid, .b = number}, *call = &own;
  int32_t error;
  if (status) {
    call = malloc(sizeof(*call));
    if (!call) {
      if (bytes) dmi_slice_drop(bytes);
      return dmi_status_refuse(status, DMI_ENOMEM);
    }
    *call = own;
    call->heap = true;
  }
  call->status = status ? dmi_status_of(status) : &own.own;
  dmi_status_begin(call->status);
  if (bytes) {
    dmi_thread_wake_with(process, uid, number, bytes, thread_done, call);
  } else {
    dmi_thread_wake(process, uid, number, thread_done, call);
  }
  if (status) return DMI_TRUE;
  error = await(&own);
  return dmi_result(error);
}

int32_t dmi_call_wake(struct dmi_process *process, const DMI_thread_t *thread,
                      DMI_local_status_t *status) {
  int32_t error = dmi_runtime_error(process);
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  if (!is_handle(thread)) return no_handle(status);
  return wake(process, thread, NULL, status);
}

int32_t dmi_call_wake_with(struct dmi_process *process, const DMI_thread_t *thread, const void *ptr,
                           int64_t size, DMI_local_status_t *status) {
  struct dmi_slice bytes = {0};
  int32_t error = dmi_runtime_error(process);
  if (error == DMI_OK && size < 0) error = dmi_because_of(DMI_EINVAL, "the size is negative", size);
  if (error == DMI_OK && size && !ptr) error = dmi_because(DMI_EINVAL, "the pointer is NULL");
  if (error != DMI_OK) return dmi_status_refuse(status, error);
  if (!is_handle(thread)) return no_handle(status);
  if (size) bytes = dmi_slice_copy(ptr, (uint64_t)size);
  if (size && !bytes.ptr) return dmi_status_refuse(status, DMI_ENOMEM);
  return wake(process, thread, &bytes, status);
}

int32_t dmi_call_suspend_with(struct dmi_process *process, void *ptr, int64_t capacity,
                              int64_t *size) {
  int64_t none;
  int32_t error = dmi_runtime_error(process);
  if (error == DMI_OK && capacity < 0)
    error = dmi_because_of(DMI_EINVAL, "the capacity is negative", capacity);
  if (error == DMI_OK && capacity && !ptr) error = dmi_because(DMI_EINVAL, "the pointer is NULL");
  if (error == DMI_OK) error = dmi_thread_suspend_with(ptr, capacity, size ? size : &none);
  return dmi_result(error);
}

int32_t dmi_call_suspend(struct dmi_process *process) {
  int32_t error = dmi_runtime_error(process);
  if (error == DMI_OK) error = dmi_thread_suspend();
  return dmi_result(error);
}

struct dmi_mapping *dmi_call_lookup(struct dmi_process *process, uint64_t addr, int32_t *error) {
  struct call call = {.kind = LOOKUP, .a = addr};
  if (run(process, &call, NULL) == DMI_TRUE) return call.mapping;
  *error = dmi_error_last();
  return NULL;
}
