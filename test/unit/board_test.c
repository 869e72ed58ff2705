/*
 * board_test.c - processes that meet at a board: the test is the owner of their barrier, and gets
 * their ARRIVEs by sockets.  All meet, round after round, also while processes are killed at any
 * moment and others begin in their places, and others write anything into the memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dmi_api.h"
#include "net/common.h"
#include "sync/board.h"

#define MOST 12 /* processes */
#define MEET 8  /* in most tests */
#define UIDS 4096
#define ROUNDS (1u << 20)
#define ADDR INT64_C(0x1000)

/* What all processes of the test see. */
struct world {
  _Atomic uint32_t losses;
  _Atomic uint32_t known[UIDS];     /* of these, by uid: those that the process knows of */
  _Atomic uint32_t gone[UIDS];      /* by uid: the loss in which it was lost; 0: it lives */
  _Atomic bool ends;                /* the program is to end */
  _Atomic uint64_t ended;           /* rounds that the owner has seen the end of */
  _Atomic uint32_t returns[ROUNDS]; /* by round: how many have returned from it */
  _Atomic uint32_t rounds[UIDS];    /* by uid: from how many rounds it has returned */
};

static struct world *world;
static struct dmi_common common; /* the board, as this process has it */
static struct dmi_board *board;
static dmi_uid_t self; /* of this process */

static bool is_small(void) {
  const char *scale = getenv("DMI_TEST_SCALE");
  return scale != NULL && strcmp(scale, "small") == 0;
}

static void *share(size_t size) {
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(memory != MAP_FAILED);
  return memory;
}

static int begin(void **state) {
  (void)state;
  world = share(sizeof(*world));
  self = 0;
  dmi_common_init(&common, dmi_board_size());
  assert_true(dmi_common_give(&common) >= 0);
  board = common.memory;
  return 0;
}

static int end(void **state) {
  (void)state;
  munmap(world, sizeof(*world));
  dmi_common_close(&common);
  return 0;
}

/* ---- A process ------------------------------------------------------------------------------ */

struct ask {
  struct dmi_board_round round;
  uint32_t num;
  double values[MOST];
};

struct told {
  int32_t error;
  struct dmi_arrived answer;
};

static int owner; /* the socket of this process */
static bool silent;

#define MUST(condition)                                                            \
  do {                                                                             \
    if (!(condition)) {                                                            \
      if (!silent) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                    \
    }                                                                              \
  } while (0)

static int32_t env_send(void *arg, const struct dmi_board_round *round, const unsigned char *input,
                        size_t size, struct dmi_arrived *answer) {
  struct ask ask = {.round = *round};
  struct told told;
  (void)arg;
  ask.num = (uint32_t)((size - sizeof(struct dmi_arrive)) / sizeof(double));
  MUST(ask.num >= 1 && ask.num <= MOST && ask.num <= round->pnum);
  memcpy(ask.values, input + sizeof(struct dmi_arrive), ask.num * sizeof(double));
  /* The test is over, or has given this process up. */
  if (send(owner, &ask, sizeof(ask), MSG_NOSIGNAL) != (ssize_t)sizeof(ask)) _exit(0);
  if (recv(owner, &told, sizeof(told), 0) != (ssize_t)sizeof(told)) _exit(0);
  *answer = told.answer;
  return told.error;
}

static bool env_is_late(void *arg, const struct dmi_board_round *round) {
  (void)arg;
  return atomic_load(&world->known[self]) > round->losses;
}

static bool env_lives(void *arg, dmi_uid_t uid) {
  (void)arg;
  const uint32_t gone = uid < UIDS ? atomic_load(&world->gone[uid]) : 1;
  return !gone || gone > atomic_load(&world->known[self]);
}

static bool env_ended(void *arg, uint64_t mark) {
  return !env_lives(arg, (dmi_uid_t)mark) && dmi_common_has_ended(&common, mark);
}

static bool env_ends(void *arg) {
  (void)arg;
  return atomic_load(&world->ends);
}

