/*
 * host_int.h - what the files of a host share: host.c (its loop, connections), host_link.c (links
 * that are being made).
 */
#ifndef DMI_OX_HOST_INT_H
#define DMI_OX_HOST_INT_H

#include <ev.h>
#include <netdb.h>

#include "ox/host.h"
#include "ox/lookup.h"
#include "ox/memory.h"

/* A connection. */
struct dmi_ox_conn {
  struct dmi_ox_conn *next;
  struct dmi_ox_host *host;
  uint32_t id;
  int fd;
  bool eof;     /* nothing more comes */
  bool broken;  /* it cannot be written */
  bool closing; /* to be closed when all is written; the session does not know it any more */
  bool drains;  /* closing: all is written, what still comes is dropped */
  struct dmi_ox_bytes out;
  size_t from; /* of `out`: what is written */
  ev_io reads, writes;
};

/* A link that is being made. */
struct dmi_ox_open {
  struct dmi_ox_open *next;
  struct dmi_ox_host *host;
  uint32_t id;
  int fd;     /* it listens, or connects; -1: between two tries */
  int tries;  /* to connect, so far */
  char *path; /* AF_UNIX; freed by it */
  bool listens;
  bool near; /* it takes connections of this machine only */
  struct sockaddr_storage unix_addr;
  socklen_t unix_len;
  char *name;                   /* of the host */
  struct dmi_ox_lookup *lookup; /* NULL: none is under way */
  struct addrinfo *all, *at;    /* addresses, and the one that is tried */
  ev_io io;
  ev_timer again;
};

struct dmi_ox_host {
  struct ev_loop *loop;
  struct dmi_ox_session *session;
  struct dmi_ox_settings settings;
  struct dmi_ox_desk *desk;
  struct dmi_ox_conn *conns;
  struct dmi_ox_open *opens;
  struct sockaddr_storage links;
  socklen_t links_len;
  bool ending; /* the session has ended: only writes go on */
  bool hurry;  /* the server ends, too: clients are not waited for */
  ev_async stop, returned;
  ev_timer flush;
  void (*ended)(struct dmi_ox_host *host, void *arg);
  void *arg;
};

/* ---- host.c ---- */
void dmi_ox_host_connected(struct dmi_ox_host *host, uint32_t id, int fd);
/* Carries out what the session has decided, until there is nothing more. */
void dmi_ox_host_carry(struct dmi_ox_host *host);

/* ---- host_link.c ---- */
void dmi_ox_open_begin(struct dmi_ox_host *host, const struct dmi_ox_action *action);
void dmi_ox_open_free(struct dmi_ox_host *host, struct dmi_ox_open *open);
/* Goes on with those whose names have been looked up. */
void dmi_ox_open_looked(struct dmi_ox_host *host);

#endif
