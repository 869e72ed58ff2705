/*
 * net_connect_test.c - how connections come about: HELLO, refusals, both at once, joining,
 * renaming.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/hello.h"
#include "net/wire.h"
#include "net_node.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION_TEXT "wire version " TEXT(DMI_WIRE_VERSION) " of DMI"

static struct dmi_msg plain(uint64_t op) {
  return (struct dmi_msg){.type = DMI_MSG_GET, .op = op};
}

static void join(struct node *a, struct node *b);

static void end(struct node *node) {
  node_stop(node);
  node_free(node);
}

/* ---- A plain socket at the other end --------------------------------------------------------- */

static int raw_connect(struct node *node) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(dmi_net_port(node->net))};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

/* A socket bound to a port that nobody else has; does not listen. */
static int raw_bind(struct dmi_addr *addr) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t size = sizeof any;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
  *addr = (struct dmi_addr){.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
  addr->port = ntohs(any.sin_port);
  return fd;
}

static int raw_listen(struct dmi_addr *addr) {
  int fd = raw_bind(addr);
  assert_int_equal(listen(fd, 8), 0);
  return fd;
}

/* Bytes until the other end closes, or `size`. */
static size_t raw_read(int fd, void *buf, size_t size) {
  size_t have = 0;
  while (have < size) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (poll(&poll_fd, 1, node_limit() * 1000) != 1) break;
    ssize_t got = recv(fd, (char *)buf + have, size - have, 0);
    if (got <= 0) break;
    have += (size_t)got;
  }
  return have;
}

static struct dmi_hello raw_hello(uint32_t uid) {
  struct dmi_hello hello = {.kind = DMI_HELLO_HELLO, .version = DMI_WIRE_VERSION, .uid = uid};
  memcpy(hello.build, node_build, 16);
  memcpy(hello.program, node_program, 16);
  snprintf(hello.name, sizeof hello.name, "prog");
  return hello;
}

