/*
 * team_dmi.c - teams: sends, receives, collective calls and resets of ranks in several processes.
 *
 *   dmirun team_dmi PROCESSES RANKS
 */
#include <stdlib.h>
#include <string.h>

#include "dmi_team.h"
#include "multi.h"

#define LARGE (3 * 1024 * 1024 + 5)

static int64_t report;

/* In global memory: what a thread gets. */
struct job {
  int64_t team, report;
  int64_t rank;
  int64_t large; /* address: 1 when the team is large again */
};

static __thread int64_t team_at;
static __thread DMI_local_team_t *self_team;
static __thread int32_t rank, size;

static int32_t next(void) {
  return (rank + 1) % size;
}

static int32_t before(void) {
  return (rank + size - 1) % size;
}

static void await(DMI_local_status_t *status, int32_t wanted) {
  int32_t ret = DMI_FALSE;
  DMI_wait(status, &ret);
  EQ(ret, wanted);
}

/* ---- Sends and receives --------------------------------------------------------------------- */

/* Messages of all sizes around a ring arrive in order; sends of small ones do not wait. */
static void ring(void) {
  static const int64_t sizes[] = {0, 1, 8, 511, 512, 513, 4096, 65535, 65536, 65537, LARGE};
  const int64_t num = sizeof(sizes) / sizeof(sizes[0]);
  unsigned char *out = malloc(LARGE), *in = malloc(LARGE), *wanted = malloc(LARGE);
  for (int64_t i = 0; i < num; i++) {
    DMI_local_status_t status;
    DMI_got_t got = {-1, -1};
    rng_fill((uint64_t)(rank * 100 + i), out, (uint64_t)sizes[i]);
    OK(DMI_team_send(self_team, next(), out, sizes[i], &status));
    OK(DMI_team_recv(self_team, before(), in, LARGE, &got, NULL));
    await(&status, DMI_TRUE);
    EQ(got.size, sizes[i]);
    EQ(got.rank, before());
    rng_fill((uint64_t)(before() * 100 + i), wanted, (uint64_t)sizes[i]);
    SAME(in, wanted, sizes[i]);
  }
  free(out);
  free(in);
  free(wanted);
}

/* Many small messages to the next rank before the first one is received: more than the window. */
static void many(void) {
  const int64_t num = scaled(20000);
  DMI_local_status_t *status = calloc((size_t)num, sizeof(*status));
  int64_t *out = calloc((size_t)num, sizeof(*out)), in;
  for (int64_t i = 0; i < num; i++) {
    out[i] = rank * num + i;
    OK(DMI_team_send(self_team, next(), &out[i], sizeof(out[i]), &status[i]));
  }
  for (int64_t i = 0; i < num; i++) {
    OK(DMI_team_recv(self_team, before(), &in, sizeof(in), NULL, NULL));
    if (!EQ(in, before() * num + i)) break;
  }
  for (int64_t i = 0; i < num; i++)
    await(&status[i], DMI_TRUE);
  free(status);
  free(out);
}

/* The window to the next rank is full: collective calls go on. */
static void full(void) {
  const int64_t num = 4096; /* each counts 64 bytes of the window, which has 256 KiB */
  DMI_local_status_t *status = calloc((size_t)num, sizeof(*status));
  for (int64_t i = 0; i < num; i++)
    OK(DMI_team_send(self_team, next(), NULL, 0, &status[i]));
  OK(DMI_team_barrier(self_team));
  for (int64_t i = 0; i < num; i++)
    OK(DMI_team_recv(self_team, before(), NULL, 0, NULL, NULL));
  for (int64_t i = 0; i < num; i++)
    await(&status[i], DMI_TRUE);
  free(status);
}

/* Rank 0 receives from whoever is first; each sender's messages are in order. */
static void any(void) {
  const int64_t num = scaled(1000);
  int64_t value, seen[64] = {0};
  if (rank != 0) {
    for (value = 0; value < num; value++)
      OK(DMI_team_send(self_team, 0, &value, sizeof(value), NULL));
    return;
  }
  for (int64_t i = 0; i < num * (size - 1); i++) {
    DMI_got_t got;
    if (i % 10 == 0) {
      OK(DMI_team_probe(self_team, DMI_ANY, &got, NULL));
      EQ(got.size, 8);
    }
    OK(DMI_team_recv(self_team, DMI_ANY, &value, sizeof(value), &got, NULL));
    EQ(value, seen[got.rank]++);
  }
}

