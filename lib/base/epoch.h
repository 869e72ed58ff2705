/*
 * epoch.h - readers that write nothing shared, and memory freed once they have gone on.
 *
 * A thread looks things up between dmi_epoch_enter and dmi_epoch_leave (short; never across a
 * wait); what was unpublished and given to dmi_epoch_retire is freed when no thread that might have
 * seen it is still inside.  Own code instead of liburcu because the thread sanitizer cannot see
 * through that library's barriers, and every test must run under it.
 */
#ifndef DMI_BASE_EPOCH_H
#define DMI_BASE_EPOCH_H

#include <stdatomic.h>
#include <stdint.h>

struct dmi_epoch_slot {
  _Atomic uint64_t inside;     /* the epoch it entered in, 0: outside; written by its thread only */
  _Atomic uint32_t used;       /* bool: belongs to a living thread */
  struct dmi_epoch_slot *next; /* all slots; never removed, used again by later threads */
  char pad[40];                /* one cache line each */
};

extern _Atomic uint64_t dmi_epoch_now;
extern __thread struct dmi_epoch_slot *dmi_epoch_mine __attribute__((tls_model("initial-exec")));

void dmi_epoch_register(void);

static inline void dmi_epoch_enter(void) {
  if (__builtin_expect(!dmi_epoch_mine, 0)) dmi_epoch_register();
  /* An exchange, so that what is read afterwards is read after others can see that we are inside.
   * Acquire, so that who enters in a new epoch sees what was unpublished before it began. */
  atomic_exchange_explicit(&dmi_epoch_mine->inside,
                           atomic_load_explicit(&dmi_epoch_now, memory_order_acquire),
                           memory_order_seq_cst);
}

static inline void dmi_epoch_leave(void) {
  atomic_store_explicit(&dmi_epoch_mine->inside, 0, memory_order_release);
}

/* Has free_it(ptr) called later, by this or another thread that retires something. */
void dmi_epoch_retire(void *ptr, void (*free_it)(void *ptr));

/* One more user of epochs begins: a process of DMI, of which an OS process may have several. */
void dmi_epoch_begin(void);
/* A user ends; none of its threads but the calling one uses epochs any more.  The last one (or one
 * that has not begun) frees everything retired and all slots. */
void dmi_epoch_end(void);

#endif
