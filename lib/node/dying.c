/*
 * dying.c - see dying.h.
 *
 * Failure modes: the pulse thread has ended, is what the signal has ended, or cannot send as a
 * thread that has been stopped in the middle of something holds what it needs, or as another
 * process does not read: the others say only that this one is lost, and it dies LIMIT_MS later.
 */
#include "node/dying.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/epoch.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "node/runtime.h"
#include "node/see_int.h"

#define LIMIT_MS 300

/* ---- Who dies -------------------------------------------------------------------------------- */

/* Of the OS process, which dies once. */
static _Atomic(struct dmi_net *) way; /* of the pulse thread; NULL: nobody can be told */
static __thread bool is_way __attribute__((tls_model("initial-exec"))); /* this is that thread */
static struct dmi_safe text[DMI_DYING_TEXTS];
static _Atomic uint32_t told, sent; /* how many of them */

static void wait_a_ms(void) {
  (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void dmi_dying_begin(struct dmi_net *net) {
  atomic_store(&way, net);
}

void dmi_dying_thread(void) {
  is_way = true;
}

void dmi_dying_end(struct dmi_net *net) {
  (void)atomic_compare_exchange_strong(&way, &net, NULL);
}

void dmi_dying_tell(const struct dmi_safe *line) {
  struct dmi_net *net = atomic_load(&way);
  uint32_t at = atomic_load(&told);
  if (!net || at == DMI_DYING_TEXTS) return;
  text[at] = *line;
  atomic_store(&told, at + 1);
  dmi_net_post(net);
}

void dmi_dying_wait(void) {
  if (!atomic_load(&way) || is_way) return;
  for (int i = 0; i < LIMIT_MS && atomic_load(&sent) != atomic_load(&told); i++)
    wait_a_ms();
}

/* True if it is to be told.  Nobody is connected with only for this. */
static bool hears(const struct dmi_process *process, dmi_uid_t uid) {
  return uid != process->access.core.self && dmi_net_connected(process->access.net, uid);
}

static void send_to(struct dmi_process *process, dmi_uid_t uid, const struct dmi_safe *line) {
  struct dmi_msg msg = {.type = DMI_SEE_DYING, .body = dmi_slice_copy(line->text, line->len)};
  if (!dmi_net_send(process->access.net, uid, &msg)) dmi_slice_drop(&msg.body);
  dmi_net_flush(process->access.net, uid);
}

/* The list of members stays as it is while this thread reads it. */
void dmi_dying_send(struct dmi_process *process) {
  const uint32_t now = atomic_load(&told);
  const struct dmi_uids *uids;
  if (now == atomic_load(&sent)) return;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  for (uint32_t i = 0; i < uids->num + uids->left; i++) {
    if (hears(process, uids->uid[i])) send_to(process, uids->uid[i], &text[now - 1]);
  }
  for (uint32_t i = 0, ms = 0; i < uids->num && ms < LIMIT_MS; i++) {
    for (; !dmi_net_sent(process->access.net, uids->uid[i]) && ms < LIMIT_MS; ms++)
      wait_a_ms();
  }
  dmi_epoch_leave();
  atomic_store(&sent, now);
}

/* ---- The others ------------------------------------------------------------------------------ */

struct dmi_dying {
  struct dmi_dying *next;
  dmi_uid_t uid;
  bool doubt; /* it has told nothing itself */
  char text[DMI_WIRE_DYING + 1];
};

static struct dmi_dying **find(struct dmi_dying **at, dmi_uid_t uid) {
  while (*at && (*at)->uid != uid)
    at = &(*at)->next;
  return at;
}

static struct dmi_dying *find_or_add(struct dmi_process *process, dmi_uid_t uid) {
  struct dmi_dying **at = find(&process->dying, uid);
  if (!*at) {
    *at = dmi_xalloc(1, sizeof(**at));
    (*at)->uid = uid;
    (*at)->doubt = true;
  }
  return *at;
}

bool dmi_see_on_dying(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_dying *one;
  if (from >= DMI_NET_TEMP || !msg->body.len) return false;
  if (!msg->body.ptr) return true; /* there was no memory for it */
  one = find_or_add(process, from);
  one->doubt = false;
  memcpy(one->text, msg->body.ptr, msg->body.len);
  one->text[msg->body.len] = 0;
  dmi_log_printable(one->text);
  return true;
}

void dmi_dying_doubt(struct dmi_process *process, dmi_uid_t uid, const char *why) {
  struct dmi_dying *one = find_or_add(process, uid);
  if (one->doubt) snprintf(one->text, sizeof(one->text), "%s", why);
}

void dmi_dying_heard(struct dmi_process *process, dmi_uid_t uid) {
  const struct dmi_dying *one = *find(&process->dying, uid);
  if (one && one->doubt) dmi_dying_forget(process, uid);
}

const char *dmi_dying_told(struct dmi_process *process, dmi_uid_t uid) {
  const struct dmi_dying *one = *find(&process->dying, uid);
  return one ? one->text : NULL;
}

const char *dmi_dying_why(struct dmi_process *process, dmi_uid_t uid, const char *why) {
  const char *has_told = dmi_dying_told(process, uid);
  return has_told ? has_told : why;
}

void dmi_dying_forget(struct dmi_process *process, dmi_uid_t uid) {
  struct dmi_dying **at = find(&process->dying, uid), *gone = *at;
  if (!gone) return;
  *at = gone->next;
  free(gone);
}

void dmi_dying_free(struct dmi_process *process) {
  while (process->dying)
    dmi_dying_forget(process, process->dying->uid);
}
