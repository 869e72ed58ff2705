/*
 * reduce_dmi.c - DMI_local_barrier_allreduce_op: all operations on all types, by threads of several
 * processes.
 *
 *   dmirun reduce_dmi N     N processes
 */
#include "multi.h"

#include "dmi_ext.h"

#define THREADS 3 /* in each process */
#define COUNT 5   /* elements, at most */

/* In global memory. */
struct job {
  DMI_barrier_t barrier;
  int64_t report[2];
  int64_t ranks; /* counter */
  int64_t pnum;
};

/* Element i of thread `rank`: small, so that sums of floats are exact in any order. */
static int64_t element(int64_t rank, int64_t i) {
  return (rank + 2) % 5 - 2 + i * (rank % 3 == 1 ? -1 : 1);
}

static int64_t combine(DMI_op_t op, int64_t a, int64_t b) {
  switch (op) {
    case DMI_OP_SUM:
      return a + b;
    case DMI_OP_PROD:
      return a * b;
    case DMI_OP_MIN:
      return a < b ? a : b;
    case DMI_OP_MAX:
      return a > b ? a : b;
    case DMI_OP_BAND:
      return a & b;
    case DMI_OP_BOR:
      return a | b;
    default:
      return a ^ b;
  }
}

/* An array of elements of any type. */
union elements {
  int32_t i32[COUNT];
  int64_t i64[COUNT];
  float f[COUNT];
  double d[COUNT];
};

static void put(union elements *to, DMI_type_t type, int64_t i, int64_t value) {
  switch (type) {
    case DMI_TYPE_INT32:
      to->i32[i] = (int32_t)value;
      return;
    case DMI_TYPE_INT64:
      to->i64[i] = value;
      return;
    case DMI_TYPE_FLOAT:
      to->f[i] = (float)value;
      return;
    default:
      to->d[i] = (double)value;
  }
}

/* A zero has no sign. */
static void without_signs(union elements *of, DMI_type_t type, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (type == DMI_TYPE_FLOAT) of->f[i] += 0;
    if (type == DMI_TYPE_DOUBLE) of->d[i] += 0;
  }
}

static void try(DMI_local_barrier_t *local, DMI_op_t op, DMI_type_t type, int64_t rank,
                int32_t pnum) {
  union elements in, out, wanted;
  for (int64_t count = 0; count <= COUNT; count++) {
    memset(&in, 0, sizeof(in));
    memset(&out, 0, sizeof(out));
    memset(&wanted, 0, sizeof(wanted));
    for (int64_t i = 0; i < count; i++) {
      int64_t all = element(0, i);
      for (int64_t other = 1; other < pnum; other++)
        all = combine(op, all, element(other, i));
      put(&in, type, i, element(rank, i));
      put(&wanted, type, i, all);
    }
    OK(DMI_local_barrier_allreduce_op(local, op, type, &in, &out, count, pnum));
    without_signs(&out, type, count);
    SAME(&out, &wanted, sizeof(out)); /* nothing behind them, either */
    OK(DMI_local_barrier_allreduce_op(local, op, type, &in, &in, count, pnum));
    without_signs(&in, type, count);
    SAME(&in, &wanted, sizeof(in));
  }
}

static void wrong(DMI_local_barrier_t *local) {
  double d = 1;
  DMI_local_barrier_t none = {{0}};
  FAILS(DMI_local_barrier_allreduce_op(local, 0, DMI_TYPE_DOUBLE, &d, &d, 1, 1), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, 8, DMI_TYPE_DOUBLE, &d, &d, 1, 1), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, 0, &d, &d, 1, 1), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, 5, &d, &d, 1, 1), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_BOR, DMI_TYPE_DOUBLE, &d, &d, 1, 1),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, DMI_TYPE_DOUBLE, &d, &d, -1, 1),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, DMI_TYPE_DOUBLE, NULL, &d, 1, 1),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, DMI_TYPE_DOUBLE, &d, NULL, 1, 1),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, DMI_TYPE_DOUBLE, &d, &d, 1, 0),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(&none, DMI_OP_SUM, DMI_TYPE_DOUBLE, &d, &d, 1, 1),
        DMI_EINVAL);
}

/* Sums of all integers, also those that wrap around; and the manual's call on the same barrier. */
static void mixed(DMI_local_barrier_t *local, int32_t pnum) {
  int64_t most = INT64_MAX, sum;
  double one = 1;
  OK(DMI_local_barrier_allreduce_op(local, DMI_OP_SUM, DMI_TYPE_INT64, &most, &sum, 1, pnum));
  EQ(sum, (int64_t)((uint64_t)pnum * (uint64_t)INT64_MAX));
  OK(DMI_local_barrier_allreduce(local, 0.5, &one, pnum));
  IS(one == 0.5 * pnum);
  OK(DMI_local_barrier_sync(local, pnum));
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t local;
  int64_t rank, pnum;
  MUST(DMI_fad(addr + (int64_t)offsetof(struct job, ranks), 1, &rank, DMI_PUT_ATOMIC, NULL));
  MUST(DMI_read(addr + (int64_t)offsetof(struct job, pnum), 8, &pnum, DMI_GET_READ, NULL));
  MUST(DMI_local_barrier_init(&local, addr));
  if (rank == 0) wrong(&local);
  for (DMI_op_t op = DMI_OP_SUM; op <= DMI_OP_BXOR; op++) {
    for (DMI_type_t type = DMI_TYPE_INT32; type <= DMI_TYPE_DOUBLE; type++) {
      if (op < DMI_OP_BAND || type <= DMI_TYPE_INT64) try(&local, op, type, rank, (int32_t)pnum);
    }
  }
  mixed(&local, (int32_t)pnum);
  OK(DMI_local_barrier_destroy(&local));
  check_report(addr + (int64_t)offsetof(struct job, report));
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t threads[64];
  int32_t ids[8], num = argc > 1 ? atoi(argv[1]) : 1;
  struct job job = {.pnum = num * THREADS};
  int64_t base;
  gather(num, ids);
  MUST(DMI_mmap(&base, sizeof(job), 1, NULL));
  MUST(DMI_write(base, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_barrier_init(base));
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_create(&threads[i], ids[i % num], base, NULL));
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  OK(DMI_barrier_destroy(base));
  verdict("reduce", base + (int64_t)offsetof(struct job, report));
}
