/*
 * net_connect_test.c - how connections come about: HELLO, refusals, both at once, joining,
 * renaming.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ev.h>
#include <semaphore.h>

#include "net_raw.h"

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
  int fd = raw_connect_to(dmi_net_port(node->net));
  assert_true(fd >= 0);
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

/* ---- HELLO ----------------------------------------------------------------------------------- */

static void test_other_version(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  unsigned char bytes[DMI_HELLO_FIRST];
  dmi_hello_put_first(bytes, DMI_HELLO_CALL, 250);
  int fd = raw_connect(&a);
  /* its CALL may be shorter than ours: the first bytes have to do */
  assert_true(raw_send(fd, bytes, sizeof bytes));
  const char *why = raw_plain_refusal(fd);
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
  unsigned char bytes[DMI_HELLO_FIRST];
  int listener = raw_listen(&addr);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &addr);
  node_run(&a);
  node_send(&a, 2, plain(0));
  int fd = accept(listener, NULL, NULL);
  dmi_hello_put_first(bytes, DMI_HELLO_ANSWER, 9);
  assert_true(raw_send(fd, bytes, sizeof bytes));
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
  assert_true(raw_say(fd, &hello));
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
  char byte;
  node_patience = 0.2;
  node_open(&a, 1);
  node_patience = 0;
  node_run(&a);
  int fd = raw_connect(&a); /* says nothing */
  assert_int_equal(raw_read(fd, &byte, 1), 0);
  struct dmi_hello hello = raw_hello(0);
  int tries = 0;
  do { /* a stranger that does not say what it wants; on a busy machine we may be late ourselves */
    close(fd);
    fd = raw_connect(&a);
  } while ((!raw_say(fd, &hello) || raw_answer(fd) != DMI_HELLO_OK) && ++tries < 50);
  assert_true(tries < 50);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(a.lost_id, a.stranger_id);
  close(fd);
  end(&a);
}

/* How many of these connections the other end has closed. */
static int closed_of(const int *fds, int num) {
  int count = 0;
  char byte;
  for (int i = 0; i < num; i++) {
    ssize_t got = recv(fds[i], &byte, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) count++;
  }
  return count;
}

/* There is room for 256 that have not proved the key; then some make room.  They are no harm to one
 * that has. */
static void test_many_silent(void **state) {
  (void)state;
  enum { MANY = 400, ROOM = 256 };
  struct node a, b, c;
  int fds[MANY];
  join(&a, &b);
  for (int i = 0; i < MANY; i++)
    fds[i] = raw_connect(&a);
  for (int i = 0; closed_of(fds, MANY) < MANY - ROOM; i++) {
    assert_true(i < 100 * node_limit());
    poll(NULL, 0, 10);
  }
  node_open(&c, 0); /* joins while the room is full */
  dmi_net_join(c.net, "127.0.0.1", dmi_net_port(a.net));
  node_run(&c);
  NODE_WAIT(&c, joined_num, 1);
  assert_true(c.joined_ok);
  int closed = closed_of(fds, MANY);
  assert_true(closed >= MANY - ROOM && closed <= MANY - ROOM + 8);
  struct dmi_msg ask = {.type = DMI_CTL_JOIN};
  node_send(&b, b.joined_id, ask);
  node_send(&c, c.joined_id, ask);
  NODE_WAIT(&a, messages, 2);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  node_expect_close(&a);
  node_expect_close(&b);
  node_expect_close(&c);
  end(&c);
  end(&a);
  end(&b);
}

/* A member that sends something malformed loses its connection; others do not. */
static void test_malformed(void **state) {
  (void)state;
  struct node a, b;
  unsigned char bytes[DMI_WIRE_HEADER];
  char byte;
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
  assert_true(raw_say(fd, &hello));
  struct dmi_msg msg = {.type = DMI_MSG_READ};
  dmi_wire_put(bytes, &msg);
  bytes[16] = 1; /* a body, which READ does not have */
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
  assert_int_equal(raw_answer(fd), DMI_HELLO_OK);
  assert_int_equal(raw_read(fd, &byte, 1), 0);
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
  assert_true(raw_say(fd, &hello));
  assert_non_null(strstr(raw_refusal(fd), "lost before"));
  close(fd);
  end(&a);
  end(&b);
}

