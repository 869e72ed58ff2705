/*
 * kmeans_dmi.c - k-means: divides many points among a few clusters, with machines that come and go.
 *
 *   dmicc -O3 kmeans_dmi.c -o kmeans_dmi
 *   dmirun ./kmeans_dmi 1000000 8 16         a million points of 8 coordinates, 16 clusters
 *   dmirun -i HOST ./kmeans_dmi              joins it, at any time, from anywhere
 *   Ctrl+C                                   leaves it, at any time
 *   dmirun --survive ./kmeans_dmi ...        any but the first may also be killed
 *
 * Arguments: points, coordinates, clusters, iterations at most (100), pieces (64), processes with
 * which it begins (1).
 *
 * The points are made in pieces by a remote function, and stay where they were made.  In each
 * iteration a call for each piece adds up the points that are nearest to each centre; it runs where
 * its piece is, and what comes back is small.  DMI_main makes new centres of these sums.  It ends
 * when no centre moves any more.
 *
 * Coordinates, and those of centres, are whole numbers.  So sums are exact, and the result is the
 * same to the last bit whoever adds up what; the checksum shows it.
 */
#include "remote.h"

/* What all remote functions get. */
typedef struct {
  int64_t points, dims, clusters;
  int64_t pieces;
} job_t;

/* The sums of a piece: for each cluster those of the coordinates and then the number of its points;
 * behind all clusters the sum of the squares of the distances. */
static int64_t sums_num(const job_t *job) {
  return job->clusters * (job->dims + 1) + 1;
}

static int64_t int64_bytes(int64_t num) {
  return num * (int64_t)sizeof(int64_t);
}

/* ---- Points --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) { /* the finalizer of SplitMix64 */
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Coordinate `j` of point `i`, below 65536: a random place of one of the clusters, and around it
 * the sum of four random numbers, which is about normally distributed. */
static int32_t coordinate(const job_t *job, int64_t i, int64_t j) {
  const uint64_t cluster = mix((uint64_t)i + 1) % (uint64_t)job->clusters;
  const uint64_t place = mix((1 + cluster * (uint64_t)job->dims + (uint64_t)j) << 40) % 49152;
  const uint64_t r = mix((uint64_t)(i * job->dims + j) << 8 | 1);
  return (int32_t)(place + (r & 0xfff) + (r >> 12 & 0xfff) + (r >> 24 & 0xfff) + (r >> 36 & 0xfff));
}

/* (job, first point, OUT points) */
DMI_REMOTE(make_points) {
  const job_t job = DMI_REMOTE_VALUE(call, 0, job_t);
  const int64_t first = DMI_REMOTE_VALUE(call, 1, int64_t);
  int64_t size;
  int32_t *out = DMI_remote_out(call, 2, &size);
  for (int64_t i = 0; i < size / (int64_t)sizeof(*out); i++)
    out[i] = coordinate(&job, first + i / job.dims, i % job.dims);
}

/* ---- An iteration --------------------------------------------------------------------------- */

/* The centre that is nearest to a point: the first, if there are several. */
static int64_t nearest(const job_t *job, const int32_t *point, const int32_t *centres,
                       int64_t *square) {
  int64_t best = 0;
  *square = INT64_MAX;
  for (int64_t c = 0; c < job->clusters; c++) {
    int64_t sum = 0;
    for (int64_t j = 0; j < job->dims; j++) {
      const int64_t d = point[j] - centres[c * job->dims + j];
      sum += d * d;
    }
    if (sum < *square) {
      *square = sum;
      best = c;
    }
  }
  return best;
}

/* (job, IN points, IN centres, OUT sums) */
DMI_REMOTE(add_up) {
  const job_t job = DMI_REMOTE_VALUE(call, 0, job_t);
  int64_t size, square;
  const int32_t *points = DMI_remote_in(call, 1, &size);
  const int32_t *end = points + size / (int64_t)sizeof(*points);
  const int32_t *centres = DMI_remote_in(call, 2, NULL);
  int64_t *sums = DMI_remote_out(call, 3, NULL);
  for (const int32_t *point = points; point < end; point += job.dims) {
    int64_t *sum = sums + nearest(&job, point, centres, &square) * (job.dims + 1);
    for (int64_t j = 0; j < job.dims; j++)
      sum[j] += point[j];
    sum[job.dims]++;
    sums[sums_num(&job) - 1] += square;
  }
}

