/*
 * shm_test.c - links in shared memory: who gets one, what sleeping and waking need, and what a
 * process that is killed, or that writes anything into the memory, can do to the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/common.h"
#include "net/ring.h"
#include "net/shm.h"
#include "net/transport.h"

/* Made anew for each run: what is derived from them is seen by all on this host. */
static struct dmi_proof_keys caller_keys, answerer_keys;

static int limit_ms(void) {
  const char *slow = getenv("DMI_TEST_SLOW");
  int factor = slow != NULL ? atoi(slow) : 1;
  return 60000 * (factor > 0 ? factor : 1);
}

/* True if the descriptor is ready in time. */
static bool is_ready(int fd, short events, int ms) {
  struct pollfd one = {.fd = fd, .events = events};
  return poll(&one, 1, ms) == 1 && (one.revents & events) != 0;
}

static void must_be_ready(int fd, short events) {
  assert_true(is_ready(fd, events, limit_ms()));
}

/* ---- Two ends -------------------------------------------------------------------------------- */

static struct dmi_transport *tcp;

/* A TCP connection of this process with itself. */
static void connect_two(struct dmi_link *two[2]) {
  struct dmi_addr from, to = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
  to.port = tcp->here.port;
  assert_int_equal(tcp->ops->connect(tcp, &two[0], &to), 0);
  must_be_ready(two[0]->out, POLLOUT);
  must_be_ready(tcp->incoming, POLLIN);
  assert_int_equal(tcp->ops->accept(tcp, &two[1], &from), 0);
}

static void close_two(struct dmi_link *two[2]) {
  dmi_link_close(two[0]);
  dmi_link_close(two[1]);
}

static struct dmi_link *open_offered(struct dmi_shm_offer *offer, struct dmi_link *below) {
  int common;
  struct dmi_link *link = dmi_shm_open(offer, below, &caller_keys, &common);
  if (common >= 0) close(common);
  return link;
}

/* Two ends of a link; the first one has connected. */
static void open_two(struct dmi_link *two[2]) {
  struct dmi_link *below[2];
  struct dmi_shm_offer offer;
  connect_two(below);
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  two[1] = dmi_shm_take(below[1], &answerer_keys, -1);
  assert_non_null(two[1]);
  two[0] = open_offered(&offer, below[0]);
  assert_non_null(two[0]);
  close_two(below);
}

/* The memory of a link: what follows the public part. */
static struct dmi_ring *rings_of(struct dmi_link *link) {
  return *(struct dmi_ring **)(link + 1);
}

static void test_both_ways(void **state) {
  (void)state;
  struct dmi_link *two[2];
  char some[8];
  open_two(two);
  for (int i = 0; i < 2; i++) {
    struct dmi_link *from = two[i], *to = two[1 - i];
    assert_int_equal(dmi_link_receive(to, some, sizeof some), -EAGAIN);
    assert_int_equal(dmi_link_send(from, "hello", 5), 5);
    assert_int_equal(dmi_link_receive(to, some, 2), 2);
    assert_int_equal(dmi_link_receive(to, some + 2, 6), 3);
    assert_memory_equal(some, "hello", 5);
  }
  struct dmi_addr ours[2], theirs[2];
  for (int i = 0; i < 2; i++)
    two[i]->ops->ends(two[i], &ours[i], &theirs[i]);
  assert_memory_equal(&ours[0], &theirs[1], sizeof *ours);
  assert_memory_equal(&ours[1], &theirs[0], sizeof *ours);
  assert_int_equal(ours[1].port, tcp->here.port);
  close_two(two);
}

/* Receives until there is another result than "not now", sleeping as a daemon does. */
static ssize_t receive_slept(struct dmi_link *link, void *bytes, size_t size) {
  for (;;) {
    ssize_t got = dmi_link_receive(link, bytes, size);
    if (!dmi_link_is_later(got)) return got;
    if (dmi_link_arm(link)) must_be_ready(link->in, POLLIN);
  }
}

