/*
 * seal_test.c - AES-256-OCB in our records: the bytes are those of RFC 7253, bytes that change
 * meanwhile make no wrong record, and a program may use libgcrypt beside us.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/seal.h"
#include "ocb_reference.h"

#if __has_include(<gcrypt.h>)
#include <gcrypt.h>

/* seal.c and these tests have the numbers of its interface, not its header. */
_Static_assert(GCRY_CIPHER_AES == 7 && GCRY_CIPHER_AES256 == 9 && GCRY_CIPHER_CHACHA20 == 316 &&
                   GCRY_CIPHER_MODE_ECB == 1 && GCRY_CIPHER_MODE_POLY1305 == 10 &&
                   GCRY_CIPHER_MODE_OCB == 11 && GCRYCTL_FINALIZE == 5,
               "seal.c");
_Static_assert(GCRYCTL_INIT_SECMEM == 24 && GCRYCTL_SUSPEND_SECMEM_WARN == 28 &&
                   GCRYCTL_RESUME_SECMEM_WARN == 29 && GCRYCTL_INITIALIZATION_FINISHED == 38 &&
                   GCRYCTL_INITIALIZATION_FINISHED_P == 39,
               "initialize");
#endif

static const unsigned char key[DMI_SEAL_KEY] = "the key of a direction";