static void env_look(void *arg, const _Atomic uint64_t *word, uint64_t value) {
  (void)arg;
  for (int i = 0; i < 100 && atomic_load(word) == value; i++)
    continue;
}

#define PATIENCE 200000

static struct dmi_board_env env = {.patience = PATIENCE,
                                   .send = env_send,
                                   .is_late = env_is_late,
                                   .ends = env_ends,
                                   .lives = env_lives,
                                   .ended = env_ended,
                                   .look = env_look};

/* What a process does: meets `rounds` times (0: until it is killed), if `direct` without the
 * board.  Each brings 1. */
struct task {
  dmi_uid_t uid;
  uint32_t rounds;
  uint32_t pnum;
  bool direct;
};

static int32_t meet(struct dmi_board_seat *seat, const struct task *task,
                    const struct dmi_board_round *round, struct dmi_arrived *answer) {
  unsigned char input[sizeof(struct dmi_arrive) + sizeof(double)];
  const struct dmi_arrive head = {round->pnum, round->losses};
  const double one = 1;
  uint64_t bits;
  int32_t error;
  memcpy(&bits, &one, sizeof(bits));
  if (!task->direct) return dmi_board_meet(seat, round, bits, &env, answer);
  memcpy(input, &head, sizeof(head));
  memcpy(input + sizeof(head), &one, sizeof(one));
  error = env_send(NULL, round, input, sizeof(input), answer);
  if (error == DMI_OK && answer->taken == DMI_ARRIVED_LATE) return DMI_EBROKEN;
  return error;
}

/* No more return from a round than have met there. */
static void count_return(const struct task *task, uint64_t generation) {
  const uint64_t round = generation * DMI_SYNC_COUNT;
  MUST(round < ROUNDS && atomic_fetch_add(&world->returns[round], 1) < task->pnum);
  atomic_fetch_add(&world->rounds[self], 1);
}

/* The board's memory, by an open file of this process. */
static void open_board(const struct task *task) {
  struct dmi_common mine;
  dmi_common_init(&mine, dmi_board_size());
  dmi_common_take(&mine, dup(common.fd));
  common = mine;
  board = common.memory;
  MUST(board && dmi_common_hold(&common, task->uid));
}

static void run(const struct task *task) {
  struct dmi_board_seat seat;
  uint32_t losses;
  self = task->uid;
  open_board(task);
  losses = atomic_load(&world->known[self]);
  MUST(dmi_board_sit(board, ADDR, task->uid, &env, &seat));
  for (uint32_t r = 0; !task->rounds || r < task->rounds;) {
    const struct dmi_board_round round = {task->pnum, losses, 0};
    struct dmi_arrived answer;
    int32_t error = DMI_OK;
    if (atomic_load(&world->known[self]) != losses) error = DMI_EBROKEN;
    if (error == DMI_OK) error = meet(&seat, task, &round, &answer);
    if (seat.given_up) MUST(dmi_board_sit(board, ADDR, task->uid, &env, &seat));
    if (error == DMI_EEND && atomic_load(&world->ends)) break;
    if (error == DMI_EBROKEN) { /* once for each loss, or for some at once */
      MUST(losses != atomic_load(&world->known[self]));
      losses = atomic_load(&world->known[self]);
      continue;
    }
    if (error != DMI_OK || answer.taken != 1 || answer.sum != round.pnum) {
      if (!silent)
        fprintf(stderr, "uid %u, round %u: error %d, taken %d, sum %g of %u\n", task->uid, r, error,
                (int)answer.taken, answer.sum, round.pnum);
      _exit(1);
    }
    count_return(task, answer.generation);
    r++;
  }
  dmi_board_rise(&seat, &env);
}

/* ---- The owner ------------------------------------------------------------------------------ */

struct member {
  struct task task;
  pid_t pid;
  int socket;                /* -1: it has ended */
  uint32_t waits;            /* its arrivals in the round; 0: none */
  struct dmi_board_round of; /* the round */
};

