/*
 * ring.h - one direction of a link in memory that two processes share: a ring of bytes, and its two
 * indexes.
 *
 * docs/shm.md has the picture and the rules. The other process is authenticated but not trusted: it
 * may write anything into the shared part at any time. So each end keeps its own index in private
 * memory, reads the other's once for each operation, and checks it.
 *
 * One thread at a time puts, one at a time gets. No system calls: the caller wakes the other end
 * when a function here says so.
 */
#ifndef DMI_NET_RING_H
#define DMI_NET_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* In shared memory; zero bytes at first.  Counts only go up: they are bytes since the beginning. */
struct dmi_ring {
  _Alignas(64) _Atomic uint64_t head;       /* bytes put; the putting end writes it */
  _Atomic uint64_t shift;                   /* byte n lies at (n - shift) modulo size; likewise */
  _Alignas(64) _Atomic uint64_t tail;       /* bytes got; the getting end writes it */
  _Alignas(64) _Atomic uint32_t empty_wait; /* 1: the getting end sleeps until there are bytes */
  _Atomic uint32_t full_wait;               /* 1: the putting end sleeps until there is space */
};

/* The two ends, in private memory. */
struct dmi_ring_out {
  struct dmi_ring *ring;
  unsigned char *bytes;
  size_t size;
  uint64_t head, shift;
};

struct dmi_ring_in {
  struct dmi_ring *ring;
  unsigned char *bytes; /* what is got may be overwritten, until `tail` has moved */
  size_t size;
  uint64_t tail;
};

/* A place in an array of parts. */
struct dmi_ring_parts {
  const struct iovec *iov;
  size_t num; /* parts from `iov` on */
  size_t off; /* bytes of the first one that are done */
};

/* Puts at most `most` bytes.  0: it is full, or there is nothing to put; -EPROTO: the other end's
 * index is wrong. */
ssize_t dmi_ring_put(struct dmi_ring_out *out, struct dmi_ring_parts *from, size_t most);
/* After `put`: true if the getting end has to be woken.  It is then counted as woken. */
bool dmi_ring_wakes_getter(struct dmi_ring_out *out);
/* Before the putting end sleeps: it will be woken when half of the ring is free.  False: there is
 * space now, or the other end's index is wrong. */
bool dmi_ring_wait_space(struct dmi_ring_out *out);

/* Gets at most `most` bytes.  0: it is empty, or there is no place; -EPROTO: as above. */
ssize_t dmi_ring_get(struct dmi_ring_in *in, struct dmi_ring_parts *to, size_t most);
/* A hint for any thread: true if there seem to be bytes. */
bool dmi_ring_seems_full(const struct dmi_ring *ring);
/* After `get`: true if the putting end has to be woken.  It is then counted as woken. */
bool dmi_ring_wakes_putter(struct dmi_ring_in *in);
/* Before the getting end sleeps: it will be woken when there are bytes.  False: there are some now,
 * and *woken says whether it has been woken already. */
bool dmi_ring_wait_bytes(struct dmi_ring_in *in, bool *woken);
/* It does not sleep any more.  True: it was woken. */
bool dmi_ring_end_wait(struct dmi_ring_in *in);

#endif
