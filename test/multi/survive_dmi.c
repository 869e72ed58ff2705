/*
 * survive_dmi.c - a program whose processes are killed, and which its script directs line by line.
 *
 *   dmirun survive_dmi main     the agent of the first process is DMI_main: it must not be killed
 *   dmirun survive_dmi          it is a DMI thread, as everywhere else, and DMI_main returns
 *
 * Each process has an agent, a thread that carries out commands from stdin, "NUMBER VERB ...", and
 * answers "re NUMBER ..." on stdout.  So nothing that the test must know is in global memory, which
 * may be lost.  Beside it there are workers.  A *slot* is a page of words: each worker adds 1 to a
 * word that nobody else changes, in every slot in turn, and reads all words of it.
 *
 * A word is a generation and a count.  The worker knows what its word must be: an addition that was
 * done twice, or never, is seen at the next one.  Other words never go back.  After DMI_ELOST of an
 * addition its word may be one more; a page that is lost gets a new generation (`take`).
 */
#include <pthread.h>

#include "dmi_ext.h"
#include "multi.h"

#define SLOTS 64
#define WORDS 64 /* of a slot: so many workers at most at a time, numbers from 1 */

/* Where the slots are: the same in all processes. */
struct slot {
  int64_t addr; /* 0: there is none */
  bool roams;   /* its owner changes all the time */
};

static struct slot slots[SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- What is asked of the processes -------------------------------------------------------- */

enum fault { NONE, TWICE, BACK, DEAF }; /* on purpose: the checks must notice it */

static _Atomic int stopped;           /* the workers of this process return */
static _Atomic int fault;             /* enum fault, of this process */
static _Atomic int64_t rounds[WORDS]; /* of a worker here: how often it was at all slots */
static _Atomic int64_t losses[SLOTS]; /* calls that failed with DMI_ELOST */
static _Atomic int running;           /* workers here */
static _Atomic int64_t done_here;     /* calls that succeeded */
static DMI_thread_t handles[WORDS];   /* workers that this process has created */

/* ---- A worker ------------------------------------------------------------------------------ */

/* What it knows of a slot. */
struct memory {
  int64_t addr;        /* of this page */
  int64_t seen[WORDS]; /* the newest value of each word */
  bool exact;          /* its own word must be seen[me] */
  bool doubt;          /* or one more */
};

#define GENERATION(word) ((word) >> 32)
#define COUNT(word) ((word)&0xffffffff)

/* The own word is `now`. */
static void own_word(struct memory *memory, int me, int slot, int64_t now) {
  const int64_t known = memory->seen[me];
  if (memory->exact && GENERATION(now) == GENERATION(known)) {
    check_that(now == known || (memory->doubt && now == known + 1), AT,
               "slot %d: worker %d has added %" PRId64 "%s, and finds %" PRId64, slot, me,
               COUNT(known), memory->doubt ? " or one more" : "", COUNT(now));
  } else if (memory->exact) {
    /* A call that failed may have added to the renewed page, before that one's owner was lost. */
    check_that(GENERATION(now) > GENERATION(known) && COUNT(now) <= memory->doubt, AT,
               "slot %d: worker %d finds %" PRIx64 " after %" PRIx64 "%s", slot, me, now, known,
               memory->doubt ? " or one more" : "");
  } else {
    IS(now >= known);
  }
  memory->seen[me] = now;
  memory->exact = true;
  memory->doubt = false;
}

/* A call has succeeded; or it has failed, as it may if a process was lost. */
static bool succeeds(int32_t ret, int slot) {
  if (ret == DMI_TRUE) {
    atomic_fetch_add(&done_here, 1);
    return true;
  }
  check_that(DMI_errno() == DMI_ELOST, AT, "slot %d: %s", slot, DMI_strerror(DMI_errno()));
  atomic_fetch_add(&losses[slot], 1);
  return false;
}

static void add_one(struct memory *memory, const struct slot *slot, int number, int me,
                    uint64_t *rng) {
  const int8_t mode = slot->roams ? any_atomic(rng) : DMI_PUT_ATOMIC;
  int64_t before;
  if (!succeeds(DMI_fad(slot->addr + 8 * me, 1, &before, mode, NULL), number)) {
    memory->doubt = true;
    return;
  }
  own_word(memory, me, number, before);
  memory->seen[me] = before + 1;
}

static void look(struct memory *memory, const struct slot *slot, int number, int me,
                 uint64_t *rng) {
  int64_t words[WORDS];
  if (!succeeds(DMI_read(slot->addr, sizeof(words), words, any_read(rng), NULL), number)) return;
  for (int i = 0; i < WORDS; i++) {
    if (i == me) {
      own_word(memory, me, number, words[i]);
    } else {
      check_that(words[i] >= memory->seen[i], AT,
                 "slot %d: word %d goes back from %" PRIx64 " to %" PRIx64, number, i,
                 memory->seen[i], words[i]);
      memory->seen[i] = words[i];
    }
  }
}

/* What a faulty library would do, at the first slot there is. */
static void misbehave(const struct slot *slot, int me) {
  const int what = atomic_exchange(&fault, NONE);
  if (what == TWICE) OK(DMI_fad(slot->addr + 8 * me, 1, NULL, DMI_PUT_ATOMIC, NULL));
  if (what == BACK) {
    for (int i = 1; i < WORDS; i++)
      if (i != me) OK(DMI_fad(slot->addr + 8 * i, -1, NULL, DMI_PUT_ATOMIC, NULL));
  }
  while (what == DEAF && !atomic_load(&stopped))
    look_again(1000);
}

static int64_t worker(int me) {
  struct memory *memories = my_malloc(SLOTS * sizeof(*memories));
  uint64_t rng = (uint64_t)now_ns() + (uint64_t)me;
  memset(memories, 0, SLOTS * sizeof(*memories));
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stopped)) {
    for (int i = 0; i < SLOTS && !atomic_load(&stopped); i++) {
      pthread_mutex_lock(&slots_lock);
      const struct slot slot = slots[i];
      pthread_mutex_unlock(&slots_lock);
      if (!slot.addr) continue;
      if (memories[i].addr != slot.addr) memories[i] = (struct memory){.addr = slot.addr};
      add_one(&memories[i], &slot, i, me, &rng);
      look(&memories[i], &slot, i, me, &rng);
      if (atomic_load(&fault)) misbehave(&slot, me);
    }
    atomic_fetch_add(&rounds[me], 1);
    look_again(1000);
  }
  my_free(memories);
  atomic_store(&rounds[me], 0);
  atomic_fetch_sub(&running, 1);
  return me;
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* A command, and what may be waited for beside others. */
struct order {
  int number;
  char verb[16];
  int64_t args[4];
};