static ssize_t send_slept(struct dmi_link *link, const void *bytes, size_t size) {
  for (;;) {
    ssize_t sent = dmi_link_send(link, bytes, size);
    if (!dmi_link_is_later(sent)) return sent;
    must_be_ready(link->out, POLLOUT);
  }
}

static void test_end(void **state) {
  (void)state;
  struct dmi_link *two[2];
  char some[8];
  for (int early = 0; early < 2; early++) {
    open_two(two);
    if (early) assert_true(dmi_link_arm(two[1]));
    assert_int_equal(dmi_link_send(two[0], "last", 4), 4);
    two[0]->ops->finish(two[0]);
    assert_int_equal(dmi_link_send(two[0], "x", 1), -EPIPE);
    assert_int_equal(receive_slept(two[1], some, sizeof some), 4);
    assert_int_equal(receive_slept(two[1], some, sizeof some), 0);
    assert_int_equal(receive_slept(two[1], some, sizeof some), 0);
    assert_int_equal(dmi_link_send(two[1], "more", 4), 4); /* the other direction goes on */
    assert_int_equal(receive_slept(two[0], some, sizeof some), 4);
    assert_true(dmi_link_arm(two[0]));
    dmi_link_close(two[1]);
    must_be_ready(two[0]->in, POLLIN);
    assert_int_equal(receive_slept(two[0], some, sizeof some), 0);
    dmi_link_close(two[0]);
  }
}

/* Sending to nobody fails, at the latest when the ring is full. */
static void test_send_to_nobody(void **state) {
  (void)state;
  struct dmi_link *two[2];
  static char some[1 << 16];
  ssize_t sent;
  open_two(two);
  dmi_link_close(two[1]);
  while ((sent = send_slept(two[0], some, sizeof some)) > 0)
    continue;
  assert_int_equal(sent, -EPIPE);
  dmi_link_close(two[0]);
}

/* `out` is not writable while the ring is full, and is when half of it is free. */
static void test_full(void **state) {
  (void)state;
  struct dmi_link *two[2];
  static char some[1 << 15];
  open_two(two);
  for (int round = 0; round < 3; round++) {
    size_t had = 0, got = 0;
    ssize_t size;
    while ((size = dmi_link_send(two[0], some, sizeof some)) > 0)
      had += (size_t)size;
    assert_int_equal(size, -EAGAIN);
    assert_false(is_ready(two[0]->out, POLLOUT, 0));
    while (got < had / 2) {
      size = dmi_link_receive(two[1], some, sizeof some);
      assert_true(size > 0);
      got += (size_t)size;
    }
    assert_true(is_ready(two[0]->out, POLLOUT, 0));
    while ((size = dmi_link_receive(two[1], some, sizeof some)) > 0)
      got += (size_t)size;
    assert_int_equal(got, had);
    assert_true(dmi_link_arm(two[1]));
    /* what filled the socket up is gone, and wakes nobody */
    assert_false(is_ready(two[1]->in, POLLIN, 0));
  }
  close_two(two);
}

/* `in` shows what comes after `arm`; before, `arm` says so. */
static void test_arm(void **state) {
  (void)state;
  struct dmi_link *two[2];
  char some[8];
  open_two(two);
  for (int i = 0; i < 100; i++) {
    assert_true(dmi_link_arm(two[1]));
    assert_false(is_ready(two[1]->in, POLLIN, 0));
    assert_int_equal(dmi_link_send(two[0], "ab", 2), 2);
    assert_true(is_ready(two[1]->in, POLLIN, 0));
    assert_int_equal(dmi_link_receive(two[1], some, 1), 1);
    assert_false(dmi_link_arm(two[1]));
    assert_int_equal(dmi_link_receive(two[1], some, 8), 1);
    assert_int_equal(dmi_link_receive(two[1], some, 8), -EAGAIN);
  }
  close_two(two);
}

/* ---- Two threads ----------------------------------------------------------------------------- */

#define TOTAL (4u << 20)

static unsigned char byte_at(size_t n) {
  return (unsigned char)(n * 31 + n / 251);
}

