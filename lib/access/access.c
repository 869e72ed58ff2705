/*
 * access.c - reads, writes and read-modify-writes of this process's threads.
 *
 * The happy path: the page can be read, or written, here and now: find its record, lock it, copy,
 * unlock; no message, no allocation, nothing shared but the page.  Otherwise the access becomes an
 * operation of the protocol core; its messages are put in line while the page is locked (so that
 * their order is that of the steps) and written to the sockets after it is unlocked; the thread
 * sleeps until the operation is complete.
 */
#include "access/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "core/heap.h"
#include "core/rmw.h"
#include "core/syncop.h"
#include "access/early.h"
#include "access/group.h"

__thread bool dmi_in_function;

struct dmi_self_msg {
  struct dmi_self_msg *next;
  struct dmi_msg msg;
};

void dmi_access_init(struct dmi_access *access, const struct dmi_access_above *above, void *arg) {
  access->above = above;
  access->above_arg = arg;
  access->ops = dmi_ops_new();
  if (!access->ops) abort();
  dmi_space_init(&access->space);
  dmi_mutex_init(&access->self_lock, DMI_RANK_LEAF);
  dmi_mutex_init(&access->park_lock, DMI_RANK_LEAF);
  access->selfs_end = &access->selfs;
}

/* ---- Calls and operations ------------------------------------------------------------------- */

void dmi_access_call_finish(struct dmi_call *call) {
  struct dmi_status *status = call->status;
  int32_t error;
  if (atomic_fetch_sub(&call->left, 1) != 1) return;
  error = atomic_load(&call->error);
  dmi_group_unref(call->group);
  if (call->heap) free(call);
  dmi_status_done(status, error);
}

void dmi_access_call_fail(struct dmi_call *call, int32_t error) {
  int32_t expected = DMI_OK;
  atomic_compare_exchange_strong(&call->error, &expected, error);
}

static void op_complete(struct dmi_access *access, struct dmi_op *op) {
  struct dmi_call *call = op->call;
  if (op->req.error != DMI_OK) dmi_access_call_fail(call, op->req.error);
  dmi_mapping_unref(&access->core, op->mapping);
  dmi_slice_drop(&op->req.src);
  if (op->heap) free(op);
  dmi_access_call_finish(call);
  if (atomic_load(&access->idle_owed) && !dmi_ops_any(access->ops)) dmi_net_post(access->net);
}

/* ---- Actions -------------------------------------------------------------------------------- */

/* A request for the home, which is arriving: kept until then.  Parked already, or the home has
 * arrived between the step and here: then it goes through the core again. */
static void park(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                 struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_mapping *mapping = (struct dmi_mapping *)page->map;
  struct dmi_parked *item = NULL;
  dmi_mutex_lock(&access->park_lock);
  if (atomic_load(&mapping->map.arriving)) {
    item = dmi_xalloc(1, sizeof(*item));
    item->from = from;
    item->msg = *msg;
    if (msg->list.len && !msg->list.frame) { /* borrowed from the connection that brought it */
      item->msg.list = dmi_slice_copy(msg->list.ptr, msg->list.len);
      if (!item->msg.list.ptr) abort();
    }
    item->next = NULL;
    *mapping->parked_end = item;
    mapping->parked_end = &item->next;
  }
  dmi_mutex_unlock(&access->park_lock);
  if (!item) dmi_page_message(&access->core, page, from, msg, NULL, out);
}

/* Puts it in line for another process. */
static void send_locked(struct dmi_access *access, struct dmi_page *page, uint32_t to,
                        struct dmi_msg *msg, struct dmi_out *out) {
  uint8_t type = msg->type;
  uint64_t bytes = msg->body.len;
  bool own = msg->origin == access->core.self;
  if (!dmi_net_send(access->net, to, msg)) {
    dmi_page_bounced(&access->core, page, to, msg, out);
    return;
  }
  if (own) atomic_fetch_add_explicit(&access->sent[type], 1, memory_order_relaxed);
  if (!bytes || (type != DMI_MSG_DATA && type != DMI_MSG_BLOCK && type != DMI_MSG_GRANT)) return;
  atomic_fetch_add_explicit(&access->pages[type].num, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&access->pages[type].bytes, bytes, memory_order_relaxed);
}

/* A page goes to its next owner: it may be one that stalls here, or was offered. */
static void granted(struct dmi_access *access) {
  if (atomic_load(&access->pager_expects) && atomic_exchange(&access->pager_expects, 0))
    access->above->wake_pager(access->above_arg);
}

/* A step of some page is over: pages that could not leave before may now. */
static void stepped(struct dmi_access *access) {
  if (__builtin_expect(atomic_load_explicit(&access->pager_curious, memory_order_relaxed), 0)) {
    atomic_store(&access->pager_curious, 0);
    access->above->wake_pager(access->above_arg);
  }
}

