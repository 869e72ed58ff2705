/*
 * history.h - the operations on one page: what was asked and answered, and when.
 *
 * A history is only a record: checker.h decides whether it makes sense.  Times are numbers that
 * only grow; each call and each return has a different one.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define HIST_PAGE_MAX 64u    /* bytes of the largest page; bits of a mask */
#define HIST_OPEN UINT64_MAX /* time of a return that never came */

/*
 * An operation that changes something and then waits (lib/core/syncop.h) is recorded as two, each
 * of which has its moment between the same call and return. DIFFERS is for shrinking: the page
 * differs from `out`.
 */
enum hist_kind {
  HIST_READ,
  HIST_WRITE,
  HIST_CAS,
  HIST_FAS,
  HIST_FAD,
  HIST_USER,
  HIST_SIGNAL, /* wake waiters */
  HIST_TICKET, /* take a ticket, and do not wait */
  HIST_TURN,   /* the ticket is served */
  HIST_ARRIVE, /* arrive at a barrier; the sum in its answer is known only if it ended the round */
  HIST_ROUND,  /* get the sum of a round that is over */
  HIST_WATCH,  /* get bytes that differ from those given */
  HIST_REVIVE, /* the whole page becomes zero, if the answer is not 0: its bytes were lost */
  HIST_NONE,   /* find that the range is no pair of tickets, or no barrier */
  HIST_DIFFERS,
  HIST_KINDS
};

struct hist_op {
  uint64_t call;    /* time */
  uint64_t until;   /* OPEN: if it took effect, then before this time; 0: at any time */
  uint64_t back;    /* time, HIST_OPEN: it may or may not have taken effect */
  uint64_t hint;    /* when the simulator believes that it took effect, 0: unknown; makes the search
                       fast, and cannot make it accept a bad order */
  const char *mode; /* for printing only */
  uint32_t uid;     /* process */
  uint32_t in, out; /* places in hist.bytes: what was given, what was answered */
  uint16_t in_len, out_len;
  uint16_t out1_len; /* USER: how much of `in` is the first input */
  uint8_t thread;
  uint8_t kind;     /* enum hist_kind */
  uint8_t off, len; /* range in the page */
  uint64_t mask;    /* READ, WRITE: bit i: byte i of the range counts; 0: all of them do */
  int8_t tag;       /* USER */
};

struct hist {
  uint32_t page_size;     /* bytes */
  uint32_t num, capacity; /* ops, in the order of their calls */
  struct hist_op *op;
  uint32_t bytes_num, bytes_capacity;
  unsigned char *bytes;
};

/* True if these bytes can be tickets (16 bytes) or a barrier (40 bytes). */
bool hist_is_object(const unsigned char *bytes, uint32_t len);

void hist_init(struct hist *hist, uint32_t page_size);
void hist_fini(struct hist *hist);
void hist_copy(struct hist *to, const struct hist *from);

/* Adds a call; `op` has everything but in, out and back, and the answer will have op->out_len
 * bytes. Returns its number. */
uint32_t hist_call(struct hist *hist, const struct hist_op *op, const void *in);

/* The call returned with this answer. */
void hist_back(struct hist *hist, uint32_t num, uint64_t time, const void *answer);

/* The call failed: it must have changed nothing, and tells nothing about the page. */
void hist_failed(struct hist *hist, uint32_t num);

/* Adds a complete operation, for hand-made histories. */
void hist_add(struct hist *hist, uint64_t call, uint64_t back, uint32_t uid, enum hist_kind kind,
              uint8_t off, uint8_t len, const void *in, uint16_t in_len, const void *out,
              uint16_t out_len);

/* True if this byte of the operation's range counts. */
static inline bool hist_counts(const struct hist_op *op, int i) {
  return !op->mask || (op->mask >> i & 1);
}

/* Runs an operation on the bytes of a page.  False: it could not have given its answer. */
bool hist_apply(const struct hist *hist, const struct hist_op *op, unsigned char *page);

/* True if it changes nothing at any place of the order, because of the answer that it gave. */
bool hist_is_pure(const struct hist *hist, const struct hist_op *op);

/* The simulated program's DMI_function; the checker runs the same. */
void hist_user_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                        int64_t out2_size, void *in, int64_t in_size, int8_t tag);

/* Prints a time line for people. */
void hist_print(const struct hist *hist, FILE *file);

/* A hash: equal histories have equal numbers. */
uint64_t hist_hash(const struct hist *hist);

#endif
