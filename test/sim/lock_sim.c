/*
 * lock_sim.c - locks, conditions and barriers at the owner of a page, while processes are lost.
 *
 *   lock_sim [--seed N] [--runs N] [--break KIND|all]
 *
 * Four processes with two threads each, one page.  In a run all threads lock and unlock, or wait
 * for tokens with a condition, or meet at a barrier; meanwhile the page moves and is copied, and
 * processes are killed.  What the members agree on (core/recover.c) is decided here at once: who
 * has which operation, which copy is promoted.  Checked: a lock has one holder; a lost holder's
 * lock is marked; a signal is spent on a living thread; a round has the arrivals of all that live;
 * and nobody waits for ever.  `--break` switches off a rule and expects that a check fails.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page_crash.h"
#include "core/syncop.h"
#include "dmi_api.h"
#include "rng.h"

#define PROCS 4u
#define THREADS 2u
#define PAGE 128u
#define MAP (UINT64_C(1) << 20)
#define LOCK_AT 0u
#define COND_AT 16u
#define ROUND_AT 32u
#define DATA_AT 80u
#define CYCLES 6u
#define TOKENS 12u

enum scene { SCENE_LOCK, SCENE_COND, SCENE_BARRIER, SCENES };
enum stage { IDLE, LOCKS, TRIES, HOLDS, MENDS, TICKETS, LEAVES, SLEEPS, SIGNALS, UNLOCKS, ARRIVES };

struct thread {
  struct dmi_req req; /* first */
  struct proc *proc;
  enum stage stage;
  bool out;    /* the operation is in flight */
  bool sleeps; /* UNLOCKS: to wait for the condition then */
  bool again;  /* LOCKS: woken, or told to look again */
  uint64_t op, ticket;
  uint32_t done, losses, pnum;
  unsigned char in[16 + 8], answer[PAGE];
};

struct proc {
  struct dmi_core core;
  struct dmi_map map;
  struct dmi_page page;
  struct thread thread[THREADS], data; /* data: moves and copies the page */
  struct world *world;
  bool dead;
};

struct queue {
  struct dmi_msg *msg;
  uint32_t num, capacity;
};

struct noted {
  dmi_uid_t origin;
  uint64_t op;
  enum dmi_op_place place;
};

struct world {
  struct rng rng;
  uint64_t seed, ops;
  enum scene scene;
  enum dmi_break broken;
  struct proc proc[PROCS];
  struct queue queue[PROCS][PROCS];
  struct noted *noted;
  uint32_t noted_num, noted_capacity, losses, kills;
  const struct thread *holder; /* of the lock, as the threads know it */
  bool must_mark;              /* a holder was lost; nobody has mended since */
  bool excused;                /* a signal may have gone to a thread that is lost */
  uint32_t tokens, made;
  bool lost_page, bad;
};

static struct { uint64_t runs, kills, marked, broken, promoted, ops; } totals;

static void bad(struct world *w, const char *text) {
  if (!w->bad) printf("seed %" PRIu64 ": %s\n", w->seed, text);
  w->bad = true;
}

/* ---- Surroundings of the cores -------------------------------------------------------------- */

static bool is_member(void *arg, dmi_uid_t uid) {
  const struct world *w = arg;
  return uid >= 1 && uid <= PROCS && !w->proc[uid - 1].dead;
}

static bool is_cut(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return false;
}

static void note(struct world *w, dmi_uid_t origin, dmi_op_t op, enum dmi_op_place place) {
  if (w->noted_num == w->noted_capacity) {
    w->noted_capacity = w->noted_capacity ? 2 * w->noted_capacity : 32;
    w->noted = realloc(w->noted, w->noted_capacity * sizeof(*w->noted));
    if (!w->noted) abort();
  }
  w->noted[w->noted_num++] = (struct noted){origin, op.n, place};
}

static void on_dropped(void *arg, dmi_uid_t origin, dmi_op_t op) {
  note(arg, origin, op, DMI_OP_DROPPED);
}