/* ---- The key -----------------------------------------------------------------------------------
 */

/* Both are told what to do; the joiner did not get so far as to be heard. */
static void test_other_key(void **state) {
  (void)state;
  struct node a, b;
  static const char *const words[] = {"another key", "--key", "~/.dmi/key", "127.0.0.1"};
  node_open(&a, 1);
  node_key[31] = 1;
  node_open(&b, 0);
  node_key[31] = 0;
  check_refused(&a, &b, words, 4, "has another key than this one");
}

/* One that answers without having the key: the caller says nothing of itself. */
static void test_answer_without_key(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES];
  uint8_t other[DMI_KEY_BYTES] = "other";
  struct dmi_proof proof;
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = accept(listener, NULL, NULL);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  assert_false(dmi_proof_called(&proof, other, call));
  dmi_proof_answer(&proof, other, 0, answer);
  assert_true(raw_send(fd, answer, sizeof answer));
  assert_int_equal(raw_read(fd, call, 1), 0);
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "does not have the key"));
  close(fd);
  close(listener);
  end(&b);
}

/* Byte for byte what a true member has said: its CALL is closed without an answer.  On a connection
 * of its own, PROOF and HELLO of another one are worth nothing, either. */
static void test_replay(void **state) {
  (void)state;
  struct node a;
  unsigned char said[RAW_SAID], own[RAW_SAID], call[DMI_CALL_BYTES], byte;
  struct dmi_hello hello = raw_hello(2);
  const struct dmi_addr nowhere = {0};
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &nowhere);
  node_run(&a);
  int first = raw_connect(&a);
  assert_true(raw_call(first, &hello, said));
  memcpy(call, raws[first].proof.said, sizeof call);
  assert_true(raw_send(first, said, sizeof said));
  assert_int_equal(raw_answer(first), DMI_HELLO_OK);
  int again = raw_connect(&a);
  assert_true(raw_send(again, call, sizeof call));
  assert_int_equal(raw_read(again, &byte, 1), 0);
  assert_true(node_wait_log(&a, "repeats what another one has said"));
  close(again);
  again = raw_connect(&a);
  assert_true(raw_call(again, &hello, own));
  assert_true(raw_send(again, said, sizeof said));
  assert_int_equal(raw_read(again, &byte, 1), 0);
  assert_true(node_wait_log(&a, "does not have the key"));
  assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), -1); /* the true one is still there */
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(first);
  close(again);
  end(&a);
}

/* One bit of PROOF or of the sealed HELLO. */
static void test_changed_hello(void **state) {
  (void)state;
  struct node a;
  unsigned char said[RAW_SAID], byte;
  struct dmi_hello hello = raw_hello(0);
  node_open(&a, 1);
  node_run(&a);
  for (size_t at = 0; at < sizeof said; at += 7) {
    int fd = raw_connect(&a);
    assert_true(raw_call(fd, &hello, said));
    said[at] ^= (unsigned char)(1u << at % 8);
    assert_true(raw_send(fd, said, sizeof said));
    assert_int_equal(raw_read(fd, &byte, 1), 0);
    close(fd);
  }
  assert_int_equal(NODE_NOW(&a, strangers), 0);
  end(&a);
}

/* What comes is cut anywhere: nothing happens, and the next one is served. */
static void test_cut_short(void **state) {
  (void)state;
  struct node a;
  unsigned char said[RAW_SAID], call[DMI_CALL_BYTES];
  struct dmi_hello hello = raw_hello(0);
  struct dmi_proof proof;
  node_open(&a, 1);
  node_run(&a);
  dmi_proof_call(&proof, node_key, 0, call);
  for (size_t size = 0; size < sizeof call; size += 3) {
    int fd = raw_connect(&a);
    assert_true(raw_send(fd, call, size));
    close(fd);
  }
  for (size_t size = 0; size < sizeof said; size += 5) {
    int fd = raw_connect(&a);
    assert_true(raw_call(fd, &hello, said));
    assert_true(raw_send(fd, said, size));
    close(fd);
  }
  int fd = raw_connect(&a);
  assert_true(raw_say(fd, &hello));
  assert_int_equal(raw_answer(fd), DMI_HELLO_OK);
  NODE_WAIT(&a, strangers, 1);
  assert_int_equal(NODE_NOW(&a, strangers), 1);
  close(fd);
  end(&a);
}

