/*
 * team_random_run.h - a rank carries out random programs (team_random.h), and checks what it gets.
 */
#ifndef TEST_MULTI_TEAM_RANDOM_RUN_H
#define TEST_MULTI_TEAM_RANDOM_RUN_H

#include <stdlib.h>
#include <string.h>

#include "dmi_team.h"
#include "team_random.h"

/* ---- A rank --------------------------------------------------------------------------------- */

/* A call that is not waited for at once. */
struct pending {
  DMI_local_status_t status;
  DMI_got_t got;
  unsigned char *buf;
  bool used;
};

struct rank {
  DMI_local_team_t team;
  int32_t number, size;
  bool may_lose;
  bool lost; /* a process was: the round ends here */
  unsigned char *wanted, *buf;
  struct block block;
  struct pending sends[MOST_MESSAGES], recvs[MOST_MESSAGES];
  struct pending extra_sends[MOST_RANKS * MOST_EXTRA], extra_recvs[MOST_RANKS * MOST_EXTRA];
};

/* True if the call has succeeded; else a process must have been lost. */
static bool good(struct rank *rank, int32_t ret, const char *what) {
  int32_t error = DMI_errno();
  if (ret == DMI_TRUE) return true;
  rank->lost = true;
  if (rank->may_lose && (error == DMI_ELOST || error == DMI_ERESET)) return false;
  return check_that(false, AT, "rank %d of %d, %s: %s", rank->number, rank->size, what,
                    DMI_strerror(error));
}

static bool right(struct rank *rank, const void *buf, uint64_t key, int64_t size,
                  const DMI_got_t *got, int32_t from) {
  rng_fill(key, rank->wanted, (uint64_t)size);
  return EQ(got->size, size) && EQ(got->rank, from) && SAME(buf, rank->wanted, size);
}

static bool ends(struct rank *rank, struct pending *pending, const char *what) {
  int32_t ret = DMI_FALSE;
  if (!pending->used) return true;
  DMI_wait(&pending->status, &ret);
  pending->used = false;
  return good(rank, ret, what);
}

static struct pending *begin(struct pending *pending, int64_t size) {
  memset(&pending->status, 0, sizeof(pending->status));
  pending->buf = realloc(pending->buf, (size_t)size + 1);
  pending->used = true;
  return pending;
}

