/*
 * tree.c - see tree.h.
 *
 * With at = b * 2^k, b odd, the parent is (b - 1) * 2^k, and the children are at + 2^i for
 * i < k.  The root has k so large that 2^k >= size.
 */
#include "team/tree.h"

static int32_t rank_at(const struct dmi_team_tree *tree, int32_t at) {
  return (int32_t)(((int64_t)at + tree->root) % tree->size);
}

struct dmi_team_tree dmi_team_tree_of(int32_t rank, int32_t root, int32_t size) {
  struct dmi_team_tree tree = {.size = size, .root = root, .parent = -1, .span = 1};
  int64_t span = 1;
  tree.at = rank >= root ? rank - root : rank - root + size;
  while (span < size && !(tree.at & span))
    span <<= 1;
  tree.span = span > INT32_MAX ? 1 << 30 : (int32_t)span;
  if (tree.at) tree.parent = rank_at(&tree, tree.at - (int32_t)span);
  return tree;
}

int32_t dmi_team_tree_down(const struct dmi_team_tree *tree, int32_t *step) {
  for (; *step > 0; *step >>= 1) {
    int64_t child = (int64_t)tree->at + *step;
    if (child >= tree->size) continue;
    *step >>= 1;
    return rank_at(tree, (int32_t)child);
  }
  return -1;
}

int32_t dmi_team_tree_up(const struct dmi_team_tree *tree, int32_t *step) {
  int64_t child = (int64_t)tree->at + *step;
  if (*step >= tree->span || child >= tree->size) return -1;
  *step <<= 1;
  return rank_at(tree, (int32_t)child);
}
