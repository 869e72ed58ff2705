/*
 * job_log.c - lists to which lines are appended; the log: a line for each version that has ended,
 * also in earlier runs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "job_int.h"

char *farm_job_escape(const char *text) {
  char *escaped = farm_alloc(2 * strlen(text) + 1), *to = escaped;
  for (; *text; text++) {
    const char letter = *text == '\t' ? 't' : *text == '\n' ? 'n' : *text == '\\' ? '\\' : 0;
    if (letter) *to++ = '\\';
    *to++ = letter ? letter : *text;
  }
  *to = '\0';
  return escaped;
}

char *farm_job_unescape(const char *text) {
  char *plain = farm_alloc(strlen(text) + 1), *to = plain;
  for (; *text; text++) {
    if (*text == '\\' && text[1]) {
      text++;
      *to++ = *text == 't' ? '\t' : *text == 'n' ? '\n' : *text;
    } else {
      *to++ = *text;
    }
  }
  *to = '\0';
  return plain;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Where the last whole line ends; -1: errno. */
static off_t end_of_lines(int list) {
  off_t size = lseek(list, 0, SEEK_END);
  char last = 0;
  for (; size > 0; size--) {
    if (pread(list, &last, 1, size - 1) != 1) return -1;
    if (last == '\n') break;
  }
  return size;
}

/* A line that was cut off, by a full disk or a crash, goes: it may look like another one. */
char *farm_job_open_list(struct farm_job *job, const char *name, int *list) {
  off_t size;
  *list = openat(job->dir, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (*list < 0) return farm_job_error(job, name);
  size = end_of_lines(*list);
  if (size < 0 || (size < lseek(*list, 0, SEEK_END) && ftruncate(*list, size) != 0))
    return farm_job_error(job, name);
  return NULL;
}

FILE *farm_job_read_list(int list) {
  int copy = dup(list);
  FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
  if (!file && copy >= 0) close(copy);
  if (file) rewind(file);
  return file;
}

/* ---- The log --------------------------------------------------------------------------------- */

/* False: it is none of dmifarm's. */
static bool parse_line(char *text, struct farm_job_line *line) {
  char *field[5], *at = text;
  text[strcspn(text, "\n")] = '\0';
  for (int i = 0; i < 5; i++)
    if (!(field[i] = strsep(&at, "\t"))) return false;
  line->dir = field[0];
  line->host = field[1];
  line->begin = strtoll(field[2], NULL, 10);
  line->ms = strtoll(field[3], NULL, 10);
  line->status = field[4];
  return at == NULL;
}

char *farm_job_log(struct farm_job *job, void (*use)(struct farm_job_line *line, void *arg),
                   void *arg) {
  struct farm_job_line line = {.job = job};
  char *text = NULL;
  size_t room = 0;
  FILE *log = farm_job_read_list(job->log);
  if (!log) return farm_job_error(job, FARM_LOG);
  while (getline(&text, &room, log) > 0) {
    char *dir;
    if (!parse_line(text, &line)) continue;
    dir = farm_job_unescape(line.dir);
    if (farm_job_parse(job, dir, &line.task, &line.version)) use(&line, arg);
    free(dir);
  }
  free(text);
  fclose(log);
  return NULL;
}
