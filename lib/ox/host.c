/*
 * host.c - see host.h.
 */
#include "ox/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ox/function.h"
#include "ox/host_int.h"
#include "ox/socket.h"

#define READ_BYTES ((size_t)64 << 10)
#define FLUSH 5.0  /* seconds */
#define LINGER 1.0 /* seconds: for clients that do not close what the session has ended */
#define STACK_BYTES \
  ((size_t)64 << 20) /* values are walked by recursion; only what is used is taken */

/* ---- Connections ----------------------------------------------------------------------------- */

static void free_conn(struct dmi_ox_host *host, struct dmi_ox_conn *conn) {
  struct dmi_ox_conn **at = &host->conns;
  while (*at != conn)
    at = &(*at)->next;
  *at = conn->next;
  ev_io_stop(host->loop, &conn->reads);
  ev_io_stop(host->loop, &conn->writes);
  close(conn->fd);
  dmi_ox_bytes_free(&conn->out);
  free(conn);
}

static struct dmi_ox_conn *find_conn(struct dmi_ox_host *host, uint32_t id) {
  for (struct dmi_ox_conn *conn = host->conns; conn != NULL; conn = conn->next)
    if (conn->id == id && !conn->closing) return conn;
  return NULL;
}

static size_t left(const struct dmi_ox_conn *conn) {
  return conn->out.len - conn->from;
}

/* Writes what goes; returns how much. */
static size_t write_some(struct dmi_ox_conn *conn) {
  size_t sum = 0;
  while (left(conn) > 0 && !conn->broken) {
    ssize_t sent = send(conn->fd, conn->out.at + conn->from, left(conn), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent <= 0) {
      conn->broken = true;
      break;
    }
    conn->from += (size_t)sent;
    sum += (size_t)sent;
  }
  if (left(conn) == 0) {
    dmi_ox_bytes_free(&conn->out);
    conn->from = 0;
  } else if (conn->from > READ_BYTES && conn->from >= left(conn)) {
    dmi_ox_bytes_cut(&conn->out, conn->from); /* not more often than what is left allows */
    conn->from = 0;
  }
  return sum;
}

/* Reads what there is, and drops it; of one that does not stop sending a part. */
static void drain(struct dmi_ox_conn *conn) {
  unsigned char bytes[READ_BYTES];
  ssize_t got;
  int most = 64;
  do
    got = recv(conn->fd, bytes, sizeof bytes, 0);
  while (--most > 0 && (got > 0 || (got < 0 && errno == EINTR)));
  if (got > 0) return;
  if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) conn->eof = true;
}

/* Reads what there is, once; the session hears of it. */
static void read_some(struct dmi_ox_conn *conn) {
  unsigned char bytes[READ_BYTES];
  ssize_t got = recv(conn->fd, bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got > 0) {
    dmi_ox_session_bytes(conn->host->session, conn->id, bytes, (size_t)got);
    return;
  }
  conn->eof = true;
  dmi_ox_session_eof(conn->host->session, conn->id);
}

static void on_read(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_conn *conn = io->data;
  struct dmi_ox_host *host = conn->host;
  (void)loop, (void)events;
  if (conn->drains)
    drain(conn);
  else
    read_some(conn);
  dmi_ox_host_carry(host);
}

static void on_write(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_ox_conn *conn = io->data;
  (void)loop, (void)events;
  dmi_ox_host_carry(conn->host);
}

static void add_conn(struct dmi_ox_host *host, uint32_t id, int fd) {
  struct dmi_ox_conn *conn = dmi_ox_alloc(sizeof *conn);
  conn->host = host;
  conn->id = id;
  conn->fd = fd;
  ev_io_init(&conn->reads, on_read, fd, EV_READ);
  ev_io_init(&conn->writes, on_write, fd, EV_WRITE);
  conn->reads.data = conn->writes.data = conn;
  conn->next = host->conns;
  host->conns = conn;
}

void dmi_ox_host_connected(struct dmi_ox_host *host, uint32_t id, int fd) {
  add_conn(host, id, fd);
  dmi_ox_session_linked(host->session, id);
}

/* ---- Carrying out ---------------------------------------------------------------------------- */