/* Sizes between 1 and `most`, now small and now large. */
static size_t next_size(uint64_t *number, size_t most) {
  *number ^= *number << 13;
  *number ^= *number >> 7;
  *number ^= *number << 17;
  size_t some = *number % 4 == 0 ? most : 100;
  return 1 + (size_t)(*number >> 20) % some;
}

static void *sends_all(void *arg) {
  static unsigned char bytes[100000];
  struct dmi_link *link = arg;
  uint64_t number = 1234567;
  for (size_t done = 0; done < TOTAL;) {
    size_t size = next_size(&number, sizeof bytes);
    if (size > TOTAL - done) size = TOTAL - done;
    for (size_t i = 0; i < size; i++)
      bytes[i] = byte_at(done + i);
    for (size_t had = 0; had < size;) {
      ssize_t sent = send_slept(link, bytes + had, size - had);
      if (sent <= 0) abort();
      had += (size_t)sent;
    }
    done += size;
  }
  link->ops->finish(link);
  return NULL;
}

static void test_two_threads(void **state) {
  (void)state;
  static unsigned char bytes[150000];
  struct dmi_link *two[2];
  pthread_t thread;
  uint64_t number = 7654321;
  size_t done = 0;
  ssize_t got;
  open_two(two);
  assert_int_equal(pthread_create(&thread, NULL, sends_all, two[0]), 0);
  while ((got = receive_slept(two[1], bytes, next_size(&number, sizeof bytes))) > 0) {
    for (ssize_t i = 0; i < got; i++)
      if (bytes[i] != byte_at(done++)) fail_msg("byte %zu is wrong", done - 1);
  }
  assert_int_equal(got, 0);
  assert_int_equal(done, TOTAL);
  pthread_join(thread, NULL);
  close_two(two);
}

/* ---- Memory -----------------------------------------------------------------------------------
 */

/* What the system has provided of the memory of a link, in KiB: the larger one of its two ends,
 * both in this process, as seen by it. */
static long kib_of_link(void) {
  FILE *smaps = fopen("/proc/self/smaps", "r");
  char line[512];
  bool is_link = false;
  unsigned long begin, end;
  long rss, kib = 0;
  assert_non_null(smaps);
  while (fgets(line, sizeof line, smaps) != NULL) {
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) is_link = strstr(line, "/memfd:dmi ") != NULL;
    if (is_link && sscanf(line, "Rss: %ld", &rss) == 1 && rss > kib) kib = rss;
  }
  fclose(smaps);
  return kib;
}

/* Sends and receives as much as fits, again and again. */
static void fill_and_empty(struct dmi_link *from, struct dmi_link *to, size_t size) {
  static char some[1 << 16];
  for (size_t done = 0; done < size;) {
    while (dmi_link_send(from, some, sizeof some) > 0)
      continue;
    for (ssize_t got; (got = dmi_link_receive(to, some, sizeof some)) > 0;)
      done += (size_t)got;
  }
}

/* An idle link takes 508 KiB at most, half of it for each of its two processes, whatever it has
 * carried; and three pages while it has carried small messages only. */
static void test_memory(void **state) {
  (void)state;
  struct dmi_link *two[2];
  char some[64] = "";
  open_two(two);
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(dmi_link_send(two[i % 2], some, sizeof some), sizeof some);
    assert_int_equal(dmi_link_receive(two[1 - i % 2], some, sizeof some), sizeof some);
  }
  assert_in_range(kib_of_link(), 4, 16);
  fill_and_empty(two[0], two[1], TOTAL);
  fill_and_empty(two[1], two[0], TOTAL);
  assert_in_range(kib_of_link(), 100, 2 * 256);
  close_two(two);
}

/* ---- Who gets a link ------------------------------------------------------------------------- */

#define COMMON 8192

/* What the one that connects takes over. */
static void take_common(struct dmi_common *from, struct dmi_common *to) {
  struct dmi_link *below[2], *two[2];
  struct dmi_shm_offer offer;
  int common;
  connect_two(below);
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  two[1] = dmi_shm_take(below[1], &answerer_keys, dmi_common_give(from));
  assert_non_null(two[1]);
  two[0] = dmi_shm_open(&offer, below[0], &caller_keys, &common);
  assert_non_null(two[0]);
  dmi_common_take(to, common);
  close_two(below);
  close_two(two);
}

