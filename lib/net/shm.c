/*
 * shm.c - links in shared memory: two rings (ring.c) and a Unix socket.
 *
 * The socket is `in` and `out` of the link. A byte in it wakes the other end; its end says that the
 * other process has ended or finished; and while the ring to the other end is full, the socket is
 * filled up, so that it becomes writable when the other end has made space and empties it.
 *
 * Happy path: the end that connects listens at an abstract address made from the connection's keys;
 * the other end connects to it, makes the memory and sends its descriptor.
 *
 * Failure modes: no such address (another host, another network namespace, another user): the
 * connection stays on TCP. An index that no correct process would write: -EPROTO. The other process
 * is killed: its socket ends, and what it has put before can still be received.
 *
 * Must not: trust anything in the shared memory; free or unmap it while a thread may use it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/net_int.h"
#include "net/ring.h"
#include "net/shm.h"

#define RING ((size_t)252 << 10) /* bytes in flight in one direction */
#define HEAD ((size_t)4096)      /* of the memory: two struct dmi_ring */
#define MEMORY (HEAD + 2 * RING) /* the rings of both directions follow it */
#define PIECE ((size_t)32 << 10) /* bytes that are put or got at a time */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define LOOKS 64 /* the socket is looked at once in so many times that nothing has come */
#define TRIES 8  /* to put something, when there seems to be space */
#define BACKLOG 16
#define FILL 8192 /* bytes; more than the socket takes */
#define FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#define PROOF 32
#define NAME 16

struct shm_link {
  struct dmi_link link; /* `in` and `out` are the socket */
  void *memory;
  _Atomic bool finished; /* this end sends no more */
  struct dmi_addr ours, theirs;
  struct dmi_ring_out out; /* of the thread that sends */
  struct dmi_ring_in in;   /* of the thread that receives, as all below */
  bool armed;              /* the ring says that this end sleeps */
  bool woken;              /* a byte that woke this end is in the socket, or will be soon */
  bool ended;              /* nothing more comes from the socket */
  uint32_t looks;          /* how often nothing has come */
};

/* ---- The socket of a link -------------------------------------------------------------------- */

/* Empties the socket.  Sets `ended` at its end. */
static void empty_socket(struct shm_link *me) {
  char bytes[FILL];
  me->woken = false;
  for (int i = 0; i < 4; i++) { /* what is left then is seen later */
    ssize_t got = recv(me->link.in, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got == 0 || !dmi_link_is_later(-errno)) me->ended = true;
    return;
  }
}

/* Wakes the other end.  Returns 0 or -errno. */
static int wake(struct shm_link *me) {
  char byte = 0;
  if (send(me->link.out, &byte, 1, FLAGS) == 1) return 0;
  /* full: there is something in it that wakes the other end */
  return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

/* Fills the socket up, so that it is not writable. */
static int fill_socket(struct shm_link *me) {
  static const char bytes[FILL];
  for (int i = 0; i < 16;
       i++) { /* if the other end empties it meanwhile, it is writable: no harm */
    if (send(me->link.out, bytes, sizeof bytes, FLAGS) >= 0) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
  }
  return 0;
}

/* ---- Sending and receiving ------------------------------------------------------------------- */

static ssize_t shm_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct shm_link *me = (struct shm_link *)link;
  struct dmi_ring_parts from = {.iov = iov, .num = num};
  ssize_t total = 0, put;
  int error = 0;
  if (atomic_load_explicit(&me->finished, memory_order_relaxed)) return -EPIPE;
  for (int tries = 0; tries < TRIES;) {
    put = dmi_ring_put(&me->out, &from, PIECE);
    if (put < 0) return put;
    total += put;
    if (put > 0 && dmi_ring_wakes_getter(&me->out)) error = wake(me);
    if (error < 0) return error;
    if (put == (ssize_t)PIECE) continue;
    if (total != 0) return total;
    if ((error = fill_socket(me)) < 0) return error;
    if (dmi_ring_wait_space(&me->out)) return -EAGAIN;
    tries++;
  }
  return -EAGAIN; /* the other end only pretends to make space */
}

