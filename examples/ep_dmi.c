/*
 * ep_dmi.c - NAS Parallel Benchmark EP ("embarrassingly parallel") on machines that come and go.
 *
 *   dmicc -O2 ep_dmi.c -o ep_dmi -lm
 *   dmirun ./ep_dmi A                      starts the program: class S, W, A or B
 *   dmirun -i HOST ./ep_dmi                joins it, at any time, from anywhere
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: class [processes].  It begins when so many processes (1) have joined.  Pairs of
 * uniform random numbers become pairs of Gaussian deviates (Marsaglia's polar method); their sums,
 * and how many of them fall into each square ring, are the result.  A task is 2^16 pairs; the
 * random numbers of any task can be reached at once.  Threads take tasks with DMI_fad (farm.h), and
 * report each with its twelve numbers; DMI_main adds them, in the order of the tasks, so that the
 * sums are the same to the last bit whoever has done what.
 */
#include "npb.h"
#include "farm.h"

#define SEED ((uint64_t)271828183)
#define TASK_LOG 16 /* a task is 2^16 pairs */
#define RINGS 10
#define EPSILON 1e-8

typedef struct {
  double sx, sy;        /* sums of the deviates */
  double counts[RINGS]; /* pairs with floor(max(|X|, |Y|)) == ring; whole numbers below 2^53 */
} result_t;

/* The work, in global memory. */
typedef struct {
  farm_t farm;
} job_t;

static const char class_names[] = "SWAB";
static const struct {
  int pairs_log;
  double sx, sy;
  double counts[RINGS];
} classes[] = {
    {24,
     -3.247834652034740e+3,
     -6.958407078382297e+3,
     {6140517, 5865300, 1100361, 68546, 1648, 17}},
    {25,
     -2.863319731645753e+3,
     -6.320053679109499e+3,
     {12281576, 11729692, 2202726, 137368, 3371, 36}},
    {28,
     -4.295875165629892e+3,
     -1.580732573678431e+4,
     {98257395, 93827014, 17611549, 1110028, 26536, 245}},
    {30,
     4.033815542441498e+4,
     -2.660669192809235e+4,
     {393058470, 375280898, 70460742, 4438852, 105691, 948, 5}},
};

/* ---- The threads ---------------------------------------------------------------------------- */

static void do_task(int64_t task, result_t *result) {
  uint64_t state = npb_skip(SEED, (uint64_t)task << (TASK_LOG + 1));
  for (int i = 0; i < 1 << TASK_LOG; i++) {
    const double x = 2 * npb_random(&state) - 1;
    const double y = 2 * npb_random(&state) - 1;
    const double square = x * x + y * y;
    if (square > 1) continue;
    const double factor = sqrt(-2 * log(square) / square);
    const double gx = x * factor, gy = y * factor;
    result->counts[(int)fmax(fabs(gx), fabs(gy))]++;
    result->sx += gx;
    result->sy += gy;
  }
}

static void add_result(result_t *total, const result_t *part) {
  total->sx += part->sx;
  total->sy += part->sy;
  for (int ring = 0; ring < RINGS; ring++)
    total->counts[ring] += part->counts[ring];
}

int64_t DMI_thread(int64_t addr) {
  team_arg_t arg;
  job_t job;
  int64_t task;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));

  while (farm_take(&arg, &job.farm, &task)) {
    result_t result = {0};
    do_task(task, &result);
    farm_report(&arg, &job.farm, task, &result);
  }
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

void DMI_main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s class [processes]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int class = npb_class(argv[1], class_names);
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int64_t pairs = (int64_t)1 << classes[class].pairs_log;
  job_t job;
  int64_t job_addr;

  farm_init(&job.farm, pairs >> TASK_LOG, sizeof(result_t));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  const farm_end_t end = farm_run(job_addr, process_num, NULL, NULL);
  result_t total = {0};
  for (int64_t task = 0; task < job.farm.tasks; task++) {
    result_t part;
    farm_result(&job.farm, task, &part);
    add_result(&total, &part);
  }

  const result_t *result = &total;
  for (int ring = 0; ring < RINGS; ring++)
    printf("ring %d: %.0f\n", ring, result->counts[ring]);
  printf("sums %.15e %.15e\n", result->sx, result->sy);
  const int verified = memcmp(result->counts, classes[class].counts, sizeof(result->counts)) == 0 &&
                       npb_close(result->sx, classes[class].sx, EPSILON) &&
                       npb_close(result->sy, classes[class].sy, EPSILON);
  npb_report("EP", class_names[class], 2 * pairs, end.seconds, 2.0 * (double)pairs, verified);
  CHECK(DMI_munmap(job_addr, NULL));
  farm_destroy(&job.farm);
  if (!verified) exit(EXIT_FAILURE);
  farm_leave(end);
}