/* Its outcome. */
static void reply(const struct order *order, int32_t ret) {
  say("re %d %s", order->number, ret ? "ok" : DMI_strerrorname(DMI_errno()));
}

/* ---- Commands ------------------------------------------------------------------------------ */

static void map(const struct order *order) {
  int64_t addr;
  if (DMI_mmap(&addr, 8 * WORDS, 1, NULL))
    say("re %d ok %" PRId64, order->number, addr);
  else
    reply(order, DMI_FALSE);
}

/* Becomes the owner of a slot; if it is lost, all words begin again, in this generation. */
static void take(const struct order *order) {
  int64_t words[WORDS], before;
  const int64_t addr = slots[order->args[0]].addr;
  if (DMI_fad(addr, 0, &before, DMI_EXCLUSIVE_ATOMIC, NULL)) {
    say("re %d ok kept", order->number);
    return;
  }
  EQ(DMI_errno(), DMI_ELOST);
  for (int i = 0; i < WORDS; i++)
    words[i] = order->args[1] << 32;
  if (OK(DMI_write(addr, sizeof(words), words, DMI_EXCLUSIVE_WRITE, NULL)))
    say("re %d ok renewed", order->number);
  else
    reply(order, DMI_FALSE);
}

/* A word as it is in global memory. */
static void show_word(const struct order *order) {
  int64_t word;
  const int64_t addr = slots[order->args[0]].addr + 8 * order->args[1];
  if (DMI_read(addr, sizeof(word), &word, DMI_GET_READ, NULL))
    say("re %d ok %" PRId64, order->number, word);
  else
    reply(order, DMI_FALSE);
}

/* Waits until so many workers here have been at all slots since now. */
static void go(const struct order *order) {
  int64_t before[WORDS], num = -1;
  for (int i = 1; i < WORDS; i++)
    before[i] = atomic_load(&rounds[i]);
  for (int64_t looks = 0; num < order->args[0]; looks++) {
    num = 0;
    for (int i = 1; i < WORDS; i++)
      num += atomic_load(&rounds[i]) >= before[i] + 2;
    if (num < order->args[0]) look_again(looks);
  }
  say("re %d ok %" PRId64, order->number, num);
}

/* Waits until no worker is at anything here any more. */
static void stop(const struct order *order) {
  atomic_store(&stopped, 1);
  for (int64_t looks = 0; atomic_load(&running); looks++)
    look_again(looks);
  reply(order, DMI_TRUE);
}