static void close_link(struct dmi_ox_host *host, uint32_t id) {
  struct dmi_ox_conn *conn = find_conn(host, id);
  if (conn != NULL) {
    conn->closing = true;
    dmi_ox_bytes_free(&conn->out); /* it is on no account any more */
    conn->from = 0;
  }
  for (struct dmi_ox_open *open = host->opens, *next; open != NULL; open = next) {
    next = open->next;
    if (open->id == id) dmi_ox_open_free(host, open);
  }
}

static void call(struct dmi_ox_host *host, struct dmi_ox_action *action) {
  uint32_t id = action->id;
  char why[200];
  bool good = dmi_ox_desk_call(host->desk, id, action->name, action->args, why);
  action->name = action->args = NULL;
  if (!good) dmi_ox_session_returned(host->session, id, DMI_ox_error(why));
}

static void end(struct dmi_ox_host *host) {
  host->ending = true;
  while (host->opens != NULL)
    dmi_ox_open_free(host, host->opens);
  for (struct dmi_ox_conn *conn = host->conns; conn != NULL; conn = conn->next)
    conn->closing = true;
  ev_timer_start(host->loop, &host->flush);
}

static void act(struct dmi_ox_host *host, struct dmi_ox_action *action) {
  struct dmi_ox_conn *conn;
  switch (action->act) {
    case DMI_OX_SEND:
      conn = find_conn(host, action->id);
      if (conn != NULL && !conn->broken)
        dmi_ox_bytes_put(&conn->out, action->bytes.at, action->bytes.len);
      else /* it waits for no room */
        dmi_ox_session_sent(host->session, action->id, action->bytes.len);
      break;
    case DMI_OX_ACCEPT:
    case DMI_OX_CONNECT:
      dmi_ox_open_begin(host, action);
      break;
    case DMI_OX_CLOSE:
      close_link(host, action->id);
      break;
    case DMI_OX_CALL:
      call(host, action);
      break;
    case DMI_OX_CANCEL:
      dmi_ox_desk_cancel(host->desk, action->id);
      break;
    case DMI_OX_AGAIN:
      ev_async_send(host->loop, &host->returned);
      break;
    default:
      end(host);
      break;
  }
  dmi_ox_action_free(action);
}

static void watch(struct ev_loop *loop, struct ev_io *io, bool on) {
  if (on && !ev_is_active(io)) ev_io_start(loop, io);
  if (!on && ev_is_active(io)) ev_io_stop(loop, io);
}

/* All is written. What comes in a connection that is closed while it has unread bytes makes the
 * system reset it, and the client may lose what it has not read: so it is read until the client
 * closes, too. */
static void finish_conn(struct dmi_ox_host *host, struct dmi_ox_conn *conn) {
  if (!conn->broken && !conn->eof) drain(conn);
  if (!host->ending || host->hurry || conn->broken || conn->eof) {
    free_conn(host, conn);
  } else if (!conn->drains) {
    (void)shutdown(conn->fd, SHUT_WR);
    conn->drains = true;
    for (struct dmi_ox_conn *other = host->conns; other != NULL; other = other->next)
      if (left(other) > 0) return;
    ev_timer_stop(host->loop, &host->flush);
    ev_timer_set(&host->flush, LINGER, 0);
    ev_timer_start(host->loop, &host->flush);
  }
}

/* What is to be written is written as far as it goes; true if some was. */
static bool write_all(struct dmi_ox_host *host) {
  bool some = false;
  for (struct dmi_ox_conn *conn = host->conns, *next; conn != NULL; conn = next) {
    next = conn->next;
    size_t sent = write_some(conn);
    if (conn->broken) { /* nobody waits for what is left */
      sent += left(conn);
      dmi_ox_bytes_free(&conn->out);
      conn->from = 0;
    }
    some = some || sent > 0;
    if (conn->closing) {
      if (left(conn) == 0) finish_conn(host, conn);
      continue;
    }
    if (sent > 0) dmi_ox_session_sent(host->session, conn->id, sent);
    if (conn->broken && !conn->eof) {
      conn->eof = some = true;
      dmi_ox_session_eof(host->session, conn->id);
    }
  }
  return some;
}

