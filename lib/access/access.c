/*
 * access.c - makes and frees struct dmi_access, and has what all accesses share: finding the
 * mapping, calls, operations.
 *
 * A call of the API that is not a hit becomes one or more operations of the protocol core. It is
 * complete, and its status done, when all of them are.
 */
#include "access/access.h"

#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "access/group.h"
#include "base/epoch.h"

__thread bool dmi_in_function __attribute__((tls_model("initial-exec")));

void dmi_access_init(struct dmi_access *access, const struct dmi_access_above *above, void *arg) {
  access->above = above;
  access->above_arg = arg;
  access->stream = &dmi_stream_none;
  dmi_trace_watch(&access->trace, &access->doings);
  access->ops = dmi_ops_new();
  if (!access->ops) abort();
  dmi_space_init(&access->space);
  dmi_mutex_init(&access->self_lock, DMI_RANK_LEAF);
  dmi_mutex_init(&access->deferred_lock, DMI_RANK_LEAF);
  access->selfs_end = &access->selfs;
  access->held_end = &access->held;
}

uint64_t dmi_access_sent(const struct dmi_access *access, enum dmi_msg_type type) {
  return atomic_load(&access->sent[type]);
}

uint64_t dmi_access_messages(const struct dmi_access *access, dmi_uid_t to) {
  return dmi_net_messages(access->net, to);
}

uint64_t dmi_access_bytes(const struct dmi_access *access, enum dmi_msg_type type, uint64_t *num) {
  if (num) *num = atomic_load(&access->pages[type].num);
  return atomic_load(&access->pages[type].bytes);
}

uint64_t dmi_access_tables(const struct dmi_access *access) {
  uint64_t bytes;
  dmi_epoch_enter();
  bytes = dmi_space_bytes(&access->space);
  dmi_epoch_leave();
  return bytes;
}

static void free_blocks(struct dmi_op_block *block) {
  while (block) {
    struct dmi_op_block *next = block->next;
    free(block);
    block = next;
  }
}

static void give_up(struct dmi_op *op, void *access) {
  if (!op->of_group) dmi_mapping_unref(&((struct dmi_access *)access)->core, op->mapping);
}

/* Frees an operation without completing it: the thread that gave the status may have ended, and its
 * status with it. */
static void drop(struct dmi_op *op, void *arg) {
  struct dmi_call *call = op->call;
  (void)arg;
  dmi_slice_drop(&op->req.src);
  if (op->heap) free(op);
  if (atomic_fetch_sub(&call->left, 1) != 1) return;
  free_blocks(call->blocks);
  if (call->heap) free(call);
}

void dmi_access_end(struct dmi_access *access) {
  dmi_access_free_held(dmi_access_take_held(access));
  dmi_space_end(&access->space, &access->core);
  /* before the pages are freed, which may list these operations */
  dmi_ops_each(access->ops, give_up, access);
  dmi_ops_each(access->ops, drop, NULL);
}

void dmi_access_fini(struct dmi_access *access) {
  dmi_doing_end_all(&access->doings);
  dmi_profile_free(access->profile);
  dmi_trace_end(&access->trace);
  dmi_ops_free(access->ops);
  dmi_mutex_destroy(&access->self_lock);
  dmi_mutex_destroy(&access->deferred_lock);
}

struct dmi_mapping *dmi_access_mapping(struct dmi_access *access, int64_t addr, int64_t size,
                                       int32_t *error) {
  bool held;
  struct dmi_mapping *mapping = dmi_access_find(access, addr, size, false, &held, error);
  if (!mapping) return NULL;
  if (!held && !dmi_mapping_ref(mapping)) {
    mapping = NULL;
    *error = DMI_EADDR;
  }
  dmi_epoch_leave();
  return mapping;
}

/* ---- Calls and operations ------------------------------------------------------------------- */

void dmi_access_call_begin(struct dmi_call *call, struct dmi_status *status, bool heap) {
  call->group = NULL;
  call->end = NULL;
  call->blocks = NULL;
  atomic_init(&call->left, 1);
  atomic_init(&call->error, DMI_OK);
  call->status = status;
  call->heap = heap;
}

#define BLOCK 64 /* operations */

struct dmi_op *dmi_access_call_op(struct dmi_call *call, uint64_t most) {
  struct dmi_op_block *block = call->blocks;
  if (!block || block->num == block->capacity) {
    const uint32_t capacity = most < BLOCK ? (uint32_t)most : BLOCK;
    block = malloc(sizeof(*block) + capacity * sizeof(block->op[0]));
    if (!block) return NULL;
    block->next = call->blocks;
    block->num = 0;
    block->capacity = capacity;
    memset(block->op, 0, capacity * sizeof(block->op[0]));
    call->blocks = block;
  }
  return &block->op[block->num++];
}

