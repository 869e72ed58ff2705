/*
 * socket.c - see socket.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ox/socket.h"

#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOP_FDS 6 /* of a loop: what it waits with, and its pipe; some for others meanwhile */

bool dmi_ox_socket_split(const char *text, char host[DMI_OX_HOST_BYTES], char port[8]) {
  const char *colon = strrchr(text, ':'), *digits = colon != NULL ? colon + 1 : text;
  const char *from = text;
  size_t len = colon != NULL ? (size_t)(colon - text) : 0;
  char *end;
  if (len >= 2 && from[0] == '[' && from[len - 1] == ']') {
    from++;
    len -= 2;
  }
  if (len >= DMI_OX_HOST_BYTES || (colon != NULL && len == 0)) return false;
  if (strspn(digits, "0123456789") != strlen(digits) || *digits == '\0') return false;
  unsigned long number = strtoul(digits, &end, 10);
  if (number > 65535) return false;
  snprintf(host, DMI_OX_HOST_BYTES, "%.*s", colon != NULL ? (int)len : 9,
           colon != NULL ? from : "127.0.0.1");
  snprintf(port, 8, "%lu", number);
  return true;
}

struct addrinfo *dmi_ox_socket_resolve(const char *host, const char *port, const char **why) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  int error = getaddrinfo(host, port, &hints, &found);
  if (error == 0) return found;
  *why = gai_strerror(error);
  return NULL;
}

static int fail(int fd) {
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int dmi_ox_socket_listen(const struct sockaddr *addr, socklen_t len, int backlog) {
  int on = 1;
  int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (addr->sa_family != AF_UNIX) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, addr, len) != 0 || listen(fd, backlog) != 0) return fail(fd);
  return fd;
}

static void prepare(int fd) {
  int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on); /* a lost host is noticed */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* not of AF_UNIX */
}

int dmi_ox_socket_connect(const struct sockaddr *addr, socklen_t len) {
  int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  prepare(fd);
  if (connect(fd, addr, len) != 0 && errno != EINPROGRESS) return fail(fd);
  return fd;
}

int dmi_ox_socket_accept(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) prepare(fd);
  return fd;
}

static bool name_of(int fd, bool peer, struct sockaddr_storage *addr, socklen_t *len) {
  *len = sizeof *addr;
  memset(addr, 0, sizeof *addr);
  struct sockaddr *at = (struct sockaddr *)addr;
  return (peer ? getpeername(fd, at, len) : getsockname(fd, at, len)) == 0;
}

void dmi_ox_socket_name(int fd, bool peer, char *text, size_t size) {
  struct sockaddr_storage addr;
  socklen_t len;
  char host[DMI_OX_HOST_BYTES], port[8];
  if (!name_of(fd, peer, &addr, &len) ||
      getnameinfo((struct sockaddr *)&addr, len, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    snprintf(text, size, "?");
  else
    snprintf(text, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

bool dmi_ox_socket_same_host(int a, int b) {
  struct sockaddr_storage one, two;
  socklen_t len, len2;
  if (!name_of(a, true, &one, &len) || !name_of(b, true, &two, &len2)) return false;
  dmi_ox_socket_set_port(&one, 0);
  dmi_ox_socket_set_port(&two, 0);
  return len == len2 && memcmp(&one, &two, len) == 0;
}

bool dmi_ox_socket_is_loopback(const struct sockaddr_storage *addr) {
  return addr->ss_family == AF_INET &&
         ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool dmi_ox_socket_is_near(int fd) {
  struct sockaddr_storage here, there;
  socklen_t len, len2;
  if (!name_of(fd, false, &here, &len) || !name_of(fd, true, &there, &len2)) return false;
  if (dmi_ox_socket_is_loopback(&here)) return dmi_ox_socket_is_loopback(&there);
  dmi_ox_socket_set_port(&here, 0);
  dmi_ox_socket_set_port(&there, 0);
  return len == len2 && memcmp(&here, &there, len) == 0;
}

bool dmi_ox_socket_here(int fd, struct sockaddr_storage *addr, socklen_t *len) {
  if (!name_of(fd, false, addr, len)) return false;
  dmi_ox_socket_set_port(addr, 0);
  return true;
}

void dmi_ox_socket_set_port(struct sockaddr_storage *addr, int port) {
  if (addr->ss_family == AF_INET)
    ((struct sockaddr_in *)addr)->sin_port = htons((uint16_t)port);
  else if (addr->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)addr)->sin6_port = htons((uint16_t)port);
}

bool dmi_ox_socket_spare(void) {
  int fds[LOOP_FDS], num = 0, error;
  while (num < LOOP_FDS && (fds[num] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0)
    num++;
  error = errno;
  for (int i = 0; i < num; i++)
    close(fds[i]);
  errno = error;
  return num == LOOP_FDS;
}
