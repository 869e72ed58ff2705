/*
 * events_dmi.c - a program of three processes that have something to tell: events.t.
 *
 *   dmirun events_dmi ROUNDS    two processes take a page from each other, and a lock, so often; at
 *                               "leave now" the second is to leave
 *   dmirun events_dmi keeps     two processes; at "leave now" the first is to leave, when nobody is
 *                               there yet who could take its page
 */
#include "multi.h"

/* In global memory. */
struct job {
  int64_t rounds;
  int64_t counters; /* address of two pages: one counter each, added to after becoming the owner, */
  int64_t lock;     /* and under the lock */
};

static void work(const struct job *job) {
  int64_t value;
  for (int64_t i = 0; i < job->rounds; i++) {
    MUST(DMI_fad(job->counters, 1, NULL, DMI_EXCLUSIVE_ATOMIC, NULL));
    MUST(DMI_mutex_lock(job->lock));
    MUST(DMI_read(job->counters + 8, sizeof(value), &value, DMI_GET_READ, NULL));
    value++;
    MUST(DMI_write(job->counters + 8, sizeof(value), &value, DMI_PUT_WRITE, NULL));
    MUST(DMI_mutex_unlock(job->lock));
  }
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  work(&job);
  return 0;
}

/* This process leaves while the other one has not been welcomed, and welcomes it then. */
static void keeps(void) {
  int64_t page, value = 1;
  int32_t id;
  DMI_node_t other, node;
  gather(1, &id);
  MUST(DMI_mmap(&page, sizeof(value), 1, NULL));
  MUST(DMI_write(page, sizeof(value), &value, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_poll(&other));
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.dmi_id, id);
  OK(DMI_goodbye(id));
  OK(DMI_welcome(other.dmi_id));
  MUST(DMI_read(page, sizeof(value), &value, DMI_GET_READ, NULL));
  EQ(value, 1);
  verdict("events", 0);
}

void DMI_main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "keeps") == 0) {
    keeps();
    return;
  }
  int32_t ids[3];
  int64_t addr, values[2];
  struct job job = {.rounds = argc > 1 ? atoll(argv[1]) : 10};
  DMI_thread_t thread;
  DMI_node_t node;
  gather(3, ids);
  MUST(DMI_mmap(&addr, sizeof(job), 1, NULL));
  MUST(DMI_mmap(&job.counters, 8, 2, NULL));
  MUST(DMI_mmap(&job.lock, sizeof(DMI_mutex_t), 1, NULL));
  MUST(DMI_mutex_init(job.lock));
  MUST(DMI_write(addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, ids[1], addr, NULL));
  work(&job);
  MUST(DMI_join(thread, NULL, NULL));
  MUST(DMI_read(job.counters, sizeof(values), values, DMI_GET_READ, NULL));
  EQ(values[0], 2 * job.rounds);
  EQ(values[1], 2 * job.rounds);
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.dmi_id, ids[1]);
  OK(DMI_goodbye(ids[1]));
  MUST(DMI_munmap(job.counters, NULL));
  verdict("events", 0);
}