/* Behind a reset, or when all are waited for. */
static void forget(struct pending *all, int num) {
  for (int i = 0; i < num; i++) {
    int32_t ret;
    if (all[i].used) DMI_wait(&all[i].status, &ret);
    free(all[i].buf);
    all[i] = (struct pending){.buf = NULL};
  }
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void send_one(struct rank *rank, int i) {
  const struct message *message = &rank->block.messages[i];
  struct pending *pending = begin(&rank->sends[i], message->size);
  rng_fill(message->key, pending->buf, (uint64_t)message->size);
  pending->used = !message->send_waits;
  (void)good(rank,
             DMI_team_send(&rank->team, message->to, pending->buf, message->size,
                           message->send_waits ? NULL : &pending->status),
             "send");
}

static void recv_one(struct rank *rank, int i) {
  const struct message *message = &rank->block.messages[i];
  struct pending *pending = begin(&rank->recvs[i], LARGEST);
  if (message->too_small) {
    int32_t ret = DMI_team_recv(&rank->team, message->from, pending->buf, message->size - 1,
                                &pending->got, NULL);
    if (ret == DMI_FALSE && DMI_errno() == DMI_ESIZE) {
      EQ(pending->got.size, message->size);
    } else {
      pending->used = false;
      if (ret) check_that(false, AT, "a message fits into a buffer that is too small");
      (void)good(rank, DMI_FALSE, "receive of too little");
      return;
    }
  }
  pending->used = !message->recv_waits;
  if (good(rank,
           DMI_team_recv(&rank->team, message->from, pending->buf, LARGEST, &pending->got,
                         message->recv_waits ? NULL : &pending->status),
           "receive") &&
      message->recv_waits)
    right(rank, pending->buf, message->key, message->size, &pending->got, message->from);
}

static void wait_one(struct rank *rank, int i) {
  const struct message *message = &rank->block.messages[i];
  if (message->from == rank->number) ends(rank, &rank->sends[i], "send that is waited for");
  if (message->to == rank->number && rank->recvs[i].used &&
      ends(rank, &rank->recvs[i], "receive that is waited for"))
    right(rank, rank->recvs[i].buf, message->key, message->size, &rank->recvs[i].got,
          message->from);
}

/* ---- Collective calls ----------------------------------------------------------------------- */

/* What a rank gives. */
static uint64_t word(const struct collective *call, int32_t rank, int64_t i) {
  return rng_of(call->key, (uint64_t)rank, (uint64_t)i);
}

static void check_sum(const struct rank *rank, const struct collective *call, const uint64_t *got) {
  for (int64_t i = 0; i < call->num; i++) {
    uint64_t sum = 0;
    for (int32_t r = 0; r < rank->size; r++)
      sum += word(call, r, i);
    if (!EQ(got[i], sum)) return;
  }
}

/* `parts` of all ranks, one behind the other. */
static void check_parts(const struct collective *call, const uint64_t *got, int32_t first,
                        int32_t parts) {
  for (int64_t i = 0; i < parts * call->num; i++) {
    if (!EQ(got[i], word(call, first + (int32_t)(i / call->num), i % call->num))) return;
  }
}

static void collective(struct rank *rank, const struct collective *call) {
  const int64_t num = call->num, bytes = num * 8;
  const bool is_root = rank->number == call->root;
  uint64_t *in = calloc((size_t)(num * rank->size) + 1, 8);
  uint64_t *out = calloc((size_t)(num * rank->size) + 1, 8);
  bool all = call->kind == SCATTER && is_root;
  int32_t ret = DMI_FALSE;
  for (int64_t i = 0; i < (all ? num * rank->size : num); i++)
    in[i] = word(call, all ? (int32_t)(i / num) : rank->number, all ? i % num : i);
  switch (call->kind) {
    case BCAST:
      ret = DMI_team_bcast(&rank->team, call->root, in, bytes);
      if (ret) check_parts(call, in, call->root, 1);
      break;
    case REDUCE:
      ret = DMI_team_reduce(&rank->team, call->root, in, out, num, DMI_TYPE_UINT64, DMI_OP_SUM);
      if (ret && is_root) check_sum(rank, call, out);
      break;
    case ALLREDUCE:
      ret = DMI_team_allreduce(&rank->team, in, out, num, DMI_TYPE_UINT64, DMI_OP_SUM);
      if (ret) check_sum(rank, call, out);
      break;
    case GATHER:
      ret = DMI_team_gather(&rank->team, call->root, in, bytes, out);
      if (ret && is_root) check_parts(call, out, 0, rank->size);
      break;
    case SCATTER:
      ret = DMI_team_scatter(&rank->team, call->root, in, bytes, out);
      if (ret) check_parts(call, out, rank->number, 1);
      break;
    default:
      ret = DMI_team_barrier(&rank->team);
      break;
  }
  (void)good(rank, ret, "collective call");
  free(in);
  free(out);
}

/* ---- A block -------------------------------------------------------------------------------- */

static void positions(struct rank *rank) {
  const struct block *block = &rank->block;
  for (int at = 0; at < block->positions && !rank->lost; at++) {
    if (block->collectives[at].at == at) collective(rank, &block->collectives[at]);
    for (int i = 0; i < block->num && !rank->lost; i++) {
      const struct message *message = &block->messages[i];
      if (message->from == rank->number && message->send_at == at) send_one(rank, i);
      if (message->to == rank->number && message->recv_at == at && !rank->lost) recv_one(rank, i);
    }
    for (int i = 0; i < block->num && !rank->lost; i++) {
      if (block->messages[i].wait_at == at) wait_one(rank, i);
    }
  }
}

/* The next message of its sender. */
static void check_extra(struct rank *rank, const struct pending *pending, int *seen) {
  const struct block *block = &rank->block;
  const int32_t from = pending->got.rank;
  uint64_t key;
  int k;
  if (!IS(from >= 0 && from < rank->size)) return;
  k = seen[from]++;
  if (!IS(k < block->extra[from][rank->number])) return;
  key = extra_key(block, 3, from, rank->number, k);
  extra_fill(key, k, rank->wanted, extra_size(key));
  if (EQ(pending->got.size, extra_size(key))) SAME(pending->buf, rank->wanted, pending->got.size);
}

/* Receives from whoever is first; sometimes looks before. */
static void recv_extra(struct rank *rank, int num, int *seen) {
  uint64_t rng = rank->block.key + (uint64_t)rank->number;
  const bool all = rng_below(&rng, 2);
  for (int i = 0; i < num && !rank->lost; i++) {
    struct pending *pending = begin(&rank->extra_recvs[i], LARGEST);
    DMI_got_t looked = {-1, -1};
    bool looks = !all && rng_below(&rng, 3) == 0;
    pending->used = all;
    if (looks && !good(rank, DMI_team_probe(&rank->team, DMI_ANY, &looked, NULL), "probe")) return;
    if (!good(rank,
              DMI_team_recv(&rank->team, DMI_ANY, pending->buf, LARGEST, &pending->got,
                            all ? &pending->status : NULL),
              "receive from anyone"))
      return;
    if (looks) IS(looked.rank == pending->got.rank && looked.size == pending->got.size);
    if (!all) check_extra(rank, pending, seen);
  }
  for (int i = 0; i < num && all && !rank->lost; i++) {
    if (ends(rank, &rank->extra_recvs[i], "receive from anyone that is waited for"))
      check_extra(rank, &rank->extra_recvs[i], seen);
  }
}

static void extra(struct rank *rank) {
  int seen[MOST_RANKS] = {0}, sent = 0, num = 0;
  for (int32_t to = 0; to < rank->size; to++) {
    num += rank->block.extra[to][rank->number];
    for (int k = 0; k < rank->block.extra[rank->number][to]; k++) {
      uint64_t key = extra_key(&rank->block, 3, rank->number, to, k);
      struct pending *pending = begin(&rank->extra_sends[sent++], extra_size(key));
      extra_fill(key, k, pending->buf, extra_size(key));
      (void)good(rank,
                 DMI_team_send(&rank->team, to, pending->buf, extra_size(key), &pending->status),
                 "send to anyone");
    }
  }
  recv_extra(rank, num, seen);
  for (int i = 0; i < sent && !rank->lost; i++)
    (void)ends(rank, &rank->extra_sends[i], "send to anyone that is waited for");
}

static void forget_all(struct rank *rank) {
  forget(rank->sends, MOST_MESSAGES);
  forget(rank->recvs, MOST_MESSAGES);
  forget(rank->extra_sends, MOST_RANKS * MOST_EXTRA);
  forget(rank->extra_recvs, MOST_RANKS * MOST_EXTRA);
}

/* ---- Resets --------------------------------------------------------------------------------- */

/* It was sent in this block, for this rank. */
static void check_dropped(struct rank *rank, const struct pending *pending) {
  int64_t k;
  uint64_t key;
  memcpy(&k, pending->buf, sizeof(k));
  if (!IS(pending->got.size >= 8 && k >= 0 && k < 3)) return;
  key = extra_key(&rank->block, 4, pending->got.rank, rank->number, (int)k);
  extra_fill(key, (int)k, rank->wanted, extra_size(key));
  if (EQ(pending->got.size, extra_size(key))) SAME(pending->buf, rank->wanted, extra_size(key));
}

/* Messages that nobody receives, and receives that get nothing, some by luck: a reset ends all. */
static void reset(struct rank *rank) {
  uint64_t rng = rng_of(rank->block.key, 5, (uint64_t)rank->number);
  const int sends = (int)rng_below(&rng, 3), recvs = (int)rng_below(&rng, 3);
  struct pending *blocked;
  if (!DMI_team_barrier(&rank->team) && DMI_errno() != DMI_ERESET)
    if (!good(rank, DMI_FALSE, "barrier before a reset")) return;
  for (int k = 0; k < sends; k++) {
    int32_t to = (int32_t)rng_below(&rng, (uint64_t)rank->size);
    uint64_t key = extra_key(&rank->block, 4, rank->number, to, k);
    struct pending *pending = begin(&rank->extra_sends[k], extra_size(key));
    extra_fill(key, k, pending->buf, extra_size(key));
    DMI_team_send(&rank->team, to, pending->buf, extra_size(key), &pending->status);
  }
  for (int k = 0; k < recvs; k++) {
    struct pending *pending = begin(&rank->extra_recvs[k], LARGEST);
    int32_t from = (int32_t)rng_below(&rng, (uint64_t)rank->size);
    DMI_team_recv(&rank->team, k ? DMI_ANY : from, pending->buf, LARGEST, &pending->got,
                  &pending->status);
  }
  blocked = begin(&rank->extra_recvs[recvs], LARGEST);
  blocked->used = false;
  if (rank->number != rank->block.resetter && rng_below(&rng, 2) &&
      DMI_team_recv(&rank->team, DMI_ANY, blocked->buf, LARGEST, &blocked->got, NULL))
    check_dropped(rank, blocked);
  if (!good(rank, DMI_team_reset(&rank->team), "reset")) return;
  for (int k = 0; k < recvs; k++) {
    int32_t ret;
    DMI_wait(&rank->extra_recvs[k].status, &ret);
    rank->extra_recvs[k].used = false;
    if (ret) check_dropped(rank, &rank->extra_recvs[k]);
    if (!ret && !rank->may_lose) EQ(DMI_errno(), DMI_ERESET);
  }
}

/* False: a process was lost. */
static bool program(struct rank *rank, uint64_t seed) {
  const int blocks = 1 + (int)(rng_of(seed, 6, 0) % 3);
  for (int i = 0; i < blocks && !rank->lost; i++) {
    make_block(&rank->block, rng_of(seed, 7, (uint64_t)i), rank->size);
    positions(rank);
    if (!rank->lost) extra(rank);
    if (!rank->lost && rank->block.resets) reset(rank);
    /* Nobody is asked for a message of the next block by a receive from anyone. */
    if (!rank->lost) (void)good(rank, DMI_team_barrier(&rank->team), "barrier");
    if (!rank->lost) forget_all(rank);
  }
  return !rank->lost;
}

#endif