static void carry_locked(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out) {
  /* The list may grow, and move, meanwhile. */
  for (uint32_t i = 0; i < out->num; i++) {
    uint32_t to = out->act[i].to;
    struct dmi_msg msg = out->act[i].msg;
    if (out->act[i].type == DMI_ACT_COMPLETE) {
      dmi_ops_remove(access->ops, (struct dmi_op *)out->act[i].req);
    } else if (out->act[i].type == DMI_ACT_PARK) {
      park(access, page, to, &msg, out);
    } else if (out->act[i].type == DMI_ACT_ROOM) {
      access->above->stalled(access->above_arg, page);
    } else if (out->act[i].type != DMI_ACT_SEND) {
      continue;
    } else if (to == access->core.self) {
      dmi_access_post_self(access, &msg);
    } else {
      if (msg.type == DMI_MSG_GRANT) granted(access);
      send_locked(access, page, to, &msg, out);
    }
  }
}

uint64_t dmi_access_sent(const struct dmi_access *access, enum dmi_msg_type type) {
  return atomic_load(&access->sent[type]);
}

uint64_t dmi_access_bytes(const struct dmi_access *access, enum dmi_msg_type type, uint64_t *num) {
  if (num) *num = atomic_load(&access->pages[type].num);
  return atomic_load(&access->pages[type].bytes);
}

void dmi_access_flush(struct dmi_access *access, struct dmi_flush *flush) {
  for (uint32_t i = 0; i < flush->num; i++)
    dmi_net_flush(access->net, flush->uid[i]);
  flush->num = 0;
}

/* What is in line for `uid` goes out now or, with `later`, with the rest. */
static void flush_to(struct dmi_access *access, uint32_t uid, struct dmi_flush *later) {
  if (!later) {
    dmi_net_flush(access->net, uid);
    return;
  }
  for (uint32_t i = 0; i < later->num; i++) {
    if (later->uid[i] == uid) return;
  }
  if (later->num == DMI_FLUSH_ROOM) dmi_access_flush(access, later);
  later->uid[later->num++] = uid;
}

static void carry(struct dmi_access *access, struct dmi_out *out, struct dmi_flush *later) {
  uint32_t flushed = 0;
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *act = &out->act[i];
    if (act->type != DMI_ACT_SEND || act->to == access->core.self || act->to == flushed) continue;
    flushed = act->to;
    flush_to(access, flushed, later);
  }
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->act[i].type == DMI_ACT_COMPLETE) op_complete(access, (struct dmi_op *)out->act[i].req);
  }
  dmi_out_free(out);
  stepped(access);
  if (atomic_load_explicit(&access->drain, memory_order_relaxed)) dmi_net_post(access->net);
}

/* Debug builds: what must hold between any two steps does.  With the page locked. */
static void check_own_step(const struct dmi_access *access, const struct dmi_page *page) {
#ifdef DMI_DEBUG
  dmi_page_check(&access->core, page);
#else
  (void)access;
  (void)page;
#endif
}

void dmi_access_step_begin(struct dmi_page *page, struct dmi_out *out) {
  dmi_out_init(out);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
}

void dmi_access_step_end(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out) {
  check_own_step(access, page);
  carry_locked(access, page, out);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  carry(access, out, NULL);
}

/* Who was asked by this step for an answer of the kind that a thread may receive; 0: nobody. */
static uint32_t asked(const struct dmi_access *access, const struct dmi_out *out) {
  for (uint32_t i = out->num; i-- > 0;) {
    const struct dmi_act *act = &out->act[i];
    uint8_t type;
    if (act->type != DMI_ACT_SEND) continue; /* the others have no message */
    type = act->msg.type;
    if ((type == DMI_MSG_GET || type == DMI_MSG_READ || type == DMI_MSG_PUT ||
         type == DMI_MSG_ATOMIC) &&
        act->msg.origin == access->core.self && act->to != access->core.self) {
      return act->to;
    }
  }
  return 0;
}

void dmi_access_op_begin(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later) {
  struct dmi_page *page = op->page;
  struct dmi_out out;
  uint32_t ask;
  dmi_ops_add(access->ops, op);
  dmi_access_watch_stall(access);
  dmi_out_init(&out);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  dmi_page_begin(&access->core, page, &op->req, &out);
  check_own_step(access, page);
  carry_locked(access, page, &out);
  ask = asked(access, &out);
  if (ask) op->call->status->asked = ask;
  dmi_unlock(&page->lock, DMI_RANK_PAGE); /* from here on others may complete it */
  carry(access, &out, later);
}

/* ---- Hits ----------------------------------------------------------------------------------- */

