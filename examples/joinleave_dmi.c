/*
 * joinleave_dmi.c - the smallest elastic program: pi, by throwing darts, for as long as you like.
 *
 *   dmicc -O2 joinleave_dmi.c -o joinleave_dmi
 *   dmirun ./joinleave_dmi                  starts the program
 *   dmirun -i HOST ./joinleave_dmi          joins it
 *   Ctrl+C                                  leaves it; in the first process: ends the program
 *
 * Each process that joins gets a thread per core.  A thread throws a batch of darts at a square,
 * adds how many fell into the inscribed circle to two counters in global memory, checks whether it
 * was told to stop, and goes on.  Nothing limits how many processes or threads there are; team.h
 * keeps track of them.
 */
#include <stddef.h>

#include "team.h"

#define BATCH ((int64_t)4000000) /* darts between two checks of the flag: tens of milliseconds */

/* In global memory. */
typedef struct {
  int64_t thrown;
  int64_t inside;
  int64_t seeds; /* counter: each thread that starts takes the next number */
} darts_t;

static void print_pi(int64_t darts_addr) {
  darts_t darts;
  CHECK(DMI_read(darts_addr, sizeof(darts), &darts, DMI_GET_READ, NULL));
  if (darts.thrown == 0) return;
  printf("pi is about %.6f after %lld darts\n", 4.0 * (double)darts.inside / (double)darts.thrown,
         (long long)darts.thrown);
}

void DMI_main(int argc, char **argv) {
  teams_t teams = {0};
  int32_t my_dmi_id;
  int64_t darts_addr;
  DMI_node_t node;

  if (argc != 1) {
    fprintf(stderr, "usage: %s\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  CHECK(DMI_rank(&my_dmi_id));
  CHECK(DMI_mmap(&darts_addr, sizeof(darts_t), 1, NULL));
  for (;;) {
    CHECK(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      printf("welcome %d!\n", node.dmi_id);
      CHECK(DMI_welcome(node.dmi_id));
      teams_start(&teams, &node, darts_addr);
    } else {
      teams_stop(&teams, node.dmi_id);
      printf("goodbye %d!\n", node.dmi_id);
      /* This process leaves last, when no other needs it any more. */
      if (node.dmi_id == my_dmi_id) break;
      (void)check_goodbye(node.dmi_id); /* if it fails now, DMI_CLOSE comes again */
    }
    print_pi(darts_addr);
    fflush(stdout);
  }

  /* The other threads still throw darts. */
  while (teams.num > 0)
    teams_stop(&teams, teams.items[0].dmi_id);
  teams_join_all(&teams);
  print_pi(darts_addr);
  fflush(stdout);
  CHECK(DMI_munmap(darts_addr, NULL));
  (void)check_goodbye(my_dmi_id);
  /* No DMI thread runs anywhere now: the other processes end by themselves. */
}

/* Thread `seed`'s next random bits (splitmix64: any two seeds give unrelated sequences). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t throw_batch(uint64_t *state) {
  int64_t inside = 0;
  for (int64_t i = 0; i < BATCH; i++) {
    const uint64_t bits = next_random(state);
    const int64_t x = (int64_t)(bits >> 32) - INT32_MAX;
    const int64_t y = (int64_t)(bits & UINT32_MAX) - INT32_MAX;
    inside += x * x / 4 + y * y / 4 <= (int64_t)INT32_MAX * INT32_MAX / 4;
  }
  return inside;
}

int64_t DMI_thread(int64_t addr) {
  team_arg_t arg;
  int64_t seed, batches = 0;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  const int64_t thrown_addr = arg.job_addr + (int64_t)offsetof(darts_t, thrown);
  const int64_t inside_addr = arg.job_addr + (int64_t)offsetof(darts_t, inside);
  CHECK(DMI_fad(arg.job_addr + (int64_t)offsetof(darts_t, seeds), 1, &seed, DMI_PUT_ATOMIC, NULL));
  uint64_t state = (uint64_t)seed << 32;

  printf("started %d\n", arg.thread);
  fflush(stdout);
  for (; !team_stopped(&arg); batches++) {
    const int64_t inside = throw_batch(&state);
    CHECK(DMI_fad(thrown_addr, BATCH, NULL, DMI_PUT_ATOMIC, NULL));
    CHECK(DMI_fad(inside_addr, inside, NULL, DMI_PUT_ATOMIC, NULL));
  }
  printf("finished %d after %lld batches\n", arg.thread, (long long)batches);
  fflush(stdout);
  return DMI_NULL;
}
