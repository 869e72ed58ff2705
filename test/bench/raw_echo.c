/*
 * raw_echo.c - round trip of 64 bytes between two processes over a TCP connection, in
 * microseconds.
 *
 *   raw_echo                 blocking, on two cores
 *   raw_echo_together        the same on one core
 *   raw_echo_calls_together  on one core, with the system calls that DMI makes there
 */
#include "raw_tcp.h" /* first: it asks for cpu_set_t */

#include <errno.h>
#include <sys/epoll.h>

#define MESSAGE 64
#define ROUND_TRIPS 2000 /* per batch */

static char message[MESSAGE];

/* ---- Blocking ---- */

static void serve(int fd) {
  while (raw_read(fd, message, MESSAGE))
    raw_write(fd, message, MESSAGE);
}

static void ask(int fd) {
  raw_write(fd, message, MESSAGE);
  if (!raw_read(fd, message, MESSAGE)) raw_fail("the other process has closed");
}

/* ---- As DMI: who waits yields the processor and looks again (docs/wire.md, "Looking before
 * sleeping"). A process that asks has a daemon, too, which sleeps on an epoll descriptor: the
 * thread that waits for an answer takes its connection out of that, so that the daemon is not
 * woken, and puts it in again. */

/* False: the other side has closed. */
static int look(int fd) {
  for (;;) {
    const ssize_t n = recv(fd, message, MESSAGE, MSG_DONTWAIT);
    if (n >= 0) return n == MESSAGE; /* messages of 64 bytes come as a whole, one at a time */
    if (errno != EAGAIN) raw_fail("recv");
    sched_yield();
  }
}

static void put(int fd) {
  if (send(fd, message, MESSAGE, MSG_DONTWAIT | MSG_NOSIGNAL) != MESSAGE) raw_fail("send");
}

static void serve_looking(int fd) {
  while (look(fd)) {
    put(fd);
    sched_yield();
  }
}

static void tell_epoll(int how, int fd, uint32_t events) {
  static int epoll = -1;
  struct epoll_event event = {.events = events};
  if (epoll < 0) epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ctl(epoll, how, fd, &event) != 0) raw_fail("epoll_ctl");
}

static void ask_looking(int fd) {
  static int added;
  if (!added) tell_epoll(EPOLL_CTL_ADD, fd, EPOLLIN);
  added = 1;
  put(fd);
  tell_epoll(EPOLL_CTL_MOD, fd, EPOLLET);
  sched_yield();
  if (!look(fd)) raw_fail("the other process has closed");
  tell_epoll(EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void measure(figure_t *figure, place_t place, void (*server)(int fd),
                    void (*client)(int fd)) {
  const cpu_set_t allowed = raw_allowed();
  pid_t child;
  const int fd = raw_pair(&child, place);
  if (child == 0) {
    server(fd);
    exit(EXIT_SUCCESS);
  }
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < ROUND_TRIPS; i++)
      client(fd);
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / 1000.0 / ROUND_TRIPS;
  }
  raw_end(fd, child);
  /* The child of the next measurement must find all cores again. */
  raw_allow(&allowed);
}

int main(void) {
  figure_t apart = {.name = "raw_echo", .unit = "us"};
  figure_t together = {.name = "raw_echo_together", .unit = "us"};
  figure_t calls = {.name = "raw_echo_calls_together", .unit = "us"};
  measure(&apart, APART, serve, ask);
  measure(&together, TOGETHER, serve, ask);
  measure(&calls, TOGETHER, serve_looking, ask_looking);
  figure_print(&apart);
  figure_print(&together);
  figure_print(&calls);
  return EXIT_SUCCESS;
}
