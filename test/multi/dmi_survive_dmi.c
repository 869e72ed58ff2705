/*
 * dmi_survive_dmi.c - DMI_survive in a program that was started without --survive.
 *
 *   dmirun dmi_survive_dmi N   with N processes, which have joined before it is called; the input
 * ends when one of them is gone
 */
#include "multi.h"

#include "dmi_ext.h"

static void refused(int32_t error, int32_t copies) {
  EQ(DMI_survive(copies), DMI_FALSE);
  EQ(DMI_errno(), error);
}

/* Its process has three pages then, which are lost with it. */
int64_t DMI_thread(int64_t value) {
  int64_t pages;
  MUST(DMI_mmap(&pages, sizeof(value), 3, NULL));
  for (int64_t i = 0; i < 3; i++)
    MUST(DMI_write(pages + i * (int64_t)sizeof(value), sizeof(value), &value, DMI_EXCLUSIVE_WRITE,
                   NULL));
  refused(DMI_EBUSY, 0); /* not here */
  return value + 1;
}

void DMI_main(int argc, char **argv) {
  char line[16];
  int32_t ids[8], num = argc == 2 ? atoi(argv[1]) : 0;
  DMI_thread_t thread;
  int64_t value;
  if (num == 0) { /* too late */
    gather(2, ids);
    refused(DMI_EBUSY, 0);
    verdict("late", 0);
    return;
  }
  if (!fgets(line, sizeof(line), stdin)) return; /* the others have joined */
  refused(DMI_EINVAL, 1);
  refused(DMI_EINVAL, -1);
  MUST(DMI_survive(0));
  MUST(DMI_survive(0));
  gather(num, ids);
  for (int32_t i = 0; i < num; i++) {
    if (ids[i] == 0) continue;
    MUST(DMI_create(&thread, ids[i], i, NULL));
    MUST(DMI_join(thread, &value, NULL));
    EQ(value, i + 1);
  }
  say("ready");
  while (fgets(line, sizeof(line), stdin))
    continue;
  verdict("survive", 0);
}
