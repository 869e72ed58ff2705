/*
 * spmd.h - a program that runs as a team of ranked threads, spread over processes.
 *
 * DMI_main gathers processes and then runs phases: in each, every thread of the team is created,
 * does its part, and is joined.  Within a phase the threads may meet at a barrier; between two
 * phases the team may change (spmd_change): processes that asked to join or to leave since then do
 * so, and the next phase has other ranks and another number of threads.
 *
 *   spmd_gather(&spmd, process_num, thread_num);
 *   ... write the job into global memory, then as often as needed:
 *   spmd_run(&spmd, job_addr);       DMI_thread gets the address of an spmd_arg_t
 *   spmd_change(&spmd);              only if the program wants to be elastic
 *   spmd_end(&spmd);
 *
 * Only DMI_main may use an spmd_t.
 *
 * A process that is lost (dmirun --survive).  A program whose phases can begin anew calls spmd_try
 * instead of spmd_run, as long as it is false, with spmd_change between:
 *
 *   while (!spmd_try(&spmd, job_addr)) spmd_change(&spmd);
 *
 * Its threads begin with spmd_begin, and return SPMD_BROKEN as soon as SPMD_OK of a call is false.
 * Nothing else has to be agreed on: each thread gets DMI_EBROKEN at the barrier, or DMI_ELOST for
 * what the lost process had.  A phase that begins anew begins with what is in global memory: what
 * only the lost process had is not there.  jacobi_dmi shows how a program saves what it needs.
 *
 * A thread that had not yet begun when the process was lost would wait for those that have given
 * up.  So DMI_main takes part in the first barrier of the phase: when it learns there of a loss it
 * takes the barrier away, and whoever waits there gets DMI_EADDR.
 */
#ifndef EXAMPLES_SPMD_H
#define EXAMPLES_SPMD_H

#include "check.h"

/* What a thread finds at the address that DMI_thread gets. */
typedef struct {
  int64_t job_addr;     /* what to do: the program's own structure */
  int64_t barrier_addr; /* for all threads of the phase */
  int32_t rank;         /* from 0; threads of one process have neighbouring ranks */
  int32_t pnum;         /* threads of the phase */
} spmd_arg_t;

#define SPMD_BROKEN 1 /* a thread returns it instead of DMI_NULL: it has given up the phase */

/* In a thread: true if the call succeeds, false if the phase is to be given up. */
#define SPMD_OK(call) spmd_ok((call), #call, __FILE__, __LINE__)

static inline int spmd_ok(int32_t ok, const char *call, const char *file, int line) {
  if (ok == DMI_TRUE) return 1;
  const int32_t error = DMI_errno();
  if (error != DMI_ELOST && error != DMI_EBROKEN && error != DMI_EADDR)
    check_call(ok, call, file, line);
  return 0;
}

/* The first call of a thread of spmd_try, with the address that DMI_thread got: reads the argument,
 * and waits for the others and DMI_main.  False: the phase is given up, and there is no *barrier.
 */
static inline int spmd_begin(int64_t addr, spmd_arg_t *arg, DMI_local_barrier_t *barrier) {
  if (!SPMD_OK(DMI_read(addr, sizeof(*arg), arg, DMI_GET_READ, NULL))) return 0;
  CHECK(DMI_local_barrier_init(barrier, arg->barrier_addr));
  if (SPMD_OK(DMI_local_barrier_sync(barrier, arg->pnum + 1))) return 1;
  CHECK(DMI_local_barrier_destroy(barrier));
  return 0;
}

typedef struct {
  DMI_node_t *nodes;    /* processes with threads, num of them */
  int32_t num;          /* processes */
  int32_t pnum;         /* threads on all of them */
  int32_t thread_num;   /* threads per process; 0: one per core */
  int32_t my_dmi_id;    /* this process */
  int leaving;          /* it has asked to leave; it does so in spmd_end, after the work */
  int64_t barrier_addr; /* DMI_barrier_t */
} spmd_t;

