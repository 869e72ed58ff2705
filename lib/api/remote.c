/*
 * remote.c - entry points of dmi_remote.h.
 */
#include "remote/remote.h"

#include "api/reported.h"
#include "base/error.h"
#include "node/runtime.h"

#undef DMI_call
#undef DMI_call_on

int32_t DMI_client_open(DMI_client_t **client_ptr, const DMI_client_options_t *options) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_remote_open(process, client_ptr, options) : DMI_FALSE,
                      DMI_NOTHING);
}

int32_t DMI_client_close(DMI_client_t *client) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_remote_close(process, client) : DMI_FALSE, DMI_NOTHING);
}

/* Reports that no name could be given. */
static DMI_data_t named(DMI_data_t data, const struct dmi_report *report) {
  if (!data.dmi_private[0] && !data.dmi_private[1]) dmi_report_failed(report);
  return data;
}

DMI_data_t DMI_data_put(DMI_client_t *client, const void *buf, int64_t size) {
  static const DMI_data_t none;
  struct dmi_process *process = dmi_runtime_usable();
  DMI_CALLS();
  return named(process ? dmi_remote_put(process, client, buf, size) : none, DMI_THIS(DMI_NOTHING));
}

int32_t DMI_data_read(DMI_client_t *client, DMI_data_t data, void *buf, int64_t offset,
                      int64_t size, DMI_local_status_t *status) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process && status) (void)dmi_status_refuse(status, dmi_error_last());
  return DMI_REPORTED_ASYNC(
      process ? dmi_remote_read(process, client, data, buf, offset, size, status) : DMI_FALSE,
      status, DMI_NOTHING);
}

DMI_data_t DMI_data_copy(DMI_client_t *client, DMI_data_t data) {
  static const DMI_data_t none;
  struct dmi_process *process = dmi_runtime_usable();
  DMI_CALLS();
  return named(process ? dmi_remote_copy(process, client, data) : none, DMI_THIS(DMI_NOTHING));
}

int32_t DMI_data_drop(DMI_client_t *client, DMI_data_t data) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_remote_drop(process, client, data) : DMI_FALSE, DMI_NOTHING);
}

int32_t DMI_data_failure(DMI_client_t *client, DMI_data_t data, DMI_failure_t *failure_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_remote_failure(process, client, data, failure_ptr) : DMI_FALSE,
                      DMI_NOTHING);
}

int32_t DMI_call(DMI_client_t *client, DMI_remote_function_t function, ...) {
  struct dmi_process *process = dmi_runtime_usable();
  int32_t result = DMI_FALSE;
  va_list args;
  DMI_CALLS();
  va_start(args, function);
  if (process) result = dmi_remote_issue(process, client, -1, function, args);
  va_end(args);
  return DMI_REPORTED(result, DMI_NOTHING);
}

int32_t DMI_call_on(DMI_client_t *client, int32_t dmi_id, DMI_remote_function_t function, ...) {
  struct dmi_process *process = dmi_runtime_usable();
  int32_t result = DMI_FALSE;
  va_list args;
  DMI_CALLS();
  va_start(args, function);
  if (process && dmi_id < 0) {
    (void)dmi_fail(DMI_EMEMBER);
  } else if (process) {
    result = dmi_remote_issue(process, client, dmi_id, function, args);
  }
  va_end(args);
  return DMI_REPORTED(result, DMI_ID(dmi_id));
}

/* ---- In remote functions -------------------------------------------------------------------- */

void DMI_remote_register(const char *name, DMI_remote_function_t function) {
  dmi_remote_register(name, function);
}

int32_t DMI_remote_args(const DMI_remote_t *call) {
  return dmi_remote_arg_num(call);
}

const void *DMI_remote_in(DMI_remote_t *call, int32_t index, int64_t *size_ptr) {
  DMI_CALLS();
  return dmi_remote_arg(call, index, DMI_REMOTE_IN, size_ptr);
}

void *DMI_remote_out(DMI_remote_t *call, int32_t index, int64_t *size_ptr) {
  DMI_CALLS();
  return dmi_remote_arg(call, index, DMI_REMOTE_OUT, size_ptr);
}

void *DMI_remote_inout(DMI_remote_t *call, int32_t index, int64_t *size_ptr) {
  DMI_CALLS();
  return dmi_remote_arg(call, index, DMI_REMOTE_INOUT, size_ptr);
}

const void *DMI_remote_value(DMI_remote_t *call, int32_t index, int64_t *size_ptr) {
  return dmi_remote_arg(call, index, DMI_REMOTE_BY_VALUE, size_ptr);
}

const void *DMI_remote_value_of(DMI_remote_t *call, int32_t index, int64_t size) {
  return dmi_remote_arg_of(call, index, size);
}

void DMI_remote_fail(DMI_remote_t *call, const char *sentence) {
  dmi_remote_fails(call, sentence);
}
