/*
 * server.c - a server for OpenXM clients: where it listens, and its sessions.  See dmi_ox.h.
 *
 * Its thread accepts connections (caller.c). Each session has a thread of its own (host.h), so
 * that a long computation of one does not keep the others waiting.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ox/server_int.h"
#include "ox/socket.h"

#define TRIES 10  /* to reach a client that is to be connected to, 100 ms apart */
#define AGAIN 0.2 /* seconds */

/* ---- Sessions -------------------------------------------------------------------------------- */

static void stop_listening(struct DMI_ox_server_t *server) {
  for (int i = 0; i < 2; i++) {
    struct dmi_ox_listener *listener = &server->listeners[i];
    if (listener->fd < 0) continue;
    ev_io_stop(server->loop, &listener->io);
    close(listener->fd);
    listener->fd = -1;
  }
}

/* Callers are bounded, too: with two ports for each, so that those of the one leave room for those
 * of the other. */
static bool has_room(const struct dmi_ox_listener *listener) {
  int64_t each = (int64_t)listener->server->most + 8;
  return listener->callers < (listener->server->same_port ? 2 * each : each);
}

void dmi_ox_server_watch(struct DMI_ox_server_t *server) {
  pthread_mutex_lock(&server->lock);
  bool on = server->sessions < server->most && !server->stopping;
  if (server->one && server->begun) stop_listening(server);
  pthread_mutex_unlock(&server->lock);
  on = on && !ev_is_active(&server->again);
  for (int i = 0; i < 2; i++) {
    struct dmi_ox_listener *listener = &server->listeners[i];
    if (listener->fd < 0) continue;
    bool takes = on && has_room(listener);
    if (takes && !ev_is_active(&listener->io)) ev_io_start(server->loop, &listener->io);
    if (!takes && ev_is_active(&listener->io)) ev_io_stop(server->loop, &listener->io);
  }
}

/* In the thread of the session. */
static void on_ended(struct dmi_ox_host *host, void *arg) {
  struct dmi_ox_running *running = arg, **at;
  struct DMI_ox_server_t *server = running->server;
  pthread_mutex_lock(&server->lock);
  at = &server->running;
  while (*at != running)
    at = &(*at)->next;
  *at = running->next;
  server->sessions--;
  free(running);
  dmi_ox_host_free(host);
  ev_async_send(server->loop, &server->changed);
  pthread_mutex_unlock(&server->lock);
}

void dmi_ox_server_session(struct DMI_ox_server_t *server, int control, int data) {
  struct dmi_ox_running *running = dmi_ox_alloc(sizeof *running);
  running->server = server;
  pthread_mutex_lock(&server->lock);
  if (server->stopping) { /* those that were there have been told */
    pthread_mutex_unlock(&server->lock);
    free(running);
    close(control);
    close(data);
    return;
  }
  running->next = server->running;
  server->running = running;
  server->sessions++;
  server->begun = true;
  running->host = dmi_ox_host_start(&server->settings, server->calls, control, data, &server->links,
                                    server->links_len, on_ended, running);
  if (running->host == NULL) {
    server->running = running->next;
    server->sessions--;
    free(running);
    close(control);
    close(data);
    ev_async_send(server->loop, &server->changed);
  }
  pthread_mutex_unlock(&server->lock);
  dmi_ox_server_watch(server);
}

/* A session has ended, or the server is to end. */
static void on_changed(struct ev_loop *loop, struct ev_async *async, int events) {
  struct DMI_ox_server_t *server = async->data;
  (void)events;
  pthread_mutex_lock(&server->lock);
  bool over = server->sessions == 0 && (server->stopping || (server->one && server->begun));
  pthread_mutex_unlock(&server->lock);
  if (over)
    ev_break(loop, EVBREAK_ALL);
  else
    dmi_ox_server_watch(server);
}

static void on_stop(struct ev_loop *loop, struct ev_async *async, int events) {
  struct DMI_ox_server_t *server = async->data;
  pthread_mutex_lock(&server->lock);
  server->stopping = true;
  for (struct dmi_ox_running *at = server->running; at != NULL; at = at->next)
    dmi_ox_host_stop(at->host);
  pthread_mutex_unlock(&server->lock);
  on_changed(loop, async, events);
}

/* ---- Listening ------------------------------------------------------------------------------- */

/* Takes a connection; false: there is none, or it cannot. */
static bool take(struct dmi_ox_listener *listener) {
  errno = 0;
  if (!has_room(listener)) return false;
  int fd = dmi_ox_socket_accept(listener->fd);
  if (fd >= 0) dmi_ox_caller_new(listener, fd);
  if (fd >= 0) dmi_ox_server_watch(listener->server);
  return fd >= 0;
}

static void on_call(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_listener *listener = io->data;
  struct DMI_ox_server_t *server = listener->server;
  (void)events;
  /* A client's control connection has come before its data connection. */
  while (!listener->control && !server->one && take(&server->listeners[0]))
    continue;
  if (listener->fd >= 0 && take(listener)) return;
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    ev_timer_set(&server->again, AGAIN, 0);
    ev_timer_start(loop, &server->again);
    dmi_ox_server_watch(server);
  }
}

