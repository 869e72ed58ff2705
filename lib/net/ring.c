/*
 * ring.c - a ring of bytes in shared memory.
 *
 * An end that is going to sleep says so and looks again; the other end moves its index and then
 * looks whether somebody sleeps. Both do these two steps in one total order (seq_cst), so at least
 * one of them sees the other.
 *
 * When everything was got, the next bytes are put at the beginning of the memory again. So an end
 * that exchanges small messages uses a page or two, which stay in the cache and are the only ones
 * that the system has to provide.
 *
 * Must not: use an index of the other end twice, or without the check; make a system call.
 */
#include "net/ring.h"

#include <errno.h>
#include <string.h>

#define LINE ((size_t)64)        /* bytes that caches of processors exchange at once */
#define RECLAIMED ((size_t)4096) /* of so many bytes or more, the lines are taken over */

/* What a thread has done before it puts comes before what another thread does with an answer that
 * it gets. The order goes by way of the other process, so the thread sanitizer cannot see it; of
 * sockets it knows that. The copies themselves are part of what is ordered: a buffer that was put
 * may be the one into which the answer is got. So the first of these comes between the copy and
 * the new index that shows it, and the second one between reading the other's index and the copy.
 */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
static const char other_processes = 0; /* only its address is used */
#define BEFORE_SHOWING() __tsan_release((void *)(uintptr_t)&other_processes)
#define AFTER_SEEING() __tsan_acquire((void *)(uintptr_t)&other_processes)
#else
#define BEFORE_SHOWING() ((void)0)
#define AFTER_SEEING() ((void)0)
#endif

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Skips the parts that are done. False: all are. */
static bool next_part(struct dmi_ring_parts *parts) {
  while (parts->num != 0 && parts->off == parts->iov->iov_len) {
    parts->iov++;
    parts->num--;
    parts->off = 0;
  }
  return parts->num != 0;
}

/* Where the next bytes of the parts are, and how many. */
static unsigned char *part_at(const struct dmi_ring_parts *parts, size_t *len) {
  *len = parts->iov->iov_len - parts->off;
  return (unsigned char *)parts->iov->iov_base + parts->off;
}

/* ---- The putting end ------------------------------------------------------------------------- */

/* Bytes that are put and not got; more than `size`: the other's index is wrong. */
static uint64_t used(const struct dmi_ring_out *out) {
  return out->head - atomic_load(&out->ring->tail);
}

ssize_t dmi_ring_put(struct dmi_ring_out *out, struct dmi_ring_parts *from, size_t most) {
  uint64_t full = used(out);
  if (full > out->size) return -EPROTO;
  if (full == 0) out->shift = out->head;
  most = smaller(most, out->size - (size_t)full);
  size_t done = 0;
  while (done < most && next_part(from)) {
    size_t len, at = (size_t)((out->head + done - out->shift) % out->size);
    const unsigned char *bytes = part_at(from, &len);
    len = smaller(smaller(len, most - done), out->size - at);
    memcpy(out->bytes + at, bytes, len);
    from->off += len;
    done += len;
  }
  out->head += done;
  if (full == 0) atomic_store_explicit(&out->ring->shift, out->shift, memory_order_relaxed);
  if (done == 0) return 0;
  BEFORE_SHOWING();
  atomic_store(&out->ring->head, out->head);
  return (ssize_t)done;
}

bool dmi_ring_wakes_getter(struct dmi_ring_out *out) {
  return atomic_load(&out->ring->empty_wait) != 0 &&
         atomic_exchange(&out->ring->empty_wait, 0) != 0;
}

bool dmi_ring_wait_space(struct dmi_ring_out *out) {
  atomic_store(&out->ring->full_wait, 1);
  if (used(out) == out->size) return true;
  atomic_store(&out->ring->full_wait, 0);
  return false;
}

/* ---- The getting end ------------------------------------------------------------------------- */

/* Copies bytes that nobody needs in the ring any more, and takes over their cache lines, by writing
 * into each.  Otherwise the caches of both processors would share them when the putting end comes
 * here again, and a write to such a line waits far longer than one to a line of a single cache. */
static void copy_out(unsigned char *to, unsigned char *from, size_t len) {
  memcpy(to, from, len);
  if (len < RECLAIMED) return;
  for (size_t i = 0; i < len; i += LINE)
    from[i] = 0;
}

ssize_t dmi_ring_get(struct dmi_ring_in *in, struct dmi_ring_parts *to, size_t most) {
  uint64_t have = atomic_load_explicit(&in->ring->head, memory_order_acquire) - in->tail;
  if (have > in->size) return -EPROTO;
  if (have == 0) return 0;
  AFTER_SEEING();
  /* It does not change before these bytes are got. */
  uint64_t shift = atomic_load_explicit(&in->ring->shift, memory_order_relaxed);
  most = smaller(most, (size_t)have);
  size_t done = 0;
  while (done < most && next_part(to)) {
    size_t len, at = (size_t)((in->tail + done - shift) % in->size);
    unsigned char *bytes = part_at(to, &len);
    len = smaller(smaller(len, most - done), in->size - at);
    copy_out(bytes, in->bytes + at, len);
    to->off += len;
    done += len;
  }
  in->tail += done;
  if (done != 0) atomic_store(&in->ring->tail, in->tail);
  return (ssize_t)done;
}

bool dmi_ring_seems_full(const struct dmi_ring *ring) {
  return atomic_load_explicit(&ring->head, memory_order_relaxed) !=
         atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

bool dmi_ring_wakes_putter(struct dmi_ring_in *in) {
  if (atomic_load(&in->ring->full_wait) == 0) return false;
  uint64_t have = atomic_load(&in->ring->head) - in->tail;
  return have <= in->size / 2 && atomic_exchange(&in->ring->full_wait, 0) != 0;
}

bool dmi_ring_wait_bytes(struct dmi_ring_in *in, bool *woken) {
  *woken = false;
  if (atomic_load(&in->ring->head) != in->tail) return false;
  atomic_store(&in->ring->empty_wait, 1);
  if (atomic_load(&in->ring->head) == in->tail) return true;
  *woken = dmi_ring_end_wait(in);
  return false;
}

bool dmi_ring_end_wait(struct dmi_ring_in *in) {
  return atomic_exchange(&in->ring->empty_wait, 0) == 0;
}