static bool read_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                     void *buf) {
  struct dmi_frame *frame;
  if (!dmi_access_lock_readable(&access->core, page)) return false;
  frame = page->frame;
  if (frame && size <= DMI_COPY_LOCKED) {
    memcpy(buf, frame->bytes + off, size);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    return true;
  }
  if (frame) dmi_frame_ref(frame);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (frame) {
    memcpy(buf, frame->bytes + off, size);
    dmi_frame_unref(frame);
  } else {
    memset(buf, 0, size);
  }
  return true;
}

static bool write_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                      const void *buf) {
  bool done;
  if (!dmi_access_lock_writable(&access->core, page)) return false;
  done = dmi_page_write_now(&access->core, page, off, buf, size);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return done;
}

/* ---- Reads and writes ----------------------------------------------------------------------- */

/* The mapping of a range, be it the allocator's; inside the epoch afterwards, or with a reference
 * (*held) if it had to be fetched.  NULL: *error. */
static struct dmi_mapping *find_any(struct dmi_access *access, int64_t addr, int64_t size,
                                    bool *held, int32_t *error) {
  struct dmi_mapping *mapping;
  *held = false;
  *error = dmi_access_usable(access);
  if (*error != DMI_OK) return NULL;
  dmi_epoch_enter();
  mapping = dmi_space_find(&access->space, (uint64_t)addr);
  if (!mapping) {
    dmi_epoch_leave();
    mapping = access->above->lookup(access->above_arg, (uint64_t)addr, error);
    if (!mapping) return NULL;
    *held = true;
    dmi_epoch_enter();
  }
  if ((uint64_t)size > mapping->end - (uint64_t)addr) {
    dmi_epoch_leave();
    if (*held) dmi_mapping_unref(&access->core, mapping);
    *error = DMI_ERANGE;
    return NULL;
  }
  return mapping;
}

/* The same for what programs may touch. */
static struct dmi_mapping *find_range(struct dmi_access *access, int64_t addr, int64_t size,
                                      bool *held, int32_t *error) {
  if (addr < (int64_t)DMI_SYSTEM_BASE) return find_any(access, addr, size, held, error);
  *held = false;
  *error = dmi_in_function ? DMI_EINFUNC : DMI_EADDR;
  return NULL;
}

struct dmi_mapping *dmi_access_mapping(struct dmi_access *access, int64_t addr, int64_t size,
                                       int32_t *error) {
  bool held;
  struct dmi_mapping *mapping = find_range(access, addr, size, &held, error);
  if (!mapping) return NULL;
  if (!held && !dmi_mapping_ref(mapping)) {
    mapping = NULL;
    *error = DMI_EADDR;
  }
  dmi_epoch_leave();
  return mapping;
}

static void release_range(struct dmi_access *access, struct dmi_mapping *mapping, bool held) {
  if (held) dmi_mapping_unref(&access->core, mapping);
}

struct caller {
  struct dmi_access *access;
  struct dmi_mapping *mapping;
  uint8_t type, kind; /* of the operations */
  bool write;
  DMI_local_status_t *status;
  struct dmi_status own; /* the synchronous caller's */
  struct dmi_op op;      /* a synchronous access to one page needs no more */
  bool single;           /* `op` is used */
  struct dmi_call call;
};

/* One part, which could not be done at once. */
static int32_t part_begin(struct caller *caller, struct dmi_call *call, struct dmi_op *op,
                          struct dmi_page *page, uint64_t off, uint64_t size, unsigned char *buf) {
  memset(&op->req, 0, sizeof(op->req));
  op->req.type = caller->type;
  op->req.kind = caller->kind;
  op->req.off = off;
  op->req.len = size;
  if (!caller->write) {
    op->req.dst = buf;
  } else if (caller->status) {
    op->req.src = dmi_slice_copy(buf, size);
    if (!op->req.src.ptr) return DMI_ENOMEM;
  } else {
    op->req.src = (struct dmi_slice){NULL, buf, size};
  }
  if (!dmi_mapping_ref(caller->mapping)) {
    dmi_slice_drop(&op->req.src);
    return DMI_EADDR;
  }
  op->claimed = false;
  op->mapping = caller->mapping;
  op->page = page;
  op->call = call;
  atomic_fetch_add(&call->left, 1);
  dmi_access_op_begin(caller->access, op, NULL);
  return DMI_OK;
}

static void call_init(struct dmi_call *call, struct dmi_status *status, bool heap) {
  call->group = NULL;
  atomic_init(&call->left, 1);
  atomic_init(&call->error, DMI_OK);
  call->status = status;
  call->heap = heap;
}

void dmi_access_call_begin(struct dmi_call *call, struct dmi_status *status, bool heap) {
  call_init(call, status, heap);
  dmi_status_begin(status);
}

