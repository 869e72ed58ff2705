/*
 * transport.h - what carries the bytes between two processes: TCP (tcp.c) in the product, and links
 * in shared memory (shm.h), which take the place of TCP's between processes of one host; a network
 * in memory in tests (test/lib/memory_net.h).
 *
 * A process has one *transport*; a *link* is one end of a connection. A link carries bytes in both
 * directions, in order, none lost or added, until it breaks. The files above give the bytes their
 * meaning: handshake, sealing, messages. In every transport a struct dmi_addr is the address of a
 * process.
 *
 * No operation blocks. Operations that return a number of bytes or 0 return -errno on error.
 * -EAGAIN and -EINTR mean "not now"; after any other error the link (or the attempt) cannot be used
 * any more.
 *
 * Readiness is shown by descriptors, which poll, epoll and libev can watch in any number of
 * threads. They are level-triggered: `in` is readable while receive has a result (bytes, the end,
 * an error), `out` is writable while send may take bytes, and when the attempt to connect has
 * succeeded or failed. Both may be the same descriptor. A thread that waits for `in` also watches
 * its own descriptor, by which other threads wake it, so no operation here wakes anybody.
 *
 * A link that has an operation `arm` shows nothing at `in` before that is called: whoever is going
 * to wait for `in` calls it first, and may rely on `in` until it next calls receive.
 *
 * Threads: send is called by one thread at a time (the writer: send.c), receive by one thread at a
 * time (the one that has the turn: lend.c), possibly at the same time; connect by any thread;
 * everything else by the daemon (of a link: that of its network), also while other threads send or
 * receive, except `close` and `free`, which are called only when no thread does.
 */
#ifndef DMI_NET_TRANSPORT_H
#define DMI_NET_TRANSPORT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "msg/addr.h"

struct dmi_transport_ops;

struct dmi_transport {
  const struct dmi_transport_ops *ops;
  struct dmi_addr here; /* the address at which it listens */
  int incoming;         /* readable while accept has a result; -1: it does not listen */
  /* Set before `listen`, and later by the daemon of any network on it: see dmi_net_config. */
  _Atomic uint32_t dead_after;
};

struct dmi_link {
  const struct dmi_transport_ops *ops;
  int in, out;           /* descriptors: see "Readiness" */
  struct dmi_link *next; /* for its owner */
};

struct dmi_transport_ops {
  const char *name;
  bool near; /* what is sent uses no network, only memory of this host */

  /* ---- A transport ---- */
  /* Listens at this address. An ip of zeros stands for the address that was given when the
   * transport was made; port 0 for any free port. A second call replaces the first, even if it
   * fails. Sets `here` and `incoming`. */
  int (*listen)(struct dmi_transport *transport, const struct dmi_addr *at);
  /* The next link that another process has begun, and that process's address. Until `keep` is
   * called it is a stranger's: `close` then discards data in flight. */
  int (*accept)(struct dmi_transport *transport, struct dmi_link **link, struct dmi_addr *from);
  /* Begins a link. When `out` is writable, `connected` returns the result. -EAFNOSUPPORT: the
   * address at which this transport listens is of another kind. */
  int (*connect)(struct dmi_transport *transport, struct dmi_link **link,
                 const struct dmi_addr *to);
  void (*free)(struct dmi_transport *transport); /* its links must be closed */

  /* ---- A link ---- */
  int (*connected)(struct dmi_link *link);
  ssize_t (*send)(struct dmi_link *link, struct iovec *iov,
                  size_t num); /* Sends at least 1 byte, or returns an error. */
  /* 0: end of the stream */
  ssize_t (*receive)(struct dmi_link *link, struct iovec *iov, size_t num);
  /* The link does not belong to a stranger any more: large buffers, keep-alive, and an orderly
   * end.  Again when `dead_after` has changed. */
  void (*keep)(struct dmi_link *link);
  /* ends sending: the other side receives the end of the stream */
  void (*finish)(struct dmi_link *link);
  void (*close)(struct dmi_link *link); /* frees it */
  /* The one that receives, before it waits for `in`. False: do not wait, as receive has a result
   * now.  NULL: `in` can be relied upon at any time. */
  bool (*arm)(struct dmi_link *link);
  /* From now on `in` may wait until so many bytes have come, or no more can: for who sleeps while
   * something long arrives.  1: as at first.  NULL: it always shows each byte. */
  void (*await)(struct dmi_link *link, size_t bytes);
  /* Any thread, at any time, without a system call: true if something seems to be there.  Only a
   * hint.  Not NULL if `arm` is not. */
  bool (*seems)(struct dmi_link *link);
  void (*ends)(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs);

  /* ---- Does the other machine live? ----
   * With `dead_after` set, a link on which nothing is in flight breaks (an error of which
   * dmi_alive_is_silence is true) when its machine has not answered for so long.  While something
   * is, alive.c asks these. */
  /* bytes sent that the other machine has not acknowledged */
  uint64_t (*unacknowledged)(struct dmi_link *link);
  /* Seconds for which the other machine has not answered data or probes. A machine whose window is
   * closed does answer. */
  double (*silence)(struct dmi_link *link);
};

/* `send` and `receive` for one buffer. */
static inline ssize_t dmi_link_send(struct dmi_link *link, const void *bytes, size_t size) {
  struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
  return link->ops->send(link, &iov, 1);
}

static inline ssize_t dmi_link_receive(struct dmi_link *link, void *bytes, size_t size) {
  struct iovec iov = {.iov_base = bytes, .iov_len = size};
  return link->ops->receive(link, &iov, 1);
}

static inline void dmi_link_close(struct dmi_link *link) {
  link->ops->close(link);
}

static inline bool dmi_link_arm(struct dmi_link *link) {
  return link->ops->arm == NULL || link->ops->arm(link);
}

static inline void dmi_link_await(struct dmi_link *link, size_t bytes) {
  if (link->ops->await != NULL) link->ops->await(link, bytes);
}

/* True for links that have to be armed. */
static inline bool dmi_link_has_arm(const struct dmi_link *link) {
  return link->ops->arm != NULL;
}

static inline bool dmi_link_seems(struct dmi_link *link) {
  return link->ops->seems(link);
}

/* True if a result means "not now". */
static inline bool dmi_link_is_later(ssize_t result) {
  return result == -EAGAIN || result == -EWOULDBLOCK || result == -EINTR;
}

/* TCP that listens at (and connects from) this address or host only; NULL: at all addresses of
 * this machine. Returns NULL if the name cannot be resolved (*why says why) or there is no
 * memory (*why is NULL). */
struct dmi_transport *dmi_tcp_open(const char *bind, const char **why);

#endif