static void on_held(void *arg, dmi_uid_t origin, dmi_op_t op) {
  note(arg, origin, op, DMI_OP_HELD);
}

static enum dmi_op_place place_of(const struct world *w, const struct dmi_req *req) {
  for (uint32_t i = 0; i < w->noted_num; i++) {
    if (w->noted[i].origin == req->origin && w->noted[i].op == req->op.n) return w->noted[i].place;
  }
  return DMI_OP_AWAY;
}

static void completed(struct world *w, struct thread *thread);

static void drop(struct dmi_msg *msg) {
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

static void act(struct world *w, struct proc *proc, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_COMPLETE) {
      completed(w, (struct thread *)(void *)a->req);
    } else if (a->type == DMI_ACT_SEND) {
      struct queue *queue = &w->queue[proc->core.self - 1][a->to - 1];
      if (w->proc[a->to - 1].dead) {
        drop(&a->msg);
        continue;
      }
      if (queue->num == queue->capacity) {
        queue->capacity = queue->capacity ? 2 * queue->capacity : 16;
        queue->msg = realloc(queue->msg, queue->capacity * sizeof(*queue->msg));
        if (!queue->msg) abort();
      }
      if (a->msg.body.ptr && !a->msg.body.frame) /* borrowed until the step ends */
        a->msg.body = dmi_slice_copy(a->msg.body.ptr, a->msg.body.len);
      if (a->msg.list.ptr && !a->msg.list.frame) /* while the operation stays */
        a->msg.list = dmi_slice_copy(a->msg.list.ptr, a->msg.list.len);
      queue->msg[queue->num++] = a->msg;
    } else {
      bad(w, "an action that nobody expects");
    }
  }
  dmi_out_free(out);
}

static struct dmi_req *asked(struct proc *proc, const struct dmi_msg *msg) {
  dmi_op_t op;
  if (!dmi_msg_answers(msg, &op)) return NULL;
  for (uint32_t t = 0; t <= THREADS; t++) {
    struct thread *thread = t < THREADS ? &proc->thread[t] : &proc->data;
    if (thread->out && thread->req.op.n == op.n && atomic_load(&thread->req.sent))
      return &thread->req;
  }
  return NULL;
}

static void deliver(struct world *w, uint32_t from, uint32_t to) {
  struct queue *queue = &w->queue[from][to];
  struct proc *proc = &w->proc[to];
  struct dmi_msg msg = queue->msg[0];
  struct dmi_out out;
  memmove(queue->msg, queue->msg + 1, --queue->num * sizeof(msg));
  dmi_out_init(&out);
  if (!dmi_page_message(&proc->core, &proc->page, from + 1, &msg, asked(proc, &msg), &out)) {
    bad(w, "a message that no correct process sends");
    drop(&msg);
  }
  if (dmi_page_wrong(&proc->core, &proc->page)) bad(w, dmi_page_wrong(&proc->core, &proc->page));
  act(w, proc, &out);
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void start(struct world *w, struct thread *thread, enum stage stage) {
  struct proc *proc = thread->proc;
  struct dmi_out out;
  thread->stage = stage;
  thread->out = true;
  thread->req.op.n = ++w->ops;
  thread->req.dst = thread->answer;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, &proc->page, &thread->req, &out);
  act(w, proc, &out);
}

