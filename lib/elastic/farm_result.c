/*
 * farm_result.c - where the results of tasks are: an array of entries in global memory, in the
 * order of the tasks.  An entry is the task's mark, and its result.
 *
 * Mark and result are written at once.  Several small entries share a page, which stays at the
 * process that runs the farm: the bytes are sent there.  A large one is a page of its own, and
 * stays where it was computed.  If the page is lost with that process, those of its tasks whose
 * marks are not there are done again.
 */
#include "elastic/farm_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "access/status.h"
#include "base/error.h"
#include "node/calls.h"

#define PAGE_BYTES 65536 /* of entries that share a page */

int32_t dmi_farm_result_map(struct dmi_process *process, struct dmi_farm_about *about) {
  int64_t pages;
  if (about->result_size > (INT64_C(1) << 62) - 16)
    return dmi_fail(dmi_because_of(DMI_ESIZE, "a result is too large", about->result_size));
  about->entry = (int64_t)sizeof(int64_t) + (about->result_size + 7) / 8 * 8;
  about->per_page = about->entry <= PAGE_BYTES / 2 ? PAGE_BYTES / about->entry : 1;
  if (about->per_page > about->tasks) about->per_page = about->tasks;
  pages = about->tasks / about->per_page + (about->tasks % about->per_page != 0);
  return dmi_call_mmap(process, &about->results, about->per_page * about->entry, pages, NULL);
}

static int8_t mode_of(const struct dmi_farm_about *about) {
  return about->per_page > 1 ? DMI_PUT_WRITE : DMI_EXCLUSIVE_WRITE;
}

void dmi_farm_result_begin(struct dmi_process *process, const struct dmi_farm_about *about,
                           int64_t task, int64_t num, const char *entries,
                           DMI_local_status_t *status) {
  (void)dmi_access_write(&process->access, about->results + task * about->entry, num * about->entry,
                         entries, mode_of(about), status);
}

int32_t dmi_farm_result_end(struct dmi_process *process, const struct dmi_farm_about *about,
                            int64_t task, int64_t num, const char *entries,
                            DMI_local_status_t *status) {
  const struct dmi_access_for what = {.what = DMI_DOING_PAGE,
                                      .addr = (uint64_t)(about->results + task * about->entry),
                                      .size = (uint64_t)(num * about->entry)};
  if (dmi_access_wait_for(&process->access, dmi_status_of(status), &what) == DMI_OK)
    return DMI_TRUE;
  return dmi_farm_result_write(process, about, task, num, entries);
}

int32_t dmi_farm_result_write(struct dmi_process *process, const struct dmi_farm_about *about,
                              int64_t task, int64_t num, const char *entries) {
  const int64_t addr = about->results + task * about->entry, size = num * about->entry;
  while (!dmi_access_write(&process->access, addr, size, entries, mode_of(about), NULL)) {
    /* Who runs the farm learns of the loss, too, and looks what else was in these pages. */
    if (dmi_error_last() != DMI_ELOST ||
        !dmi_access_revive(&process->access, addr, size, false, NULL))
      return DMI_FALSE;
  }
  return DMI_TRUE;
}

/* ---- After losses --------------------------------------------------------------------------- */

/* What dmi_farm_result_check does, while it does it. */
struct check {
  struct dmi_farm_at *at;
  const struct dmi_farm_about *about;
  char *page; /* bytes of entries that were read */
  int64_t missing, failed;
  int64_t begin, num; /* the last tasks that are missing, not told the table yet */
};

/* Tells the table of the last range. */
static int32_t put_range(struct check *check) {
  const struct dmi_farm_step step = {
      .op = DMI_FARM_AGAIN, .begin = check->begin, .num = check->num};
  struct dmi_farm_answer answer;
  if (!check->num) return DMI_TRUE;
  check->num = 0;
  return dmi_farm_table_insert(check->at, &step, &answer);
}

static int32_t look_at(struct check *check, int64_t task, int64_t mark) {
  if (mark) {
    check->failed += mark != DMI_FARM_MARK_DONE;
    return DMI_TRUE;
  }
  check->missing++;
  if (check->num && check->begin + check->num == task) {
    check->num++;
    return DMI_TRUE;
  }
  if (!put_range(check)) return DMI_FALSE;
  check->begin = task;
  check->num = 1;
  return DMI_TRUE;
}

/* Reads the entries of a page, or the mark if there is one entry.  Those of a lost page are zero.
 */
static int32_t read_page(const struct check *check, int64_t task, int64_t num) {
  const struct dmi_farm_about *about = check->about;
  struct dmi_access *access = &check->at->process->access;
  const int64_t addr = about->results + task * about->entry;
  const int64_t size = about->per_page > 1 ? num * about->entry : (int64_t)sizeof(int64_t);
  while (!dmi_access_read(access, addr, size, check->page, DMI_GET_READ, NULL)) {
    if (dmi_error_last() != DMI_ELOST || !dmi_access_revive(access, addr, size, false, NULL))
      return DMI_FALSE;
  }
  return DMI_TRUE;
}

