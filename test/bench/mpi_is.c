/*
 * mpi_is.c - what examples/is_dmi.c computes, written for MPI, with the same kernels.
 *
 *   mpirun -np N ./mpi_is CLASS
 *
 * Prints seconds, and the checksum of the ranks that is_dmi prints.  Each process has a block of
 * the keys and counts them, value by value.  MPI_Reduce_scatter_block adds the counts up: each
 * process gets those of its range of the values, with the number of keys below it, and ranks them.
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <mpi.h>

#include "../../examples/hash.h"
#include "../../examples/is.h"

typedef struct {
  int rank, size, class;
  int32_t values;
  int64_t key_num, begin, num; /* all keys; mine */
  int64_t range;               /* values of one process; the last one may have fewer */
  int32_t *keys;
  int32_t *plain, *counts; /* of all values, and with what is below each range */
  int32_t *sums;           /* of my range: sums[1 + value] keys up to a value */
} sorter_t;

static void sorter_open(sorter_t *s, int class) {
  *s = (sorter_t){.class = class,
                  .values = 1 << is_classes[class].values_log,
                  .key_num = (int64_t)1 << is_classes[class].keys_log};
  MPI_Comm_rank(MPI_COMM_WORLD, &s->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s->size);
  const int64_t block = (s->key_num + s->size - 1) / s->size;
  s->begin = block * s->rank < s->key_num ? block * s->rank : s->key_num;
  s->num = s->begin + block < s->key_num ? block : s->key_num - s->begin;
  s->range = (s->values + s->size - 1) / s->size;
  s->keys = npb_room(s->num, sizeof(*s->keys));
  s->plain = npb_room(s->range * s->size, sizeof(*s->plain));
  s->counts = npb_room((1 + s->range) * s->size, sizeof(*s->counts));
  s->sums = npb_room(1 + s->range, sizeof(*s->sums));
  uint64_t state = is_state(s->begin);
  is_draw(&state, s->values, s->keys, s->num);
}

static void sorter_close(sorter_t *s) {
  free(s->sums);
  free(s->counts);
  free(s->plain);
  free(s->keys);
}

static void set_key(sorter_t *s, int64_t index, int32_t key) {
  if (index >= s->begin && index < s->begin + s->num) s->keys[index - s->begin] = key;
}

/* The keys of the tests, as all processes must know them. */
static void find_keys(const sorter_t *s, int32_t *keys) {
  int32_t mine[IS_TESTS];
  for (int i = 0; i < IS_TESTS; i++) {
    const int64_t index = is_classes[s->class].index[i] - s->begin;
    mine[i] = index >= 0 && index < s->num ? s->keys[index] : -1;
  }
  MPI_Allreduce(mine, keys, IS_TESTS, MPI_INT32_T, MPI_MAX, MPI_COMM_WORLD);
}

static void rank_keys(sorter_t *s) {
  memset(s->plain, 0, (size_t)(s->range * s->size) * sizeof(*s->plain));
  is_count(s->keys, s->num, s->plain);
  is_cut(s->plain, s->range, s->size, s->counts);
  MPI_Reduce_scatter_block(s->counts, s->sums, (int)(1 + s->range), MPI_INT32_T, MPI_SUM,
                           MPI_COMM_WORLD);
  is_sum(s->sums, s->range);
}

/* Changes two keys.  Returns how many of the tests that this process can make have passed. */
static int iterate(sorter_t *s, int iteration) {
  int32_t keys[IS_TESTS];
  int passed = 0;
  set_key(s, iteration, iteration);
  set_key(s, iteration + IS_ITERATIONS, s->values - iteration);
  find_keys(s, keys);
  rank_keys(s);
  for (int i = 0; i < IS_TESTS; i++) {
    const int64_t below = keys[i] - 1; /* the rank is the number of keys up to this value */
    if (below < 0 ? s->rank != 0 : below / s->range != s->rank) continue;
    const int32_t rank = below < 0 ? 0 : s->sums[1 + below % s->range];
    passed += rank == is_expected(s->class, i, iteration);
  }
  return passed;
}

/* At rank 0: whether the ranks sort the keys.  Prints their checksum. */
static int fully_verify(const sorter_t *s) {
  const int64_t block = (s->key_num + s->size - 1) / s->size;
  int32_t *keys = NULL, *ranks = NULL;
  int right = 1;
  if (s->rank == 0) {
    keys = npb_room(block * s->size, sizeof(*keys));
    ranks = npb_room(s->range * s->size, sizeof(*ranks));
  }
  MPI_Gather(s->keys, (int)s->num, MPI_INT32_T, keys, (int)block, MPI_INT32_T, 0, MPI_COMM_WORLD);
  MPI_Gather(s->sums + 1, (int)s->range, MPI_INT32_T, ranks, (int)s->range, MPI_INT32_T, 0,
             MPI_COMM_WORLD);
  if (s->rank == 0) {
    printf("checksum %016llx\n", (unsigned long long)hash_int32s(0, ranks, s->values));
    right = is_sorts(keys, s->key_num, ranks);
  }
  free(ranks);
  free(keys);
  return right;
}

int main(int argc, char **argv) {
  sorter_t s;
  int passed = 0, all;
  MPI_Init(&argc, &argv);
  sorter_open(&s, npb_class(argc > 1 ? argv[1] : "S", is_class_names));
  iterate(&s, 1); /* a first one that is not timed, as in is_dmi.c */
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int iteration = 1; iteration <= IS_ITERATIONS; iteration++)
    passed += iterate(&s, iteration);
  MPI_Barrier(MPI_COMM_WORLD);
  seconds += MPI_Wtime();
  MPI_Reduce(&passed, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  int verified = fully_verify(&s);
  if (s.rank == 0) {
    verified &= all == IS_TESTS * IS_ITERATIONS;
    printf("seconds %.6f\n%s\n", seconds,
           verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  }
  sorter_close(&s);
  MPI_Finalize();
  return verified ? 0 : EXIT_FAILURE;
}
