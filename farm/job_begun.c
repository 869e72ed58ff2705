/*
 * job_begun.c - which versions have begun: so that a name is never given out twice, and that what
 * the user has put beside them is never taken for one of them.
 *
 * .dmifarm/begun has a line for each, NAME.v.  It is written before the directory is made, and only
 * if there is nothing with its name: a line that is there already when dmifarm is killed, or the
 * disk is full, must not claim what is the user's.  "<tab>NAME.v" takes a line back, when somebody
 * has made such a file in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"
#include "job_int.h"

static int by_version(const void *a, const void *b) {
  const struct farm_job_begun *one = a, *two = b;
  if (one->task != two->task) return one->task < two->task ? -1 : 1;
  return one->version < two->version ? -1 : one->version > two->version;
}

static void add(struct farm_job *job, uint32_t task, uint32_t version) {
  job->begins = farm_grow(job->begins, job->begin_num, &job->begin_capacity, sizeof(*job->begins));
  job->begins[job->begin_num++] = (struct farm_job_begun){task, version};
  job->begins_sorted = false;
}

/* The last one, as a rule. */
static void take_back(struct farm_job *job, uint32_t task, uint32_t version) {
  for (uint32_t i = job->begin_num; i-- > 0;) {
    if (job->begins[i].task != task || job->begins[i].version != version) continue;
    job->begins[i] = job->begins[--job->begin_num];
    job->begins_sorted = false;
    return;
  }
}

bool farm_job_has_begun(struct farm_job *job, uint32_t task, uint32_t version) {
  const struct farm_job_begun key = {task, version};
  if (!job->begin_num) return false;
  if (!job->begins_sorted) qsort(job->begins, job->begin_num, sizeof(key), by_version);
  job->begins_sorted = true;
  return bsearch(&key, job->begins, job->begin_num, sizeof(key), by_version) != NULL;
}

/* ---- The file -------------------------------------------------------------------------------- */

static void read_line(struct farm_job *job, const char *line) {
  const bool back = *line == '\t';
  char *name = farm_job_unescape(line + back);
  uint32_t task, version;
  if (farm_job_parse(job, name, &task, &version)) {
    if (back) {
      take_back(job, task, version);
    } else {
      add(job, task, version);
    }
  }
  free(name);
}

char *farm_job_open_begun(struct farm_job *job) {
  char *line = NULL, *why = farm_job_open_list(job, FARM_BEGUN, &job->begun);
  size_t room = 0;
  FILE *list;
  if (why) return why;
  if (!(list = farm_job_read_list(job->begun))) return farm_job_error(job, FARM_BEGUN);
  while (getline(&line, &room, list) > 0) {
    line[strcspn(line, "\n")] = '\0';
    read_line(job, line);
  }
  free(line);
  fclose(list);
  return NULL;
}

static char *write_line(struct farm_job *job, const char *mark, uint32_t task, uint32_t version) {
  char *name = farm_job_version(job, task, version), *escaped = farm_job_escape(name);
  char *line = farm_format("%s%s\n", mark, escaped), *why = NULL;
  if (!farm_write(job->begun, line, (int64_t)strlen(line))) why = farm_job_error(job, FARM_BEGUN);
  free(name);
  free(escaped);
  free(line);
  return why;
}

char *farm_job_add_begun(struct farm_job *job, uint32_t task, uint32_t version) {
  char *why = write_line(job, "", task, version);
  if (!why) add(job, task, version);
  return why;
}

char *farm_job_drop_begun(struct farm_job *job, uint32_t task, uint32_t version) {
  take_back(job, task, version);
  return write_line(job, "\t", task, version);
}
