/*
 * barrier.c - see barrier.h.
 *
 * Threads of this process that arrive at about the same time form a batch, which is sent as one
 * ARRIVE (core/syncop.h).  The answer comes when the round is over, and wakes them all.  The
 * process expects as many arrivals as it has threads that use the barrier; when fewer came in the
 * last round, it expects only those.  The thread that completes the expected number sends the batch
 * at once.  So in the usual case, with the same threads in each round, a process sends one message
 * and gets one.
 *
 * The other threads may not come at all, since a round may have fewer threads.  So the first thread
 * of a batch waits for PATIENCE at most, sends what there is, and the next round expects only so
 * many.
 *
 *    thread: --the last expected, or alone-> sends the batch --+--> waits --> the round is over
 *            \--the first-> waits, PATIENCE is over -----------+      ^ \
 *             +--others----------------------------------------------+  +-> it took only the
 *                                                                           first few: the others
 *                                                                           arrive anew
 *
 * A batch of one thread, in a round of many, first meets those of other processes of this host at a
 * board (board.h), where one of them sends all as one ARRIVE.
 *
 * When a process is lost no round that has begun ends: who waits gets DMI_EBROKEN, and who comes
 * later gets it at the call, once.  So all know of it before they meet again.  A batch carries the
 * loss that its threads know of; the owner refuses one of before the last.
 */
#include "sync/barrier.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/error.h"
#include "base/lock.h"
#include "core/syncop.h"
#include "access/access.h"
#include "base/clock.h"
#include "sync/board.h"

/* Nanoseconds: about the time of a few messages.  Only spent when fewer threads come than the last
 * time. */
#define PATIENCE 200000

#define PAUSES 64 /* of a look, between two yields */

/* Threads that meet, from which on processes of this host meet first (board.h): two are faster
 * without (docs/performance.md). */
#define BOARD_LEAST 8

/* Arrivals without a seat, until one is looked for again. */
#define SEAT_AGAIN 100

/* The most arrivals in one message; more are sent in several. */
#define BATCH_MOST ((DMI_SYNC_ARRIVE_MOST - sizeof(struct dmi_arrive)) / sizeof(uint64_t))

/* Threads that arrive together.  The last of them frees it. */
struct batch {
  uint64_t users, num, capacity; /* guarded by the barrier's lock */
  int8_t kind;                   /* of its values: core/reduce.h */
  struct dmi_arrive head;
  unsigned char *input;      /* of ARRIVE; guarded by the lock until the batch is closed */
  struct dmi_arrived answer; /* valid when the status is done without error */
  DMI_local_status_t status; /* of the ARRIVE; begun with the batch, so that all can wait for it */
};

/* A barrier that threads of this process use. */
struct barrier {
  UT_hash_handle hh;
  struct dmi_barriers *all;
  int64_t addr;               /* key */
  uint32_t users;             /* guarded by the lock of `all` */
  _Atomic uint32_t lock;      /* guards those below */
  uint64_t registered;        /* threads that use it here */
  uint64_t expected;          /* arrivals in a round, of this process */
  uint64_t arrived;           /* of these, since the last round that is known to be over */
  uint64_t generation;        /* number of that round */
  struct batch *open;         /* the batch that still takes threads; NULL: none */
  bool seated;                /* a thread uses those below, without the lock */
  uint32_t wait_seat;         /* so many arrivals until a seat is looked for */
  struct dmi_board_seat seat; /* where it meets other processes of this host */
};

struct dmi_barrier_part {
  struct dmi_barrier_part *next, **at; /* in dmi_barriers.parts */
  struct barrier *barrier;
  uint32_t losses; /* dmi_core.losses, when its thread last learned of it here */
  uint64_t number; /* of the part, from 1 */
  /* dmi_doing_number of the thread that arrived by it last, or made it */
  _Atomic uint64_t doer;
};

struct dmi_barriers {
  struct dmi_access *access;
  _Atomic uint32_t lock; /* guards `all`, the users of each, and `parts` */
  struct barrier *all;
  struct dmi_barrier_part *parts; /* the newest first */
  uint64_t number;                /* of the newest */
};

struct dmi_barriers *dmi_barriers_new(struct dmi_access *access) {
  struct dmi_barriers *barriers = calloc(1, sizeof(*barriers));
  if (barriers) barriers->access = access;
  return barriers;
}