/* Memory in common comes with a link, once; one of another size is not used, and harms nobody. */
static void test_common(void **state) {
  (void)state;
  struct dmi_common first, second, third, other, none;
  dmi_common_init(&first, COMMON);
  dmi_common_init(&second, COMMON);
  dmi_common_init(&third, COMMON);
  dmi_common_init(&other, 2 * COMMON);
  dmi_common_init(&none, 0);
  take_common(&first, &second);
  take_common(&second, &third);
  take_common(&first, &other);
  take_common(&none, &none);
  take_common(&none, &first);
  assert_null(other.memory);
  assert_null(none.memory);
  ((char *)first.memory)[COMMON - 1] = 'x';
  assert_int_equal(((char *)third.memory)[COMMON - 1], 'x');
  void *before = first.memory;
  dmi_common_give(&other);
  take_common(&second, &other);
  take_common(&other, &first);
  assert_ptr_equal(first.memory, before);
  assert_int_equal(((char *)other.memory)[COMMON - 1], 0);
  dmi_common_close(&first);
  dmi_common_close(&second);
  dmi_common_close(&third);
  dmi_common_close(&other);
}

static void test_no_offer(void **state) {
  (void)state;
  struct dmi_link *below[2];
  struct dmi_shm_offer offer;
  const struct dmi_proof_keys other = {.out = "two", .in = "other"};
  connect_two(below);
  assert_null(dmi_shm_take(below[1], &answerer_keys, -1));
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  assert_null(dmi_shm_take(below[1], &other, -1));
  dmi_shm_withdraw(&offer);
  assert_null(dmi_shm_take(below[1], &answerer_keys, -1));
  close_two(below);
}

/* Connects to an offer as somebody who has seen its name. */
static int connect_as_stranger(const struct dmi_shm_offer *offer) {
  struct sockaddr_un at;
  socklen_t size = sizeof at;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(getsockname(offer->listener, (struct sockaddr *)&at, &size), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, size), 0);
  return fd;
}

static void send_with(int fd, const void *bytes, size_t size, int with) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.bytes = {0}};
  struct iovec iov = {(void *)(uintptr_t)bytes, size};
  struct msghdr out = {.msg_iov = &iov, .msg_iovlen = 1};
  out.msg_control = &control;
  out.msg_controllen = sizeof control;
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof with);
  memcpy(CMSG_DATA(&control.header), &with, sizeof with);
  assert_int_equal(sendmsg(fd, &out, 0), (ssize_t)size);
}

/* Those who know the name, but not the keys, are passed over. */
static void test_strangers_first(void **state) {
  (void)state;
  struct dmi_link *below[2], *two[2];
  struct dmi_shm_offer offer;
  static const char wrong[32] = "not the proof";
  int strangers[3];
  connect_two(below);
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  for (int i = 0; i < 3; i++)
    strangers[i] = connect_as_stranger(&offer);
  send_with(strangers[1], wrong, sizeof wrong, strangers[1]);
  assert_int_equal(send(strangers[2], wrong, 7, 0), 7);
  two[1] = dmi_shm_take(below[1], &answerer_keys, -1);
  assert_non_null(two[1]);
  two[0] = open_offered(&offer, below[0]);
  assert_non_null(two[0]);
  assert_int_equal(dmi_link_send(two[0], "x", 1), 1);
  char byte;
  assert_int_equal(dmi_link_receive(two[1], &byte, 1), 1);
  for (int i = 0; i < 3; i++)
    close(strangers[i]);
  close_two(two);
  close_two(below);
}

/* When nobody has taken the offer, there is no link. */
static void test_not_taken(void **state) {
  (void)state;
  struct dmi_link *below[2];
  struct dmi_shm_offer offer;
  connect_two(below);
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  int stranger = connect_as_stranger(&offer);
  assert_null(open_offered(&offer, below[0]));
  close(stranger);
  close_two(below);
}

