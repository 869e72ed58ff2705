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
 * A program whose state is in global memory between two phases can use DMI_rescale instead, which
 * does all that, and goes on without processes that are lost (jacobi_dmi, cg_dmi).
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

/* Runs one phase on all threads and waits for its end. */
static inline void spmd_run(const spmd_t *spmd, int64_t job_addr) {
  const int64_t arg_size = (int64_t)sizeof(spmd_arg_t);
  spmd_arg_t *args = my_malloc((size_t)(spmd->pnum * arg_size));
  DMI_thread_t *threads = my_malloc((size_t)spmd->pnum * sizeof(*threads));
  int64_t args_addr;
  int32_t rank = 0;
  for (int32_t i = 0; i < spmd->pnum; i++)
    args[i] = (spmd_arg_t){job_addr, spmd->barrier_addr, i, spmd->pnum};
  CHECK(DMI_mmap(&args_addr, spmd->pnum * arg_size, 1, NULL));
  CHECK(DMI_write(args_addr, spmd->pnum * arg_size, args, DMI_EXCLUSIVE_WRITE, NULL));
  for (int32_t i = 0; i < spmd->num; i++) {
    for (int32_t k = spmd_threads_on(spmd, &spmd->nodes[i]); k > 0; k--, rank++)
      CHECK(DMI_create(&threads[rank], spmd->nodes[i].dmi_id, args_addr + rank * arg_size, NULL));
  }
  for (int32_t i = 0; i < spmd->pnum; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
  CHECK(DMI_munmap(args_addr, NULL));
  my_free(threads);
  my_free(args);
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
