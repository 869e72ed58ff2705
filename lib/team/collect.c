/*
 * collect.c - collective calls: made of sends and receives in a channel of their own, along the
 * trees of tree.h.  Large ones go in blocks, so that a rank passes a block on while the next one
 * comes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/xalloc.h"
#include "team/combine.h"
#include "team/team_int.h"
#include "team/tree.h"

#define BLOCK ((uint64_t)64 << 10) /* bytes; messages that need not be pulled */

#define FAILED "a rank of the team has no thread, or a collective call has failed"

/* A send or receive of a collective call. */
struct part {
  struct dmi_team_wait wait;
  DMI_local_status_t status;
};

static void part_send(struct dmi_team_rank *rank, struct part *part, int32_t to, const void *buf,
                      uint64_t size) {
  part->wait.status = dmi_status_of(&part->status);
  dmi_team_begin_send(rank, &part->wait, to, buf, size);
}

static void part_recv(struct dmi_team_rank *rank, struct part *part, int32_t from, void *buf,
                      uint64_t size) {
  part->wait.status = dmi_status_of(&part->status);
  dmi_team_begin_recv(rank, &part->wait, from, buf, size);
}

/* The call fails here, and so does each collective one behind it: bytes of one must not be taken
 * for those of another. */
static int32_t fail(struct dmi_team_rank *rank, int32_t error) {
  struct dmi_team_carry carry;
  dmi_team_lock(rank->teams, &carry);
  dmi_team_fail(&rank->port, &carry.out);
  dmi_team_unlock(rank->teams, rank, &carry);
  return error;
}

/* A receive gets as many bytes as it expects: else the ranks have made different calls. */
static int32_t end_recv(struct dmi_team_rank *rank, struct part *part) {
  int32_t error = dmi_team_end(rank, &part->wait);
  if (error == DMI_ESIZE || (error == DMI_OK && part->wait.op.got != part->wait.op.size))
    return fail(rank, dmi_because(DMI_ESIZE, "another rank has called it with another size"));
  return error;
}

static int32_t send_now(struct dmi_team_rank *rank, int32_t to, const void *buf, uint64_t size) {
  struct part part;
  part_send(rank, &part, to, buf, size);
  return dmi_team_end(rank, &part.wait);
}

static int32_t recv_now(struct dmi_team_rank *rank, int32_t from, void *buf, uint64_t size) {
  struct part part;
  part_recv(rank, &part, from, buf, size);
  return end_recv(rank, &part);
}

/* ---- Checks --------------------------------------------------------------------------------- */

static int32_t check(struct dmi_team_rank *rank, int32_t root) {
  int32_t error = DMI_OK;
  if (!rank) return dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)");
  if (root < 0 || root >= rank->port.size)
    return dmi_because(DMI_EINVAL, "the team has no such rank");
  dmi_lock(&rank->teams->lock, DMI_RANK_LEAF);
  if (rank->port.failed) error = dmi_because(DMI_ELOST, FAILED);
  if (rank->port.reset) error = DMI_ERESET;
  if (rank->port.stopped) error = DMI_EEND;
  dmi_unlock(&rank->teams->lock, DMI_RANK_LEAF);
  return error;
}

static int32_t check_bytes(const void *buf, int64_t size) {
  if (size < 0) return dmi_because(DMI_EINVAL, "the size is negative");
  if ((uint64_t)size > DMI_WIRE_PAGE) return dmi_because(DMI_EINVAL, "the size is too large");
  return size > 0 && !buf ? dmi_because(DMI_EINVAL, "there is no buffer") : DMI_OK;
}

/* ---- Bcast ---------------------------------------------------------------------------------- */

/* Sends one block to all children; the sends are over when it returns. */
static int32_t pass_on(struct dmi_team_rank *rank, const struct dmi_team_tree *tree,
                       const unsigned char *buf, uint64_t size) {
  struct part parts[32]; /* a tree of 2^31 ranks has at most 31 levels */
  int32_t step = tree->span / 2, child, error = DMI_OK;
  uint32_t num = 0;
  while ((child = dmi_team_tree_down(tree, &step)) >= 0)
    part_send(rank, &parts[num++], child, buf, size);
  for (uint32_t i = 0; i < num; i++) {
    int32_t one = dmi_team_end(rank, &parts[i].wait);
    if (error == DMI_OK) error = one;
  }
  return error;
}