static void *library(void) {
  void *loaded = dlopen("libgcrypt.so.20", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(loaded);
  return loaded;
}

/* ---- The bytes ------------------------------------------------------------------------------- */

/* What RFC 7253, appendix A, gives for its program that encrypts all lengths up to 127 bytes. */
static void test_reference(void **state) {
  (void)state;
  static const struct {
    size_t key_size;
    const char *right;
  } both[] = {{16, "\x67\xe9\x44\xd2\x32\x56\xc5\xe0\xb6\xc6\x1f\xa2\x2f\xdf\x1e\xa2"},
              {32, "\xd9\x0e\xb8\xe9\xc9\x77\xc8\x8b\x79\xdd\x79\x3d\x7f\xfa\x16\x1c"}};
  static const unsigned char zero[128];
  static unsigned char all[128 * 3 * (128 + 16)];
  if (!dmi_seal_has_ocb()) skip();
  for (size_t which = 0; which < 2; which++) {
    unsigned char rfc_key[32] = {0}, nonce[12] = {0}, out[16];
    size_t end = 0, number = 1;
    ocb_t ocb;
    rfc_key[both[which].key_size - 1] = 128; /* the tag's bits */
    ocb_begin(&ocb, library(), rfc_key, both[which].key_size);
    for (size_t i = 0; i < 128; i++) {
      const size_t added[3] = {i, 0, i}, size[3] = {i, i, 0};
      for (int j = 0; j < 3; j++, number++) {
        nonce[10] = (unsigned char)(number >> 8);
        nonce[11] = (unsigned char)number;
        ocb_encrypt(&ocb, nonce, zero, added[j], zero, size[j], all + end);
        end += size[j] + 16;
      }
    }
    nonce[10] = (unsigned char)(number >> 8);
    nonce[11] = (unsigned char)number;
    ocb_encrypt(&ocb, nonce, all, end, NULL, 0, out);
    assert_memory_equal(out, both[which].right, 16);
    ocb_end(&ocb);
  }
}

/* A record as docs/wire.md describes it, of any length, from one piece or several, from fixed bytes
 * or others. */
static void test_records(void **state) {
  (void)state;
  static unsigned char plain[DMI_SEAL_MOST], opened[DMI_SEAL_MOST];
  static unsigned char sealed[DMI_SEAL_MOST + DMI_SEAL_OVER], right[sizeof sealed];
  unsigned char input[24] = "DMI aes-256-ocb\0\2"; /* the third part */
  unsigned char part_key[32], nonce[12] = {0};
  uint64_t number = ((uint64_t)2 << 20) + 7;
  ocb_t ocb;
  if (!dmi_seal_has_ocb()) skip();
  randombytes_buf(plain, sizeof plain);
  crypto_generichash(part_key, 32, input, sizeof input, key, 32);
  ocb_begin(&ocb, library(), part_key, 32);
  struct dmi_seal *to = dmi_seal_new(key, number, DMI_CIPHER_OCB);
  struct dmi_seal *from = dmi_seal_new(key, number, DMI_CIPHER_OCB);
  assert_true(to != NULL && from != NULL);
  for (size_t size = 1; size <= DMI_SEAL_MOST; size += size < 300 ? 1 : 4091, number++) {
    const uint32_t length = (uint32_t)size;
    const size_t first = size / 3;
    struct iovec iov[3] = {
        {plain, first}, {plain + first, 1}, {plain + first + 1, size - first - 1}};
    struct iovec whole = {plain, sizeof plain}; /* more than the record */
    memcpy(nonce + 4, &number, 8);
    memcpy(right, &length, 4);
    ocb_encrypt(&ocb, nonce, right, 4, plain, size, right + 4);
    if (size % 3 == 0)
      dmi_seal_put(to, sealed, iov, 3, size, size % 2 == 0);
    else
      dmi_seal_put(to, sealed, &whole, 1, size, size % 3 == 1);
    assert_memory_equal(sealed, right, size + DMI_SEAL_OVER);
    assert_true(dmi_seal_get(from, opened, sealed));
    assert_memory_equal(opened, plain, size);
  }
  dmi_seal_free(to);
  dmi_seal_free(from);
  ocb_end(&ocb);
}

/* The same record by OpenSSL 3.0, which shares nothing with libgcrypt. */
static void test_other_library(void **state) {
  (void)state;
  static const unsigned char right[] =
      "\x64\x00\x00\x00\xec\x1f\x32\x80\xe8\x81\x0f\xe1\x1c\xc6\x71\x11"
      "\xe2\x9a\x17\xda\x31\x42\x11\x9b\xdf\x1c\xa2\x88\x99\xdb\x5f\x10"
      "\x80\x74\x3a\x1d\x8a\xeb\xa9\x14\x79\xc5\x0c\x1a\x4f\xb4\xe4\x8b"
      "\xc9\xa0\x46\x7f\xde\xce\xc0\xc6\xd6\x1b\x48\x7a\x80\x36\x5c\xec"
      "\xa4\xf4\xad\x2e\x2a\x51\x11\x48\x08\xc6\xfd\x5e\xe5\x72\x87\x94"
      "\x81\xb1\xbc\x68\x17\xe3\x48\x43\xa4\xe1\x49\xf0\xed\x4e\x80\xc3"
      "\x00\xe3\x54\x98\xd5\xad\x83\x68\xd3\x7e\x98\x92\x9d\x07\xae\xaa"
      "\x25\x0f\xe5\x24\x6d\x28\xdd\x95";
  unsigned char sealed[100 + DMI_SEAL_OVER], plain[100];
  struct iovec iov = {plain, sizeof plain};
  if (!dmi_seal_has_ocb()) skip();
  for (size_t i = 0; i < sizeof plain; i++)
    plain[i] = (unsigned char)(i * 7);
  struct dmi_seal *seal = dmi_seal_new(key, 77, DMI_CIPHER_OCB);
  dmi_seal_put(seal, sealed, &iov, 1, sizeof plain, true);
  dmi_seal_free(seal);
  assert_memory_equal(sealed, right, sizeof sealed);
}

/* ---- Bytes that change meanwhile ------------------------------------------------------------- */

#ifndef __SANITIZE_THREAD__ /* that is a race, and meant to be one */
static volatile unsigned char shared[DMI_SEAL_MOST];
static atomic_bool over;
static atomic_long rounds; /* of the thread that changes them */

static void *change(void *none) {
  while (!atomic_load(&over)) {
    for (size_t i = 0; i < sizeof shared; i += 64)
      shared[i]++;
    atomic_fetch_add(&rounds, 1);
  }
  return none;
}

/* Seals from there, and opens to there, until the other thread has changed the bytes often. Every
 * record is authentic, of whichever bytes. */
static void test_changing(void **state) {
  (void)state;
  static unsigned char sealed[DMI_SEAL_MOST + DMI_SEAL_OVER], copy[sizeof sealed];
  static unsigned char opened[DMI_SEAL_MOST];
  struct iovec iov = {(void *)(uintptr_t)shared, sizeof shared};
  pthread_t thread;
  for (int cipher = 0; cipher < DMI_CIPHERS; cipher++) {
    if (cipher == DMI_CIPHER_OCB && !dmi_seal_has_ocb()) continue;
    struct dmi_seal *to = dmi_seal_new(key, 0, (enum dmi_cipher)cipher);
    struct dmi_seal *from = dmi_seal_new(key, 0, (enum dmi_cipher)cipher);
    struct dmi_seal *into = dmi_seal_new(key, 0, (enum dmi_cipher)cipher);
    atomic_store(&over, false);
    atomic_store(&rounds, 0);
    assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
    for (int i = 0; i < 500 || atomic_load(&rounds) < 500; i++) {
      dmi_seal_put(to, sealed, &iov, 1, sizeof shared, false);
      memcpy(copy, sealed, sizeof copy);
      assert_true(dmi_seal_get(from, opened, copy));
      assert_true(dmi_seal_get(into, iov.iov_base, sealed));
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    dmi_seal_free(to);
    dmi_seal_free(from);
    dmi_seal_free(into);
  }
}
#else
static void test_changing(void **state) {
  (void)state;
  skip();
}
#endif

/* ---- A program that uses libgcrypt, too ------------------------------------------------------ */

/* As libgcrypt's manual tells an application to begin, with secure memory. True: all went well. */
static bool initialize(void) {
  const char *(*check_version)(const char *);
  unsigned (*control)(int, ...);
  void *(*malloc_secure)(size_t);
  void (*release)(void *);
  void *loaded = library();
  *(void **)&check_version = dlsym(loaded, "gcry_check_version");
  *(void **)&control = dlsym(loaded, "gcry_control");
  *(void **)&malloc_secure = dlsym(loaded, "gcry_malloc_secure");
  *(void **)&release = dlsym(loaded, "gcry_free");
  if (check_version("1.8.0") == NULL) return false;
  if (control(39) != 0) return true; /* GCRYCTL_INITIALIZATION_FINISHED_P: somebody did it */
  (void)control(28);                 /* SUSPEND_SECMEM_WARN */
  if (control(24, 16384, 0) != 0) return false; /* INIT_SECMEM */
  (void)control(29);                            /* RESUME_SECMEM_WARN */
  if (control(38, 0) != 0) return false;        /* INITIALIZATION_FINISHED */
  void *bytes = malloc_secure(100);
  release(bytes);
  return bytes != NULL && control(39) != 0;
}

static bool seals(void) {
  unsigned char sealed[100 + DMI_SEAL_OVER], opened[100];
  struct iovec iov = {(void *)(uintptr_t)key, sizeof key};
  struct dmi_seal *to = dmi_seal_new(key, 1, DMI_CIPHER_OCB);
  struct dmi_seal *from = dmi_seal_new(key, 1, DMI_CIPHER_OCB);
  dmi_seal_put(to, sealed, &iov, 1, sizeof key, true);
  const bool good = dmi_seal_get(from, opened, sealed);
  dmi_seal_free(to);
  dmi_seal_free(from);
  return good;
}

/* In a process of its own, where nobody has loaded libgcrypt: returns the child's status; -1: it
 * has printed something. */
static int in_child(bool (*first)(void), bool (*second)(void)) {
  int pipes[2], status;
  char printed[200];
  assert_int_equal(pipe(pipes), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    close(pipes[0]);
    close(pipes[1]);
    _exit(first() && second() && first() ? 0 : 1);
  }
  close(pipes[1]);
  ssize_t size = read(pipes[0], printed, sizeof printed - 1);
  close(pipes[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (size == 0) return status;
  printed[size > 0 ? size : 0] = '\0';
  print_message("printed: %s\n", printed);
  return -1;
}

static bool has_and_seals(void) {
  return dmi_seal_has_ocb() && seals();
}

static bool only_has(void) {
  return dmi_seal_has_ocb();
}

/* Before any other test, as what is loaded stays loaded. */
static void test_beside_a_program(void **state) {
  (void)state;
  if (in_child(only_has, only_has) != 0) skip();
  assert_int_equal(in_child(initialize, has_and_seals), 0);
  assert_int_equal(in_child(has_and_seals, initialize), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside_a_program), cmocka_unit_test(test_reference),
      cmocka_unit_test(test_records), cmocka_unit_test(test_other_library),
      cmocka_unit_test(test_changing)};
  if (sodium_init() < 0) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
