/*
 * advertise_dmi.c - three processes, each of which reads pages of both others, so that all connect
 * with all.  Prints "node ID HOST" for each; ends when all have read.
 */
#include "multi.h"

#define NUM 3

int64_t DMI_thread(int64_t addr) {
  int32_t id;
  MUST(DMI_rank(&id));
  int64_t mine = addr + 64 + 8 * id, value = 100 + id;
  /* The page moves here with the write; then each reads each. */
  MUST(DMI_write(mine, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
  barrier(addr, NUM, 1);
  for (int i = 0; i < NUM; i++) {
    MUST(DMI_read(addr + 64 + 8 * i, sizeof(value), &value, DMI_GET_READ, NULL));
    EQ(value, 100 + i);
  }
  barrier(addr, NUM, 2);
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[NUM];
  DMI_node_t nodes[NUM];
  int64_t addr;
  int32_t ids[NUM], num;
  (void)argc, (void)argv;
  gather(NUM, ids);
  MUST(DMI_nodes(nodes, &num, NUM));
  for (int i = 0; i < num; i++)
    say("node %d %s", nodes[i].dmi_id, nodes[i].hostname);
  MUST(DMI_mmap(&addr, 8, 8 + NUM, NULL));
  for (int i = 0; i < NUM; i++)
    MUST(DMI_create(&thread[i], ids[i], addr, NULL));
  for (int i = 0; i < NUM; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
  verdict("advertise", 0);
}
