/*
 * stencil_dmi.c - many small tasks that depend on each other, in the form of Task Bench: what do
 * remote functions cost when tasks are short?
 *
 *   dmicc -O2 stencil_dmi.c -o stencil_dmi
 *   dmirun ./stencil_dmi stencil 8 1000 100     8 points, 1000 steps, tasks of 100 microseconds
 *   dmirun -i HOST ./stencil_dmi                joins it, at any time, from anywhere
 *   Ctrl+C                                      leaves it, at any time
 *
 * Arguments: pattern, points, steps, microseconds of a task (100), bytes of its output (16),
 * processes with which it begins (1), cores (those of these processes together).
 *
 * At each step there is a task for each point.  Pattern stencil: it needs the outputs of the same
 * point and its neighbours at the step before.  Pattern tree: it needs that of point / 2, and there
 * are twice as many points at each step until there are all.
 *
 * Efficiency is what the tasks alone would take on so many cores, divided by what it took.  The
 * shortest tasks with which it is 50 % are the METG of Task Bench (minimum effective task
 * granularity).  Cores that join later are not counted.
 *
 * Each output is a hash of where the task is and of its inputs, so that the last ones tell whether
 * each task had the inputs that it needs; DMI_main computes them, too.
 */
#include "remote.h"

typedef struct {
  int64_t step, point;
  int64_t rounds; /* of work */
} task_t;

enum pattern { STENCIL, TREE };

typedef struct {
  enum pattern pattern;
  int64_t points, steps, bytes;
  int64_t rounds;
} bench_t;

/* ---- A task ---------------------------------------------------------------------------------- */

/* One round takes the same time as any other, as each needs the one before. */
static void spin(int64_t rounds) {
  volatile double result;
  double x = 1;
  for (int64_t i = 0; i < rounds; i++)
    x = x * 0.999999 + 1e-7;
  result = x;
  (void)result;
}

/* How many rounds are a microsecond: of many short tries the fastest, which nothing has disturbed.
 */
static double rounds_in_us(void) {
  const int64_t rounds = 20000;
  double best = 1e9;
  for (int try = 0; try < 500; try++) {
    const double begin = seconds_now();
    spin(rounds);
    const double us = 1e6 * (seconds_now() - begin);
    if (us < best) best = us;
  }
  return (double)rounds / best;
}