static struct dmi_board_env env_of(struct barrier *barrier);

/* Nobody uses it here any more. */
static void leave_board(struct barrier *barrier) {
  const struct dmi_board_env env = env_of(barrier);
  if (barrier->seat.board) dmi_board_rise(&barrier->seat, &env);
}

void dmi_barriers_free(struct dmi_barriers *barriers) {
  struct barrier *barrier, *next;
  if (!barriers) return;
  while (barriers->parts) { /* a program need not destroy its local barriers */
    struct dmi_barrier_part *part = barriers->parts;
    barriers->parts = part->next;
    free(part);
  }
  HASH_ITER(hh, barriers->all, barrier, next) {
    HASH_DEL(barriers->all, barrier);
    free(barrier); /* its seat is free when this process's mark is */
  }
  free(barriers);
}

size_t dmi_barriers_common(void) {
  return dmi_board_size();
}

static uint32_t losses_of(const struct dmi_barriers *barriers) {
  return atomic_load(&barriers->access->core.losses);
}

static bool is_newer(uint32_t losses, uint32_t other) {
  return (int32_t)(losses - other) > 0;
}

/* dmi_barrier_since of the calling thread. */
static __thread struct {
  bool set;
  uint32_t losses;
} since;

void dmi_barrier_since(uint32_t losses) {
  since.losses = losses;
  since.set = true;
}

void dmi_barrier_since_now(void) {
  since.set = false;
}

struct dmi_barrier_part *dmi_barrier_join(struct dmi_barriers *barriers, int64_t addr) {
  struct barrier *barrier;
  struct dmi_barrier_part *part = malloc(sizeof(*part));
  const uint64_t doer = dmi_doing_number(&barriers->access->doings);
  if (!part) return NULL;
  dmi_lock(&barriers->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, barriers->all, &addr, sizeof(addr), barrier);
  if (!barrier && (barrier = calloc(1, sizeof(*barrier)))) {
    barrier->all = barriers;
    barrier->addr = addr;
    HASH_ADD(hh, barriers->all, addr, sizeof(barrier->addr), barrier);
  }
  if (barrier) {
    barrier->users++;
    part->next = barriers->parts;
    part->at = &barriers->parts;
    part->barrier = barrier;
    part->losses = since.set ? since.losses : losses_of(barriers);
    part->number = ++barriers->number;
    atomic_init(&part->doer, doer);
    if (part->next) part->next->at = &part->next;
    barriers->parts = part;
  }
  dmi_unlock(&barriers->lock, DMI_RANK_LEAF);
  if (!barrier) {
    free(part);
    return NULL;
  }
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  barrier->expected = ++barrier->registered;
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  return part;
}

void dmi_barrier_part(struct dmi_barrier_part *part) {
  struct barrier *barrier = part->barrier;
  struct dmi_barriers *barriers = barrier->all;
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  barrier->expected = --barrier->registered;
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  dmi_lock(&barriers->lock, DMI_RANK_LEAF);
  *part->at = part->next;
  if (part->next) part->next->at = part->at;
  if (--barrier->users) {
    barrier = NULL;
  } else {
    HASH_DEL(barriers->all, barrier);
  }
  dmi_unlock(&barriers->lock, DMI_RANK_LEAF);
  if (barrier) leave_board(barrier);
  free(barrier);
  free(part);
}

/* ---- A batch, with the lock held ------------------------------------------------------------ */

static struct batch *batch_new(const struct dmi_arrive *head, int8_t kind) {
  struct batch *batch = calloc(1, sizeof(*batch));
  if (!batch) return NULL;
  batch->head = *head;
  batch->kind = kind;
  dmi_status_begin(dmi_status_of(&batch->status));
  return batch;
}

/* False: no memory. */
static bool batch_add(struct batch *batch, uint64_t value) {
  const struct dmi_arrive head = batch->head;
  if (batch->num == batch->capacity) {
    uint64_t capacity = batch->capacity ? 2 * batch->capacity : 8;
    unsigned char *more = realloc(batch->input, sizeof(head) + capacity * sizeof(value));
    if (!more) return false;
    memcpy(more, &head, sizeof(head));
    batch->input = more;
    batch->capacity = capacity;
  }
  memcpy(batch->input + sizeof(head) + batch->num * sizeof(value), &value, sizeof(value));
  batch->num++;
  batch->users++;
  return true;
}

