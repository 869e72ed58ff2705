/*
 * team_random.h - random programs for a team: the same at each rank, so that each knows what it is
 * to get from the others (an oracle that runs them one after the other).
 *
 * A program is blocks.  A block is positions, at which ranks post and wait for sends and receives,
 * and make collective calls; then messages that are received from whoever is first.  It cannot
 * hang: what is waited for at a position was posted at that position or before, by all.
 */
#ifndef TEST_MULTI_TEAM_RANDOM_H
#define TEST_MULTI_TEAM_RANDOM_H

#include "multi.h"

#define MOST_RANKS 8
#define MOST_POSITIONS 20
#define MOST_MESSAGES (MOST_POSITIONS * MOST_RANKS)
#define MOST_EXTRA 3
#define LARGEST ((int64_t)300 << 10)
#define PULLED ((int64_t)64 << 10) /* bytes: longer messages always wait for the receiver */

struct message {
  int32_t from, to;
  int64_t size;
  uint64_t key; /* of its bytes */
  int send_at, recv_at, wait_at;
  bool send_waits, recv_waits; /* the call itself waits */
  bool too_small;              /* first received into a buffer that is too small */
};

enum collective_kind { BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, BARRIER, COLLECTIVES };

struct collective {
  enum collective_kind kind;
  int at; /* -1: there is none */
  int32_t root;
  int64_t num; /* of 64-bit words */
  uint64_t key;
};

struct block {
  uint64_t key;
  int32_t size;
  int positions, num;
  struct message messages[MOST_MESSAGES];
  struct collective collectives[MOST_POSITIONS]; /* by position */
  int extra[MOST_RANKS][MOST_RANKS];             /* from, to */
  int64_t budget[MOST_RANKS][MOST_RANKS];        /* bytes of the window that may be used */
  int last_send[MOST_RANKS][MOST_RANKS], last_recv[MOST_RANKS][MOST_RANKS];
  bool resets;
  int32_t resetter; /* a rank that does not wait for anything before */
};

/* Bytes: of all kinds, around the limits of messages that are sent at once. */
static int64_t any_size(uint64_t *rng) {
  switch (rng_below(rng, 8)) {
    case 0:
      return 0;
    case 1:
      return PULLED - 1 + (int64_t)rng_below(rng, 3);
    case 2:
      return (int64_t)rng_below(rng, (uint64_t)LARGEST);
    case 3:
      return (int64_t)rng_below(rng, 8000);
    default:
      return (int64_t)rng_below(rng, 100);
  }
}

static int later(uint64_t *rng, const struct block *block, int at, int most) {
  at += (int)rng_below(rng, (uint64_t)most);
  return at < block->positions ? at : block->positions - 1;
}

/* True if the window has room for it, whatever comes in between: it is sent at once.  The receiver
 * may hold back a quarter of the window. */
static bool is_eager(struct block *block, const struct message *message) {
  int64_t *budget = &block->budget[message->from][message->to];
  if (message->size > PULLED) return false;
  *budget -= message->size + 64;
  return *budget >= 0;
}

static void make_message(struct block *block, uint64_t *rng, int at) {
  struct message *message = &block->messages[block->num];
  const bool waits = rng_below(rng, 2), takes = rng_below(rng, 2);
  int32_t from = (int32_t)rng_below(rng, (uint64_t)block->size);
  int32_t to = (int32_t)rng_below(rng, (uint64_t)block->size);
  int *send_at = &block->last_send[from][to], *recv_at = &block->last_recv[from][to];
  int first = later(rng, block, at, 4), second = later(rng, block, at, 4);
  /* In the order of the other messages of the pair, at both ends. */
  if (first > *send_at) *send_at = first;
  if (second > *recv_at) *recv_at = second;
  *message = (struct message){.from = from, .to = to, .send_at = *send_at, .recv_at = *recv_at};
  message->size = any_size(rng);
  message->key = rng_of(block->key, 1, (uint64_t)block->num);
  message->send_waits = (is_eager(block, message) || (from != to && *send_at >= *recv_at)) && waits;
  message->recv_waits = *recv_at >= *send_at && takes;
  message->too_small = message->recv_waits && message->size && rng_below(rng, 4) == 0;
  message->wait_at = later(rng, block, *send_at > *recv_at ? *send_at : *recv_at, 4);
  block->num++;
}

static void make_collective(struct block *block, uint64_t *rng, int at) {
  struct collective *collective = &block->collectives[at];
  collective->at = -1;
  if (rng_below(rng, 3)) return;
  collective->at = at;
  collective->kind = (enum collective_kind)rng_below(rng, COLLECTIVES);
  collective->root = (int32_t)rng_below(rng, (uint64_t)block->size);
  collective->num = (int64_t)rng_below(rng, rng_below(rng, 4) ? 10 : 20000);
  collective->key = rng_of(block->key, 2, (uint64_t)at);
}

static void make_block(struct block *block, uint64_t key, int32_t size) {
  uint64_t rng = key;
  memset(block, 0, sizeof(*block));
  block->key = key;
  block->size = size;
  block->positions = 1 + (int)rng_below(&rng, MOST_POSITIONS);
  for (int32_t i = 0; i < size * MOST_RANKS; i++)
    block->budget[i / MOST_RANKS][i % MOST_RANKS] = 128 << 10;
  for (int at = 0; at < block->positions; at++) {
    make_collective(block, &rng, at);
    for (int32_t i = 0; i < size * size && block->collectives[at].at >= 0; i++)
      block->budget[i / size][i % size] -= 16 * block->collectives[at].num + 256;
  }
  for (int at = 0; at < block->positions; at++) {
    for (uint64_t i = rng_below(&rng, (uint64_t)size + 1); i > 0; i--)
      make_message(block, &rng, at);
  }
  for (int32_t i = 0; i < size * size; i++)
    block->extra[i / size][i % size] = (int)rng_below(&rng, MOST_EXTRA + 1);
  block->resets = rng_below(&rng, 3) == 0;
  block->resetter = (int32_t)rng_below(&rng, (uint64_t)size);
}

/* The k-th message of a pair that is received from anyone; or (`kind` 4) that a reset drops. */
static uint64_t extra_key(const struct block *block, int kind, int32_t from, int32_t to, int k) {
  return rng_of(block->key, (uint64_t)kind, (uint64_t)((from * MOST_RANKS + to) * 100 + k));
}

/* Its size; all begin with k. */
static int64_t extra_size(uint64_t key) {
  uint64_t rng = key + 1;
  int64_t size = any_size(&rng);
  return size < 8 ? 8 : size;
}

static void extra_fill(uint64_t key, int k, void *buf, int64_t size) {
  int64_t number = k;
  rng_fill(key, buf, (uint64_t)size);
  memcpy(buf, &number, sizeof(number));
}

#endif
