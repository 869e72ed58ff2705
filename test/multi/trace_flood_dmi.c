/*
 * trace_flood_dmi.c - processes that do nothing but tiny calls, each of which is traced, for
 * trace_flood.t.
 *
 *   dmirun --trace FILE trace_flood_dmi PROCESSES
 *
 * For each line of stdin, a number, a thread of each process but the first adds so often to a
 * number of the first process, and says so.  0 ends the program.
 */
#include <unistd.h>

#include "multi.h"

#define PAGE 4096

struct shared {
  int64_t phase, adds; /* the number is in the next page */
};

#define FIELD(base, name) ((base) + (int64_t)offsetof(struct shared, name))

static void add(int64_t base, int64_t adds) {
  int64_t old;
  for (int64_t i = 0; i < adds; i++)
    MUST(DMI_fad(base + PAGE, 1, &old, DMI_PUT_ATOMIC, NULL)); /* line: adds */
}

int64_t DMI_thread(int64_t base) {
  int64_t phase = 0, adds;
  while (1) {
    MUST(DMI_watch(FIELD(base, phase), sizeof(phase), &phase, &phase, NULL));
    adds = get_int64(FIELD(base, adds));
    if (!adds) return 0;
    add(base, adds);
    say("added %" PRId64 " %d", adds, (int)getpid());
  }
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[64];
  char line[16];
  int32_t ids[64], num = argc > 1 ? atoi(argv[1]) : 2;
  int64_t base, adds;
  gather(num, ids);
  MUST(DMI_mmap(&base, PAGE, 2, NULL));
  put_int64(base + PAGE, 0);
  put_int64(FIELD(base, phase), 0);
  for (int32_t i = 1; i < num; i++)
    MUST(DMI_create(&thread[i], ids[i], base, NULL));
  say("begins %d", (int)getpid());
  for (int64_t phase = 1; fgets(line, sizeof(line), stdin); phase++) {
    adds = strtoll(line, NULL, 10);
    put_int64(FIELD(base, adds), adds);
    put_int64(FIELD(base, phase), phase);
    if (!adds) break;
  }
  for (int32_t i = 1; i < num; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
}
