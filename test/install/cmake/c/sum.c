/*
 * sum.c - adds numbers in global memory.
 */
#include <stdio.h>

#include <dmi_api.h>

#define NUM 100

int64_t DMI_thread(int64_t address) {
  for (int64_t i = 0; i < NUM; i++)
    if (!DMI_fad(address, i, NULL, DMI_PUT_ATOMIC, NULL)) return DMI_FALSE;
  return DMI_TRUE;
}

void DMI_main(int argc, char **argv) {
  int64_t address, sum, is_done = DMI_FALSE;
  DMI_node_t node;
  DMI_thread_t thread;
  (void)argc, (void)argv;
  if (DMI_poll(&node) && DMI_welcome(node.dmi_id) && DMI_mmap(&address, sizeof(sum), 1, NULL) &&
      DMI_create(&thread, node.dmi_id, address, NULL) && DMI_join(thread, &is_done, NULL) &&
      is_done && DMI_read(address, sizeof(sum), &sum, DMI_GET_READ, NULL))
    printf("the sum is %lld\n", (long long)sum);
}