static void raw_say(int fd, const struct dmi_hello *hello) {
  unsigned char bytes[DMI_HELLO_BYTES];
  dmi_hello_put(bytes, hello);
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

/* What a REFUSE said; "" when it was something else. */
static const char *raw_refusal(int fd) {
  static char why[DMI_REFUSE_TEXT];
  unsigned char bytes[DMI_REFUSE_BYTES + 1];
  why[0] = '\0';
  if (raw_read(fd, bytes, sizeof bytes) == DMI_REFUSE_BYTES &&
      dmi_hello_size(bytes, DMI_HELLO_FIRST) == DMI_REFUSE_BYTES) {
    dmi_refuse_get(why, bytes);
  }
  return why;
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

static void test_other_version(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  struct dmi_hello hello = raw_hello(2);
  unsigned char bytes[DMI_HELLO_BYTES];
  hello.version = 250;
  dmi_hello_put(bytes, &hello);
  int fd = raw_connect(&a);
  /* its HELLO may be shorter than ours: the first bytes have to do */
  assert_int_equal(send(fd, bytes, DMI_HELLO_FIRST, MSG_NOSIGNAL), DMI_HELLO_FIRST);
  const char *why = raw_refusal(fd);
  assert_non_null(strstr(why, "this process speaks wire version 250 of DMI"));
  assert_non_null(strstr(why, "version " TEXT(DMI_WIRE_VERSION) ":"));
  assert_true(node_wait_log(&a, "version 250"));
  close(fd);
  end(&a);
}

/* The same from the side that connects: a process that answers with another version. */
static void test_answer_of_other_version(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  int listener = raw_listen(&addr);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &addr);
  node_run(&a);
  node_send(&a, 2, plain(0));
  int fd = accept(listener, NULL, NULL);
  struct dmi_hello hello = raw_hello(2);
  hello.kind = DMI_HELLO_OK;
  hello.version = 9;
  raw_say(fd, &hello);
  NODE_WAIT(&a, lost_num, 1);
  assert_non_null(strstr(a.lost_why, "this process speaks " VERSION_TEXT));
  assert_non_null(strstr(a.lost_why, "version 9"));
  close(fd);
  close(listener);
  end(&a);
}

/* `b` joins `a` and is refused: it is told a sentence with all these words; `a` logs `logged`. */
static void check_refused(struct node *a, struct node *b, const char *const words[], int num,
                          const char *logged) {
  struct dmi_addr addr = node_addr(a);
  dmi_net_join_addr(b->net, &addr);
  node_run(a);
  node_run(b);
  NODE_WAIT(b, joined_num, 1);
  assert_false(b->joined_ok);
  for (int i = 0; i < num; i++)
    assert_non_null(strstr(b->joined_why, words[i]));
  assert_true(node_wait_log(a, logged));
  assert_int_equal(NODE_NOW(b, lost_num), 0);
  assert_int_equal(NODE_NOW(a, strangers), 0);
  end(a);
  end(b);
}

static void test_other_build(void **state) {
  (void)state;
  struct node a, b;
  static const uint8_t build[16] = {0xab, 0xcd};
  static const char *const words[] = {"this process runs 'other' (build abcd", "runs 'prog' (build",
                                      "same executable", "127.0.0.1"};
  const char *why;
  node_open(&a, 1);
  assert_true(node_open_as(&b, 0, 0, build, node_program, "other", &why));
  check_refused(&a, &b, words, 4, "refused a connection: this process runs 'prog'");
}

static void test_not_a_member(void **state) {
  (void)state;
  struct node a, b;
  static const char *const words[] = {"not a member yet", "try again"};
  node_open(&a, 0);
  node_open(&b, 0);
  check_refused(&a, &b, words, 2, "not a member yet");
}

static void test_other_program(void **state) {
  (void)state;
  struct node a, b;
  static const uint8_t program[16] = "another";
  const char *why;
  node_open(&a, 1);
  assert_true(node_open_as(&b, 2, 0, node_build, program, "prog", &why));
  node_meet(&b, &a);
  node_run(&a);
  node_run(&b);
  node_send(&b, 1, plain(0));
  NODE_WAIT(&b, lost_num, 1);
  assert_non_null(strstr(b.lost_why, "started apart"));
  assert_true(node_wait_log(&a, "started apart"));
  end(&a);
  end(&b);
}

static void test_same_uid(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  struct dmi_hello hello = raw_hello(1);
  int fd = raw_connect(&a);
  raw_say(fd, &hello);
  assert_non_null(strstr(raw_refusal(fd), "both say they are member 1"));
  close(fd);
  end(&a);
}

static void test_garbage(void **state) {
  (void)state;
  struct node a;
  char byte;
  node_open(&a, 1);
  node_run(&a);
  int fd = raw_connect(&a);
  assert_int_equal(send(fd, "G", 1, MSG_NOSIGNAL), 1); /* of GET: the first byte is enough */
  assert_int_equal(raw_read(fd, &byte, 1), 0);
  assert_true(node_wait_log(&a, "does not speak DMI"));
  close(fd);
  end(&a);
}

static void test_silent(void **state) {
  (void)state;
  struct node a;
  char buf[DMI_HELLO_BYTES + 1];
  node_patience = 0.2;
  node_open(&a, 1);
  node_patience = 0;
  node_run(&a);
  int fd = raw_connect(&a); /* says nothing */
  assert_int_equal(raw_read(fd, buf, 1), 0);
  struct dmi_hello hello = raw_hello(0);
  int tries = 0;
  do { /* a stranger that does not say what it wants; on a busy machine we may be late ourselves */
    close(fd);
    fd = raw_connect(&a);
    raw_say(fd, &hello);
  } while (raw_read(fd, buf, sizeof buf) != DMI_HELLO_BYTES && ++tries < 50);
  assert_true(tries < 50);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(a.lost_id, a.stranger_id);
  close(fd);
  end(&a);
}

/* There is room for 128 that have not said who they are; then the oldest make room. */
static void test_many_silent(void **state) {
  (void)state;
  enum { MANY = 200, ROOM = 128 };
  struct node a, b;
  int fds[MANY];
  char byte;
  join(&a, &b); /* is not among them */
  for (int i = 0; i < MANY; i++)
    fds[i] = raw_connect(&a);
  for (int i = 0; i < MANY - ROOM; i++)
    assert_int_equal(raw_read(fds[i], &byte, 1), 0);
  for (int i = MANY - ROOM; i < MANY; i++) {
    assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), -1);
  }
  struct dmi_msg ask = {.type = DMI_CTL_JOIN};
  node_send(&b, b.joined_id, ask);
  NODE_WAIT(&a, messages, 1);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  node_expect_close(&a);
  node_expect_close(&b);
  end(&a);
  end(&b);
}

