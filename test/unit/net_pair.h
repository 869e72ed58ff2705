/*
 * net_pair.h - two nodes, or a node and a plain socket, that connect to each other, for cmocka
 * tests.
 *
 * Included after cmocka.h.
 */
#ifndef NET_PAIR_H
#define NET_PAIR_H

#include "net_raw.h"

static inline struct dmi_msg plain(uint64_t op) {
  struct dmi_msg msg = {.type = DMI_MSG_GET};
  msg.access.op.n = op;
  return msg;
}

static inline void end(struct node *node) {
  node_stop(node);
  node_free(node);
}

static inline int raw_connect(struct node *node) {
  int fd = raw_connect_to(dmi_net_port(node->net));
  assert_true(fd >= 0);
  return fd;
}

/* A socket that is bound to a free port, and does not listen. */
static inline int raw_bind(struct dmi_addr *addr) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t size = sizeof any;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
  *addr = (struct dmi_addr){.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
  addr->port = ntohs(any.sin_port);
  return fd;
}

static inline int raw_listen(struct dmi_addr *addr) {
  int fd = raw_bind(addr);
  assert_int_equal(listen(fd, 8), 0);
  return fd;
}

static inline void join(struct node *a, struct node *b) {
  node_open(a, 1);
  node_open(b, 0);
  dmi_net_join(b->net, "localhost", dmi_net_port(a->net));
  node_run(a);
  node_run(b);
  NODE_WAIT(a, strangers, 1);
  NODE_WAIT(b, joined_num, 1);
  assert_true(b->joined_ok);
}

/* `b` joins `a` and is refused, with a sentence that has all these words; `a` logs `logged`. */
static inline void check_refused(struct node *a, struct node *b, const char *const words[], int num,
                                 const char *logged) {
  struct dmi_addr addr = node_addr(a);
  dmi_net_join_addr(b->net, &addr);
  node_run(a);
  node_run(b);
  NODE_WAIT(b, joined_num, 1);
  assert_false(b->joined_ok);
  for (int i = 0; i < num; i++)
    assert_non_null(strstr(b->joined_why, words[i]));
  assert_true(node_wait_log(a, logged));
  assert_int_equal(NODE_NOW(b, lost_num), 0);
  assert_int_equal(NODE_NOW(a, strangers), 0);
  end(a);
  end(b);
}

#endif
