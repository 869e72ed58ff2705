/*
 * job_int.h - what the files of a job's directory share; no other file includes it.
 */
#ifndef FARM_JOB_INT_H
#define FARM_JOB_INT_H

#include <dirent.h>
#include <stdio.h>

#include "job.h"

#define FARM_STATE ".dmifarm"
#define FARM_LOG FARM_STATE "/log"
#define FARM_BEGUN FARM_STATE "/begun"
#define FARM_FINISHED FARM_STATE "/finished" /* `finish` has run */

/* True: there is a file of this name; in the directory of the job, as all names here. */
bool farm_job_has(const struct farm_job *job, const char *name);
/* Writes a file of a directory as a whole; NULL, or a message. */
char *farm_job_write(struct farm_job *job, const char *name, const char *bytes, size_t size);
/* Removes NAME, with all that is in it. */
void farm_job_remove(struct farm_job *job, const char *name);
/* Calls `use` for each entry of a folder of the job; NULL, or the first message. */
char *farm_job_each(struct farm_job *job, const char *folder,
                    char *(*use)(struct farm_job *job, const char *name));
/* The version that a directory's name is of; false: of none. */
bool farm_job_parse(const struct farm_job *job, const char *name, uint32_t *task,
                    uint32_t *version);
/* The same, and the directory is one that dmifarm has made. */
bool farm_job_made(struct farm_job *job, const char *name, uint32_t *task, uint32_t *version);

/* ---- job_begun.c: which versions have begun ---- */
char *farm_job_open_begun(struct farm_job *job);
/* A version is about to begin. */
char *farm_job_add_begun(struct farm_job *job, uint32_t task, uint32_t version);
/* It has not: its name is taken. */
char *farm_job_drop_begun(struct farm_job *job, uint32_t task, uint32_t version);
bool farm_job_has_begun(struct farm_job *job, uint32_t task, uint32_t version);

/* ---- job_log.c: lists to which lines are appended ---- */
/* Opens one; a last line that was cut off is removed.  NULL, or a message. */
char *farm_job_open_list(struct farm_job *job, const char *name, int *list);
/* To read it from its beginning; NULL: `errno`. */
FILE *farm_job_read_list(int list);
/* A line of the log, of a task of the job. */
struct farm_job_line {
  struct farm_job *job;
  uint32_t task, version;
  char *dir, *host, *status; /* dir and host are escaped */
  int64_t begin, ms;         /* ms since 1970; how long */
};
/* Calls `use` for each; NULL, or a message. */
char *farm_job_log(struct farm_job *job, void (*use)(struct farm_job_line *line, void *arg),
                   void *arg);
/* A field of a table: tabs, newlines and backslashes are escaped.  New memory. */
char *farm_job_escape(const char *text);
char *farm_job_unescape(const char *text);

#endif
