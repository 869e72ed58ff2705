/*
 * tcp.c - the transport of the product: TCP, over IPv6 and IPv4.
 *
 * A link is one socket, which is both its `in` and its `out`.
 *
 * Sockets of strangers are closed with a reset, so that the kernel keeps nothing of them. They
 * inherit this option from the listener; `keep` removes it.
 *
 * Failure modes: errors of the system are returned unchanged; the callers decide what they mean.
 *
 * Must not resolve names, except the one to listen at (join.c resolves others).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/net_int.h"
#include "net/transport.h"

#define BACKLOG 65535 /* the system limits it to net.core.somaxconn */
#define BIG_BUFFER (4 << 20)
#define KEEPALIVE_MOST 32767 /* seconds: Linux's limit of TCP_KEEPIDLE and TCP_KEEPINTVL */
#define KEEPALIVE_TIMES 127  /* Linux's limit of TCP_KEEPCNT */
#define FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

struct tcp {
  struct dmi_transport transport;
  struct sockaddr_storage from; /* the address to listen at and connect from, port 0 */
  socklen_t from_size;          /* 0: any */
  bool big_buffers;             /* the system grants BIG_BUFFER, so asking for it does no harm */
};

struct tcp_link {
  struct dmi_link link;
  const struct tcp *tcp;
  bool resets;  /* closing it sends a reset */
  double asked; /* since when an unanswered probe is seen; 0: none (daemon only) */
};

static const struct dmi_transport_ops tcp_ops;

/* ---- Options of sockets ---------------------------------------------------------------------- */

/* True if the system grants socket buffers of BIG_BUFFER bytes. */
static bool has_big_buffers(void) {
  static const char *const limits[] = {"/proc/sys/net/core/rmem_max",
                                       "/proc/sys/net/core/wmem_max"};
  for (int i = 0; i < 2; i++) {
    long value = 0;
    FILE *file = fopen(limits[i], "r");
    if (file == NULL) return false;
    if (fscanf(file, "%ld", &value) != 1) value = 0;
    fclose(file);
    if (value < BIG_BUFFER) return false;
  }
  return true;
}

static int within(int value, int most) {
  return value < 1 ? 1 : value > most ? most : value;
}

/* Keep-alive: while nothing is in flight, the system probes the other machine in the last half
 * of dead_after. */
