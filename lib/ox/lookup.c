/*
 * lookup.c - see lookup.h.
 */
#include "ox/lookup.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"
#include "ox/socket.h"

struct dmi_ox_lookup {
  char host[DMI_OX_HOST_BYTES], port[8];
  void (*wake)(void *arg);
  void *arg;
  pthread_mutex_t lock; /* guards what follows */
  bool over, given_up;
  struct addrinfo *found;
  const char *why;
};

static void free_lookup(struct dmi_ox_lookup *lookup) {
  if (lookup->found != NULL) freeaddrinfo(lookup->found);
  pthread_mutex_destroy(&lookup->lock);
  free(lookup);
}

static void *run(void *arg) {
  struct dmi_ox_lookup *lookup = arg;
  const char *why = "";
  struct addrinfo *found = dmi_ox_socket_resolve(lookup->host, lookup->port, &why);
  pthread_mutex_lock(&lookup->lock);
  lookup->found = found;
  lookup->why = why;
  lookup->over = true;
  bool given_up = lookup->given_up;
  if (!given_up) lookup->wake(lookup->arg);
  pthread_mutex_unlock(&lookup->lock);
  if (given_up) free_lookup(lookup);
  return NULL;
}

struct dmi_ox_lookup *dmi_ox_lookup_begin(const char *host, const char *port,
                                          void (*wake)(void *arg), void *arg) {
  struct dmi_ox_lookup *lookup = dmi_ox_alloc(sizeof *lookup);
  pthread_t thread;
  snprintf(lookup->host, sizeof lookup->host, "%s", host);
  snprintf(lookup->port, sizeof lookup->port, "%s", port);
  lookup->wake = wake;
  lookup->arg = arg;
  pthread_mutex_init(&lookup->lock, NULL);
  if (pthread_create(&thread, NULL, run, lookup) == 0) {
    pthread_detach(thread);
    return lookup;
  }
  free_lookup(lookup);
  return NULL;
}

bool dmi_ox_lookup_take(struct dmi_ox_lookup *lookup, struct addrinfo **found, const char **why) {
  pthread_mutex_lock(&lookup->lock);
  bool over = lookup->over;
  if (over) {
    *found = lookup->found;
    *why = lookup->why;
    lookup->found = NULL;
  }
  pthread_mutex_unlock(&lookup->lock);
  if (over) free_lookup(lookup);
  return over;
}

void dmi_ox_lookup_give_up(struct dmi_ox_lookup *lookup) {
  pthread_mutex_lock(&lookup->lock);
  bool over = lookup->over;
  lookup->given_up = true;
  pthread_mutex_unlock(&lookup->lock);
  if (over) free_lookup(lookup);
}
