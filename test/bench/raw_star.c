/*
 * raw_star.c - a barrier of N processes by plain sockets, in microseconds: the limit beside which
 * DMI's barriers of many processes are put.
 *
 *   raw_star N COUNT      COUNT barriers in a batch
 *
 * As a star (each process tells the first one, which answers all) and as a tree in which each
 * process has up to 16 below it. TCP over loopback, blocking, messages of 80 bytes, not bound to
 * cores.
 */
#include "raw_tcp.h"

#include <sys/epoll.h>

#define MESSAGE 80
#define FAN 16

/* What one process knows: the connection to the one above it, and those to the ones below. */
typedef struct {
  int up; /* -1: none */
  int *down, num, all;
} place_in_tree_t;

/* Waits until all below have come, tells the one above and waits for it, and tells all below. */
static void meet(const place_in_tree_t *place) {
  struct epoll_event events[64];
  char message[MESSAGE] = {0};
  for (int come = 0; come < place->num;) {
    const int num = epoll_wait(place->all, events, 64, -1);
    if (num < 0) raw_fail("epoll_wait");
    for (int i = 0; i < num; i++) {
      if (!raw_read(events[i].data.fd, message, MESSAGE)) raw_fail("end of a connection");
    }
    come += num;
  }
  if (place->up >= 0) {
    raw_write(place->up, message, MESSAGE);
    if (!raw_read(place->up, message, MESSAGE)) raw_fail("end of a connection");
  }
  for (int i = 0; i < place->num; i++)
    raw_write(place->down[i], message, MESSAGE);
}

/* Takes a place in the tree: all connections are there, and those of others are closed. */
static place_in_tree_t take_place(int rank, int num, int fan, int (*ends)[2]) {
  place_in_tree_t place = {.up = -1, .all = epoll_create1(0)};
  place.down = malloc((size_t)num * sizeof(*place.down));
  if (place.all < 0 || !place.down) raw_fail("a place");
  for (int other = 1; other < num; other++) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[other][1]};
    if (other == rank) {
      place.up = ends[other][0];
    } else {
      close(ends[other][0]);
    }
    if ((other - 1) / fan != rank) {
      close(ends[other][1]);
      continue;
    }
    if (epoll_ctl(place.all, EPOLL_CTL_ADD, ends[other][1], &event) != 0) raw_fail("epoll_ctl");
    place.down[place.num++] = ends[other][1];
  }
  return place;
}

static void measure(const char *name, int num, int fan, int count) {
  figure_t figure = {.unit = "us"};
  struct sockaddr_in address;
  const int listener = raw_listen(&address);
  int(*ends)[2] = malloc((size_t)num * sizeof(*ends));
  int rank = 0;
  if (!ends) raw_fail("memory");
  snprintf(figure.name, sizeof(figure.name), "%s_%d", name, num);
  for (int i = 1; i < num; i++) {
    ends[i][0] = raw_connect(&address);
    ends[i][1] = raw_accept(listener);
  }
  for (int i = 1; i < num && !rank; i++) {
    const pid_t child = fork();
    if (child < 0) raw_fail("fork");
    if (child == 0) rank = i;
  }
  const place_in_tree_t place = take_place(rank, num, fan, ends);
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < count; i++)
      meet(&place);
    if (batch >= 0) figure.values[batch] = (double)(now_ns() - start) / 1000.0 / count;
  }
  if (rank) exit(EXIT_SUCCESS);
  while (wait(NULL) > 0) {
  }
  for (int i = 0; i < place.num; i++)
    close(place.down[i]);
  close(place.all);
  close(listener);
  free(place.down);
  free(ends);
  figure_print(&figure);
}

int main(int argc, char **argv) {
  const int num = argc == 3 ? atoi(argv[1]) : 0, count = argc == 3 ? atoi(argv[2]) : 0;
  if (num < 2 || count < 1) {
    fprintf(stderr, "usage: %s processes count\n", argv[0]);
    return EXIT_FAILURE;
  }
  measure("star", num, num, count);
  measure("tree", num, FAN, count);
  return EXIT_SUCCESS;
}
