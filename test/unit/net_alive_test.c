/*
 * net_alive_test.c - which processes are waited for, and which are lost: they do not answer, close,
 * refuse or are silent, during the connect or later.
 *
 * To check that nothing happens for a while, a test waits for something else that takes as long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "net/net_int.h"
#include "net_raw.h"

static struct dmi_msg plain(uint64_t op) {
  struct dmi_msg msg = {.type = DMI_MSG_GET};
  msg.access.op.n = op;
  return msg;
}

static void end(struct node *node) {
  node_stop(node);
  node_free(node);
}

static int raw_listen(struct dmi_addr *addr, int backlog) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t size = sizeof any;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
  assert_int_equal(listen(fd, backlog), 0);
  *addr = (struct dmi_addr){.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
  addr->port = ntohs(any.sin_port);
  return fd;
}

/* Member 1, which knows of members 2, 3, ... at these addresses. */
static void open_with(struct node *node, const struct dmi_addr *addrs, uint32_t num) {
  node_open(node, 1);
  for (uint32_t i = 0; i < num; i++)
    dmi_net_add_peer(node->net, 2 + i, &addrs[i]);
  node_run(node);
}

/* Accepts and closes so many connections. */
static void turn_away(int listener, int times) {
  for (int i = 0; i < times; i++) {
    int fd = raw_accept(listener);
    assert_true(fd >= 0);
    close(fd);
  }
}

/* Plays member `uid` for the node that connects to this descriptor. */
static void welcome(int fd, uint32_t uid) {
  unsigned char sealed[RAW_HELLO], bytes[DMI_HELLO_BYTES];
  struct dmi_hello hello, ok = raw_hello(uid);
  assert_true(raw_welcome(fd, 0, &hello));
  ok.kind = DMI_HELLO_OK;
  dmi_hello_put(bytes, &ok);
  dmi_seal_put_first(raws[fd].keys.out, sealed, bytes, sizeof bytes);
  assert_true(raw_send(fd, sealed, sizeof sealed));
}

