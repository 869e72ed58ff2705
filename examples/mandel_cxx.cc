/*
 * mandel_cxx.cc - the Mandelbrot set in C++: mandel_dmi.c (which explains more) with
 * dmi::parallel_for.
 *
 *   dmicxx -O2 mandel_cxx.cc -o mandel_cxx -lpng
 *   dmirun ./mandel_cxx 480 480 480 100000       starts the program
 *   dmirun -i HOST ./mandel_cxx                  joins it, at any time; Ctrl+C leaves it
 *
 * Arguments: width height tasks max_iterations.  The picture is the same, byte for byte.
 */
#include <algorithm>
#include <cmath>
#include <csetjmp>

#include <png.h>

#include "check.h"
#include "dmi.hpp"

struct job_t {
  int64_t width, height, tasks;
  int32_t max_iterations;
  /* First pixel of a task; for task == tasks, the number of pixels. */
  int64_t begin(int64_t task) const {
    return static_cast<int64_t>(static_cast<__int128>(width * height) * task / tasks);
  }
};

static int32_t count_iterations(double cx, double cy, int32_t max_iterations) {
  double x = 0, y = 0, x2 = 0, y2 = 0;
  int32_t n = 0;
  for (; n < max_iterations && x2 + y2 <= 4; n++) {
    y = 2 * x * y + cy;
    x = x2 - y2 + cx;
    x2 = x * x;
    y2 = y * y;
  }
  return n;
}

/* Entry 0 is the set itself; the others are a ring of colours. */
static std::vector<png_color> palette() {
  static const int stops[][3] = {{0, 7, 100},   {32, 107, 203}, {237, 255, 255},
                                 {255, 170, 0}, {96, 16, 32},   {0, 7, 100}};
  std::vector<png_color> colours(256);
  for (int i = 0; i < 255; i++) {
    const int leg = i * 5 / 255, part = i * 5 - leg * 255;
    png_byte rgb[3];
    for (int c = 0; c < 3; c++)
      rgb[c] =
          static_cast<png_byte>(stops[leg][c] + (stops[leg + 1][c] - stops[leg][c]) * part / 255);
    colours[static_cast<size_t>(i) + 1] = {rgb[0], rgb[1], rgb[2]};
  }
  return colours;
}

static bool write_png(FILE *file, const job_t &job, png_byte **rows, const png_color *colours) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool ok = info && !setjmp(png_jmpbuf(png));
  if (ok) {
    png_init_io(png, file);
    png_set_IHDR(png, info, static_cast<png_uint_32>(job.width),
                 static_cast<png_uint_32>(job.height), 8, PNG_COLOR_TYPE_PALETTE,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(png, info, colours, 256);
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
  }
  png_destroy_write_struct(&png, &info);
  return ok;
}

void DMI_main(int argc, char **argv) {
  if (argc != 5) throw std::invalid_argument("usage: mandel_cxx width height tasks max_iterations");
  const job_t job = {check_number("width", argv[1], 1), check_number("height", argv[2], 1),
                     check_number("tasks", argv[3], 1), check_number("max_iterations", argv[4], 1)};
  const int64_t pixels = job.width * job.height;
  const auto counts = dmi::parallel_for(
      job.tasks, job,
      [](int64_t task, const job_t &j, dmi::out<int32_t> out) {
        const double step = 3.0 / static_cast<double>(std::min(j.width, j.height));
        for (int64_t p = j.begin(task); p < j.begin(task + 1); p++) {
          const double column =
              static_cast<double>(p % j.width) - 0.5 * static_cast<double>(j.width - 1);
          const double row =
              static_cast<double>(p / j.width) - 0.5 * static_cast<double>(j.height - 1);
          out[p - j.begin(task)] =
              count_iterations(column * step - 0.75, -row * step, j.max_iterations);
        }
      },
      dmi::farm_options().results((pixels - 1) / job.tasks + 1).print());
  std::vector<png_byte> picture;
  for (int64_t task = 0; task < job.tasks; task++)
    for (const int32_t n : counts.read(task))
      if (static_cast<int64_t>(picture.size()) < job.begin(task + 1))
        picture.push_back(
            n == job.max_iterations
                ? png_byte(0)
                : static_cast<png_byte>(1 + static_cast<int64_t>(40 * sqrt(n)) % 255));
  std::vector<png_byte *> rows;
  for (int64_t row = 0; row < job.height; row++)
    rows.push_back(&picture[static_cast<size_t>(row * job.width)]);
  FILE *file = fopen("mandelbrot.png", "wb");
  const bool written = file && write_png(file, job, rows.data(), palette().data());
  if ((file && fclose(file) != 0) || !written)
    throw std::runtime_error("mandelbrot.png cannot be written");
  printf("wrote mandelbrot.png\n");
}
