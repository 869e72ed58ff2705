/*
 * team.h - the skeleton of an elastic program: one team of DMI threads per process.
 *
 * DMI_main starts a team on each process it has welcomed and stops it before it dismisses that
 * process.  The teams are kept in an array that grows, so there is no limit on processes or
 * threads. Only one thread, the one that handles notices, may use a teams_t; team_stopped is for
 * the threads of the teams.
 *
 * Each team has a mapping of its own in global memory: page 0 holds the flag that tells it to stop,
 * page 1 + i the arguments of its thread i.  The flag has a page to itself because every thread
 * reads it before each piece of work with DMI_UPDATE_READ: the page stays valid where the threads
 * run, so that such a read is local, and the one write that changes it is sent there.
 */
#ifndef EXAMPLES_TEAM_H
#define EXAMPLES_TEAM_H

#include "check.h"

/* What a thread finds at the address that DMI_thread gets. */
typedef struct {
  int64_t job_addr;  /* the work: the program's own structure */
  int64_t stop_addr; /* int32_t, not 0: return after the present piece of work */
  int32_t dmi_id;    /* the process this thread runs in */
  int32_t thread;    /* number of this thread in its team, from 0 */
} team_arg_t;

typedef struct {
  int32_t dmi_id;        /* process of the team */
  int32_t thread_num;    /* threads that run */
  DMI_thread_t *threads; /* thread_num handles, owned by the team */
  int64_t addr;          /* mapping of the team: stop flag, then arguments */
} team_t;

typedef struct {
  team_t *items; /* num of them in use */
  int32_t num;
  int32_t room;
} teams_t;

/* Starts one thread per core of the process that sent `node`. */
static inline void teams_start(teams_t *teams, const DMI_node_t *node, int64_t job_addr) {
  const int32_t wanted = node->core > 0 ? node->core : 1;
  const int64_t page_size = (int64_t)sizeof(team_arg_t);

  if (teams->num == teams->room) {
    teams->room = teams->room == 0 ? 8 : 2 * teams->room;
    teams->items = realloc(teams->items, (size_t)teams->room * sizeof(team_t));
    if (teams->items == NULL) abort();
  }
  team_t *team = &teams->items[teams->num++];
  team->dmi_id = node->dmi_id;
  team->thread_num = 0;
  team->threads = my_malloc((size_t)wanted * sizeof(DMI_thread_t));
  CHECK(DMI_mmap(&team->addr, page_size, 1 + (int64_t)wanted, NULL));

  for (int32_t i = 0; i < wanted; i++) {
    const int64_t arg_addr = team->addr + (1 + (int64_t)i) * page_size;
    const team_arg_t arg = {
        .job_addr = job_addr, .stop_addr = team->addr, .dmi_id = node->dmi_id, .thread = i};
    CHECK(DMI_write(arg_addr, sizeof(arg), &arg, DMI_PUT_WRITE, NULL));
    /* If the system there allows no more threads, the team is smaller. */
    if (DMI_create(&team->threads[team->thread_num], node->dmi_id, arg_addr, NULL) == DMI_TRUE) {
      team->thread_num++;
    } else {
      fprintf(stderr, "no thread on process %d: %s\n", node->dmi_id, DMI_strerror(DMI_errno()));
    }
  }
}

/* Waits for the threads of the last team in the array and forgets it.  Those of a process that was
 * lost have ended. */
static inline void teams_join_last(teams_t *teams) {
  team_t *team = &teams->items[--teams->num];
  for (int32_t i = 0; i < team->thread_num; i++)
    (void)CHECK_LOST(DMI_join(team->threads[i], NULL, NULL));
  CHECK(DMI_munmap(team->addr, NULL));
  my_free(team->threads);
}

/* Tells the threads on a process to stop and waits until they have.  Does nothing if none run
 * there. */
static inline void teams_stop(teams_t *teams, int32_t dmi_id) {
  const int32_t stop = 1;
  for (int32_t i = 0; i < teams->num; i++) {
    if (teams->items[i].dmi_id != dmi_id) continue;
    const team_t leaving = teams->items[i];
    teams->items[i] = teams->items[teams->num - 1];
    teams->items[teams->num - 1] = leaving;
    CHECK(DMI_write(leaving.addr, sizeof(stop), &stop, DMI_PUT_WRITE, NULL));
    teams_join_last(teams);
    return;
  }
}

/* Waits until all threads of all teams have returned by themselves. */
static inline void teams_join_all(teams_t *teams) {
  while (teams->num > 0)
    teams_join_last(teams);
  free(teams->items);
  *teams = (teams_t){0};
}

/* Tells all threads to stop after the present piece of work, and waits until they have. */
static inline void teams_stop_all(teams_t *teams) {
  const int32_t stop = 1;
  for (int32_t i = 0; i < teams->num; i++)
    CHECK(DMI_write(teams->items[i].addr, sizeof(stop), &stop, DMI_PUT_WRITE, NULL));
  teams_join_all(teams);
}

/* Whether the calling thread has been told to stop. */
static inline int team_stopped(const team_arg_t *arg) {
  int32_t stop;
  CHECK(DMI_read(arg->stop_addr, sizeof(stop), &stop, DMI_UPDATE_READ, NULL));
  return stop != 0;
}

#endif
