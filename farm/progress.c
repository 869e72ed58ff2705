/*
 * progress.c - what a user sees while a job runs.
 */
#include "progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc.h"
#include "clock.h"

#define TERMINAL_MS 200
#define LOG_MS 10000
#define ALONE_MS 2000 /* what the library prints when this process begins comes first */

struct farm_progress {
  bool terminal;
  uint32_t before;
  farm_ms_t begin, next;
  bool shown; /* the line is on the terminal */
  bool met;   /* there was a worker */
};

struct farm_progress *farm_progress_new(uint32_t before) {
  struct farm_progress *progress = farm_alloc(sizeof(*progress));
  progress->terminal = isatty(STDERR_FILENO) == 1;
  progress->before = before;
  progress->begin = farm_now();
  progress->next = progress->begin + (progress->terminal ? 0 : LOG_MS);
  return progress;
}

void farm_progress_free(struct farm_progress *progress) {
  free(progress);
}

static void clear(struct farm_progress *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
  progress->shown = false;
}

void farm_progress_say(struct farm_progress *progress, const char *format, ...) {
  va_list args;
  clear(progress);
  fputs("dmifarm: ", stderr);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  if (progress->terminal) progress->next = 0; /* the line again, below */
}

/* "1:02:03", "4:05", "6 s" */
static void print_time(double seconds) {
  const long all = (long)(seconds + 0.5);
  if (all >= 3600) {
    fprintf(stderr, "%ld:%02ld:%02ld", all / 3600, all / 60 % 60, all % 60);
  } else if (all >= 60) {
    fprintf(stderr, "%ld:%02ld", all / 60, all % 60);
  } else {
    fprintf(stderr, "%ld s", all);
  }
}

static void print_line(const struct farm_progress *progress, const struct farm_counts *counts,
                       uint32_t workers, uint32_t places) {
  const double seconds = (double)(farm_now() - progress->begin) / 1000;
  const uint32_t now = counts->finished - progress->before;
  const uint32_t left = counts->tasks - counts->finished - counts->failed;
  const uint32_t given =
      counts->running < places ? counts->running : places; /* others wait there */
  const uint32_t running = given < left ? given : left;
  fprintf(stderr, "dmifarm: %u of %u done, %u running, %u left", counts->finished, counts->tasks,
          running, left - running);
  if (counts->failed) fprintf(stderr, ", %u failed", counts->failed);
  fprintf(stderr, "; %u worker%s with %u place%s", workers, workers == 1 ? "" : "s", places,
          places == 1 ? "" : "s");
  if (now && seconds > 0) {
    fprintf(stderr, "; %.*f tasks/s, ", now < 10 * seconds ? 3 : 1, now / seconds);
    print_time(left * seconds / now);
    fputs(" left", stderr);
  }
}

farm_ms_t farm_progress_show(struct farm_progress *progress, const struct farm_counts *counts,
                             uint32_t workers, uint32_t places) {
  const farm_ms_t now = farm_now(), alone = progress->begin + ALONE_MS;
  if (workers) progress->met = true;
  if (!progress->met && now < alone && progress->next < alone) return alone;
  if (now < progress->next) return progress->next;
  clear(progress);
  print_line(progress, counts, workers, places);
  if (!progress->terminal) fputc('\n', stderr);
  progress->shown = progress->terminal;
  fflush(stderr);
  return progress->next = now + (progress->terminal ? TERMINAL_MS : LOG_MS);
}

void farm_progress_end(struct farm_progress *progress, const struct farm_counts *counts) {
  clear(progress);
  fprintf(stderr, "dmifarm: %u of %u tasks done", counts->finished, counts->tasks);
  if (progress->before) fprintf(stderr, ", %u of them before", progress->before);
  if (counts->failed) fprintf(stderr, ", %u failed", counts->failed);
  fprintf(stderr, "; %.3f s\n", (double)(farm_now() - progress->begin) / 1000);
}
