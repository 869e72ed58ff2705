/*
 * cluster_dmi.c - a program for cluster.t and mw.t: admits and dismisses, and prints the members
 * each time; ends when DMI_main's process was dismissed.
 */
#include "dmi_api.h"

static int by_number(const void *left, const void *right) {
  const DMI_node_t *a = left, *b = right;
  return (a->dmi_id > b->dmi_id) - (a->dmi_id < b->dmi_id);
}

static void print_members(void) {
  DMI_node_t nodes[16];
  int32_t num;
  if (!DMI_nodes(nodes, &num, 16)) return;
  qsort(nodes, (size_t)num, sizeof(nodes[0]), by_number);
  printf("members:");
  for (int32_t i = 0; i < num; i++) {
    if (nodes[i].state == DMI_OPENED) printf(" %d", nodes[i].dmi_id);
  }
  printf("\n");
}

void DMI_main(int argc, char **argv) {
  DMI_node_t node;
  int32_t me;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i < argc; i++)
    printf("argument: %s\n", argv[i]);
  DMI_rank(&me);
  do {
    DMI_poll(&node);
    if (node.state == DMI_OPEN) {
      DMI_welcome(node.dmi_id);
    } else {
      DMI_goodbye(node.dmi_id);
    }
    print_members();
  } while (node.state == DMI_OPEN || node.dmi_id != me);
}
