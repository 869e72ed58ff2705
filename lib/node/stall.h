/*
 * stall.h - says for whom this process waits, when that one's daemon does not answer.
 */
#ifndef DMI_NODE_STALL_H
#define DMI_NODE_STALL_H

#include "node/process.h"

/* Any thread: something was asked that another process's daemon answers at once.  Costs a look at a
 * word, once a second more. */
static inline void dmi_stall_watch(struct dmi_process *process) {
  if (!atomic_load_explicit(&process->stalling, memory_order_relaxed) &&
      !atomic_exchange(&process->stalling, 1)) {
    dmi_net_post(process->net);
  }
}

/* ---- The daemon's ---- */

/* Begins to look, if dmi_stall_watch has asked for it or the membership core waits for somebody. */
void dmi_stall_begin(struct dmi_process *process);
void dmi_stall_end(struct dmi_process *process); /* frees it */

#endif
