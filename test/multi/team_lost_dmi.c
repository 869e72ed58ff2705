/*
 * team_lost_dmi.c - a process with a rank is killed while the others wait for it: each gets
 * DMI_ELOST, and after a reset they go on without it.
 *
 *   dmirun --survive team_lost_dmi        three processes; after "kill" the last one is killed
 */
#include <stdlib.h>

#include "dmi_team.h"
#include "multi.h"

#define RANKS 3
#define PART (100 << 10) /* bytes: they are pulled */

struct job {
  int64_t team, second, third, report, ready;
  int64_t rank;
};

/* Waits for rank 2, each in another way, until it is lost.  In the second team rank 1 does not take
 * its part of what rank 0 scatters: it hears of the loss before. */
static void wait_for_lost(DMI_local_team_t *team, DMI_local_team_t *second, int32_t rank) {
  static char large[1 << 20]; /* only read, and not received */
  static char part[PART];
  DMI_local_status_t status[2];
  int64_t value;
  int32_t ret;
  OK(DMI_team_recv(team, 2, &value, 8, NULL, &status[0]));
  OK(DMI_team_send(team, 2, large, sizeof(large), &status[1]));
  if (rank == 0) {
    DMI_local_status_t any;
    OK(DMI_team_recv(team, DMI_ANY, &value, 8, NULL, &any));
    FAILS(DMI_team_scatter(second, 0, large, PART, part), DMI_ELOST);
    DMI_wait(&any, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_ELOST);
  }
  if (rank == 1) {
    FAILS(DMI_team_barrier(team), DMI_ELOST);
    FAILS(DMI_team_scatter(second, 0, NULL, PART, part), DMI_ELOST);
  }
  for (int i = 0; i < 2; i++) {
    DMI_wait(&status[i], &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_ELOST);
  }
  FAILS(DMI_team_bcast(team, 0, &value, 8), DMI_ELOST);
  FAILS(DMI_team_send(team, 2, &value, 8, NULL), DMI_ELOST);
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  DMI_local_team_t team, second;
  int64_t value = 1;
  int32_t rank, size;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  MUST(DMI_team_join(&team, job.team, (int32_t)job.rank));
  MUST(DMI_team_rank(&team, &rank, &size));
  MUST(DMI_team_join(&second, job.second, rank));
  OK(DMI_team_barrier(&team));
  if (rank != 2) OK(DMI_fad(job.ready, 1, &value, DMI_PUT_ATOMIC, NULL));
  if (rank == 2) { /* until it is killed */
    DMI_local_team_t third;
    MUST(DMI_team_join(&third, job.third, 0));
    OK(DMI_fad(job.ready, 1, &value, DMI_PUT_ATOMIC, NULL));
    MUST(DMI_team_recv(&team, 2, &value, 8, NULL, NULL));
    return 0;
  }
  wait_for_lost(&team, &second, rank);
  /* A reset would release who has not heard of the loss. */
  OK(DMI_fad(job.ready, 1, &value, DMI_PUT_ATOMIC, NULL));
  wait_for(job.ready, RANKS + 2);
  OK(DMI_team_reset(&team));
  /* The hole is still there: what does not concern it works. */
  value = rank;
  OK(DMI_team_send(&team, 1 - rank, &value, 8, NULL));
  OK(DMI_team_recv(&team, 1 - rank, &value, 8, NULL, NULL));
  EQ(value, 1 - rank);
  FAILS(DMI_team_barrier(&team), DMI_ELOST);
  OK(DMI_fad(job.ready, 1, &value, DMI_PUT_ATOMIC, NULL));
  wait_for(job.ready, RANKS + 4);
  /* Without it. */
  if (rank == 0) OK(DMI_team_resize(job.team, 2));
  OK(DMI_team_reset(&team));
  MUST(DMI_team_rank(&team, NULL, &size));
  EQ(size, 2);
  value = rank + 1;
  OK(DMI_team_allreduce(&team, &value, &value, 1, DMI_TYPE_INT64, DMI_OP_SUM));
  EQ(value, 3);
  OK(DMI_team_leave(&team));
  OK(DMI_team_leave(&second));
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  int64_t report, team, second, third, jobs, ready, value;
  DMI_local_team_t here;
  DMI_thread_t threads[RANKS];
  int32_t ids[RANKS];
  (void)argc, (void)argv;
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&ready, 8, 1, NULL));
  MUST(DMI_mmap(&team, sizeof(DMI_team_t), 1, NULL));
  MUST(DMI_mmap(&second, sizeof(DMI_team_t), 1, NULL));
  MUST(DMI_mmap(&jobs, sizeof(struct job), RANKS, NULL));
  gather(RANKS, ids);
  OK(DMI_team_init(team, RANKS));
  OK(DMI_team_init(second, RANKS));
  MUST(DMI_mmap(&third, sizeof(DMI_team_t), 1, NULL));
  OK(DMI_team_init(third, 1));
  for (int32_t i = 0; i < RANKS; i++) {
    struct job job = {.team = team,
                      .second = second,
                      .third = third,
                      .report = report,
                      .ready = ready,
                      .rank = i};
    int64_t at = jobs + i * (int64_t)sizeof(job);
    MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[i], ids[i], at, NULL));
  }
  wait_for(ready, RANKS);
  say("kill");
  for (int32_t i = 0; i < 2; i++)
    MUST(DMI_join(threads[i], &value, NULL));
  FAILS(DMI_join(threads[2], &value, NULL), DMI_ELOST);
  OK(DMI_team_destroy(team));
  OK(DMI_team_destroy(second));
  /* One that only the lost process was in. */
  OK(DMI_team_join(&here, third, 0));
  OK(DMI_team_leave(&here));
  OK(DMI_team_destroy(third));
  verdict("team_lost", report);
}
