/*
 * net_settle_test.c - a connection is lost while a thread writes to it: the daemon sleeps until
 * that thread has ended its call, and only then takes the queue.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/memory_net.h"
#include "net/net_int.h"
#include "net_node.h"

static struct memory_net *memory;
static sem_t inside, released; /* a thread is in send; it may return */
static struct dmi_transport_ops blocking;
static const struct dmi_transport_ops *real;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

static ssize_t blocking_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  sem_post(&inside);
  while (sem_wait(&released) != 0)
    continue;
  return real->send(link, iov, num);
}

static struct dmi_msg plain(uint64_t op) {
  struct dmi_msg msg = {.type = DMI_MSG_GET};
  msg.access.op.n = op;
  return msg;
}

static void *write_one(void *arg) {
  node_send(arg, 2, plain(2));
  return NULL;
}

/* Done by the daemon thread, which alone receives by these functions. */
static void block_sends(struct node *node, void *arg) {
  struct dmi_net_peer *peer = dmi_peer_find(node->net, 2);
  real = peer->link->ops;
  blocking = *real;
  blocking.send = blocking_send;
  peer->link->ops = &blocking;
  *(pid_t *)arg = (pid_t)syscall(SYS_gettid);
}

/* True if the thread sleeps in the kernel. */
static bool sleeps(pid_t tid) {
  char path[64], state = 0;
  FILE *file;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
  file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
  fclose(file);
  return state == 'S';
}

static bool is_settling(struct dmi_net_peer *peer) {
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool settling = peer->state != DMI_PEER_UP && peer->writing;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return settling;
}

/* Sleeps, as seen 1,000 times in a row: one that looks again and again does not. */
static bool stays_asleep(pid_t tid) {
  for (int i = 0; i < 1000; i++) {
    if (!sleeps(tid)) return false;
  }
  return true;
}

static void test_settle(void **state) {
  (void)state;
  struct node nodes[2];
  pthread_t writer;
  pid_t tid;
  time_t until = time(NULL) + node_limit();
  bool asleep = false;
  for (uint32_t i = 0; i < 2; i++)
    node_open(&nodes[i], i + 1);
  for (uint32_t i = 0; i < 2; i++)
    node_meet(&nodes[i], &nodes[1 - i]);
  for (uint32_t i = 0; i < 2; i++)
    node_run(&nodes[i]);
  node_send(&nodes[0], 2, plain(1));
  NODE_WAIT(&nodes[1], messages, 1);
  node_do(&nodes[0], block_sends, &tid);
  struct dmi_net_peer *peer = dmi_peer_find(nodes[0].net, 2);
  assert_int_equal(pthread_create(&writer, NULL, write_one, &nodes[0]), 0);
  while (sem_wait(&inside) != 0)
    continue;
  assert_int_equal(memory_net_reset(memory, 1, 2), 1);
  while (!is_settling(peer) && time(NULL) < until)
    sched_yield();
  while (!asleep && time(NULL) < until)
    asleep = stays_asleep(tid);
  assert_int_equal(NODE_NOW(&nodes[0], lost_num), 0); /* it waits */
  sem_post(&released);
  NODE_WAIT(&nodes[0], lost_num, 1);
  pthread_join(writer, NULL);
  assert_true(asleep);
  node_end_all(nodes, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_settle)};
  sem_init(&inside, 0, 0);
  sem_init(&released, 0, 0);
  memory = memory_net_new();
  node_transport = open_memory;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  memory_net_free(memory);
  return failed;
}