static int32_t look_at_all(struct check *check) {
  const struct dmi_farm_about *about = check->about;
  int64_t num;
  for (int64_t task = 0; task < about->tasks; task += num) {
    num = about->tasks - task < about->per_page ? about->tasks - task : about->per_page;
    if (!read_page(check, task, num)) return DMI_FALSE;
    for (int64_t i = 0; i < num; i++) {
      int64_t mark;
      memcpy(&mark, check->page + i * about->entry, sizeof(mark));
      if (!look_at(check, task + i, mark)) return DMI_FALSE;
    }
  }
  return put_range(check);
}

/* The table still counts those that had failed among what is missing. */
static int32_t put_failed(const struct check *check) {
  const struct dmi_farm_step step = {.op = DMI_FARM_FAILED, .failed = check->failed};
  struct dmi_farm_answer answer;
  return dmi_farm_table_ask(check->at, &step, &answer);
}

int32_t dmi_farm_result_check(struct dmi_farm_at *at, const struct dmi_farm_about *about,
                              int64_t *missing, int64_t *failed) {
  struct check check = {.at = at, .about = about};
  int32_t good;
  check.page =
      malloc(about->per_page > 1 ? (size_t)(about->per_page * about->entry) : sizeof(int64_t));
  if (!check.page) return dmi_fail(DMI_ENOMEM);
  good = look_at_all(&check) && put_failed(&check);
  free(check.page);
  *missing = check.missing;
  *failed = check.failed;
  return good;
}

/* ---- For users ------------------------------------------------------------------------------ */

/* In dmi_private: where the results are, and bytes of an entry. */
enum { RESULTS, ENTRY };

void dmi_farm_result_keep(DMI_farm_t *farm, const struct dmi_farm_about *about) {
  farm->dmi_private[RESULTS] = about->results;
  farm->dmi_private[ENTRY] = about->entry;
}

static int32_t has_results(const DMI_farm_t *farm) {
  if (!farm) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer to the farm is NULL"));
  return farm->dmi_private[ENTRY] ? DMI_TRUE
                                  : dmi_fail(dmi_because(DMI_EADDR, "the farm has no results"));
}

static int32_t read_mark(struct dmi_process *process, const DMI_farm_t *farm, int64_t task,
                         int64_t *mark) {
  const int64_t addr = farm->dmi_private[RESULTS] + task * farm->dmi_private[ENTRY];
  if (!dmi_access_read(&process->access, addr, sizeof(*mark), mark, DMI_GET_READ, NULL))
    return DMI_FALSE;
  return *mark ? DMI_TRUE : dmi_fail(dmi_because(DMI_ELOST, "its page was lost, and made anew"));
}

static int32_t status_of(int64_t mark) {
  return mark == DMI_FARM_MARK_DONE ? 0 : (int32_t)(uint32_t)((uint64_t)mark >> 32);
}

int32_t dmi_farm_result(struct dmi_process *process, const DMI_farm_t *farm, int64_t task,
                        void *out, int32_t *status) {
  int64_t mark;
  if (!has_results(farm)) return DMI_FALSE;
  if (task < 0 || task >= farm->tasks)
    return dmi_fail(dmi_because_so(DMI_EINVAL, "the farm has no task %" PRId64 ", but %" PRId64,
                                   task, farm->tasks));
  if (farm->result_size && !out) return dmi_fail(dmi_because(DMI_EINVAL, "`out` is NULL"));
  if (!read_mark(process, farm, task, &mark)) return DMI_FALSE;
  if (status) *status = status_of(mark);
  return dmi_access_read(
      &process->access,
      farm->dmi_private[RESULTS] + task * farm->dmi_private[ENTRY] + (int64_t)sizeof(mark),
      farm->result_size, out, DMI_GET_READ, NULL);
}

int32_t dmi_farm_failed(struct dmi_process *process, const DMI_farm_t *farm, int64_t from,
                        int64_t *task, int32_t *status) {
  int64_t mark;
  if (!has_results(farm)) return DMI_FALSE;
  if (!task || from < 0)
    return dmi_fail(task ? dmi_because_of(DMI_EINVAL, "`from` is negative", from)
                         : dmi_because(DMI_EINVAL, "the pointer is NULL"));
  for (int64_t t = from; farm->failed && t < farm->tasks; t++) {
    if (!read_mark(process, farm, t, &mark)) return DMI_FALSE;
    if (mark == DMI_FARM_MARK_DONE) continue;
    if (status) *status = status_of(mark);
    *task = t;
    return DMI_TRUE;
  }
  *task = -1;
  return DMI_TRUE;
}

int32_t dmi_farm_free(struct dmi_process *process, DMI_farm_t *farm) {
  if (!has_results(farm)) return DMI_FALSE;
  if (farm->dmi_private[RESULTS] && !dmi_call_munmap(process, farm->dmi_private[RESULTS], NULL))
    return DMI_FALSE;
  farm->dmi_private[ENTRY] = 0;
  return DMI_TRUE;
}
