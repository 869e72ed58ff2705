/*
 * rwset_dmi.c - read-write-sets: values, numbers of messages, wrong sets, domains that move.
 *
 *   dmirun rwset_dmi        three processes; the third leaves at "leave now", another one joins
 *                           at "join now"
 */
#include "multi.h"

#define DOMAINS 3
#define ELEMENTS 9000 /* more than a page of the table of elements has */
#define STEPS 30

/* How many requests of a type this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
enum { MSG_LAST = 5 }; /* GET, READ, PUT, ATOMIC, OWN */

/* A value: 12 bytes, so that nothing is aligned. */
struct value {
  int32_t element, step, check;
};

struct job {
  int64_t number;    /* of the domain */
  int64_t decompose; /* bool: not done yet */
  int64_t contest;   /* bool: sets that overlap */
  int64_t steps;
  int64_t rwset;
  int64_t steppers; /* a barrier: 64-bit counter */
  int64_t report;
};

static int64_t report;

static int64_t sent_all(void) {
  int64_t sum = 0;
  for (int type = 1; type <= MSG_LAST; type++)
    sum += (int64_t)dmi_access_sent(dmi_runtime_access(), type);
  return sum;
}

/* ---- Who writes and reads what --------------------------------------------------------------- */

static int64_t domain_of(int64_t element) {
  return (int64_t)(rng_of(1, (uint64_t)element, 2) % DOMAINS);
}

/* Elements of a domain, in an order of their own. */
static int32_t write_set(int64_t number, int64_t *element) {
  int32_t num = 0;
  for (int64_t i = 0; i < ELEMENTS; i++) {
    int64_t at = (i * 7001 + number) % ELEMENTS;
    if (domain_of(at) == number) element[num++] = at;
  }
  return num;
}

/* A few hundred elements of any domain, some of them twice. */
static int32_t read_set(int64_t number, int64_t *element) {
  uint64_t rng = (uint64_t)number + 5;
  for (int32_t i = 0; i < 700; i++)
    element[i] = (int64_t)rng_below(&rng, ELEMENTS);
  return 700;
}

static struct value value_of(int64_t element, int64_t step) {
  struct value value = {(int32_t)element, (int32_t)step, (int32_t)(element ^ (step * 77))};
  return value;
}

/* ---- A domain -------------------------------------------------------------------------------- */

static void run_domain(const struct job *job) {
  int64_t *writes = my_malloc(ELEMENTS * sizeof(*writes));
  int64_t *reads = my_malloc(ELEMENTS * sizeof(*reads));
  int32_t write_num = write_set(job->number, writes), read_num = read_set(job->number, reads);
  struct value *out = my_malloc((size_t)write_num * sizeof(*out));
  struct value *in = my_malloc((size_t)read_num * sizeof(*in));
  struct value *want = my_malloc((size_t)read_num * sizeof(*want));
  int64_t round = 0;
  DMI_local_rwset_t local;
  DMI_local_status_t status;
  if (job->decompose) {
    OK(DMI_rwset_decompose(job->rwset, (int32_t)job->number, writes, write_num));
    FAILS(DMI_rwset_decompose(job->rwset, (int32_t)job->number, writes, write_num), DMI_ERWSET);
  }
  barrier(job->steppers, DOMAINS, ++round);
  MUST(DMI_local_rwset_init(&local, job->rwset, (int32_t)job->number, reads, read_num));
  for (int64_t step = 0; step < job->steps; step++) {
    int64_t before = sent_all();
    for (int32_t i = 0; i < write_num; i++)
      out[i] = value_of(writes[i], step);
    OK(DMI_local_rwset_write(&local, out, NULL));
    /* The first one may have to fetch the page from where the domain was before. */
    IS(sent_all() - before <= (step == 0));
    barrier(job->steppers, DOMAINS, ++round);
    for (int32_t i = 0; i < read_num; i++)
      want[i] = value_of(reads[i], step);
    before = sent_all();
    if (step % 2) {
      OK(DMI_local_rwset_read(&local, in, NULL));
    } else {
      int32_t ret = DMI_FALSE;
      OK(DMI_local_rwset_read(&local, in, &status));
      DMI_wait(&status, &ret);
      IS(ret == DMI_TRUE);
    }
    SAME(in, want, read_num * (int32_t)sizeof(*in));
    EQ(sent_all() - before, DOMAINS - 1); /* one for each neighbour */
    barrier(job->steppers, DOMAINS, ++round);
  }
  OK(DMI_local_rwset_destroy(&local));
  my_free(want);
  my_free(in);
  my_free(out);
  my_free(reads);
  my_free(writes);
}

/* All domains decompose at the same time, and two of them have one element in common: each is told
 * so, in each round.  In every third round they have none. */
