/*
 * net_echo.c - round trip of 64 bytes through lib/net, beside raw blocking TCP in the same run.
 *
 * Two processes, each with one raw socket thread and one daemon; batches take turns, so that all
 * variants see the same machine.  `daemon`: callbacks send the next message.  `thread`: a user
 * thread sends and sleeps on a futex until its daemon has the answer, as DMI's calls do.
 *
 * Prints the median in microseconds and its ratio to raw TCP; with `apart` on two cores, `together`
 * on one, `free` wherever the system puts them.  An argument: so many rounds.
 */
#include "raw_tcp.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "net/net.h"

#define BYTES 64
#define TRIPS 1000
#define ROUNDS 31 /* at most */

static int rounds = ROUNDS;
static unsigned char bytes[BYTES];

struct end {
  struct dmi_net *net;
  uint32_t peer;
  bool echoes;
  _Atomic uint32_t left; /* daemon variant: trips still to start */
  _Atomic uint32_t done; /* futex: answers */
};

static void *end_body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  (void)arg, (void)from, (void)class;
  return msg->body.len <= sizeof bytes ? bytes : NULL;
}

static void wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_for(_Atomic uint32_t *word, uint32_t old) {
  while (atomic_load(word) == old)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void send_one(struct end *end) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT, .body = {NULL, bytes, sizeof bytes}};
  dmi_net_send(end->net, end->peer, &msg);
  dmi_net_flush(end->net, end->peer);
}

static bool end_message(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  struct end *end = arg;
  (void)from, (void)class, (void)msg;
  uint32_t left = atomic_load_explicit(&end->left, memory_order_relaxed);
  if (end->echoes) {
    send_one(end);
  } else if (left > 1) {
    atomic_store_explicit(&end->left, left - 1, memory_order_relaxed);
    send_one(end);
  } else {
    atomic_fetch_add(&end->done, 1);
    wake(&end->done);
  }
  return true;
}

static void end_lost(void *arg, uint32_t id, const char *why) {
  (void)arg, (void)id, (void)why;
  _exit(0);
}

static void end_posted(void *arg) {
  send_one(arg);
}

static void *end_main(void *arg) {
  dmi_net_run(((struct end *)arg)->net);
  return NULL;
}

static void end_open(struct end *end, uint32_t uid, uint32_t peer) {
  static const uint8_t program[16] = "bench";
  struct dmi_net_config config = {.name = "bench"};
  struct dmi_net_handler handler = {
      .arg = end, .body = end_body, .message = end_message, .lost = end_lost, .posted = end_posted};
  const char *why;
  end->peer = peer;
  end->net = dmi_net_open(&config, &handler, &why);
  if (end->net == NULL) raw_fail(why);
  dmi_net_set_self(end->net, uid, program);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values) {
  qsort(values, (size_t)rounds, sizeof *values, compare);
  return values[rounds / 2];
}

static double raw_batch(int fd) {
  char message[BYTES] = {0};
  int64_t start = now_ns();
  for (int i = 0; i < TRIPS; i++) {
    raw_write(fd, message, BYTES);
    raw_read(fd, message, BYTES);
  }
  return (double)(now_ns() - start) / TRIPS / 1000;
}

static double daemon_batch(struct end *end) {
  uint32_t old = atomic_load(&end->done);
  int64_t start = now_ns();
  atomic_store(&end->left, TRIPS);
  dmi_net_post(end->net);
  wait_for(&end->done, old);
  return (double)(now_ns() - start) / TRIPS / 1000;
}

static double thread_batch(struct end *end) {
  int64_t start = now_ns();
  atomic_store(&end->left, 0);
  for (int i = 0; i < TRIPS; i++) {
    uint32_t old = atomic_load(&end->done);
    send_one(end);
    wait_for(&end->done, old);
  }
  return (double)(now_ns() - start) / TRIPS / 1000;
}

static void serve(int fd, int port_pipe) {
  static struct end end = {.echoes = true};
  pthread_t thread;
  end_open(&end, 2, 1);
  uint16_t port = dmi_net_port(end.net);
  if (write(port_pipe, &port, sizeof port) != sizeof port) raw_fail("pipe");
  pthread_create(&thread, NULL, end_main, &end);
  char message[BYTES];
  while (raw_read(fd, message, BYTES))
    raw_write(fd, message, BYTES);
  exit(0);
}

static void measure(const char *name, place_t place, bool bound) {
  static struct end end;
  static double raw[ROUNDS], daemon[ROUNDS], thread[ROUNDS];
  cpu_set_t allowed = raw_allowed();
  int ports[2];
  pid_t child;
  pthread_t daemon_thread;
  uint16_t port;
  if (pipe(ports) != 0) raw_fail("pipe");
  int fd = raw_pair(&child, place);
  if (!bound) raw_allow(&allowed);
  if (child == 0) serve(fd, ports[1]);
  memset(&end, 0, sizeof end);
  end_open(&end, 1, 2);
  if (read(ports[0], &port, sizeof port) != sizeof port) raw_fail("pipe");
  struct dmi_addr addr = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                          .port = port};
  dmi_net_add_peer(end.net, 2, &addr);
  pthread_create(&daemon_thread, NULL, end_main, &end);
  for (int i = -1; i < rounds; i++) {
    double r = raw_batch(fd), d = daemon_batch(&end), t = thread_batch(&end);
    if (i < 0) continue;
    raw[i] = r;
    daemon[i] = d;
    thread[i] = t;
  }
  double r = median(raw), d = median(daemon), t = median(thread);
  printf("%-9s raw %6.1f us   daemon %6.1f us = %.2f   thread %6.1f us = %.2f\n", name, r, d, d / r,
         t, t / r);
  fflush(stdout);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  dmi_net_stop(end.net);
  _exit(0);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    place_t place;
    bool bound;
  } runs[] = {{"apart", APART, true}, {"together", TOGETHER, true}, {"free", APART, false}};
  if (argc > 1) rounds = atoi(argv[1]);
  if (rounds < 1 || rounds > ROUNDS) {
    fprintf(stderr, "usage: %s [rounds, 1 to %d]\n", argv[0], ROUNDS);
    return 1;
  }
  for (int i = 0; i < 3; i++) {
    int status;
    pid_t one = fork();
    if (one == 0) measure(runs[i].name, runs[i].place, runs[i].bound);
    if (one < 0 || waitpid(one, &status, 0) != one || status != 0) return 1;
  }
  return 0;
}
