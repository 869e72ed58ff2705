/*
 * job_tidy.c - the end of a job: directories that are not needed go, the table and the picture
 * appear.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "job.h"
#include "job_int.h"
#include "timeline.h"

/* ---- Tables ---------------------------------------------------------------------------------- */

struct tables {
  FILE *table;
  struct farm_timeline *picture;
  int64_t first; /* ms: the first begin */
};

static void find_first(struct farm_job_line *line, void *arg) {
  struct tables *tables = arg;
  if (line->begin < tables->first) tables->first = line->begin;
}

static void tell_line(struct farm_job_line *line, void *arg) {
  struct tables *tables = arg;
  char *name = farm_job_escape(line->job->tasks[line->task].name);
  char *dir = farm_job_unescape(line->dir);
  fprintf(tables->table, "%s\t%s\t%s\t%.3f\t%.3f\t%s\n", name, strrchr(line->dir, '.') + 1,
          line->host, (double)(line->begin - tables->first) / 1000, (double)line->ms / 1000,
          line->status);
  farm_timeline_add(tables->picture, line->host, dir, line->begin - tables->first, line->ms,
                    line->status);
  free(name);
  free(dir);
}

/* Writes both under other names first. */
static char *show(struct farm_job *job, const char *table, size_t size, const char *picture) {
  char *why = farm_job_write(job, ".results.tsv", table, size);
  if (!why) why = farm_job_write(job, ".timeline.svg", picture, strlen(picture));
  if (!why && (renameat(job->dir, ".results.tsv", job->dir, "results.tsv") != 0 ||
               renameat(job->dir, ".timeline.svg", job->dir, "timeline.svg") != 0))
    why = farm_job_error(job, "results.tsv");
  return why;
}

static char *tell(struct farm_job *job) {
  char *why, *picture, *text = NULL;
  size_t size = 0;
  struct tables tables = {.table = open_memstream(&text, &size), .first = INT64_MAX};
  if (!tables.table) return farm_job_error(job, "results.tsv");
  tables.picture = farm_timeline_new();
  fprintf(tables.table, "task\tversion\thost\tbegin\tseconds\tstatus\n");
  why = farm_job_log(job, find_first, &tables);
  if (!why) why = farm_job_log(job, tell_line, &tables);
  fclose(tables.table);
  picture = farm_timeline_svg(tables.picture);
  if (!why) why = show(job, text, size, picture);
  free(text);
  free(picture);
  farm_timeline_free(tables.picture);
  return why;
}

/* ---- Directories ----------------------------------------------------------------------------- */

static char *tidy_one(struct farm_job *job, const char *name) {
  uint32_t task, version;
  if (!farm_job_made(job, name, &task, &version)) return NULL;
  if (!job->tasks[task].finished || job->tasks[task].version != version) farm_job_remove(job, name);
  return NULL;
}

/* A failure that another try has made good. */
static char *tidy_failed(struct farm_job *job, const char *name) {
  uint32_t task, version;
  char *path = farm_format("failed/%s", name);
  if (farm_job_parse(job, name, &task, &version) && job->tasks[task].finished &&
      farm_job_has_begun(job, task, version))
    farm_job_remove(job, path);
  free(path);
  return NULL;
}

char *farm_job_tidy(struct farm_job *job, bool complete) {
  char *why = farm_job_each(job, ".", tidy_one);
  if (!why && farm_job_has(job, "failed")) {
    why = farm_job_each(job, "failed", tidy_failed);
    (void)unlinkat(job->dir, "failed", AT_REMOVEDIR); /* if it is empty */
  }
  if (!why) why = tell(job);
  if (!why && syncfs(job->dir) != 0) why = farm_job_error(job, ".");
  if (!why && complete) { /* whatever it was for, it is to run again */
    (void)unlinkat(job->dir, FARM_FINISHED, 0);
    why = farm_job_write(job, "done", "", 0);
  }
  return why;
}
