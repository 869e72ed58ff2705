/*
 * reduce.c - collective calls that combine what ranks have: along the trees of tree.h, or by
 * exchange.
 *
 * Up a tree: a leaf sends straight from the program's memory, the root combines in it.  Large ones
 * go in blocks; while one is combined the next one comes.
 *
 * By exchange (allreduce of 2^n ranks): in step i each rank exchanges with the one whose number
 * differs in bit i.  Two ranks exchange small ones whole.  Of large ones each rank sends half of
 * what it is concerned with, and goes on with the other half; then the halves, which are combined
 * now, go back the same way.  All combine in the order of the tree, so a result does not depend on
 * the way.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "team/combine.h"
#include "team/team_int.h"
#include "team/tree.h"

/* Bytes of a block that is combined while the next one comes; with two ranks, as one send costs
 * less than several. */
#define BLOCK ((uint64_t)256 << 10)
#define BLOCK_OF_TWO ((uint64_t)512 << 10)
#define AHEAD 4                       /* blocks that a leaf sends at the same time */
#define WHOLE ((uint64_t)64 << 10)    /* bytes: longer ones are exchanged by halves */
#define EXCHANGED ((uint64_t)4 << 20) /* bytes that are exchanged at a time, to bound memory */
#define STEPS 31                      /* a team has less than 2^31 ranks */

/* to[i] = a[i] op b[i]; `to` may be `a`, and `b` if the operation is none of the program. */
static void combine(const struct dmi_team_reduction *how, void *to, const void *a, const void *b,
                    uint64_t num) {
  if (num == 0) return;
  if (how->combine) {
    if (to != a) memcpy(to, a, num * (uint64_t)how->size);
    how->combine(to, b, (int64_t)num);
  } else {
    dmi_team_combine(how->type, how->op, to, a, b, num);
  }
}

/* ---- Up a tree ------------------------------------------------------------------------------ */

/* A rank's way through its blocks.  Receives are numbered: those of the first block from each
 * child, then those of the second block, and so on. */
struct climb {
  struct dmi_team_rank *rank;
  const struct dmi_team_reduction *how;
  struct dmi_team_tree tree;
  const unsigned char *in;
  unsigned char *out; /* of the root; else NULL */
  uint64_t block;     /* elements of a block */
  uint64_t block_num;
  int32_t children[DMI_TEAM_CHILDREN];
  uint32_t child_num;
  unsigned char *memory; /* for two blocks that come, and two that are sent */
  uint64_t received;     /* receives that are over */
  uint64_t receives;     /* that have begun */
  uint64_t sent, sends;  /* blocks that are sent, and whose send has begun */
  struct dmi_team_part in_parts[2], out_parts[AHEAD];
};

static uint64_t elements(const struct climb *climb, uint64_t block) {
  const uint64_t at = block * climb->block, all = (uint64_t)climb->how->num;
  return all - at < climb->block ? all - at : climb->block;
}

static uint64_t bytes(const struct climb *climb, uint64_t num) {
  return num * (uint64_t)climb->how->size;
}

static const unsigned char *mine(const struct climb *climb, uint64_t block) {
  return climb->in ? climb->in + bytes(climb, block * climb->block) : NULL;
}

/* Where receive number i goes. */
static unsigned char *coming(const struct climb *climb, uint64_t i) {
  return climb->memory + (i % 2) * bytes(climb, climb->block);
}

/* Where a block is combined. */
static unsigned char *sum(const struct climb *climb, uint64_t block) {
  if (climb->tree.parent < 0)
    return climb->out ? climb->out + bytes(climb, block * climb->block) : NULL;
  return climb->memory + (2 + block % 2) * bytes(climb, climb->block);
}

static void begin_receive(struct climb *climb) {
  const uint64_t i = climb->receives++, block = i / climb->child_num;
  dmi_team_part_recv(climb->rank, &climb->in_parts[i % 2], climb->children[i % climb->child_num],
                     coming(climb, i), bytes(climb, elements(climb, block)));
}

static int32_t end_receive(struct climb *climb) {
  return dmi_team_part_received(climb->rank, &climb->in_parts[climb->received++ % 2]);
}

/* Ends sends to the parent until less than so many are in flight. */
static int32_t end_sends(struct climb *climb, uint64_t num) {
  int32_t error = DMI_OK;
  while (climb->sends - climb->sent >= num) {
    int32_t one = dmi_team_part_sent(climb->rank, &climb->out_parts[climb->sent++ % AHEAD]);
    if (error == DMI_OK) error = one;
  }
  return error;
}

static void send_up(struct climb *climb, const unsigned char *buf, uint64_t num) {
  dmi_team_part_send(climb->rank, &climb->out_parts[climb->sends++ % AHEAD], climb->tree.parent,
                     buf, bytes(climb, num));
}