/* A member that sends something malformed loses its connection; others do not. */
static void test_malformed(void **state) {
  (void)state;
  struct node a, b;
  unsigned char bytes[DMI_WIRE_HEADER];
  char buf[DMI_HELLO_BYTES + 1];
  const struct dmi_addr nowhere = {0};
  node_open(&a, 1);
  node_open(&b, 2);
  node_meet(&a, &b);
  dmi_net_add_peer(a.net, 3, &nowhere);
  node_run(&a);
  node_run(&b);
  node_send(&a, 2, plain(0));
  NODE_WAIT(&b, messages, 1);
  int fd = raw_connect(&a);
  struct dmi_hello hello = raw_hello(3);
  raw_say(fd, &hello);
  struct dmi_msg msg = {.type = DMI_MSG_READ};
  dmi_wire_put(bytes, &msg);
  bytes[16] = 1; /* a body, which READ does not have */
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
  assert_int_equal(raw_read(fd, buf, sizeof buf), DMI_HELLO_BYTES);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(a.lost_id, 3);
  assert_non_null(strstr(a.lost_why, "READ"));
  node_send(&a, 2, plain(1));
  node_send(&b, 1, plain(1));
  NODE_WAIT(&b, messages, 2);
  NODE_WAIT(&a, messages, 1);
  /* it is not let in again */
  close(fd);
  fd = raw_connect(&a);
  raw_say(fd, &hello);
  assert_non_null(strstr(raw_refusal(fd), "lost before"));
  close(fd);
  end(&a);
  end(&b);
}

/* ---- Both at once ---------------------------------------------------------------------------- */

static uint64_t order_wrong;

static void check_order(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (msg->op != node->messages || from == node->uid || from > 2) order_wrong++;
}

static void test_both_at_once(void **state) {
  (void)state;
  enum { ROUNDS = 1000, COUNT = 5 };
  order_wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    struct node a, b;
    node_open(&a, 1);
    node_open(&b, 2);
    node_meet(&a, &b);
    node_meet(&b, &a);
    a.on_message = b.on_message = check_order;
    for (uint64_t i = 0; i < COUNT; i++) {
      node_send(&a, 2, plain(i));
      node_send(&b, 1, plain(i));
    }
    node_run(round & 1 ? &a : &b);
    node_run(round & 1 ? &b : &a);
    node_send(&a, 2, plain(COUNT));
    node_send(&b, 1, plain(COUNT));
    NODE_WAIT(&a, messages, COUNT + 1);
    NODE_WAIT(&b, messages, COUNT + 1);
    assert_int_equal(NODE_NOW(&a, lost_num) + NODE_NOW(&b, lost_num), 0);
    node_expect_close(&a);
    node_expect_close(&b);
    end(&a);
    end(&b);
  }
  assert_int_equal(order_wrong, 0);
}

/* The lower uid's attempt should win, but fails: that of the higher uid, held meanwhile, is used.
 */
static void test_winner_fails(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr deaf;
  struct dmi_hello hello = raw_hello(2);
  unsigned char bytes[DMI_HELLO_BYTES + 3 * DMI_WIRE_HEADER];
  int listener = raw_listen(&deaf);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &deaf);
  node_run(&a);
  for (uint64_t i = 0; i < 3; i++)
    node_send(&a, 2, plain(i));
  int theirs = accept(listener, NULL, NULL); /* a's attempt is under way */
  int ours = raw_connect(&a);
  raw_say(ours, &hello);
  int mark = raw_connect(&a); /* when a has seen this one, it has seen that HELLO */
  assert_int_equal(send(mark, "?", 1, MSG_NOSIGNAL), 1);
  assert_true(node_wait_log(&a, "does not speak DMI"));
  assert_int_equal(recv(ours, bytes, 1, MSG_DONTWAIT), -1); /* not answered */
  close(theirs);
  close(listener);
  assert_int_equal(raw_read(ours, bytes, sizeof bytes), sizeof bytes);
  assert_int_equal(bytes[4], DMI_HELLO_OK);
  for (int i = 0; i < 3; i++) {
    struct dmi_msg msg;
    assert_null(dmi_wire_get(&msg, bytes + DMI_HELLO_BYTES + i * DMI_WIRE_HEADER, true));
    assert_int_equal(msg.op, i);
  }
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(ours);
  close(mark);
  end(&a);
}

