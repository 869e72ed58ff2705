/*
 * caller.c - connections that are not yet those of a session: their password, their byte of order,
 * and which two belong together.
 *
 * A client opens its control connection, and then its data connection. The first control
 * connection and the first data connection from the same address become a session; with one port
 * for both, a connection is the control connection unless one from its address waits already. One
 * that waits for longer than LATE seconds is closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ox/server_int.h"
#include "ox/socket.h"

#define LATE 10.0 /* seconds */

void dmi_ox_caller_free(struct dmi_ox_caller *caller) {
  struct dmi_ox_caller **at = &caller->server->callers;
  while (*at != caller)
    at = &(*at)->next;
  *at = caller->next;
  ev_io_stop(caller->server->loop, &caller->io);
  ev_timer_stop(caller->server->loop, &caller->late);
  if (caller->fd >= 0) close(caller->fd);
  free(caller);
}

static int take_fd(struct dmi_ox_caller *caller) {
  int fd = caller->fd;
  caller->fd = -1;
  dmi_ox_caller_free(caller);
  return fd;
}

/* The first one that waits for such a connection. */
static struct dmi_ox_caller *partner(struct dmi_ox_caller *caller, bool control) {
  struct dmi_ox_caller *other = caller->server->callers;
  while (other != NULL && (other == caller || !other->known || other->control != control ||
                           !dmi_ox_socket_same_host(other->fd, caller->fd)))
    other = other->next;
  return other;
}

/* It may begin: its byte of order is sent, and if the other one is there, a session begins. */
static void become_known(struct dmi_ox_caller *caller) {
  struct DMI_ox_server_t *server = caller->server;
  unsigned char order = server->settings.network ? 0 : 1;
  if (server->one && server->begun) { /* the password was for one session */
    dmi_ox_caller_free(caller);
    return;
  }
  caller->known = true;
  if (send(caller->fd, &order, 1, MSG_NOSIGNAL) != 1) {
    dmi_ox_caller_free(caller);
    return;
  }
  if (server->same_port) caller->control = partner(caller, true) == NULL;
  struct dmi_ox_caller *other = partner(caller, !caller->control);
  if (other == NULL) return;
  bool control = caller->control;
  int one = take_fd(caller), two = take_fd(other);
  dmi_ox_server_session(server, control ? one : two, control ? two : one);
  while (server->one && server->callers != NULL)
    dmi_ox_caller_free(server->callers);
}

/* The next bytes of the password, and not one more; every byte is compared, whatever came before.
 */
static void read_password(struct dmi_ox_caller *caller) {
  const char *password = caller->server->password;
  char bytes[256];
  size_t len = strlen(password) + 1 - caller->have;
  ssize_t got = recv(caller->fd, bytes, len < sizeof bytes ? len : sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  for (ssize_t i = 0; i < got; i++)
    caller->wrong = (password[caller->have + (size_t)i] != bytes[i]) | caller->wrong;
  if (got > 0) caller->have += (size_t)got;
  bool all = caller->have == strlen(password) + 1;
  if (got <= 0 || (all && caller->wrong))
    dmi_ox_caller_free(caller);
  else if (all)
    become_known(caller);
}

static void on_bytes(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_caller *caller = io->data;
  char byte;
  (void)events;
  if (!caller->known) {
    read_password(caller);
  } else if (recv(caller->fd, &byte, 1, MSG_PEEK) == 0) {
    dmi_ox_caller_free(caller); /* it has gone */
  } else {
    ev_io_stop(loop, io); /* the session will read it */
  }
}

static void on_late(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  dmi_ox_caller_free(timer->data);
}

void dmi_ox_caller_new(struct DMI_ox_server_t *server, int fd, bool control) {
  struct dmi_ox_caller *caller = dmi_ox_alloc(sizeof *caller), **at = &server->callers;
  caller->server = server;
  caller->fd = fd;
  caller->control = control;
  ev_io_init(&caller->io, on_bytes, fd, EV_READ);
  ev_timer_init(&caller->late, on_late, LATE, 0);
  caller->io.data = caller->late.data = caller;
  while (*at != NULL)
    at = &(*at)->next;
  *at = caller;
  ev_io_start(server->loop, &caller->io);
  ev_timer_start(server->loop, &caller->late);
  if (server->password == NULL) become_known(caller);
}
