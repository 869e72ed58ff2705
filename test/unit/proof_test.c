/*
 * proof_test.c - only those who know the key pass; a record is opened exactly as it was sealed, or
 * not at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/proof.h"
#include "net/seal.h"
#include "msg/wire.h"

static const uint8_t key[DMI_KEY_BYTES] = "the key", other_key[DMI_KEY_BYTES] = "the kez";

/* ---- CALL, ANSWER, PROOF -------------------------------------------------------------------- */

/* Both ends of one connection, and the messages that they have sent. */
struct talk {
  struct dmi_proof caller, listener;
  struct dmi_proof_keys caller_keys, listener_keys;
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES], proof[DMI_PROOF_BYTES];
};

static void hold_talk_with(struct talk *talk, uint8_t caller, uint8_t listener) {
  memset(talk, 0, sizeof *talk);
  dmi_proof_call(&talk->caller, key, caller, talk->call);
  assert_true(dmi_proof_called(&talk->listener, key, talk->call));
  dmi_proof_answer(&talk->listener, key, listener, talk->answer);
  assert_true(dmi_proof_answered(&talk->caller, key, talk->answer));
  assert_true(dmi_proof_make(&talk->caller, key, talk->proof, &talk->caller_keys));
}

static void hold_talk(struct talk *talk) {
  hold_talk_with(talk, 0, DMI_CALL_ENCRYPT);
}

static bool ends_well(struct talk *talk) {
  return dmi_proof_check(&talk->listener, key, talk->proof, &talk->listener_keys);
}

static void test_right(void **state) {
  (void)state;
  static const unsigned char none[32];
  struct talk a, b;
  hold_talk(&a);
  assert_true(ends_well(&a));
  assert_int_equal(dmi_proof_flags(a.call), 0);
  assert_int_equal(dmi_proof_flags(a.answer), DMI_CALL_ENCRYPT);
  assert_memory_equal(a.caller_keys.out, a.listener_keys.in, 32);
  assert_memory_equal(a.caller_keys.in, a.listener_keys.out, 32);
  assert_memory_not_equal(a.caller_keys.in, a.caller_keys.out, 32);
  assert_memory_not_equal(a.caller_keys.in, none, 32);
  assert_memory_equal(a.caller.secret, none, 32); /* the secret keys are deleted */
  assert_memory_equal(a.listener.secret, none, 32);
  hold_talk(&b);
  assert_true(ends_well(&b));
  assert_memory_not_equal(a.caller_keys.in, b.caller_keys.in, 32);
  assert_memory_not_equal(a.caller_keys.out, b.caller_keys.out, 32);
}

static void test_other_key(void **state) {
  (void)state;
  struct talk a;
  struct dmi_proof_keys keys;
  unsigned char proof[DMI_PROOF_BYTES];
  dmi_proof_call(&a.caller, other_key, 0, a.call);
  assert_false(dmi_proof_called(&a.listener, key, a.call));
  hold_talk(&a);
  assert_false(dmi_proof_answered(&a.caller, other_key, a.answer));
  hold_talk(&a); /* an attacker that has CALL, ANSWER and everything but the key */
  struct dmi_proof thief = a.caller;
  assert_true(dmi_proof_make(&thief, other_key, proof, &keys));
  assert_false(dmi_proof_check(&a.listener, key, proof, &keys));
}

/* Messages of one connection are useless on another one. */
static void test_replay(void **state) {
  (void)state;
  struct talk a, b;
  struct dmi_proof again;
  struct dmi_proof_keys keys;
  unsigned char answer[DMI_ANSWER_BYTES];
  hold_talk(&a);
  assert_true(dmi_proof_called(&again, key, a.call)); /* a replay cannot be noticed at this point */
  dmi_proof_answer(&again, key, 0, answer);
  assert_memory_not_equal(answer, a.answer, sizeof answer);
  assert_false(dmi_proof_check(&again, key, a.proof, &keys));
  hold_talk(&b);
  assert_false(dmi_proof_answered(&b.caller, key, a.answer));
  assert_false(dmi_proof_check(&b.listener, key, a.proof, &keys));
}