static struct dmi_msg raw_message(int fd) {
  unsigned char bytes[DMI_WIRE_HEADER];
  struct dmi_msg msg;
  assert_int_equal(raw_read(fd, bytes, sizeof bytes), sizeof bytes);
  assert_null(dmi_wire_get(&msg, bytes, true));
  return msg;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

/* A member that closes connections may be flooded: others try again as long as it is a member. */
static void test_turned_away(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  int listener = raw_listen(&addr, 8);
  open_with(&a, &addr, 1);
  node_send(&a, 2, plain(7));
  turn_away(listener, 8);
  int fd = raw_accept(listener);
  assert_true(fd >= 0);
  welcome(fd, 2);
  assert_int_equal(raw_message(fd).access.op.n, 7);
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(fd);
  close(listener);
  end(&a);
}

/* A process that does not answer is waited for while its machine accepts, as it does for a stopped
 * process; much longer than a joiner would wait. */
static void test_stopped(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addrs[2];
  int stopped = raw_listen(&addrs[0], 8), other = raw_listen(&addrs[1], 8);
  node_patience = 0.2;
  node_dead_after = 1;
  open_with(&a, addrs, 2);
  node_patience = 0;
  node_dead_after = 0;
  node_send(&a, 2, plain(7));
  int fd = raw_accept(stopped);
  assert_true(fd >= 0);
  node_send(&a, 3, plain(8));
  turn_away(other, 9); /* takes some seconds */
  welcome(fd, 2);
  assert_int_equal(raw_message(fd).access.op.n, 7);
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(fd);
  close(stopped);
  close(other);
  end(&a);
}

/* The port is closed: the process is gone. */
static void test_gone(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  int listener = raw_listen(&addr, 8);
  open_with(&a, &addr, 1);
  node_send(&a, 2, plain(7));
  turn_away(listener, 2);
  close(listener);
  NODE_WAIT(&a, lost_num, 1);
  assert_non_null(strstr(a.lost_why, "no DMI program listens at 127.0.0.1"));
  end(&a);
}

/* In the daemon's thread, which so receives nothing before its sending fails: member 2 sends its
 * last messages and closes, with bytes unread. */
static void run_last_messages(struct node *node, void *arg) {
  int fd = *(int *)arg;
  unsigned char bytes[100][DMI_WIRE_HEADER];
  struct dmi_msg last = plain(0);
  for (; last.access.op.n < 100; last.access.op.n++)
    dmi_wire_put(bytes[last.access.op.n], &last);
  assert_true(raw_send(fd, bytes, sizeof bytes));
  close(fd);
  struct dmi_net_peer *peer = dmi_peer_find(node->net, 2);
  for (int i = 0; i < 100 && peer->broken == 0; i++) {
    struct dmi_msg msg = plain(0);
    dmi_net_send(node->net, 2, &msg);
    dmi_net_flush(node->net, 2);
  }
  assert_int_not_equal(peer->broken, 0);
}

/* What a process sent before it ended is received, though sending to it has failed: it may say why
 * the program ends. */
static void test_last_messages(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  struct pollfd in = {.events = POLLIN};
  int listener = raw_listen(&addr, 8);
  open_with(&a, &addr, 1);
  node_send(&a, 2, plain(7));
  int fd = raw_accept(listener);
  welcome(fd, 2);
  in.fd = fd;
  assert_int_equal(poll(&in, 1, node_limit() * 1000), 1); /* it is not read */
  node_do(&a, run_last_messages, &fd);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(NODE_NOW(&a, messages), 100);
  close(listener);
  end(&a);
}

/* Was the SYN sent again?  Else it has been answered: it is not enough that this takes long. */
static bool is_dropped(struct pollfd *out) {
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  for (int i = 0; poll(out, 1, 10) == 0 && info.tcpi_total_retrans == 0; i++) {
    assert_true(i < 100 * node_limit());
    assert_int_equal(getsockopt(out->fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  }
  return info.tcpi_total_retrans != 0;
}

/* A port whose backlog is full is as silent as a machine without power: SYN is dropped. */
static int raw_silent(struct dmi_addr *addr, int *fill) {
  int listener = raw_listen(addr, 0), more = 0;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(addr->port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (bool full = false; !full; more++) {
    struct pollfd out = {.events = POLLOUT};
    assert_true(more < 8);
    fill[more] = out.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(out.fd, (struct sockaddr *)&to, sizeof to);
    full = is_dropped(&out);
  }
  for (; more < 8; more++)
    fill[more] = -1;
  return listener;
}

static void end_silent(int listener, const int *fill) {
  for (int i = 0; i < 8; i++)
    if (fill[i] >= 0) close(fill[i]);
  close(listener);
}

static void test_silent(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  struct timespec from, to;
  int fill[8], listener = raw_silent(&addr, fill);
  node_dead_after = 2;
  open_with(&a, &addr, 1);
  node_dead_after = 0;
  clock_gettime(CLOCK_MONOTONIC, &from);
  node_send(&a, 2, plain(7));
  NODE_WAIT(&a, lost_num, 1);
  clock_gettime(CLOCK_MONOTONIC, &to);
  assert_non_null(strstr(a.lost_why, "silent for 2 s (dmirun --dead-after)"));
  assert_true((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9 > 1.9);
  end_silent(listener, fill);
  end(&a);
}

/* Without a descriptor for the connection a process waits until there is one, and says so once. */
static void test_no_descriptors(void **state) {
  (void)state;
  struct node a;
  struct rlimit limit, none;
  struct dmi_addr addr;
  int listener = raw_listen(&addr, 8);
  open_with(&a, &addr, 1);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  int next = fcntl(listener, F_DUPFD, 0);
  close(next);
  none.rlim_cur = (rlim_t)next;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  node_send(&a, 2, plain(7));
  bool said = node_wait_log(&a, "ulimit -n");
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_true(said);
  int fd = raw_accept(listener);
  assert_true(fd >= 0);
  welcome(fd, 2);
  assert_int_equal(raw_message(fd).access.op.n, 7);
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  assert_null(strstr(strstr(a.log, "ulimit -n") + 1, "ulimit -n"));
  node_expect_close(&a);
  close(fd);
  close(listener);
  end(&a);
}

/* The text of a process outside the program is shown as a quotation. */
static void test_refuse_is_quoted(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  unsigned char call[DMI_CALL_BYTES], refuse[DMI_REFUSE_BYTES];
  char expected[160];
  int listener = raw_listen(&addr, 8);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = raw_accept(listener);
  assert_true(fd >= 0);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  dmi_refuse_put(refuse, "dmi: \033[31mrun \"rm -rf /\" now\n");
  assert_true(raw_send(fd, refuse, sizeof refuse));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  snprintf(expected, sizeof expected,
           "127.0.0.1 port %u refuses: \"dmi: ?[31mrun 'rm -rf /' now?\"", addr.port);
  assert_string_equal(b.joined_why, expected);
  close(fd);
  close(listener);
  end(&b);
}

/* A link-local address needs a scope, which differs from host to host. */
static void test_link_local(void **state) {
  (void)state;
  struct node b;
  node_open(&b, 0);
  dmi_net_join(b.net, "fe80::1%lo", 7880);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "fe80::1%lo is a link-local address"));
  assert_non_null(strstr(b.joined_why, "fd00::/8"));
  end(&b);
}

/* ---- Connected ------------------------------------------------------------------------------ */

struct ping {
  bool open;
  struct dmi_net_signs signs;
};

static void run_ping(struct node *node, void *arg) {
  struct ping *ping = arg;
  ping->open = dmi_net_ping(node->net, 2, &ping->signs);
}

static struct dmi_net_signs signs_of(struct node *node) {
  struct ping ping = {0};
  node_do(node, run_ping, &ping);
  assert_true(ping.open);
  return ping.signs;
}

/* Waits until more messages have come than before. */
static uint64_t heard_more(struct node *node, uint64_t before) {
  uint64_t now = before;
  for (int i = 0; now == before && i < 100 * node_limit(); i++) {
    poll(NULL, 0, 10);
    now = signs_of(node).heard;
  }
  assert_int_not_equal(now, before);
  return now;
}

/* Between two nodes: the answer comes each time. */
static void test_ping(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) {
    struct node a, b;
    node_encrypt = round == 1;
    node_open(&a, 1);
    node_open(&b, 2);
    node_meet(&a, &b);
    node_run(&a);
    node_run(&b);
    uint64_t before = signs_of(&a).heard;
    for (int i = 0; i < 5; i++)
      before = heard_more(&a, before);
    /* not passed to the layers above */
    assert_int_equal(NODE_NOW(&a, messages) + NODE_NOW(&b, messages), 0);
    node_expect_close(&a);
    node_expect_close(&b);
    end(&a);
    end(&b);
  }
  node_encrypt = false;
}

/* A process does not answer: PING is sent once, and nothing is heard, even if its machine receives
 * bytes. */
static void test_ping_unanswered(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  unsigned char bytes[DMI_WIRE_HEADER];
  int listener = raw_listen(&addr, 8);
  open_with(&a, &addr, 1);
  struct dmi_net_signs before = signs_of(&a);
  int fd = raw_accept(listener);
  assert_true(fd >= 0);
  welcome(fd, 2);
  struct dmi_msg msg = raw_message(fd);
  assert_int_equal(msg.type, DMI_MSG_PING);
  assert_int_equal(msg.ping.kind, DMI_WIRE_ASK);
  before.heard = signs_of(&a).heard; /* the handshake has been made */
  for (int i = 0; signs_of(&a).taken == before.taken && i < 100 * node_limit(); i++)
    poll(NULL, 0, 10);
  assert_true(signs_of(&a).taken > before.taken); /* its machine has acknowledged it */
  for (int i = 0; i < 3; i++)
    assert_int_equal(signs_of(&a).heard, before.heard);
  assert_int_equal(recv(fd, bytes, 1, MSG_DONTWAIT), -1);
  msg.ping.kind = DMI_WIRE_TELL;
  dmi_wire_put(bytes, &msg);
  assert_true(raw_send(fd, bytes, sizeof bytes));
  msg = plain(1); /* when this one has been heard, so has the answer */
  dmi_wire_put(bytes, &msg);
  assert_true(raw_send(fd, bytes, sizeof bytes));
  NODE_WAIT(&a, messages, 1);
  assert_int_not_equal(signs_of(&a).heard, before.heard);
  assert_int_equal(raw_message(fd).type, DMI_MSG_PING); /* the next one */
  node_expect_close(&a);
  close(fd);
  close(listener);
  end(&a);
}

/* A process that is stopped with data in flight to it: its machine closes the window, and answers
 * probes.  That is not silence. */
static void test_closed_window(void **state) {
  (void)state;
  enum { BODY = 64 << 20 };
  struct node a;
  struct dmi_addr addrs[3];
  int fill[2][8];
  int listener = raw_listen(&addrs[0], 8);
  int silent[2] = {raw_silent(&addrs[1], fill[0]), raw_silent(&addrs[2], fill[1])};
  node_dead_after = 2; /* more than the pauses at the beginning, of which not each is answered */
  open_with(&a, addrs, 3);
  node_dead_after = 0;
  struct dmi_msg put = {.type = DMI_MSG_PUT};
  put.access.len = BODY;
  put.body.frame = dmi_frame_new(BODY);
  assert_non_null(put.body.frame);
  put.body.ptr = put.body.frame->bytes;
  put.body.len = BODY;
  node_send(&a, 2, put);
  int fd = raw_accept(listener);
  assert_true(fd >= 0);
  welcome(fd, 2);
  for (uint32_t i = 0; i < 2; i++) { /* each takes two seconds */
    node_send(&a, 3 + i, plain(1));
    NODE_WAIT(&a, lost_num, i + 1);
    assert_int_equal(a.lost_id, 3 + i);
  }
  char *bytes = malloc(BODY);
  assert_int_equal(raw_message(fd).body.len, BODY);
  assert_int_equal(raw_read(fd, bytes, BODY), BODY);
  assert_int_equal(NODE_NOW(&a, lost_num), 2);
  free(bytes);
  node_expect_close(&a);
  for (int i = 0; i < 2; i++)
    end_silent(silent[i], fill[i]);
  close(fd);
  close(listener);
  end(&a);
}

/* What the system says of a link; NULL: what it says really. */
static const struct tcp_info *said;

int getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
  if (said == NULL || level != IPPROTO_TCP || name != TCP_INFO) {
    return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
  }
  memcpy(value, said, *size < sizeof *said ? *size : sizeof *said);
  return 0;
}

/* A machine whose buffers are full is asked in growing pauses, and answers: its last answer is old
 * when the next question is sent.  Silence begins with a question that has no answer. */
static void test_growing_pauses(void **state) {
  (void)state;
  enum { LONG_AGO = 100000 };
  struct tcp_info info = {.tcpi_last_ack_recv = LONG_AGO, .tcpi_last_data_recv = LONG_AGO};
  struct pollfd nothing = {.fd = -1};
  struct dmi_addr addr;
  struct dmi_link *link = NULL;
  const char *why;
  int listener = raw_listen(&addr, 8);
  struct dmi_transport *tcp = dmi_tcp_open(NULL, &why);
  assert_non_null(tcp);
  assert_int_equal(tcp->ops->connect(tcp, &link, &addr), 0);
  said = &info;
  for (int kind = 0; kind < 2; kind++) { /* a question about the window; bytes */
    info.tcpi_probes = kind == 0;
    info.tcpi_unacked = kind == 1;
    info.tcpi_last_data_sent = 1;
    double first = link->ops->silence(link);
    assert_true(first < 50); /* not since the last answer */
    poll(&nothing, 1, 20);
    assert_true(link->ops->silence(link) > first);
    info.tcpi_probes = 0; /* answered: nothing is in flight, or bytes that were not taken */
    info.tcpi_last_data_sent = LONG_AGO;
    assert_true(link->ops->silence(link) == 0);
  }
  said = NULL;
  link->ops->close(link);
  tcp->ops->free(tcp);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_turned_away),
                                     cmocka_unit_test(test_stopped),
                                     cmocka_unit_test(test_gone),
                                     cmocka_unit_test(test_last_messages),
                                     cmocka_unit_test(test_silent),
                                     cmocka_unit_test(test_no_descriptors),
                                     cmocka_unit_test(test_refuse_is_quoted),
                                     cmocka_unit_test(test_link_local),
                                     cmocka_unit_test(test_ping),
                                     cmocka_unit_test(test_ping_unanswered),
                                     cmocka_unit_test(test_closed_window),
                                     cmocka_unit_test(test_growing_pauses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