/* What comes back to a caller is what it has said itself. */
static void test_reflected(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  unsigned char call[DMI_CALL_BYTES];
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = accept(listener, NULL, NULL);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  call[4] = DMI_HELLO_ANSWER;
  assert_true(raw_send(fd, call, sizeof call));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "does not have the key"));
  close(fd);
  close(listener);
  end(&b);
}

/* A connection that ends before a word was said is tried again: the other may be flooded. */
static void test_closed_at_once(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  struct dmi_hello hello;
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  for (int i = 0; i < 3; i++)
    close(accept(listener, NULL, NULL));
  int fd = accept(listener, NULL, NULL);
  assert_true(raw_welcome(fd, 0, &hello));
  assert_int_equal(hello.uid, 0);
  close(fd);
  for (int i = 0; i < 2; i++)
    close(accept(listener, NULL, NULL));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "closed the connection at once"));
  close(listener);
  end(&b);
}

/* In its daemon: `b` joins; right after it has begun to connect, the other end resets the
 * connection, so that it learns of both at once. */
struct resetting {
  struct dmi_addr addr;
  int listener;
  struct ev_timer after;
  sem_t done;
};

static void on_begun(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct resetting *resetting = timer->data;
  struct linger reset = {.l_onoff = 1};
  (void)loop, (void)events;
  int fd = accept(resetting->listener, NULL, NULL);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  close(fd);
  sem_post(&resetting->done);
}

static void run_join_reset(struct node *node, void *arg) {
  struct resetting *resetting = arg;
  dmi_net_join_addr(node->net, &resetting->addr);
  ev_timer_init(&resetting->after, on_begun, 0., 0.); /* behind its own timer */
  resetting->after.data = resetting;
  ev_timer_start(dmi_net_loop(node->net), &resetting->after);
}

static void test_reset_at_once(void **state) {
  (void)state;
  struct node b;
  struct dmi_hello hello;
  struct resetting resetting;
  resetting.listener = raw_listen(&resetting.addr);
  sem_init(&resetting.done, 0, 0);
  node_open(&b, 0);
  node_run(&b);
  node_do(&b, run_join_reset, &resetting);
  sem_wait(&resetting.done);
  struct pollfd again = {.fd = resetting.listener, .events = POLLIN};
  for (int i = 0; i < 10 * node_limit() && poll(&again, 1, 100) == 0; i++)
    assert_int_equal(NODE_NOW(&b, joined_num), 0); /* it has not given up */
  int fd = accept(resetting.listener, NULL, NULL);
  assert_true(raw_welcome(fd, 0, &hello));
  node_expect_close(&b);
  close(fd);
  close(resetting.listener);
  end(&b);
  sem_destroy(&resetting.done);
}

/* Does it say in its ANSWER that everything is sealed? */
static bool says_sealed(struct node *node) {
  unsigned char said[RAW_SAID];
  struct dmi_hello hello = raw_hello(0);
  int fd = raw_connect(node);
  assert_true(raw_call(fd, &hello, said));
  close(fd);
  return (dmi_proof_flags(raws[fd].proof.said + DMI_CALL_BYTES) & DMI_CALL_ENCRYPT) != 0;
}

/* `b` joins `a`, with these settings. */
static void join_mixed(struct node *a, bool a_seals, struct node *b, bool b_seals) {
  struct dmi_addr addr;
  node_encrypt = a_seals;
  node_open(a, 1);
  node_encrypt = b_seals;
  node_open(b, 0);
  node_encrypt = false;
  addr = node_addr(a);
  dmi_net_join_addr(b->net, &addr);
  node_run(a);
  node_run(b);
  NODE_WAIT(b, joined_num, 1);
}

