/*
 * calls.h - calls of user threads that the daemon thread carries out.
 *
 * Synchronous ones wait here; the others complete a status.  All return DMI_TRUE or DMI_FALSE.
 * When the daemon has ended they fail with DMI_EINACTIVE.
 */
#ifndef DMI_NODE_CALLS_H
#define DMI_NODE_CALLS_H

#include "dmi_api.h"
#include "node/process.h"

int32_t dmi_call_poll(struct dmi_process *process, DMI_node_t *node);
int32_t dmi_call_peek(struct dmi_process *process, DMI_node_t *node, int32_t *flag);
/* dmi_call_poll, or the note with this value: dmi_call_notify of it ends a thread that calls this
 * until it comes, one in a process at a time.  No other call gives such a note to the program. */
int32_t dmi_call_poll_or_end(struct dmi_process *process, DMI_node_t *node);
int64_t dmi_call_end_note(const struct dmi_process *process);
int32_t dmi_call_nodes(struct dmi_process *process, DMI_node_t *array, int32_t *num,
                       int32_t capacity);
int32_t dmi_call_welcome(struct dmi_process *process, int32_t dmi_id);
int32_t dmi_call_goodbye(struct dmi_process *process, int32_t dmi_id, DMI_local_status_t *status);
int32_t dmi_call_survive(struct dmi_process *process, int32_t copies);
int32_t dmi_call_exit(struct dmi_process *process, int32_t status);
int32_t dmi_call_notify(struct dmi_process *process, int64_t value, DMI_local_status_t *status);
int32_t dmi_call_root_set(struct dmi_process *process, const char *name, int64_t addr);
int32_t dmi_call_root_get(struct dmi_process *process, const char *name, int64_t *addr);

int32_t dmi_call_mmap(struct dmi_process *process, int64_t *addr, int64_t page_size,
                      int64_t page_num, DMI_local_status_t *status);
int32_t dmi_call_munmap(struct dmi_process *process, int64_t addr, DMI_local_status_t *status);

/* For the layers below; see struct dmi_access_above. */
struct dmi_mapping *dmi_call_lookup(struct dmi_process *process, uint64_t addr, int32_t *error);
int32_t dmi_call_map(struct dmi_process *process, uint64_t page_size, uint64_t page_num,
                     uint64_t tag, int64_t *addr);
int32_t dmi_call_unmap(struct dmi_process *process, uint64_t base, uint64_t tag);
void dmi_call_unmap_later(struct dmi_process *process, uint64_t base, uint64_t tag);

int32_t dmi_call_create(struct dmi_process *process, DMI_thread_t *thread, int32_t dmi_id,
                        int64_t addr, DMI_local_status_t *status);
/* A thread that runs one of the bodies of lib/elastic. */
int32_t dmi_call_create_inner(struct dmi_process *process, DMI_thread_t *thread, int32_t dmi_id,
                              enum dmi_body body, int64_t addr, DMI_local_status_t *status);
int32_t dmi_call_join(struct dmi_process *process, const DMI_thread_t *thread, int64_t *value,
                      DMI_local_status_t *status);
int32_t dmi_call_detach(struct dmi_process *process, const DMI_thread_t *thread,
                        DMI_local_status_t *status);
int32_t dmi_call_wake(struct dmi_process *process, const DMI_thread_t *thread,
                      DMI_local_status_t *status);
int32_t dmi_call_suspend(struct dmi_process *process);
int32_t dmi_call_wake_with(struct dmi_process *process, const DMI_thread_t *thread, const void *ptr,
                           int64_t size, DMI_local_status_t *status);
int32_t dmi_call_suspend_with(struct dmi_process *process, void *ptr, int64_t capacity,
                              int64_t *size);

#endif