static void batch_leave(struct batch *batch) {
  if (--batch->users) return;
  free(batch->input);
  free(batch);
}

/* Adds a thread to the open batch, or begins one.  `*index`: its place there; `*sends`: the batch
 * is closed now, and this thread has to send it.  NULL: no memory. */
static struct batch *enter(struct barrier *barrier, int8_t kind, uint64_t value,
                           const struct dmi_arrive *head, uint64_t *index, bool *sends) {
  struct batch *batch = barrier->open;
  if (!batch || batch->kind != kind || batch->head.pnum != head->pnum ||
      batch->head.losses != head->losses)
    batch = batch_new(head, kind);
  if (!batch) return NULL;
  *index = batch->num;
  if (!batch_add(batch, value)) {
    if (!batch->num) free(batch);
    return NULL;
  }
  if (!barrier->open) barrier->open = batch;
  if (++barrier->arrived > barrier->expected) barrier->expected = barrier->arrived;
  *sends = batch != barrier->open || barrier->arrived >= barrier->expected ||
           batch->num >= batch->head.pnum || batch->num >= BATCH_MOST;
  if (*sends && barrier->open == batch) barrier->open = NULL;
  return batch;
}

/* PATIENCE is over: closes the batch.  False: another thread has closed it. */
static bool take_over(struct barrier *barrier, const struct batch *batch) {
  if (barrier->open != batch) return false;
  barrier->open = NULL;
  barrier->expected = barrier->arrived;
  return true;
}

/* A round is known to be over: counts the arrivals of the next one. */
static void count_end(struct barrier *barrier, uint64_t generation) {
  if (generation == barrier->generation) return;
  barrier->generation = generation;
  barrier->arrived = barrier->open ? barrier->open->num : 0;
}

/* ---- Threads -------------------------------------------------------------------------------- */

/* Sends an ARRIVE; the status is done when the answer is here, or it failed. */
static void send_arrive(const struct barrier *barrier, int8_t kind, const unsigned char *input,
                        size_t size, struct dmi_arrived *answer, DMI_local_status_t *status) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_ARRIVE,
                              .addr = barrier->addr,
                              .size = sizeof(struct dmi_round),
                              .out1 = input,
                              .in = answer,
                              .sizes = {size, 0, sizeof(*answer)},
                              .tag = kind,
                              .mode = DMI_PUT_ATOMIC,
                              .begun = true};
  (void)dmi_access_rmw(barrier->all->access, &call, status);
}

/* Sends a closed batch. */
static void batch_send(const struct barrier *barrier, struct batch *batch) {
  send_arrive(barrier, batch->kind, batch->input,
              sizeof(struct dmi_arrive) + batch->num * sizeof(uint64_t), &batch->answer,
              &batch->status);
}

/* ---- Processes of this host ----------------------------------------------------------------- */

static int32_t env_send(void *arg, const struct dmi_board_round *round, const unsigned char *input,
                        size_t size, struct dmi_arrived *answer) {
  struct barrier *barrier = arg;
  DMI_local_status_t status;
  dmi_status_begin(dmi_status_of(&status));
  send_arrive(barrier, round->kind, input, size, answer, &status);
  return dmi_access_wait(barrier->all->access, dmi_status_of(&status));
}

static bool env_is_late(void *arg, const struct dmi_board_round *round) {
  const struct barrier *barrier = arg;
  return is_newer(losses_of(barrier->all), round->losses);
}

static bool env_ends(void *arg) {
  const struct barrier *barrier = arg;
  return atomic_load(&barrier->all->access->core.stopping) != 0;
}

static bool env_lives(void *arg, dmi_uid_t uid) {
  const struct barrier *barrier = arg;
  return dmi_syncop_lives(&barrier->all->access->core, uid);
}

static bool env_ended(void *arg, uint64_t mark) {
  const struct barrier *barrier = arg;
  const struct dmi_core *core = &barrier->all->access->core;
  struct dmi_net *net = barrier->all->access->net;
  const dmi_uid_t uid = (dmi_uid_t)mark;
  /* Who lives, as this process knows, has not ended: that saves a call. */
  if (mark == dmi_net_mark(net, uid) && dmi_syncop_lives(core, uid)) return false;
  return dmi_net_mark_ended(net, mark);
}