static struct member members[MOST];
static uint32_t member_num, arrived, asked;
static double sum;

static void start(uint32_t at, const struct task *task) {
  int two[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, two), 0);
  members[at] = (struct member){.task = *task, .socket = two[0]};
  atomic_store(&world->known[task->uid], atomic_load(&world->losses));
  members[at].pid = fork();
  assert_true(members[at].pid >= 0);
  if (members[at].pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t i = 0; i <= at || i < member_num; i++)
      if (members[i].socket >= 0) close(members[i].socket);
    owner = two[1];
    run(task);
    _exit(0);
  }
  close(two[1]);
  if (member_num <= at) member_num = at + 1;
}

static void tell(struct member *member, int32_t error, uint64_t taken) {
  const struct told told = {error, {taken, sum, (atomic_load(&world->ended) + 1) * DMI_SYNC_UNIT}};
  member->waits = 0;
  (void)send(member->socket, &told, sizeof(told), MSG_NOSIGNAL);
}

/* As `arrive` of core/syncop.c. */
static void take(struct member *member, const struct ask *ask) {
  const uint32_t losses = atomic_load(&world->losses);
  asked++;
  assert_true(ask->num >= 1 && ask->num <= MOST);
  if (atomic_load(&world->ends)) {
    tell(member, DMI_EEND, 0);
    return;
  }
  if (ask->round.losses != losses) {
    tell(member, DMI_OK, DMI_ARRIVED_LATE);
    return;
  }
  if (!arrived) sum = 0;
  member->of = ask->round;
  member->waits = ask->round.pnum - arrived < ask->num ? ask->round.pnum - arrived : ask->num;
  for (uint32_t i = 0; i < member->waits; i++)
    sum += ask->values[i];
  arrived += member->waits;
  if (arrived < ask->round.pnum) return;
  arrived = 0;
  for (uint32_t i = 0; i < member_num; i++)
    if (members[i].waits) tell(&members[i], DMI_OK, members[i].waits);
  atomic_fetch_add(&world->ended, 1);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int limit_ms(void) {
  const char *slow = getenv("DMI_TEST_SLOW");
  int factor = slow != NULL ? atoi(slow) : 1;
  return 60000 * (factor > 0 ? factor : 1);
}

/* Serves until all have ended, or `ended` rounds have, or for `ms` at most (negative: as long as a
 * test may take; then it fails). */
static void serve(uint64_t ended, int ms) {
  const int64_t until = now_ms() + (ms >= 0 ? ms : limit_ms());
  while (atomic_load(&world->ended) < ended) {
    struct pollfd fds[MOST];
    uint32_t left = 0;
    for (uint32_t i = 0; i < member_num; i++) {
      fds[i] = (struct pollfd){.fd = members[i].socket, .events = POLLIN};
      left += members[i].socket >= 0;
    }
    if (!left) return;
    const int64_t wait = until - now_ms();
    if (wait <= 0 || poll(fds, member_num, (int)wait) == 0) {
      if (ms >= 0) return;
      fail_msg("no round has ended for too long: %u have arrived", arrived);
    }
    for (uint32_t i = 0; i < member_num; i++) {
      struct ask ask;
      if (!fds[i].revents || members[i].socket < 0) continue;
      if (recv(members[i].socket, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask)) {
        take(&members[i], &ask);
        continue;
      }
      int status;
      close(members[i].socket);
      members[i].socket = -1;
      assert_int_equal(waitpid(members[i].pid, &status, 0), members[i].pid);
      assert_int_equal(status, 0);
    }
  }
}

static void ring_all(void) {
  struct dmi_board_seat bell = {.board = board};
  for (bell.table = 0; bell.table < DMI_BOARD_TABLES; bell.table++)
    dmi_board_ring(&bell);
}

/* A process gets to know of all losses. */
static void learn(dmi_uid_t uid) {
  atomic_store(&world->known[uid], atomic_load(&world->losses));
  ring_all();
}

static void kill_process(pid_t pid) {
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Kills one, or stops it for a while, and starts another in its place.  The others get to know of
 * it one after another. */
static void lose(uint32_t at, dmi_uid_t uid, unsigned *seed) {
  struct task task = members[at].task;
  const uint32_t first = (uint32_t)rand_r(seed) % member_num;
  const bool stops = rand_r(seed) % 4 == 0;
  const pid_t pid = members[at].pid;
  if (stops) {
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
  } else {
    kill_process(pid);
  }
  close(members[at].socket);
  members[at].socket = -1;
  members[at].waits = 0;
  atomic_store(&world->gone[task.uid], atomic_fetch_add(&world->losses, 1) + 1);
  arrived = 0;
  for (uint32_t i = 0; i < member_num; i++)
    if (members[i].waits) tell(&members[i], DMI_EBROKEN, 0);
  task.uid = uid;
  start(at, &task);
  for (uint32_t i = 0; i < member_num; i++) {
    serve(UINT64_MAX, (int)(rand_r(seed) % 2));
    learn(members[(first + i) % member_num].task.uid);
  }
  if (!stops) return;
  serve(UINT64_MAX, 2);
  kill(pid, SIGCONT); /* it may still write what it was about to write */
  serve(UINT64_MAX, 2);
  kill_process(pid);
}

static void start_all(uint32_t num, const struct task *as) {
  member_num = arrived = asked = 0;
  for (uint32_t i = 0; i < MOST; i++)
    members[i].socket = -1;
  for (uint32_t i = 0; i < num; i++) {
    struct task task = *as;
    task.uid = i + 1;
    if (!task.pnum) task.pnum = num;
    if (i) task.direct = false;
    start(i, &task);
  }
}

static void kill_all(void) {
  for (uint32_t i = 0; i < member_num; i++) {
    if (members[i].socket < 0) continue;
    kill(members[i].pid, SIGKILL);
    assert_int_equal(waitpid(members[i].pid, NULL, 0), members[i].pid);
    close(members[i].socket);
  }
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* All in each round: the last one to come sends all, however slow they are. */
static void test_together(void **state) {
  const uint32_t rounds = is_small() ? 200 : 2000;
  (void)state;
  env.patience = INT64_C(1000000000000);
  start_all(MEET, &(struct task){.rounds = rounds});
  env.patience = PATIENCE;
  serve(UINT64_MAX, -1);
  assert_int_equal(atomic_load(&world->ended), rounds);
  assert_int_equal(asked, rounds);
}

/* Any three of eight make a round; and one of them does not use the board. */
static void test_others(void **state) {
  const uint32_t rounds = is_small() ? 150 : 1500;
  (void)state;
  start_all(MEET, &(struct task){.rounds = 0, .pnum = 3, .direct = true});
  serve(rounds, -1);
  print_message("%u rounds of 3 of %d: %u messages\n", rounds, MEET, asked);
  kill_all();
}

/* All but one use the board, on which as many are expected at first as meet. */
static void test_fewer(void **state) {
  const uint32_t rounds = 50;
  (void)state;
  start_all(MEET, &(struct task){.rounds = rounds, .direct = true});
  serve(UINT64_MAX, -1);
  assert_int_equal(atomic_load(&world->ended), rounds);
  print_message("%u rounds, one of %d alone: %u messages\n", rounds, MEET, asked);
}

static uint32_t least_rounds(void) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < member_num; i++) {
    const uint32_t rounds = atomic_load(&world->rounds[members[i].task.uid]);
    if (rounds < least) least = rounds;
  }
  return least;
}

/* More processes want to meet than a round has room for: none of them is passed over for long.  Of
 * 3 rounds each has a part in about 2.  How they get processors plays a part, too: so they have
 * several times as many rounds for it.  Of those that were passed over, one had a part in a
 * hundredth. */
static void test_fair(void **state) {
  const uint32_t rounds = is_small() ? 1000 : 4000;
  uint32_t least = 0, had = 0;
  uint64_t begun;
  (void)state;
  start_all(MOST, &(struct task){.rounds = 0, .pnum = MEET});
  while (!least_rounds()) /* all have begun */
    serve(atomic_load(&world->ended) + 1, -1);
  begun = atomic_load(&world->ended);
  for (uint32_t i = 0; i < member_num; i++)
    atomic_store(&world->rounds[members[i].task.uid], 0);
  while (had < 10 * rounds && least < had / 8 + 1) {
    had += rounds;
    serve(begun + had, -1);
    least = least_rounds();
  }
  print_message("%u rounds of %d of %d: each had a part in %u or more\n", had, MEET, MOST, least);
  assert_true(least > had / 8);
  kill_all();
}

/* It waits for others, while the bell rings all the time: that does not begin its time anew. */
static void test_rung(void **state) {
  const int64_t until = now_ms() + limit_ms();
  struct pollfd fd = {.events = POLLIN};
  (void)state;
  env.patience = INT64_C(500000000);
  start_all(1, &(struct task){.rounds = 0, .pnum = MEET});
  env.patience = PATIENCE;
  fd.fd = members[0].socket;
  while (poll(&fd, 1, 0) == 0) {
    assert_true(now_ms() < until);
    ring_all();
  }
  kill_all();
}

/* They are killed at any moment, more often than there are seats. */
static void test_killed(void **state) {
  const uint32_t kills = is_small() ? 60 : DMI_BOARD_SEATS + 88;
  unsigned seed = (unsigned)getpid();
  (void)state;
  print_message("seed %u\n", seed);
  start_all(MEET, &(struct task){.rounds = 0});
  for (uint32_t i = 0; i < kills; i++) {
    serve(UINT64_MAX, (int)(rand_r(&seed) % 4));
    for (volatile int wait = (int)(rand_r(&seed) % 20000); wait > 0; wait--)
      continue;
    lose((uint32_t)rand_r(&seed) % MEET, MEET + 1 + i, &seed);
  }
  serve(atomic_load(&world->ended) + 50, -1);
  kill_all();
}

/* The program is to end while one that has taken the arrivals of others is stopped, or was killed:
 * nobody is told of a loss then, and none of them waits for it. */
static void end_without(bool killed) {
  uint32_t taker = MOST;
  start_all(MEET, &(struct task){.rounds = 0});
  serve(10, -1);
  while (taker == MOST) { /* its ARRIVE gets no answer */
    struct pollfd fds[MOST];
    for (uint32_t i = 0; i < member_num; i++)
      fds[i] = (struct pollfd){.fd = members[i].socket, .events = POLLIN};
    assert_true(poll(fds, member_num, limit_ms()) > 0);
    for (uint32_t i = 0; i < member_num && taker == MOST; i++) {
      struct ask ask;
      if (!fds[i].revents) continue;
      assert_int_equal(recv(members[i].socket, &ask, sizeof(ask), 0), sizeof(ask));
      if (ask.num > 1) {
        taker = i;
      } else {
        take(&members[i], &ask);
      }
    }
  }
  if (killed) {
    kill_process(members[taker].pid);
  } else {
    kill(members[taker].pid, SIGSTOP);
    assert_int_equal(waitpid(members[taker].pid, NULL, WUNTRACED), members[taker].pid);
  }
  atomic_store(&world->ends, true);
  ring_all();
  for (uint32_t i = 0; i < member_num; i++)
    if (i != taker && members[i].waits) tell(&members[i], DMI_EEND, 0);
  const int socket = members[taker].socket;
  members[taker].socket = -1;
  serve(UINT64_MAX, -1); /* all others end, with status 0 */
  close(socket);
  if (!killed) kill_process(members[taker].pid);
  atomic_store(&world->ends, false);
}

static void test_end(void **state) {
  for (int i = 0; i < 10; i++) {
    end_without(i % 2 == 0);
    assert_int_equal(end(state), 0);
    assert_int_equal(begin(state), 0);
  }
}

/* Whoever writes anything there: the others may wait for ever, and nothing else. */
static void test_nonsense(void **state) {
  unsigned char *bytes = (unsigned char *)board;
  unsigned seed = (unsigned)getpid();
  (void)state;
  print_message("seed %u\n", seed);
  silent = true;
  start_all(MEET, &(struct task){.rounds = 0});
  serve(20, -1);
  for (int i = 0; i < (is_small() ? 20 : 200); i++) {
    for (int j = 0; j < 1000; j++) {
      const size_t table = dmi_board_size() / DMI_BOARD_TABLES * ((size_t)rand_r(&seed) % 64);
      const size_t at = (size_t)rand_r(&seed) % 2048;
      bytes[table + at] = (unsigned char)(rand_r(&seed) % 3 ? rand_r(&seed) % 8 : rand_r(&seed));
    }
    for (uint32_t m = 0; m < member_num; m++) { /* as far as they come */
      struct ask ask;
      int status;
      if (recv(members[m].socket, &ask, sizeof(ask), MSG_DONTWAIT) == (ssize_t)sizeof(ask))
        tell(&members[m], DMI_OK, ask.num);
      if (waitpid(members[m].pid, &status, WNOHANG) == members[m].pid) {
        assert_true(WIFEXITED(status)); /* it has seen a wrong sum */
        close(members[m].socket);
        start(m, &members[m].task);
      }
    }
  }
  kill_all();
  silent = false;
}

/* Seats are given back, and tables are used again, though a process was lost there. */
static void test_seats(void **state) {
  static struct dmi_board_seat seats[DMI_BOARD_SEATS], one;
  (void)state;
  for (uint32_t i = 0; i < DMI_BOARD_SEATS; i++)
    assert_true(dmi_board_sit(board, ADDR, i + 1, &env, &seats[i]));
  assert_false(dmi_board_sit(board, ADDR, UIDS - 1, &env, &one));
  dmi_board_rise(&seats[6], &env);
  assert_true(dmi_board_sit(board, ADDR, UIDS - 1, &env, &one));
  assert_int_equal(one.seat, 6);
  dmi_board_rise(&one, &env);
  atomic_store(&world->gone[8], 1);
  atomic_store(&world->losses, 1);
  atomic_store(&world->known[self], 1);
  assert_true(dmi_board_sit(board, ADDR, UIDS - 1, &env, &one)); /* in the place of that one */
  assert_int_equal(one.seat, 6);
  assert_true(dmi_board_sit(board, ADDR, UIDS - 2, &env, &seats[7]));
  assert_int_equal(seats[7].seat, 7);
  assert_false(dmi_board_sits(&(struct dmi_board_seat){board, 8, seats[7].table, 7, false}));
  atomic_store(&world->gone[UIDS - 2], 1);
  dmi_board_rise(&one, &env);
  for (uint32_t i = 0; i < DMI_BOARD_SEATS; i++)
    if (i != 6 && i != 7) dmi_board_rise(&seats[i], &env);
  for (int64_t addr = ADDR; addr < ADDR + 1000; addr++) {
    assert_true(dmi_board_sit(board, addr, 1, &env, &one));
    dmi_board_rise(&one, &env);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_together, begin, end),
      cmocka_unit_test_setup_teardown(test_others, begin, end),
      cmocka_unit_test_setup_teardown(test_fewer, begin, end),
      cmocka_unit_test_setup_teardown(test_fair, begin, end),
      cmocka_unit_test_setup_teardown(test_rung, begin, end),
      cmocka_unit_test_setup_teardown(test_killed, begin, end),
      cmocka_unit_test_setup_teardown(test_end, begin, end),
      cmocka_unit_test_setup_teardown(test_nonsense, begin, end),
      cmocka_unit_test_setup_teardown(test_seats, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
