/*
 * kmeans_cxx.cc - k-means in C++; it prints what kmeans_dmi.c (which explains more) prints.
 *
 *   dmicxx -O3 kmeans_cxx.cc -o kmeans_cxx
 *   dmirun ./kmeans_cxx 1000000 8 16         points, coordinates, clusters; then as kmeans_dmi
 *   dmirun -i HOST ./kmeans_cxx              joins it, at any time; Ctrl+C leaves it
 */
#include <algorithm>
#include <functional>
#include <numeric>
#include "dmi.hpp"
#include "remote.h"

struct job_t {
  int64_t points, dims, clusters;
};

static uint64_t mix(uint64_t x) { /* the finalizer of SplitMix64 */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static int32_t coordinate(const job_t &job, uint64_t i, uint64_t j) {
  const uint64_t dims = job.dims, cluster = mix(i + 1) % job.clusters;
  const uint64_t place = mix((1 + cluster * dims + j) << 40) % 49152,
                 r = mix((i * dims + j) << 8 | 1);
  return place + (r & 0xfff) + (r >> 12 & 0xfff) + (r >> 24 & 0xfff) + (r >> 36 & 0xfff);
}

static void make_points(job_t job, int64_t first, dmi::out<int32_t> out) {
  for (int64_t i = 0; i < out.size(); i++)
    out[i] = coordinate(job, first + i / job.dims, i % job.dims);
}

/* Adds each point to the sums of the nearest centre, and the squares of distances in the last one.
 */
static void add_up(job_t job, dmi::in<int32_t> points, dmi::in<int32_t> centres,
                   dmi::out<int64_t> sums) {
  const auto square_of = [](int64_t a, int64_t b) { return (a - b) * (a - b); };
  for (const int32_t *point = points.begin(); point < points.end(); point += job.dims) {
    int64_t best = 0, square = INT64_MAX;
    for (int64_t c = 0; c < job.clusters; c++) {
      const int64_t sum = std::inner_product(point, point + job.dims, &centres[c * job.dims],
                                             int64_t(0), std::plus<>(), square_of);
      if (sum < square) square = sum, best = c;
    }
    int64_t *const sum = &sums[best * (job.dims + 1)];
    std::transform(point, point + job.dims, sum, sum, std::plus<int64_t>());
    sum[job.dims]++;
    sums[sums.size() - 1] += square;
  }
}

void DMI_main(int argc, char **argv) {
  if (argc < 4) throw std::invalid_argument("arguments: points coordinates clusters ...");
  const job_t job = {check_number("points", argv[1], 1), check_number("coordinates", argv[2], 1),
                     check_number("clusters", argv[3], 1)};
  const int32_t iterations = number_or(argc, argv, 4, "iterations", 100, 1);
  const int64_t pieces = number_or(argc, argv, 5, "pieces", 64, 1), dims = job.dims;
  dmi::client client(dmi::begin_with(number_or(argc, argv, 6, "processes", 1, 1)));
  std::vector<dmi::data<int32_t>> points(pieces);
  std::vector<dmi::data<int64_t>> parts(pieces);
  std::vector<int32_t> centres(job.clusters * dims);
  std::vector<int64_t> sums;
  const double begin = seconds_now();
  for (int64_t p = 0; p < pieces; p++) {
    const int64_t first = job.points * p / pieces, end = job.points * (p + 1) / pieces;
    client.call<make_points>(job, first, points[p].out((end - first) * dims));
  }
  make_points(job, 0, dmi::out<int32_t>(centres.data(), job.clusters * dims)); /* the first ones */
  int32_t done = 0;
  for (bool moved = true; moved && done < iterations; done++) {
    const auto at = client.put(centres);
    for (int64_t p = 0; p < pieces; p++)
      client.call<add_up>(job, points[p], at, parts[p].out(job.clusters * (dims + 1) + 1));
    sums.assign(job.clusters * (dims + 1) + 1, 0);
    for (const auto &part : parts) {
      const auto more = part.read();
      std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
    }
    if (done == 0) printf("begins with sum of squares %" PRId64 "\n", sums.back()), fflush(stdout);
    moved = false;
    for (int64_t i = 0; i < job.clusters * dims; i++) {
      const int64_t *sum = &sums[i / dims * (dims + 1)];
      const int32_t mean = sum[dims] > 0 ? sum[i % dims] / sum[dims] : centres[i];
      moved |= mean != centres[i];
      centres[i] = mean;
    }
  }
  printf("%d iterations: %.3f s, ", done, seconds_now() - begin);
  printf("sum of squares %" PRId64 "\n", sums.back());
  uint64_t hash = sums.back();
  for (int64_t c = 0; c < job.clusters; c++) {
    printf("%" PRId64 " points at", sums[c * (dims + 1) + dims]);
    hash = mix(hash ^ sums[c * (dims + 1) + dims]);
    for (const int32_t *x = &centres[c * dims]; x < &centres[c * dims] + dims; x++)
      printf(" %d", *x), hash = mix(hash ^ *x);
    puts("");
  }
  printf("checksum %016" PRIx64 "\n", hash);
}