/* Memory that could become smaller, which would end whoever touches it, is refused.  The proof is
 * taken from what the right process sends. */
static void test_wrong_memory(void **state) {
  (void)state;
  for (int how = 0; how < 4; how++) {
    struct dmi_link *below[2], *taken;
    struct dmi_shm_offer offer;
    char proof[32];
    connect_two(below);
    assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
    taken = dmi_shm_take(below[1], &answerer_keys, -1);
    assert_non_null(taken);
    int right = accept(offer.listener, NULL, NULL);
    assert_int_equal(recv(right, proof, sizeof proof, 0), (ssize_t)sizeof proof);
    int fd = connect_as_stranger(&offer);
    int memory = memfd_create("wrong", MFD_ALLOW_SEALING);
    if (how != 0) assert_int_equal(ftruncate(memory, how == 1 ? 4096 : 4096 + (504 << 10)), 0);
    if (how != 2) assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    if (how == 3) assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), 0);
    send_with(fd, proof, sizeof proof, memory);
    assert_null(open_offered(&offer, below[0]));
    close(memory);
    close(fd);
    close(right);
    dmi_link_close(taken);
    close_two(below);
  }
}

/* Without descriptors there is no offer; without those that it has kept free there would be no
 * link. */
static void test_last_descriptors(void **state) {
  (void)state;
  struct dmi_link *below[2], *two[2];
  struct dmi_shm_offer offer;
  struct rlimit limit, none;
  connect_two(below);
  assert_true(dmi_shm_offer(&offer, below[0], &caller_keys));
  two[1] = dmi_shm_take(below[1], &answerer_keys, -1);
  assert_non_null(two[1]);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  int next = fcntl(below[0]->in, F_DUPFD, 0);
  close(next);
  none.rlim_cur = (rlim_t)next;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  two[0] = open_offered(&offer, below[0]);
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_false(dmi_shm_offer(&offer, below[0], &caller_keys));
  assert_int_equal(offer.listener, -1);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_non_null(two[0]);
  close_two(two);
  close_two(below);
}

/* ---- An end that writes anything ------------------------------------------------------------- */

static void test_wrong_indexes(void **state) {
  (void)state;
  char some[8];
  for (int i = 0; i < 64; i++) {
    struct dmi_link *two[2];
    open_two(two);
    struct dmi_ring *rings = rings_of(two[0]); /* of both directions */
    rings[0].head = rings[1].head = (uint64_t)1 << i;
    rings[0].tail = rings[1].tail = UINT64_MAX >> i;
    rings[0].shift = rings[1].shift = ~((uint64_t)1 << i);
    ssize_t got = dmi_link_receive(two[1], some, sizeof some),
            sent = dmi_link_send(two[1], some, sizeof some);
    assert_true(got == -EPROTO || (got > 0 && got <= 8));
    assert_true(sent == -EPROTO || (i == 0 && sent == 8)); /* its index may be right by chance */
    (void)dmi_link_arm(two[1]);
    close_two(two);
  }
}

/* Bytes without end in the socket, and flags that change all the time, are no reason to hang. */
static void test_noise(void **state) {
  (void)state;
  struct dmi_link *two[2];
  static char some[1 << 16];
  open_two(two);
  struct dmi_ring *rings = rings_of(two[0]);
  for (int i = 0; i < 1000; i++) {
    while (send(two[0]->out, some, sizeof some, MSG_DONTWAIT) > 0)
      continue;
    rings[i % 2].empty_wait = (uint32_t)i;
    rings[i / 2 % 2].full_wait = (uint32_t)i;
    (void)dmi_link_arm(two[1]);
    ssize_t got = dmi_link_receive(two[1], some, sizeof some);
    assert_true(got > 0 || got == -EAGAIN);
    (void)dmi_link_send(two[1], some, 100);
    (void)dmi_link_send(two[0], some, 100);
  }
  close_two(two);
}

/* ---- Two processes ----------------------------------------------------------------------------
 */

