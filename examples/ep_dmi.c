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
 * random numbers of any task can be reached at once.  DMI_main adds the results of the tasks in
 * their order, so that the sums are the same to the last bit whoever has done what.
 */
#include "npb.h"
#include "dmi_farm.h"

#define SEED ((uint64_t)271828183)
#define TASK_LOG 16 /* a task is 2^16 pairs */
#define RINGS 10
#define EPSILON 1e-8

typedef struct {
  double sx, sy;        /* sums of the deviates */
  double counts[RINGS]; /* pairs with floor(max(|X|, |Y|)) == ring; whole numbers below 2^53 */
} result_t;

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

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job) {
  result_t *result = out;
  (void)size, (void)job;
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
  return 0;
}

static void add_result(result_t *total, const result_t *part) {
  total->sx += part->sx;
  total->sy += part->sy;
  for (int ring = 0; ring < RINGS; ring++)
    total->counts[ring] += part->counts[ring];
}

void DMI_main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s class [processes]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int class = npb_class(argv[1], class_names);
  const int64_t pairs = (int64_t)1 << classes[class].pairs_log;
  DMI_farm_t farm = {.tasks = pairs >> TASK_LOG,
                     .result_size = sizeof(result_t),
                     .processes = argc > 2 ? check_number("processes", argv[2], 1) : 1,
                     .event = DMI_farm_print,
                     .event_arg = stdout};
  CHECK(DMI_farm_run(&farm));
  result_t total = {0}, part;
  for (int64_t task = 0; task < farm.tasks; task++) {
    CHECK(DMI_farm_result(&farm, task, &part, NULL));
    add_result(&total, &part);
  }
  CHECK(DMI_farm_free(&farm));

  for (int ring = 0; ring < RINGS; ring++)
    printf("ring %d: %.0f\n", ring, total.counts[ring]);
  printf("sums %.15e %.15e\n", total.sx, total.sy);
  const int verified = memcmp(total.counts, classes[class].counts, sizeof(total.counts)) == 0 &&
                       npb_close(total.sx, classes[class].sx, EPSILON) &&
                       npb_close(total.sy, classes[class].sy, EPSILON);
  npb_report("EP", class_names[class], 2 * pairs, farm.seconds, 2.0 * (double)pairs, verified);
  if (!verified) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
}
