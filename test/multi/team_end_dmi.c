/*
 * team_end_dmi.c - teams when the program, or a process, ends.
 *
 *   dmirun team_end_dmi exit    two processes: threads wait in all calls of teams there are when
 *                               DMI_exit is called, and get DMI_EEND
 *   dmirun team_end_dmi left    two processes: DMI_main's is dismissed, and then joins no team
 */
#include <string.h>

#include "dmi_team.h"
#include "multi.h"

#define LARGE (1 << 20)

enum { TEAM, FORMING, PAIR, WAITING, REPORT, PAGES }; /* in global memory, a page each */
#define PAGE 64

static int64_t page_of(int64_t base, int page) {
  return base + page * PAGE;
}

static void is_waiting(int64_t base) {
  MUST(DMI_fad(page_of(base, WAITING), 1, NULL, DMI_PUT_ATOMIC, NULL));
}

static void ends(DMI_local_status_t *status) {
  int32_t ret = 5;
  DMI_wait(status, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_EEND);
}

/* It does not wait for those that have not left, and is not in the team any more. */
static void leaves(DMI_local_team_t *team) {
  if (!DMI_team_leave(team)) EQ(DMI_errno(), DMI_EEND);
  FAILS(DMI_team_leave(team), DMI_EINVAL);
}

/* A rank of the first team. */
static void waits(int64_t base, int32_t rank) {
  static unsigned char large[LARGE]; /* nobody takes it */
  DMI_local_team_t team;
  DMI_local_status_t status;
  DMI_got_t got;
  char byte;
  MUST(DMI_team_join(&team, page_of(base, TEAM), rank));
  OK(DMI_team_recv(&team, rank, &byte, 1, NULL, &status));
  is_waiting(base);
  if (rank == 0) FAILS(DMI_team_recv(&team, 1, &byte, 1, NULL, NULL), DMI_EEND);
  if (rank == 1) FAILS(DMI_team_send(&team, 2, large, LARGE, NULL), DMI_EEND);
  if (rank == 2) FAILS(DMI_team_barrier(&team), DMI_EEND);
  if (rank == 3) FAILS(DMI_team_probe(&team, 0, &got, NULL), DMI_EEND);
  ends(&status);
  FAILS(DMI_team_send(&team, rank, &byte, 1, NULL), DMI_EEND);
  FAILS(DMI_team_bcast(&team, 0, &byte, 1), DMI_EEND);
  FAILS(DMI_team_reset(&team), DMI_EEND);
  leaves(&team);
}

int64_t DMI_thread(int64_t arg) {
  const int64_t base = arg / 16;
  const int32_t rank = (int32_t)(arg % 16);
  DMI_local_team_t team;
  int32_t stops = DMI_FALSE;
  if (base == 0) {
    while (!stops) {
      MUST(DMI_stopping(&stops));
      sched_yield();
    }
    return 0;
  }
  if (rank < 4) waits(base, rank);
  if (rank == 4) { /* its other rank never comes */
    is_waiting(base);
    FAILS(DMI_team_join(&team, page_of(base, FORMING), 0), DMI_EEND);
  }
  if (rank == 5) { /* DMI_main does not reset, and then hears of the end */
    MUST(DMI_team_join(&team, page_of(base, PAIR), 0));
    is_waiting(base);
    FAILS(DMI_team_reset(&team), DMI_EEND);
    FAILS(DMI_team_reset(&team), DMI_EEND);
    leaves(&team);
  }
  check_report(page_of(base, REPORT));
  return 0;
}

static void run_exit(const int32_t *ids, int64_t base) {
  DMI_thread_t threads[6];
  DMI_local_team_t pair;
  for (int i = 0; i < 6; i++)
    MUST(DMI_create(&threads[i], ids[i % 2], base * 16 + i, NULL));
  MUST(DMI_team_join(&pair, page_of(base, PAIR), 1));
  wait_for(page_of(base, WAITING), 6);
  OK(DMI_exit(7));
  for (int i = 0; i < 6; i++)
    OK(DMI_join(threads[i], NULL, NULL));
  FAILS(DMI_team_reset(&pair), DMI_EEND);
  leaves(&pair);
  FAILS(DMI_team_join(&pair, page_of(base, FORMING), 1), DMI_EEND);
}

static void run_left(const int32_t *ids, int64_t base) {
  DMI_thread_t thread;
  DMI_local_team_t team;
  DMI_node_t node;
  MUST(DMI_create(&thread, ids[1], 0, NULL));
  say("leave");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  MUST(DMI_goodbye(node.dmi_id));
  FAILS(DMI_team_join(&team, page_of(base, TEAM), 0), DMI_ELEAVING);
  OK(DMI_exit(5));
}

void DMI_main(int argc, char **argv) {
  int64_t base;
  int32_t ids[2];
  gather(2, ids);
  MUST(DMI_mmap(&base, PAGE, PAGES, NULL));
  OK(DMI_team_init(page_of(base, TEAM), 4));
  OK(DMI_team_init(page_of(base, FORMING), 2));
  OK(DMI_team_init(page_of(base, PAIR), 2));
  if (argc > 1 && strcmp(argv[1], "left") == 0)
    run_left(ids, base);
  else
    run_exit(ids, base);
  verdict("team_end", page_of(base, REPORT));
}