static int32_t bcast(struct dmi_team_rank *rank, int32_t root, unsigned char *buf, uint64_t size) {
  const struct dmi_team_tree tree = dmi_team_tree_of(rank->port.rank, root, rank->port.size);
  uint64_t at = 0;
  int32_t error = DMI_OK;
  do {
    uint64_t part = size - at < BLOCK ? size - at : BLOCK;
    if (tree.parent >= 0) error = recv_now(rank, tree.parent, buf + at, part);
    if (error == DMI_OK) error = pass_on(rank, &tree, buf + at, part);
    at += part;
  } while (error == DMI_OK && at < size);
  return error;
}

int32_t dmi_team_bcast(struct dmi_process *process, DMI_local_team_t *team, int32_t root, void *buf,
                       int64_t size) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error = check(rank, root);
  if (error == DMI_OK) error = check_bytes(buf, size);
  if (error == DMI_OK) error = bcast(rank, root, buf, (uint64_t)size);
  return dmi_result(error);
}

/* ---- Reduce --------------------------------------------------------------------------------- */

static void combine(const struct dmi_team_reduction *how, void *into, const void *with,
                    uint64_t num) {
  if (how->combine) {
    how->combine(into, with, (int64_t)num);
  } else {
    dmi_team_combine(how->type, how->op, into, with, num);
  }
}

/* `sum` has this rank's elements, and gets those of the ranks below combined; `more` is space for
 * as many. */
static int32_t reduce_block(struct dmi_team_rank *rank, const struct dmi_team_tree *tree,
                            const struct dmi_team_reduction *how, void *sum, void *more,
                            uint64_t num) {
  const uint64_t size = num * (uint64_t)how->size;
  int32_t step = 1, child, error = DMI_OK;
  while (error == DMI_OK && (child = dmi_team_tree_up(tree, &step)) >= 0) {
    error = recv_now(rank, child, more, size);
    if (error == DMI_OK) combine(how, sum, more, num);
  }
  if (error == DMI_OK && tree->parent >= 0) error = send_now(rank, tree->parent, sum, size);
  return error;
}

static int32_t reduce(struct dmi_team_rank *rank, int32_t root, const unsigned char *in,
                      unsigned char *out, const struct dmi_team_reduction *how) {
  const struct dmi_team_tree tree = dmi_team_tree_of(rank->port.rank, root, rank->port.size);
  const uint64_t size = (uint64_t)how->size, all = (uint64_t)how->num;
  const uint64_t block = size < BLOCK ? BLOCK / size : 1;
  const uint64_t most = all < block ? all : block;
  unsigned char *more = malloc(most * size + 1), *sum = malloc(most * size + 1);
  int32_t error = more && sum ? DMI_OK : fail(rank, DMI_ENOMEM);
  uint64_t at = 0;
  while (error == DMI_OK) {
    uint64_t num = all - at < block ? all - at : block;
    memcpy(sum, num ? in + at * size : sum, num * size);
    error = reduce_block(rank, &tree, how, sum, more, num);
    if (error == DMI_OK && tree.parent < 0 && num) memcpy(out + at * size, sum, num * size);
    at += num;
    if (at >= all) break;
  }
  free(more);
  free(sum);
  return error;
}

/* Fills in the size of elements of a type. */
static int32_t check_reduction(struct dmi_team_reduction *how, const void *in) {
  if (!how->combine && how->size == 0) {
    how->size = (int64_t)dmi_team_combine_size(how->type, how->op);
    if (how->size == 0) return dmi_because(DMI_EINVAL, "there is no such operation for this type");
  }
  if (how->size <= 0) return dmi_because(DMI_EINVAL, "the size is not positive");
  if ((uint64_t)how->size > DMI_WIRE_PAGE || how->num < 0 || how->num > INT64_MAX / how->size)
    return dmi_because(DMI_EINVAL, "the number of elements is wrong");
  return how->num && !in ? dmi_because(DMI_EINVAL, "there is no buffer") : DMI_OK;
}

int32_t dmi_team_reduce(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                        const void *in, void *out, const struct dmi_team_reduction *reduction) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  struct dmi_team_reduction how = *reduction;
  int32_t error = check(rank, root);
  if (error == DMI_OK) error = check_reduction(&how, in);
  if (error == DMI_OK && how.num && !out && rank->port.rank == root)
    error = dmi_because(DMI_EINVAL, "there is no buffer");
  if (error == DMI_OK) error = reduce(rank, root, in, out, &how);
  return dmi_result(error);
}