/* A link with the process that calls answer().  A byte each way by TCP stands for the handshake. */
static struct dmi_link *call(void) {
  struct dmi_addr to = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
  struct dmi_link *below, *link;
  struct dmi_shm_offer offer;
  char byte = 1;
  to.port = tcp->here.port;
  if (tcp->ops->connect(tcp, &below, &to) != 0 || !is_ready(below->out, POLLOUT, limit_ms()) ||
      !dmi_shm_offer(&offer, below, &caller_keys) || dmi_link_send(below, &byte, 1) != 1 ||
      !is_ready(below->in, POLLIN, limit_ms()) || dmi_link_receive(below, &byte, 1) != 1)
    return NULL;
  link = open_offered(&offer, below);
  dmi_link_close(below);
  return link;
}

static struct dmi_link *answer(void) {
  struct dmi_link *below, *link;
  struct dmi_addr from;
  char byte = 1;
  if (!is_ready(tcp->incoming, POLLIN, limit_ms()) || tcp->ops->accept(tcp, &below, &from) != 0 ||
      !is_ready(below->in, POLLIN, limit_ms()) || dmi_link_receive(below, &byte, 1) != 1)
    return NULL;
  link = dmi_shm_take(below, &answerer_keys, -1);
  if (link == NULL || dmi_link_send(below, &byte, 1) != 1) return NULL;
  below->ops->keep(below); /* so that the byte arrives */
  dmi_link_close(below);
  return link;
}

/* ---- A process that is stopped ----------------------------------------------------------------
 */

/* Sends all bytes, then receives as many, and ends with 0 if they are right. */
static void send_and_receive(struct dmi_link *link, size_t size) {
  static unsigned char bytes[50000];
  for (size_t done = 0; done < size;) {
    size_t want = size - done < sizeof bytes ? size - done : sizeof bytes;
    for (size_t i = 0; i < want; i++)
      bytes[i] = byte_at(done + i);
    ssize_t sent = send_slept(link, bytes, want);
    if (sent <= 0) _exit(1);
    done += (size_t)sent;
  }
  for (size_t done = 0; done < size;) {
    size_t want = size - done < sizeof bytes ? size - done : sizeof bytes;
    ssize_t got = receive_slept(link, bytes, want);
    if (got <= 0) _exit(1);
    for (ssize_t i = 0; i < got; i++)
      if (bytes[i] != byte_at(done++)) _exit(1);
  }
  _exit(0);
}

/* Sends what fits, which is less than `want`: nobody gets it. */
static size_t send_until_full(struct dmi_link *link, size_t begin, size_t want) {
  static unsigned char bytes[30000];
  size_t done = 0;
  ssize_t sent;
  do {
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] = byte_at(begin + done + i);
    sent = dmi_link_send(link, bytes, sizeof bytes);
    if (sent > 0) done += (size_t)sent;
  } while (sent > 0 && done < want);
  assert_int_equal(sent, -EAGAIN);
  return done;
}

/* While the other process is stopped nothing is lost, and nobody gets more memory; when it goes on,
 * so does all. */
static void test_stopped(void **state) {
  (void)state;
  static unsigned char some[20000];
  for (int round = 0; round < 20; round++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      struct dmi_link *theirs = call();
      if (theirs != NULL) send_and_receive(theirs, TOTAL);
      _exit(1);
    }
    struct dmi_link *link = answer();
    assert_non_null(link);
    size_t got = 0, sent = 0, stop = (size_t)round * TOTAL / 21;
    int status;
    while (got < TOTAL) {
      ssize_t size = receive_slept(link, some, sizeof some);
      assert_true(size > 0);
      for (ssize_t i = 0; i < size; i++)
        if (some[i] != byte_at(got++)) fail_msg("byte %zu is wrong", got - 1);
      if (got <= stop || sent != 0) continue;
      kill(child, SIGSTOP);
      assert_int_equal(waitpid(child, &status, WUNTRACED), child);
      sent = send_until_full(link, 0, TOTAL);
      assert_false(is_ready(link->out, POLLOUT, 0));
      kill(child, SIGCONT);
    }
    while (sent < TOTAL) {
      size_t want = TOTAL - sent < sizeof some ? TOTAL - sent : sizeof some;
      for (size_t i = 0; i < want; i++)
        some[i] = byte_at(sent + i);
      ssize_t size = send_slept(link, some, want);
      assert_true(size > 0);
      sent += (size_t)size;
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    dmi_link_close(link);
  }
}