/* A buffer that is too small, a probe, a message to oneself, receives that wait. */
static void special(void) {
  DMI_got_t got = {0, 0};
  DMI_local_status_t status[2];
  char small[4], text[16] = "", second[16] = "";
  int32_t flag = 1;
  OK(DMI_team_barrier(self_team));
  OK(DMI_team_probe(self_team, rank, &got, &flag));
  EQ(flag, 0);
  OK(DMI_team_send(self_team, rank, "to myself", 10, NULL));
  OK(DMI_team_probe(self_team, rank, &got, &flag));
  EQ(flag, 1);
  EQ(got.size, 10);
  FAILS(DMI_team_recv(self_team, rank, small, sizeof(small), &got, NULL), DMI_ESIZE);
  EQ(got.size, 10);
  OK(DMI_team_recv(self_team, rank, text, sizeof(text), &got, NULL));
  SAME(text, "to myself", 10);
  OK(DMI_team_recv(self_team, before(), text, sizeof(text), NULL, &status[0]));
  OK(DMI_team_recv(self_team, before(), second, sizeof(second), NULL, &status[1]));
  FAILS(DMI_team_leave(self_team), DMI_EBUSY);
  OK(DMI_team_barrier(self_team));
  OK(DMI_team_send(self_team, next(), "first", 6, NULL));
  OK(DMI_team_send(self_team, next(), "second", 7, NULL));
  await(&status[0], DMI_TRUE);
  await(&status[1], DMI_TRUE);
  SAME(text, "first", 6);
  SAME(second, "second", 7);
}

