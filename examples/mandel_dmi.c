/*
 * mandel_dmi.c - the Mandelbrot set, computed by machines that come and go.
 *
 *   dmicc -O2 mandel_dmi.c -o mandel_dmi -lpng
 *   dmirun ./mandel_dmi 480 480 480 100000 0         starts the program
 *   dmirun -i HOST ./mandel_dmi                      joins it, at any time, from anywhere
 *   Ctrl+C                                           leaves it, at any time
 *
 * Arguments: width height tasks max_iterations wait.  The pixels, in reading order, are split into
 * `tasks` runs whose lengths differ by one at most.  Each thread takes the next run with DMI_fad
 * until none is left.  wait 1 waits for Enter before the first task.  The first process writes
 * mandelbrot.png into its working directory; with MANDEL_TIMELINE=FILE in its environment it also
 * writes who computed which task and when.
 *
 * farm.h lets processes join and leave.  A page of the image is owned by the process that computed
 * it; when that process leaves, DMI_goodbye hands the page on.  With dmirun --survive processes may
 * also be lost: the page is, too, and another one computes it again.
 */
#include <math.h>
#include <png.h>
#include <setjmp.h>

#include "farm.h"

#define PICTURE "mandelbrot.png"

/* The work, in global memory.  Written once by DMI_main, but for the counters of the farm. */
typedef struct {
  farm_t farm;
  int32_t width, height; /* pixels */
  int32_t tasks;
  int32_t max_iterations;
  int64_t image_page; /* bytes of image for one task, the longest */
  int64_t image_addr; /* a page per task: iterations of its pixels, int32_t */
  int64_t begin_us;   /* wall clock when the program began */
} job_t;

/* Who computed a task, and when: its result for farm.h. */
typedef struct {
  int32_t dmi_id;
  int32_t thread;
  int64_t start_us; /* since begin_us */
  int64_t end_us;
} record_t;

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

/* ---- The threads ---------------------------------------------------------------------------- */

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

static void compute_task(const job_t *job, int64_t task, int32_t *counts) {
  /* 3 units of the plane along the shorter side: this shows the whole set, without distortion. */
  const double step = 3.0 / (job->width < job->height ? job->width : job->height);
  const int64_t end = task_begin(job, task + 1);
  for (int64_t pixel = task_begin(job, task); pixel < end; pixel++) {
    const double column = (double)(pixel % job->width) - 0.5 * (job->width - 1);
    const double row = (double)(pixel / job->width) - 0.5 * (job->height - 1);
    *counts++ = count_iterations(column * step - 0.75, -row * step, job->max_iterations);
  }
}

int64_t DMI_thread(int64_t addr) {
  team_arg_t arg;
  job_t job;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  int64_t task;
  int32_t *counts = my_malloc((size_t)job.image_page);
  /* The last pixel of a page is unused by the shorter tasks. */
  memset(counts, 0, (size_t)job.image_page);

  printf("started\n");
  fflush(stdout);
  while (farm_take(&arg, &job.farm, &task)) {
    record_t record = {.dmi_id = arg.dmi_id, .thread = arg.thread};
    record.start_us = clock_us() - job.begin_us;
    compute_task(&job, task, counts);
    record.end_us = clock_us() - job.begin_us;
    CHECK(DMI_write(job.image_addr + task * job.image_page, job.image_page, counts,
                    DMI_EXCLUSIVE_WRITE, NULL));
    printf("%lld ", (long long)task);
    fflush(stdout);
    farm_report(&arg, &job.farm, task, &record);
  }
  printf("finished\n");
  fflush(stdout);
  my_free(counts);
  return DMI_NULL;
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
static int write_png(FILE *file, const job_t *job, png_byte **rows) {
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
  png_write_image(png, rows);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return 1;
}

/* What DMI_main has of the image. */
typedef struct {
  const job_t *job;
  char *pages;
  char *fetched; /* per task: it has the page */
} image_t;

/* Fetches the page of a task that is done.  False: it was lost with its process. */
static int fetch_page(void *arg, int64_t task) {
  const image_t *image = arg;
  const int64_t size = image->job->image_page;
  if (!image->fetched[task])
    image->fetched[task] =
        (char)CHECK_LOST(DMI_read(image->job->image_addr + task * size, size,
                                  image->pages + task * size, DMI_GET_READ, NULL));
  return image->fetched[task];
}

static void save_picture(const job_t *job, const char *pages) {
  png_byte *pixels = my_malloc((size_t)task_begin(job, job->tasks));
  png_byte **rows = my_malloc((size_t)job->height * sizeof(*rows));

  for (int64_t task = 0; task < job->tasks; task++) {
    const int32_t *counts = (const int32_t *)(const void *)(pages + task * job->image_page);
    const int64_t begin = task_begin(job, task), end = task_begin(job, task + 1);
    for (int64_t pixel = begin; pixel < end; pixel++) {
      pixels[pixel] = colour_of(counts[pixel - begin], job->max_iterations);
    }
  }
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
  my_free(pixels);
}

static void save_timeline(const job_t *job, const char *path) {
  FILE *file = fopen(path, "w");
  if (file != NULL) {
    fprintf(file, "task\tdmi_id\tthread\tstart_us\tend_us\n");
    for (int32_t task = 0; task < job->tasks; task++) {
      record_t r;
      farm_result(&job->farm, task, &r);
      fprintf(file, "%d\t%d\t%d\t%lld\t%lld\n", task, r.dmi_id, r.thread, (long long)r.start_us,
              (long long)r.end_us);
    }
  }
  if (file == NULL || fclose(file) != 0) perror(path); /* the picture matters more: go on */
}

/* ---- The first process ---------------------------------------------------------------------- */

/* Puts the work into global memory; returns its address. */
static int64_t create_job(job_t *job) {
  int64_t job_addr;
  const int64_t pixels = (int64_t)job->width * job->height;
  job->image_page = (pixels + job->tasks - 1) / job->tasks * (int64_t)sizeof(int32_t);
  farm_init(&job->farm, job->tasks, sizeof(record_t));
  job->begin_us = clock_us();
  CHECK(DMI_mmap(&job->image_addr, job->image_page, job->tasks, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(*job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_EXCLUSIVE_WRITE, NULL));
  return job_addr;
}

void DMI_main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: %s width height tasks max_iterations wait\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.width = check_number("width", argv[1], 1),
               .height = check_number("height", argv[2], 1),
               .tasks = check_number("tasks", argv[3], 1),
               .max_iterations = check_number("max_iterations", argv[4], 1)};
  const int32_t wait = check_number("wait", argv[5], 0);
  if (job.tasks > (int64_t)job.width * job.height) {
    fprintf(stderr, "tasks must not exceed width * height\n");
    exit(EXIT_FAILURE);
  }
  if (wait != 0) {
    printf("press Enter to continue ...\n");
    fflush(stdout);
    int key;
    do
      key = getchar();
    while (key != '\n' && key != EOF);
  }

  const int64_t job_addr = create_job(&job);
  image_t image = {.job = &job,
                   .pages = my_malloc((size_t)(job.image_page * job.tasks)),
                   .fetched = my_malloc((size_t)job.tasks)};
  memset(image.fetched, 0, (size_t)job.tasks);
  const farm_end_t end = farm_run(job_addr, 1, fetch_page, &image);
  const char *timeline = getenv("MANDEL_TIMELINE");
  save_picture(&job, image.pages);
  if (timeline != NULL) save_timeline(&job, timeline);

  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job.image_addr, NULL));
  farm_destroy(&job.farm);
  my_free(image.fetched);
  my_free(image.pages);
  farm_leave(end);
}