/* What is there, up to the size of the parts.  0: nothing. */
static ssize_t get_all(struct shm_link *me, struct dmi_ring_parts *to) {
  ssize_t total = 0, got;
  while ((got = dmi_ring_get(&me->in, to, PIECE)) > 0) {
    total += got;
    if (dmi_ring_wakes_putter(&me->in)) empty_socket(me);
  }
  return got < 0 ? got : total;
}

static ssize_t shm_receive(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct shm_link *me = (struct shm_link *)link;
  struct dmi_ring_parts to = {.iov = iov, .num = num};
  bool look = me->armed || me->woken;
  if (me->armed) me->woken = dmi_ring_end_wait(&me->in);
  me->armed = false;
  ssize_t got = get_all(me, &to);
  if (got != 0) return got;
  if (!look && ++me->looks % LOOKS != 0) return -EAGAIN;
  if (!me->ended) empty_socket(me);
  if (!me->ended) return -EAGAIN;
  return get_all(me, &to); /* what it has put before its end */
}

static bool shm_arm(struct dmi_link *link) {
  struct shm_link *me = (struct shm_link *)link;
  if (me->armed) return true;
  if (me->woken) empty_socket(me);
  if (me->ended) return false;
  me->armed = dmi_ring_wait_bytes(&me->in, &me->woken);
  return me->armed;
}

static bool shm_seems(struct dmi_link *link) {
  const struct shm_link *me = (struct shm_link *)link;
  return dmi_ring_seems_full(me->in.ring);
}

/* ---- The other operations -------------------------------------------------------------------- */

/* Nothing changes when a link is no stranger's any more. */
static void shm_keep(struct dmi_link *link) {
  (void)link;
}

static void shm_finish(struct dmi_link *link) {
  struct shm_link *me = (struct shm_link *)link;
  atomic_store_explicit(&me->finished, true, memory_order_relaxed);
  shutdown(link->out, SHUT_WR);
}

static void shm_close(struct dmi_link *link) {
  struct shm_link *me = (struct shm_link *)link;
  close(link->in);
  munmap(me->memory, MEMORY);
  free(me);
}

static void shm_ends(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs) {
  const struct shm_link *me = (struct shm_link *)link;
  *ours = me->ours;
  *theirs = me->theirs;
}

/* What was put is where the other end will find it, even if this process ends. */
static uint64_t shm_unacknowledged(struct dmi_link *link) {
  (void)link;
  return 0;
}

/* The other machine is this one, which lives. */
static double shm_silence(struct dmi_link *link) {
  (void)link;
  return 0;
}

static const struct dmi_transport_ops shm_ops = {
    .name = DMI_SHM_NAME,
    .near = true,
    .send = shm_send,
    .receive = shm_receive,
    .arm = shm_arm,
    .seems = shm_seems,
    .keep = shm_keep,
    .finish = shm_finish,
    .close = shm_close,
    .ends = shm_ends,
    .unacknowledged = shm_unacknowledged,
    .silence = shm_silence,
};

/* ---- Making a link --------------------------------------------------------------------------- */

/* Makes a link of a socket and a memory, and takes both over.  NULL: no memory; both are closed.
 * `maker`: this end has made the memory. */
static struct dmi_link *new_link(int fd, void *memory, struct dmi_link *of, bool maker) {
  struct shm_link *me = calloc(1, sizeof *me);
  if (me == NULL) {
    close(fd);
    munmap(memory, MEMORY);
    return NULL;
  }
  struct dmi_ring *ring = memory;
  unsigned char *bytes = (unsigned char *)memory + HEAD;
  size_t out = maker ? 0 : 1, in = 1 - out;
  me->link = (struct dmi_link){.ops = &shm_ops, .in = fd, .out = fd};
  me->memory = memory;
  of->ops->ends(of, &me->ours, &me->theirs);
  me->out = (struct dmi_ring_out){ring + out, bytes + out * RING, RING, 0, 0};
  me->in = (struct dmi_ring_in){ring + in, bytes + in * RING, RING, 0};
  int least = 1; /* the system has a least size, for a few bytes */
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  return &me->link;
}

