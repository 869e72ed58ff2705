/*
 * hold_dmi.c - bytes that are held do not change: see hold.t.
 *
 *   dmirun hold_dmi N        N processes
 */
#include "multi.h"

#include "dmi_ext.h"

#define PAGE (1 << 20)
enum { REPORT = 0, DATA = PAGE };

static unsigned char bytes[PAGE];

/* True if all these bytes are `value`. */
static bool all_are(const unsigned char *at, int value, int64_t size) {
  for (int64_t i = 0; i < size; i++) {
    if (at[i] != value) return false;
  }
  return true;
}

static void fill(int64_t addr, int value) {
  memset(bytes, value, sizeof bytes);
  MUST(DMI_write(addr, PAGE, bytes, DMI_EXCLUSIVE_WRITE, NULL));
}

/* In another process: holds what it does not have, and takes the page away. */
int64_t DMI_thread(int64_t base) {
  DMI_local_hold_t hold;
  const void *ptr = NULL;
  unsigned char one;
  EQ(DMI_try_read(base + DATA, 1, &one, DMI_GET_READ), DMI_FALSE); /* the page is not here */
  OK(DMI_hold(base + DATA + 100, 200, &ptr, &hold));
  IS(all_are(ptr, 2, 200));
  OK(DMI_try_read(base + DATA, 1, &one, DMI_GET_READ)); /* a copy stayed */
  EQ(one, 2);
  EQ(DMI_try_write(base + DATA, 1, &one, DMI_EXCLUSIVE_WRITE), DMI_FALSE);
  fill(base + DATA, 3);
  OK(DMI_try_write(base + DATA, 1, bytes, DMI_EXCLUSIVE_WRITE));
  IS(all_are(ptr, 2, 200));
  OK(DMI_release(&hold));
  check_report(base + REPORT);
  return 0;
}

static void changes(int64_t base, int32_t other) {
  DMI_local_hold_t first, second, third;
  const void *a, *b, *c;
  DMI_thread_t thread;
  DMI_pool_t before, after;
  fill(base + DATA, 1);
  OK(DMI_hold(base + DATA, PAGE, &a, &first));
  OK(DMI_hold(base + DATA, PAGE, &b, &second));
  IS(a == b); /* no copy */
  OK(DMI_release(&second));
  fill(base + DATA, 2);
  IS(all_are(a, 1, PAGE));
  OK(DMI_hold(base + DATA, PAGE, &c, &third));
  IS(all_are(c, 2, PAGE));
  MUST(DMI_create(&thread, other, base, NULL));
  MUST(DMI_join(thread, NULL, NULL));
  IS(all_are(a, 1, PAGE) && all_are(c, 2, PAGE));
  OK(DMI_pool(&before));
  OK(DMI_release(&first));
  OK(DMI_release(&third));
  OK(DMI_pool(&after));
  IS(before.used - after.used >= 2 * PAGE); /* it counts as long as it is held */
}

/* Pages that nobody has written, wrong arguments, unmapping. */
static void others(int64_t base) {
  DMI_local_hold_t hold;
  const void *ptr;
  unsigned char byte = 1;
  int64_t addr;
  OK(DMI_hold(base + 2 * PAGE + 5, 10, &ptr, &hold));
  IS(all_are(ptr, 0, 10));
  OK(DMI_release(&hold));
  FAILS(DMI_release(&hold), DMI_EINVAL);
  FAILS(DMI_release(NULL), DMI_EINVAL);
  FAILS(DMI_hold(base + DATA, 0, &ptr, &hold), DMI_EINVAL);
  FAILS(DMI_hold(base + DATA, -1, &ptr, &hold), DMI_EINVAL);
  FAILS(DMI_hold(base + DATA, 1, NULL, &hold), DMI_EINVAL);
  FAILS(DMI_hold(base + DATA, 1, &ptr, NULL), DMI_EINVAL);
  FAILS(DMI_hold(base + DATA + PAGE - 4, 5, &ptr, &hold), DMI_ERANGE);
  FAILS(DMI_hold(8, 5, &ptr, &hold), DMI_EADDR);
  EQ(DMI_try_read(8, 5, bytes, DMI_GET_READ), DMI_FALSE);
  EQ(DMI_try_write(base, 1, &byte, DMI_GET_READ), DMI_FALSE);
  MUST(DMI_mmap(&addr, 4096, 1, NULL));
  MUST(DMI_write(addr, 1, &byte, DMI_EXCLUSIVE_WRITE, NULL));
  OK(DMI_hold(addr, 1, &ptr, &hold));
  MUST(DMI_munmap(addr, NULL));
  IS(all_are(ptr, 1, 1));
  OK(DMI_release(&hold));
}

static DMI_local_hold_t late;
static const unsigned char *late_ptr;

/* Behind the end of the program, when all of it is freed. */
static void at_end(void) {
  if (!late_ptr) return;
  if (!all_are(late_ptr, 9, PAGE) || DMI_release(&late) != DMI_TRUE) {
    printf("FAIL: what is held at the end\n");
    fflush(stdout);
    _exit(3);
  }
}

void DMI_main(int argc, char **argv) {
  int32_t ids[8], num = argc > 1 ? atoi(argv[1]) : 0;
  const void *ptr;
  int64_t base;
  gather(num, ids);
  MUST(DMI_mmap(&base, PAGE, 3, NULL));
  changes(base, ids[1]);
  others(base);
  fill(base + DATA, 9);
  MUST(DMI_hold(base + DATA, PAGE, &ptr, &late));
  late_ptr = ptr;
  atexit(at_end);
  verdict("hold", base + REPORT);
}
