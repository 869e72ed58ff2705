/*
 * caller.c - connections that are not yet those of a session: their password, their byte of order,
 * and which two belong together.
 *
 * A client opens its control connection, and then its data connection, and sends its own byte of
 * order on the one and then on the other, each when it has the server's.  A control and a data
 * connection of one address that are alone belong together.  When several clients of one address
 * come at the same time only the first control connection gets its byte; so the data connection
 * that answers is of the same client, and then the next one has its turn.  With one port for both
 * that cannot be told: the second connection of an address is the data connection of the first.
 *
 * One that waits for longer than LATE seconds is closed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ox/server_int.h"
#include "ox/socket.h"

#define LATE 10.0 /* seconds */

void dmi_ox_caller_free(struct dmi_ox_caller *caller) {
  struct DMI_ox_server_t *server = caller->server;
  struct dmi_ox_caller **at = &server->callers;
  while (*at != caller)
    at = &(*at)->next;
  *at = caller->next;
  ev_io_stop(server->loop, &caller->io);
  ev_timer_stop(server->loop, &caller->late);
  if (caller->fd >= 0) close(caller->fd);
  caller->listener->callers--;
  free(caller);
  dmi_ox_server_watch(server);
}

/* Its watcher is called when more than so many bytes wait, or the other has closed. */
static void wake_above(int fd, size_t bytes) {
  int least = (int)bytes + 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

static int take_fd(struct dmi_ox_caller *caller) {
  int fd = caller->fd;
  if (caller->heard > 0) wake_above(fd, 0);
  caller->fd = -1;
  dmi_ox_caller_free(caller);
  return fd;
}

/* Of the same address: the first one that waits as such, behind `after` (NULL: of all). */
static struct dmi_ox_caller *next_of(const struct dmi_ox_caller *caller, bool control,
                                     const struct dmi_ox_caller *after) {
  struct dmi_ox_caller *other = after != NULL ? after->next : caller->server->callers;
  while (other != NULL && (!other->known || other->control != control ||
                           !dmi_ox_socket_same_host(other->fd, caller->fd)))
    other = other->next;
  return other;
}

/* Sends it the byte of order; false: it has gone, and is freed. */
static bool tell(struct dmi_ox_caller *caller) {
  unsigned char order = caller->server->settings.network ? 0 : 1;
  if (caller->told) return true;
  if (send(caller->fd, &order, 1, MSG_NOSIGNAL) == 1) return caller->told = true;
  dmi_ox_caller_free(caller);
  return false;
}

static void begin_session(struct dmi_ox_caller *control, struct dmi_ox_caller *data) {
  struct DMI_ox_server_t *server = control->server;
  int one = take_fd(control), two = take_fd(data);
  dmi_ox_server_session(server, one, two);
  while (server->one && server->callers != NULL)
    dmi_ox_caller_free(server->callers);
}

/* The data connection that belongs to this control connection; NULL: that is not known yet. */
static struct dmi_ox_caller *partner(const struct dmi_ox_caller *control) {
  struct dmi_ox_caller *data = next_of(control, false, NULL);
  bool alone = next_of(control, true, control) == NULL && data != NULL &&
               next_of(control, false, data) == NULL;
  if (alone || control->server->same_port) return data;
  while (data != NULL && !data->answers)
    data = next_of(control, false, data);
  return data;
}

static void wait_again(struct dmi_ox_caller *caller) {
  ev_timer_stop(caller->server->loop, &caller->late);
  ev_timer_set(&caller->late, LATE, 0);
  ev_timer_start(caller->server->loop, &caller->late);
}

/* True: something has changed, and it is to be called again. */
static bool match_one(struct dmi_ox_caller *control) {
  if (!control->known || !control->control || next_of(control, true, NULL) != control) return false;
  bool was_told = control->told;
  if (!tell(control)) return true;
  if (!was_told) { /* it has waited for its turn until now, and its data connection with it */
    wait_again(control);
    for (struct dmi_ox_caller *data = next_of(control, false, NULL); data != NULL;
         data = next_of(control, false, data))
      wait_again(data);
  }
  struct dmi_ox_caller *data = partner(control);
  if (data != NULL) begin_session(control, data);
  return data != NULL;
}

/* Those who have their turn are told, and those that belong together become sessions. */
static void match(struct DMI_ox_server_t *server) {
  struct dmi_ox_caller *caller = server->callers;
  while (caller != NULL)
    caller = match_one(caller) ? server->callers : caller->next;
}

/* It has said the password. */
static void become_known(struct dmi_ox_caller *caller) {
  struct DMI_ox_server_t *server = caller->server;
  if (server->one && server->begun) { /* the password was for one session */
    dmi_ox_caller_free(caller);
    return;
  }
  if (server->same_port) caller->control = next_of(caller, true, NULL) == NULL;
  caller->known = true;
  if (caller->control || tell(caller)) match(server);
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

static bool has_closed(int fd) {
  struct pollfd look = {.fd = fd, .events = POLLRDHUP};
  return poll(&look, 1, 0) == 1 && look.revents != 0;
}

/* What it says the session will read; until then only whether it has gone matters: a control
 * connection may have the turn of its host.  (Data may have ended: the session carries it out.) */
static void look_at(struct dmi_ox_caller *caller) {
  char bytes[64];
  ssize_t got = recv(caller->fd, bytes, sizeof bytes, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || (caller->control && has_closed(caller->fd))) {
    dmi_ox_caller_free(caller);
    return;
  }
  caller->answers = true;
  if ((size_t)got == sizeof bytes || (size_t)got == caller->heard)
    ev_io_stop(caller->server->loop, &caller->io); /* it need not say so much yet */
  caller->heard = (size_t)got;
  wake_above(caller->fd, caller->heard);
}

static void on_bytes(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_caller *caller = io->data;
  struct DMI_ox_server_t *server = caller->server;
  (void)loop, (void)events;
  if (!caller->known) {
    read_password(caller);
    return;
  }
  look_at(caller);
  match(server);
}

static void on_late(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct dmi_ox_caller *caller = timer->data;
  struct DMI_ox_server_t *server = caller->server;
  (void)loop, (void)events;
  dmi_ox_caller_free(caller);
  match(server);
}

void dmi_ox_caller_new(struct dmi_ox_listener *listener, int fd) {
  struct DMI_ox_server_t *server = listener->server;
  struct dmi_ox_caller *caller = dmi_ox_alloc(sizeof *caller), **at = &server->callers;
  caller->server = server;
  caller->fd = fd;
  caller->listener = listener;
  caller->control = listener->control;
  listener->callers++;
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
