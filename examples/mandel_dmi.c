/*
 * mandel_dmi.c - the Mandelbrot set, computed by machines that come and go.
 *
 *   dmicc -O2 mandel_dmi.c -o mandel_dmi -lpng
 *   dmirun ./mandel_dmi 480 480 480 100000 0         starts the program
 *   dmirun -i HOST ./mandel_dmi                      joins it, at any time, from anywhere
 *   Ctrl+C                                           leaves it, at any time
 *
 * Arguments: width height tasks max_iterations wait.  The pixels, in reading order, are split into
 * `tasks` runs whose lengths differ by one at most.  wait 1 waits for Enter before the first task.
 * The first process writes mandelbrot.png into its working directory; with MANDEL_TIMELINE=FILE in
 * its environment it also writes who computed which task and when.
 *
 * DMI_farm_run lets processes join and leave; with dmirun --survive they may also be lost.
 */
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "dmi_farm.h"

#define PICTURE "mandelbrot.png"

/* The work: all tasks get it. */
typedef struct {
  int32_t width, height; /* pixels */
  int32_t tasks;
  int32_t max_iterations;
  int64_t begin_us; /* wall clock when the program began */
} job_t;

/* The result of a task: who computed it, and when, and its pixels. */
typedef struct {
  int32_t dmi_id;
  int32_t thread;   /* number of the thread in its process */
  int64_t start_us; /* since begin_us */
  int64_t end_us;
  int32_t counts[]; /* iterations of each pixel */
} result_t;

/* Wall clock, the only one that can be compared between machines, as exact as their NTP. */
static int64_t clock_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* First pixel of a task; for task == tasks, the number of pixels. */
static int64_t task_begin(const job_t *job, int64_t task) {
  /* With more than 64 bits, as the product may be large. */
  const __int128 pixels = (__int128)job->width * job->height;
  return (int64_t)(pixels * task / job->tasks);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Steps until the orbit of 0 under z*z + c leaves the circle of radius 2; at most max_iterations.
 */
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

/* Numbers the threads of a process that do tasks. */
static int32_t my_thread(void) {
  static _Atomic int32_t threads;
  static __thread int32_t mine = -1;
  if (mine < 0) mine = atomic_fetch_add(&threads, 1);
  return mine;
}

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job_ptr) {
  const job_t *job = job_ptr;
  result_t *result = out;
  /* 3 units of the plane along the shorter side: this shows the whole set, without distortion. */
  const double step = 3.0 / (job->width < job->height ? job->width : job->height);
  const int64_t begin = task_begin(job, task), end = task_begin(job, task + 1);
  (void)size;
  CHECK(DMI_rank(&result->dmi_id));
  result->thread = my_thread();
  result->start_us = clock_us() - job->begin_us;
  for (int64_t pixel = begin; pixel < end; pixel++) {
    const double column = (double)(pixel % job->width) - 0.5 * (job->width - 1);
    const double row = (double)(pixel / job->width) - 0.5 * (job->height - 1);
    result->counts[pixel - begin] =
        count_iterations(column * step - 0.75, -row * step, job->max_iterations);
  }
  result->end_us = clock_us() - job->begin_us;
  printf("%lld ", (long long)task);
  fflush(stdout);
  return 0;
}

/* ---- The picture ---------------------------------------------------------------------------- */

/* Entry 0 is the set itself.  The others go once through the colours and back to the first one, so
 * that the ring has no seam. */
static void make_palette(png_color *palette) {
  static const int stops[][3] = {{0, 7, 100},   {32, 107, 203}, {237, 255, 255},
                                 {255, 170, 0}, {96, 16, 32},   {0, 7, 100}};
  const int legs = (int)(sizeof(stops) / sizeof(stops[0])) - 1;
  palette[0] = (png_color){0, 0, 0};
  for (int i = 0; i < 255; i++) {
    const int leg = i * legs / 255;
    const int part = i * legs - leg * 255;
    int rgb[3];
    for (int c = 0; c < 3; c++) {
      rgb[c] = stops[leg][c] + (stops[leg + 1][c] - stops[leg][c]) * part / 255;
    }
    palette[i + 1] = (png_color){(png_byte)rgb[0], (png_byte)rgb[1], (png_byte)rgb[2]};
  }
}