static void start_rmw(struct world *w, struct thread *thread, enum stage stage, enum dmi_rmw rmw,
                      const void *in, uint64_t size) {
  static const struct {
    uint64_t off, len, in;
  } at[] = {[DMI_RMW_TRYLOCK] = {LOCK_AT, sizeof(struct dmi_locked_by), sizeof(struct dmi_locked)},
            [DMI_RMW_UNLOCK] = {LOCK_AT, sizeof(struct dmi_locked_by), 0},
            [DMI_RMW_MEND] = {LOCK_AT, sizeof(struct dmi_locked_by), 0},
            [DMI_RMW_LOCK] = {LOCK_AT, sizeof(struct dmi_locked_by), sizeof(struct dmi_locked)},
            [DMI_RMW_SIGNAL] = {COND_AT, sizeof(struct dmi_tickets), 0},
            [DMI_RMW_TICKET] = {COND_AT, sizeof(struct dmi_tickets), 8},
            [DMI_RMW_TURN] = {COND_AT, sizeof(struct dmi_tickets), 8},
            [DMI_RMW_ARRIVE] = {ROUND_AT, sizeof(struct dmi_round), sizeof(struct dmi_arrived)}};
  memset(&thread->req, 0, sizeof(thread->req));
  thread->req.type = DMI_REQ_ATOMIC;
  thread->req.kind = (uint8_t)rmw;
  thread->req.off = at[rmw].off;
  thread->req.len = at[rmw].len;
  thread->req.sizes = (struct dmi_rmw_sizes){size, 0, at[rmw].in};
  if (size) memcpy(thread->in, in, size);
  thread->req.src = (struct dmi_slice){NULL, thread->in, size};
  start(w, thread, stage);
}

/* The page moves, or a process gets a copy that is kept up to date. */
static void start_data(struct world *w, struct thread *thread) {
  uint32_t what = rng_below(&w->rng, 4);
  memset(&thread->req, 0, sizeof(thread->req));
  thread->req.type = what == 0 ? DMI_REQ_EXCL : what == 1 ? DMI_REQ_PUT : DMI_REQ_READ;
  if (what > 1) thread->req.kind = DMI_KIND_UPDATE;
  thread->req.off = DATA_AT;
  thread->req.len = 8;
  thread->req.src = (struct dmi_slice){NULL, thread->in, what > 1 ? 0 : 8};
  start(w, thread, IDLE);
}

/* ---- Locks ---------------------------------------------------------------------------------- */

static void unlock(struct world *w, struct thread *thread) {
  w->holder = NULL;
  start_rmw(w, thread, UNLOCKS, DMI_RMW_UNLOCK, &thread->op, 8);
}

static void got_lock(struct world *w, struct thread *thread) {
  struct dmi_locked locked;
  memcpy(&locked, thread->answer, sizeof(locked));
  thread->stage = IDLE;
  if (locked.how == DMI_LOCKED_NOT) {
    if (thread->req.kind == DMI_RMW_LOCK) bad(w, "LOCK ends without the lock");
    return;
  }
  if (w->holder && !w->holder->proc->dead) bad(w, "two threads hold the lock");
  if (w->must_mark && locked.how != DMI_LOCKED_MARKED) bad(w, "a lost holder's lock is not marked");
  if (!w->kills && locked.how == DMI_LOCKED_MARKED) bad(w, "marked, and nobody was lost");
  totals.marked += locked.how == DMI_LOCKED_MARKED;
  w->holder = thread;
  thread->op = locked.op;
  thread->stage = HOLDS;
  if (locked.how == DMI_LOCKED_MARKED && rng_once_in(&w->rng, 2))
    start_rmw(w, thread, MENDS, DMI_RMW_MEND, &thread->op, 8);
}

static bool next_lock(struct world *w, struct thread *thread) {
  if (thread->stage == HOLDS) {
    unlock(w, thread);
  } else if (thread->done == CYCLES) {
    return false;
  } else if (rng_once_in(&w->rng, 4)) {
    start_rmw(w, thread, TRIES, DMI_RMW_TRYLOCK, NULL, 0);
  } else {
    start_rmw(w, thread, LOCKS, DMI_RMW_LOCK, NULL, 0);
  }
  return true;
}

/* ---- Conditions ----------------------------------------------------------------------------- */