/* Maps the memory; NULL: not possible.  Closes its descriptor. */
static void *map(int fd) {
  void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return NULL;
  madvise(memory, MEMORY, MADV_DONTFORK);
  return memory;
}

int dmi_shm_make_memory(const char *name, size_t size) {
  struct rlimit limit; /* beyond it the system would send a signal */
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size) return -1;
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0) return fd;
  close(fd);
  return -1;
}

bool dmi_shm_is_memory(int fd, size_t size) {
  struct stat stat;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && (seals & F_SEAL_WRITE) == 0 &&
         fstat(fd, &stat) == 0 && stat.st_size == (off_t)size;
}

/* Bytes that both ends of a connection, and nobody else, can make from its keys. `first`: this end
 * has connected. */
static void derive(unsigned char *out, size_t size, const char *label,
                   const struct dmi_proof_keys *keys, bool first) {
  crypto_generichash_state state;
  const unsigned char *one = first ? keys->out : keys->in, *two = first ? keys->in : keys->out;
  crypto_generichash_init(&state, one, sizeof keys->out, size);
  crypto_generichash_update(&state, (const unsigned char *)label, strlen(label));
  crypto_generichash_update(&state, two, sizeof keys->in);
  crypto_generichash_final(&state, out, size);
  sodium_memzero(&state, sizeof state);
}

/* The abstract address of an offer.  Everybody on this host can see it: it is no secret. */
static socklen_t address_of(struct sockaddr_un *at, const struct dmi_proof_keys *keys, bool first) {
  unsigned char name[NAME];
  derive(name, sizeof name, "DMI shm name", keys, first);
  *at = (struct sockaddr_un){.sun_family = AF_UNIX};
  int size = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "dmi-");
  for (int i = 0; i < NAME; i++)
    size +=
        snprintf(at->sun_path + 1 + size, sizeof at->sun_path - 1 - (size_t)size, "%02x", name[i]);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

/* True if the process at the other end runs for the same user. */
static bool is_same_user(int fd) {
  struct ucred other;
  socklen_t size = sizeof other;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

/* True if the other end of a link has an address of this host. */
static bool is_near(struct dmi_link *link) {
  struct dmi_addr ours, theirs;
  link->ops->ends(link, &ours, &theirs);
  return memcmp(ours.ip, theirs.ip, sizeof ours.ip) == 0 ||
         (dmi_addr_is_loopback(&ours) && dmi_addr_is_loopback(&theirs));
}

/* ---- The end that connects ------------------------------------------------------------------- */

static void use_spares(struct dmi_shm_offer *offer) {
  for (int i = 0; i < DMI_SHM_SPARES; i++) {
    if (offer->spares[i] >= 0) close(offer->spares[i]);
    offer->spares[i] = -1;
  }
}

void dmi_shm_withdraw(struct dmi_shm_offer *offer) {
  use_spares(offer);
  if (offer->listener >= 0) close(offer->listener);
  offer->listener = -1;
}

bool dmi_shm_offer(struct dmi_shm_offer *offer, struct dmi_link *link,
                   const struct dmi_proof_keys *keys) {
  struct sockaddr_un at;
  *offer = DMI_SHM_NO_OFFER;
  if (!is_near(link)) return false;
  socklen_t size = address_of(&at, keys, true);
  offer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (offer->listener < 0) return false;
  for (int i = 0; i < DMI_SHM_SPARES; i++)
    offer->spares[i] = fcntl(offer->listener, F_DUPFD_CLOEXEC, 0);
  if (offer->spares[DMI_SHM_SPARES - 1] >= 0 &&
      bind(offer->listener, (struct sockaddr *)&at, size) == 0 &&
      listen(offer->listener, BACKLOG) == 0) {
    return true;
  }
  dmi_shm_withdraw(offer);
  return false;
}

/* The memory's descriptor, and one of what the processes have in common, or -1. */
struct descriptors {
  int memory, common;
};

static void close_both(struct descriptors *both) {
  if (both->memory >= 0) close(both->memory);
  if (both->common >= 0) close(both->common);
  *both = (struct descriptors){-1, -1};
}

/* Receives the proof and the descriptors.  False: they are not there, or not right. */
static bool receive_memory(int fd, const unsigned char right[PROOF], struct descriptors *both) {
  unsigned char proof[PROOF];
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof *both)];
  } control;
  struct iovec iov = {proof, sizeof proof};
  struct msghdr in = {.msg_iov = &iov, .msg_iovlen = 1};
  in.msg_control = &control;
  in.msg_controllen = sizeof control;
  *both = (struct descriptors){-1, -1};
  ssize_t got = recvmsg(fd, &in, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&in);
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    const size_t size = header->cmsg_len - CMSG_LEN(0);
    memcpy(both, CMSG_DATA(header), size < sizeof *both ? size : sizeof *both);
  }
  if (got == PROOF && sodium_memcmp(proof, right, PROOF) == 0 && both->memory >= 0 &&
      dmi_shm_is_memory(both->memory, MEMORY)) {
    return true;
  }
  close_both(both);
  return false;
}

