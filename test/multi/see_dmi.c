/*
 * see_dmi.c - programs that hang, for see.t: two processes, the second one joins.
 *
 *   dmirun see_dmi crosswise   two threads lock two mutexes, each in another order
 *   dmirun see_dmi barrier     three threads are to meet, and one never comes
 *   dmirun see_dmi few         two threads are at a barrier for three
 *   dmirun see_dmi never       nobody is welcomed until there is a line of stdin
 *   dmirun see_dmi read        a line of stdin, then a page of the second process is read
 */
#include "multi.h"

/* What threads share, in one page. */
struct shared {
  int64_t mode, counter;
  DMI_mutex_t first, second;
  DMI_barrier_t barrier;
};

static int64_t at(int64_t base, size_t offset) {
  return base + (int64_t)offset;
}

#define AT_FIELD(base, field) at((base), offsetof(struct shared, field))

static void crosswise(int64_t base, bool other) {
  int64_t one = other ? AT_FIELD(base, second) : AT_FIELD(base, first);
  int64_t two = other ? AT_FIELD(base, first) : AT_FIELD(base, second);
  MUST(DMI_mutex_lock(one)); /* line: holds */
  barrier(AT_FIELD(base, counter), 2, 1);
  MUST(DMI_mutex_lock(two)); /* line: crosswise */
}

static void too_few(int64_t base) {
  DMI_local_barrier_t part;
  MUST(DMI_local_barrier_init(&part, AT_FIELD(base, barrier)));
  MUST(DMI_local_barrier_sync(&part, 3));
}

static void meet(int64_t base, bool comes) {
  DMI_local_barrier_t part;
  MUST(DMI_local_barrier_init(&part, AT_FIELD(base, barrier)));
  barrier(AT_FIELD(base, counter), 3, 1);
  if (!comes) MUST(DMI_suspend()); /* line: never comes */
  MUST(DMI_local_barrier_sync(&part, 3)); /* line: meets */
}

int64_t DMI_thread(int64_t base) {
  int64_t mode = get_int64(base), value = 7;
  switch (mode) {
    case 'c':
      crosswise(base, true);
      break;
    case 'b':
      meet(base, true);
      break;
    case 'f':
      too_few(base);
      break;
    case 'n':
      meet(base, false);
      break;
    default:
      MUST(DMI_write(base, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
      say("written");
  }
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread, more;
  char line[16];
  int32_t ids[2];
  int64_t base, value, mode = argc > 1 ? argv[1][0] : 'r';
  if (mode == 'n') { /* nobody is welcomed, until stdin ends */
    if (fgets(line, sizeof(line), stdin)) return;
  }
  gather(2, ids);
  MUST(DMI_mmap(&base, 4096, 4, NULL));
  put_int64(base, mode);
  MUST(DMI_mutex_init(AT_FIELD(base, first)));
  MUST(DMI_mutex_init(AT_FIELD(base, second)));
  MUST(DMI_barrier_init(AT_FIELD(base, barrier)));
  MUST(DMI_create(&thread, ids[1], base, NULL));
  say("begins %" PRId64, base);
  if (mode == 'c') {
    crosswise(base, false);
  } else if (mode == 'f') {
    too_few(base);
  } else if (mode == 'b') {
    wait_for(AT_FIELD(base, counter), 1);
    put_int64(base, 'n');
    MUST(DMI_create(&more, ids[1], base, NULL));
    meet(base, true);
  } else {
    MUST(DMI_join(thread, NULL, NULL));
    if (fgets(line, sizeof(line), stdin))
      MUST(DMI_read(base, sizeof(value), &value, DMI_GET_READ, NULL)); /* line: reads */
  }
}