static void keep_alive(const struct tcp *tcp, int fd) {
  int on = 1, after = (int)tcp->transport.dead_after;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (after == 0) after = KEEPALIVE_MOST;
  int times = after > 3 ? 3 : after > 1 ? after - 1 : 1;
  int pause = within(after / 6, KEEPALIVE_MOST);
  int idle = within(after - times * pause, KEEPALIVE_MOST);
  while (idle + times * pause < after && times < KEEPALIVE_TIMES)
    times++; /* only if dead_after is many hours */
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* The address of this end of a socket, or of the other end (`get` says which). */
static struct dmi_addr address(int fd, int (*get)(int, struct sockaddr *, socklen_t *)) {
  struct sockaddr_storage name = {0};
  struct dmi_addr addr = {0};
  socklen_t size = sizeof name;
  if (get(fd, (struct sockaddr *)&name, &size) == 0) dmi_addr_of_socket(&addr, &name);
  return addr;
}

static int own_name(int fd, struct sockaddr *name, socklen_t *size) {
  return getsockname(fd, name, size);
}

static int other_name(int fd, struct sockaddr *name, socklen_t *size) {
  return getpeername(fd, name, size);
}

/* Between two sockets of this machine nothing can be crowded, so who sends need not find out how
 * much it may.  BBR takes the time until the other process runs for a slow network: it sends less
 * at once, and later.  Not allowed: then as the system does it. */
static void spare_control(int fd) {
  static const char plain[] = "reno"; /* every Linux has it */
  const struct dmi_addr ours = address(fd, own_name), theirs = address(fd, other_name);
  if (memcmp(ours.ip, theirs.ip, sizeof ours.ip) != 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

static void tcp_keep(struct dmi_link *link) {
  struct tcp_link *me = (struct tcp_link *)link;
  struct linger none = {.l_onoff = 0};
  int on = 1, big = BIG_BUFFER;
  if (me->resets) setsockopt(link->in, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  me->resets = false;
  setsockopt(link->in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  keep_alive(me->tcp, link->in);
  spare_control(link->in);
  /* Setting a size ends the system's automatic tuning, so set only a size that it grants. */
  if (me->tcp->big_buffers) {
    setsockopt(link->in, SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    setsockopt(link->in, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
  }
}

/* ---- Listening ------------------------------------------------------------------------------- */

/* A listening socket at this address, or -errno. */
static int listen_at(const struct sockaddr_storage *name, socklen_t size) {
  int on = 1, off = 0;
  struct linger reset = {.l_onoff = 1}; /* for the sockets that are accepted: they inherit it */
  int fd = socket(name->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (name->ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, (const struct sockaddr *)name, size) == 0 && listen(fd, BACKLOG) == 0) return fd;
  int error = errno;
  close(fd);
  return -error;
}

static int listen_at_addr(const struct dmi_addr *at) {
  struct sockaddr_storage name;
  return listen_at(&name, dmi_addr_to_socket(at, &name));
}

/* Listens at all addresses of this machine: IPv6 and IPv4, or IPv4 only. */
static int listen_anywhere(uint16_t port) {
  struct dmi_addr any = {.port = port};
  int fd = listen_at_addr(&any);
  if (fd >= 0 || fd == -EADDRINUSE || fd == -EACCES) return fd;
  any.ip[10] = any.ip[11] = 0xff;
  return listen_at_addr(&any);
}

/* Listens at the address of --bind. */
static int listen_from(const struct tcp *tcp, uint16_t port) {
  struct sockaddr_storage name = tcp->from;
  if (name.ss_family == AF_INET)
    ((struct sockaddr_in *)&name)->sin_port = htons(port);
  else
    ((struct sockaddr_in6 *)&name)->sin6_port = htons(port);
  return listen_at(&name, tcp->from_size);
}

static int tcp_listen(struct dmi_transport *transport, const struct dmi_addr *at) {
  struct tcp *tcp = (struct tcp *)transport;
  int fd;
  /* close first: the system allows one listener for a port */
  if (transport->incoming >= 0) close(transport->incoming);
  if (!dmi_addr_is_any(at))
    fd = listen_at_addr(at);
  else if (tcp->from_size != 0)
    fd = listen_from(tcp, at->port);
  else
    fd = listen_anywhere(at->port);
  transport->incoming = fd < 0 ? -1 : fd;
  if (fd < 0) return fd;
  transport->here = address(fd, own_name);
  return 0;
}

/* ---- Links ----------------------------------------------------------------------------------- */

/* Takes over the socket; closes it if there is no memory. */
static int new_link(struct tcp *tcp, int fd, bool resets, struct dmi_link **out) {
  struct tcp_link *link = malloc(sizeof *link);
  if (link == NULL) {
    close(fd);
    return -ENOMEM;
  }
  *link = (struct tcp_link){.link = {&tcp_ops, fd, fd}, .tcp = tcp, .resets = resets};
  *out = &link->link;
  return 0;
}

static int tcp_accept(struct dmi_transport *transport, struct dmi_link **link,
                      struct dmi_addr *from) {
  struct sockaddr_storage name = {0};
  socklen_t size = sizeof name;
  int fd =
      accept4(transport->incoming, (struct sockaddr *)&name, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return -errno;
  dmi_addr_of_socket(from, &name);
  return new_link((struct tcp *)transport, fd, true, link);
}

/* Begins to connect. Returns 0 or -errno. */
static int begin_to_connect(const struct tcp *tcp, int fd, const struct sockaddr_storage *to,
                            socklen_t size) {
  if (tcp->from_size != 0 && tcp->from.ss_family != to->ss_family) return -EAFNOSUPPORT;
  if (tcp->from_size != 0 && bind(fd, (const struct sockaddr *)&tcp->from, tcp->from_size) < 0) {
    return -errno;
  }
  if (connect(fd, (const struct sockaddr *)to, size) < 0 && errno != EINPROGRESS) return -errno;
  return 0;
}

static int tcp_connect(struct dmi_transport *transport, struct dmi_link **link,
                       const struct dmi_addr *to) {
  struct tcp *tcp = (struct tcp *)transport;
  struct sockaddr_storage name;
  socklen_t size = dmi_addr_to_socket(to, &name);
  int fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  keep_alive(tcp, fd); /* also while it is connecting: a process may answer late */
  int error = begin_to_connect(tcp, fd, &name, size);
  if (error == 0) return new_link(tcp, fd, false, link);
  close(fd);
  return error;
}

static int tcp_connected(struct dmi_link *link) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(link->out, SOL_SOCKET, SO_ERROR, &error, &size);
  return -error;
}

/* The C library's send and recv are cancellation points: a thread that ended there would leave the
 * connection to nobody. And to be one costs 45 instructions each time. (The thread sanitizer knows
 * only these.) */
#ifdef __SANITIZE_THREAD__
#define SEND(fd, bytes, size) send(fd, bytes, size, FLAGS)
#define SEND_PARTS(fd, parts) sendmsg(fd, parts, FLAGS)
#define RECEIVE_PARTS(fd, parts) recvmsg(fd, parts, MSG_DONTWAIT)
#define RECEIVE(fd, bytes, size) recv(fd, bytes, size, MSG_DONTWAIT)
#else
#define SEND(fd, bytes, size) syscall(SYS_sendto, fd, bytes, size, FLAGS, NULL, 0)
#define SEND_PARTS(fd, parts) syscall(SYS_sendmsg, fd, parts, FLAGS)
#define RECEIVE_PARTS(fd, parts) syscall(SYS_recvmsg, fd, parts, MSG_DONTWAIT)
#define RECEIVE(fd, bytes, size) syscall(SYS_recvfrom, fd, bytes, size, MSG_DONTWAIT, NULL, NULL)
#endif

static ssize_t tcp_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct msghdr out = {.msg_iov = iov, .msg_iovlen = num};
  ssize_t size = num == 1 ? SEND(link->out, iov->iov_base, iov->iov_len)
                          : SEND_PARTS(link->out, &out);
  return size < 0 ? -errno : size;
}

static ssize_t tcp_receive(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct msghdr in = {.msg_iov = iov, .msg_iovlen = num};
  ssize_t size = num == 1 ? RECEIVE(link->in, iov->iov_base, iov->iov_len)
                          : RECEIVE_PARTS(link->in, &in);
  return size < 0 ? -errno : size;
}

/* The system shows less than that when it cannot hold more. */
static void tcp_await(struct dmi_link *link, size_t bytes) {
  const int least = (int)bytes;
  setsockopt(link->in, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

static void tcp_finish(struct dmi_link *link) {
  shutdown(link->out, SHUT_WR);
}

static void tcp_close(struct dmi_link *link) {
  close(link->in);
  free(link);
}

static void tcp_ends(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs) {
  *ours = address(link->in, own_name);
  *theirs = address(link->in, other_name);
}

/* ---- The other machine ----------------------------------------------------------------------- */

static uint64_t tcp_unacknowledged(struct dmi_link *link) {
  int waiting = 0;
  return ioctl(link->out, SIOCOUTQ, &waiting) == 0 && waiting > 0 ? (uint64_t)waiting : 0;
}

/* True if data or a probe is in flight that the other machine has not answered yet.  Unacknowledged
 * data alone does not show that: a machine whose buffers are full answers each probe without taking
 * the data.  Probes are sent in growing intervals, so the last answer may be much older than the
 * last probe. */
static bool is_asked(const struct tcp_info *info) {
  return info->tcpi_probes != 0 ||
         (info->tcpi_unacked != 0 && info->tcpi_last_ack_recv > info->tcpi_last_data_sent);
}

static double tcp_silence(struct dmi_link *link) {
  struct tcp_link *me = (struct tcp_link *)link;
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  double now = dmi_net_now(), heard;
  if (getsockopt(link->out, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || !is_asked(&info)) {
    return me->asked = 0;
  }
  uint32_t ms = info.tcpi_last_ack_recv;
  if (info.tcpi_last_data_recv < ms) ms = info.tcpi_last_data_recv;
  heard = now - ms / 1000.0;
  if (me->asked <= heard) me->asked = now; /* this probe is seen for the first time */
  return now - me->asked;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void tcp_free(struct dmi_transport *transport) {
  if (transport->incoming >= 0) close(transport->incoming);
  free(transport);
}

static const struct dmi_transport_ops tcp_ops = {
    .name = "TCP",
    .listen = tcp_listen,
    .accept = tcp_accept,
    .connect = tcp_connect,
    .free = tcp_free,
    .connected = tcp_connected,
    .send = tcp_send,
    .receive = tcp_receive,
    .keep = tcp_keep,
    .await = tcp_await,
    .finish = tcp_finish,
    .close = tcp_close,
    .ends = tcp_ends,
    .unacknowledged = tcp_unacknowledged,
    .silence = tcp_silence,
};

/* Finds the address of a name. False: *why says why not. */
static bool resolve(struct tcp *tcp, const char *bind, const char **why) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int error = getaddrinfo(bind, NULL, &want, &found);
  if (error != 0) {
    *why = gai_strerror(error);
    return false;
  }
  memcpy(&tcp->from, found->ai_addr, found->ai_addrlen);
  tcp->from_size = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

struct dmi_transport *dmi_tcp_open(const char *bind, const char **why) {
  struct tcp *tcp = calloc(1, sizeof *tcp);
  *why = NULL;
  if (tcp == NULL) return NULL;
  if (bind != NULL && !resolve(tcp, bind, why)) {
    free(tcp);
    return NULL;
  }
  tcp->transport.ops = &tcp_ops;
  tcp->transport.incoming = -1;
  tcp->big_buffers = has_big_buffers();
  return &tcp->transport;
}
