/*
 * beside.c - the second network of a process: it gets its connections from the first one's daemon,
 * which accepts them.
 *
 * Happy path: PROOF is right, and HELLO says that the connection is for the second network. The
 * first one's daemon takes it out of its loop and puts it into a list. The second one's thread
 * takes it from there and handles HELLO as usual.
 *
 * A link's descriptor may still be known to the first one's loop: libev forgets it only when an
 * event arrives that nobody wants. Therefore only the first one's daemon closes links. The second
 * one ends its direction, which the other process sees at once, and gives the link back.
 *
 * Failure modes: if this process has no second network yet, or none any more, or DMI_NET_CALLED
 * connections wait for its thread, the connection is closed, and the other process tries again.
 * Without that limit those that wait for a thread that is stuck would take all descriptors: they
 * have no time limit meanwhile, and no place in accept.c's table.
 *
 * Must not decide who may connect (handshake.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>

#include "base/lock.h"
#include "net/net_int.h"

/* The second one's loop may also know the descriptor still, and take it out of its epoll set when an
 * event comes. The kernel does so at the close, and libev numbers what it puts there, so that what
 * comes too late finds nothing of its own. The thread sanitizer sees only that two threads use it. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define KNOWN_TO_BOTH_BEGIN() AnnotateIgnoreWritesBegin(__FILE__, __LINE__)
#define KNOWN_TO_BOTH_END() AnnotateIgnoreWritesEnd(__FILE__, __LINE__)
#else
#define KNOWN_TO_BOTH_BEGIN() ((void)0)
#define KNOWN_TO_BOTH_END() ((void)0)
#endif

void dmi_beside_begin(struct dmi_net *net) {
  dmi_mutex_lock(&net->first->beside_lock);
  net->first->beside = net;
  dmi_mutex_unlock(&net->first->beside_lock);
}

void dmi_beside_give(struct dmi_handshake *handshake) {
  struct dmi_net *first = handshake->net;
  dmi_handshake_stop(handshake);
  dmi_mutex_lock(&first->beside_lock);
  struct dmi_net *net = first->beside;
  if (net != NULL && net->given_num >= DMI_NET_CALLED) net = NULL;
  if (net != NULL) {
    net->given_num++;
    handshake->next = net->given;
    net->given = handshake;
    ev_async_send(net->loop, &net->wake); /* with the lock held: after it `net` may be freed */
  }
  dmi_mutex_unlock(&first->beside_lock);
  if (net == NULL) dmi_handshake_discard(handshake);
}

static struct dmi_handshake *take_one(struct dmi_net *net) {
  dmi_mutex_lock(&net->first->beside_lock);
  struct dmi_handshake *handshake = net->given;
  if (handshake != NULL) {
    net->given = handshake->next;
    net->given_num--;
  }
  dmi_mutex_unlock(&net->first->beside_lock);
  return handshake;
}

void dmi_beside_take(struct dmi_net *net) {
  for (struct dmi_handshake *handshake; (handshake = take_one(net)) != NULL;)
    dmi_handshake_go_on(handshake, net);
}

void dmi_beside_end(struct dmi_net *net) {
  dmi_mutex_lock(&net->first->beside_lock);
  net->first->beside = NULL;
  dmi_mutex_unlock(&net->first->beside_lock);
  for (struct dmi_handshake *handshake; (handshake = take_one(net)) != NULL;) {
    handshake->net = net;
    dmi_handshake_discard(handshake);
  }
}

void dmi_beside_close(struct dmi_net *net, struct dmi_link *link) {
  struct dmi_net *first = net->first;
  if (first == NULL) {
    dmi_link_close(link);
    return;
  }
  link->ops->finish(link);
  dmi_mutex_lock(&first->beside_lock);
  link->next = first->unused;
  first->unused = link;
  dmi_mutex_unlock(&first->beside_lock);
  ev_async_send(first->loop, &first->wake);
}

void dmi_beside_clean(struct dmi_net *first) {
  dmi_mutex_lock(&first->beside_lock);
  struct dmi_link *link = first->unused;
  first->unused = NULL;
  dmi_mutex_unlock(&first->beside_lock);
  while (link != NULL) {
    struct dmi_link *next = link->next;
    KNOWN_TO_BOTH_BEGIN();
    dmi_link_close(link);
    KNOWN_TO_BOTH_END();
    link = next;
  }
}