/* ---- Joining --------------------------------------------------------------------------------- */

static void test_port_in_use(void **state) {
  (void)state;
  struct node a, b;
  const char *why;
  node_open(&a, 1);
  assert_false(node_open_as(&b, 2, dmi_net_port(a.net), node_build, node_program, "prog", &why));
  char port[16];
  snprintf(port, sizeof port, "port %u", dmi_net_port(a.net));
  assert_non_null(strstr(why, port));
  assert_non_null(strstr(why, "dmirun -l"));
  node_free(&a);
}

/* Joins `host` and expects all these words in the reason why it fails. */
static void check_cannot_join(const char *host, uint16_t port, const char *const words[], int num) {
  struct node b;
  char number[16];
  node_open(&b, 0);
  dmi_net_join(b.net, host, port);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  snprintf(number, sizeof number, "%u", port);
  if (num > 0) assert_non_null(strstr(b.joined_why, number));
  for (int i = 0; i < num; i++) {
    if (strstr(b.joined_why, words[i]) == NULL) fail_msg("'%s' in: %s", words[i], b.joined_why);
  }
  end(&b);
}

static void test_join_dead_port(void **state) {
  (void)state;
  struct dmi_addr addr;
  static const char *const words[] = {"localhost", "no DMI program listens", "-i", "-p"};
  int fd = raw_bind(&addr); /* kept bound: a test beside this one could listen there otherwise */
  check_cannot_join("localhost", addr.port, words, 4);
  close(fd);
}

static void test_join_silent_port(void **state) {
  (void)state;
  struct dmi_addr addr;
  static const char *const words[] = {"127.0.0.1", "accepts connections but does not answer", "-i",
                                      "-p"};
  int listener = raw_listen(&addr);
  node_patience = 0.3;
  check_cannot_join("127.0.0.1", addr.port, words, 4);
  node_patience = 0;
  close(listener);
}

static void test_join_unknown_host(void **state) {
  (void)state;
  struct node b;
  node_open(&b, 0);
  dmi_net_join(b.net, "no.such.host.invalid", 1);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  assert_non_null(strstr(b.joined_why, "cannot find host 'no.such.host.invalid'"));
  assert_non_null(strstr(b.joined_why, "-i"));
  end(&b);
}

struct naming {
  uint32_t temp, uid;
};

static void run_rename(struct node *node, void *arg) {
  struct naming *naming = arg;
  dmi_net_rename(node->net, naming->temp, naming->uid);
}

static void run_self(struct node *node, void *arg) {
  node->uid = *(uint32_t *)arg;
  dmi_net_set_self(node->net, node->uid, node_program);
}

struct both_addrs {
  uint32_t id;
  struct dmi_addr ours, theirs;
};

static void run_addrs(struct node *node, void *arg) {
  struct both_addrs *addrs = arg;
  dmi_net_addrs(node->net, addrs->id, &addrs->ours, &addrs->theirs);
}

static void join(struct node *a, struct node *b) {
  node_open(a, 1);
  node_open(b, 0);
  dmi_net_join(b->net, "localhost", dmi_net_port(a->net));
  node_run(a);
  node_run(b);
  NODE_WAIT(a, strangers, 1);
  NODE_WAIT(b, joined_num, 1);
  assert_true(b->joined_ok);
}

