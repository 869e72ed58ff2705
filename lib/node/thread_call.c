/*
 * thread_call.c - calls of this process about threads of any process: DMI_create, DMI_join and
 * DMI_detach send a request, which is noted until its answer comes.
 */
#include "node/thread_int.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "node/stall.h"

/* The call of `op` to `from` is answered by a message of this type. */
static bool answered(struct dmi_process *process, uint32_t from, uint8_t type, uint64_t op,
                     int32_t error, int64_t value) {
  struct dmi_threads *threads = process->threads;
  struct dmi_thread_call *pending;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, threads->pending, &op, sizeof(op), pending);
  if (pending && (pending->to != from || pending->expect != type)) pending = NULL;
  if (pending) HASH_DEL(threads->pending, pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (!pending) return true;
  pending->done(pending->arg, error, value);
  free(pending);
  if (type == DMI_SVC_CREATED) dmi_runtime_idle(process);
  return true;
}

bool dmi_thread_on_created(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  return answered(process, from, msg->type, msg->created.op, msg->created.error,
                  (int64_t)msg->created.thread);
}

bool dmi_thread_on_joined(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  return answered(process, from, msg->type, msg->joined.op, msg->joined.error, msg->joined.value);
}

/* DETACHED, WOKEN */
bool dmi_thread_on_answer(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  return answered(process, from, msg->type, msg->answer.op, msg->answer.error, 0);
}

uint64_t dmi_thread_call_note(struct dmi_threads *threads, uint32_t uid, uint8_t expect,
                              dmi_thread_done *done, void *arg) {
  struct dmi_thread_call *pending = dmi_xalloc(1, sizeof(*pending));
  uint64_t op;
  pending->to = uid;
  pending->expect = expect;
  pending->done = done;
  pending->arg = arg;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  op = pending->op = ++threads->last_op;
  HASH_ADD(hh, threads->pending, op, sizeof(pending->op), pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  return op;
}

/* Sends THREAD_JOIN or DETACH. */
static void ask(struct dmi_process *process, uint32_t uid, uint8_t type, uint64_t number,
                uint8_t expect, dmi_thread_done *done, void *arg) {
  uint64_t op = dmi_thread_call_note(process->threads, uid, expect, done, arg);
  struct dmi_msg msg = dmi_thread_msg(type, op, number);
  dmi_thread_reply(process, uid, &msg);
  dmi_access_watch_stall(&process->access);
}

void dmi_thread_create(struct dmi_process *process, uint32_t uid, enum dmi_body body, int64_t addr,
                       dmi_thread_done *done, void *arg) {
  struct dmi_msg msg = {.type = DMI_SVC_CREATE};
  /* This process is busy until the answer comes, so that the program does not end before the thread
   * begins. */
  dmi_runtime_busy(process, NULL, NULL);
  msg.create.op = dmi_thread_call_note(process->threads, uid, DMI_SVC_CREATED, done, arg);
  msg.create.arg = addr;
  msg.create.body = body;
  dmi_thread_reply(process, uid, &msg);
  dmi_access_watch_stall(&process->access);
}

void dmi_thread_join(struct dmi_process *process, uint32_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg) {
  ask(process, uid, DMI_SVC_JOIN, number, DMI_SVC_JOINED, done, arg);
}

void dmi_thread_detach(struct dmi_process *process, uint32_t uid, uint64_t number,
                       dmi_thread_done *done, void *arg) {
  ask(process, uid, DMI_SVC_DETACH, number, DMI_SVC_DETACHED, done, arg);
}

void dmi_threads_awaits(struct dmi_threads *threads,
                        void (*visit)(void *arg, uint32_t uid, const char *what), void *arg) {
  struct dmi_thread_call *pending, *next;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_ITER(hh, threads->pending, pending, next) {
    if (pending->expect != DMI_SVC_JOINED) visit(arg, pending->to, "a call of DMI waits for it");
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
}

bool dmi_thread_call_undo(struct dmi_threads *threads, uint64_t op) {
  struct dmi_thread_call *pending;
  bool found;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, threads->pending, &op, sizeof(op), pending);
  found = pending != NULL;
  if (found) HASH_DEL(threads->pending, pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  free(pending);
  return found;
}

/* One call to process `uid`, taken out of the table; NULL: there is none. */
static struct dmi_thread_call *take_call_to(struct dmi_threads *threads, uint32_t uid) {
  struct dmi_thread_call *pending, *next, *found = NULL;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_ITER(hh, threads->pending, pending, next) {
    if (pending->to == uid) found = pending;
  }
  if (found) HASH_DEL(threads->pending, found);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  return found;
}

/* What the call is answered that `uid` cannot answer any more.  The coordinator knows whether there
 * is a result of a thread that it ran. */
static int32_t error_when_lost(const struct dmi_thread_call *call, bool crashed) {
  if (call->expect == DMI_SVC_CREATED) return crashed ? DMI_ELOST : DMI_EMEMBER;
  return call->expect == DMI_SVC_WOKEN ? DMI_ETHREAD : DMI_E_HANDED_OVER;
}

void dmi_threads_lost(struct dmi_process *process, uint32_t uid, bool crashed) {
  struct dmi_thread_call *call;
  while ((call = take_call_to(process->threads, uid))) {
    bool created = call->expect == DMI_SVC_CREATED;
    call->done(call->arg, error_when_lost(call, crashed), 0);
    free(call);
    if (created) dmi_runtime_idle(process);
  }
  dmi_thread_unjoin(process->threads, uid);
}

struct dmi_msg dmi_thread_msg(uint8_t type, uint64_t op, uint64_t number) {
  struct dmi_msg msg = {.type = type};
  msg.thread = (struct dmi_msg_thread){.op = op, .thread = number};
  return msg;
}