/* The socket of the process that has the keys, which has connected already; anybody may have before
 * it.  -1: it is not there. */
static int accept_right(int listener, const unsigned char right[PROOF], struct descriptors *both) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    if (is_same_user(fd) && receive_memory(fd, right, both)) return fd;
    close(fd);
  }
  return -1;
}

struct dmi_link *dmi_shm_open(struct dmi_shm_offer *offer, struct dmi_link *link,
                              const struct dmi_proof_keys *keys, int *common) {
  unsigned char right[PROOF];
  struct descriptors both = {-1, -1};
  derive(right, sizeof right, "DMI shm proof", keys, true);
  use_spares(offer);
  int fd = accept_right(offer->listener, right, &both);
  sodium_memzero(right, sizeof right);
  dmi_shm_withdraw(offer);
  *common = both.common;
  if (fd < 0) return NULL;
  void *mapped = map(both.memory);
  if (mapped != NULL) return new_link(fd, mapped, link, false);
  close(fd);
  return NULL;
}

/* ---- The end that is connected to ------------------------------------------------------------ */

/* Sends the proof and the descriptors. */
static bool send_memory(int fd, const struct descriptors *both, const struct dmi_proof_keys *keys) {
  unsigned char proof[PROOF];
  const size_t size = both->common >= 0 ? sizeof *both : sizeof both->memory;
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof *both)];
  } control = {.bytes = {0}};
  struct iovec iov = {proof, sizeof proof};
  struct msghdr out = {.msg_iov = &iov, .msg_iovlen = 1};
  out.msg_control = &control;
  out.msg_controllen = CMSG_SPACE(size);
  struct cmsghdr *header = CMSG_FIRSTHDR(&out);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(header), both, size);
  derive(proof, sizeof proof, "DMI shm proof", keys, false);
  ssize_t sent = sendmsg(fd, &out, FLAGS);
  sodium_memzero(proof, sizeof proof);
  return sent == PROOF;
}

/* A socket that is connected to the offer.  -1: there is none here. */
static int connect_to_offer(const struct dmi_proof_keys *keys) {
  struct sockaddr_un at;
  socklen_t size = address_of(&at, keys, false);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&at, size) == 0 && is_same_user(fd)) return fd;
  close(fd);
  return -1;
}

struct dmi_link *dmi_shm_take(struct dmi_link *link, const struct dmi_proof_keys *keys,
                              int common) {
  int fd = connect_to_offer(keys);
  if (fd < 0) return NULL;
  int memory = dmi_shm_make_memory("dmi", MEMORY);
  const struct descriptors both = {memory, common};
  bool sent = memory >= 0 && send_memory(fd, &both, keys);
  void *mapped = NULL;
  if (sent)
    mapped = map(memory);
  else if (memory >= 0)
    close(memory);
  if (mapped != NULL) return new_link(fd, mapped, link, true);
  close(fd);
  return NULL;
}