/* All parts from `first` on that are not hits, as operations of one call. */
static int32_t access_parts(struct caller *caller, uint64_t addr, uint64_t left,
                            unsigned char *buf) {
  struct dmi_access *access = caller->access;
  struct dmi_mapping *mapping = caller->mapping;
  struct dmi_call *call = &caller->call;
  bool single, sync = caller->status == NULL;
  if (sync) {
    dmi_access_call_begin(call, &caller->own, false);
  } else {
    call = malloc(sizeof(*call));
    if (!call) return DMI_ENOMEM;
    dmi_access_call_begin(call, dmi_status_of(caller->status), true);
  }
  while (left) {
    uint64_t off, index = dmi_mapping_index(mapping, addr, &off);
    uint64_t size = mapping->map.page_size - off;
    int32_t error = DMI_OK;
    struct dmi_page *page = dmi_mapping_get(&access->core, mapping, index, &error);
    if (size > left) size = left;
    single = sync && size == left && atomic_load(&call->left) == 1;
    if (page && (caller->write ? write_hit(access, page, off, size, buf)
                               : read_hit(access, page, off, size, buf))) {
      error = DMI_OK;
    } else if (page) {
      struct dmi_op *op = single ? &caller->op : malloc(sizeof(*op));
      caller->single = single;
      error = DMI_ENOMEM;
      if (op) {
        op->heap = !single;
        error = part_begin(caller, call, op, page, off, size, buf);
        if (error != DMI_OK && op->heap) free(op);
      }
    }
    if (error != DMI_OK) dmi_access_call_fail(call, error);
    addr += size;
    buf += size;
    left -= size;
  }
  dmi_access_call_finish(call);
  return DMI_OK;
}

/* The general case, with a reference to the mapping. */
static int32_t access_all(struct caller *caller, uint64_t addr, uint64_t size, unsigned char *buf) {
  struct dmi_access *access = caller->access;
  uint64_t page_size = caller->mapping->map.page_size;
  uint64_t most =
      page_size > UINT64_MAX / DMI_PAGES_AT_ONCE ? UINT64_MAX : page_size * DMI_PAGES_AT_ONCE;
  int32_t error = DMI_OK;
  if (caller->status) return access_parts(caller, addr, size, buf);
  while (size && error == DMI_OK) {
    uint64_t part = size < most ? size : most;
    bool early;
    caller->single = false;
    error = access_parts(caller, addr, part, buf);
    early = error == DMI_OK && caller->single && caller->type == DMI_REQ_READ;
    if (early) dmi_early_begin(&caller->op);
    if (error == DMI_OK) error = dmi_access_wait(access, &caller->own);
    if (early) dmi_early_end();
    addr += part;
    buf += part;
    size -= part;
  }
  return error;
}

static int32_t access_run(struct caller *caller, int64_t addr, int64_t size, unsigned char *buf) {
  bool held;
  int32_t error = DMI_OK;
  uint64_t off, index;
  struct dmi_page *page;
  struct dmi_access *access = caller->access;
  caller->mapping = find_range(access, addr, size, &held, &error);
  if (!caller->mapping) return dmi_status_refuse(caller->status, error);
  index = dmi_mapping_index(caller->mapping, (uint64_t)addr, &off);
  page = dmi_mapping_find(caller->mapping, index);
  if (page && (uint64_t)size <= caller->mapping->map.page_size - off &&
      (caller->write ? write_hit(access, page, off, (uint64_t)size, buf)
                     : read_hit(access, page, off, (uint64_t)size, buf))) {
    dmi_epoch_leave();
    release_range(access, caller->mapping, held);
    if (caller->status) {
      dmi_status_begin(dmi_status_of(caller->status));
      dmi_status_done(dmi_status_of(caller->status), DMI_OK);
    }
    return DMI_TRUE;
  }
  error = dmi_mapping_ref(caller->mapping) ? DMI_OK : DMI_EADDR;
  dmi_epoch_leave(); /* what follows may wait */
  if (error == DMI_OK) {
    error = access_all(caller, (uint64_t)addr, (uint64_t)size, buf);
    dmi_mapping_unref(&access->core, caller->mapping);
  }
  release_range(access, caller->mapping, held);
  return error == DMI_OK ? DMI_TRUE : dmi_status_refuse(caller->status, error);
}

/* Size 0 succeeds at any address: nothing is looked up. */
static int32_t nothing(DMI_local_status_t *status) {
  if (dmi_in_function) return dmi_status_refuse(status, DMI_EINFUNC);
  if (status) {
    dmi_status_begin(dmi_status_of(status));
    dmi_status_done(dmi_status_of(status), DMI_OK);
  }
  return DMI_TRUE;
}

static int32_t bad_buffer(DMI_local_status_t *status, int64_t size) {
  return dmi_status_refuse(
      status, dmi_because(DMI_EINVAL, size < 0 ? "the size is negative" : "the buffer is NULL"));
}

