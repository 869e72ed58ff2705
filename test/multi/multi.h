/*
 * multi.h - what the test programs share: checks that count, a crew of processes, barriers.
 *
 * A program prints `FAIL file:line: ...` per check that failed and at its end a verdict line
 *   verdict NAME: 1234 checks, 0 failed
 * which its script asserts on.  Checks may be made in any thread of any process; each process
 * counts its own.  check_report() adds the counts of a thread's process to a page of the program.
 */
#ifndef TEST_MULTI_H
#define TEST_MULTI_H

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "dmi_api.h"

/* ---- Checks -------------------------------------------------------------------------------- */

static _Atomic int64_t checks_done, checks_failed; /* in this process */

__attribute__((format(printf, 4, 5), unused)) static bool check_that(bool good, const char *file,
                                                                     int line, const char *format,
                                                                     ...) {
  va_list args;
  char text[1024];
  atomic_fetch_add(&checks_done, 1);
  if (good) return true;
  /* A loop that fails a million times says it twenty times. */
  if (atomic_fetch_add(&checks_failed, 1) >= 20) return false;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  printf("FAIL %s:%d: %s\n", file, line, text);
  fflush(stdout);
  return false;
}

#define AT __FILE__, __LINE__

/* The condition holds. */
#define IS(condition) check_that((condition), AT, "%s", #condition)

/* The call returns DMI_TRUE. */
#define OK(call)                                                                              \
  __extension__({                                                                             \
    int32_t check_ret = (call);                                                               \
    check_that(check_ret == DMI_TRUE, AT, "%s: returned %d, errno %d (%s)", #call, check_ret, \
               DMI_errno(), DMI_strerror(DMI_errno()));                                       \
  })

/* The call returns DMI_FALSE, for this reason. */
#define FAILS(call, error)                                                                      \
  __extension__({                                                                               \
    int32_t check_ret = (call), check_errno = DMI_errno();                                      \
    check_that(check_ret == DMI_FALSE && check_errno == (error), AT,                            \
               "%s: returned %d, errno %d (%s), wanted " #error, #call, check_ret, check_errno, \
               DMI_strerror(check_errno));                                                      \
  })

