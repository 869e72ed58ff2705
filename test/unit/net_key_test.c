/*
 * net_key_test.c - without the key nobody learns anything or gets in: another key, replayed,
 * changed, shortened and reflected bytes; with and without encryption.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ev.h>
#include <semaphore.h>

#include "net_pair.h"

/* Both say what to do; nothing of the joiner was read. */
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

/* A process answers without having the key: the caller tells it nothing. */
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
  int fd = raw_accept(listener);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  assert_false(dmi_proof_called(&proof, other, call));
  dmi_proof_answer(&proof, other, 0, answer);
  assert_true(raw_send(fd, answer, sizeof answer));
  assert_true(raw_closed(fd));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "does not have the key"));
  close(fd);
  close(listener);
  end(&b);
}

/* Replays all bytes of a real member: its CALL is closed without an answer.  On a new connection
 * PROOF and HELLO of another one are useless, too. */
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
  assert_true(raw_closed(again));
  assert_true(node_wait_log(&a, "repeats the beginning of another connection"));
  close(again);
  again = raw_connect(&a);
  assert_true(raw_call(again, &hello, own));
  assert_true(raw_send(again, said, sizeof said));
  assert_true(raw_closed(again));
  assert_true(node_wait_log(&a, "does not have the key"));
  assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), -1); /* the real one is still open */
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(first);
  close(again);
  end(&a);
}

/* One bit of PROOF or of the sealed HELLO is changed. */
static void test_changed_hello(void **state) {
  (void)state;
  struct node a;
  unsigned char said[RAW_SAID];
  struct dmi_hello hello = raw_hello(0);
  node_open(&a, 1);
  node_run(&a);
  for (size_t at = 0; at < sizeof said; at += 7) {
    int fd = raw_connect(&a);
    assert_true(raw_call(fd, &hello, said));
    said[at] ^= (unsigned char)(1u << at % 8);
    assert_true(raw_send(fd, said, sizeof said));
    assert_true(raw_closed(fd));
    close(fd);
  }
  assert_int_equal(NODE_NOW(&a, strangers), 0);
  end(&a);
}

/* The bytes end at any place: nothing happens, and the next connection works. */
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

/* The caller gets its own bytes back. */
static void test_reflected(void **state) {
  (void)state;
  struct node b;
  struct dmi_addr addr;
  unsigned char call[DMI_CALL_BYTES];
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = raw_accept(listener);
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

/* A connection that is closed before any byte came is tried again: the other may be flooded. */
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
    close(raw_accept(listener));
  int fd = raw_accept(listener);
  assert_true(raw_welcome(fd, 0, &hello));
  assert_int_equal(hello.uid, 0);
  close(fd);
  for (int i = 0; i < 2; i++)
    close(raw_accept(listener));
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  assert_non_null(strstr(b.joined_why, "closed the connection at once"));
  close(listener);
  end(&b);
}

/* In b's daemon: `b` joins; just after it has begun to connect, the other end resets the
 * connection, so that `b` notices both at the same time. */
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
  int fd = raw_accept(resetting->listener);
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
  int fd = raw_accept(resetting.listener);
  assert_true(raw_welcome(fd, 0, &hello));
  node_expect_close(&b);
  close(fd);
  close(resetting.listener);
  end(&b);
  sem_destroy(&resetting.done);
}

/* True if its ANSWER says that everything is sealed. */
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

/* All processes that join take the program's setting. */
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

/* A process that asked for encryption does not go on without it. */
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

/* The flag is part of what is proved: it is noticed if somebody clears it on the way. */
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
  int fd = raw_accept(listener);
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

/* ---- Which cipher --------------------------------------------------------------------------- */

/* The flags of a joiner's CALL. */
static uint8_t flags_of_call(void) {
  struct node b;
  struct dmi_addr addr;
  unsigned char call[DMI_CALL_BYTES];
  int listener = raw_listen(&addr);
  node_open(&b, 0);
  dmi_net_join_addr(b.net, &addr);
  node_run(&b);
  int fd = raw_accept(listener);
  assert_int_equal(raw_read(fd, call, sizeof call), sizeof call);
  close(fd);
  close(listener);
  end(&b);
  return dmi_proof_flags(call);
}

/* CALL and ANSWER say what this process can, whether it seals or not. */
static void test_cipher_offered(void **state) {
  (void)state;
  const uint8_t can = dmi_seal_has_ocb() ? DMI_CALL_OCB : 0;
  assert_int_equal(flags_of_call(), can);
  node_encrypt = true;
  assert_int_equal(flags_of_call(), can | DMI_CALL_ENCRYPT);
  dmi_seal_without_ocb(true);
  assert_int_equal(flags_of_call(), DMI_CALL_ENCRYPT);
  dmi_seal_without_ocb(false);
  node_encrypt = false;
}

/* A stranger connects with these flags and says JOIN in a record of this cipher.  True: it was
 * opened; false: the connection was closed. */
static bool opens(uint8_t flags, enum dmi_cipher cipher) {
  struct node a;
  struct dmi_hello hello = raw_hello(0);
  struct dmi_msg join = {.type = DMI_CTL_JOIN};
  unsigned char said[RAW_SAID], header[DMI_WIRE_HEADER], rest;
  unsigned char record[DMI_WIRE_HEADER + DMI_SEAL_OVER];
  struct iovec iov = {header, sizeof header};
  node_encrypt = true;
  node_open(&a, 1);
  node_encrypt = false;
  node_run(&a);
  int fd = raw_connect(&a);
  assert_true(raw_call_with(fd, flags, &hello, said) && raw_send(fd, said, sizeof said));
  assert_int_equal(raw_answer(fd), DMI_HELLO_OK);
  struct dmi_seal *seal = dmi_seal_new(raws[fd].keys.out, 1, cipher);
  assert_non_null(seal);
  dmi_wire_put(header, &join);
  dmi_seal_put(seal, record, &iov, 1, sizeof header, true);
  dmi_seal_free(seal);
  assert_true(raw_send(fd, record, sizeof record));
  shutdown(fd, SHUT_WR);
  while (raw_read(fd, &rest, 1) == 1)
    continue; /* until it has closed */
  const bool opened = NODE_NOW(&a, messages) == 1;
  close(fd);
  end(&a);
  return opened;
}

/* A record of AES-256-OCB is opened if both have said that they can, and no other record then. */
static void test_cipher_used(void **state) {
  (void)state;
  if (!dmi_seal_has_ocb()) skip();
  assert_true(opens(0, DMI_CIPHER_CHACHA));
  assert_false(opens(0, DMI_CIPHER_OCB));
  assert_true(opens(DMI_CALL_OCB, DMI_CIPHER_OCB));
  assert_false(opens(DMI_CALL_OCB, DMI_CIPHER_CHACHA));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_other_key),      cmocka_unit_test(test_answer_without_key),
      cmocka_unit_test(test_replay),         cmocka_unit_test(test_changed_hello),
      cmocka_unit_test(test_cut_short),      cmocka_unit_test(test_reflected),
      cmocka_unit_test(test_closed_at_once), cmocka_unit_test(test_reset_at_once),
      cmocka_unit_test(test_join_sealed),    cmocka_unit_test(test_no_downgrade),
      cmocka_unit_test(test_flag_changed),   cmocka_unit_test(test_cipher_offered),
      cmocka_unit_test(test_cipher_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
