/*
 * transport.h - what carries the bytes between two processes: TCP (tcp.c) in the product, a network
 * in memory in tests (test/lib/memory_net.h).
 *
 * A *transport* is what one process has of it; a *link* is one end of a connection.  A link carries
 * bytes in both directions, in order, none lost or added, until it breaks.  What they mean is the
 * business of the files above: the handshake, sealing, messages.  In every transport a process is
 * found by a struct dmi_addr.
 *
 * No operation blocks.  Where a number of bytes or 0 is returned, a negative one is an error:
 * -errno. -EAGAIN and -EINTR mean "not now", others that the link (or the attempt) is of no use any
 * more.
 *
 * Readiness is told by descriptors, which poll, epoll and libev can watch, in as many threads as
 * want to.  They stay ready for as long as the reason is there: `in` is readable while receive has
 * something to say (bytes, the end, an error), `out` writable while send may take bytes, or once it
 * is decided whether the link came about.  Both may be one descriptor.  A thread that waits for
 * `in` watches a descriptor of its own as well, by which others wake it: so waking is no operation
 * here.
 *
 * Threads: send is called by one thread at a time (whoever writes: send.c), receive by one thread
 * at a time (whoever has the turn: lend.c), the two at the same time; connect by any; everything
 * else by the daemon alone (of a link: by that of its network), also while others send or receive,
 * but `close` and `free` only when nobody does.
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
  struct dmi_addr here; /* where it listens */
  int incoming;         /* readable while accept has something to say; -1: it does not listen */
  uint32_t dead_after;  /* set before `listen`: see dmi_net_config */
};

struct dmi_link {
  const struct dmi_transport_ops *ops;
  int in, out; /* see "Readiness" */
};

struct dmi_transport_ops {
  const char *name;

  /* ---- A transport ---- */
  /* Listens at this address; with an ip of zeros, where it was told when it was made; at port 0,
   * any free one.  A second call replaces the first, also when it fails.  Sets `here` and
   * `incoming`. */
  int (*listen)(struct dmi_transport *transport, const struct dmi_addr *at);
  /* The next link that another process has begun, and whose it is.  Until `keep` it is a
   * stranger's: `close` then does so at once, without regard to what is on its way. */
  int (*accept)(struct dmi_transport *transport, struct dmi_link **link, struct dmi_addr *from);
  /* Begins a link.  When `out` is writable, `connected` tells whether it came about.
   * -EAFNOSUPPORT: not from the address at which this transport listens. */
  int (*connect)(struct dmi_transport *transport, struct dmi_link **link,
                 const struct dmi_addr *to);
  void (*free)(struct dmi_transport *transport); /* its links are closed */

  /* ---- A link ---- */
  int (*connected)(struct dmi_link *link);
  ssize_t (*send)(struct dmi_link *link, struct iovec *iov,
                  size_t num); /* at least 1 byte or error */
  ssize_t (*receive)(struct dmi_link *link, struct iovec *iov, size_t num); /* 0: the end */
  /* It is no stranger's any more: large buffers, signs of life, and an orderly end. */
  void (*keep)(struct dmi_link *link);
  void (*finish)(struct dmi_link *link); /* nothing more is sent: the other one receives the end */
  void (*close)(struct dmi_link *link);  /* frees it */
  void (*ends)(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs);

  /* ---- Does the other machine live? ----
   * With `dead_after` set, a link on which nothing is on its way breaks (an error of which
   * dmi_alive_is_silence is true) when its machine has not answered for so long.  While something
   * is, alive.c asks these. */
  uint64_t (*unacknowledged)(struct dmi_link *link); /* bytes sent that its machine has not got */
  double (*silence)(
      struct dmi_link *link); /* seconds for which no answer came to what asks for one:
                                 a machine that has no room for more does answer */
};

/* As `send` and `receive`, for bytes in one place. */
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

/* True if an error says "not now". */
static inline bool dmi_link_is_later(ssize_t result) {
  return result == -EAGAIN || result == -EWOULDBLOCK || result == -EINTR;
}

/* TCP, listening at (and connecting from) this address or host only; NULL: at all addresses of this
 * machine.  NULL: *why says why the name cannot be resolved, or is NULL: there is no memory. */
struct dmi_transport *dmi_tcp_open(const char *bind, const char **why);

#endif