/* Thread 0 of the first process, which is not killed here, makes tokens; the others take them. */
static bool next_token(struct world *w, struct thread *thread) {
  const uint64_t one = 1;
  bool maker = thread == &w->proc[0].thread[0];
  if (maker && thread->stage == HOLDS && !thread->again) {
    w->tokens++;
    w->made++;
    thread->again = true;
    start_rmw(w, thread, SIGNALS, DMI_RMW_SIGNAL, &one, 8);
  } else if (maker && thread->stage == HOLDS) {
    thread->again = false;
    unlock(w, thread);
  } else if (maker && w->made == TOKENS) {
    return false;
  } else if (thread->stage != HOLDS) {
    start_rmw(w, thread, LOCKS, DMI_RMW_LOCK, NULL, 0);
  } else if (w->tokens) {
    w->tokens--;
    thread->again = false;
    unlock(w, thread);
  } else {
    thread->again = false;
    start_rmw(w, thread, TICKETS, DMI_RMW_TICKET, NULL, 0);
  }
  return true;
}

static void slept(struct world *w, struct thread *thread) {
  switch (thread->stage) {
    case TICKETS:
      memcpy(&thread->ticket, thread->answer, 8);
      thread->ticket += DMI_SYNC_UNIT;
      thread->sleeps = true;
      unlock(w, thread);
      break;
    case UNLOCKS:
      thread->sleeps = false;
      start_rmw(w, thread, SLEEPS, DMI_RMW_TURN, &thread->ticket, 8);
      break;
    default: /* SLEEPS */
      thread->again = true;
      start_rmw(w, thread, LOCKS, DMI_RMW_LOCK, NULL, 0);
  }
}

/* ---- Barriers ------------------------------------------------------------------------------- */

static uint32_t living(const struct world *w) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < PROCS; i++)
    num += w->proc[i].dead ? 0 : THREADS;
  return num;
}

/* As lib/sync/barrier.c and a program do: told of the loss at the call, it calls again. */
static bool next_round(struct world *w, struct thread *thread) {
  struct {
    struct dmi_arrive head;
    double value;
  } in = {.value = 1};
  uint32_t losses = atomic_load(&thread->proc->core.losses);
  if (thread->losses != losses) {
    thread->losses = losses;
    thread->pnum = living(w);
    thread->done = 0;
  }
  if (thread->done == CYCLES) return false;
  in.head = (struct dmi_arrive){thread->pnum, thread->losses};
  start_rmw(w, thread, ARRIVES, DMI_RMW_ARRIVE, &in, sizeof(in));
  return true;
}

