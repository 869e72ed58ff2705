/*
 * actions_view.c - a new view is carried out: who is a member is published, who is not any more is
 * kept out, and events tell of it.
 */
#include <stdlib.h>

#include "base/epoch.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "node/actions.h"
#include "node/daemon.h"
#include "node/pulser.h"
#include "node/runtime.h"
#include "node/stall.h"
#include "node/tracer.h"

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void tell_view(struct dmi_process *process, const struct dmi_mact *act, uint32_t num) {
  dmi_emit(&process->stream, view, .view = dmi_member_view(process->member), .members = num,
           .coordinator = dmi_member_coordinator(process->member));
  for (uint32_t i = 0; i < act->peer_num; i++) {
    const struct dmi_peer *peer = &act->peers[i];
    dmi_emit(&process->stream, member_joined, .member = peer->uid, .id = peer->dmi_id.n,
             .host = peer->info.host, .cores = peer->info.cores, .memory = peer->info.memory);
  }
  for (uint32_t i = 0; i < act->removed_num; i++) {
    const struct dmi_removed *removed = &act->removed[i];
    if (removed->heir) {
      dmi_emit(&process->stream, member_left, .member = removed->uid, .heir = removed->heir);
    } else {
      dmi_emit(&process->stream, member_gone, .member = removed->uid);
    }
  }
}

/* The members that lib/access gets to know.  This process is always one of them, also when it has
 * left. */
static struct dmi_uids *members(struct dmi_process *process) {
  uint32_t num, left = 0;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  struct dmi_uids *uids = dmi_xalloc(1, sizeof(*uids) + num * sizeof(uids->uid[0]));
  for (uint32_t i = 0; i < num; i++) {
    if (peers[i].left && peers[i].uid != process->access.core.self) {
      uids->uid[num - ++left] = peers[i].uid;
    } else {
      uids->uid[uids->num++] = peers[i].uid;
    }
  }
  uids->left = left;
  qsort(uids->uid, uids->num, sizeof(uids->uid[0]), by_number);
  qsort(uids->uid + uids->num, left, sizeof(uids->uid[0]), by_number);
  return uids;
}

/* Nothing of those that the others have removed may come any more, also if they live.  Until all
 * have recovered, all messages come in this thread: so what was held is handled before what comes
 * behind it. */
static void fence(struct dmi_process *process, const struct dmi_mact *view) {
  for (uint32_t i = 0; i < view->removed_num; i++) {
    if (!view->removed[i].lost) continue;
    process->losses++;
    dmi_net_keep(process->access.net);
    dmi_net_fence(process->access.net, view->removed[i].uid);
    dmi_stall_lost(process, view->removed[i].uid);
  }
}

void dmi_actions_view(struct dmi_process *process, const struct dmi_mact *act) {
  struct dmi_uids *uids = members(process), *old;
  fence(process, act);
  tell_view(process, act, uids->num);
  old = atomic_exchange(&process->uids, uids);
  atomic_store(&process->uids_number, dmi_daemon_uids_number());
  dmi_epoch_retire(old, free);
  for (uint32_t i = 0; i < act->removed_num; i++) {
    if (act->removed[i].uid != process->access.core.self)
      dmi_net_bar(process->access.net, act->removed[i].uid);
    if (act->removed[i].heir == 0)
      dmi_threads_lost(process, act->removed[i].uid, act->removed[i].lost);
  }
  if (process->remote) process->program.remote->view(process->remote, act);
  if (process->teams) process->program.team->view(process->teams, act);
  process->takes_no_part = !dmi_pulser_view(process, act);
  dmi_tracer_view(process);
  dmi_actions_coordinator(process);
}