int32_t dmi_team_allreduce(struct dmi_process *process, DMI_local_team_t *team, const void *in,
                           void *out, const struct dmi_team_reduction *reduction) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  struct dmi_team_reduction how = *reduction;
  int32_t error = check(rank, 0);
  if (error == DMI_OK) error = check_reduction(&how, in);
  if (error == DMI_OK && how.num && !out) error = dmi_because(DMI_EINVAL, "there is no buffer");
  if (error == DMI_OK) error = reduce(rank, 0, in, out, &how);
  if (error == DMI_OK) error = bcast(rank, 0, out, (uint64_t)(how.num * how.size));
  return dmi_result(error);
}

/* ---- Gather and scatter --------------------------------------------------------------------- */

/* At the root: with each other rank its part of `buf`, all at the same time. */
static int32_t with_all(struct dmi_team_rank *rank, unsigned char *buf, uint64_t size,
                        bool is_send) {
  const int32_t num = rank->port.size;
  struct part *parts = malloc((size_t)num * sizeof(*parts));
  int32_t error = DMI_OK;
  if (!parts) return fail(rank, DMI_ENOMEM);
  for (int32_t i = 0; i < num; i++) {
    unsigned char *at = buf + (uint64_t)i * size;
    if (i == rank->port.rank) continue;
    if (is_send) part_send(rank, &parts[i], i, at, size);
    if (!is_send) part_recv(rank, &parts[i], i, at, size);
  }
  for (int32_t i = 0; i < num; i++) {
    int32_t one = DMI_OK;
    if (i != rank->port.rank)
      one = is_send ? dmi_team_end(rank, &parts[i].wait) : end_recv(rank, &parts[i]);
    if (error == DMI_OK) error = one;
  }
  free(parts);
  return error;
}

static int32_t check_parts(struct dmi_team_rank *rank, int32_t root, const void *mine, int64_t size,
                           const void *all) {
  int32_t error = check(rank, root);
  if (error == DMI_OK) error = check_bytes(mine, size);
  if (error == DMI_OK && size > INT64_MAX / rank->port.size)
    error = dmi_because(DMI_EINVAL, "the size is too large");
  if (error == DMI_OK && rank->port.rank == root) error = check_bytes(all, size);
  return error;
}

int32_t dmi_team_gather(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                        const void *in, int64_t size, void *out) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error = check_parts(rank, root, in, size, out);
  if (error != DMI_OK) return dmi_fail(error);
  if (rank->port.rank != root) return dmi_result(send_now(rank, root, in, (uint64_t)size));
  if (size) memmove((unsigned char *)out + (int64_t)root * size, in, (size_t)size);
  return dmi_result(with_all(rank, out, (uint64_t)size, false));
}

int32_t dmi_team_scatter(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                         const void *in, int64_t size, void *out) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error = check_parts(rank, root, out, size, in);
  unsigned char *all;
  if (error != DMI_OK) return dmi_fail(error);
  if (rank->port.rank != root) return dmi_result(recv_now(rank, root, out, (uint64_t)size));
  memcpy(&all, &in, sizeof(all)); /* only read */
  error = with_all(rank, all, (uint64_t)size, true);
  if (size && error == DMI_OK)
    memmove(out, (const unsigned char *)in + (int64_t)root * size, (size_t)size);
  return dmi_result(error);
}

/* ---- Barrier -------------------------------------------------------------------------------- */

/* After step i a rank knows that the 2^(i + 1) before it have come. */
int32_t dmi_team_barrier(struct dmi_process *process, DMI_local_team_t *team) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error = check(rank, 0);
  for (int64_t step = 1; error == DMI_OK && step < rank->port.size; step *= 2) {
    const int64_t size = rank->port.size, self = rank->port.rank;
    struct part out; /* waits for its receiver while the window is full: all receive meanwhile */
    int32_t sent;
    part_send(rank, &out, (int32_t)((self + step) % size), NULL, 0);
    error = recv_now(rank, (int32_t)((self + size - step) % size), NULL, 0);
    sent = dmi_team_end(rank, &out.wait);
    if (error == DMI_OK) error = sent;
  }
  return dmi_result(error);
}
