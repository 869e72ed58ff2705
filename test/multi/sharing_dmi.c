/*
 * sharing_dmi.c - two threads in two processes count, in one page: for sharing.t.
 *
 *   dmirun sharing_dmi apart   each in a counter of its own
 *   dmirun sharing_dmi same    both in the same one
 *
 * Until a line comes on stdin.
 */
#include "multi.h"

#define PAGE 4096
#define TURNS 50 /* for one look at `ends` */

/* In page 1; page 0 has the counters. */
struct rule {
  int64_t ends, apart;
};
#define AT_FIELD(base, field) ((base) + (int64_t)offsetof(struct rule, field))

/* The address of page 0, plus 1 in the second process. */
int64_t DMI_thread(int64_t arg) {
  const int64_t base = arg & ~INT64_C(1), rule = base + PAGE;
  const bool other = arg & 1, apart = get_int64(AT_FIELD(rule, apart));
  const int64_t counter = base + 8 * (apart && other);
  int64_t count = 0;
  while (get_int64(AT_FIELD(rule, ends)) == 0) {
    for (int i = 0; i < TURNS; i++) {
      count++;
      if (apart) {
        MUST(DMI_write(counter, sizeof(count), &count, DMI_EXCLUSIVE_WRITE,
                       NULL)); /* line: counts */
      } else {
        MUST(DMI_fad(counter, 1, NULL, DMI_EXCLUSIVE_ATOMIC, NULL));
      }
    }
  }
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[2];
  char line[16];
  int32_t ids[2];
  int64_t base;
  MUST(argc == 2);
  gather(2, ids);
  MUST(DMI_mmap(&base, PAGE, 2, NULL)); /* line: made */
  put_int64(AT_FIELD(base + PAGE, ends), 0);
  put_int64(AT_FIELD(base + PAGE, apart), strcmp(argv[1], "apart") == 0);
  for (int i = 0; i < 2; i++)
    MUST(DMI_create(&thread[i], ids[i], base + i, NULL));
  say("begins %" PRId64, base);
  MUST(fgets(line, sizeof(line), stdin) != NULL);
  put_int64(AT_FIELD(base + PAGE, ends), 1);
  for (int i = 0; i < 2; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
}