static int32_t bad_mode(DMI_local_status_t *status, const char *reason) {
  return dmi_status_refuse(status, dmi_because(DMI_EINVAL, reason));
}

int32_t dmi_access_read(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status) {
  struct caller caller;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  switch (mode) {
    case DMI_INVALIDATE_READ:
      caller.type = DMI_REQ_READ;
      caller.kind = DMI_KIND_INVALIDATE;
      break;
    case DMI_UPDATE_READ:
      caller.type = DMI_REQ_READ;
      caller.kind = DMI_KIND_UPDATE;
      break;
    case DMI_GET_READ:
      caller.type = DMI_REQ_GET;
      caller.kind = 0;
      break;
    default:
      return bad_mode(status,
                      "the mode is none of DMI_INVALIDATE_READ, DMI_UPDATE_READ, DMI_GET_READ");
  }
  if (!size) return nothing(status);
  caller.access = access;
  caller.write = false;
  caller.status = status;
  return access_run(&caller, addr, size, buf);
}

/* In no mapping itself, and behind the last byte of one? */
static bool is_end(struct dmi_access *access, int64_t addr) {
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(access, addr, 0, &error);
  bool end = false;
  if (!mapping && error == DMI_EADDR && addr > 0) {
    mapping = dmi_access_mapping(access, addr - 1, 0, &error);
    end = mapping != NULL;
  }
  if (mapping) dmi_mapping_unref(&access->core, mapping);
  return end;
}

/* An EXCLUSIVE write of no bytes moves the page here, as a compare-and-swap does that changes
 * nothing.  At the end of a mapping there is no page to move. */
static int32_t fetch_page(struct dmi_access *access, int64_t addr, DMI_local_status_t *status) {
  static const unsigned char zero;
  const struct dmi_rmw_call call = {.rmw = DMI_RMW_CAS,
                                    .addr = addr,
                                    .size = 1,
                                    .out1 = &zero,
                                    .out2 = &zero,
                                    .sizes = {1, 1, 1},
                                    .mode = DMI_EXCLUSIVE_ATOMIC};
  if (is_end(access, addr)) return nothing(status);
  return dmi_access_rmw(access, &call, status);
}

int32_t dmi_access_write(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                         int8_t mode, DMI_local_status_t *status) {
  struct caller caller;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  if (mode != DMI_EXCLUSIVE_WRITE && mode != DMI_PUT_WRITE)
    return bad_mode(status, "the mode is none of DMI_EXCLUSIVE_WRITE, DMI_PUT_WRITE");
  if (!size) {
    return mode == DMI_PUT_WRITE ? nothing(status) : fetch_page(access, addr, status);
  }
  caller.access = access;
  caller.type = mode == DMI_PUT_WRITE ? DMI_REQ_PUT : DMI_REQ_EXCL;
  caller.kind = 0;
  caller.write = true;
  caller.status = status;
  /* The buffer is only read; one type of pointer serves both directions. */
  return access_run(&caller, addr, size, (unsigned char *)(uintptr_t)buf);
}

/* ---- Read-modify-write ---------------------------------------------------------------------- */

/* The inputs, side by side; borrowed where there is but one and the caller waits. */
static bool rmw_inputs(struct dmi_op *op, const struct dmi_rmw_call *rmw, bool sync) {
  uint64_t len = rmw->sizes.out1 + rmw->sizes.out2;
  struct dmi_frame *frame;
  unsigned char *to = op->small;
  if (sync && !rmw->sizes.out2) {
    op->req.src = (struct dmi_slice){NULL, rmw->out1 ? rmw->out1 : op->small, len};
    return true;
  }
  op->req.src = (struct dmi_slice){NULL, op->small, len};
  if (len > sizeof(op->small) / 3 * 2) {
    frame = dmi_frame_new(len);
    if (!frame) return false;
    op->req.src = (struct dmi_slice){frame, frame->bytes, len};
    to = frame->bytes;
  }
  if (rmw->sizes.out1) memcpy(to, rmw->out1, rmw->sizes.out1);
  if (rmw->sizes.out2) memcpy(to + rmw->sizes.out1, rmw->out2, rmw->sizes.out2);
  return true;
}

