/*
 * bench_join_dmi.c - an idle program to join and to leave: it lets everybody in and out at once.
 *
 *   dmirun ./bench_join_dmi [mappings]
 *
 * `mappings` (default 0) exist before the first process joins, each of 2^30 pages of 4 KiB:
 * joining must not take longer because of them.  Ends when its first process is told to leave.
 */
#include "../../examples/check.h"

void DMI_main(int argc, char **argv) {
  const int32_t mappings = argc > 1 ? check_number("mappings", argv[1], 0) : 0;
  int32_t my_dmi_id;
  DMI_node_t node;

  CHECK(DMI_rank(&my_dmi_id));
  for (int32_t i = 0; i < mappings; i++) {
    int64_t addr;
    CHECK(DMI_mmap(&addr, 4096, (int64_t)1 << 30, NULL));
  }
  do {
    CHECK(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      CHECK(DMI_welcome(node.dmi_id));
    } else {
      CHECK(DMI_goodbye(node.dmi_id));
    }
  } while (node.state == DMI_OPEN || node.dmi_id != my_dmi_id);
}