static void arrived(struct world *w, struct thread *thread) {
  struct dmi_arrived got;
  thread->stage = IDLE;
  memcpy(&got, thread->answer, sizeof(got));
  if (thread->req.error == DMI_EBROKEN || got.taken == DMI_ARRIVED_LATE) {
    totals.broken++;
    thread->losses = atomic_load(&thread->proc->core.losses);
    thread->pnum = living(w);
    thread->done = 0;
    return;
  }
  if (got.taken != 1) bad(w, "an arrival was not taken");
  if (got.sum != (double)thread->pnum) bad(w, "a round with a wrong sum");
  thread->done++;
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void completed(struct world *w, struct thread *thread) {
  thread->out = false;
  dmi_slice_drop(&thread->req.src);
  if (thread == &thread->proc->data) return; /* its PUT may have been away */
  if (thread->req.error == DMI_ELOST) w->lost_page = true;
  if (thread->req.error && thread->req.error != DMI_EBROKEN) {
    if (thread->req.error != DMI_ELOST) bad(w, "an operation fails");
    return;
  }
  switch (thread->stage) {
    case LOCKS:
    case TRIES:
      got_lock(w, thread);
      break;
    case MENDS:
      w->must_mark = false;
      thread->stage = HOLDS;
      break;
    case TICKETS:
    case SLEEPS:
      slept(w, thread);
      break;
    case SIGNALS:
      thread->stage = HOLDS;
      break;
    case UNLOCKS:
      thread->done++;
      thread->stage = IDLE;
      if (thread->sleeps) {
        thread->stage = UNLOCKS;
        slept(w, thread);
      }
      break;
    default:
      arrived(w, thread);
  }
}

static bool go_on(struct world *w, struct thread *thread) {
  if (thread->proc->dead || thread->out || w->lost_page) return false;
  if (w->scene == SCENE_LOCK) return next_lock(w, thread);
  return w->scene == SCENE_COND ? next_token(w, thread) : next_round(w, thread);
}

/* ---- Losses --------------------------------------------------------------------------------- */

static struct proc *owner_of(struct world *w) {
  for (uint32_t i = 0; i < PROCS; i++) {
    if (!w->proc[i].dead && w->proc[i].page.role == DMI_ROLE_OWNER) return &w->proc[i];
  }
  return NULL;
}

/* Has its ticket been served? */
static bool served(struct world *w, const struct thread *thread) {
  const struct proc *owner = owner_of(w);
  uint64_t serving = 0;
  if (!owner) return true; /* not known */
  if (owner->page.frame) memcpy(&serving, owner->page.frame->bytes + COND_AT + 8, 8);
  return (int64_t)((serving - thread->ticket) * DMI_SYNC_COUNT) >= 0;
}

/* A signal may have gone to a thread of the lost process, or one that is about to take a token. */
static void look_for_signal(struct world *w, const struct proc *proc) {
  for (uint32_t t = 0; t < THREADS; t++) {
    const struct thread *thread = &proc->thread[t];
    bool waits = thread->stage == SLEEPS || thread->sleeps;
    if (thread->again || thread->stage == HOLDS || (waits && served(w, thread))) w->excused = true;
  }
}

/* What the threads of a lost process leave behind. */
static void forget(struct world *w, struct proc *proc) {
  look_for_signal(w, proc);
  for (uint32_t t = 0; t <= THREADS; t++) {
    struct thread *thread = t < THREADS ? &proc->thread[t] : &proc->data;
    if (w->holder == thread && thread->stage != MENDS) w->must_mark = true;
    if (thread->out) dmi_slice_drop(&thread->req.src);
    thread->out = false;
  }
}

/* Some of its last messages arrive before the others know. */
static void kill_one(struct world *w, struct proc *proc) {
  uint32_t me = proc->core.self - 1;
  for (uint32_t i = 0; i < PROCS; i++) {
    struct queue *from = &w->queue[me][i], *to = &w->queue[i][me];
    while (from->num && i != me && rng_once_in(&w->rng, 2))
      deliver(w, me, i);
    for (uint32_t k = 0; k < from->num; k++)
      drop(&from->msg[k]);
    for (uint32_t k = 0; k < to->num && i != me; k++)
      drop(&to->msg[k]);
    from->num = to->num = 0;
  }
  forget(w, proc);
  proc->dead = true;
  dmi_page_fini(&proc->core, &proc->page);
  memset(&proc->page, 0, sizeof(proc->page));
  w->kills++;
  totals.kills++;
}

static bool deliver_any(struct world *w) {
  uint32_t start_at = rng_below(&w->rng, PROCS * PROCS);
  for (uint32_t i = 0; i < PROCS * PROCS; i++) {
    uint32_t at = (start_at + i) % (PROCS * PROCS);
    if (!w->queue[at / PROCS][at % PROCS].num) continue;
    deliver(w, at / PROCS, at % PROCS);
    return true;
  }
  return false;
}

static void freeze(struct world *w) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    if (proc->dead) continue;
    atomic_store(&proc->core.frozen, true);
    atomic_store(&proc->core.losses, w->losses);
    dmi_page_freeze(&proc->core, &proc->page);
  }
  while (deliver_any(w))
    continue;
  for (uint32_t i = 0; i < PROCS; i++) {
    if (!w->proc[i].dead) dmi_page_held(&w->proc[i].core, &w->proc[i].page);
  }
}

