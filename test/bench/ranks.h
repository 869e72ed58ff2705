/*
 * ranks.h - what messages between ranks cost, whoever carries them: the same loops for DMI's teams
 * (bench_team_dmi.c) and for MPI (mpi_team.c).
 *
 * With two ranks: messages there and back, and many of 1 MiB in one direction, each sent by a call
 * that returns when its buffer may be used again.  With any number: collective calls of 8 bytes
 * and of 1 MiB.  The root is another rank in each call, so a rank cannot be many calls ahead of
 * the others.
 */
#ifndef RANKS_H
#define RANKS_H

#include <string.h>

#include "bench.h"

#define MIB (1024 * 1024)
#define BATCH_NS 50000000 /* a batch is made smaller when it would take longer */

/* Who carries the messages.  A failure of any of these ends the program. */
typedef struct {
  void *arg;
  int32_t rank, size;
  const char *prefix; /* of the names of the figures */
  void (*send)(void *arg, int32_t to, const void *buf, int64_t size);
  void (*recv)(void *arg, int32_t from, void *buf, int64_t size);
  void (*bcast)(void *arg, int32_t root, void *buf, int64_t size);
  void (*reduce)(void *arg, int32_t root, const double *in, double *out, int64_t num);
  void (*allreduce)(void *arg, const double *in, double *out, int64_t num);
  void (*barrier)(void *arg);
} ranks_t;

/* Local memory of a rank: two blocks of 1 MiB. */
typedef struct {
  double *in, *out;
} ranks_memory_t;

static inline void ranks_check(int right, const char *what) {
  if (right) return;
  fprintf(stderr, "%s: wrong bytes\n", what);
  exit(EXIT_FAILURE);
}

/* ---- The calls, each made `count` times; first and last number show that it is right ----------
 */

typedef void ranks_many_t(const ranks_t *ranks, const ranks_memory_t *memory, int64_t num,
                          int64_t count);

static inline void ranks_there_and_back(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                                        int64_t count) {
  double *buf = memory->in;
  for (int64_t i = 0; i < count; i++) {
    if (r->rank == 0) {
      buf[0] = buf[num - 1] = (double)i;
      r->send(r->arg, 1, buf, num * 8);
      r->recv(r->arg, 1, buf, num * 8);
      ranks_check(buf[num - 1] == (double)i + 1, "there and back");
    } else {
      r->recv(r->arg, 0, buf, num * 8);
      ranks_check(buf[0] == (double)i && buf[num - 1] == (double)i, "there and back");
      buf[num - 1]++;
      r->send(r->arg, 0, buf, num * 8);
    }
  }
}

static inline void ranks_one_way(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                                 int64_t count) {
  double *buf = memory->in;
  for (int64_t i = 0; i < count; i++) {
    if (r->rank == 0) {
      buf[0] = buf[num - 1] = (double)i;
      r->send(r->arg, 1, buf, num * 8);
    } else {
      r->recv(r->arg, 0, buf, num * 8);
      ranks_check(buf[0] == (double)i && buf[num - 1] == (double)i, "one way");
    }
  }
  if (r->rank == 0) r->recv(r->arg, 1, buf, 8); /* it has received all */
  if (r->rank == 1) r->send(r->arg, 0, buf, 8);
}

static inline void ranks_bcast(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                               int64_t count) {
  double *buf = memory->in;
  for (int64_t i = 0; i < count; i++) {
    const int32_t root = (int32_t)(i % r->size);
    buf[0] = buf[num - 1] = r->rank == root ? (double)i : -1;
    r->bcast(r->arg, root, buf, num * 8);
    ranks_check(buf[0] == (double)i && buf[num - 1] == (double)i, "bcast");
  }
}

static inline void ranks_reduce(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                                int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int32_t root = (int32_t)(i % r->size);
    memory->in[0] = memory->in[num - 1] = (double)i;
    r->reduce(r->arg, root, memory->in, memory->out, num);
    if (r->rank != root) continue;
    ranks_check(memory->out[0] == (double)(i * r->size), "reduce");
    ranks_check(memory->out[num - 1] == (double)(i * r->size), "reduce");
  }
}