static void env_look(void *arg, const _Atomic uint64_t *word, uint64_t value) {
  static __thread struct dmi_look_past past;
  const struct barrier *barrier = arg;
  const struct dmi_look_rule *rule = &barrier->all->access->look;
  struct dmi_look_one one;
  if (!rule->near || dmi_look_rests(&past, rule)) return;
  dmi_look_begin(&one, rule, dmi_clock_ns());
  do {
    for (int i = 0; i < PAUSES; i++) {
      if (atomic_load(word) != value) {
        dmi_look_end(&past, rule, DMI_LOOK_PAID);
        return;
      }
      dmi_relax();
    }
    dmi_look_yields(&one, dmi_clock_ns());
    sched_yield();
  } while (dmi_look_goes_on(&one, dmi_clock_ns()));
  dmi_look_end(&past, rule, one.is);
}

static struct dmi_board_env env_of(struct barrier *barrier) {
  return (struct dmi_board_env){.arg = barrier,
                                .patience = PATIENCE,
                                .send = env_send,
                                .is_late = env_is_late,
                                .ends = env_ends,
                                .lives = env_lives,
                                .ended = env_ended,
                                .look = env_look};
}

/* Takes this process's seat; false: another thread has it. */
static bool sit(struct barrier *barrier) {
  bool mine;
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  mine = !barrier->seated;
  barrier->seated = true;
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  return mine;
}

static void rise(struct barrier *barrier) {
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  barrier->seated = false;
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
}

/* Changes the seat, which dmi_barriers_look_again reads. */
static void set_seat(struct barrier *barrier, const struct dmi_board_seat *seat) {
  dmi_lock(&barrier->all->lock, DMI_RANK_LEAF);
  barrier->seat = *seat;
  dmi_unlock(&barrier->all->lock, DMI_RANK_LEAF);
}

/* Finds a seat, if there is none yet.  By the thread that has sat. */
static bool has_seat(struct barrier *barrier, const struct dmi_board_env *env) {
  struct dmi_access *access = barrier->all->access;
  struct dmi_board_seat seat = barrier->seat;
  struct dmi_board *board;
  uint64_t program;
  if (seat.board && !seat.given_up && dmi_board_sits(&seat)) return true;
  if (barrier->wait_seat) {
    barrier->wait_seat--;
    return false;
  }
  dmi_board_rise(&seat, env);
  board = dmi_net_common(access->net, access->core.self, &program);
  if (!board || !dmi_board_sit(board, barrier->addr ^ (int64_t)program,
                               dmi_net_mark(access->net, access->core.self), env, &seat))
    barrier->wait_seat = SEAT_AGAIN;
  set_seat(barrier, &seat);
  return seat.board != NULL;
}

/* Meets other processes of this host, so that one of them sends the arrivals of all: then the
 * batch is done when this returns.  False: this process has to send it. */
static bool batch_meets(struct barrier *barrier, struct batch *batch, uint64_t value) {
  const struct dmi_board_round round = {batch->head.pnum, batch->head.losses, batch->kind};
  const struct dmi_board_env env = env_of(barrier);
  int32_t error;
  if (batch->num != 1 || batch->head.pnum < BOARD_LEAST) return false;
  /* No loss would tell the others if this process left and was killed then: so only threads that
   * keep it from leaving may take the arrivals of others. */
  if (!dmi_doing_is_dmi(&barrier->all->access->doings) || !sit(barrier)) return false;
  if (!has_seat(barrier, &env)) {
    rise(barrier);
    return false;
  }
  error = dmi_board_meet(&barrier->seat, &round, value, &env, &batch->answer);
  rise(barrier);
  dmi_status_done(dmi_status_of(&batch->status), error);
  return true;
}

void dmi_barriers_look_again(struct dmi_barriers *barriers) {
  struct barrier *barrier, *next;
  dmi_lock(&barriers->lock, DMI_RANK_LEAF);
  HASH_ITER(hh, barriers->all, barrier, next) {
    if (barrier->seat.board) dmi_board_ring(&barrier->seat);
  }
  dmi_unlock(&barriers->lock, DMI_RANK_LEAF);
}