static void test_rename(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  struct dmi_msg ask = {.type = DMI_CTL_JOIN};
  for (uint64_t i = 0; i < 5; i++) {
    ask.op = i;
    node_send(&b, b.joined_id, ask);
  }
  NODE_WAIT(&a, messages, 5);
  assert_int_equal(a.from[0], a.stranger_id);
  struct both_addrs addrs = {.id = a.stranger_id};
  node_do(&a, run_addrs, &addrs);
  assert_int_equal(addrs.ours.port, dmi_net_port(a.net));
  assert_int_equal(addrs.theirs.port, dmi_net_port(b.net));
  for (uint64_t i = 0; i < 5; i++)
    node_send(&a, a.stranger_id, plain(i));
  struct naming naming = {a.stranger_id, 2};
  node_do(&a, run_rename, &naming);
  for (uint64_t i = 5; i < 10; i++)
    node_send(&a, 2, plain(i));
  node_send(&a, a.stranger_id, plain(99)); /* nobody has that name any more */
  uint32_t uid = 2;
  order_wrong = 0;
  NODE_WAIT(&b, messages, 10);
  node_do(&b, run_self, &uid);
  naming = (struct naming){b.joined_id, 1};
  node_do(&b, run_rename, &naming);
  for (uint64_t i = 0; i < 10; i++)
    node_send(&b, 1, plain(i));
  NODE_WAIT(&a, messages, 15);
  node_send(&a, 2, plain(10));
  NODE_WAIT(&b, messages, 11);
  assert_int_equal(a.from[5], 2);
  assert_int_equal(a.from[14], 2);
  assert_int_equal(b.from[0], b.joined_id);
  assert_int_equal(b.from[10], 1);
  assert_int_equal(b.last.op, 10);
  assert_int_equal(NODE_NOW(&a, lost_num) + NODE_NOW(&b, lost_num), 0);
  node_close(&a, 2);
  node_close(&b, 1);
  end(&a);
  end(&b);
  assert_int_equal(a.lost_num + b.lost_num, 0);
}

/* A name that has a connection already: the renamed one is still heard. */
static void test_rename_second(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  uint32_t uid = 2;
  struct dmi_addr addr = node_addr(&a);
  node_do(&b, run_self, &uid);
  dmi_net_add_peer(b.net, 1, &addr); /* b's daemon has nothing to do now */
  node_send(&b, 1, plain(0));        /* a second connection */
  NODE_WAIT(&a, messages, 1);
  struct naming naming = {a.stranger_id, 2};
  node_do(&a, run_rename, &naming);
  for (uint64_t i = 1; i < 5; i++)
    node_send(&b, b.joined_id, plain(i));
  NODE_WAIT(&a, messages, 5);
  for (uint64_t i = 0; i < 5; i++)
    assert_int_equal(a.from[i], 2);
  node_send(&a, 2, plain(7));
  NODE_WAIT(&b, messages, 1);
  assert_int_equal(b.from[0], 1);
  node_expect_close(&a);
  node_expect_close(&b);
  end(&a);
  end(&b);
}

/* What only members may send closes a stranger's connection. */
static void test_stranger_limits(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  node_send(&b, b.joined_id, plain(0));
  NODE_WAIT(&a, lost_num, 1);
  NODE_WAIT(&b, lost_num, 1);
  assert_int_equal(a.messages, 0);
  assert_non_null(strstr(a.lost_why, "only a member"));
  end(&a);
  end(&b);
}

/* A stranger is turned away: it reads what it was told, then the end. */
static void test_turned_away(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  struct dmi_msg no = {.type = DMI_CTL_REFUSE};
  node_send(&a, a.stranger_id, no);
  node_close(&a, a.stranger_id);
  NODE_WAIT(&b, messages, 1);
  node_close(&b, b.joined_id);
  end(&b);
  end(&a);
  assert_int_equal(a.lost_num + b.lost_num, 0);
}

static void test_ipv6(void **state) {
  (void)state;
  struct node a, b;
  node_open(&a, 1);
  node_open(&b, 0);
  dmi_net_join(b.net, "::1", dmi_net_port(a.net));
  node_run(&a);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  if (!b.joined_ok) print_message("no IPv6 here: %s\n", b.joined_why);
  end(&b);
  end(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_version),
                                     cmocka_unit_test(test_answer_of_other_version),
                                     cmocka_unit_test(test_other_build),
                                     cmocka_unit_test(test_not_a_member),
                                     cmocka_unit_test(test_other_program),
                                     cmocka_unit_test(test_same_uid),
                                     cmocka_unit_test(test_garbage),
                                     cmocka_unit_test(test_silent),
                                     cmocka_unit_test(test_many_silent),
                                     cmocka_unit_test(test_malformed),
                                     cmocka_unit_test(test_both_at_once),
                                     cmocka_unit_test(test_winner_fails),
                                     cmocka_unit_test(test_port_in_use),
                                     cmocka_unit_test(test_join_dead_port),
                                     cmocka_unit_test(test_join_silent_port),
                                     cmocka_unit_test(test_join_unknown_host),
                                     cmocka_unit_test(test_rename),
                                     cmocka_unit_test(test_rename_second),
                                     cmocka_unit_test(test_stranger_limits),
                                     cmocka_unit_test(test_turned_away),
                                     cmocka_unit_test(test_ipv6)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