/* A message of one end is not accepted as the other's. */
static void test_reflection(void **state) {
  (void)state;
  struct talk a;
  struct dmi_proof mirror;
  struct dmi_proof_keys keys;
  unsigned char turned[DMI_CALL_BYTES];
  hold_talk(&a);
  assert_false(dmi_proof_answered(&a.caller, key, a.call));
  assert_false(dmi_proof_called(&mirror, key, a.answer));
  memcpy(turned, a.call, sizeof turned); /* with the other's name, too */
  turned[4] = DMI_HELLO_ANSWER;
  assert_false(dmi_proof_answered(&a.caller, key, turned));
  memcpy(turned, a.answer, sizeof turned);
  turned[4] = DMI_HELLO_CALL;
  assert_false(dmi_proof_called(&mirror, key, turned));
  assert_false(dmi_proof_check(&a.listener, key, a.call + 48, &keys));
  assert_false(dmi_proof_check(&a.listener, key, a.answer + 48, &keys));
}

/* One changed bit anywhere in any of the three. */
static void test_bits(void **state) {
  (void)state;
  struct talk a;
  struct dmi_proof proof;
  struct dmi_proof_keys keys;
  hold_talk(&a);
  for (size_t bit = 0; bit < 8 * DMI_CALL_BYTES; bit++) {
    unsigned char mask = (unsigned char)(1u << bit % 8);
    a.call[bit / 8] ^= mask;
    assert_false(dmi_proof_called(&proof, key, a.call));
    a.call[bit / 8] ^= mask;
    proof = a.caller;
    a.answer[bit / 8] ^= mask;
    assert_false(dmi_proof_answered(&proof, key, a.answer));
    a.answer[bit / 8] ^= mask;
  }
  for (size_t bit = 0; bit < 8 * DMI_PROOF_BYTES; bit++) {
    proof = a.listener;
    a.proof[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert_false(dmi_proof_check(&proof, key, a.proof, &keys));
    a.proof[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  assert_true(ends_well(&a));
}

/* Nobody between the two can put in public keys that make every shared secret the same, since
 * public keys are proved; a member that sends such a key is refused. */
static void test_weak_public_key(void **state) {
  (void)state;
  struct talk a;
  memset(&a, 0, sizeof a);
  dmi_proof_call(&a.caller, key, 0, a.call);
  assert_true(dmi_proof_called(&a.listener, key, a.call));
  dmi_proof_answer(&a.listener, key, 0, a.answer);
  memset(a.caller.said + DMI_CALL_BYTES, 0, DMI_ANSWER_BYTES);
  assert_false(dmi_proof_make(&a.caller, key, a.proof, &a.caller_keys));
}

/* AES-256-OCB if both can; both ends choose the same. */
static void test_cipher(void **state) {
  (void)state;
  for (unsigned flags = 0; flags < 16; flags++) {
    struct talk a;
    const uint8_t caller = flags & 3u, listener = (uint8_t)(flags >> 2);
    const enum dmi_cipher right =
        (caller & listener & DMI_CALL_OCB) != 0 ? DMI_CIPHER_OCB : DMI_CIPHER_CHACHA;
    hold_talk_with(&a, caller, listener);
    assert_true(ends_well(&a));
    assert_int_equal(a.caller_keys.cipher, right);
    assert_int_equal(a.listener_keys.cipher, right);
  }
}

/* ---- Records -------------------------------------------------------------------------------- */

#define MANY 200

static const unsigned char seal_key[DMI_SEAL_KEY] = "seal";

struct records {
  unsigned char plain[MANY][300];
  unsigned char sealed[MANY][300 + DMI_SEAL_OVER];
  size_t size[MANY];
};

static void seal_all(struct records *records, struct dmi_seal *seal) {
  for (int i = 0; i < MANY; i++) {
    size_t size = records->size[i] = 1 + (size_t)i * 37 % 300, half = size / 3;
    randombytes_buf(records->plain[i], size);
    struct iovec iov[2] = {{records->plain[i], half}, {records->plain[i] + half, size - half}};
    dmi_seal_put(seal, records->sealed[i], iov, 2, size, i % 2 != 0);
    assert_int_equal(dmi_seal_size(records->sealed[i]), size);
  }
  dmi_seal_free(seal);
}

static void open_all(struct records *records, struct dmi_seal *seal) {
  unsigned char out[300];
  for (int i = 0; i < MANY; i++) {
    assert_true(dmi_seal_get(seal, out, records->sealed[i]));
    assert_memory_equal(out, records->plain[i], records->size[i]);
  }
  dmi_seal_free(seal);
}

static enum dmi_cipher cipher; /* that the tests of records use */

static struct dmi_seal *new_seal_at(bool plainly, uint64_t records) {
  dmi_seal_plainly(plainly);
  struct dmi_seal *seal = dmi_seal_new(seal_key, records, cipher);
  dmi_seal_plainly(false);
  assert_non_null(seal);
  return seal;
}

static struct dmi_seal *new_seal(bool plainly) {
  return new_seal_at(plainly, 0);
}

/* A record that one library has sealed can be opened by the other; only one has AES-256-OCB. */
static void test_both_libraries(void **state) {
  (void)state;
  static struct records records;
  for (int i = 0; i < 4; i++) {
    seal_all(&records, new_seal(i & 1));
    open_all(&records, new_seal(i & 2));
  }
  if (cipher == DMI_CIPHER_OCB) return;
  seal_all(&records, new_seal(true));
  unsigned char first[300 + DMI_SEAL_OVER], out[300];
  dmi_seal_put_first(seal_key, first, records.plain[0], records.size[0]);
  assert_memory_equal(first, records.sealed[0], records.size[0] + DMI_SEAL_OVER);
  assert_true(dmi_seal_get_first(seal_key, out, first));
  assert_false(dmi_seal_get_first(seal_key, out, records.sealed[1]));
  print_message("by %s\n", dmi_seal_by());
}

/* Checks what docs/wire.md says of the nonce and the proof, with another interface of libsodium.
 */
static void test_layout(void **state) {
  (void)state;
  static const unsigned char nonce[12] = {0, 0, 0, 0, 7};
  unsigned char sealed[20 + DMI_SEAL_OVER], text[20], tag[16];
  struct dmi_seal *seal = dmi_seal_new(seal_key, 7, DMI_CIPHER_CHACHA);
  struct iovec iov = {"twenty bytes of text", 20};
  dmi_seal_put(seal, sealed, &iov, 1, 20, true);
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      text, tag, NULL, (const unsigned char *)"twenty bytes of text", 20,
      (const unsigned char *)"\x14\0\0\0", 4, NULL, nonce, seal_key);
  assert_memory_equal(sealed, "\x14\0\0\0", 4);
  assert_memory_equal(sealed + 4, text, 20);
  assert_memory_equal(sealed + 24, tag, 16);
  dmi_seal_free(seal);
}

/* AES-256-OCB has another key from one record to the next, at both ends at once. */
static void test_next_key(void **state) {
  (void)state;
  static const uint64_t last = 3 * DMI_SEAL_OCB_RECORDS - 1;
  unsigned char sealed[3][20 + DMI_SEAL_OVER], again[20 + DMI_SEAL_OVER], out[20];
  struct iovec iov = {"twenty bytes of text", 20};
  if (!dmi_seal_has_ocb()) skip();
  cipher = DMI_CIPHER_OCB;
  struct dmi_seal *to = new_seal_at(false, last - 1), *from = new_seal_at(false, last - 1);
  for (int j = 0; j < 3; j++) {
    dmi_seal_put(to, sealed[j], &iov, 1, 20, true);
    memcpy(again, sealed[j], sizeof again); /* opening may change it */
    memset(out, 0, sizeof out);
    assert_true(dmi_seal_get(from, out, again));
    assert_memory_equal(out, iov.iov_base, 20);
  }
  dmi_seal_free(to);
  dmi_seal_free(from);
  to = new_seal_at(false, last + 1); /* begins with the next key */
  dmi_seal_put(to, again, &iov, 1, 20, true);
  assert_memory_equal(again, sealed[2], sizeof again);
  dmi_seal_free(to);
}

/* Opening one that is not authentic destroys it, so a copy is opened. */
static bool opens(struct dmi_seal *seal, const struct records *records, int which) {
  unsigned char copy[300 + DMI_SEAL_OVER], out[300];
  memcpy(copy, records->sealed[which], sizeof copy);
  return dmi_seal_get(seal, out, copy);
}

/* A changed bit, a record twice, one left out, two exchanged, one of another connection. */
static void test_tampering(void **state) {
  (void)state;
  static struct records records;
  unsigned char out[DMI_SEAL_MOST], copy[300 + DMI_SEAL_OVER];
  for (int plainly = 0; plainly < 2; plainly++) {
    struct dmi_seal *seal;
    seal_all(&records, new_seal(plainly));
    size_t whole = records.size[3] + DMI_SEAL_OVER;
    for (size_t bit = 0; bit < 8 * whole; bit++) {
      memcpy(copy, records.sealed[3], whole);
      copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
      if (dmi_seal_size(copy) > records.size[3]) continue; /* needs more bytes than there are */
      seal = dmi_seal_new(seal_key, 3, cipher);
      assert_false(dmi_seal_get(seal, out, copy));
      dmi_seal_free(seal);
    }
    seal = dmi_seal_new(seal_key, 0, cipher);
    assert_true(opens(seal, &records, 0));
    assert_false(opens(seal, &records, 0)); /* twice */
    dmi_seal_free(seal);
    seal = dmi_seal_new(seal_key, 0, cipher);
    assert_true(opens(seal, &records, 0));
    assert_false(opens(seal, &records, 2)); /* one left out */
    dmi_seal_free(seal);
    seal = dmi_seal_new(other_key, 0, cipher);
    assert_false(opens(seal, &records, 0));
    dmi_seal_free(seal);
  }
}

static void test_lengths(void **state) {
  (void)state;
  static unsigned char plain[DMI_SEAL_MOST], out[DMI_SEAL_MOST];
  static unsigned char sealed[DMI_SEAL_MOST + DMI_SEAL_OVER];
  unsigned char length[4] = {0};
  assert_int_equal(dmi_seal_size(length), 0);
  uint32_t most = DMI_SEAL_MOST + 1;
  memcpy(length, &most, 4);
  assert_int_equal(dmi_seal_size(length), 0);
  memset(length, 0xff, 4);
  assert_int_equal(dmi_seal_size(length), 0);
  randombytes_buf(plain, sizeof plain);
  for (int plainly = 0; plainly < 2; plainly++) {
    struct dmi_seal *in = new_seal(plainly), *from = new_seal(!plainly);
    struct iovec iov = {plain, sizeof plain};
    dmi_seal_put(from, sealed, &iov, 1, sizeof plain, plainly);
    assert_true(dmi_seal_get(in, out, sealed));
    assert_memory_equal(out, plain, sizeof plain);
    dmi_seal_free(in);
    dmi_seal_free(from);
  }
}

/* ---- What sealing leaves behind in the processor -------------------------------------------- */

#define TIMES 5

static int by_time(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* Seconds that a loop of pow() takes, the median of several. */
static double pow_seconds(void) {
  double seconds[TIMES];
  for (int i = 0; i < TIMES; i++) {
    struct timespec from, to;
    volatile double sum = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int j = 0; j < 100000; j++)
      sum = sum + pow(1.0001, j * 0.01);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    seconds[i] = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
  }
  qsort(seconds, TIMES, sizeof(double), by_time);
  return seconds[TIMES / 2];
}

static void *pow_thread(void *seconds) {
  *(double *)seconds = pow_seconds();
  return NULL;
}

/* Checks the time in this thread, and in one that it makes. */
static void assert_quick(double usual, const char *after) {
  double here = pow_seconds(), there = 0;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, pow_thread, &there), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  print_message("%s: %.2f times as long, %.2f in a new thread\n", after, here / usual,
                there / usual);
  assert_true(here < 3 * usual);
  assert_true(there < 3 * usual);
}

struct bystander {
  pthread_barrier_t meet;
  double before, after;
};

static void *bystander_run(void *arg) {
  struct bystander *one = arg;
  one->before = pow_seconds();
  pthread_barrier_wait(&one->meet); /* the main thread seals */
  pthread_barrier_wait(&one->meet);
  one->after = pow_seconds();
  return NULL;
}

/* Vector registers in a bad state would make the thread's own floating-point code slow: see seal.c.
 */
static void test_vectors(void **state) {
  static unsigned char plain[4000], sealed[4000 + DMI_SEAL_OVER], out[4000];
  const size_t sizes[] = {1, 64, 700, sizeof plain};
  struct bystander one = {.after = 0};
  pthread_t thread;
  double usual;
  (void)state;
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx")) {
    print_message("this processor has no AVX: nothing can be left dirty\n");
    skip();
  }
#else
  print_message("not an x86-64 processor: nothing can be left dirty\n");
  skip();
#endif
  usual = pow_seconds();
  assert_int_equal(pthread_barrier_init(&one.meet, NULL, 2), 0);
  assert_int_equal(pthread_create(&thread, NULL, bystander_run, &one), 0);
  pthread_barrier_wait(&one.meet);
  for (int plainly = 0; plainly < 2; plainly++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      struct dmi_seal *to = new_seal(plainly), *from = new_seal(plainly);
      struct iovec iov = {plain, sizes[i]};
      assert_quick(usual, "new");
      dmi_seal_put(to, sealed, &iov, 1, sizes[i], true);
      assert_quick(usual, "sealed");
      assert_true(dmi_seal_get(from, out, sealed));
      assert_quick(usual, "opened");
      dmi_seal_free(to);
      dmi_seal_free(from);
      assert_quick(usual, "freed");
    }
  }
  dmi_seal_put_first(seal_key, sealed, plain, sizeof plain);
  assert_quick(usual, "sealed first");
  assert_true(dmi_seal_get_first(seal_key, out, sealed));
  assert_quick(usual, "opened first");
  pthread_barrier_wait(&one.meet);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_barrier_destroy(&one.meet);
  assert_true(one.after < 3 * one.before);
}

static int use_chacha(void **state) {
  (void)state;
  cipher = DMI_CIPHER_CHACHA;
  return 0;
}

static int use_ocb(void **state) {
  (void)state;
  cipher = DMI_CIPHER_OCB;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_right),   cmocka_unit_test(test_other_key),
      cmocka_unit_test(test_replay),  cmocka_unit_test(test_reflection),
      cmocka_unit_test(test_bits),    cmocka_unit_test(test_weak_public_key),
      cmocka_unit_test(test_cipher),  cmocka_unit_test(test_layout),
      cmocka_unit_test(test_next_key)};
  const struct CMUnitTest each[] = {cmocka_unit_test(test_both_libraries),
                                    cmocka_unit_test(test_tampering),
                                    cmocka_unit_test(test_lengths), cmocka_unit_test(test_vectors)};
  int failed;
  if (sodium_init() < 0) return 1;
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  failed += cmocka_run_group_tests_name("records of ChaCha20-Poly1305", each, use_chacha, NULL);
  if (dmi_seal_has_ocb())
    failed += cmocka_run_group_tests_name("records of AES-256-OCB", each, use_ocb, NULL);
  return failed;
}
