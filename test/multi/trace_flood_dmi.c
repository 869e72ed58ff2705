/*
 * trace_flood_dmi.c - processes that do nothing but tiny calls, each of which is traced, for
 * trace_flood.t.
 *
 *   dmirun --trace FILE trace_flood_dmi PROCESSES FIRST ROUNDS
 *
 * A thread of each process but the first adds to a number of the first process: FIRST times, and
 * after a line of stdin ROUNDS times.  Another line ends the program.
 */
#include <unistd.h>

#include "multi.h"

#define PAGE 4096

struct shared {
  int64_t phase, first, rounds; /* the number is in the next page */
};

#define FIELD(base, name) ((base) + (int64_t)offsetof(struct shared, name))

static void add(int64_t base, int64_t rounds) {
  int64_t old;
  for (int64_t i = 0; i < rounds; i++)
    MUST(DMI_fad(base + PAGE, 1, &old, DMI_PUT_ATOMIC, NULL)); /* line: adds */
}

static void await(int64_t base, int64_t phase) {
  int64_t now = phase - 1;
  MUST(DMI_watch(FIELD(base, phase), sizeof(now), &now, &now, NULL));
}

int64_t DMI_thread(int64_t base) {
  add(base, get_int64(FIELD(base, first)));
  say("ready %d", (int)getpid());
  await(base, 1);
  add(base, get_int64(FIELD(base, rounds)));
  say("flooded %d", (int)getpid());
  await(base, 2);
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[64];
  char line[16];
  int32_t ids[64], num = argc > 3 ? atoi(argv[1]) : 2;
  int64_t base;
  gather(num, ids);
  MUST(DMI_mmap(&base, PAGE, 2, NULL));
  put_int64(base + PAGE, 0);
  put_int64(FIELD(base, first), argc > 3 ? atoi(argv[2]) : 100);
  put_int64(FIELD(base, rounds), argc > 3 ? atoi(argv[3]) : 100);
  put_int64(FIELD(base, phase), 0);
  for (int32_t i = 1; i < num; i++)
    MUST(DMI_create(&thread[i], ids[i], base, NULL));
  say("begins %d", (int)getpid());
  for (int64_t phase = 1; phase <= 2; phase++) {
    MUST(fgets(line, sizeof(line), stdin) != NULL);
    put_int64(FIELD(base, phase), phase);
  }
  for (int32_t i = 1; i < num; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
}