static inline int32_t spmd_threads_on(const spmd_t *spmd, const DMI_node_t *node) {
  if (spmd->thread_num > 0) return spmd->thread_num;
  return node->core > 0 ? node->core : 1;
}

/* This process has no part in the next phases. */
static inline void spmd_without(spmd_t *spmd, int32_t dmi_id) {
  for (int32_t i = 0; i < spmd->num; i++) {
    if (spmd->nodes[i].dmi_id != dmi_id) continue;
    spmd->pnum -= spmd_threads_on(spmd, &spmd->nodes[i]);
    spmd->nodes[i] = spmd->nodes[--spmd->num];
    return;
  }
}

static inline void spmd_handle_notice(spmd_t *spmd, const DMI_node_t *node) {
  if (node->state == DMI_OPEN) {
    if (!CHECK_LOST(DMI_welcome(node->dmi_id))) return;
    spmd->nodes = realloc(spmd->nodes, (size_t)(spmd->num + 1) * sizeof(*spmd->nodes));
    if (spmd->nodes == NULL) abort();
    spmd->nodes[spmd->num++] = *node;
    spmd->pnum += spmd_threads_on(spmd, node);
    return;
  }
  spmd_without(spmd, node->dmi_id);
  if (node->state == DMI_LOST) return;
  if (node->dmi_id == spmd->my_dmi_id) {
    spmd->leaving = 1; /* DMI_main goes on here */
  } else {
    /* even if it cannot leave now, it has no part in the next phases */
    (void)check_goodbye(node->dmi_id);
  }
}

/* Waits until process_num processes have joined; those that ask to leave meanwhile are dismissed.
 */
