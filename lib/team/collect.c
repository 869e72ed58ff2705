/*
 * collect.c - collective calls: made of sends and receives in a channel of their own, along the
 * trees of tree.h.  With more than two ranks large ones go in blocks, so that a rank passes a block
 * on while the next one comes; with two there is nobody to pass it on to.  reduce.c has those that
 * combine.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/xalloc.h"
#include "team/team_int.h"
#include "team/tree.h"

#define BLOCK ((uint64_t)256 << 10)       /* bytes that are passed on while the next ones come */
#define BLOCK_OF_TWO ((uint64_t)16 << 20) /* with two ranks: one send costs less than several */

/* ---- Parts ---------------------------------------------------------------------------------- */

void dmi_team_part_send(struct dmi_team_rank *rank, struct dmi_team_part *part, int32_t to,
                        const void *buf, uint64_t size) {
  part->wait.status = dmi_status_of(&part->status);
  dmi_team_begin_send(rank, &part->wait, to, buf, size);
}

void dmi_team_part_recv(struct dmi_team_rank *rank, struct dmi_team_part *part, int32_t from,
                        void *buf, uint64_t size) {
  part->wait.status = dmi_status_of(&part->status);
  dmi_team_begin_recv(rank, &part->wait, from, buf, size);
}

/* Each collective call behind it fails, too: bytes of one must not be taken for those of another.
 */
int32_t dmi_team_give_up(struct dmi_team_rank *rank, int32_t error) {
  struct dmi_team_carry carry;
  dmi_team_lock(rank->teams, &carry);
  dmi_team_fail(&rank->port, &carry.out);
  dmi_team_unlock(rank->teams, rank, &carry);
  return error;
}

int32_t dmi_team_part_sent(struct dmi_team_rank *rank, struct dmi_team_part *part) {
  return dmi_team_end(rank, &part->wait);
}

int32_t dmi_team_part_received(struct dmi_team_rank *rank, struct dmi_team_part *part) {
  int32_t error = dmi_team_end(rank, &part->wait);
  if (error == DMI_ESIZE || (error == DMI_OK && part->wait.op.got != part->wait.op.size))
    return dmi_team_give_up(rank,
                            dmi_because_so(DMI_ESIZE,
                                           "another rank has called it with another size: %" PRIu64
                                           " bytes come, and not %" PRIu64,
                                           part->wait.op.got, part->wait.op.size));
  return error;
}

static int32_t send_now(struct dmi_team_rank *rank, int32_t to, const void *buf, uint64_t size) {
  struct dmi_team_part part;
  dmi_team_part_send(rank, &part, to, buf, size);
  return dmi_team_part_sent(rank, &part);
}