/* What all children have sent of a block, with this rank's own. */
static int32_t combine_block(struct climb *climb, uint64_t block) {
  const uint64_t num = elements(climb, block);
  const unsigned char *have = mine(climb, block);
  unsigned char *into = sum(climb, block);
  int32_t error = DMI_OK;
  for (uint32_t i = 0; error == DMI_OK && i < climb->child_num; i++) {
    const uint64_t at = climb->received;
    if (climb->receives < climb->block_num * climb->child_num) begin_receive(climb);
    error = end_receive(climb);
    if (error == DMI_OK) combine(climb->how, into, have, coming(climb, at), num);
    have = into;
  }
  if (climb->child_num == 0 && num && into != have) memcpy(into, have, bytes(climb, num));
  return error;
}

static int32_t go_up(struct climb *climb) {
  const bool is_root = climb->tree.parent < 0, is_leaf = !is_root && climb->child_num == 0;
  int32_t error = DMI_OK;
  if (climb->child_num) begin_receive(climb);
  for (uint64_t block = 0; block < climb->block_num; block++) {
    error = end_sends(climb, is_leaf ? AHEAD : 2); /* the sum of the last but one is overwritten */
    if (error == DMI_OK && !is_leaf) error = combine_block(climb, block);
    if (error != DMI_OK) break;
    if (!is_root)
      send_up(climb, is_leaf ? mine(climb, block) : sum(climb, block), elements(climb, block));
  }
  return error;
}

/* Ends what has begun. */
static int32_t end_climb(struct climb *climb, int32_t error) {
  int32_t one;
  while (climb->received < climb->receives) {
    one = end_receive(climb);
    if (error == DMI_OK) error = one;
  }
  one = end_sends(climb, 1);
  return error == DMI_OK ? one : error;
}

static int32_t reduce(struct dmi_team_rank *rank, int32_t root, const void *in, void *out,
                      const struct dmi_team_reduction *how) {
  const uint64_t all = (uint64_t)how->num, size = (uint64_t)how->size;
  struct climb climb = {.rank = rank, .how = how, .in = in, .out = out};
  int32_t step = 1, child, error;
  climb.tree = dmi_team_tree_of(rank->port.rank, root, rank->port.size);
  while ((child = dmi_team_tree_up(&climb.tree, &step)) >= 0)
    climb.children[climb.child_num++] = child;
  climb.block = (rank->port.size > 2 ? BLOCK : BLOCK_OF_TWO) / size;
  if (climb.block == 0) climb.block = 1;
  if (climb.block > all) climb.block = all ? all : 1;
  climb.block_num = all ? (all - 1) / climb.block + 1 : 1;
  if (climb.child_num) {
    climb.memory = malloc((climb.tree.parent < 0 ? 2 : 4) * climb.block * size);
    if (!climb.memory) return dmi_team_give_up(rank, DMI_ENOMEM);
  }
  error = end_climb(&climb, go_up(&climb));
  free(climb.memory);
  return error;
}

/* ---- By exchange ---------------------------------------------------------------------------- */

/* At the same time. */
static int32_t exchange(struct dmi_team_rank *rank, int32_t with, const void *out,
                        uint64_t out_size, void *in, uint64_t in_size) {
  struct dmi_team_part to, from;
  int32_t error, sent;
  dmi_team_part_recv(rank, &from, with, in, in_size);
  dmi_team_part_send(rank, &to, with, out, out_size);
  error = dmi_team_part_received(rank, &from);
  sent = dmi_team_part_sent(rank, &to);
  return error == DMI_OK ? sent : error;
}

/* All elements in each step; `more` is space for two times as many. */
static int32_t exchange_all(struct dmi_team_rank *rank, const unsigned char *in, unsigned char *out,
                            unsigned char *more, const struct dmi_team_reduction *how) {
  const int32_t self = rank->port.rank, size = rank->port.size;
  const uint64_t num = (uint64_t)how->num, all = num * (uint64_t)how->size;
  unsigned char *sum = more, *come = more + all;
  int32_t error = DMI_OK;
  if (all) memcpy(sum, in, all);
  for (int32_t bit = 1; error == DMI_OK && bit < size; bit *= 2) {
    const bool upper = (self & bit) != 0;
    error = exchange(rank, self ^ bit, sum, all, come, all);
    if (error == DMI_OK) combine(how, sum, upper ? come : sum, upper ? sum : come, num);
  }
  if (error == DMI_OK && all) memcpy(out, sum, all);
  return error;
}

/* A part of the elements. */
struct range {
  uint64_t begin, end;
};

static struct range half_of(struct range range, bool upper) {
  const uint64_t middle = range.begin + (range.end - range.begin) / 2;
  return upper ? (struct range){middle, range.end} : (struct range){range.begin, middle};
}

/* Half of `range`, its own one: what the other rank has of it is combined with what is at `have`,
 * and comes to `out`; `more` is space for it. */