static void on_again(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  dmi_ox_server_watch(timer->data);
}

static void *run(void *arg) {
  struct DMI_ox_server_t *server = arg;
  dmi_ox_server_watch(server);
  ev_run(server->loop, 0);
  while (server->callers != NULL)
    dmi_ox_caller_free(server->callers);
  stop_listening(server);
  pthread_mutex_lock(&server->lock);
  server->ended = true;
  pthread_cond_broadcast(&server->over);
  pthread_mutex_unlock(&server->lock);
  return NULL;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static bool refuse(char *why, int64_t size, const char *what, const char *reason) {
  snprintf(why, size > 0 ? (size_t)size : 0, "%s: %s", what, reason);
  return false;
}

/* All addresses of [ADDR:]PORT; for `host` other than NULL that one in place of ADDR. */
static struct addrinfo *resolve(const char *text, const char *other, char *why, int64_t size) {
  char host[DMI_OX_HOST_BYTES], port[8];
  const char *reason = "";
  if (!dmi_ox_socket_split(text, host, port)) {
    refuse(why, size, text, "is not [ADDR:]PORT");
    return NULL;
  }
  struct addrinfo *all = dmi_ox_socket_resolve(other != NULL ? other : host, port, &reason);
  if (all == NULL) refuse(why, size, text, reason);
  return all;
}

static bool listen_at(struct DMI_ox_server_t *server, bool control, const char *text, char *why,
                      int64_t size) {
  struct dmi_ox_listener *listener = &server->listeners[control ? 0 : 1];
  struct addrinfo *all = resolve(text, NULL, why, size);
  if (all == NULL) return false;
  listener->fd = dmi_ox_socket_listen(all->ai_addr, all->ai_addrlen, SOMAXCONN);
  int error = errno;
  freeaddrinfo(all);
  if (listener->fd < 0) return refuse(why, size, text, strerror(error));
  listener->server = server;
  listener->control = control;
  ev_io_init(&listener->io, on_call, listener->fd, EV_READ);
  listener->io.data = listener;
  return true;
}

/* Two ports 0 are two ports. */
static bool is_same_port(const char *a, const char *b) {
  char host_a[DMI_OX_HOST_BYTES], port_a[8], host_b[DMI_OX_HOST_BYTES], port_b[8];
  return dmi_ox_socket_split(a, host_a, port_a) && dmi_ox_socket_split(b, host_b, port_b) &&
         strcmp(host_a, host_b) == 0 && strcmp(port_a, port_b) == 0 && strcmp(port_a, "0") != 0;
}

static bool listen_both(struct DMI_ox_server_t *server, const DMI_ox_options_t *options, char *why,
                        int64_t size) {
  server->same_port = options->data == NULL || is_same_port(options->control, options->data);
  if (!listen_at(server, true, options->control, why, size)) return false;
  if (!server->same_port && !listen_at(server, false, options->data, why, size)) return false;
  int data = server->listeners[server->same_port ? 0 : 1].fd;
  dmi_ox_socket_here(data, &server->links, &server->links_len);
  if (options->listens != NULL) {
    char a[280], b[280];
    dmi_ox_socket_name(server->listeners[0].fd, false, a, sizeof a);
    dmi_ox_socket_name(data, false, b, sizeof b);
    options->listens(a, b, options->arg);
  }
  return true;
}

/* Connects, waiting; -1 and errno. */
static int connect_now(struct addrinfo *all) {
  for (int i = 0; i < TRIES; i++) {
    for (struct addrinfo *at = all; at != NULL; at = at->ai_next) {
      int fd = dmi_ox_socket_connect(at->ai_addr, at->ai_addrlen), error = errno;
      if (fd < 0) continue;
      struct pollfd waits = {.fd = fd, .events = POLLOUT};
      socklen_t len = sizeof error;
      if (poll(&waits, 1, -1) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
          error == 0)
        return fd;
      close(fd);
      errno = error;
    }
    int error = errno;
    (void)poll(NULL, 0, 100);
    errno = error;
  }
  return -1;
}

static int connect_to(struct DMI_ox_server_t *server, const char *host, const char *text, char *why,
                      int64_t size) {
  struct addrinfo *all = resolve(text, host, why, size);
  if (all == NULL) return -1;
  int fd = connect_now(all), error = errno;
  freeaddrinfo(all);
  if (fd < 0) {
    refuse(why, size, host, strerror(error));
    return -1;
  }
  unsigned char order = server->settings.network ? 0 : 1;
  const char *password = server->password;
  size_t len = password != NULL ? strlen(password) + 1 : 0;
  if ((len > 0 && send(fd, password, len, MSG_NOSIGNAL) != (ssize_t)len) ||
      send(fd, &order, 1, MSG_NOSIGNAL) != 1) {
    refuse(why, size, host, "the client has closed the connection");
    close(fd);
    return -1;
  }
  return fd;
}

/* As kxx's -reverse: control first, then data, each with the password. */
static bool connect_both(struct DMI_ox_server_t *server, const DMI_ox_options_t *options, char *why,
                         int64_t size) {
  const char *data_port = options->data != NULL ? options->data : options->control;
  int control = connect_to(server, options->reverse, options->control, why, size);
  int data = control < 0 ? -1 : connect_to(server, options->reverse, data_port, why, size);
  if (data < 0) {
    if (control >= 0) close(control);
    return false;
  }
  dmi_ox_socket_here(data, &server->links, &server->links_len);
  dmi_ox_server_session(server, control, data);
  return true;
}

static bool settings_of(struct DMI_ox_server_t *server, const DMI_ox_options_t *options, char *why,
                        int64_t size) {
  struct dmi_ox_settings *settings = &server->settings;
  if (options->password != NULL && *options->password == '\0')
    return refuse(why, size, "password", "is empty");
  const char *status = options->status != NULL ? options->status : "auto";
  const char *order = options->order != NULL ? options->order : "little";
  if (options->control == NULL) return refuse(why, size, "control", "no port is given");
  if (options->max_message < 0 || options->max_stack < 0 || options->max_depth < 0 ||
      options->max_depth > DMI_OX_DEPTH_MAX || options->max_sessions < 0 || options->max_calls < 0)
    return refuse(why, size, "limits", "out of range");
  settings->limits = (struct dmi_ox_limits){
      .message = options->max_message > 0 ? (uint64_t)options->max_message : 256 << 20,
      .stack = options->max_stack > 0 ? (uint64_t)options->max_stack : 1 << 30,
      .queue = 1 << 20,
      .depth = options->max_depth > 0 ? options->max_depth : 1000};
  if (strcmp(status, "rfc") == 0)
    settings->status = DMI_OX_STATUS_RFC;
  else if (strcmp(status, "asir") == 0)
    settings->status = DMI_OX_STATUS_ASIR;
  else if (strcmp(status, "auto") != 0)
    return refuse(why, size, status, "is not auto, rfc or asir");
  if (strcmp(order, "little") != 0 && strcmp(order, "network") != 0)
    return refuse(why, size, order, "is not little or network");
  settings->network = strcmp(order, "network") == 0;
  settings->order_sent = true;
  server->most = options->max_sessions > 0 ? options->max_sessions : 64;
  server->calls =
      dmi_ox_calls_new(options->max_calls > 0 ? options->max_calls : 1024, settings->limits.stack,
                       &(struct dmi_ox_around){options->begins, options->ends, options->arg});
  server->one = options->reverse != NULL || options->password != NULL;
  if (options->password != NULL) server->password = strdup(options->password);
  return true;
}

static void free_server(struct DMI_ox_server_t *server) {
  for (int i = 0; i < 2; i++)
    if (server->listeners[i].fd >= 0) close(server->listeners[i].fd);
  if (server->calls != NULL) dmi_ox_calls_free(server->calls); /* waits for them */
  ev_loop_destroy(server->loop);
  pthread_mutex_destroy(&server->lock);
  pthread_cond_destroy(&server->over);
  free(server->password);
  free(server);
}

int32_t DMI_ox_start(DMI_ox_server_t **server_ptr, const DMI_ox_options_t *options, char *why,
                     int64_t size) {
  /* Not epoll: its kernel object would still know a descriptor that a session's thread has taken.
   */
  if (!dmi_ox_socket_spare()) return refuse(why, size, "server", strerror(errno));
  struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
  if (loop == NULL) return refuse(why, size, "libev", "no loop");
  struct DMI_ox_server_t *server = dmi_ox_alloc(sizeof *server);
  server->loop = loop;
  server->listeners[0].fd = server->listeners[1].fd = -1;
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->over, NULL);
  ev_async_init(&server->stop, on_stop);
  ev_async_init(&server->changed, on_changed);
  ev_timer_init(&server->again, on_again, AGAIN, 0);
  server->stop.data = server->changed.data = server->again.data = server;
  ev_async_start(loop, &server->stop);
  ev_async_start(loop, &server->changed);
  bool good = settings_of(server, options, why, size) &&
              (options->reverse != NULL ? connect_both(server, options, why, size)
                                        : listen_both(server, options, why, size));
  if (good && pthread_create(&server->thread, NULL, run, server) != 0) {
    good = refuse(why, size, "server", "there is no thread");
    /* A session of it cannot be ended without a loop; the process is about to give up. */
    if (server->begun) return DMI_FALSE;
  }
  if (!good) {
    free_server(server);
    return DMI_FALSE;
  }
  *server_ptr = server;
  return DMI_TRUE;
}

void DMI_ox_wait(DMI_ox_server_t *server) {
  pthread_mutex_lock(&server->lock);
  while (!server->ended)
    pthread_cond_wait(&server->over, &server->lock);
  pthread_mutex_unlock(&server->lock);
}

void DMI_ox_stop(DMI_ox_server_t *server) {
  ev_async_send(server->loop, &server->stop);
}

void DMI_ox_free(DMI_ox_server_t *server) {
  pthread_join(server->thread, NULL);
  free_server(server);
}