static void run_contest(const struct job *job) {
  int64_t round = 0, writes[40];
  DMI_local_rwset_t local;
  for (int64_t turn = 0; turn < job->steps; turn++) {
    bool good = turn % 3 == 0;
    for (int64_t i = 0; i < 40; i++)
      writes[i] = i * DOMAINS + job->number;
    if (!good && (job->number + turn) % DOMAINS == 0) writes[turn % 39] += 1;
    if (job->number == 0) MUST(DMI_rwset_init(job->rwset, 40 * DOMAINS, 8, DOMAINS));
    barrier(job->steppers, DOMAINS, ++round);
    OK(DMI_rwset_decompose(job->rwset, (int32_t)job->number, writes, 40));
    barrier(job->steppers, DOMAINS, ++round);
    if (good) {
      OK(DMI_local_rwset_init(&local, job->rwset, (int32_t)job->number, writes, 40));
      OK(DMI_local_rwset_destroy(&local));
    } else {
      FAILS(DMI_local_rwset_init(&local, job->rwset, (int32_t)job->number, writes, 1), DMI_ERWSET);
    }
    barrier(job->steppers, DOMAINS, ++round);
    if (job->number == 0) MUST(DMI_rwset_destroy(job->rwset));
  }
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  if (job.contest) {
    run_contest(&job);
  } else {
    run_domain(&job);
  }
  check_report(job.report);
  return 0;
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static void bad_numbers(int64_t at) {
  int64_t elements[] = {0, 1, 2, 1};
  DMI_local_rwset_t local;
  FAILS(DMI_rwset_init(at, 0, 8, 1), DMI_EINVAL);
  FAILS(DMI_rwset_init(at, 8, 0, 1), DMI_EINVAL);
  FAILS(DMI_rwset_init(at, 8, 8, 0), DMI_EINVAL);
  FAILS(DMI_rwset_init(at, -1, 8, 1), DMI_EINVAL);
  FAILS(DMI_rwset_init(at, INT64_MAX, 8, 1), DMI_ESIZE);
  FAILS(DMI_rwset_init(8, 8, 8, 1), DMI_EADDR);
  FAILS(DMI_rwset_init(at + 8, 8, 8, 1), DMI_ERANGE);
  FAILS(DMI_rwset_destroy(at), DMI_EINVAL); /* none there */
  FAILS(DMI_rwset_decompose(at, 0, elements, 1), DMI_EINVAL);
  FAILS(DMI_local_rwset_init(&local, at, 0, elements, 1), DMI_EINVAL);
  OK(DMI_rwset_init(at, 8, INT64_MAX / 4, 2));
  FAILS(DMI_rwset_decompose(at, 0, elements, 3), DMI_ESIZE);
  OK(DMI_rwset_destroy(at));

  OK(DMI_rwset_init(at, 3, 8, 2));
  FAILS(DMI_rwset_decompose(at, 2, elements, 1), DMI_EINVAL);
  FAILS(DMI_rwset_decompose(at, -1, elements, 1), DMI_EINVAL);
  FAILS(DMI_rwset_decompose(at, 0, NULL, 1), DMI_EINVAL);
  FAILS(DMI_rwset_decompose(at, 0, elements, -1), DMI_EINVAL);
  FAILS(DMI_rwset_decompose(at, 0, elements, 4), DMI_EINVAL); /* 1 twice */
  elements[2] = 3;
  FAILS(DMI_rwset_decompose(at, 0, elements, 3), DMI_ERANGE);
  elements[2] = -1;
  FAILS(DMI_rwset_decompose(at, 0, elements, 3), DMI_ERANGE);
  OK(DMI_rwset_decompose(at, 0, elements, 1)); /* none of the refused ones counts */
  FAILS(DMI_local_rwset_init(&local, at, 0, elements, 1), DMI_ERWSET); /* the other one has not */
  OK(DMI_rwset_decompose(at, 1, NULL, 0));
  FAILS(DMI_local_rwset_init(&local, at, 0, elements, 2), DMI_ERWSET); /* nobody writes 1 */
  FAILS(DMI_local_rwset_init(&local, at, 0, elements, 3), DMI_ERANGE);
  FAILS(DMI_local_rwset_init(&local, at, 2, elements, 1), DMI_EINVAL);
  FAILS(DMI_local_rwset_init(&local, at, 0, NULL, 1), DMI_EINVAL);
  FAILS(DMI_local_rwset_init(NULL, at, 0, elements, 1), DMI_EINVAL);
  OK(DMI_rwset_destroy(at));
}

/* An element in two write sets: neither domain may go on, nor a third. */
static void two_writers(int64_t at) {
  int64_t elements[] = {0, 5000};
  DMI_local_rwset_t local;
  OK(DMI_rwset_init(at, 6000, 8, 3));
  OK(DMI_rwset_decompose(at, 1, elements, 2));
  OK(DMI_rwset_decompose(at, 2, elements + 1, 1));
  OK(DMI_rwset_decompose(at, 0, NULL, 0));
  for (int32_t i = 0; i < 3; i++)
    FAILS(DMI_local_rwset_init(&local, at, i, elements, 1), DMI_ERWSET);
  OK(DMI_rwset_destroy(at));
}

static void small_set(int64_t at) {
  int64_t elements[] = {2, 0, 2}, in[3] = {7, 7, 7}, out[2] = {100, 200};
  DMI_local_rwset_t local, none, other;
  DMI_local_status_t status;
  int32_t ret = DMI_TRUE;
  memset(&none, 0, sizeof(none));
  OK(DMI_rwset_init(at, 3, 8, 2));
  OK(DMI_rwset_decompose(at, 1, elements, 2));
  OK(DMI_rwset_decompose(at, 0, NULL, 0));
  OK(DMI_local_rwset_init(&local, at, 1, elements, 3));
  OK(DMI_local_rwset_read(&local, in, NULL));
  IS(in[0] == 0 && in[1] == 0 && in[2] == 0);
  OK(DMI_local_rwset_write(&local, out, NULL));
  OK(DMI_local_rwset_read(&local, in, NULL));
  IS(in[0] == 100 && in[1] == 200 && in[2] == 100);
  OK(DMI_local_rwset_init(&other, at, 0, NULL, 0)); /* writes nothing, reads nothing */
  OK(DMI_local_rwset_write(&other, NULL, NULL));
  OK(DMI_local_rwset_read(&other, NULL, &status));
  DMI_wait(&status, &ret);
  IS(ret == DMI_TRUE);
  OK(DMI_local_rwset_destroy(&other));

  FAILS(DMI_local_rwset_read(&local, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_local_rwset_write(&local, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_local_rwset_read(&none, in, NULL), DMI_EINVAL);
  FAILS(DMI_local_rwset_write(NULL, out, &status), DMI_EINVAL);
  DMI_wait(&status, &ret);
  IS(ret == DMI_FALSE);
  FAILS(DMI_local_rwset_destroy(&none), DMI_EINVAL);
  OK(DMI_rwset_destroy(at));
  FAILS(DMI_rwset_destroy(at), DMI_EINVAL);
  FAILS(DMI_local_rwset_read(&local, in, NULL), DMI_EADDR);
  FAILS(DMI_local_rwset_write(&local, out, NULL), DMI_EADDR);
  OK(DMI_local_rwset_destroy(&local));
  FAILS(DMI_local_rwset_destroy(&local), DMI_EINVAL);
}

/* ---- Main ------------------------------------------------------------------------------------ */

/* All domains in these processes. */
static void run(struct job *job, const int32_t *ids) {
  DMI_thread_t thread[DOMAINS];
  int64_t jobs;
  MUST(DMI_mmap(&jobs, sizeof(*job), DOMAINS, NULL));
  for (int64_t i = 0; i < DOMAINS; i++) {
    int64_t addr = jobs + i * (int64_t)sizeof(*job);
    job->number = i;
    MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&thread[i], ids[i], addr, NULL));
  }
  for (int64_t i = 0; i < DOMAINS; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
  MUST(DMI_munmap(jobs, NULL));
}

void DMI_main(int argc, char **argv) {
  struct job job;
  DMI_node_t node;
  int32_t ids[DOMAINS], turned[DOMAINS];
  int64_t addr;
  (void)argc, (void)argv;
  memset(&job, 0, sizeof(job));
  gather(DOMAINS, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&addr, 7, 20, NULL)); /* over page borders */
  bad_numbers(addr + 140 - (int64_t)sizeof(DMI_rwset_t));
  two_writers(addr + 3);
  small_set(addr + 3);

  job.rwset = addr + 3;
  job.report = report;
  job.contest = 1;
  job.steps = scaled(90);
  MUST(DMI_mmap(&job.steppers, 8, 1, NULL));
  run(&job, ids);
  job.contest = 0;
  job.decompose = 1;
  job.steps = scaled(STEPS);
  MUST(DMI_mmap(&job.steppers, 8, 1, NULL));
  MUST(DMI_rwset_init(job.rwset, ELEMENTS, sizeof(struct value), DOMAINS));
  run(&job, ids);

  /* The same domains, each in another process. */
  for (int i = 0; i < DOMAINS; i++)
    turned[i] = ids[(i + 1) % DOMAINS];
  job.decompose = 0;
  MUST(DMI_mmap(&job.steppers, 8, 1, NULL)); /* the barrier begins anew */
  run(&job, turned);

  /* Without the third process, which has values of two kinds, and then with a new one. */
  say("leave now");
  MUST(DMI_poll(&node));
  IS(node.state == DMI_CLOSE && node.dmi_id == ids[2]);
  OK(DMI_goodbye(node.dmi_id));
  say("join now");
  MUST(DMI_poll(&node));
  IS(node.state == DMI_OPEN);
  MUST(DMI_welcome(node.dmi_id));
  ids[2] = node.dmi_id;
  MUST(DMI_mmap(&job.steppers, 8, 1, NULL));
  run(&job, ids);
  OK(DMI_rwset_destroy(job.rwset));
  verdict("rwset", report);
}
