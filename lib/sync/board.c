/*
 * board.c - see board.h.
 *
 * Each process has a *seat* at a barrier, in which it alone announces arrivals, by one word:
 *
 *    FREE --arrives--> WAITING --somebody takes it, to send it--> TAKEN --answered--> DONE, AGAIN,
 *      ^                  |                                        |                   FAILED
 *      |                  +-- a loss: withdraws --> FREE           +-- the one that      |
 *      |                                                               took it is lost:  |
 *      +---------------------- reads the answer -------------------    the seat is given |
 *                                                                      up                v
 *
 * The words of the seats are all that counts. Which arrival is the last one of this host, and sends
 * them all, is found out by counting (`coming`), which may be wrong: a process may be killed before
 * it has counted. So the first one that waits sends what there is after `patience`, and everybody
 * after LONG times that.
 *
 * Must not: trust the memory (any process of the program may write anything there); hold anything
 * in it that another one would have to wait for, but TAKEN, whose taker is named.
 */
#include "sync/board.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "dmi_api.h"

#define LONG 100 /* so many times the patience is what every arrival waits */
#define PUT_OFF_MOST 50
#define PROBES 4u /* tables at which a barrier may be found */
#define LINE 64

enum state { FREE, WAITING, TAKEN, DONE, AGAIN, FAILED };

/* A word: state in 3 bits, number of the arrival in 29, the uid of who took it in 32. */
#define STATE_BITS 3
#define NUMBER_MASK ((UINT64_C(1) << 32) - (1u << STATE_BITS))

struct seat {
  _Alignas(LINE) _Atomic uint64_t word;
  _Atomic uint64_t
      owner; /* mark of its process, or of who has to end before it is free; 0: nobody */
  /* of its arrival; valid while WAITING */
  _Atomic uint32_t pnum, losses;
  _Atomic uint32_t kind;
  _Atomic uint64_t addr;
  _Atomic uint64_t value;
  /* written by who took it; valid when DONE or FAILED */
  _Atomic uint64_t sum; /* FAILED: the error */
  _Atomic uint64_t generation;
};

struct table {
  _Alignas(LINE) _Atomic uint64_t addr; /* of the barrier; 0: none */
  _Atomic uint32_t used;                /* seats that were ever in use */
  /* hints */
  _Atomic uint64_t generation;            /* of the last round that is over */
  _Atomic uint64_t expected;              /* pnum of that round, and arrivals of this host in it */
  _Alignas(LINE) _Atomic uint64_t coming; /* of this round: see count */
  _Alignas(LINE) _Atomic uint32_t bell;   /* goes up when somebody was answered */
  _Atomic uint32_t asleep;                /* about how many sleep until then */
  struct seat seats[DMI_BOARD_SEATS];
};

struct dmi_board {
  struct table tables[DMI_BOARD_TABLES];
};

_Static_assert(sizeof(struct seat) == LINE, "a seat is a line of the cache");

size_t dmi_board_size(void) {
  return sizeof(struct dmi_board);
}

static struct table *table_of(const struct dmi_board_seat *at) {
  return &at->board->tables[at->table];
}

static struct seat *seat_of(const struct dmi_board_seat *at) {
  return &table_of(at)->seats[at->seat];
}

static enum state state_of(uint64_t word) {
  return (enum state)(word & ((1u << STATE_BITS) - 1));
}

/* The same arrival in another state. */
static uint64_t with_state(uint64_t word, enum state state) {
  return (word & NUMBER_MASK) | (uint64_t)state;
}

static uint64_t next_arrival(uint64_t word, enum state state) {
  return ((word + (1u << STATE_BITS)) & NUMBER_MASK) | (uint64_t)state;
}

static dmi_uid_t taker_of(uint64_t word) {
  return (dmi_uid_t)(word >> 32);
}

/* ---- Seats ---------------------------------------------------------------------------------- */