/* The program's setting is that of all who join it. */
static void test_join_sealed(void **state) {
  (void)state;
  for (int seals = 0; seals < 3; seals++) {
    struct node a, b;
    struct dmi_msg ask = {.type = DMI_CTL_JOIN};
    join_mixed(&a, seals != 0, &b, seals == 2);
    assert_true(b.joined_ok);
    NODE_WAIT(&a, strangers, 1);
    node_send(&b, b.joined_id, ask);
    NODE_WAIT(&a, messages, 1);
    assert_int_equal(says_sealed(&a), seals != 0);
    assert_int_equal(says_sealed(&b), seals != 0);
    node_expect_close(&a);
    node_expect_close(&b);
    end(&a);
    end(&b);
  }
}

/* Nobody who asked for it goes on without. */
static void test_no_downgrade(void **state) {
  (void)state;
  struct node a, b;
  join_mixed(&a, false, &b, true);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "runs without encryption"));
  assert_non_null(strstr(b.joined_why, "--encrypt"));
  assert_int_equal(NODE_NOW(&a, strangers), 0);
  end(&a);
  end(&b);
}

/* The flag is part of what is proved: who clears it on the way is noticed. */
static void test_flag_changed(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  struct dmi_proof proof;
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES];
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = accept(listener, NULL, NULL);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  assert_true(dmi_proof_called(&proof, node_key, call));
  dmi_proof_answer(&proof, node_key, DMI_CALL_ENCRYPT, answer);
  answer[40] = 0;
  assert_true(raw_send(fd, answer, sizeof answer));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "does not have the key"));
  close(fd);
  close(listener);
  end(&b);
}

/* ---- Both at once ---------------------------------------------------------------------------- */

static uint64_t order_wrong;

static void check_order(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (msg->op != node->messages || from == node->uid || from > 2) order_wrong++;
}

static void test_both_at_once(void **state) {
  (void)state;
  enum { ROUNDS = 500, COUNT = 5 };
  order_wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    struct node a, b;
    node_encrypt = round % 4 == 3;
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
  node_encrypt = false;
  assert_int_equal(order_wrong, 0);
}

/* The lower uid's attempt should win, but fails: that of the higher uid, held meanwhile, is used.
 */
static void test_winner_fails(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr deaf;
  struct dmi_hello hello = raw_hello(2);
  unsigned char bytes[3 * DMI_WIRE_HEADER];
  int listener = raw_listen(&deaf);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &deaf);
  node_run(&a);
  for (uint64_t i = 0; i < 3; i++)
    node_send(&a, 2, plain(i));
  int theirs = accept(listener, NULL, NULL); /* a's attempt is under way */
  int ours = raw_connect(&a);
  assert_true(raw_say(ours, &hello));
  int mark = raw_connect(&a); /* when a has seen this one, it has seen that HELLO */
  assert_int_equal(send(mark, "?", 1, MSG_NOSIGNAL), 1);
  assert_true(node_wait_log(&a, "does not speak DMI"));
  assert_int_equal(recv(ours, bytes, 1, MSG_DONTWAIT), -1); /* not answered */
  close(theirs);
  close(listener);
  assert_int_equal(raw_answer(ours), DMI_HELLO_OK);
  assert_int_equal(raw_read(ours, bytes, sizeof bytes), sizeof bytes);
  for (int i = 0; i < 3; i++) {
    struct dmi_msg msg;
    assert_null(dmi_wire_get(&msg, bytes + i * DMI_WIRE_HEADER, true));
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
                                     cmocka_unit_test(test_other_key),
                                     cmocka_unit_test(test_answer_without_key),
                                     cmocka_unit_test(test_replay),
                                     cmocka_unit_test(test_changed_hello),
                                     cmocka_unit_test(test_cut_short),
                                     cmocka_unit_test(test_reflected),
                                     cmocka_unit_test(test_closed_at_once),
                                     cmocka_unit_test(test_reset_at_once),
                                     cmocka_unit_test(test_join_sealed),
                                     cmocka_unit_test(test_no_downgrade),
                                     cmocka_unit_test(test_flag_changed),
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
