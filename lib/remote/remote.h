/*
 * remote.h - remote functions in one process: the pool that runs them, and clients that call them
 * (include/dmi_remote.h; docs/remote.md, "The runtime").
 */
#ifndef DMI_REMOTE_REMOTE_H
#define DMI_REMOTE_REMOTE_H

#include <stdarg.h>

#include "dmi_remote.h"
#include "node/process.h"

/* Makes a program able to take part. */
void dmi_remote_use(struct dmi_program *program);

/* ---- For the entry points.  All return DMI_TRUE or DMI_FALSE; those that return a name: all zero
 * for DMI_FALSE. ---- */
int32_t dmi_remote_open(struct dmi_process *process, DMI_client_t **client,
                        const DMI_client_options_t *options);
int32_t dmi_remote_close(struct dmi_process *process, DMI_client_t *client);
DMI_data_t dmi_remote_put(struct dmi_process *process, DMI_client_t *client, const void *buf,
                          int64_t size);
int32_t dmi_remote_read(struct dmi_process *process, DMI_client_t *client, DMI_data_t data,
                        void *buf, int64_t offset, int64_t size, DMI_local_status_t *status);
DMI_data_t dmi_remote_copy(struct dmi_process *process, DMI_client_t *client, DMI_data_t data);
int32_t dmi_remote_drop(struct dmi_process *process, DMI_client_t *client, DMI_data_t data);
int32_t dmi_remote_failure(struct dmi_process *process, DMI_client_t *client, DMI_data_t data,
                           DMI_failure_t *failure);
/* `dmi_id` -1: any process.  `args` is of DMI_arg_t, up to one of kind 0. */
int32_t dmi_remote_issue(struct dmi_process *process, DMI_client_t *client, int32_t dmi_id,
                         DMI_remote_function_t function, va_list args);

/* ---- For functions that run ---- */
int32_t dmi_remote_arg_num(const DMI_remote_t *call);
/* Kinds of arguments, as in dmi_remote.h. */
enum dmi_remote_kind { DMI_REMOTE_IN = 1, DMI_REMOTE_OUT, DMI_REMOTE_INOUT, DMI_REMOTE_BY_VALUE };
/* Does not return if there is no such argument.  `size` may be NULL. */
void *dmi_remote_arg(DMI_remote_t *call, int32_t index, enum dmi_remote_kind kind, int64_t *size);
const void *dmi_remote_arg_of(DMI_remote_t *call, int32_t index, int64_t size);
void dmi_remote_fails(DMI_remote_t *call, const char *sentence);
void dmi_remote_register(const char *name, DMI_remote_function_t function);

#endif
