/*
 * raw_barrier.c - the least that a barrier of two processes costs over a TCP connection, in
 * microseconds: messages of 80 bytes, and who waits yields the processor and looks again.
 *
 *   raw_barrier           each tells the other one, and waits for its message
 *   raw_barrier_answered  one tells the other one, which answers when it has come, too: as DMI does
 *   raw_barrier_daemon    as raw_barrier, but one of the two has its messages received by another
 *                         thread, as the owner of DMI's barrier has
 *
 * Each on two cores, and (_together) on one.
 */
#include "raw_tcp.h" /* first: it asks for cpu_set_t */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define MESSAGE 80  /* bytes: DMI_WIRE_HEADER */
#define ROUNDS 2000 /* per batch */

struct side {
  int fd;
  bool daemon; /* another thread receives */
  /* messages received by it; -1: the other side has closed */
  _Atomic int64_t received;
  int64_t expected;
};

static void tell(const struct side *side) {
  static const char message[MESSAGE];
  if (send(side->fd, message, MESSAGE, MSG_DONTWAIT | MSG_NOSIGNAL) != MESSAGE) raw_fail("send");
}

/* Receives what comes next.  False: the other side has closed. */
static bool receive(int fd) {
  char message[MESSAGE];
  for (;;) {
    const ssize_t n = recv(fd, message, MESSAGE, MSG_DONTWAIT);
    if (n >= 0) return n == MESSAGE; /* comes as a whole, one at a time */
    if (errno != EAGAIN) raw_fail("recv");
    sched_yield();
  }
}

static void *receive_all(void *arg) {
  struct side *side = arg;
  while (receive(side->fd))
    atomic_fetch_add(&side->received, 1);
  atomic_store(&side->received, -1);
  return NULL;
}

/* False: the other side has closed. */
static bool await(struct side *side) {
  int64_t received;
  if (!side->daemon) return receive(side->fd);
  side->expected++;
  while ((received = atomic_load(&side->received)) >= 0 && received < side->expected)
    sched_yield();
  return received >= 0;
}

/* ---- Barriers: what the first and the second process do in a round ---- */

static bool tells_first(struct side *side) {
  tell(side);
  return await(side);
}

static bool answers(struct side *side) {
  if (!await(side)) return false;
  tell(side);
  return true;
}

/* ---- Measuring ---- */

static void measure(const char *name, place_t place, bool daemon, bool (*first)(struct side *),
                    bool (*second)(struct side *)) {
  const cpu_set_t allowed = raw_allowed();
  figure_t figure = {.unit = "us"};
  struct side side = {.daemon = daemon};
  pthread_t thread;
  pid_t child;
  side.fd = raw_pair(&child, place);
  if (child == 0) {
    side.daemon = false;
    while (second(&side))
      ;
    exit(EXIT_SUCCESS);
  }
  if (daemon && pthread_create(&thread, NULL, receive_all, &side) != 0) raw_fail("pthread_create");
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
      if (!first(&side)) raw_fail("the other process has closed");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure.values[batch] = (double)ns / 1000.0 / ROUNDS;
  }
  shutdown(side.fd, SHUT_WR); /* the second process ends; what it has sent is received before */
  if (daemon) {
    pthread_join(thread, NULL);
  } else {
    while (receive(side.fd))
      ;
  }
  raw_end(side.fd, child);
  /* The child of the next measurement must find all cores again. */
  raw_allow(&allowed);
  snprintf(figure.name, sizeof(figure.name), "%s%s", name, place == TOGETHER ? "_together" : "");
  figure_print(&figure);
}

int main(void) {
  for (place_t place = APART; place <= TOGETHER; place++) {
    measure("raw_barrier", place, false, tells_first, tells_first);
    measure("raw_barrier_answered", place, false, tells_first, answers);
    measure("raw_barrier_daemon", place, true, tells_first, tells_first);
  }
  return EXIT_SUCCESS;
}