/* ---- A process that is killed ---------------------------------------------------------------- */

/* Both directions at once, without end; the other end sees only what was sent, in order. */
static void talk(struct dmi_link *link, uint64_t seed, uint32_t rounds) {
  static unsigned char bytes[40000];
  size_t sent = 0, got = 0;
  for (uint32_t i = 0; i < rounds; i++) {
    size_t want = next_size(&seed, sizeof bytes);
    for (size_t j = 0; j < want; j++)
      bytes[j] = byte_at(sent + j);
    ssize_t size = dmi_link_send(link, bytes, want);
    if (size < 0 && !dmi_link_is_later(size)) return;
    if (size > 0) sent += (size_t)size;
    bool stuck = size <= 0;
    size = dmi_link_receive(link, bytes, next_size(&seed, sizeof bytes));
    if (size == 0) return;
    for (ssize_t j = 0; j < size; j++)
      if (bytes[j] != byte_at(got++)) abort();
    if (stuck && size < 0 && dmi_link_arm(link)) {
      struct pollfd fd = {.fd = link->in, .events = POLLIN | POLLOUT};
      if (poll(&fd, 1, limit_ms()) != 1) abort();
    }
  }
}

/* The process that will be killed. */
static void be_killed(int number) {
  struct dmi_link *link = number % 2 == 0 ? call() : answer();
  if (link == NULL) _exit(1);
  talk(link, 99 + (uint64_t)number, UINT32_MAX);
  _exit(2);
}

static void test_killed(void **state) {
  (void)state;
  for (int i = 0; i < 300; i++) {
    char some[1000];
    ssize_t got;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) be_killed(i);
    struct dmi_link *link = i % 2 == 0 ? answer() : call();
    assert_non_null(link);
    talk(link, 7 + (uint64_t)i, (uint32_t)(i * 7919 % 400));
    kill(child, SIGKILL);
    /* all that is left can be received, then its end */
    while ((got = receive_slept(link, some, sizeof some)) > 0)
      continue;
    assert_int_equal(got, 0);
    while ((got = send_slept(link, some, sizeof some)) > 0)
      continue;
    assert_int_equal(got, -EPIPE);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    dmi_link_close(link);
  }
}

static int begin(void **state) {
  const char *why;
  struct dmi_addr any = {.port = 0};
  (void)state;
  signal(SIGPIPE, SIG_IGN);
  randombytes_buf(&caller_keys, sizeof caller_keys);
  memcpy(answerer_keys.in, caller_keys.out, sizeof answerer_keys.in);
  memcpy(answerer_keys.out, caller_keys.in, sizeof answerer_keys.out);
  tcp = dmi_tcp_open(NULL, &why);
  return tcp == NULL || tcp->ops->listen(tcp, &any) != 0;
}

static int finish(void **state) {
  (void)state;
  tcp->ops->free(tcp);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_ways),
                                     cmocka_unit_test(test_end),
                                     cmocka_unit_test(test_send_to_nobody),
                                     cmocka_unit_test(test_full),
                                     cmocka_unit_test(test_arm),
                                     cmocka_unit_test(test_two_threads),
                                     cmocka_unit_test(test_common),
                                     cmocka_unit_test(test_no_offer),
                                     cmocka_unit_test(test_strangers_first),
                                     cmocka_unit_test(test_not_taken),
                                     cmocka_unit_test(test_wrong_memory),
                                     cmocka_unit_test(test_last_descriptors),
                                     cmocka_unit_test(test_wrong_indexes),
                                     cmocka_unit_test(test_noise),
                                     cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_stopped),
                                     cmocka_unit_test(test_killed)};
  return cmocka_run_group_tests(tests, begin, finish);
}