static uint32_t hash_of(uint64_t number) {
  return (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* The mark of a process of the same program. */
static uint64_t mark_of(uint64_t mark, dmi_uid_t uid) {
  return (mark & ~(uint64_t)UINT32_MAX) | uid;
}

static bool is_ended(uint64_t owner, const struct dmi_board_env *env) {
  return !owner || env->ended(env->arg, owner);
}

/* True if who took the arrival of this seat may still write the answer there. */
static bool is_in_hand(uint64_t word, uint64_t owner, const struct dmi_board_env *env) {
  return state_of(word) == TAKEN && !env->ended(env->arg, mark_of(owner, taker_of(word)));
}

/* Takes the seat if nobody may write there: its process has ended, and so has who took its arrival,
 * or that one has answered. */
static bool take_seat(struct seat *seat, uint64_t mark, const struct dmi_board_env *env) {
  uint64_t owner = atomic_load(&seat->owner), before = owner ? owner : mark;
  uint64_t word = atomic_load(&seat->word);
  if (!is_ended(owner, env) || is_in_hand(word, before, env) ||
      !atomic_compare_exchange_strong(&seat->owner, &owner, mark))
    return false;
  /* An arrival of who has ended may be taken until here. */
  word = atomic_load(&seat->word);
  while (state_of(word) == WAITING &&
         !atomic_compare_exchange_weak(&seat->word, &word, with_state(word, FREE)))
    continue;
  if (!is_in_hand(word, before, env)) return true;
  atomic_store(&seat->owner, owner);
  return false;
}

/* How many seats are to be looked at. */
static uint32_t used_of(struct table *table) {
  const uint32_t used = atomic_load(&table->used);
  return used < DMI_BOARD_SEATS ? used : DMI_BOARD_SEATS;
}

static bool find_seat(struct table *table, uint64_t mark, const struct dmi_board_env *env,
                      uint32_t *found) {
  for (uint32_t i = 0; i < DMI_BOARD_SEATS; i++) {
    uint32_t used;
    if (!take_seat(&table->seats[i], mark, env)) continue;
    used = atomic_load(&table->used);
    while (used <= i && !atomic_compare_exchange_weak(&table->used, &used, i + 1))
      continue;
    *found = i;
    return true;
  }
  return false;
}

/* True if all that had seats have risen or ended. */
static bool is_empty(struct table *table, const struct dmi_board_env *env) {
  for (uint32_t i = 0; i < used_of(table); i++)
    if (!is_ended(atomic_load(&table->seats[i].owner), env)) return false;
  return true;
}

/* The table of the barrier, or a free one, or one that nobody uses any more. */
static bool find_table(struct dmi_board *board, uint64_t addr, const struct dmi_board_env *env,
                       uint32_t *found) {
  for (uint32_t i = 0; i < 3 * PROBES; i++) {
    _Atomic uint64_t *at;
    uint64_t is;
    *found = (hash_of(addr) + i % PROBES) % DMI_BOARD_TABLES;
    at = &board->tables[*found].addr;
    is = atomic_load(at);
    if (is == addr) return true;
    if (i < PROBES || (is && (i < 2 * PROBES || !is_empty(&board->tables[*found], env)))) continue;
    if (atomic_compare_exchange_strong(at, &is, addr) || is == addr) return true;
  }
  return false;
}

bool dmi_board_sits(const struct dmi_board_seat *at) {
  return atomic_load(&seat_of(at)->owner) == at->mark &&
         atomic_load(&table_of(at)->addr) == atomic_load(&seat_of(at)->addr);
}

bool dmi_board_sit(struct dmi_board *board, int64_t addr, uint64_t mark,
                   const struct dmi_board_env *env, struct dmi_board_seat *at) {
  *at = (struct dmi_board_seat){.board = board, .mark = mark};
  if (find_table(board, (uint64_t)addr, env, &at->table) &&
      find_seat(table_of(at), mark, env, &at->seat)) {
    atomic_store(&seat_of(at)->addr, (uint64_t)addr);
    /* The last one that rose may have left the table meanwhile. */
    if (dmi_board_sits(at)) return true;
    atomic_store(&seat_of(at)->owner, 0);
  }
  at->board = NULL;
  return false;
}

void dmi_board_rise(struct dmi_board_seat *at, const struct dmi_board_env *env) {
  struct table *table;
  uint64_t addr;
  if (!at->board) return;
  table = table_of(at);
  addr = atomic_load(&seat_of(at)->addr);
  if (!at->given_up) atomic_store(&seat_of(at)->owner, 0);
  at->board = NULL;
  if (is_empty(table, env)) (void)atomic_compare_exchange_strong(&table->addr, &addr, 0);
}

/* ---- Counting: hints ------------------------------------------------------------------------ */

/* `coming`: which arrivals it counts in 24 bits, how many of this host came in this round in 20,
 * how many of them were taken in 20. */
#define COUNT_BITS 20
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t tag_of(const struct dmi_board_round *round) {
  const uint64_t mixed = (uint64_t)round->pnum << 32 | round->losses;
  return (uint64_t)(hash_of(mixed ^ (uint64_t)(uint8_t)round->kind << 48) & 0xffffffu)
         << (2 * COUNT_BITS);
}

static uint64_t came_of(uint64_t coming) {
  return coming >> COUNT_BITS & COUNT_MASK;
}

static uint64_t taken_of(uint64_t coming) {
  return coming & COUNT_MASK;
}

/* Adds to the counts of this round; returns them. */
static uint64_t count(struct table *table, const struct dmi_board_round *round, uint64_t came,
                      uint64_t taken) {
  const uint64_t tag = tag_of(round);
  uint64_t next, coming = atomic_load(&table->coming);
  do {
    next = (coming & ~(COUNT_MASK << COUNT_BITS | COUNT_MASK)) == tag ? coming : tag;
    next = tag | ((came_of(next) + came) & COUNT_MASK) << COUNT_BITS |
           ((taken_of(next) + taken) & COUNT_MASK);
  } while (!atomic_compare_exchange_weak(&table->coming, &coming, next));
  return next;
}

/* How many of this host are expected in a round. */
static uint64_t expected_of(struct table *table, const struct dmi_board_round *round) {
  const uint64_t expected = atomic_load(&table->expected);
  return expected >> 32 == round->pnum ? (uint32_t)expected : round->pnum;
}

/* A round is over: all arrivals from now on are of later ones.  Before its threads are told. */
static void count_end(struct table *table, const struct dmi_board_round *round,
                      uint64_t generation) {
  uint64_t last = atomic_load(&table->generation), coming;
  if (last == generation || !atomic_compare_exchange_strong(&table->generation, &last, generation))
    return; /* another one has sent a part of it */
  coming = atomic_exchange(&table->coming, tag_of(round));
  if (coming >> (2 * COUNT_BITS) == tag_of(round) >> (2 * COUNT_BITS))
    atomic_store(&table->expected, (uint64_t)round->pnum << 32 | came_of(coming));
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Arrivals that this thread has taken. */
struct taken {
  uint32_t num;
  uint32_t seat[DMI_BOARD_SEATS];
  uint64_t word[DMI_BOARD_SEATS];
  unsigned char input[sizeof(struct dmi_arrive) + DMI_BOARD_SEATS * sizeof(uint64_t)];
};

_Static_assert(sizeof(((struct taken *)0)->input) <= DMI_SYNC_ARRIVE_MOST, "one message");

static bool is_such(struct seat *seat, uint64_t addr, const struct dmi_board_round *round) {
  return atomic_load_explicit(&seat->addr, memory_order_relaxed) == addr &&
         atomic_load_explicit(&seat->pnum, memory_order_relaxed) == round->pnum &&
         atomic_load_explicit(&seat->losses, memory_order_relaxed) == round->losses &&
         atomic_load_explicit(&seat->kind, memory_order_relaxed) == (uint8_t)round->kind;
}

/* Takes one arrival, if it is such a one.  False: it is not, or another one has taken it. */
static bool take_one(const struct dmi_board_seat *at, uint32_t i, uint64_t addr,
                     const struct dmi_board_round *round, struct taken *taken) {
  struct seat *seat = &table_of(at)->seats[i];
  uint64_t value, mine, word = atomic_load(&seat->word);
  if (state_of(word) != WAITING || !is_such(seat, addr, round)) return false;
  value = atomic_load_explicit(&seat->value, memory_order_relaxed);
  mine = with_state(word, TAKEN) | at->mark << 32;
  /* Fails if it was taken, or is another arrival than the one whose value was read. */
  if (!atomic_compare_exchange_strong(&seat->word, &word, mine)) return false;
  memcpy(taken->input + sizeof(struct dmi_arrive) + taken->num * sizeof(value), &value,
         sizeof(value));
  taken->seat[taken->num] = i;
  taken->word[taken->num++] = mine;
  return true;
}

/* Its own arrival first.  If another one has that, it takes none: it might be answered already, and
 * the others might be in the next round, which waits for this very thread. */
static void take(const struct dmi_board_seat *at, const struct dmi_board_round *round,
                 struct taken *taken) {
  struct table *table = table_of(at);
  const uint64_t addr = atomic_load(&seat_of(at)->addr);
  const struct dmi_arrive head = {round->pnum, round->losses};
  const uint32_t used = used_of(table);
  taken->num = 0;
  memcpy(taken->input, &head, sizeof(head));
  if (!take_one(at, at->seat, addr, round, taken)) return;
  for (uint32_t i = 1; i < used && taken->num < round->pnum; i++)
    (void)take_one(at, (at->seat + i) % used, addr, round, taken);
  (void)count(table, round, 0, taken->num);
}

static void answer_one(struct seat *seat, uint64_t word, enum state state, uint64_t sum,
                       uint64_t generation) {
  if (atomic_load(&seat->word) != word) return; /* nonsense was written there */
  atomic_store_explicit(&seat->sum, sum, memory_order_relaxed);
  atomic_store_explicit(&seat->generation, generation, memory_order_relaxed);
  (void)atomic_compare_exchange_strong(&seat->word, &word, with_state(word, state));
}

static void ring(struct table *table) {
  atomic_fetch_add(&table->bell, 1);
  if (atomic_load(&table->asleep)) dmi_futex_wake_shared(&table->bell, INT_MAX);
}

static void answer_all(const struct dmi_board_seat *at, const struct taken *taken, int32_t error,
                       const struct dmi_arrived *answer) {
  struct table *table = table_of(at);
  uint64_t sum;
  memcpy(&sum, &answer->sum, sizeof(sum));
  for (uint32_t i = 0; i < taken->num; i++) {
    struct seat *seat = &table->seats[taken->seat[i]];
    if (error != DMI_OK || !answer->taken) {
      answer_one(seat, taken->word[i], FAILED, (uint64_t)error, 0);
    } else {
      answer_one(seat, taken->word[i], i < answer->taken ? DONE : AGAIN, sum, answer->generation);
    }
  }
  ring(table);
}

/* Sends what waits, if anything does, and answers when the round is over. */
static void send(const struct dmi_board_seat *at, const struct dmi_board_round *round,
                 const struct dmi_board_env *env) {
  struct taken taken;
  struct dmi_arrived answer = {0, 0, 0};
  int32_t error;
  take(at, round, &taken);
  if (!taken.num) return;
  error = env->send(env->arg, round, taken.input,
                    sizeof(struct dmi_arrive) + taken.num * sizeof(uint64_t), &answer);
  if (error == DMI_OK && answer.taken == DMI_ARRIVED_LATE) error = DMI_EBROKEN;
  if (error == DMI_OK && answer.taken) count_end(table_of(at), round, answer.generation);
  answer_all(at, &taken, error, &answer);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static void announce(struct seat *seat, const struct dmi_board_round *round, uint64_t value) {
  const uint64_t word = next_arrival(atomic_load(&seat->word), WAITING);
  atomic_store_explicit(&seat->pnum, round->pnum, memory_order_relaxed);
  atomic_store_explicit(&seat->losses, round->losses, memory_order_relaxed);
  atomic_store_explicit(&seat->kind, (uint8_t)round->kind, memory_order_relaxed);
  atomic_store_explicit(&seat->value, value, memory_order_relaxed);
  atomic_store(&seat->word, word);
}

/* Sleeps until the bell rings, or at most `ns` (0: no limit). */
static void sleep_until(struct table *table, uint32_t bell, int64_t ns) {
  atomic_fetch_add(&table->asleep, 1);
  if (ns) {
    dmi_futex_wait_shared_for(&table->bell, bell, ns);
  } else {
    dmi_futex_wait_shared(&table->bell, bell);
  }
  atomic_fetch_sub(&table->asleep, 1);
}

/* An error that another process wrote; DMI_OK: the round has another pnum. */
static int32_t error_of(uint64_t written) {
  const int32_t error = (int32_t)(written & 0xffff);
  const bool is_one = strcmp(dmi_error_name(error), dmi_error_name(0xffff)) != 0;
  return is_one || error == DMI_OK ? error : DMI_EINVAL;
}

/* One announced arrival. */
struct wait {
  struct dmi_board_seat *at;
  const struct dmi_board_round *round;
  const struct dmi_board_env *env;
  struct table *table;
  struct seat *seat;
  uint64_t coming;  /* of the table, as it was last looked at */
  int64_t patience; /* ns until it is sent; if that is not LONG, only without another arrival */
  int64_t until;    /* dmi_clock_ns at the end of these; 0: they have not begun */
  uint32_t put_off; /* how often it was not sent then, as others came */
};

/* WAITING: true if it ends here, *error says how. */
static bool waits(struct wait *wait, uint64_t word, bool over, int32_t *error) {
  const uint64_t coming = atomic_load(&wait->table->coming);
  const bool ends = wait->env->ends(wait->env->arg);
  if (ends || wait->env->is_late(wait->env->arg, wait->round)) {
    *error = ends ? DMI_EEND : DMI_EBROKEN;
    return atomic_compare_exchange_strong(&wait->seat->word, &word, with_state(word, FREE));
  }
  if (over && (wait->patience > wait->env->patience || coming == wait->coming ||
               ++wait->put_off >= PUT_OFF_MOST))
    send(wait->at, wait->round, wait->env);
  wait->coming = coming;
  return false;
}

/* TAKEN: true if who took it is lost, *error says how.  While the program ends nobody tells of
 * losses: then this one does not wait for it at all. */
static bool is_deserted(struct wait *wait, uint64_t word, int32_t *error) {
  const struct dmi_board_env *env = wait->env;
  if (env->ends(env->arg)) {
    *error = DMI_EEND;
  } else if (env->is_late(env->arg, wait->round) && !env->lives(env->arg, taker_of(word))) {
    *error = DMI_EBROKEN;
  } else {
    return false;
  }
  wait->at->given_up = true;
  atomic_store(&wait->seat->owner, mark_of(wait->at->mark, taker_of(word)));
  return true;
}

static int32_t failed(struct wait *wait, bool *ends) {
  const int32_t error = error_of(atomic_load(&wait->seat->sum));
  /* Who took it knows of a loss; this process will soon. */
  *ends = error != DMI_EBROKEN || wait->env->is_late(wait->env->arg, wait->round);
  if (*ends || !wait->env->ends(wait->env->arg)) return error;
  *ends = true;
  return DMI_EEND;
}

static int32_t done(struct wait *wait, struct dmi_arrived *answer) {
  const uint64_t sum = atomic_load_explicit(&wait->seat->sum, memory_order_relaxed);
  memcpy(&answer->sum, &sum, sizeof(answer->sum));
  answer->generation = atomic_load_explicit(&wait->seat->generation, memory_order_relaxed);
  answer->taken = 1;
  return DMI_OK;
}

/* Sleeps until the bell rings or the patience is over.  True: it is over, and begins anew. */
static bool sleep_patiently(struct wait *wait, uint32_t bell) {
  const int64_t left = wait->until - dmi_clock_ns();
  int64_t now;
  if (left > 0) sleep_until(wait->table, bell, left);
  now = dmi_clock_ns();
  if (now < wait->until) return false;
  wait->until = now + wait->patience;
  return true;
}

/* Waits for the answer.  *again: it has to be announced again. */
static int32_t await(struct wait *wait, struct dmi_arrived *answer, bool *again) {
  int32_t error = DMI_OK;
  bool over = false, ends = false;
  uint64_t looked = 0; /* what was looked at for a while already */
  for (;;) {
    const uint32_t bell = atomic_load(&wait->table->bell);
    const uint64_t word = atomic_load(&wait->seat->word);
    const enum state state = state_of(word);
    switch (state) {
      case WAITING:
        ends = waits(wait, word, over, &error);
        break;
      case TAKEN:
        ends = is_deserted(wait, word, &error);
        break;
      case FAILED:
        error = failed(wait, &ends);
        break;
      case DONE:
        return done(wait, answer);
      default: /* AGAIN, or nonsense */
        *again = true;
        return DMI_OK;
    }
    if (ends) return error;
    if (atomic_load(&wait->seat->word) != word) continue;
    if (looked != word) {
      if (state == WAITING && !wait->until) wait->until = dmi_clock_ns() + wait->patience;
      looked = word;
      over = false;
      wait->env->look(wait->env->arg, &wait->seat->word, word);
    } else if (state == WAITING) {
      over = sleep_patiently(wait, bell);
    } else {
      sleep_until(wait->table, bell, 0);
      over = false;
    }
  }
}

int32_t dmi_board_meet(struct dmi_board_seat *at, const struct dmi_board_round *round,
                       uint64_t value, const struct dmi_board_env *env,
                       struct dmi_arrived *answer) {
  struct wait wait = {
      .at = at, .round = round, .env = env, .table = table_of(at), .seat = seat_of(at)};
  int32_t error = DMI_OK;
  bool again = true;
  *answer = (struct dmi_arrived){0, 0, 0};
  while (again && error == DMI_OK) {
    again = false;
    announce(wait.seat, round, value);
    wait.coming = count(wait.table, round, 1, 0);
    wait.patience = env->patience;
    wait.until = 0;
    if (came_of(wait.coming) != taken_of(wait.coming) + 1) wait.patience *= LONG;
    if (came_of(wait.coming) >= expected_of(wait.table, round)) send(at, round, env);
    error = await(&wait, answer, &again);
  }
  if (!at->given_up)
    atomic_store(&wait.seat->word, with_state(atomic_load(&wait.seat->word), FREE));
  return error;
}

void dmi_board_ring(const struct dmi_board_seat *at) {
  ring(table_of(at));
}
