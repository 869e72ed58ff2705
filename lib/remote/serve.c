/*
 * serve.c - who serves: each process that is welcomed says so to all others, and they answer.
 *
 * One that leaves gets no more calls from when a view shows it, or a call came back from it; it has
 * gone when its last message has come.  One that is lost has gone with the view.
 */
#include <stdlib.h>

#include "node/runtime.h"
#include "remote/remote_int.h"

void dmi_remote_announce(struct dmi_remote *remote, dmi_uid_t to, bool answer) {
  struct dmi_pack *body = dmi_remote_line(remote, to, DMI_RMT_SERVES);
  dmi_pack_u8(body, answer);
  dmi_pack_u32(body, remote->process->dmi_id.n);
  dmi_pack_u32(body, remote->self.cores);
  dmi_pack_u64(body, remote->self.limit);
}

static void add(struct dmi_remote *remote, const struct dmi_remote_server *server,
                dmi_id_t dmi_id) {
  struct dmi_remote_served *served;
  HASH_FIND(hh, remote->servers, &server->uid, sizeof(server->uid), served);
  if (!served) {
    served = dmi_xalloc(1, sizeof(*served));
    served->uid = server->uid;
    HASH_ADD(hh, remote->servers, uid, sizeof(served->uid), served);
  }
  served->dmi_id = dmi_id;
  served->as = *server;
  served->leaves = false;
  for (struct dmi_remote_user *user = remote->users; user; user = user->next) {
    dmi_remote_book_serves(user->book, server);
    dmi_remote_carry_book(remote, user);
  }
  pthread_cond_broadcast(&remote->changed);
}

bool dmi_remote_on_serves(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_server server = {.uid = from};
  uint8_t answer = dmi_unpack_u8(body);
  dmi_id_t dmi_id = {dmi_unpack_u32(body)};
  server.cores = dmi_unpack_u32(body);
  server.limit = dmi_unpack_u64(body);
  if (body->bad || !server.cores) return false;
  add(remote, &server, dmi_id);
  if (!answer && remote->serves && from != remote->self.uid)
    dmi_remote_announce(remote, from, true);
  return true;
}

/* It gets no more calls. */
static void leaves(struct dmi_remote *remote, dmi_uid_t uid) {
  struct dmi_remote_served *served;
  HASH_FIND(hh, remote->servers, &uid, sizeof(uid), served);
  if (served) served->leaves = true;
  for (struct dmi_remote_user *user = remote->users; user; user = user->next) {
    dmi_remote_book_leaves(user->book, uid);
    dmi_remote_carry_book(remote, user);
  }
}

void dmi_remote_gone(struct dmi_remote *remote, dmi_uid_t uid, bool lost) {
  struct dmi_remote_served *served;
  HASH_FIND(hh, remote->servers, &uid, sizeof(uid), served);
  if (!served) return;
  HASH_DEL(remote->servers, served);
  free(served);
  for (struct dmi_remote_user *user = remote->users; user; user = user->next) {
    if (lost) {
      dmi_remote_book_lost(user->book, uid);
    } else {
      dmi_remote_book_left(user->book, uid);
    }
    dmi_remote_carry_book(remote, user);
  }
  if (!remote->pool) return;
  dmi_remote_pool_gone(remote->pool, uid);
  dmi_remote_carry(remote);
  dmi_remote_stores_close(remote, uid);
}

void dmi_remote_opened(struct dmi_remote *remote) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(remote->process->member, &num);
  if (!dmi_remote_function_any()) return; /* in no process of the program */
  dmi_remote_lock(remote);
  dmi_remote_make_pool(remote);
  remote->serves = true;
  for (uint32_t i = 0; i < num; i++) {
    if (!peers[i].left && peers[i].uid != remote->self.uid)
      dmi_remote_announce(remote, peers[i].uid, false);
  }
  add(remote, &remote->self, remote->process->dmi_id);
  dmi_remote_unlock(remote);
}

void dmi_remote_stays(struct dmi_remote *remote) {
  dmi_remote_lock(remote);
  if (remote->leaving) {
    remote->leaving = remote->empty = false;
    dmi_remote_pool_stay(remote->pool);
    dmi_remote_carry(remote);
    for (struct dmi_remote_served *at = remote->servers; at; at = at->hh.next)
      dmi_remote_announce(remote, at->uid, true);
  }
  dmi_remote_unlock(remote);
}

void dmi_remote_view(struct dmi_remote *remote, const struct dmi_mact *view) {
  const struct dmi_member *member = remote->process->member;
  const struct dmi_peer *self;
  dmi_remote_lock(remote);
  remote->survive = dmi_member_settings(member).survive != 0;
  remote->self.uid = dmi_member_uid(member);
  self = dmi_member_peer(member, remote->self.uid);
  if (self && !remote->host[0]) /* workers read it without the lock */
    snprintf(remote->host, sizeof(remote->host), "%s", self->info.host);
  for (uint32_t i = 0; i < view->removed_num; i++) {
    const struct dmi_removed *removed = &view->removed[i];
    if (removed->uid == remote->self.uid) continue;
    if (removed->lost || !removed->heir) {
      dmi_remote_gone(remote, removed->uid, removed->lost);
    } else {
      leaves(remote, removed->uid);
    }
  }
  dmi_remote_unlock(remote);
}

void dmi_remote_last(struct dmi_remote *remote, dmi_uid_t from) {
  dmi_remote_lock(remote);
  dmi_remote_gone(remote, from, false);
  dmi_remote_unlock(remote);
}