static void wrong(void) {
  DMI_local_team_t none = {{0}};
  DMI_local_status_t status;
  char byte = 0;
  FAILS(DMI_team_send(&none, 0, &byte, 1, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(NULL, 0, &byte, 1, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(self_team, size, &byte, 1, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(self_team, DMI_ANY, &byte, 1, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(self_team, 0, &byte, -1, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(self_team, 0, NULL, 1, &status), DMI_EINVAL);
  await(&status, DMI_FALSE);
  FAILS(DMI_team_send(self_team, 0, &byte, INT64_MAX, NULL), DMI_EINVAL);
  FAILS(DMI_team_bcast(self_team, 0, &byte, INT64_MAX), DMI_EINVAL);
  FAILS(DMI_team_gather(self_team, 0, &byte, INT64_MAX, &byte), DMI_EINVAL);
  FAILS(DMI_team_resize(team_at, INT32_MAX), DMI_EINVAL);
  FAILS(DMI_team_recv(self_team, -2, &byte, 1, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_team_bcast(self_team, size, &byte, 1), DMI_EINVAL);
  FAILS(DMI_team_reduce(self_team, 0, &byte, &byte, 1, 99, DMI_OP_SUM), DMI_EINVAL);
  FAILS(DMI_team_reduce(self_team, 0, &byte, &byte, 1, DMI_TYPE_DOUBLE, DMI_OP_BAND), DMI_EINVAL);
  FAILS(DMI_team_join(&none, team_at, rank), DMI_EBUSY);
  FAILS(DMI_team_join(&none, team_at, size), DMI_EINVAL);
  FAILS(DMI_team_join(&none, team_at, DMI_ANY), DMI_EBUSY);
}

/* ---- Collective calls ----------------------------------------------------------------------- */

static void concatenate(void *into, const void *with, int64_t num) {
  for (int64_t i = 0; i < num; i++) /* the order is seen: not commutative */
    ((uint64_t *)into)[i] = ((uint64_t *)into)[i] * 31 + ((const uint64_t *)with)[i];
}

/* What the tree of OX-RFC-102 gives at position r of it. */
static uint64_t folded(int32_t r, int32_t root, uint64_t i) {
  uint64_t value = (uint64_t)((r + root) % size) * 1000 + i;
  for (int32_t mask = 1; mask < size && !(r & mask); mask <<= 1)
    if (r + mask < size) value = value * 31 + folded(r + mask, root, i);
  return value;
}

static void reduce_at(int32_t root, int64_t num) {
  uint64_t *in = calloc((size_t)num + 1, 8), *out = calloc((size_t)num + 1, 8);
  for (int64_t i = 0; i < num; i++)
    in[i] = (uint64_t)rank * 1000 + (uint64_t)i;
  OK(DMI_team_reduce_by(self_team, root, in, out, num, 8, concatenate));
  if (rank == root) {
    for (int64_t i = 0; i < num; i++)
      if (!EQ(out[i], folded(0, root, (uint64_t)i))) break;
  }
  OK(DMI_team_reduce(self_team, root, in, in, num, DMI_TYPE_UINT64, DMI_OP_MAX));
  if (rank == root && num) EQ(in[num - 1], (size - 1) * 1000 + num - 1);
  free(in);
  free(out);
}

/* In place and not, the same at all ranks, and what a reduce gives: to the bit, though another
 * order gives other bits. */
static void allreduce(int64_t num) {
  double *in = calloc((size_t)num * 3 + 1, 8), *out = in + num, *wanted = out + num;
  for (int64_t i = 0; i < num; i++)
    in[i] = 1.0 / (double)(rank * 3 + 1 + i % 1000);
  OK(DMI_team_reduce(self_team, 0, in, wanted, num, DMI_TYPE_DOUBLE, DMI_OP_SUM));
  OK(DMI_team_bcast(self_team, 0, wanted, num * 8));
  OK(DMI_team_allreduce(self_team, in, out, num, DMI_TYPE_DOUBLE, DMI_OP_SUM));
  SAME(out, wanted, num * 8);
  OK(DMI_team_allreduce(self_team, in, in, num, DMI_TYPE_DOUBLE, DMI_OP_SUM));
  SAME(in, wanted, num * 8);
  free(in);
}

static void collective(void) {
  unsigned char *buf = malloc(LARGE), *wanted = malloc(LARGE);
  int64_t *all = calloc((size_t)size, 8), mine;
  for (int32_t root = 0; root < size; root++) {
    static const int64_t sizes[] = {0, 8, 65536, 65537, LARGE};
    for (int i = 0; i < 5; i++) {
      rng_fill((uint64_t)(root * 7 + i), wanted, (uint64_t)sizes[i]);
      if (sizes[i]) memset(buf, 0, (size_t)sizes[i]);
      if (rank == root) memcpy(buf, wanted, (size_t)sizes[i]);
      OK(DMI_team_bcast(self_team, root, buf, sizes[i]));
      SAME(buf, wanted, sizes[i]);
    }
    reduce_at(root, 0);
    reduce_at(root, 1);
    reduce_at(root, 30000);
    if (root == size - 1) reduce_at(root, 200000); /* several blocks */
    mine = rank * 10;
    OK(DMI_team_gather(self_team, root, &mine, 8, all));
    for (int32_t i = 0; rank == root && i < size; i++)
      EQ(all[i], i * 10);
    for (int32_t i = 0; i < size; i++)
      all[i] = root * 100 + i;
    OK(DMI_team_scatter(self_team, root, all, 8, &mine));
    EQ(mine, root * 100 + rank);
  }
  allreduce(0);
  allreduce(1);
  allreduce(8193); /* more than is exchanged whole */
  allreduce(600001);
  free(buf);
  free(wanted);
  free(all);
}

/* ---- Resets --------------------------------------------------------------------------------- */

/* At a random time rank 0 resets; the others send and receive whatever they like until they are
 * told. Each message says in which round it was sent. */
static void resets(void) {
  const int64_t rounds = scaled(50);
  unsigned char *buf = calloc(1, 200000);
  uint64_t rng = (uint64_t)rank + 1;
  for (int64_t round = 1; round <= rounds; round++) {
    const int64_t calls = rank == 0 ? (int64_t)rng_below(&rng, 40) : INT64_MAX;
    for (int64_t i = 0; i < calls; i++) {
      int32_t with = (int32_t)rng_below(&rng, (uint64_t)size);
      int64_t bytes = rng_below(&rng, 8) ? 8 : 8 + (int64_t)rng_below(&rng, 190000), said = round;
      int32_t ret, error;
      bool sends = rng_below(&rng, 2) != 0;
      if (sends) memcpy(buf, &round, 8);
      /* Rank 0 must come to its reset. */
      if (!sends && rank == 0) continue;
      if (sends && rank == 0) bytes = 8;
      ret = sends ? DMI_team_send(self_team, with, buf, bytes, NULL)
                  : DMI_team_recv(self_team, rng_below(&rng, 3) ? DMI_ANY : with, buf, 200000, NULL,
                                  NULL);
      error = ret ? DMI_OK : DMI_errno();
      if (error == DMI_ERESET) break;
      if (!EQ(error, DMI_OK)) break;
      if (!sends) memcpy(&said, buf, 8);
      if (!EQ(said, round)) break;
    }
    OK(DMI_team_reset(self_team));
  }
  free(buf);
}

/* Waits until all have come here; who has seen that first may reset, which releases the others. */
static void all_done(void) {
  if (DMI_team_barrier(self_team)) return;
  EQ(DMI_errno(), DMI_ERESET);
}

/* Rank 1 sends another size than the root expects: the root is told, and the others released. */
static void other_size(int64_t bytes) {
  unsigned char part[16] = {0};
  int64_t *all = calloc((size_t)size, 8);
  OK(DMI_team_reset(self_team));
  if (rank == 0) {
    FAILS(DMI_team_gather(self_team, 0, part, 8, all), DMI_ESIZE);
    FAILS(DMI_team_bcast(self_team, 0, part, 8), DMI_ELOST);
  } else {
    if (!DMI_team_gather(self_team, 0, part, rank == 1 ? bytes : 8, NULL))
      EQ(DMI_errno(), DMI_ERESET);
    FAILS(DMI_team_recv(self_team, 0, part, 16, NULL, NULL), DMI_ERESET);
  }
  OK(DMI_team_reset(self_team));
  free(all);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void check_size(int32_t wanted_size) {
  int32_t seen_rank = -1, seen_size = -1;
  OK(DMI_team_rank(self_team, &seen_rank, &seen_size));
  EQ(seen_rank, rank);
  EQ(seen_size, wanted_size);
}

static void whole(const struct job *job) {
  DMI_local_team_t mine;
  team_at = job->team;
  self_team = &mine;
  rank = (int32_t)job->rank;
  MUST(DMI_team_join(&mine, job->team, rank < 0 ? DMI_ANY : rank));
  MUST(DMI_team_rank(&mine, &rank, &size));
  ring();
  many();
  full();
  any();
  special();
  wrong();
  collective();
  all_done();
  resets();
  ring();
  all_done();
  if (size > 1) other_size(4);
  if (size > 1) other_size(16);
  /* One rank less, and then as before. */
  if (size > 1) {
    const int32_t old = size;
    if (rank == 0) OK(DMI_team_resize(team_at, old - 1));
    if (rank == old - 1) {
      FAILS(DMI_team_reset(self_team), DMI_EINVAL);
      FAILS(DMI_team_barrier(self_team), DMI_EINVAL);
      wait_for(job->large, 1);
      OK(DMI_team_join(self_team, team_at, rank));
    } else {
      OK(DMI_team_reset(self_team));
      MUST(DMI_team_rank(self_team, &rank, &size));
      check_size(old - 1);
      ring();
      all_done();
      if (rank == 0) OK(DMI_team_resize(team_at, old));
      if (rank == 0) put_int64(job->large, 1);
      OK(DMI_team_reset(self_team));
    }
    MUST(DMI_team_rank(self_team, &rank, &size));
    check_size(old);
    ring();
  }
  OK(DMI_team_leave(self_team));
  FAILS(DMI_team_barrier(self_team), DMI_EINVAL);
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  whole(&job);
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  const int32_t processes = argc > 1 ? atoi(argv[1]) : 1, ranks = argc > 2 ? atoi(argv[2]) : 2;
  int32_t *ids = calloc((size_t)processes, sizeof(*ids));
  DMI_thread_t *threads = calloc((size_t)ranks, sizeof(*threads));
  int64_t jobs, value, large;
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&team_at, sizeof(DMI_team_t), 1, NULL));
  MUST(DMI_mmap(&jobs, sizeof(struct job), ranks, NULL));
  MUST(DMI_mmap(&large, 8, 1, NULL));
  gather(processes, ids);
  FAILS(DMI_team_init(team_at, 0), DMI_EINVAL);
  FAILS(DMI_team_init(team_at, (1 << 20) + 1), DMI_EINVAL);
  FAILS(DMI_team_destroy(team_at), DMI_EINVAL);
  OK(DMI_team_init(team_at, 1));
  OK(DMI_team_resize(team_at, ranks));
  for (int32_t i = 0; i < ranks; i++) {
    struct job job = {.team = team_at, .report = report, .rank = i, .large = large};
    int64_t at = jobs + i * (int64_t)sizeof(job);
    if (ranks == 2) job.rank = DMI_ANY;
    MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[i], ids[i % processes], at, NULL));
  }
  for (int32_t i = 0; i < ranks; i++)
    MUST(DMI_join(threads[i], &value, NULL));
  OK(DMI_team_destroy(team_at));
  FAILS(DMI_team_destroy(team_at), DMI_EINVAL);
  free(ids);
  free(threads);
  verdict("team", report);
}