static inline void ranks_allreduce(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                                   int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    memory->in[0] = memory->in[num - 1] = (double)i;
    r->allreduce(r->arg, memory->in, memory->out, num);
    ranks_check(memory->out[0] == (double)(i * r->size), "allreduce");
    ranks_check(memory->out[num - 1] == (double)(i * r->size), "allreduce");
  }
}

static inline void ranks_barrier(const ranks_t *r, const ranks_memory_t *memory, int64_t num,
                                 int64_t count) {
  (void)memory, (void)num;
  for (int64_t i = 0; i < count; i++)
    r->barrier(r->arg);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  ranks_many_t *many;
  int64_t num;   /* doubles */
  int64_t count; /* at most, in a batch */
  int only_two;  /* only with two ranks */
  double rate;   /* bytes of a call, if its figure is a rate; 0: a time */
} ranks_works[] = {
    {"echo_8", ranks_there_and_back, 1, 1000, 1, 0},
    {"echo_1m", ranks_there_and_back, MIB / 8, 100, 1, 2.0 * MIB},
    {"one_way_1m", ranks_one_way, MIB / 8, 100, 1, MIB},
    {"barrier", ranks_barrier, 1, 1000, 0, 0},
    {"bcast_8", ranks_bcast, 1, 1000, 0, 0},
    {"reduce_8", ranks_reduce, 1, 1000, 0, 0},
    {"allreduce_8", ranks_allreduce, 1, 1000, 0, 0},
    {"bcast_1m", ranks_bcast, MIB / 8, 100, 0, 0},
    {"reduce_1m", ranks_reduce, MIB / 8, 100, 0, 0},
    {"allreduce_1m", ranks_allreduce, MIB / 8, 100, 0, 0},
};

/* How many calls all make in a batch: as rank 0 finds. */
static inline int64_t ranks_fit(const ranks_t *r, const ranks_memory_t *memory, int work) {
  const int64_t most = ranks_works[work].count, probe = most / 16 > 1 ? most / 16 : 1;
  const int64_t start = now_ns();
  double count;
  ranks_works[work].many(r, memory, ranks_works[work].num, probe);
  count = (double)(BATCH_NS * probe / (now_ns() - start + 1));
  if (count < 1) count = 1;
  if (count > (double)most) count = (double)most;
  r->bcast(r->arg, 0, &count, 8);
  return (int64_t)count;
}

static inline void ranks_measure(const ranks_t *r, const ranks_memory_t *memory, int work) {
  const int64_t num = ranks_works[work].num, count = ranks_fit(r, memory, work);
  figure_t figure;
  snprintf(figure.name, sizeof(figure.name), "%s%s", r->prefix, ranks_works[work].name);
  snprintf(figure.unit, sizeof(figure.unit), "%s", ranks_works[work].rate > 0 ? "MB/s" : "us");
  for (int batch = -1; batch < batches(); batch++) {
    r->barrier(r->arg);
    const int64_t start = now_ns();
    ranks_works[work].many(r, memory, num, count);
    r->barrier(r->arg);
    const double us = (double)(now_ns() - start) / 1e3 / (double)count;
    if (batch < 0) continue;
    figure.values[batch] = ranks_works[work].rate > 0 ? ranks_works[work].rate / us : us;
  }
  if (r->rank == 0) figure_print(&figure);
}

/* All that ranks of this number can do. */
static inline void ranks_run(const ranks_t *r) {
  const ranks_memory_t memory = {.in = calloc(1, MIB), .out = calloc(1, MIB)};
  if (memory.in == NULL || memory.out == NULL) {
    perror("calloc");
    exit(EXIT_FAILURE);
  }
  for (int work = 0; work < (int)(sizeof(ranks_works) / sizeof(ranks_works[0])); work++) {
    if (!ranks_works[work].only_two || r->size == 2) ranks_measure(r, &memory, work);
  }
  free(memory.in);
  free(memory.out);
}

#endif
