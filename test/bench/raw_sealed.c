/*
 * raw_sealed.c - what a GET of 1 MiB has to do at least, with and without --encrypt, in megabytes
 * per second.
 *
 * A process asks for 1 MiB by a byte; the other one sends it from where it lies, and it is
 * received, always in the same place.  Both are bound to a core of their own and look for bytes
 * without sleeping, so that nobody has to be woken.  raw_asked: as it is.  raw_sealed: in records
 * of DMI_SEAL_MOST bytes, sealed and opened as those of the library (lib/net/seal.h): the owner
 * seals a piece and sends it, then the next one, while the other end opens what has come.
 *
 * The size of a piece decides: while the first one is sealed the other end has nothing to do.  So
 * raw_sealed is the best of several sizes.
 */
#include "raw_tcp.h"

#include <errno.h>
#include <string.h>

#include "net/proof.h"
#include "net/seal.h"

#define BLOCK (1024 * 1024)
#define BLOCKS 200 /* per batch */
#define RECORD (DMI_SEAL_MOST + DMI_SEAL_OVER)
#define RECORDS (BLOCK / DMI_SEAL_MOST)

/* Records that are sealed before they are sent: first, and then each time. */
static const struct {
  int first, next;
} pieces[] = {{1, 1}, {2, 2}, {3, 3}, {2, 4}, {4, 4}, {2, 16}, {8, 8}};
#define PIECES ((int)(sizeof(pieces) / sizeof(*pieces)))

static unsigned char records[BLOCK + RECORDS * DMI_SEAL_OVER];
static char block[BLOCK];

/* Those of the library's connections within a host (lib/net/tcp.c). */
static void set_options(int fd) {
  const int big = 4 << 20;
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) != 0) raw_fail("TCP_CONGESTION");
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &big, sizeof(big)) != 0) raw_fail("SO_SNDBUF");
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big)) != 0) raw_fail("SO_RCVBUF");
}

static void send_bytes(int fd, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size != 0) {
    const ssize_t n = send(fd, at, size, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0) raw_fail("send");
    at += n;
    size -= (size_t)n;
  }
}

/* Receives what is there, 1 .. `size` bytes. */
static size_t receive_some(int fd, void *bytes, size_t size) {
  ssize_t n;
  do {
    n = recv(fd, bytes, size, MSG_DONTWAIT);
  } while (n < 0 && errno == EAGAIN);
  if (n <= 0) raw_fail("recv");
  return (size_t)n;
}

static void send_plain(int fd) {
  char ask;
  (void)receive_some(fd, &ask, 1);
  send_bytes(fd, block, BLOCK);
}

static void receive_plain(int fd) {
  send_bytes(fd, "?", 1);
  for (size_t have = 0; have < BLOCK;)
    have += receive_some(fd, block + have, BLOCK - have);
}

static void send_sealed(int fd, struct dmi_seal *seal, int first, int next) {
  char ask;
  (void)receive_some(fd, &ask, 1);
  for (int done = 0, num; done < RECORDS; done += num) {
    unsigned char *to = records;
    num = done ? next : first;
    if (num > RECORDS - done) num = RECORDS - done;
    for (int i = 0; i < num; i++, to += RECORD) {
      const struct iovec part = {block + (done + i) * DMI_SEAL_MOST, DMI_SEAL_MOST};
      dmi_seal_put(seal, to, &part, 1, DMI_SEAL_MOST, true);
    }
    send_bytes(fd, records, (size_t)num * RECORD);
  }
}

/* Opens each record as soon as it is there.  256 KiB are received at once, as in the library. */
static void receive_sealed(int fd, struct dmi_seal *seal) {
  size_t have = 0;
  send_bytes(fd, "?", 1);
  for (int done = 0; done < RECORDS;) {
    const size_t left = sizeof(records) - have;
    have += receive_some(fd, records + have, left < BLOCK / 4 ? left : BLOCK / 4);
    for (; have >= (size_t)(done + 1) * RECORD; done++) {
      unsigned char *to = (unsigned char *)block + done * DMI_SEAL_MOST;
      if (!dmi_seal_get(seal, to, records + done * RECORD)) raw_fail("not authentic");
    }
  }
}

static double rate_since(int64_t start) {
  return rate_mb((int64_t)BLOCKS * BLOCK, now_ns() - start);
}

int main(void) {
  static const unsigned char key[DMI_SEAL_KEY] = "only for this measurement";
  const enum dmi_cipher cipher = dmi_seal_has_ocb() ? DMI_CIPHER_OCB : DMI_CIPHER_CHACHA;
  struct dmi_seal *seal = dmi_seal_new(key, 0, cipher);
  figure_t plain = {.name = "raw_asked", .unit = "MB/s"}, best = {0};
  double most = 0;
  if (seal == NULL) raw_fail("dmi_seal_new");
  memset(block, 1, BLOCK);
  memset(records, 1, sizeof(records));
  pid_t child;
  const int fd = raw_pair(&child, APART);
  set_options(fd);
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < BLOCKS; i++) {
      if (child == 0) {
        send_plain(fd);
      } else {
        receive_plain(fd);
      }
    }
    if (batch >= 0) plain.values[batch] = rate_since(start);
  }
  for (int p = 0; p < PIECES; p++) {
    figure_t figure = {.name = "raw_sealed", .unit = "MB/s"};
    for (int batch = -1; batch < batches(); batch++) {
      const int64_t start = now_ns();
      for (int i = 0; i < BLOCKS; i++) {
        if (child == 0) {
          send_sealed(fd, seal, pieces[p].first, pieces[p].next);
        } else {
          receive_sealed(fd, seal);
        }
      }
      if (batch >= 0) figure.values[batch] = rate_since(start);
    }
    if (child == 0) continue;
    if (getenv("BENCH_EACH")) {
      printf("%d, then %d: ", pieces[p].first, pieces[p].next);
      figure_print(&figure);
    }
    if (figure_median(&figure) > most) {
      most = figure_median(&figure);
      best = figure;
    }
  }
  dmi_seal_free(seal);
  if (child == 0) return EXIT_SUCCESS;
  figure_print(&plain);
  figure_print(&best);
  raw_end(fd, child);
  return EXIT_SUCCESS;
}
