/*
 * raw_tcp.h - two processes joined by one TCP connection on the loopback interface, blocking.
 *
 * What plain sockets can do here is the limit beside which DMI's figures are put, so nothing
 * clever happens: default buffer sizes, TCP_NODELAY, read and write.
 *
 * Where the two run is fixed, because it decides: waking a process on another, idle core can take
 * four times as long as everything else, and the scheduler's choice differs from run to run.  Two
 * cores are what two machines are like; on one core nothing hides what the software costs.
 */
#ifndef RAW_TCP_H
#define RAW_TCP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* cpu_set_t */
#endif

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static inline void raw_fail(const char *what) {
  perror(what);
  exit(EXIT_FAILURE);
}

static inline void raw_nodelay(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) raw_fail("TCP_NODELAY");
}

typedef enum { APART, TOGETHER } place_t; /* on two cores, or on one */

static inline cpu_set_t raw_allowed(void) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) raw_fail("sched_getaffinity");
  return allowed;
}

static inline void raw_allow(const cpu_set_t *cores) {
  if (sched_setaffinity(0, sizeof(*cores), cores) != 0) raw_fail("sched_setaffinity");
}

/* Binds the calling process to the first core it may use, or to the last. */
static inline void raw_bind(int last) {
  const cpu_set_t allowed = raw_allowed();
  cpu_set_t one;
  size_t core = last ? CPU_SETSIZE - 1 : 0;
  while (!CPU_ISSET(core, &allowed)) {
    if (last) {
      core--;
    } else {
      core++;
    }
  }
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  raw_allow(&one);
}

/* A listening socket, and its address. */
static inline int raw_listen(struct sockaddr_in *address) {
  socklen_t length = sizeof(*address);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (listener < 0 || bind(listener, (struct sockaddr *)address, sizeof(*address)) != 0 ||
      listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)address, &length) != 0) {
    raw_fail("listen on the loopback interface");
  }
  return listener;
}

static inline int raw_connect(const struct sockaddr_in *address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
    raw_fail("connect");
  }
  raw_nodelay(fd);
  return fd;
}

static inline int raw_accept(int listener) {
  const int fd = accept(listener, NULL, NULL);
  if (fd < 0) raw_fail("accept");
  raw_nodelay(fd);
  return fd;
}

/* Forks.  Both get a connected socket; the child gets *child_ptr == 0, the parent its id.  The
 * parent is then bound to the first core, the child to the last one or also to the first. */
static inline int raw_pair(pid_t *child_ptr, place_t place) {
  struct sockaddr_in address;
  const int listener = raw_listen(&address);
  *child_ptr = fork();
  if (*child_ptr < 0) raw_fail("fork");
  int fd;
  if (*child_ptr == 0) {
    raw_bind(place == APART);
    fd = raw_connect(&address);
  } else {
    raw_bind(0);
    fd = raw_accept(listener);
  }
  close(listener);
  return fd;
}

/* Reads exactly `size` bytes.  0 when the other side has closed before the first of them. */
static inline int raw_read(int fd, char *buf, size_t size) {
  size_t have = 0;
  while (have < size) {
    const ssize_t n = read(fd, buf + have, size - have);
    if (n == 0 && have == 0) return 0;
    if (n <= 0) raw_fail("read");
    have += (size_t)n;
  }
  return 1;
}

static inline void raw_write(int fd, const char *buf, size_t size) {
  size_t sent = 0;
  while (sent < size) {
    const ssize_t n = write(fd, buf + sent, size - sent);
    if (n <= 0) raw_fail("write");
    sent += (size_t)n;
  }
}

static inline void raw_end(int fd, pid_t child) {
  int status;
  close(fd);
  if (waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "the other process failed\n");
    exit(EXIT_FAILURE);
  }
}

#endif