static int32_t rmw_begin(struct caller *caller, const struct dmi_rmw_call *rmw,
                         struct dmi_page *page, uint64_t off) {
  struct dmi_op *op = &caller->op;
  struct dmi_call *call = &caller->call;
  bool sync = caller->status == NULL;
  if (sync) {
    dmi_access_call_begin(call, &caller->own, false);
  } else {
    op = malloc(sizeof(*op));
    call = malloc(sizeof(*call));
    if (!op || !call) {
      free(op);
      free(call);
      return DMI_ENOMEM;
    }
    call_init(call, dmi_status_of(caller->status), true);
    if (!rmw->begun) dmi_status_begin(call->status);
  }
  memset(&op->req, 0, sizeof(op->req));
  op->heap = !sync;
  op->req.type = rmw->mode == DMI_PUT_ATOMIC ? DMI_REQ_ATOMIC : DMI_REQ_ATOMIC_EXCL;
  op->req.kind = (uint8_t)rmw->rmw;
  op->req.tag = rmw->tag;
  op->req.off = off;
  op->req.len = (uint64_t)rmw->size;
  op->req.sizes = rmw->sizes;
  /* FAD's old value, when nobody wants it, goes to the last 8 bytes of `small`. */
  op->req.dst = rmw->in ? rmw->in : op->small + sizeof(op->small) - 8;
  op->claimed = false;
  op->mapping = caller->mapping;
  op->page = page;
  op->call = call;
  if (!rmw_inputs(op, rmw, sync)) {
    if (!sync) {
      free(op);
      free(call);
    }
    return DMI_ENOMEM;
  }
  /* The operation takes over the caller's reference to the mapping. */
  dmi_access_op_begin(caller->access, op, NULL);
  return DMI_OK;
}

/* Fails before it has begun. */
static int32_t rmw_refuse(const struct dmi_rmw_call *rmw, DMI_local_status_t *status,
                          int32_t error) {
  if (!rmw->begun) return dmi_status_refuse(status, error);
  dmi_status_done(dmi_status_of(status), error);
  return dmi_fail(error);
}

int32_t dmi_access_rmw(struct dmi_access *access, const struct dmi_rmw_call *rmw,
                       DMI_local_status_t *status) {
  struct caller caller;
  struct dmi_page *page;
  bool held, referenced;
  int32_t error = DMI_OK;
  uint64_t off, index;
  if (rmw->size <= 0) {
    return rmw_refuse(rmw, status, dmi_because(DMI_EINVAL, "the size must be positive"));
  }
  if (rmw->mode != DMI_EXCLUSIVE_ATOMIC && rmw->mode != DMI_PUT_ATOMIC) {
    error = dmi_because(DMI_EINVAL, "the mode is none of DMI_EXCLUSIVE_ATOMIC, DMI_PUT_ATOMIC");
    return rmw_refuse(rmw, status, error);
  }
  caller.access = access;
  caller.status = status;
  caller.mapping = (rmw->rmw == DMI_RMW_HEAP ? find_any : find_range)(access, rmw->addr, rmw->size,
                                                                      &held, &error);
  if (!caller.mapping) return rmw_refuse(rmw, status, error);
  index = dmi_mapping_index(caller.mapping, (uint64_t)rmw->addr, &off);
  if ((uint64_t)rmw->size > caller.mapping->map.page_size - off) error = DMI_ERANGE;
  referenced = error == DMI_OK && dmi_mapping_ref(caller.mapping);
  if (error == DMI_OK && !referenced) error = DMI_EADDR;
  dmi_epoch_leave();
  if (error == DMI_OK) {
    page = dmi_mapping_get(&access->core, caller.mapping, index, &error);
    if (page) error = rmw_begin(&caller, rmw, page, off);
    if (error != DMI_OK) dmi_mapping_unref(&access->core, caller.mapping);
  }
  release_range(access, caller.mapping, held);
  if (error == DMI_OK && !status && rmw->spin) dmi_status_spin(&caller.own);
  if (error == DMI_OK && !status) error = dmi_access_wait(access, &caller.own);
  return error == DMI_OK ? DMI_TRUE : rmw_refuse(rmw, status, error);
}

int32_t dmi_access_fad(struct dmi_access *access, int64_t addr, int64_t add, int64_t *old,
                       int8_t mode, DMI_local_status_t *status) {
  const struct dmi_rmw_call call = {.rmw = DMI_RMW_FAD,
                                    .addr = addr,
                                    .size = sizeof(add),
                                    .out1 = &add,
                                    .in = old,
                                    .sizes = {sizeof(add), 0, sizeof(*old)},
                                    .mode = mode};
  return dmi_access_rmw(access, &call, status);
}