/* The process that owns the page from now on; NULL: the page is lost. */
static struct proc *decide(struct world *w) {
  struct proc *owner = owner_of(w), *best = NULL;
  dmi_version_t version = {0};
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    struct dmi_page_report report;
    for (uint32_t t = 0; t <= THREADS && !proc->dead; t++) {
      struct thread *thread = t < THREADS ? &proc->thread[t] : &proc->data;
      if (thread->out && atomic_load(&thread->req.sent) && place_of(w, &thread->req) == DMI_OP_AWAY)
        dmi_page_op_away(&proc->page, &thread->req);
    }
    if (proc->dead || !dmi_page_report(&proc->core, &proc->page, &report) || !report.eligible)
      continue;
    if (!best || report.version.n > version.n) {
      best = proc;
      version = report.version;
    }
  }
  if (!owner && best) totals.promoted++;
  return owner ? owner : best;
}

static void resume(struct world *w, struct proc *owner, struct proc *home) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    struct dmi_page_mark mark = {.promoted = proc == owner && proc->page.role != DMI_ROLE_OWNER,
                                 .lost = !owner && proc == home,
                                 .home = proc == home,
                                 .tail = owner ? owner->core.self : home->core.self};
    struct dmi_out out;
    if (proc->dead) continue;
    dmi_out_init(&out);
    for (uint32_t t = 0; t <= THREADS; t++) {
      struct thread *thread = t < THREADS ? &proc->thread[t] : &proc->data;
      if (thread->out && atomic_load(&thread->req.sent))
        dmi_page_op_resume(&proc->core, &proc->page, &thread->req, place_of(w, &thread->req), &out);
    }
    atomic_store(&proc->core.frozen, false);
    dmi_page_resume(&proc->core, &proc->page, &mark, &out);
    act(w, proc, &out);
  }
}

static void lose(struct world *w) {
  struct proc *victim = &w->proc[rng_below(&w->rng, PROCS)], *home = NULL;
  if (victim->dead || living(w) <= 2 * THREADS) return;
  if (w->scene == SCENE_COND && victim == &w->proc[0]) return;
  kill_one(w, victim);
  w->losses++;
  w->noted_num = 0;
  for (uint32_t i = PROCS; i-- > 0;) {
    if (!w->proc[i].dead) home = &w->proc[i];
  }
  for (uint32_t i = 0; i < PROCS; i++) {
    if (w->proc[atomic_load(&w->proc[i].map.home) - 1].dead)
      atomic_store(&w->proc[i].map.home, home->core.self);
  }
  home = &w->proc[atomic_load(&home->map.home) - 1];
  freeze(w);
  resume(w, decide(w), home);
  look_for_signal(w, victim);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static void begin(struct world *w, uint64_t seed, enum dmi_break broken) {
  memset(w, 0, sizeof(*w));
  w->seed = seed;
  w->broken = broken;
  rng_seed(&w->rng, seed);
  w->scene = (enum scene)rng_below(&w->rng, SCENES);
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    proc->core = (struct dmi_core){.self = i + 1,
                                   .broken = broken,
                                   .is_member = is_member,
                                   .is_cut = is_cut,
                                   .dropped = on_dropped,
                                   .held = on_held,
                                   .arg = w,
                                   .recover = w};
    proc->map = (struct dmi_map){.base = MAP, .page_size = PAGE, .page_num = 1};
    atomic_init(&proc->map.home, 2);
    dmi_page_init(&proc->core, &proc->map, &proc->page, 0);
    proc->data.proc = proc;
    for (uint32_t t = 0; t < THREADS; t++) {
      proc->thread[t].proc = proc;
      proc->thread[t].pnum = PROCS * THREADS;
    }
  }
}

static void end(struct world *w) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    for (uint32_t k = 0; k < PROCS; k++) {
      for (uint32_t m = 0; m < w->queue[i][k].num; m++)
        drop(&w->queue[i][k].msg[m]);
      free(w->queue[i][k].msg);
    }
    for (uint32_t t = 0; t <= THREADS; t++) {
      struct thread *thread = t < THREADS ? &proc->thread[t] : &proc->data;
      if (thread->out) dmi_slice_drop(&thread->req.src);
    }
    if (!proc->dead) dmi_page_fini(&proc->core, &proc->page);
  }
  free(w->noted);
}