static uint64_t mix(uint64_t hash, uint64_t with) {
  hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

/* (task, OUT output, IN outputs of the step before ...) */
DMI_REMOTE(work) {
  const task_t task = DMI_REMOTE_VALUE(call, 0, task_t);
  uint64_t *output = DMI_remote_out(call, 1, NULL);
  uint64_t hash = mix((uint64_t)task.step, (uint64_t)task.point);
  for (int32_t i = 2; i < DMI_remote_args(call); i++)
    hash = mix(hash, *(const uint64_t *)DMI_remote_in(call, i, NULL));
  spin(task.rounds);
  *output = hash;
}

/* ---- Who needs what -------------------------------------------------------------------------- */

static int64_t points_at(const bench_t *b, int64_t step) {
  const int64_t most = step < 62 ? (int64_t)1 << step : INT64_MAX;
  return b->pattern == TREE && most < b->points ? most : b->points;
}

/* The points first to last of the step before. */
static void needs(const bench_t *b, int64_t point, int64_t *first, int64_t *last) {
  if (b->pattern == TREE) {
    *first = *last = point / 2;
  } else {
    *first = point > 0 ? point - 1 : 0;
    *last = point + 1 < b->points ? point + 1 : point;
  }
}

/* The outputs of the last step. */
static void compute(const bench_t *b, uint64_t *now) {
  uint64_t *before = my_malloc((size_t)b->points * sizeof(uint64_t));
  for (int64_t step = 0; step < b->steps; step++) {
    memcpy(before, now, (size_t)b->points * sizeof(uint64_t));
    for (int64_t point = 0; point < points_at(b, step); point++) {
      int64_t first, last;
      needs(b, point, &first, &last);
      now[point] = mix((uint64_t)step, (uint64_t)point);
      for (int64_t i = first; step > 0 && i <= last; i++)
        now[point] = mix(now[point], before[i]);
    }
  }
  my_free(before);
}

/* ---- The program ----------------------------------------------------------------------------- */

static void issue(DMI_client_t *client, const bench_t *b, int64_t step, int64_t point,
                  const DMI_data_t *before, DMI_data_t *output) {
  const task_t task = {.step = step, .point = point, .rounds = b->rounds};
  const DMI_arg_t out = DMI_OUT(output, b->bytes);
  int64_t first, last;
  needs(b, point, &first, &last);
  if (step == 0) {
    CHECK(DMI_call(client, work, DMI_VALUE(task), out));
  } else if (first == last) {
    CHECK(DMI_call(client, work, DMI_VALUE(task), out, DMI_IN(before[first])));
  } else if (first + 1 == last) {
    CHECK(
        DMI_call(client, work, DMI_VALUE(task), out, DMI_IN(before[first]), DMI_IN(before[last])));
  } else {
    CHECK(DMI_call(client, work, DMI_VALUE(task), out, DMI_IN(before[first]),
                   DMI_IN(before[first + 1]), DMI_IN(before[last])));
  }
}

/* Issues all tasks; `now` gets the outputs of the last step.  How many tasks they are. */
static int64_t issue_all(DMI_client_t *client, const bench_t *b, DMI_data_t *now) {
  DMI_data_t *before = my_malloc((size_t)b->points * sizeof(DMI_data_t));
  int64_t tasks = 0, held = 0;
  for (int64_t step = 0; step < b->steps; step++) {
    memcpy(before, now, (size_t)b->points * sizeof(DMI_data_t));
    for (int64_t point = 0; point < points_at(b, step); point++, tasks++)
      issue(client, b, step, point, before, &now[point]);
    for (int64_t point = 0; point < held; point++)
      CHECK(DMI_data_drop(client, before[point]));
    held = points_at(b, step);
  }
  my_free(before);
  return tasks;
}

/* Reads the outputs of the last step; their checksum.  false: one is wrong. */
static int check_outputs(DMI_client_t *client, const bench_t *b, const DMI_data_t *now,
                         uint64_t *sum) {
  uint64_t *right = my_malloc((size_t)b->points * sizeof(uint64_t)), hash;
  int good = 1;
  compute(b, right);
  *sum = 0;
  for (int64_t point = 0; point < points_at(b, b->steps - 1); point++) {
    read_value(client, now[point], &hash, sizeof(hash));
    *sum = mix(*sum, hash);
    good = good && hash == right[point];
  }
  my_free(right);
  return good;
}

/* Of the processes that are welcome. */
static int32_t cores_now(void) {
  DMI_node_t *nodes;
  int32_t num, cores = 0, capacity = 16;
  for (;; capacity *= 2) {
    nodes = my_malloc((size_t)capacity * sizeof(DMI_node_t));
    CHECK(DMI_nodes(nodes, &num, capacity));
    if (num < capacity) break;
    my_free(nodes);
  }
  for (int32_t i = 0; i < num; i++)
    if (nodes[i].state == DMI_OPENED) cores += nodes[i].core;
  my_free(nodes);
  return cores;
}

static enum pattern pattern_of(const char *name) {
  if (strcmp(name, "stencil") == 0) return STENCIL;
  if (strcmp(name, "tree") == 0) return TREE;
  fprintf(stderr, "pattern must be 'stencil' or 'tree', not '%s'\n", name);
  exit(EXIT_FAILURE);
}

void DMI_main(int argc, char **argv) {
  bench_t b = {.pattern = pattern_of(argc > 1 ? argv[1] : "stencil"),
               .points = number_or(argc, argv, 2, "points", 4, 1),
               .steps = number_or(argc, argv, 3, "steps", 1000, 1),
               .bytes = number_or(argc, argv, 5, "bytes", 16, 8)};
  const int32_t us = number_or(argc, argv, 4, "microseconds", 100, 0);
  const DMI_client_options_t options = {.processes = number_or(argc, argv, 6, "processes", 1, 1)};
  DMI_client_t *client;
  uint64_t sum;
  b.rounds = (int64_t)(us * rounds_in_us());
  DMI_data_t *now = my_malloc((size_t)b.points * sizeof(DMI_data_t));
  CHECK(DMI_client_open(&client, &options));
  const int32_t cores = number_or(argc, argv, 7, "cores", cores_now(), 1);

  double seconds = -seconds_now();
  const int64_t tasks = issue_all(client, &b, now);
  printf("all calls are issued after %.3f s\n", seconds + seconds_now());
  fflush(stdout);
  for (int64_t point = 0; point < points_at(&b, b.steps - 1); point++)
    await_value(client, now[point]);
  seconds += seconds_now();

  const int good = check_outputs(client, &b, now, &sum);
  printf("%" PRId64 " tasks of %d us on %d cores: %.3f s, %.0f tasks/s, efficiency %.3f\n", tasks,
         us, cores, seconds, (double)tasks / seconds,
         1e-6 * us * (double)tasks / (seconds * cores));
  printf("checksum %016" PRIx64 ": %s\n", sum, good ? "good" : "BAD");
  CHECK(DMI_client_close(client));
  my_free(now);
  if (!good) CHECK(DMI_exit(EXIT_FAILURE));
}