void dmi_ox_host_carry(struct dmi_ox_host *host) {
  struct dmi_ox_action action;
  do {
    while (dmi_ox_session_next(host->session, &action))
      act(host, &action);
  } while (write_all(host));
  for (struct dmi_ox_conn *conn = host->conns; conn != NULL; conn = conn->next) {
    watch(host->loop, &conn->writes, left(conn) > 0 && !conn->broken);
    watch(host->loop, &conn->reads,
          conn->drains ||
              (!conn->eof && !conn->closing && dmi_ox_session_wants(host->session, conn->id)));
  }
  if (host->ending && host->conns == NULL) ev_break(host->loop, EVBREAK_ALL);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Calls have returned, names were looked up, or the session goes on with a text. */
static void on_returned(struct ev_loop *loop, struct ev_async *async, int events) {
  struct dmi_ox_host *host = async->data;
  struct dmi_ox_value *value;
  uint32_t id;
  (void)loop, (void)events;
  while (dmi_ox_desk_take(host->desk, &id, &value))
    dmi_ox_session_returned(host->session, id, value);
  dmi_ox_open_looked(host);
  dmi_ox_session_again(host->session);
  dmi_ox_host_carry(host);
}

static void wake(void *arg) {
  struct dmi_ox_host *host = arg;
  ev_async_send(host->loop, &host->returned);
}

static void on_stop(struct ev_loop *loop, struct ev_async *async, int events) {
  struct dmi_ox_host *host = async->data;
  (void)loop, (void)events;
  host->hurry = true;
  dmi_ox_session_eof(host->session, DMI_OX_CONTROL);
  dmi_ox_host_carry(host);
}

static void on_flush(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)timer, (void)events;
  ev_break(loop, EVBREAK_ALL);
}

static void *run(void *arg) {
  struct dmi_ox_host *host = arg;
  dmi_ox_host_carry(host);
  ev_run(host->loop, 0);
  dmi_ox_desk_close(host->desk);
  while (host->conns != NULL)
    free_conn(host, host->conns);
  host->ended(host, host->arg);
  return NULL;
}

void dmi_ox_host_stop(struct dmi_ox_host *host) {
  ev_async_send(host->loop, &host->stop);
}

void dmi_ox_host_free(struct dmi_ox_host *host) {
  dmi_ox_session_free(host->session);
  ev_loop_destroy(host->loop);
  free(host);
}

static bool start_thread(struct dmi_ox_host *host) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK_BYTES);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  bool good = pthread_create(&thread, &attr, run, host) == 0;
  pthread_attr_destroy(&attr);
  return good;
}

struct dmi_ox_host *dmi_ox_host_start(const struct dmi_ox_settings *settings,
                                      struct dmi_ox_calls *calls, int control, int data,
                                      const struct sockaddr_storage *links, socklen_t links_len,
                                      void (*ended)(struct dmi_ox_host *host, void *arg),
                                      void *arg) {
  struct ev_loop *loop = dmi_ox_socket_spare() ? ev_loop_new(EVFLAG_AUTO) : NULL;
  if (loop == NULL) return NULL;
  struct dmi_ox_host *host = dmi_ox_alloc(sizeof *host);
  host->loop = loop;
  host->settings = *settings;
  host->session = dmi_ox_session_new(&host->settings, dmi_ox_function_known);
  host->links = *links;
  host->links_len = links_len;
  host->ended = ended;
  host->arg = arg;
  host->desk = dmi_ox_desk_new(calls, wake, host);
  ev_async_init(&host->stop, on_stop);
  ev_async_init(&host->returned, on_returned);
  ev_timer_init(&host->flush, on_flush, FLUSH, 0);
  host->stop.data = host->returned.data = host;
  ev_async_start(loop, &host->stop);
  ev_async_start(loop, &host->returned);
  add_conn(host, DMI_OX_CONTROL, control);
  add_conn(host, DMI_OX_DATA_STREAM, data);
  if (start_thread(host)) return host;
  dmi_ox_desk_close(host->desk);
  dmi_ox_session_free(host->session);
  ev_loop_destroy(loop);
  for (struct dmi_ox_conn *conn = host->conns, *next; conn != NULL; conn = next) {
    next = conn->next;
    free(conn); /* its descriptor stays the caller's */
  }
  free(host);
  return NULL;
}