/* The square root spreads the colours where counts are low and is the same on every machine, which
 * a logarithm need not be. */
static png_byte colour_of(int32_t count, int32_t max_iterations) {
  if (count == max_iterations) return 0;
  return (png_byte)(1 + (int64_t)(40 * sqrt(count)) % 255);
}

/* True if the whole picture was written.  The file contains only `rows` (no time, no name), so that
 * equal pictures are equal files. */
static int write_png(FILE *file, const job_t *job, const png_byte **rows) {
  png_color palette[256];
  make_palette(palette);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png == NULL ? NULL : png_create_info_struct(png);
  if (info == NULL || setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    return 0;
  }
  png_init_io(png, file);
  png_set_IHDR(png, info, (png_uint_32)job->width, (png_uint_32)job->height, 8,
               PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_PLTE(png, info, palette, 256);
  png_write_info(png, info);
  png_write_image(png, (png_byte **)(uintptr_t)rows);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return 1;
}

static void save_picture(const job_t *job, const png_byte *pixels) {
  const png_byte **rows = my_malloc((size_t)job->height * sizeof(*rows));
  for (int64_t row = 0; row < job->height; row++)
    rows[row] = pixels + row * job->width;
  FILE *file = fopen(PICTURE, "wb");
  const int written = file != NULL && write_png(file, job, rows);
  if ((file != NULL && fclose(file) != 0) || !written) {
    perror(PICTURE);
    exit(EXIT_FAILURE);
  }
  printf("\nwrote %s\n", PICTURE);
  fflush(stdout);
  my_free(rows);
}

/* Makes the picture of all results, and the timeline if somebody wants it. */
static void save(const DMI_farm_t *farm, const job_t *job) {
  const char *path = getenv("MANDEL_TIMELINE");
  FILE *timeline = path == NULL ? NULL : fopen(path, "w");
  png_byte *pixels = my_malloc((size_t)task_begin(job, job->tasks));
  result_t *result = my_malloc((size_t)farm->result_size);
  if (timeline != NULL) fprintf(timeline, "task\tdmi_id\tthread\tstart_us\tend_us\n");
  for (int64_t task = 0; task < job->tasks; task++) {
    const int64_t begin = task_begin(job, task), end = task_begin(job, task + 1);
    CHECK(DMI_farm_result(farm, task, result, NULL));
    for (int64_t pixel = begin; pixel < end; pixel++)
      pixels[pixel] = colour_of(result->counts[pixel - begin], job->max_iterations);
    if (timeline != NULL)
      fprintf(timeline, "%lld\t%d\t%d\t%lld\t%lld\n", (long long)task, result->dmi_id,
              result->thread, (long long)result->start_us, (long long)result->end_us);
  }
  /* The picture matters more: go on. */
  if (path != NULL && (timeline == NULL || fclose(timeline) != 0)) perror(path);
  save_picture(job, pixels);
  my_free(result);
  my_free(pixels);
}

void DMI_main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: %s width height tasks max_iterations wait\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.width = check_number("width", argv[1], 1),
               .height = check_number("height", argv[2], 1),
               .tasks = check_number("tasks", argv[3], 1),
               .max_iterations = check_number("max_iterations", argv[4], 1),
               .begin_us = clock_us()};
  const int64_t pixels = (int64_t)job.width * job.height;
  if (job.tasks > pixels) {
    fprintf(stderr, "tasks must not exceed width * height\n");
    exit(EXIT_FAILURE);
  }
  if (check_number("wait", argv[5], 0) != 0) {
    printf("press Enter to continue ...\n");
    fflush(stdout);
    for (int key = getchar(); key != '\n' && key != EOF;)
      key = getchar();
  }
  DMI_farm_t farm = {
      .tasks = job.tasks,
      .result_size = (int64_t)sizeof(result_t) +
                     (pixels + job.tasks - 1) / job.tasks * (int64_t)sizeof(int32_t),
      .job = &job,
      .job_size = sizeof(job),
      .event = DMI_farm_print,
      .event_arg = stdout,
  };
  CHECK(DMI_farm_run(&farm));
  save(&farm, &job);
  CHECK(DMI_farm_free(&farm));
}
