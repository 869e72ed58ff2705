/*
 * profile_dmi.c - a page that is asked for all the time, for profile.t: two processes, the second
 * one joins.  Its thread reads a page of the first one again and again, until a line comes on stdin
 * there.
 */
#include "multi.h"

#define PAGE 4096
#define HOT 3
#define COLD 5
#define TURNS 50 /* reads of the hot page for one of the cold page */

static int64_t read_page(int64_t base, int64_t page) {
  int64_t value;
  MUST(DMI_read(base + page * PAGE, sizeof(value), &value, DMI_GET_READ, NULL)); /* line: hot */
  return value;
}

int64_t DMI_thread(int64_t base) {
  int64_t value, turns = 0, sum = 0;
  while (get_int64(base) == 0) {
    for (int i = 0; i < TURNS; i++)
      sum += read_page(base, HOT);
    MUST(DMI_read(base + COLD * PAGE, sizeof(value), &value, DMI_GET_READ, NULL)); /* line: cold */
    turns++;
  }
  IS(sum == 7 * turns * TURNS);
  say("turns %" PRId64, turns);
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  char line[16];
  int32_t ids[2];
  int64_t base;
  (void)argc, (void)argv;
  gather(2, ids);
  MUST(DMI_mmap(&base, PAGE, 8, NULL)); /* line: made */
  put_int64(base, 0);
  put_int64(base + HOT * PAGE, 7);
  put_int64(base + COLD * PAGE, 7);
  MUST(DMI_create(&thread, ids[1], base, NULL));
  say("begins %" PRId64, base);
  MUST(fgets(line, sizeof(line), stdin) != NULL);
  put_int64(base, 1);
  MUST(DMI_join(thread, NULL, NULL));
}
