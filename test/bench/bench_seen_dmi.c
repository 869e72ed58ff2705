/*
 * bench_seen_dmi.c - calls about a page that is here, for callgrind to count their instructions:
 * test/bench/bench runs it.  One process; each kind of call is made so often as the argument says,
 * by a function of its own.
 */
#include "../../examples/check.h"
#include "bench.h"

#define PAGE 4096

static int64_t base;
static char buf[PAGE];

#define MANY __attribute__((noinline)) static void

MANY many_read(int64_t count) {
  for (int64_t i = 0; i < count; i++)
    CHECK(DMI_read(base, 8, buf, DMI_INVALIDATE_READ, NULL));
}

MANY many_write(int64_t count) {
  for (int64_t i = 0; i < count; i++)
    CHECK(DMI_write(base, 8, buf, DMI_EXCLUSIVE_WRITE, NULL));
}

MANY many_fad(int64_t count) {
  int64_t old;
  for (int64_t i = 0; i < count; i++)
    CHECK(DMI_fad(base, 1, &old, DMI_PUT_ATOMIC, NULL));
}

MANY many_lock(int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_mutex_lock(base + 64));
    CHECK(DMI_mutex_unlock(base + 64));
  }
}

int64_t DMI_thread(int64_t addr) {
  return addr;
}

void DMI_main(int argc, char **argv) {
  const int64_t count = argc > 1 ? atoll(argv[1]) : 1;
  CHECK(DMI_mmap(&base, PAGE, 1, NULL));
  CHECK(DMI_mutex_init(base + 64));
  /* Once for what only the first call does. */
  for (int64_t i = 0; i < 2; i++) {
    const int64_t times = i ? count : 1;
    many_read(times);
    many_write(times);
    many_fad(times);
    many_lock(times);
  }
}
