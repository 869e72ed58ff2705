/*
 * join.c - begins attempts to connect: to a member, whose address is known, or to the program to
 * join, given by a host name.
 *
 * A host name is resolved with getaddrinfo, which blocks. That does no harm: dmi_net_join is called
 * before there is anything else to do.
 *
 * Must not use a link: dial.c does, called from the loop.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/lock.h"
#include "net/net_int.h"

static void on_start(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = timer->data;
  dmi_dial_next(dial);
}

/* A new attempt, with space for `count` addresses, which are not set yet. NULL: no memory. */
static struct dmi_dial *begin(struct dmi_net_peer *peer, size_t count) {
  struct dmi_net *net = peer->net;
  struct dmi_dial *dial = calloc(1, sizeof *dial);
  if (dial == NULL) return NULL;
  dial->addrs = calloc(count == 0 ? 1 : count, sizeof *dial->addrs);
  if (dial->addrs == NULL) {
    free(dial);
    return NULL;
  }
  dial->net = net;
  dial->peer = peer;
  dial->count = count;
  dial->offer = DMI_SHM_NO_OFFER;
  ev_now_update(net->loop); /* resolving a name may have taken long */
  dial->heard = dmi_net_now();
  dial->deadline = dial->heard + net->config.patience;
  /* The first address is tried from the loop: if it fails at once, no callback may run inside
   * the function that the user of this network called. */
  ev_init(&dial->io, NULL);
  /* ahead of the timer: bytes that have arrived count, even if the time is over */
  ev_set_priority(&dial->io, 1);
  ev_timer_init(&dial->patience, on_start, 0., 0.);
  dial->io.data = dial->patience.data = dial;
  ev_timer_start(net->loop, &dial->patience);
  peer->dial = dial;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  dmi_peer_move(peer, DMI_PEER_DIALING);
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return dial;
}

void dmi_dial_peer(struct dmi_net_peer *peer) {
  if (dmi_addr_is_zero(&peer->addr)) {
    dmi_peer_lost(peer, "its address is unknown");
    return;
  }
  struct dmi_dial *dial = begin(peer, 1);
  if (dial == NULL) {
    dmi_peer_lost(peer, "there is no memory to connect to it");
    return;
  }
  char text[80];
  *dial->addrs = peer->addr;
  dmi_addr_text(&peer->addr, text);
  snprintf(dial->host, sizeof dial->host, "%.*s", (int)strcspn(text, " "), text);
  dial->port = peer->addr.port;
}

const char *dmi_net_resolve(const char *host, struct dmi_addr *addr) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int error = getaddrinfo(host, NULL, &want, &found);
  if (error != 0) return gai_strerror(error);
  struct sockaddr_storage name = {0};
  memcpy(&name, found->ai_addr, found->ai_addrlen);
  dmi_addr_of_socket(addr, &name);
  freeaddrinfo(found);
  return NULL;
}

static struct dmi_dial *begin_join(struct dmi_net *net, size_t count) {
  struct dmi_net_peer *peer = dmi_peer_new(net, DMI_NET_TEMP);
  struct dmi_dial *dial = peer == NULL ? NULL : begin(peer, count);
  if (dial != NULL) {
    dial->join = true;
    return dial;
  }
  if (peer != NULL) dmi_peer_free_temp(peer);
  net->handler.joined(net->handler.arg, 0, "there is no memory to connect");
  return NULL;
}

void dmi_net_join(struct dmi_net *net, const char *host, uint16_t port) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  char service[8];
  size_t count = 0;
  snprintf(service, sizeof service, "%u", port);
  int error = getaddrinfo(host, service, &want, &found);
  if (error != 0) found = NULL;
  for (struct addrinfo *info = found; info != NULL; info = info->ai_next)
    count++;
  struct dmi_dial *dial = begin_join(net, count);
  if (dial != NULL) {
    snprintf(dial->host, sizeof dial->host, "%s", host);
    dial->port = port;
    snprintf(dial->why, sizeof dial->why, "cannot find host '%.200s': %s; %s", host,
             gai_strerror(error), net->config.join_advice);
    size_t at = 0;
    for (struct addrinfo *info = found; info != NULL; info = info->ai_next) {
      struct sockaddr_storage name = {0};
      memcpy(&name, info->ai_addr, info->ai_addrlen);
      dmi_addr_of_socket(&dial->addrs[at++], &name);
    }
  }
  if (found != NULL) freeaddrinfo(found);
}

void dmi_net_join_addr(struct dmi_net *net, const struct dmi_addr *addr) {
  char text[80];
  struct dmi_dial *dial = begin_join(net, 1);
  if (dial == NULL) return;
  *dial->addrs = *addr;
  dmi_addr_text(addr, text);
  snprintf(dial->host, sizeof dial->host, "%.*s", (int)strcspn(text, " "), text);
  dial->port = addr->port;
}

void dmi_dial_free_all(struct dmi_net *net) {
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
  }
}
