/*
 * web_dmi.c - a program to be looked at, for web.t and metrics.t: processes come and go, and a line
 * of stdin is a round, in which a thread of each process writes a page.  DMI_exit at the end of
 * stdin.
 */
#include <pthread.h>

#include "multi.h"

#define PAGE 4096
#define PROCESSES 128 /* dmi_ids below this */

/* Page 0 is the round; page 1 + dmi_id is of that process's thread. */
struct part {
  int64_t base;
  int64_t leaves; /* not 0: the thread is to return */
  unsigned char bytes[PAGE - 2 * sizeof(int64_t)];
};

static int64_t base; /* in the process of DMI_main */

static int64_t part_of(int32_t dmi_id) {
  return base + PAGE * (1 + dmi_id);
}

static void *rounds(void *arg) {
  char line[16];
  while (fgets(line, sizeof(line), stdin))
    MUST(DMI_fad(base, 1, NULL, DMI_PUT_ATOMIC, NULL));
  DMI_exit(0);
  return arg;
}

int64_t DMI_thread(int64_t part) {
  static const unsigned char bytes[sizeof(((struct part *)0)->bytes)];
  int64_t round = 0, first = get_int64(part);
  while (DMI_watch(first, sizeof(round), &round, &round, NULL) == DMI_TRUE) { /* line: waits */
    if (get_int64(part + (int64_t)offsetof(struct part, leaves))) break;
    MUST(DMI_write(part + (int64_t)offsetof(struct part, bytes), sizeof(bytes), bytes,
                   DMI_PUT_WRITE, NULL));
    say("round %" PRId64, round);
  }
  return 0;
}

static void welcome(int32_t dmi_id, DMI_thread_t *thread) {
  MUST(DMI_welcome(dmi_id));
  put_int64(part_of(dmi_id), base);
  MUST(DMI_create(thread, dmi_id, part_of(dmi_id), NULL));
}

static void dismiss(int32_t dmi_id, DMI_thread_t thread) {
  put_int64(part_of(dmi_id) + (int64_t)offsetof(struct part, leaves), 1);
  MUST(DMI_fad(base, 1, NULL, DMI_PUT_ATOMIC, NULL));
  MUST(DMI_join(thread, NULL, NULL));
  MUST(DMI_goodbye(dmi_id));
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[PROCESSES];
  pthread_t reader;
  DMI_node_t node;
  (void)argc, (void)argv;
  MUST(DMI_mmap(&base, PAGE, 1 + PROCESSES, NULL)); /* line: made */
  put_int64(base, 0);
  if (pthread_create(&reader, NULL, rounds, NULL) != 0) _exit(9);
  pthread_detach(reader);
  while (DMI_poll(&node) == DMI_TRUE) {
    if (node.state == DMI_OPEN) {
      welcome(node.dmi_id, &thread[node.dmi_id]);
    } else if (node.state == DMI_CLOSE) {
      dismiss(node.dmi_id, thread[node.dmi_id]);
    }
    say("%s %d", node.state == DMI_OPEN ? "in" : "out", node.dmi_id);
  }
}