static int32_t recv_now(struct dmi_team_rank *rank, int32_t from, void *buf, uint64_t size) {
  struct dmi_team_part part;
  dmi_team_part_recv(rank, &part, from, buf, size);
  return dmi_team_part_received(rank, &part);
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* All collective calls fail until the next epoch: with the lock. */
static int32_t failed(const struct dmi_team_rank *rank) {
  for (int32_t i = 0; i < rank->port.size; i++) {
    if (!rank->uids[i])
      return dmi_because_so(DMI_ELOST, "rank %d of the team has no thread", (int)i);
  }
  return dmi_because(DMI_ELOST, "a collective call has failed: DMI_team_reset is needed");
}

int32_t dmi_team_check_call(struct dmi_team_rank *rank, int32_t root) {
  int32_t error = DMI_OK;
  if (!rank) return dmi_because(DMI_EINVAL, "this thread is not in a team (DMI_team_join)");
  if (root < 0 || root >= rank->port.size) return dmi_team_no_rank(root, rank->port.size);
  dmi_lock(&rank->teams->lock, DMI_RANK_LEAF);
  if (rank->port.failed) error = failed(rank);
  if (rank->port.reset) error = DMI_ERESET;
  if (rank->port.stopped) error = DMI_EEND;
  dmi_unlock(&rank->teams->lock, DMI_RANK_LEAF);
  return error;
}

static int32_t check_bytes(const void *buf, int64_t size) {
  if (size < 0) return dmi_because_of(DMI_EINVAL, "the size is negative", size);
  if ((uint64_t)size > DMI_WIRE_PAGE)
    return dmi_because_of(DMI_EINVAL, "the size is too large", size);
  return size > 0 && !buf ? dmi_because(DMI_EINVAL, "there is no buffer") : DMI_OK;
}

/* ---- Bcast ---------------------------------------------------------------------------------- */

/* The sends of one block to all children. */
struct pass {
  struct dmi_team_part parts[DMI_TEAM_CHILDREN];
  uint32_t num;
};

static void begin_pass(struct dmi_team_rank *rank, const struct dmi_team_tree *tree,
                       struct pass *pass, const unsigned char *buf, uint64_t size) {
  int32_t step = tree->span / 2, child;
  while ((child = dmi_team_tree_down(tree, &step)) >= 0)
    dmi_team_part_send(rank, &pass->parts[pass->num++], child, buf, size);
}

static int32_t end_pass(struct dmi_team_rank *rank, struct pass *pass, int32_t error) {
  while (pass->num) {
    int32_t one = dmi_team_part_sent(rank, &pass->parts[--pass->num]);
    if (error == DMI_OK) error = one;
  }
  return error;
}

/* While a block is sent to the children the next one comes. */
int32_t dmi_team_pass_down(struct dmi_team_rank *rank, int32_t root, unsigned char *buf,
                           uint64_t size) {
  const struct dmi_team_tree tree = dmi_team_tree_of(rank->port.rank, root, rank->port.size);
  const uint64_t block = rank->port.size > 2 ? BLOCK : BLOCK_OF_TWO;
  struct pass passes[2] = {{.num = 0}, {.num = 0}};
  uint64_t at = 0;
  int32_t error = DMI_OK;
  for (uint32_t i = 0; error == DMI_OK; i ^= 1) {
    uint64_t part = size - at < block ? size - at : block;
    if (tree.parent >= 0) error = recv_now(rank, tree.parent, buf + at, part);
    error = end_pass(rank, &passes[i], error);
    if (error == DMI_OK) begin_pass(rank, &tree, &passes[i], buf + at, part);
    at += part;
    if (at >= size) break;
  }
  error = end_pass(rank, &passes[0], error);
  return end_pass(rank, &passes[1], error);
}

int32_t dmi_team_bcast(struct dmi_process *process, DMI_local_team_t *team, int32_t root, void *buf,
                       int64_t size) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  int32_t error = dmi_team_check_call(rank, root);
  if (error == DMI_OK) error = check_bytes(buf, size);
  if (error == DMI_OK) error = dmi_team_pass_down(rank, root, buf, (uint64_t)size);
  return dmi_result(error);
}

/* ---- Gather and scatter --------------------------------------------------------------------- */

/* At the root: with each other rank its part of `buf`, all at the same time. */
static int32_t with_all(struct dmi_team_rank *rank, unsigned char *buf, uint64_t size,
                        bool is_send) {
  const int32_t num = rank->port.size;
  struct dmi_team_part *parts = malloc((size_t)num * sizeof(*parts));
  int32_t error = DMI_OK;
  if (!parts) return dmi_team_give_up(rank, DMI_ENOMEM);
  for (int32_t i = 0; i < num; i++) {
    unsigned char *at = buf + (uint64_t)i * size;
    if (i == rank->port.rank) continue;
    if (is_send) dmi_team_part_send(rank, &parts[i], i, at, size);
    if (!is_send) dmi_team_part_recv(rank, &parts[i], i, at, size);
  }
  for (int32_t i = 0; i < num; i++) {
    int32_t one = DMI_OK;
    if (i != rank->port.rank)
      one = is_send ? dmi_team_part_sent(rank, &parts[i]) : dmi_team_part_received(rank, &parts[i]);
    if (error == DMI_OK) error = one;
  }
  free(parts);
  return error;
}

static int32_t check_parts(struct dmi_team_rank *rank, int32_t root, const void *mine, int64_t size,
                           const void *all) {
  int32_t error = dmi_team_check_call(rank, root);
  if (error == DMI_OK) error = check_bytes(mine, size);
  if (error == DMI_OK && size > INT64_MAX / rank->port.size)
    error = dmi_because_of(DMI_EINVAL, "the size is too large", size);
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
  int32_t error = dmi_team_check_call(rank, 0);
  for (int64_t step = 1; error == DMI_OK && step < rank->port.size; step *= 2) {
    const int64_t size = rank->port.size, self = rank->port.rank;
    struct dmi_team_part
        out; /* waits for its receiver while the window is full: all receive meanwhile */
    int32_t sent;
    dmi_team_part_send(rank, &out, (int32_t)((self + step) % size), NULL, 0);
    error = recv_now(rank, (int32_t)((self + size - step) % size), NULL, 0);
    sent = dmi_team_part_sent(rank, &out);
    if (error == DMI_OK) error = sent;
  }
  return dmi_result(error);
}
