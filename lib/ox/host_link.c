/*
 * host_link.c - links that are being made (RFC-102, 279 and 280).
 *
 * Who accepts listens at the address of the server's data port, with a backlog of 5, for one
 * connection. If that is loopback it listens at all addresses, and takes only a connection of this
 * machine: the other is told the name of the host, which may have another address than 127.0.0.1.
 * Who connects looks the name up in a thread of its own (lookup.h), and tries all addresses, ten
 * times, 100 ms apart: the other may be told to accept a moment later. The path of AF_UNIX is
 * removed when the connection is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "ox/host_int.h"
#include "ox/socket.h"

#define BACKLOG 5
#define TRIES 10
#define PAUSE 0.1 /* seconds */

/* Closes what it has open, and waits for nothing. */
static void stop(struct dmi_ox_open *open) {
  struct ev_loop *loop = open->host->loop;
  ev_io_stop(loop, &open->io);
  ev_timer_stop(loop, &open->again);
  if (open->fd >= 0) close(open->fd);
  if (open->fd >= 0 && open->listens && open->path != NULL) unlink(open->path);
  open->fd = -1;
}

void dmi_ox_open_free(struct dmi_ox_host *host, struct dmi_ox_open *open) {
  struct dmi_ox_open **at = &host->opens;
  while (*at != open)
    at = &(*at)->next;
  *at = open->next;
  stop(open);
  if (open->lookup != NULL) dmi_ox_lookup_give_up(open->lookup);
  if (open->all != NULL) freeaddrinfo(open->all);
  free(open->name);
  free(open->path);
  free(open);
}

static void give_up(struct dmi_ox_open *open, const char *what, const char *why) {
  struct dmi_ox_host *host = open->host;
  uint32_t id = open->id;
  char text[DMI_OX_HOST_BYTES + 200];
  snprintf(text, sizeof text, "%s: %.190s", what, why);
  dmi_ox_open_free(host, open);
  dmi_ox_session_unlinked(host->session, id, text);
}

/* The connection is there. */
static void succeed(struct dmi_ox_open *open, int fd) {
  struct dmi_ox_host *host = open->host;
  uint32_t id = open->id;
  dmi_ox_open_free(host, open);
  dmi_ox_host_connected(host, id, fd);
}

static bool set_path(struct dmi_ox_open *open) {
  struct sockaddr_un *addr = (struct sockaddr_un *)&open->unix_addr;
  if (strlen(open->path) >= sizeof addr->sun_path) return false;
  addr->sun_family = AF_UNIX;
  memcpy(addr->sun_path, open->path, strlen(open->path) + 1);
  open->unix_len = sizeof *addr;
  return true;
}

/* ---- Accepting ------------------------------------------------------------------------------- */

static void on_called(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_open *open = io->data;
  struct dmi_ox_host *host = open->host;
  (void)loop, (void)events;
  int fd = dmi_ox_socket_accept(open->fd);
  if (fd >= 0 && open->near && !dmi_ox_socket_is_near(fd))
    close(fd);
  else if (fd >= 0)
    succeed(open, fd);
  else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED)
    give_up(open, "accept", strerror(errno));
  dmi_ox_host_carry(host);
}

