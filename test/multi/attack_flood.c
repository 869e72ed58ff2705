/*
 * attack_flood.c - very many connections at the same time, without waiting for any of them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "attack_flood.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define OPEN 6000   /* at most so many at a time: then the oldest goes */
#define AT_ONCE 200 /* begun without a look at the others, when it is late */
#define EVENTS 256
#define FILES 20000 /* descriptors, at most */

enum { CONNECTING = 1, CONNECTED };

static struct flood_plan plan;
static pthread_t thread;
static _Atomic bool over;
static struct flood_result result;
static int watch = -1;     /* epoll */
static uint8_t *states;    /* of each descriptor; 0: not one of ours */
static uint32_t state_num; /* descriptors that there can be */
static uint32_t *births;   /* of each descriptor: the number of its connection */
static int ring[OPEN];     /* descriptors, by number of connection */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `begun` */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool begun;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void leave(int fd, bool hard) {
  struct linger reset = {.l_onoff = 1};
  if (hard) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  states[fd] = 0;
  close(fd);
}

/* Its number chooses the address that it comes from. */
static bool bind_source(int fd, uint64_t number) {
  int on = 1;
  struct sockaddr_in from = {.sin_family = AF_INET};
  if (plan.sources <= 1) return true;
  from.sin_addr.s_addr = htonl(0x7f100000u + (uint32_t)(number % plan.sources) + 1);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  return bind(fd, (struct sockaddr *)&from, sizeof from) == 0;
}

static void begin_one(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(plan.port)};
  uint64_t number = result.begun++;
  int *place = &ring[number % OPEN];
  if (*place >= 0 && states[*place] != 0 && births[*place] == (uint32_t)(number - OPEN)) {
    leave(*place, true);
  }
  *place = -1;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || (uint32_t)fd >= state_num) {
    if (fd >= 0) close(fd);
    result.failed++;
    return;
  }
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
  event.data.fd = fd;
  if (!bind_source(fd, number) ||
      (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) ||
      epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event) < 0) {
    close(fd);
    result.failed++;
    return;
  }
  states[fd] = CONNECTING;
  births[fd] = (uint32_t)number;
  *place = fd;
}

static void connected(int fd) {
  uint32_t number = births[fd];
  states[fd] = CONNECTED;
  result.came++;
  if (plan.kind == FLOOD_SAY) {
    (void)send(fd, plan.texts + (size_t)(number % plan.text_num) * plan.text_size, plan.text_size,
               MSG_NOSIGNAL);
  }
  if (plan.kind == FLOOD_CLOSE || (plan.kind == FLOOD_SAY && number % 2 == 0)) {
    leave(fd, number % 4 < 2);
  }
}

static void look(int milliseconds) {
  struct epoll_event events[EVENTS];
  int num = epoll_wait(watch, events, EVENTS, milliseconds);
  for (int i = 0; i < num; i++) {
    int fd = events[i].data.fd;
    if (states[fd] == 0) continue;
    if (states[fd] == CONNECTING) {
      if (events[i].events & EPOLLERR) {
        result.failed++;
        leave(fd, false);
        continue;
      }
      connected(fd);
    }
    if (states[fd] != 0 && events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) leave(fd, true);
  }
}

static void tell_begun(void) {
  pthread_mutex_lock(&lock);
  begun = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void *run(void *arg) {
  double since = now();
  (void)arg;
  while (!atomic_load(&over)) {
    uint64_t due = (uint64_t)((now() - since) * plan.rate);
    for (int i = 0; i < AT_ONCE && result.begun < due; i++)
      begin_one();
    look(result.begun < due ? 0 : 1);
    if (result.begun >= plan.first && !begun) tell_begun();
  }
  result.seconds = now() - since;
  for (uint32_t fd = 0; fd < state_num; fd++) {
    if (states[fd] != 0) leave((int)fd, true);
  }
  return NULL;
}

bool flood_begin(const struct flood_plan *of) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  plan = *of;
  memset(&result, 0, sizeof result);
  memset(ring, 0xff, sizeof ring);
  state_num = files.rlim_cur < FILES ? (uint32_t)files.rlim_cur : FILES;
  states = calloc(state_num, sizeof *states);
  births = calloc(state_num, sizeof *births);
  watch = epoll_create1(EPOLL_CLOEXEC);
  begun = false;
  atomic_store(&over, false);
  if (states == NULL || births == NULL || watch < 0) return false;
  if (pthread_create(&thread, NULL, run, NULL) != 0) return false;
  pthread_mutex_lock(&lock);
  while (!begun)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return true;
}

struct flood_result flood_end(void) {
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  close(watch);
  free(states);
  free(births);
  return result;
}