/* Adds up all pieces. */
static void add_all(DMI_client_t *client, const job_t *job, const DMI_data_t *points,
                    const int32_t *centres, int64_t *sums) {
  const int64_t size = int64_bytes(sums_num(job));
  DMI_data_t *parts = my_malloc((size_t)job->pieces * sizeof(*parts));
  int64_t *part = my_malloc((size_t)size);
  DMI_data_t at =
      DMI_data_put(client, centres, job->clusters * job->dims * (int64_t)sizeof(*centres));
  for (int64_t p = 0; p < job->pieces; p++)
    CHECK(DMI_call(client, add_up, DMI_VALUE(*job), DMI_IN(points[p]), DMI_IN(at),
                   DMI_OUT(&parts[p], size)));
  memset(sums, 0, (size_t)size);
  for (int64_t p = 0; p < job->pieces; p++) {
    read_value(client, parts[p], part, size);
    for (int64_t i = 0; i < sums_num(job); i++)
      sums[i] += part[i];
    CHECK(DMI_data_drop(client, parts[p]));
  }
  CHECK(DMI_data_drop(client, at));
  my_free(part);
  my_free(parts);
}

/* Moves each centre that has points to their mean; true if one is somewhere else then. */
static int move_centres(const job_t *job, const int64_t *sums, int32_t *centres) {
  int moved = 0;
  for (int64_t c = 0; c < job->clusters; c++) {
    const int64_t *sum = sums + c * (job->dims + 1), num = sum[job->dims];
    for (int64_t j = 0; num > 0 && j < job->dims; j++) {
      int32_t *centre = &centres[c * job->dims + j];
      const int32_t mean = (int32_t)(sum[j] / num);
      moved |= mean != *centre;
      *centre = mean;
    }
  }
  return moved;
}

/* ---- All ------------------------------------------------------------------------------------ */

static void print_result(const job_t *job, const int32_t *centres, const int64_t *sums) {
  uint64_t hash = (uint64_t)sums[sums_num(job) - 1];
  for (int64_t c = 0; c < job->clusters; c++) {
    const int64_t num = sums[c * (job->dims + 1) + job->dims];
    printf("%" PRId64 " points at", num);
    hash = mix(hash ^ (uint64_t)num);
    for (int64_t j = 0; j < job->dims; j++) {
      printf(" %d", centres[c * job->dims + j]);
      hash = mix(hash ^ (uint64_t)centres[c * job->dims + j]);
    }
    printf("\n");
  }
  printf("checksum %016" PRIx64 "\n", hash);
}

static void cluster(DMI_client_t *client, const job_t *job, int32_t iterations) {
  DMI_data_t *points = my_malloc((size_t)job->pieces * sizeof(*points));
  int32_t *centres = my_malloc((size_t)(job->clusters * job->dims) * sizeof(*centres));
  int64_t *sums = my_malloc((size_t)int64_bytes(sums_num(job)));
  const double begin = seconds_now();
  int32_t done = 0;
  for (int64_t p = 0; p < job->pieces; p++) {
    const int64_t first = job->points * p / job->pieces, end = job->points * (p + 1) / job->pieces;
    CHECK(DMI_call(client, make_points, DMI_VALUE(*job), DMI_VALUE(first),
                   DMI_OUT(&points[p], (end - first) * job->dims * (int64_t)sizeof(int32_t))));
  }
  for (int64_t i = 0; i < job->clusters * job->dims; i++) /* the first points */
    centres[i] = coordinate(job, i / job->dims, i % job->dims);
  do {
    add_all(client, job, points, centres, sums);
    if (++done == 1) printf("begins with sum of squares %" PRId64 "\n", sums[sums_num(job) - 1]);
    fflush(stdout);
  } while (move_centres(job, sums, centres) && done < iterations);
  printf("%d iterations: %.3f s, sum of squares %" PRId64 "\n", done, seconds_now() - begin,
         sums[sums_num(job) - 1]);
  print_result(job, centres, sums);
  my_free(sums);
  my_free(centres);
  my_free(points);
}

void DMI_main(int argc, char **argv) {
  DMI_client_t *client;
  if (argc < 4 || argc > 7) {
    fprintf(stderr, "usage: %s points coordinates clusters [iterations [pieces [processes]]]\n",
            argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.points = check_number("points", argv[1], 1),
               .dims = check_number("coordinates", argv[2], 1),
               .clusters = check_number("clusters", argv[3], 1),
               .pieces = number_or(argc, argv, 5, "pieces", 64, 1)};
  const int32_t iterations = number_or(argc, argv, 4, "iterations", 100, 1);
  const DMI_client_options_t options = {.processes = number_or(argc, argv, 6, "processes", 1, 1)};
  if (job.points * job.dims > INT32_MAX || job.clusters > job.points) {
    fprintf(stderr, "at most %d coordinates in all, and no more clusters than points\n", INT32_MAX);
    exit(EXIT_FAILURE);
  }
  CHECK(DMI_client_open(&client, &options));
  cluster(client, &job, iterations);
  CHECK(DMI_client_close(client));
}
