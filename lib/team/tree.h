/*
 * tree.h - who sends to whom in a collective call: the trees of OX-RFC-102 (docs/teams.md).
 *
 * Pure.
 */
#ifndef DMI_TEAM_TREE_H
#define DMI_TEAM_TREE_H

#include <stdint.h>

/* A rank in the tree of a bcast from `root`. */
struct dmi_team_tree {
  int32_t size, root;
  int32_t at;     /* the rank, counted from the root */
  int32_t parent; /* rank; -1: it is the root */
  int32_t span;   /* power of 2: its children are at + span / 2, at + span / 4, ... at + 1 */
};

struct dmi_team_tree dmi_team_tree_of(int32_t rank, int32_t root, int32_t size);

/* Its children: begin with *step = span / 2, or, in the order of a reduce, 1. -1: no more. */
int32_t dmi_team_tree_down(const struct dmi_team_tree *tree, int32_t *step);
int32_t dmi_team_tree_up(const struct dmi_team_tree *tree, int32_t *step);

#endif