static int32_t exchange_half(struct dmi_team_rank *rank, int32_t bit, struct range range,
                             const unsigned char *have, unsigned char *out, unsigned char *more,
                             const struct dmi_team_reduction *how) {
  const bool upper = (rank->port.rank & bit) != 0;
  const struct range keep = half_of(range, upper), give = half_of(range, !upper);
  const uint64_t size = (uint64_t)how->size, num = keep.end - keep.begin;
  const unsigned char *own = have + keep.begin * size;
  int32_t error = exchange(rank, rank->port.rank ^ bit, have + give.begin * size,
                           (give.end - give.begin) * size, more, num * size);
  if (error == DMI_OK)
    combine(how, out + keep.begin * size, upper ? more : own, upper ? own : more, num);
  return error;
}

static int32_t exchange_halves(struct dmi_team_rank *rank, const unsigned char *in,
                               unsigned char *out, unsigned char *more,
                               const struct dmi_team_reduction *how) {
  const int32_t self = rank->port.rank;
  const uint64_t size = (uint64_t)how->size;
  struct range ranges[STEPS];
  struct range range = {0, (uint64_t)how->num};
  int32_t error = DMI_OK, step = 0, bit = 1;
  if (rank->port.size == 1 && in != out) memcpy(out, in, range.end * size);
  for (; error == DMI_OK && bit < rank->port.size; bit *= 2) {
    error = exchange_half(rank, bit, range, bit == 1 ? in : out, out, more, how);
    ranges[step++] = range;
    range = half_of(range, (self & bit) != 0);
  }
  while (error == DMI_OK && step > 0) {
    struct range mine, theirs;
    bit /= 2;
    range = ranges[--step];
    mine = half_of(range, (self & bit) != 0);
    theirs = half_of(range, (self & bit) == 0);
    error = exchange(rank, self ^ bit, out + mine.begin * size, (mine.end - mine.begin) * size,
                     out + theirs.begin * size, (theirs.end - theirs.begin) * size);
  }
  return error;
}

/* Small ones of more than two ranks go by a tree: that is twice as many steps, but fewer messages,
 * and where ranks share a processor each message costs a turn on it. */
static bool exchanges(int32_t size, uint64_t bytes) {
  return (size & (size - 1)) == 0 && (size <= 2 || bytes > WHOLE);
}

static int32_t by_exchange(struct dmi_team_rank *rank, const unsigned char *in, unsigned char *out,
                           const struct dmi_team_reduction *how) {
  const uint64_t size = (uint64_t)how->size, all = (uint64_t)how->num;
  const bool whole = all * size <= WHOLE || all < (uint64_t)rank->port.size;
  const uint64_t fits = EXCHANGED / size ? EXCHANGED / size : 1, most = all < fits ? all : fits;
  const uint64_t need = whole ? 2 * all * size : (most + 1) / 2 * size;
  _Alignas(max_align_t) unsigned char here[256];
  unsigned char *more = need <= sizeof(here) ? here : malloc(need);
  struct dmi_team_reduction part = *how;
  int32_t error = DMI_OK;
  if (!more) return dmi_team_give_up(rank, DMI_ENOMEM);
  if (whole) error = exchange_all(rank, in, out, more, how);
  for (uint64_t at = 0; !whole && error == DMI_OK && at < all; at += most) {
    part.num = (int64_t)(all - at < most ? all - at : most);
    error = exchange_halves(rank, in + at * size, out + at * size, more, &part);
  }
  if (more != here) free(more);
  return error;
}

/* ---- The calls ------------------------------------------------------------------------------ */

/* Fills in the size of elements of a type. */
static int32_t check_reduction(struct dmi_team_reduction *how, const void *in) {
  if (!how->combine && how->size == 0) {
    how->size = (int64_t)dmi_team_combine_size(how->type, how->op);
    if (how->size == 0) return dmi_because(DMI_EINVAL, "there is no such operation for this type");
  }
  if (how->size <= 0) return dmi_because_of(DMI_EINVAL, "the size is not positive", how->size);
  if ((uint64_t)how->size > DMI_WIRE_PAGE || how->num < 0 || how->num > INT64_MAX / how->size)
    return dmi_because_of(DMI_EINVAL, "the number of elements is wrong", how->num);
  return how->num && !in ? dmi_because(DMI_EINVAL, "there is no buffer") : DMI_OK;
}

int32_t dmi_team_reduce(struct dmi_process *process, DMI_local_team_t *team, int32_t root,
                        const void *in, void *out, const struct dmi_team_reduction *reduction) {
  struct dmi_team_rank *rank = dmi_team_of(process, team);
  struct dmi_team_reduction how = *reduction;
  int32_t error = dmi_team_check_call(rank, root);
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
  int32_t error = dmi_team_check_call(rank, 0);
  if (error == DMI_OK) error = check_reduction(&how, in);
  if (error == DMI_OK && how.num && !out) error = dmi_because(DMI_EINVAL, "there is no buffer");
  if (error != DMI_OK) return dmi_fail(error);
  if (exchanges(rank->port.size, (uint64_t)(how.num * how.size)))
    return dmi_result(by_exchange(rank, in, out, &how));
  error = reduce(rank, 0, in, out, &how);
  if (error == DMI_OK) error = dmi_team_pass_down(rank, 0, out, (uint64_t)(how.num * how.size));
  return dmi_result(error);
}