int32_t dmi_access_wait(struct dmi_access *access, struct dmi_status *status) {
  return access ? dmi_status_receive(status, access->net) : dmi_status_wait(status);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void give_up(struct dmi_op *op, void *access) {
  dmi_mapping_unref(&((struct dmi_access *)access)->core, op->mapping);
}

/* Whoever gave the status may have ended, and the status with it: it is not touched. */
static void drop(struct dmi_op *op, void *arg) {
  (void)arg;
  dmi_slice_drop(&op->req.src);
  if (op->call->heap) free(op->call);
  if (op->heap) free(op);
}

void dmi_access_end(struct dmi_access *access) {
  dmi_space_end(&access->space, &access->core);
  dmi_ops_each(access->ops, give_up, access); /* pages that go with it may list any of them */
  dmi_ops_each(access->ops, drop, NULL);
}

void dmi_access_fini(struct dmi_access *access) {
  dmi_ops_free(access->ops);
  dmi_mutex_destroy(&access->self_lock);
  dmi_mutex_destroy(&access->park_lock);
}

/* ---- Messages: any thread that receives ----------------------------------------------------- */

bool dmi_access_lendable(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_GOT || msg->type == DMI_MSG_DATA || msg->type == DMI_MSG_DONE ||
         msg->type == DMI_MSG_FAIL || msg->type == DMI_MSG_BLOCK;
}

static bool answers_operation(const struct dmi_msg *msg) {
  if (msg->flags & DMI_F_FETCH) return false;
  return msg->type == DMI_MSG_GOT || msg->type == DMI_MSG_DONE || msg->type == DMI_MSG_FAIL;
}

/* The page of the own operation that this message answers, which may have been unmapped, and its
 * mapping with a reference.  NULL: there is none. */
static struct dmi_page *answered_page(struct dmi_access *access, const struct dmi_msg *msg,
                                      struct dmi_mapping **mapping) {
  struct dmi_page *page;
  if (!answers_operation(msg)) return NULL;
  page = dmi_ops_page(access->ops, msg->op, mapping);
  if (!page || ((*mapping)->map.base == msg->map && page->index == msg->page)) return page;
  dmi_mapping_unref(&access->core, *mapping);
  return NULL;
}

/* With the page locked: the own operation that this message answers, NULL: none. */
static struct dmi_op *answered(struct dmi_access *access, const struct dmi_page *page,
                               const struct dmi_msg *msg) {
  struct dmi_op *op;
  if (!answers_operation(msg)) return NULL;
  op = dmi_ops_find(access->ops, msg->op, page);
  /* Its one answer is being received; this is none. */
  if (op && op->claimed && msg->body.ptr != op->req.dst) return NULL;
  return op;
}

/* The longest body that a request about a page of this size can have. */
static uint64_t request_limit(const struct dmi_msg *msg, uint64_t page_size) {
  uint64_t limit = page_size;
  if (msg->type == DMI_MSG_ATOMIC) { /* two inputs of its length, if not the user's */
    if (msg->kind == DMI_RMW_ARRIVE) return DMI_SYNC_ARRIVE_MOST;
    return msg->kind == DMI_RMW_USER ? DMI_RMW_MOST : 2 * limit;
  }
  if (msg->kind != DMI_KIND_LIST) return limit;
  /* Ranges are not empty and lie apart. */
  if (msg->off > page_size / 2 + 1) return 0;
  return limit + msg->off * sizeof(struct dmi_range);
}

/* Where the body of an answer goes: straight to the caller's buffer, or (NULL) at most *limit bytes
 * of memory of their own. */
static void *answer_body(struct dmi_access *access, const struct dmi_msg *msg, uint64_t *limit) {
  struct dmi_mapping *mapping;
  struct dmi_page *page = answered_page(access, msg, &mapping);
  struct dmi_op *op;
  void *dst = NULL;
  if (!page) return NULL;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  op = answered(access, page, msg);
  if (op && msg->type == DMI_MSG_GOT && op->req.len == msg->body.len && !op->req.parts &&
      (op->req.type == DMI_REQ_GET || op->req.type == DMI_REQ_READ)) {
    dst = op->req.dst;
    op->claimed = true;
  } else if (op && msg->type == DMI_MSG_DONE) {
    *limit = op->req.sizes.in + op->req.len;
  }
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_mapping_unref(&access->core, mapping);
  return dst;
}

/* The page that a message is about, if there is a record of it here; inside an epoch. */
static struct dmi_page *known_page(struct dmi_access *access, const struct dmi_msg *msg,
                                   struct dmi_mapping **mapping) {
  *mapping = dmi_space_find(&access->space, msg->map);
  if (!*mapping || (*mapping)->map.base != msg->map) return NULL;
  return msg->page < (*mapping)->map.page_num ? dmi_mapping_find(*mapping, msg->page) : NULL;
}

/* A BLOCK goes to its place in the page that its fetch assembles. */
static void *block_body(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
  void *place = NULL;
  dmi_epoch_enter();
  page = known_page(access, msg, &mapping);
  if (page) {
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    place = dmi_page_block_body(&access->core, page, from, msg);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
  }
  dmi_epoch_leave();
  return place;
}

void dmi_access_arrived(struct dmi_access *access, const struct dmi_msg *msg, uint64_t got) {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
  struct dmi_out out;
  if (msg->type != DMI_MSG_DATA) return;
  dmi_epoch_enter();
  page = known_page(access, msg, &mapping);
  if (page && !dmi_mapping_ref(mapping)) page = NULL;
  dmi_epoch_leave();
  if (!page) return;
  dmi_access_step_begin(page, &out);
  dmi_page_part(&access->core, page, msg, got, &out);
  dmi_access_step_end(access, page, &out);
  dmi_mapping_unref(&access->core, mapping);
}

void *dmi_access_body(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  uint64_t limit = 0, answer = 0;
  void *dst;
  if (msg->type == DMI_MSG_BLOCK) return block_body(access, from, msg);
  dst = answer_body(access, msg, &answer);
  if (dst) return dst;
  dmi_epoch_enter();
  mapping = dmi_space_find(&access->space, msg->map);
  if (mapping && mapping->map.base == msg->map) limit = mapping->map.page_size;
  dmi_epoch_leave();
  if (msg->type == DMI_MSG_DONE) {
    limit = answer;
  } else if (limit) {
    limit = request_limit(msg, limit);
  }
  if (msg->body.len > limit) return NULL;
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

/* A message that cannot be handled here: whoever waits for an answer gets `error`. */
static bool refuse(struct dmi_access *access, uint32_t from, struct dmi_msg *msg, int32_t error) {
  struct dmi_msg reply;
  uint32_t to = dmi_page_unknown(from, msg, &reply);
  if (to && reply.type == DMI_MSG_FAIL) reply.error = (uint32_t)error;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  if (to == access->core.self) {
    dmi_access_post_self(access, &reply);
  } else if (to && dmi_net_send(access->net, to, &reply)) {
    dmi_net_flush(access->net, to);
  }
  return true;
}

/* A request whose bytes found no memory here. */
static bool no_room(const struct dmi_msg *msg) {
  return (msg->type == DMI_MSG_GET || msg->type == DMI_MSG_PUT || msg->type == DMI_MSG_ATOMIC) &&
         msg->body.len && !msg->body.ptr;
}

/* After a message of another process.  What does not hold now did before it came, so it is that
 * process's doing: what is sent here is checked, and this is for what no check has thought of. */
static bool page_holds(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                       uint8_t type) {
  const char *what = dmi_page_wrong(&access->core, page);
  if (!what) return true;
  if (from == access->core.self) dmi_page_check(&access->core, page);
  dmi_say(DMI_LOG_ERROR, "page", "message %u of member %u breaks page %llu of mapping %llx: %s",
          type, from, (unsigned long long)page->index, (unsigned long long)page->map->base, what);
  return false;
}

/* With the mapping kept alive by a reference. */
static bool page_message(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg) {
  struct dmi_out out;
  struct dmi_op *op;
  uint8_t type = msg->type;
  bool good;
  dmi_out_init(&out);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  op = answered(access, page, msg);
  dmi_early_step(access->ops, page, msg);
  good = dmi_page_message(&access->core, page, from, msg, op ? &op->req : NULL, &out);
  good = page_holds(access, page, from, type) && good;
  carry_locked(access, page, &out);
  dmi_early_stepped();
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  carry(access, &out, NULL);
  if (!good) {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  return good;
}

bool dmi_access_message(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  struct dmi_page *page = answered_page(access, msg, &mapping);
  int32_t error;
  bool good = true;
  if (!page) {
    dmi_epoch_enter();
    mapping = dmi_space_find(&access->space, msg->map);
    if (mapping && (mapping->map.base != msg->map || !dmi_mapping_ref(mapping))) mapping = NULL;
    dmi_epoch_leave();
  }
  if (!mapping) return refuse(access, from, msg, DMI_EADDR);
  if (msg->page >= mapping->map.page_num) {
    good = false;
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  } else if (no_room(msg)) {
    (void)refuse(access, from, msg, DMI_ENOMEM);
  } else if (page || (page = dmi_mapping_get(&access->core, mapping, msg->page, &error))) {
    good = page_message(access, page, from, msg);
  } else {
    (void)refuse(access, from, msg, error);
  }
  dmi_mapping_unref(&access->core, mapping);
  return good;
}

void dmi_access_post_self(struct dmi_access *access, const struct dmi_msg *msg) {
  struct dmi_self_msg *item = dmi_xalloc(1, sizeof(*item));
  item->msg = *msg;
  item->next = NULL;
  dmi_mutex_lock(&access->self_lock);
  *access->selfs_end = item;
  access->selfs_end = &item->next;
  dmi_net_post(access->net);
  dmi_mutex_unlock(&access->self_lock);
}

void dmi_access_self(struct dmi_access *access) {
  for (;;) {
    struct dmi_self_msg *item;
    dmi_mutex_lock(&access->self_lock);
    item = access->selfs;
    if (item && !(access->selfs = item->next)) access->selfs_end = &access->selfs;
    dmi_mutex_unlock(&access->self_lock);
    if (!item) return;
    (void)dmi_access_message(access, access->core.self, &item->msg);
    free(item);
  }
}