/* Nothing is in flight, and no thread can go on: does one wait that should not? */
static void check_end(struct world *w) {
  for (uint32_t i = 0; i < PROCS * THREADS; i++) {
    const struct thread *thread = &w->proc[i / THREADS].thread[i % THREADS];
    if (thread->proc->dead || !thread->out) continue;
    if (thread->stage != SLEEPS) {
      bad(w, "a thread waits for ever");
    } else if (w->tokens && !w->excused) {
      bad(w, "a thread sleeps, and there is a token");
    }
  }
}

static bool run(uint64_t seed, enum dmi_break broken) {
  struct world world, *w = &world;
  uint32_t most = 40000;
  begin(w, seed, broken);
  for (;;) {
    uint32_t what = rng_below(&w->rng, 100);
    bool moved = false;
    if (!--most) bad(w, "it does not end");
    if (w->bad || w->lost_page) break;
    if (w->kills < 2 && rng_once_in(&w->rng, 150)) lose(w);
    if (what < 30) {
      struct proc *proc = &w->proc[rng_below(&w->rng, PROCS)];
      if (what < 4 && !proc->dead && !proc->data.out) start_data(w, &proc->data);
      moved = go_on(w, &proc->thread[rng_below(&w->rng, THREADS)]);
    }
    if (moved || deliver_any(w)) continue;
    for (uint32_t i = 0; i < PROCS * THREADS && !moved; i++)
      moved = go_on(w, &w->proc[i / THREADS].thread[i % THREADS]);
    if (!moved) break;
  }
  if (!w->bad && !w->lost_page) check_end(w);
  totals.runs++;
  totals.ops += w->ops;
  end(w);
  return !w->bad;
}

static const struct {
  const char *name;
  enum dmi_break rule;
} breaks[] = {{"HOLDER", DMI_BREAK_HOLDER},
              {"UNMARKED", DMI_BREAK_UNMARKED},
              {"AGAIN", DMI_BREAK_AGAIN},
              {"SWALLOW", DMI_BREAK_SWALLOW},
              {"ROUND", DMI_BREAK_ROUND}};

static bool notices(const char *name, enum dmi_break rule, uint64_t first, uint64_t runs) {
  for (uint64_t seed = first; seed < first + runs; seed++) {
    if (run(seed, rule)) continue;
    printf("without %s: noticed after %" PRIu64 " runs\n", name, seed - first + 1);
    return true;
  }
  printf("without %s: not noticed in %" PRIu64 " runs\n", name, runs);
  return false;
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE"), *broken = argc == 1 ? "all" : NULL;
  uint64_t first = 1, runs = scale && !strcmp(scale, "small")  ? 2000
                             : scale && !strcmp(scale, "soak") ? 1000000
                                                               : 10000;
  bool good = true;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seed")) first = strtoull(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--seed")) runs = 1;
    if (!strcmp(argv[i], "--runs")) runs = strtoull(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--break")) broken = argv[i + 1];
  }
  if (argc == 1 || !broken) {
    for (uint64_t seed = first; seed < first + runs && good; seed++)
      good = run(seed, DMI_BREAK_NOTHING);
    printf("%" PRIu64 " runs, %" PRIu64 " operations, %" PRIu64 " kills: %" PRIu64
           " locks of lost holders, %" PRIu64 " arrivals broken, %" PRIu64 " copies promoted\n",
           totals.runs, totals.ops, totals.kills, totals.marked, totals.broken, totals.promoted);
  }
  for (size_t i = 0; good && broken && i < sizeof(breaks) / sizeof(breaks[0]); i++) {
    if (!strcmp(broken, "all") || !strcmp(broken, breaks[i].name))
      good = notices(breaks[i].name, breaks[i].rule, first, runs < 20000 ? 20000 : runs);
  }
  return !good;
}
