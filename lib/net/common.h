/*
 * common.h - memory that processes of one host and user have in common: each gets its descriptor
 * with its first link in shared memory (shm.c) from the process that it connects to, and gives it
 * on.  A process that uses it holds a *mark*, a number, until it has ended: then nothing of it can
 * write there any more, which no loss of a connection shows.
 *
 * Only the daemon calls these functions, but for those of marks.
 */
#ifndef DMI_NET_COMMON_H
#define DMI_NET_COMMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dmi_common {
  size_t size;          /* bytes; 0: it is not wanted */
  int fd;               /* -1: none */
  int own;              /* the same file, opened anew: locks of it are of this process only */
  void *_Atomic memory; /* any thread reads it; NULL: none */
};

void dmi_common_init(struct dmi_common *common, size_t size);
/* No thread uses the memory any more; the marks of this process are free. */
void dmi_common_close(struct dmi_common *common);
/* The descriptor, for another process.  -1: there is none. */
int dmi_common_give(struct dmi_common *common);
/* Takes over the descriptor that another process has given, if there was none. */
void dmi_common_take(struct dmi_common *common, int fd);

/* Any thread that has seen the memory.  A mark is below 2^63. */
/* This process holds the mark until it has ended.  False: the system cannot, or another one holds
 * it. */
bool dmi_common_hold(const struct dmi_common *common, uint64_t mark);
/* True if no other process holds the mark. */
bool dmi_common_has_ended(const struct dmi_common *common, uint64_t mark);

#endif
