/*
 * epoch.h - epoch-based reclamation: readers take no lock, and memory is freed when no reader can
 * use it any more.
 *
 * A thread reads shared structures between dmi_epoch_enter and dmi_epoch_leave (for a short time;
 * never across a wait). A writer first unlinks an object and then calls dmi_epoch_retire, which
 * frees it when no thread is inside that may have seen it. This is our own code and not liburcu,
 * because the thread sanitizer does not understand that library's barriers, and every test must run
 * under it.
 */
#ifndef DMI_BASE_EPOCH_H
#define DMI_BASE_EPOCH_H

#include <stdatomic.h>
#include <stdint.h>

struct dmi_epoch_slot {
  /* the epoch at which it entered, 0: outside; written by its thread only */
  _Atomic uint64_t inside;
  _Atomic uint32_t used; /* bool: a thread has it */
  /* list of all slots, for reuse; freed only at the last dmi_epoch_end */
  struct dmi_epoch_slot *next;
  char pad[40]; /* so that each slot fills a cache line */
};

extern _Atomic uint64_t dmi_epoch_now;
extern __thread struct dmi_epoch_slot *dmi_epoch_mine __attribute__((tls_model("initial-exec")));

void dmi_epoch_register(void);

static inline void dmi_epoch_enter(void) {
  if (__builtin_expect(!dmi_epoch_mine, 0)) dmi_epoch_register();
  /* An exchange orders later reads after this store, so other threads see that we are inside
   * before we read. Acquire: a thread that enters at a new epoch sees what was unlinked before
   * it. */
  atomic_exchange_explicit(&dmi_epoch_mine->inside,
                           atomic_load_explicit(&dmi_epoch_now, memory_order_acquire),
                           memory_order_seq_cst);
}

static inline void dmi_epoch_leave(void) {
  atomic_store_explicit(&dmi_epoch_mine->inside, 0, memory_order_release);
}

/* free_it(ptr) will be called later, by this thread or another one that retires something. */
void dmi_epoch_retire(void *ptr, void (*free_it)(void *ptr));

/* Begins a use of epochs: called by each process of DMI, of which an OS process may have
 * several. */
void dmi_epoch_begin(void);
/* Ends a use: only the calling one of its threads still uses epochs. The last call (or one
 * without dmi_epoch_begin) frees everything retired and all slots. */
void dmi_epoch_end(void);

#endif