static void begin_accept(struct dmi_ox_open *open, int port) {
  struct sockaddr_storage addr = open->host->links;
  open->near = open->path == NULL && dmi_ox_socket_is_loopback(&addr);
  if (open->near) ((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_ANY);
  dmi_ox_socket_set_port(&addr, port);
  open->fd =
      open->path != NULL
          ? dmi_ox_socket_listen((struct sockaddr *)&open->unix_addr, open->unix_len, BACKLOG)
          : dmi_ox_socket_listen((struct sockaddr *)&addr, open->host->links_len, BACKLOG);
  if (open->fd < 0) {
    give_up(open, "listen", strerror(errno));
    return;
  }
  ev_io_init(&open->io, on_called, open->fd, EV_READ);
  ev_io_start(open->host->loop, &open->io);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void try_next(struct dmi_ox_open *open);

/* This address did not answer: the next one, or all again. */
static void refused(struct dmi_ox_open *open, int error) {
  stop(open);
  open->at = open->at != NULL ? open->at->ai_next : NULL;
  if (open->at != NULL) {
    try_next(open);
  } else if (++open->tries < TRIES) {
    open->at = open->all;
    ev_timer_set(&open->again, PAUSE, 0);
    ev_timer_start(open->host->loop, &open->again);
  } else {
    give_up(open, "connect", strerror(error));
  }
}

static void on_connected(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_open *open = io->data;
  struct dmi_ox_host *host = open->host;
  int error = 0, fd = open->fd;
  socklen_t len = sizeof error;
  (void)loop, (void)events;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  if (error != 0) {
    refused(open, error);
  } else {
    ev_io_stop(host->loop, &open->io);
    open->fd = -1; /* the connection's from now on */
    succeed(open, fd);
  }
  dmi_ox_host_carry(host);
}

static void on_again(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct dmi_ox_open *open = timer->data;
  struct dmi_ox_host *host = open->host;
  (void)loop, (void)events;
  try_next(open);
  dmi_ox_host_carry(host);
}

static void try_next(struct dmi_ox_open *open) {
  open->fd = open->path != NULL
                 ? dmi_ox_socket_connect((struct sockaddr *)&open->unix_addr, open->unix_len)
                 : dmi_ox_socket_connect(open->at->ai_addr, open->at->ai_addrlen);
  if (open->fd < 0) {
    refused(open, errno);
    return;
  }
  ev_io_init(&open->io, on_connected, open->fd, EV_WRITE);
  ev_io_start(open->host->loop, &open->io);
}

static void wake(void *arg) {
  struct dmi_ox_host *host = arg;
  ev_async_send(host->loop, &host->returned);
}

static void begin_connect(struct dmi_ox_open *open, const char *name, int number) {
  char port[8];
  if (open->path != NULL) {
    try_next(open);
    return;
  }
  snprintf(port, sizeof port, "%d", number);
  open->name = strdup(name);
  open->lookup =
      strlen(name) < DMI_OX_HOST_BYTES ? dmi_ox_lookup_begin(name, port, wake, open->host) : NULL;
  if (open->lookup == NULL) give_up(open, "connect", "the name is too long, or there is no thread");
}

void dmi_ox_open_looked(struct dmi_ox_host *host) {
  struct dmi_ox_open *open = host->opens, *next;
  const char *why;
  for (; open != NULL; open = next) {
    next = open->next;
    if (open->lookup == NULL || !dmi_ox_lookup_take(open->lookup, &open->all, &why)) continue;
    open->lookup = NULL;
    open->at = open->all;
    if (open->all != NULL) {
      try_next(open);
    } else {
      char name[DMI_OX_HOST_BYTES];
      snprintf(name, sizeof name, "%s", open->name);
      give_up(open, name, why);
    }
    next = host->opens; /* a session goes on meanwhile, and may begin and end others */
  }
}

void dmi_ox_open_begin(struct dmi_ox_host *host, const struct dmi_ox_action *action) {
  struct dmi_ox_open *open = dmi_ox_alloc(sizeof *open);
  open->host = host;
  open->id = action->id;
  open->fd = -1;
  open->listens = action->act == DMI_OX_ACCEPT;
  if (action->path != NULL) open->path = strdup(action->path);
  ev_init(&open->io, on_called);
  ev_init(&open->again, on_again);
  open->io.data = open->again.data = open;
  open->next = host->opens;
  host->opens = open;
  if (action->path != NULL && (open->path == NULL || !set_path(open)))
    give_up(open, "AF_UNIX", "the path is too long");
  else if (open->listens)
    begin_accept(open, action->port);
  else
    begin_connect(open, action->host, action->port);
}