static void tell(const struct order *order) {
  flockfile(stdout);
  printf("re %d ok done %" PRId64 " failed %" PRId64 " lost", order->number,
         atomic_load(&done_here), atomic_load(&checks_failed));
  for (int i = 0; i < SLOTS; i++)
    if (losses[i]) printf(" %d:%" PRId64, i, atomic_load(&losses[i]));
  say("%s", "");
  funlockfile(stdout);
}

static void create(const struct order *order) {
  const int64_t worker = order->args[1]; /* 0: an agent */
  DMI_thread_t *thread = &handles[worker];
  const int32_t ret = DMI_create(thread, (int32_t)order->args[0], worker, NULL);
  if (ret && worker == 0) OK(DMI_detach(*thread, NULL));
  reply(order, ret);
}

static void poll_notice(const struct order *order) {
  static const char *const states[] = {"", "open", "close", "opened", "lost"};
  DMI_node_t node;
  if (DMI_poll(&node))
    say("re %d ok %s %d", order->number, states[node.state], node.dmi_id);
  else
    reply(order, DMI_FALSE);
}

/* A worker that a lost process has created is joined by nobody, and an agent that has answered
 * `quit` still runs for a moment. */
static void dismiss(const struct order *order) {
  int32_t ret;
  for (int64_t looks = 0;; looks++) {
    ret = DMI_goodbye((int32_t)order->args[0]);
    if (ret || DMI_errno() != DMI_EBUSY) break;
    look_again(looks);
  }
  reply(order, ret);
}

/* Commands that wait for others, each in a thread of its own. */
static void *wait_for_others(void *arg) {
  struct order *order = arg;
  const int32_t id = (int32_t)order->args[0];
  if (strcmp(order->verb, "go") == 0) go(order);
  if (strcmp(order->verb, "stop") == 0) stop(order);
  if (strcmp(order->verb, "take") == 0) take(order);
  if (strcmp(order->verb, "map") == 0) map(order);
  if (strcmp(order->verb, "word") == 0) show_word(order);
  if (strcmp(order->verb, "poll") == 0) poll_notice(order);
  if (strcmp(order->verb, "create") == 0) create(order);
  if (strcmp(order->verb, "welcome") == 0) reply(order, DMI_welcome(id));
  if (strcmp(order->verb, "goodbye") == 0) dismiss(order);
  if (strcmp(order->verb, "join") == 0) reply(order, DMI_join(handles[id], NULL, NULL));
  free(order);
  return NULL;
}

static void begin(const struct order *order) {
  pthread_t thread;
  struct order *copy = malloc(sizeof(*copy));
  if (copy == NULL) abort();
  *copy = *order;
  if (pthread_create(&thread, NULL, wait_for_others, copy) != 0) abort();
  pthread_detach(thread);
}

static void set_slot(const struct order *order) {
  pthread_mutex_lock(&slots_lock);
  slots[order->args[0]] = (struct slot){order->args[1], order->args[2] != 0};
  pthread_mutex_unlock(&slots_lock);
  reply(order, DMI_TRUE);
}

/* Does it at once; false: it is one that waits. */
static bool at_once(const struct order *order) {
  if (strcmp(order->verb, "slot") == 0) {
    set_slot(order);
  } else if (strcmp(order->verb, "tell") == 0) {
    tell(order);
  } else if (strcmp(order->verb, "fault") == 0) {
    atomic_store(&fault, (int)order->args[0]);
    reply(order, DMI_TRUE);
  } else {
    return false;
  }
  return true;
}

/* Until `quit`, or the end of stdin. */
static void agent(void) {
  char line[256];
  say("agent");
  while (fgets(line, sizeof(line), stdin)) {
    struct order order = {0};
    const int num =
        sscanf(line, "%d %15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &order.number,
               order.verb, &order.args[0], &order.args[1], &order.args[2], &order.args[3]);
    if (!IS(num >= 2)) continue;
    if (strcmp(order.verb, "quit") == 0) {
      reply(&order, DMI_TRUE);
      break;
    }
    if (!at_once(&order)) begin(&order);
  }
}

int64_t DMI_thread(int64_t number) {
  if (number) return worker((int)number);
  agent();
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  DMI_node_t node;
  MUST(DMI_poll(&node));
  MUST(DMI_welcome(node.dmi_id));
  say("first %d", node.dmi_id);
  if (argc > 1 && strcmp(argv[1], "main") == 0) {
    agent();
    return;
  }
  MUST(DMI_create(&thread, node.dmi_id, 0, NULL));
  MUST(DMI_detach(thread, NULL));
}
