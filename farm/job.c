/*
 * job.c - the directory of a job: its tasks, and what was done before.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"
#include "job_int.h"
#include "version.h"

/* A version adds a dot and letters to the name of its task. */
#define NAME_MOST (NAME_MAX - 8)

/* ---- Files ----------------------------------------------------------------------------------- */

char *farm_job_error(const struct farm_job *job, const char *what) {
  return farm_format("%s/%s: %s", job->path, what, strerror(errno));
}

bool farm_job_has(const struct farm_job *job, const char *name) {
  return faccessat(job->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

char *farm_job_write(struct farm_job *job, const char *name, const char *bytes, size_t size) {
  int file = openat(job->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return farm_job_error(job, name);
  if (!farm_write(file, bytes, (int64_t)size)) {
    char *why = farm_job_error(job, name);
    close(file);
    return why;
  }
  return close(file) == 0 ? NULL : farm_job_error(job, name);
}

void farm_job_remove(struct farm_job *job, const char *name) {
  char *path = farm_format("%s/%s", job->path, name);
  farm_remove(path);
  free(path);
}

char *farm_job_each(struct farm_job *job, const char *folder,
                    char *(*use)(struct farm_job *job, const char *name)) {
  int descriptor = openat(job->dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = descriptor < 0 ? NULL : fdopendir(descriptor);
  char *why = NULL;
  if (!dir) {
    why = farm_job_error(job, folder);
    if (descriptor >= 0) close(descriptor);
    return why;
  }
  for (struct dirent *entry; !why && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') why = use(job, entry->d_name);
  closedir(dir);
  return why;
}

int farm_job_open_file(const struct farm_job *job, const char *folder, const char *name) {
  char *path = farm_format("%s/%s", folder, name);
  int file = openat(job->dir, path, O_RDONLY | O_CLOEXEC);
  free(path);
  return file;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* NULL: it is a file that can be read. */
static char *check_file(struct farm_job *job, const char *name) {
  struct stat status;
  int file = openat(job->dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return farm_job_error(job, name);
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return farm_format("%s/%s: not a file", job->path, name);
  }
  close(file);
  return NULL;
}

static char *add_task(struct farm_job *job, const char *name) {
  char *path = farm_format("tasks/%s", name), *data = farm_format("data/%s", name), *why;
  struct farm_job_task task = {.name = farm_strdup(name), .has_data = farm_job_has(job, data)};
  why = check_file(job, path);
  if (!why && task.has_data) why = check_file(job, data);
  if (!why && strlen(name) > NAME_MOST)
    why = farm_format("%s/%s: a task's name has at most %d bytes", job->path, path, NAME_MOST);
  job->tasks = farm_grow(job->tasks, job->num, &job->capacity, sizeof(*job->tasks));
  job->tasks[job->num++] = task;
  free(path);
  free(data);
  return why;
}

static int by_name(const void *a, const void *b) {
  const struct farm_job_task *one = a, *two = b;
  int order = strverscmp(one->name, two->name);
  return order ? order : strcmp(one->name, two->name);
}

static char *read_tasks(struct farm_job *job) {
  char *why = farm_job_each(job, "tasks", add_task);
  if (why) return why;
  if (!job->num) return farm_format("%s/tasks: there is no task", job->path);
  qsort(job->tasks, job->num, sizeof(*job->tasks), by_name);
  return NULL;
}

bool farm_job_parse(const struct farm_job *job, const char *name, uint32_t *task,
                    uint32_t *version) {
  struct farm_job_task key = {0}, *found;
  uint32_t size;
  if (!farm_version_split(name, &size, version)) return false;
  key.name = farm_format("%.*s", (int)size, name);
  found = bsearch(&key, job->tasks, job->num, sizeof(*job->tasks), by_name);
  free(key.name);
  if (found) *task = (uint32_t)(found - job->tasks);
  return found != NULL;
}

char *farm_job_version(const struct farm_job *job, uint32_t task, uint32_t version) {
  char *letters = farm_version_text(version);
  char *name = farm_format("%s.%s", job->tasks[task].name, letters);
  free(letters);
  return name;
}

/* ---- What was done before -------------------------------------------------------------------- */

static bool has_in(const struct farm_job *job, const char *dir, const char *name) {
  char *path = farm_format("%s/%s", dir, name);
  bool has = farm_job_has(job, path);
  free(path);
  return has;
}

static void count_version(struct farm_job *job, uint32_t task, uint32_t version) {
  if (job->tasks[task].next_version <= version) job->tasks[task].next_version = version + 1;
}

/* `done` has the name of its directory, which a copy of the directory has not; an empty one was
 * made by other means than dmifarm, and counts. */
static bool done_here(const struct farm_job *job, const char *name) {
  char *path = farm_format("%s/done", name), *line = farm_format("%s\n", name);
  const ssize_t size = (ssize_t)strlen(line);
  char *text = farm_alloc((size_t)size + 1);
  int file = openat(job->dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const ssize_t found = file < 0 ? -1 : read(file, text, (size_t)size + 1);
  const bool here = found == 0 || (found == size && memcmp(text, line, (size_t)size) == 0);
  if (file >= 0) close(file);
  free(path);
  free(line);
  free(text);
  return here;
}

/* Whether this is a directory that dmifarm has made for a version: the user may have others with
 * such names.  An empty one of a version that has begun goes. */
bool farm_job_made(struct farm_job *job, const char *name, uint32_t *task, uint32_t *version) {
  if (!farm_job_parse(job, name, task, version)) return false;
  if (has_in(job, name, "done")) return has_in(job, name, "hostname") && done_here(job, name);
  if (!farm_job_has_begun(job, *task, *version)) return false;
  if (unlinkat(job->dir, name, AT_REMOVEDIR) == 0) return false;
  return has_in(job, name, "hostname");
}

static void look_at_line(struct farm_job_line *line, void *arg) {
  (void)arg;
  count_version(line->job, line->task, line->version);
}

static char *look_at_failed(struct farm_job *job, const char *name) {
  uint32_t task, version;
  if (farm_job_parse(job, name, &task, &version)) count_version(job, task, version);
  return NULL;
}

/* A directory of a version: one that counts stays; the rest goes, its letters are not used again.
 */
static char *look_at(struct farm_job *job, const char *name) {
  uint32_t task, version;
  struct farm_job_task *known;
  if (!farm_job_made(job, name, &task, &version)) return NULL;
  known = &job->tasks[task];
  count_version(job, task, version);
  if (!has_in(job, name, "done") || has_in(job, name, "dup")) {
    farm_job_remove(job, name);
  } else if (known->finished && known->version < version) {
    farm_job_remove(job, name);
  } else {
    if (known->finished) {
      char *other = farm_job_version(job, task, known->version);
      farm_job_remove(job, other);
      free(other);
    }
    known->finished = true;
    known->version = version;
  }
  return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Takes the lock, which holds for as long as the descriptor is open; it may be that of another
 * dmifarm. */
static char *try_lock(struct farm_job *job) {
  char text[300];
  ssize_t size;
  job->lock = openat(job->dir, FARM_STATE "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (job->lock < 0) return farm_job_error(job, FARM_STATE "/lock");
  if (flock(job->lock, LOCK_EX | LOCK_NB) == 0) return NULL;
  if (errno != EWOULDBLOCK) return farm_job_error(job, FARM_STATE "/lock");
  size = read(job->lock, text, sizeof(text) - 1);
  text[size < 0 ? 0 : size] = '\0';
  return farm_format("%s: another dmifarm runs this job%s%s", job->path, *text ? ": " : "", text);
}

/* One dmifarm at a time. */
static char *take_lock(struct farm_job *job) {
  char host[256] = "", text[300], *why = try_lock(job);
  int size;
  if (why) return why;
  (void)gethostname(host, sizeof(host) - 1);
  size = snprintf(text, sizeof(text), "process %ld at %s", (long)getpid(), host);
  if (ftruncate(job->lock, 0) != 0 || pwrite(job->lock, text, (size_t)size, 0) != size)
    return farm_job_error(job, FARM_STATE "/lock");
  return NULL;
}

char *farm_job_busy(const char *path) {
  struct farm_job job = {.path = farm_strdup(path), .dir = -1, .lock = -1, .log = -1, .begun = -1};
  char *why = NULL;
  job.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (job.dir >= 0) why = try_lock(&job);
  farm_job_close(&job);
  return why;
}

static char *open_state(struct farm_job *job) {
  char *why;
  if (!farm_job_has(job, "tasks"))
    return farm_format("%s: not a job: it has no directory `tasks`", job->path);
  if (mkdirat(job->dir, FARM_STATE, 0777) != 0 && errno != EEXIST)
    return farm_job_error(job, FARM_STATE);
  if ((why = take_lock(job))) return why;
  return farm_job_open_list(job, FARM_LOG, &job->log);
}

char *farm_job_open(struct farm_job *job, const char *path) {
  char *why;
  *job =
      (struct farm_job){.path = farm_strdup(path), .dir = -1, .lock = -1, .log = -1, .begun = -1};
  job->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (job->dir < 0) return farm_format("%s: %s", path, strerror(errno));
  if ((why = open_state(job)) || (why = read_tasks(job))) return why;
  job->done = farm_job_has(job, "done");
  if ((why = farm_job_open_begun(job))) return why;
  for (uint32_t i = 0; i < job->begin_num; i++)
    count_version(job, job->begins[i].task, job->begins[i].version);
  if ((why = farm_job_log(job, look_at_line, NULL))) return why;
  if (farm_job_has(job, "failed") && (why = farm_job_each(job, "failed", look_at_failed)))
    return why;
  return farm_job_each(job, ".", look_at);
}

void farm_job_close(struct farm_job *job) {
  for (uint32_t i = 0; i < job->num; i++) {
    free(job->tasks[i].name);
    free(job->tasks[i].why);
  }
  free(job->tasks);
  free(job->begins);
  free(job->path);
  if (job->log >= 0) close(job->log);
  if (job->begun >= 0) close(job->begun);
  if (job->lock >= 0) close(job->lock); /* gives up the lock */
  if (job->dir >= 0) close(job->dir);
}
