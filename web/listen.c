/*
 * listen.c - see listen.h.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAITING 64 /* connections that the system keeps until they are accepted */
#define PLACE_LONGEST 300

/* "ADDR:PORT", "[ADDR]:PORT" or "PORT". */
static void split(char *place, const char **host, const char **service) {
  char *colon = strrchr(place, ':');
  *host = "127.0.0.1";
  *service = place;
  if (!colon) return;
  *colon = '\0';
  *service = colon + 1;
  *host = place;
  if (place[0] == '[' && colon > place + 1 && colon[-1] == ']') {
    colon[-1] = '\0';
    *host = place + 1;
  }
}

static int listen_at(const struct addrinfo *at) {
  const int on = 1;
  int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
  if (fd < 0) return -1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, WAITING) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static unsigned port_of(int fd) {
  struct sockaddr_storage addr;
  socklen_t length = sizeof(addr);
  if (getsockname(fd, (struct sockaddr *)&addr, &length) != 0) return 0;
  return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                          : ((struct sockaddr_in *)&addr)->sin_port);
}

int web_listen(const char *place, unsigned *port, const char **why) {
  const struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  const char *host, *service;
  struct addrinfo *all;
  char copy[PLACE_LONGEST];
  int result, fd = -1;
  snprintf(copy, sizeof(copy), "%s", place);
  split(copy, &host, &service);
  if (strtoul(service, NULL, 10) > UINT16_MAX) {
    *why = "a port is a number up to 65535";
    return -1;
  }
  result = getaddrinfo(host, service, &hints, &all);
  if (result != 0) {
    *why = gai_strerror(result);
    return -1;
  }
  for (const struct addrinfo *at = all; at && fd < 0; at = at->ai_next)
    fd = listen_at(at);
  if (fd < 0)
    *why = errno == EADDRINUSE
               ? "the port is in use on this machine: choose another (0: any free one)"
               : strerror(errno);
  freeaddrinfo(all);
  if (fd >= 0) *port = port_of(fd);
  return fd;
}
