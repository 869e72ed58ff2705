/*
 * futex.h - waiting for a 32-bit word to change, without a lock object.
 */
#ifndef DMI_BASE_FUTEX_H
#define DMI_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == value; may return early. */
static inline void dmi_futex_wait(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* The same, for at most `ns` nanoseconds (less than a second). */
static inline void dmi_futex_wait_for(_Atomic uint32_t *word, uint32_t value, int64_t ns) {
  struct timespec most = {0, ns};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

extern __thread uint64_t dmi_wakes; /* how often this thread has woken others, here or elsewhere */

/* Wakes up to `count` sleepers. Does not access the word, which may be freed already. */
static inline void dmi_futex_wake(_Atomic uint32_t *word, int count) {
  dmi_wakes++;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* The same for a word in memory that processes share. */
static inline void dmi_futex_wait_shared(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

/* At most so long. */
static inline void dmi_futex_wait_shared_for(_Atomic uint32_t *word, uint32_t value, int64_t ns) {
  struct timespec most = {ns / 1000000000, ns % 1000000000};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static inline void dmi_futex_wake_shared(_Atomic uint32_t *word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

#endif
