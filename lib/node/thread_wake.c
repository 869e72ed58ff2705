/*
 * thread_wake.c - DMI_suspend and DMI_wake (docs/threads.md): which DMI thread the calling one is,
 * how it sleeps, and how threads of any process wake it.
 */
#include "node/thread_int.h"

#include "base/futex.h"

static __thread struct dmi_thread *self;

void dmi_thread_set_self(struct dmi_thread *thread) {
  self = thread;
}

struct dmi_thread *dmi_thread_mine(void) {
  return self;
}

uint64_t dmi_thread_self(void) {
  return self ? self->number : 0;
}

int32_t dmi_thread_suspend(void) {
  struct dmi_thread *thread = self;
  bool noted;
  if (!thread) return DMI_ETHREAD;
  for (;;) {
    uint32_t was = WAKE_KEPT;
    if (atomic_load(&thread->process->access.core.stopping)) return DMI_EEND;
    if (atomic_compare_exchange_strong(&thread->wake, &was, WAKE_NONE)) return DMI_OK;
    noted = dmi_doing_waits(&thread->process->access.doings, DMI_DOING_SUSPEND, 0, 0, 0);
    dmi_futex_wait(&thread->wake, WAKE_NONE);
    dmi_doing_waited(noted);
  }
}

void dmi_threads_end_waits(struct dmi_threads *threads) {
  struct dmi_thread *thread, *next;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_ITER(hh, threads->all, thread, next) {
    uint32_t was = WAKE_NONE;
    /* One that is about to sleep has looked at `stopping` too early: the word says it. */
    if (atomic_compare_exchange_strong(&thread->wake, &was, WAKE_END))
      dmi_futex_wake(&thread->wake, 1);
    dmi_thread_letters_changed(thread);
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
}

/* Any thread. */
int32_t dmi_thread_wake_here(struct dmi_threads *threads, uint64_t number) {
  struct dmi_thread *thread;
  uint32_t was = WAKE_OVER;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  thread = dmi_thread_find(threads, number);
  if (thread) {
    was = WAKE_NONE;
    atomic_compare_exchange_strong(&thread->wake, &was, WAKE_KEPT);
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (was == WAKE_OVER) {
    return DMI_WHY(DMI_ETHREAD, thread ? DMI_WHY_ENDED : DMI_WHY_NO_THREAD);
  }
  /* The thread may have gone on and ended since: only its address is used here. */
  if (was == WAKE_NONE) dmi_futex_wake(&thread->wake, 1);
  return DMI_OK;
}

bool dmi_thread_on_wake(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  dmi_thread_answer(process, from, DMI_SVC_WOKEN, msg->thread.op,
                    dmi_thread_wake_here(process->threads, msg->thread.thread));
  return true;
}

void dmi_thread_wake(struct dmi_process *process, uint32_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg) {
  struct dmi_msg msg;
  uint64_t op;
  if (uid == process->access.core.self) {
    done(arg, dmi_thread_wake_here(process->threads, number), 0);
    return;
  }
  /* Noted first: if it is lost from here on, dmi_threads_lost completes the call. */
  op = dmi_thread_call_note(process->threads, uid, DMI_SVC_WOKEN, done, arg);
  msg = dmi_thread_msg(DMI_SVC_WAKE, op, number);
  if (process->access.core.is_member(process->access.core.arg, uid) &&
      dmi_net_send(process->access.net, uid, &msg)) {
    dmi_net_flush(process->access.net, uid);
    return;
  }
  /* A process that has left has no threads. */
  if (dmi_thread_call_undo(process->threads, op)) done(arg, DMI_ETHREAD, 0);
}
