/*
 * thread_letter.c - DMI_suspend_with and DMI_wake_with (docs/threads.md): bytes that a thread of
 * any process gives to another one, which takes them in the order in which they came.
 */
#include "node/thread_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/futex.h"

void dmi_thread_letters_begin(struct dmi_thread *thread) {
  thread->first = NULL;
  thread->last = &thread->first;
}

void dmi_thread_letters_free(struct dmi_thread *thread) {
  while (thread->first) {
    struct dmi_letter *letter = thread->first;
    thread->first = letter->next;
    dmi_slice_drop(&letter->bytes);
    free(letter);
  }
}

void dmi_thread_letters_changed(struct dmi_thread *thread) {
  atomic_fetch_add(&thread->letters, 1);
  dmi_futex_wake(&thread->letters, 1);
}

/* ---- Taking --------------------------------------------------------------------------------- */

/* Takes the first one if it has `capacity` bytes at most.  *size: how many it has; -1: there is
 * none.
 */
static struct dmi_letter *take(struct dmi_thread *thread, int64_t capacity, int64_t *size) {
  struct dmi_threads *threads = thread->process->threads;
  struct dmi_letter *letter;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  letter = thread->first;
  *size = letter ? (int64_t)letter->bytes.len : -1;
  if (letter && *size > capacity) letter = NULL;
  if (letter) {
    thread->first = letter->next;
    if (!thread->first) thread->last = &thread->first;
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  return letter;
}

int32_t dmi_thread_suspend_with(void *to, int64_t capacity, int64_t *size) {
  struct dmi_thread *thread = dmi_thread_mine();
  struct dmi_letter *letter;
  int64_t len;
  bool noted;
  if (!thread) return DMI_ETHREAD;
  for (;;) {
    uint32_t seen = atomic_load(&thread->letters);
    if (atomic_load(&thread->process->access.core.stopping)) return DMI_EEND;
    letter = take(thread, capacity, &len);
    if (len >= 0) *size = len;
    if (letter) break;
    if (len >= 0) {
      return dmi_because_so(DMI_ESIZE, "there are %" PRId64 " bytes, but room for %" PRId64, len,
                            capacity);
    }
    noted = dmi_doing_waits(&thread->process->access.doings, DMI_DOING_SUSPEND, 0, 0, 0);
    dmi_futex_wait(&thread->letters, seen);
    dmi_doing_waited(noted);
  }
  if (letter->bytes.len) memcpy(to, letter->bytes.ptr, letter->bytes.len);
  dmi_slice_drop(&letter->bytes);
  free(letter);
  return DMI_OK;
}

/* ---- Giving --------------------------------------------------------------------------------- */

/* To a thread of this process; takes over the reference.  Any thread. */
static int32_t give(struct dmi_threads *threads, uint64_t number, struct dmi_slice *bytes) {
  struct dmi_letter *letter = malloc(sizeof(*letter));
  struct dmi_thread *thread;
  bool over = true;
  if (!letter) {
    dmi_slice_drop(bytes);
    return DMI_ENOMEM;
  }
  *letter = (struct dmi_letter){NULL, *bytes};
  *bytes = (struct dmi_slice){0};
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  thread = dmi_thread_find(threads, number);
  if (thread) over = atomic_load(&thread->wake) == WAKE_OVER;
  if (!over) {
    *thread->last = letter;
    thread->last = &letter->next;
    dmi_thread_letters_changed(thread);
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (!over) return DMI_OK;
  dmi_slice_drop(&letter->bytes);
  free(letter);
  return DMI_WHY(DMI_ETHREAD, thread ? DMI_WHY_ENDED : DMI_WHY_NO_THREAD);
}

/* The bytes are those of the message, which goes on having a reference of its own. */
bool dmi_thread_on_wake_with(struct dmi_process *process, uint32_t from,
                             const struct dmi_msg *msg) {
  struct dmi_slice bytes = {0};
  int32_t error = msg->body.len && !msg->body.ptr ? DMI_ENOMEM : DMI_OK;
  if (error == DMI_OK && msg->body.len) bytes = dmi_slice_of(msg->body.frame, 0, msg->body.len);
  if (error == DMI_OK) error = give(process->threads, msg->thread.thread, &bytes);
  dmi_thread_answer(process, from, DMI_SVC_WOKEN, msg->thread.op, error);
  return true;
}

void dmi_thread_wake_with(struct dmi_process *process, uint32_t uid, uint64_t number,
                          struct dmi_slice *bytes, dmi_thread_done *done, void *arg) {
  struct dmi_msg msg;
  uint64_t op;
  if (uid == process->access.core.self) {
    done(arg, give(process->threads, number, bytes), 0);
    return;
  }
  op = dmi_thread_call_note(process->threads, uid, DMI_SVC_WOKEN, done, arg);
  msg = dmi_thread_msg(DMI_SVC_WAKE_WITH, op, number);
  msg.body = *bytes;
  if (process->access.core.is_member(process->access.core.arg, uid) &&
      dmi_net_send(process->access.net, uid, &msg)) {
    dmi_net_flush(process->access.net, uid);
    return;
  }
  dmi_slice_drop(bytes);
  if (dmi_thread_call_undo(process->threads, op)) done(arg, DMI_ETHREAD, 0);
}
