/*
 * nodes.c - the processes that are there, and how many threads each is to run.
 *
 * How many there are is not known before they are listed, so the list is asked for again with more
 * space until it has some left.
 */
#include "elastic/nodes.h"

#include <stdlib.h>

#include "base/error.h"
#include "node/calls.h"

DMI_node_t *dmi_nodes_all(struct dmi_process *process, int32_t *num) {
  for (int32_t capacity = 16;; capacity *= 2) {
    DMI_node_t *nodes = malloc((size_t)capacity * sizeof(*nodes));
    if (!nodes) {
      (void)dmi_fail(DMI_ENOMEM);
      return NULL;
    }
    if (!dmi_call_nodes(process, nodes, num, capacity)) {
      free(nodes);
      return NULL;
    }
    if (*num < capacity) return nodes;
    free(nodes);
  }
}

int32_t dmi_nodes_threads(int32_t wanted, int32_t core) {
  if (wanted > 0) return wanted;
  return core > 0 ? core : 1;
}
