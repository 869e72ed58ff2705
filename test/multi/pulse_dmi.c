/*
 * pulse_dmi.c - what a program does while a process is silent, or its daemon busy for long.
 *
 *   dmirun pulse_dmi          welcomes processes until the end of stdin
 *   dmirun pulse_dmi busy N   with a second process, whose daemon then does nothing but one call of
 *                             DMI_function for N milliseconds, and this one's after it
 */
#include <poll.h>
#include <pthread.h>

#include "multi.h"

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)size, (void)out1_size, (void)out2_ptr, (void)out2_size, (void)in_ptr, (void)in_size;
  (void)tag;
  poll(NULL, 0, (int)*(int64_t *)out1_ptr);
  *(int64_t *)page_ptr += 1;
}

/* At the owner of the page, whoever that is. */
static void spend(int64_t page, int64_t ms) {
  MUST(DMI_atomic(page, sizeof(int64_t), &ms, sizeof(ms), NULL, 0, NULL, 0, 0, DMI_PUT_ATOMIC,
                  NULL));
}

int64_t DMI_thread(int64_t order) {
  int64_t what[3]; /* page of the first process; page of this one; milliseconds */
  const int64_t one = 1;
  MUST(DMI_read(order, sizeof(what), what, DMI_GET_READ, NULL));
  MUST(DMI_write(what[1], sizeof(one), &one, DMI_EXCLUSIVE_WRITE, NULL));
  say("owned");
  spend(what[0], what[2]);
  return 0;
}

static void busy(int64_t ms) {
  int64_t what[3] = {0, 0, ms}, order, one = 1;
  DMI_thread_t thread;
  int32_t ids[2];
  gather(2, ids);
  MUST(DMI_mmap(&what[0], sizeof(one), 1, NULL));
  MUST(DMI_mmap(&what[1], sizeof(one), 1, NULL));
  MUST(DMI_mmap(&order, sizeof(what), 1, NULL));
  MUST(DMI_write(what[0], sizeof(one), &one, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_write(order, sizeof(what), what, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, ids[1], order, NULL));
  MUST(DMI_join(thread, NULL, NULL)); /* this daemon was busy */
  spend(what[1], ms);                 /* and that one now */
  EQ(get_int64(what[0]), 2);
  EQ(get_int64(what[1]), 2);
  verdict("pulse", 0);
}

void DMI_main(int argc, char **argv) {
  char line[16];
  pthread_t admitter;
  if (argc > 2) {
    busy(atoi(argv[2]));
    return;
  }
  if (pthread_create(&admitter, NULL, admit, NULL) != 0) _exit(9);
  while (fgets(line, sizeof(line), stdin))
    continue;
  pthread_detach(admitter); /* its DMI_poll ends with the program */
}