static inline void spmd_gather(spmd_t *spmd, int32_t process_num, int32_t thread_num) {
  *spmd = (spmd_t){.thread_num = thread_num};
  CHECK(DMI_rank(&spmd->my_dmi_id));
  CHECK(DMI_mmap(&spmd->barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_barrier_init(spmd->barrier_addr));
  while (spmd->num < process_num) {
    DMI_node_t node;
    CHECK(DMI_poll(&node));
    spmd_handle_notice(spmd, &node);
    if (spmd->leaving) {
      fprintf(stderr, "stopped before %d processes had joined\n", process_num);
      exit(EXIT_FAILURE);
    }
  }
}

/* Lets processes join and leave that have asked for it since the last phase.  Waits for a process
 * if none is left to work.  Returns whether the team has changed. */
static inline int spmd_change(spmd_t *spmd) {
  int changed = 0;
  for (;;) {
    DMI_node_t node;
    int32_t found = DMI_TRUE;
    if (spmd->num == 0) {
      printf("waiting for a process to join\n");
      fflush(stdout);
      CHECK(DMI_poll(&node));
    } else {
      CHECK(DMI_peek(&node, &found));
    }
    if (!found) return changed;
    spmd_handle_notice(spmd, &node);
    changed = 1;
  }
}

/* A phase while it runs. */
typedef struct {
  DMI_thread_t *threads;
  int32_t *where;  /* dmi_id of the process of each */
  int32_t created; /* of the threads */
  int64_t addr;    /* spmd_arg_t of each; behind them DMI_barrier_t, for spmd_try; 0: unmapped */
  int64_t barrier_addr;
  int lost; /* a process was lost */
} spmd_phase_t;

static inline void spmd_open(spmd_phase_t *phase, const spmd_t *spmd, int64_t job_addr,
                             int64_t barrier_addr) {
  const int64_t bytes = (int64_t)sizeof(spmd_arg_t) * spmd->pnum;
  spmd_arg_t *args = my_malloc((size_t)bytes);
  *phase = (spmd_phase_t){.barrier_addr = barrier_addr};
  phase->threads = my_malloc((size_t)spmd->pnum * sizeof(*phase->threads));
  phase->where = my_malloc((size_t)spmd->pnum * sizeof(*phase->where));
  CHECK(DMI_mmap(&phase->addr, bytes + (int64_t)sizeof(DMI_barrier_t), 1, NULL));
  if (barrier_addr == 0) {
    phase->barrier_addr = phase->addr + bytes;
    CHECK(DMI_barrier_init(phase->barrier_addr));
  }
  for (int32_t i = 0; i < spmd->pnum; i++)
    args[i] = (spmd_arg_t){job_addr, phase->barrier_addr, i, spmd->pnum};
  CHECK(DMI_write(phase->addr, bytes, args, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(args);
}

static inline void spmd_create(spmd_phase_t *phase, const spmd_t *spmd) {
  for (int32_t i = 0; i < spmd->num; i++) {
    const int32_t id = spmd->nodes[i].dmi_id, num = spmd_threads_on(spmd, &spmd->nodes[i]);
    for (int32_t k = 0; k < num && !phase->lost; k++) {
      const int64_t arg_addr = phase->addr + phase->created * (int64_t)sizeof(spmd_arg_t);
      phase->where[phase->created] = id;
      if (CHECK_LOST(DMI_create(&phase->threads[phase->created], id, arg_addr, NULL))) {
        phase->created++;
      } else {
        phase->lost = 1;
      }
    }
  }
}

static inline void spmd_unmap(spmd_phase_t *phase) {
  if (phase->addr != 0) CHECK(DMI_munmap(phase->addr, NULL));
  phase->addr = 0;
}

/* Waits for the end of all threads.  Processes that are known to be lost leave the team. */
static inline void spmd_join(spmd_phase_t *phase, spmd_t *spmd) {
  for (int32_t i = 0; i < phase->created; i++) {
    int64_t result = SPMD_BROKEN;
    if (!CHECK_LOST(DMI_join(phase->threads[i], &result, NULL)))
      spmd_without(spmd, phase->where[i]);
    if (result == SPMD_BROKEN) phase->lost = 1;
  }
  my_free(phase->where);
  my_free(phase->threads);
  spmd_unmap(phase);
}

/* Runs one phase on all threads and waits for its end. */
static inline void spmd_run(const spmd_t *spmd, int64_t job_addr) {
  spmd_t team = *spmd;
  spmd_phase_t phase;
  spmd_open(&phase, spmd, job_addr, spmd->barrier_addr);
  spmd_create(&phase, spmd);
  spmd_join(&phase, &team);
  if (!phase.lost) return;
  fprintf(stderr, "a process was lost, and this program cannot do its work again\n");
  exit(EXIT_FAILURE);
}

/* The same, for threads that begin with spmd_begin.  False: a process was lost, and all threads
 * have ended; what they have done is in global memory as far as they came. */
static inline int spmd_try(spmd_t *spmd, int64_t job_addr) {
  DMI_local_barrier_t barrier;
  spmd_phase_t phase;
  spmd_open(&phase, spmd, job_addr, 0);
  CHECK(DMI_local_barrier_init(&barrier, phase.barrier_addr));
  spmd_create(&phase, spmd);
  if (!phase.lost) phase.lost = !SPMD_OK(DMI_local_barrier_sync(&barrier, spmd->pnum + 1));
  CHECK(DMI_local_barrier_destroy(&barrier));
  if (phase.lost) spmd_unmap(&phase); /* for those that wait there, or come late */
  spmd_join(&phase, spmd);
  return !phase.lost;
}

/* The last call of DMI_main.  No DMI thread runs anywhere now: processes that have not asked to
 * leave end with DMI_main. */
static inline void spmd_end(spmd_t *spmd) {
  CHECK(DMI_barrier_destroy(spmd->barrier_addr));
  CHECK(DMI_munmap(spmd->barrier_addr, NULL));
  free(spmd->nodes);
  if (spmd->leaving) (void)check_goodbye(spmd->my_dmi_id);
}

#endif
