/*
 * job_store.c - a version begins, and its result comes to the disk.
 *
 * Many results become durable with one call of syncfs: first all are written under other names,
 * then the file system is told to store them, then they are renamed, and `done` is made.  So `done`
 * is never without its result; a machine that stops in between does the task again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"
#include "job.h"
#include "job_int.h"

/* The directory of a version could not be made: what has its name is not dmifarm's. */
static void free_name(struct farm_job *job, uint32_t task, uint32_t version, char **why) {
  char *failed = farm_job_drop_begun(job, task, version);
  if (*why) {
    free(failed);
  } else {
    *why = failed;
  }
}

char *farm_job_begin(struct farm_job *job, uint32_t task, uint32_t version, const char *host,
                     bool *taken) {
  char *dir = farm_job_version(job, task, version), *name = farm_format("%s/hostname", dir);
  char *line = farm_format("%s\n", host), *why = NULL;
  *taken = farm_job_has(job, dir);
  if (!*taken) why = farm_job_add_begun(job, task, version);
  if (*taken || why) {
    /* nothing was begun */
  } else if (mkdirat(job->dir, dir, 0777) != 0) { /* or somebody has made it just now */
    *taken = errno == EEXIST;
    if (!*taken) why = farm_job_error(job, dir);
    free_name(job, task, version, &why);
  } else {
    why = farm_job_write(job, name, line, strlen(line));
  }
  free(dir);
  free(name);
  free(line);
  return why;
}

int farm_job_create(struct farm_job *job, uint32_t task, uint32_t version, const char *name) {
  char *dir = farm_job_version(job, task, version), *path = farm_format("%s/%s", dir, name);
  int file = openat(job->dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  free(dir);
  free(path);
  return file;
}

void farm_job_end_free(struct farm_job_end *end) {
  free(end->host);
  free(end->status);
  free(end->out);
  free(end->err);
}

/* ---- One version ----------------------------------------------------------------------------- */

static char *write_in(struct farm_job *job, const char *dir, const char *name, const char *bytes,
                      size_t size) {
  char *path = farm_format("%s/%s", dir, name);
  char *why = farm_job_write(job, path, bytes, size);
  free(path);
  return why;
}

static char *rename_in(struct farm_job *job, const char *dir, const char *from, const char *to) {
  char *old = farm_format("%s/%s", dir, from), *new = farm_format("%s/%s", dir, to), *why = NULL;
  if (renameat(job->dir, old, job->dir, new) != 0) why = farm_job_error(job, new);
  free(old);
  free(new);
  return why;
}

/* Under another name; what is long is there already. */
static char *write_end(struct farm_job *job, const struct farm_job_end *end, const char *dir) {
  char *why = NULL;
  if (end->out_size <= FARM_INLINE) why = write_in(job, dir, FARM_JOB_OUT, end->out, end->out_size);
  if (!why && end->err_size && end->err_size <= FARM_INLINE)
    why = write_in(job, dir, FARM_JOB_ERR, end->err, end->err_size);
  if (!why && end->type == FARM_JOB_FAILED) {
    char *line = farm_format("%s\n", end->status);
    why = write_in(job, dir, "status", line, strlen(line));
    free(line);
  }
  return why;
}

static char *move_failed(struct farm_job *job, const char *dir) {
  char *to = farm_format("failed/%s", dir), *why = NULL;
  if (mkdirat(job->dir, "failed", 0777) != 0 && errno != EEXIST) {
    why = farm_job_error(job, "failed");
  } else if (renameat(job->dir, dir, job->dir, to) != 0) {
    why = farm_job_error(job, to);
  }
  free(to);
  return why;
}

/* What was written is on the disk. */
static char *show_end(struct farm_job *job, const struct farm_job_end *end, const char *dir) {
  const bool failed = end->type == FARM_JOB_FAILED;
  char *line, *why = rename_in(job, dir, FARM_JOB_OUT, failed ? "stdout" : "result");
  if (!why && end->err_size) why = rename_in(job, dir, FARM_JOB_ERR, "stderr");
  if (why) return why;
  if (failed) return move_failed(job, dir);
  if (end->type == FARM_JOB_DUP) why = write_in(job, dir, "dup", "", 0);
  if (why) return why;
  line = farm_format("%s\n", dir);
  why = write_in(job, dir, "done", line, strlen(line));
  free(line);
  return why;
}

/* ---- All ------------------------------------------------------------------------------------- */

static char *append_log(struct farm_job *job, const struct farm_job_end *ends, uint32_t num) {
  char *text = NULL, *why = NULL;
  size_t size = 0;
  FILE *lines = open_memstream(&text, &size);
  if (!lines) return farm_job_error(job, FARM_LOG);
  for (uint32_t i = 0; i < num; i++) {
    const struct farm_job_end *end = &ends[i];
    char *name = farm_job_version(job, end->task, end->version), *dir = farm_job_escape(name);
    char *host = farm_job_escape(end->host);
    fprintf(lines, "%s\t%s\t%" PRId64 "\t%" PRId64 "\t%s\n", dir, host, end->begin, end->ms,
            end->type == FARM_JOB_DUP ? "dup" : end->status);
    free(name);
    free(dir);
    free(host);
  }
  if (fclose(lines) != 0 || !farm_write(job->log, text, (int64_t)size))
    why = farm_job_error(job, FARM_LOG);
  free(text);
  return why;
}

static char *each_end(struct farm_job *job, const struct farm_job_end *ends, uint32_t num,
                      char *(*use)(struct farm_job *, const struct farm_job_end *, const char *)) {
  char *why = NULL;
  for (uint32_t i = 0; i < num && !why; i++) {
    char *dir = farm_job_version(job, ends[i].task, ends[i].version);
    if (ends[i].type != FARM_JOB_NOTHING) {
      why = use(job, &ends[i], dir);
    } else if (use == show_end) {
      farm_job_remove(job, dir);
    }
    free(dir);
  }
  return why;
}

char *farm_job_store(struct farm_job *job, const struct farm_job_end *ends, uint32_t num) {
  char *why = each_end(job, ends, num, write_end);
  if (!why) why = append_log(job, ends, num);
  if (!why && syncfs(job->dir) != 0) why = farm_job_error(job, ".");
  if (!why) why = each_end(job, ends, num, show_end);
  return why;
}