#define EQ(got, wanted)                                                                     \
  __extension__({                                                                           \
    int64_t check_got = (int64_t)(got), check_wanted = (int64_t)(wanted);                   \
    check_that(check_got == check_wanted, AT, "%s: %" PRId64 ", wanted %s: %" PRId64, #got, \
               check_got, #wanted, check_wanted);                                           \
  })

/* `size` bytes are the same. */
#define SAME(got, wanted, size) check_same((got), (wanted), (uint64_t)(size), AT, #got)

__attribute__((unused)) static bool check_same(const void *got, const void *wanted, uint64_t size,
                                               const char *file, int line, const char *what) {
  const unsigned char *a = got, *b = wanted;
  uint64_t at = 0, bad = 0;
  if (memcmp(a, b, size) == 0) return check_that(true, file, line, "%s", what);
  while (a[at] == b[at])
    at++;
  for (uint64_t i = at; i < size; i++)
    bad += a[i] != b[i];
  return check_that(false, file, line,
                    "%s: %" PRIu64 " of %" PRIu64 " bytes differ, first at %" PRIu64
                    ": %02x, wanted %02x",
                    what, bad, size, at, a[at], b[at]);
}

/* If this fails the test cannot go on: prints a line and ends the process. */
#define MUST(call)                                                                                 \
  do {                                                                                             \
    if ((call) != DMI_TRUE) {                                                                      \
      printf("FAIL %s:%d: %s: %s; the test cannot go on\n", AT, #call, DMI_strerror(DMI_errno())); \
      fflush(stdout);                                                                              \
      _exit(9);                                                                                    \
    }                                                                                              \
  } while (0)

/* Two 64-bit counters in global memory: checks of all processes. */
__attribute__((unused)) static void check_report(int64_t addr) {
  MUST(DMI_fad(addr, atomic_exchange(&checks_done, 0), NULL, DMI_PUT_ATOMIC, NULL));
  MUST(DMI_fad(addr + 8, atomic_exchange(&checks_failed, 0), NULL, DMI_PUT_ATOMIC, NULL));
}

/* The last line of a program.  addr: where others reported; 0: nobody did. */
__attribute__((unused)) static void verdict(const char *name, int64_t addr) {
  int64_t others[2] = {0, 0};
  if (addr) MUST(DMI_read(addr, sizeof(others), others, DMI_GET_READ, NULL));
  printf("verdict %s: %" PRId64 " checks, %" PRId64 " failed\n", name,
         others[0] + atomic_load(&checks_done), others[1] + atomic_load(&checks_failed));
  fflush(stdout);
}

__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  flockfile(stdout); /* threads may say something at the same time */
  vprintf(format, args);
  va_end(args);
  putchar('\n');
  fflush(stdout);
  funlockfile(stdout);
}

/* ---- How much to do ------------------------------------------------------------------------ */

/* `normal`, or in builds with sanitizers (DMI_TEST_SCALE=small) a tenth, for nodes of one process
 * another third of that; at least 1. */
__attribute__((unused)) static int64_t scaled(int64_t normal) {
  const char *scale = getenv("DMI_TEST_SCALE");
  int64_t parts = getenv("DMI_TEST_NODES") ? 30 : 10;
  if (!scale || strcmp(scale, "small") != 0) return normal;
  return normal < parts ? 1 : normal / parts;
}

/* ---- Random numbers (splitmix64) ----------------------------------------------------------- */

__attribute__((unused)) static uint64_t rng_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

__attribute__((unused)) static uint64_t rng_below(uint64_t *state, uint64_t limit) {
  return (uint64_t)(((unsigned __int128)rng_next(state) * limit) >> 64);
}

/* The same random number for the same three, in every process. */
__attribute__((unused)) static uint64_t rng_of(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t state = a * 0x2545f4914f6cdd1du + b;
  state = rng_next(&state) + c;
  return rng_next(&state);
}

__attribute__((unused)) static void rng_fill(uint64_t seed, void *buf, uint64_t size) {
  unsigned char *bytes = buf;
  for (uint64_t i = 0; i < size; i += 8) {
    uint64_t value = rng_next(&seed);
    memcpy(bytes + i, &value, size - i < 8 ? size - i : 8);
  }
}

static const int8_t read_modes[3] = {DMI_INVALIDATE_READ, DMI_UPDATE_READ, DMI_GET_READ};
static const int8_t write_modes[2] = {DMI_EXCLUSIVE_WRITE, DMI_PUT_WRITE};
static const int8_t atomic_modes[2] = {DMI_EXCLUSIVE_ATOMIC, DMI_PUT_ATOMIC};

__attribute__((unused)) static int8_t any_read(uint64_t *rng) {
  return read_modes[rng_below(rng, 3)];
}
__attribute__((unused)) static int8_t any_write(uint64_t *rng) {
  return write_modes[rng_below(rng, 2)];
}
__attribute__((unused)) static int8_t any_atomic(uint64_t *rng) {
  return atomic_modes[rng_below(rng, 2)];
}

/* ---- Processes and threads ----------------------------------------------------------------- */

__attribute__((unused)) static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Between two looks at a condition that another process makes true: the cores are few. */
__attribute__((unused)) static void look_again(int64_t looks) {
  struct timespec little = {0, 50000};
  if (looks < 200) {
    sched_yield();
  } else {
    nanosleep(&little, NULL);
  }
}

/* The 64-bit number at addr. */
__attribute__((unused)) static int64_t get_int64(int64_t addr) {
  int64_t value;
  MUST(DMI_read(addr, sizeof(value), &value, DMI_GET_READ, NULL));
  return value;
}

__attribute__((unused)) static void put_int64(int64_t addr, int64_t value) {
  MUST(DMI_write(addr, sizeof(value), &value, DMI_PUT_WRITE, NULL));
}

/* Waits until the 64-bit number at addr is at least `wanted`. */
__attribute__((unused)) static void wait_for(int64_t addr, int64_t wanted) {
  int64_t value;
  for (int64_t looks = 0;; looks++) {
    MUST(DMI_read(addr, sizeof(value), &value, DMI_UPDATE_READ, NULL));
    if (value >= wanted) return;
    look_again(looks);
  }
}

/* Barrier number `round` (from 1) of `num` threads at a 64-bit counter that began as 0. */
__attribute__((unused)) static void barrier(int64_t addr, int64_t num, int64_t round) {
  MUST(DMI_fad(addr, 1, NULL, DMI_PUT_ATOMIC, NULL));
  wait_for(addr, num * round);
}

/* Welcomes processes until `num`, this one among them, are members; ids in the order of asking. */
__attribute__((unused)) static void gather(int32_t num, int32_t *ids) {
  DMI_node_t node;
  for (int32_t i = 0; i < num;) {
    MUST(DMI_poll(&node));
    if (!IS(node.state == DMI_OPEN)) continue;
    MUST(DMI_welcome(node.dmi_id));
    ids[i++] = node.dmi_id;
  }
}

/* The body of a thread that lets processes in and out for as long as the program runs. */
__attribute__((unused)) static void *admit(void *arg) {
  DMI_node_t node;
  while (DMI_poll(&node) == DMI_TRUE) {
    if (node.state == DMI_OPEN)
      DMI_welcome(node.dmi_id);
    else
      DMI_goodbye(node.dmi_id);
    say("%s %d", node.state == DMI_OPEN ? "in" : "out", node.dmi_id);
  }
  return arg;
}

#endif
