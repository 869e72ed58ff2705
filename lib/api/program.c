/*
 * program.c - entry points: the program, its processes and threads, completion, errors (chapters 2,
 * 3).
 *
 * Each checks its arguments as far as it can here, and calls the layers below.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/local.h"
#include "api/start.h"
#include "api/reported.h"
#include "base/error.h"
#include "base/where.h"
#include "elastic/elastic.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "remote/remote.h"
#include "team/team.h"

static void comes_from(const void *place) {
  dmi_doing_mine.place = place;
}

int dmi_start(int argc, char **argv, const struct dmi_program *program) {
  struct dmi_program whole = *program;
  dmi_local_begin();
  dmi_elastic_use(&whole);
  dmi_remote_use(&whole);
  dmi_team_use(&whole);
  if (program->language)
    *program->language = (struct dmi_program_language){dmi_where_place, comes_from};
  return dmi_runtime_main(&whole, argc, argv);
}

/* ---- Errors and completion ------------------------------------------------------------------ */

int32_t DMI_errno(void) {
  return dmi_error_last();
}

const char *DMI_error_reason(void) {
  return dmi_report_reason();
}

const char *DMI_strerror(int32_t error) {
  return dmi_error_text(error);
}

/* Hands the result of a complete call to the caller of DMI_wait or DMI_check. */
static void finish(DMI_local_status_t *status, int32_t error, int32_t *ret_ptr,
                   const struct dmi_report *report) {
  int32_t ret = dmi_result(error);
  if (ret_ptr) *ret_ptr = ret;
  if (!ret) dmi_report_completed(report, status);
}

/* Why nobody may wait for this status; DMI_OK if one may. */
static int32_t bad_status(DMI_local_status_t *status) {
  if (!status) return dmi_because(DMI_EINVAL, "the status is NULL");
  if (dmi_in_function) return DMI_EINFUNC;
  if (!dmi_status_is_none(dmi_status_of(status))) return DMI_OK;
  return dmi_because(DMI_EINVAL, "no call was given this status");
}

/* Waits for a call that was begun with this status. */
static int32_t wait(DMI_local_status_t *status) {
  struct dmi_access *access = dmi_runtime_access();
  bool noted;
  int32_t error;
  if (!access || dmi_status_is_done(dmi_status_of(status)))
    return dmi_status_wait(dmi_status_of(status));
  noted = dmi_doing_waits(&access->doings, DMI_DOING_STATUS, 0, 0, 0);
  error = dmi_status_wait(dmi_status_of(status));
  dmi_doing_waited(noted);
  return error;
}

void DMI_wait(DMI_local_status_t *status, int32_t *ret_ptr) {
  int32_t error = bad_status(status);
  DMI_CALLS();
  if (error != DMI_OK) {
    int32_t ret = DMI_REPORTED(dmi_fail(error), DMI_NOTHING);
    if (ret_ptr) *ret_ptr = ret;
    return;
  }
  finish(status, wait(status), ret_ptr, DMI_THIS(DMI_NOTHING));
}

int32_t DMI_check(DMI_local_status_t *status, int32_t *ret_ptr) {
  int32_t error = bad_status(status);
  DMI_CALLS();
  if (error != DMI_OK) return DMI_REPORTED(dmi_fail(error), DMI_NOTHING);
  if (!dmi_status_is_done(dmi_status_of(status))) return DMI_FALSE;
  finish(status, dmi_status_of(status)->error, ret_ptr, DMI_THIS(DMI_NOTHING));
  return DMI_TRUE;
}

/* ---- Processes ------------------------------------------------------------------------------ */

int32_t DMI_poll(DMI_node_t *node_ptr) {
  return DMI_REPORTED(dmi_call_poll(dmi_runtime_process(), node_ptr), DMI_NOTHING);
}

int32_t DMI_peek(DMI_node_t *node_ptr, int32_t *flag_ptr) {
  return DMI_REPORTED(dmi_call_peek(dmi_runtime_process(), node_ptr, flag_ptr), DMI_NOTHING);
}

int32_t DMI_welcome(int32_t dmi_id) {
  return DMI_REPORTED(dmi_call_welcome(dmi_runtime_process(), dmi_id), DMI_ID(dmi_id));
}

int32_t DMI_goodbye(int32_t dmi_id) {
  return DMI_REPORTED(dmi_call_goodbye(dmi_runtime_process(), dmi_id, NULL), DMI_ID(dmi_id));
}

int32_t DMI_nodes(DMI_node_t *node_array, int32_t *num_ptr, int32_t capacity) {
  return DMI_REPORTED(dmi_call_nodes(dmi_runtime_process(), node_array, num_ptr, capacity),
                      DMI_NOTHING);
}

int32_t DMI_rank(int32_t *dmi_id_ptr) {
  struct dmi_process *process;
  if (!dmi_id_ptr) {
    return DMI_REPORTED(dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL")), DMI_NOTHING);
  }
  process = dmi_runtime_usable();
  if (!process) return DMI_REPORTED(DMI_FALSE, DMI_NOTHING);
  *dmi_id_ptr = (int32_t)process->dmi_id.n;
  return DMI_TRUE;
}

/* ---- Threads -------------------------------------------------------------------------------- */

int32_t DMI_create(DMI_thread_t *thread_ptr, int32_t dmi_id, int64_t addr,
                   DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(
      dmi_call_create(dmi_runtime_process(), thread_ptr, dmi_id, addr, status), status,
      DMI_ID(dmi_id));
}

int32_t DMI_join(DMI_thread_t thread, int64_t *addr_ptr, DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(dmi_call_join(dmi_runtime_process(), &thread, addr_ptr, status), status,
                            DMI_NOTHING);
}

int32_t DMI_detach(DMI_thread_t thread, DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(dmi_call_detach(dmi_runtime_process(), &thread, status), status,
                            DMI_NOTHING);
}

int32_t DMI_suspend(void) {
  return DMI_REPORTED(dmi_call_suspend(dmi_runtime_process()), DMI_NOTHING);
}

int32_t DMI_wake(DMI_thread_t thread, DMI_local_status_t *status) {
  return DMI_REPORTED_ASYNC(dmi_call_wake(dmi_runtime_process(), &thread, status), status,
                            DMI_NOTHING);
}

static int32_t self(DMI_thread_t *thread_ptr) {
  struct dmi_process *process = dmi_runtime_process();
  if (!thread_ptr) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (dmi_in_function) return dmi_fail(DMI_EINFUNC);
  if (!process || !dmi_thread_self()) return dmi_fail(DMI_ETHREAD);
  thread_ptr->dmi_private[0] = process->access.core.self;
  thread_ptr->dmi_private[1] = (int64_t)dmi_thread_self();
  return DMI_TRUE;
}

int32_t DMI_self(DMI_thread_t *thread_ptr) {
  return DMI_REPORTED(self(thread_ptr), DMI_NOTHING);
}

/* ---- Local memory --------------------------------------------------------------------------- */

void *my_malloc(size_t size) {
  void *ptr = malloc(size ? size : 1);
  if (!ptr) {
    fprintf(
        stderr,
        "dmi: my_malloc: no memory left for %zu bytes (dmirun -s sets how much of it DMI takes)\n",
        size);
    exit(1);
  }
  return ptr;
}

void my_free(void *ptr) {
  free(ptr);
}