/* Arrives once.  `*again`: the round was complete with the first threads of the batch, and this
 * thread was not among them: it must arrive again, in the next round. */
static int32_t arrive(struct barrier *barrier, int8_t kind, uint64_t value, void *sum,
                      const struct dmi_arrive *head, bool *again) {
  struct batch *batch;
  uint64_t index;
  int32_t error;
  bool sends;
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  batch = enter(barrier, kind, value, head, &index, &sends);
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  if (!batch) return DMI_ENOMEM;
  if (!sends && index == 0 && !dmi_status_wait_for(dmi_status_of(&batch->status), PATIENCE)) {
    dmi_lock(&barrier->lock, DMI_RANK_LEAF);
    sends = take_over(barrier, batch);
    dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  }
  if (sends && batch_meets(barrier, batch, value)) {
    error = dmi_status_wait(dmi_status_of(&batch->status));
  } else if (sends) {
    batch_send(barrier, batch);
    error = dmi_access_wait(barrier->all->access, dmi_status_of(&batch->status));
  } else {
    error = dmi_status_wait(dmi_status_of(&batch->status));
  }
  if (error == DMI_OK && batch->answer.taken == DMI_ARRIVED_LATE) error = DMI_EBROKEN;
  if (error == DMI_OK && !batch->answer.taken) {
    error = dmi_because(DMI_EINVAL, "the round that goes on was begun with another pnum");
  }
  *again = error == DMI_OK && index >= batch->answer.taken;
  if (error == DMI_OK && sum && !*again) memcpy(sum, &batch->answer.sum, sizeof(value));
  dmi_lock(&barrier->lock, DMI_RANK_LEAF);
  if (error == DMI_OK) {
    count_end(barrier, batch->answer.generation);
  } else if (barrier->arrived) {
    barrier->arrived--;
  }
  batch_leave(batch);
  dmi_unlock(&barrier->lock, DMI_RANK_LEAF);
  return error;
}

int32_t dmi_barrier_arrive(struct dmi_barrier_part *part, int8_t kind, const void *value, void *sum,
                           int32_t pnum) {
  uint64_t bits;
  const struct dmi_arrive head = {(uint32_t)pnum, part->losses};
  uint32_t known = losses_of(part->barrier->all);
  struct dmi_doings *doings = &part->barrier->all->access->doings;
  bool again = true, noted;
  int32_t error = is_newer(known, part->losses) ? DMI_EBROKEN : DMI_OK;
  memcpy(&bits, value, sizeof(bits));
  atomic_store_explicit(&part->doer, dmi_doing_number(doings), memory_order_relaxed);
  noted = dmi_doing_waits(doings, DMI_DOING_BARRIER, (uint64_t)part->barrier->addr, head.pnum, 0);
  while (again && error == DMI_OK)
    error = arrive(part->barrier, kind, bits, sum, &head, &again);
  dmi_doing_waited(noted);
  if (error == DMI_EBROKEN) part->losses = losses_of(part->barrier->all);
  return error == DMI_OK ? DMI_TRUE : dmi_fail(error);
}

uint32_t dmi_barrier_look(struct dmi_barriers *barriers, uint64_t below,
                          struct dmi_barrier_user *user, uint32_t most) {
  uint32_t num = 0;
  dmi_lock(&barriers->lock, DMI_RANK_LEAF);
  for (const struct dmi_barrier_part *at = barriers->parts; at && num < most; at = at->next) {
    if (at->number >= below) continue;
    user[num++] = (struct dmi_barrier_user){at->number, at->barrier->addr,
                                            atomic_load_explicit(&at->doer, memory_order_relaxed)};
  }
  dmi_unlock(&barriers->lock, DMI_RANK_LEAF);
  return num;
}

int64_t dmi_barrier_addr(const struct dmi_barrier_part *part) {
  return part->barrier->addr;
}

int32_t dmi_barrier_destroy(struct dmi_barriers *barriers, int64_t addr) {
  struct dmi_round round;
  if (!dmi_access_read(barriers->access, addr, sizeof(round), &round, DMI_GET_READ, NULL))
    return DMI_FALSE;
  if (!dmi_round_valid(&round)) return dmi_fail(DMI_EINVAL);
  return round.arrived && round.losses == losses_of(barriers) ? dmi_fail(DMI_EBUSY) : DMI_TRUE;
}