void dmi_access_call_finish(struct dmi_call *call) {
  struct dmi_status *status = call->status;
  struct dmi_access_end *end = call->end;
  int32_t error;
  if (atomic_fetch_sub(&call->left, 1) != 1) return;
  error = atomic_load(&call->error);
  dmi_group_unref(call->group);
  free_blocks(call->blocks);
  if (call->heap) free(call);
  if (end) {
    end->done(end, error);
  } else {
    dmi_status_done(status, error);
  }
}

void dmi_access_call_fail(struct dmi_call *call, int32_t error) {
  int32_t expected = DMI_OK;
  atomic_compare_exchange_strong(&call->error, &expected, error);
}

void dmi_access_op_complete(struct dmi_access *access, struct dmi_op *op) {
  struct dmi_call *call = op->call;
  if (op->req.error != DMI_OK) dmi_access_call_fail(call, op->req.error);
  if (!op->of_group) dmi_mapping_unref(&access->core, op->mapping);
  dmi_slice_drop(&op->req.src);
  if (op->heap) free(op);
  dmi_access_call_finish(call);
  if (atomic_load(&access->idle_owed) && !dmi_ops_any(access->ops)) dmi_net_post(access->net);
}

struct dmi_req *dmi_access_next_op(struct dmi_access *access, uint64_t *at,
                                   struct dmi_page **page) {
  struct dmi_mapping *mapping;
  dmi_op_t number;
  while ((*page = dmi_ops_next(access->ops, at, &number, &mapping))) {
    struct dmi_op *op;
    dmi_lock(&(*page)->lock, DMI_RANK_PAGE);
    op = dmi_ops_find(access->ops, number, *page);
    if (op) {
      dmi_mapping_unref(&access->core, mapping); /* the operation has one, and cannot end now */
      op->claimed = false; /* the connection that was bringing its answer is over */
      return &op->req;
    }
    dmi_unlock(&(*page)->lock, DMI_RANK_PAGE);
    dmi_mapping_unref(&access->core, mapping);
  }
  return NULL;
}

/* How looking went in this thread: for answers, which come as fast as the other can give them, and
 * for what others do (locks, conditions, barriers). */
static __thread struct dmi_look_past for_answers = {.answers = true}, for_others;

static int32_t wait_for(struct dmi_access *access, struct dmi_status *status,
                        struct dmi_look_past *look) {
  if (!access) return dmi_status_wait(status);
  if (access->look.near && !status->asked) dmi_status_look(status, look, &access->look);
  return dmi_status_receive(status, access->net, look);
}

int32_t dmi_access_wait(struct dmi_access *access, struct dmi_status *status) {
  return wait_for(access, status, &for_others);
}

/* A call that was answered before its thread had to wait. */
static void trace_done(struct dmi_access *access, const struct dmi_access_for *what, int64_t began,
                       uint32_t asked) {
  const struct dmi_doing_called call = dmi_doing_called(&dmi_doing_mine.call);
  const struct dmi_trace_record record = {.kind = DMI_TRACE_CALL,
                                          .what = (uint8_t)what->what,
                                          .name = call.name ? call.name : "call",
                                          .caller = call.caller,
                                          .begin = began,
                                          .end = dmi_clock_ns(),
                                          .addr = what->addr,
                                          .size = what->size,
                                          .id = what->op,
                                          .member = asked};
  dmi_trace_put(&access->trace, &record);
}

int32_t dmi_access_wait_for(struct dmi_access *access, struct dmi_status *status,
                            const struct dmi_access_for *what) {
  bool noted = false;
  int32_t error;
  uint32_t asked = 0;
  const int64_t began =
      access && dmi_trace_on(&access->trace) ? dmi_trace_began(status, what->addr, &asked) : 0;
  /* Over already, as most that is done at this process's own pages: nothing to wait for. */
  if (dmi_status_is_done(status)) {
    if (began && status->asked) trace_done(access, what, began, asked);
    return status->error;
  }
  if (began) dmi_trace_since(began, asked);
  if (access)
    noted = dmi_doing_waits_looking(&access->doings, what->what, what->addr, what->size, what->op);
  error = wait_for(access, status, what->what == DMI_DOING_PAGE ? &for_answers : &for_others);
  dmi_doing_waited_looking(noted);
  return error;
}
