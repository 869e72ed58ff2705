/*
 * store.c - what was made in this process for each client, and when it goes: when the client is
 * closed, and no call runs for it any more.
 *
 * A client that was closed here is remembered as long as a call of it runs, so that what the call
 * makes is not kept.
 */
#include <stdlib.h>

#include "remote/remote_int.h"

static struct dmi_remote_owned *find(struct dmi_remote *remote, dmi_remote_client_t client) {
  struct dmi_remote_owned *owned;
  HASH_FIND(hh, remote->stores, &client, sizeof(client), owned);
  return owned;
}

static void end(struct dmi_remote *remote, struct dmi_remote_owned *owned) {
  if (!owned->closed || owned->refs) return;
  HASH_DEL(remote->stores, owned);
  dmi_remote_store_free(owned->store);
  free(owned);
}

struct dmi_remote_store *dmi_remote_store_take(struct dmi_remote *remote,
                                               dmi_remote_client_t client) {
  struct dmi_remote_owned *owned = find(remote, client);
  if (!owned) {
    owned = dmi_xalloc(1, sizeof(*owned));
    owned->client = client;
    owned->store = dmi_remote_store_new(remote->process);
    HASH_ADD(hh, remote->stores, client, sizeof(owned->client), owned);
  }
  if (owned->closed) return NULL;
  owned->refs++;
  return owned->store;
}

void dmi_remote_store_give(struct dmi_remote *remote, dmi_remote_client_t client) {
  struct dmi_remote_owned *owned = find(remote, client);
  owned->refs--;
  end(remote, owned);
}

void dmi_remote_store_drop(struct dmi_remote *remote, dmi_remote_client_t client,
                           const struct dmi_remote_result *value, bool retire) {
  struct dmi_remote_owned *owned = find(remote, client);
  if (owned) dmi_remote_page_free(owned->store, value->addr, value->size, retire);
}

void dmi_remote_store_close(struct dmi_remote *remote, dmi_remote_client_t client) {
  struct dmi_remote_owned *owned = find(remote, client);
  if (!owned) return;
  owned->closed = true;
  end(remote, owned);
}

void dmi_remote_stores_close(struct dmi_remote *remote, dmi_uid_t process) {
  struct dmi_remote_owned *owned, *next;
  HASH_ITER(hh, remote->stores, owned, next) {
    if (owned->client.process != process) continue;
    owned->closed = true;
    end(remote, owned);
  }
}

void dmi_remote_stores_trim(struct dmi_remote *remote) {
  for (struct dmi_remote_owned *owned = remote->stores; owned; owned = owned->hh.next)
    dmi_remote_store_trim(owned->store);
}

void dmi_remote_stores_free(struct dmi_remote *remote) {
  struct dmi_remote_owned *owned, *next;
  HASH_ITER(hh, remote->stores, owned, next) {
    HASH_DEL(remote->stores, owned);
    dmi_remote_store_forget(owned->store);
    free(owned);
  }
}
