/*
 * member_sim.c - random programs whose processes join and leave, under the membership core.
 *
 * Each seed is one program from its first process to its end.  Now and then everything that is on
 * its way is delivered, and then nothing may be unfinished.  `--break KIND` switches a rule off;
 * `--break all` shows that each is noticed.
 *
 *   member_sim [--seeds N] [--seed S] [--break KIND|all] [--trace]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "member_world.h"
#include "msg/wire.h"

static const char *const break_names[DMI_MBREAK_LAST_KIND] = {
    "nothing", "taken", "heir",   "park", "polls",  "bye",  "last_ok", "busy", "opened", "uid",
    "unmap",   "adopt", "forgot", "left", "awaits", "role", "lost",    "room", "roomed",
};

/* ---- Picking ------------------------------------------------------------------------------- */

typedef bool (*choice)(const struct proc *p);

static int pick(choice good) {
  int found = -1;
  uint64_t seen = 0;
  for (int i = 0; i < w->slots; i++) {
    if (!w->proc[i].alive || !good(&w->proc[i])) continue;
    if (rnd(++seen) == 0) found = i;
  }
  return found;
}

static bool is_alive(const struct proc *p) {
  return p->alive;
}

/* Somebody runs there who can call. */
static bool has_user(const struct proc *p) {
  return p->joined && (p->main_runs || p->threads > 0);
}

static bool is_joined(const struct proc *p) {
  return p->joined && !p->over;
}

/* Never welcomed, or it has left, and it matters to nobody if it is lost. */
static bool is_losable(const struct proc *p) {
  return !p->over && dmi_member_losable(p->m);
}

static bool is_parting(const struct proc *p) {
  return p->m->phase == DMI_PHASE_PARTING || p->m->phase == DMI_PHASE_LAST;
}

static bool has_left(const struct proc *p) {
  return is_losable(p) && p->opened;
}

static bool is_refused(const struct proc *p) {
  return p->refused_room && !p->over;
}

static bool asked_open(const struct proc *p) {
  return p->open_got > 0 && p->welcomes == 0;
}

static bool asked_close(const struct proc *p) {
  return p->close_got > 0 && !p->dismissed &&
         (p->goodbyes == 0 || p->refused_stop || p->refused_room);
}

/* ---- Random users -------------------------------------------------------------------------- */

static uint32_t polls_of(const struct proc *p) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < p->calls.num; i++)
    num += p->calls.at[i].type == DMI_CTL_POLL;
  return num;
}

static void welcome_or_goodbye(int slot) {
  bool open = rnd(2);
  int about = pick(open ? asked_open : asked_close);
  enum dmi_msg_type type = open ? DMI_CTL_WELCOME : DMI_CTL_GOODBYE;
  if (about < 0 && !w->random_ids) return;
  if (about < 0 || (w->random_ids && rnd(8) == 0)) {
    act_call(slot, type, rnd(LIVING + 1), 0, -1);
  } else {
    act_call(slot, type, w->proc[about].dmi_id, 0, about);
  }
}

static bool is_draining(const struct proc *p) {
  return p->heir && (p->m->phase == DMI_PHASE_DRAINING || p->m->phase == DMI_PHASE_FLUSHING);
}

/* One of the mappings in use; rather one whose home is on its way to an heir. */
static uint32_t some_mapping(void) {
  int slot = pick(is_draining);
  const struct proc *p = slot < 0 ? NULL : &w->proc[slot];
  for (uint32_t i = 0; p && i < w->map_num; i++) {
    for (uint32_t j = 0; j < p->maps.num; j++) {
      if (p->maps.at[j].base == w->map_live[i] && p->maps.at[j].home == p->heir) return i;
    }
  }
  return (uint32_t)rnd(w->map_num);
}

static void use_memory(int slot) {
  uint32_t i = w->map_num ? some_mapping() : 0;
  uint64_t base = w->map_num ? w->map_live[i] : 0;
  if (w->map_num == 0 || (w->map_num < MAPS / 2 && rnd(4) == 0)) {
    act_call(slot, DMI_CTL_MMAP, 1 + rnd(10000), 1 + rnd(100), -1);
  } else if (rnd(pick(is_draining) < 0 ? 3 : 2) == 0) {
    w->map_live[i] = w->map_live[--w->map_num];
    act_call(slot, DMI_CTL_MUNMAP, base, 0, -1);
  } else {
    act_call(slot, DMI_CTL_LOOKUP, base + rnd(2), 0, -1);
  }
}

static void ask_departed(int slot) {
  struct departed *departed;
  if (w->departed.num == 0) return;
  departed = &w->departed.at[rnd(w->departed.num)];
  if (departed->asked) return;
  departed->asked = true;
  act_call(slot, DMI_CTL_THREAD, departed->uid, departed->seq, -1);
}

static void some_member(int slot, bool create) {
  const struct proc *p = &w->proc[slot];
  uint32_t uid = p->view.num ? p->view.at[rnd(p->view.num)] : 0;
  int other = uid ? world_slot_of(uid) : -1;
  for (uint32_t i = 0; !create && i < p->view.num; i++) { /* hints often name one that left */
    int leaver = world_slot_of(p->view.at[i]);
    if (leaver < 0 || leaver == slot || !w->proc[leaver].left || rnd(4) == 0) continue;
    uid = p->view.at[i];
    other = leaver;
  }
  if (other < 0 || other == slot || !w->proc[other].opened) return;
  if (create) {
    act_create(slot, uid, false);
  } else {
    act_request(slot, uid);
  }
}

/* Nothing that a thread of it asked for is unanswered (polls are threads of their own). */
static bool may_end_thread(const struct proc *p) {
  return p->threads + p->main_runs > 1 || (p->ops == 0 && p->calls.num == polls_of(p));
}

static bool pick_other_user(int slot) {
  for (int i = 0; i < w->slots; i++) {
    if (i != slot && w->proc[i].alive && has_user(&w->proc[i])) return true;
  }
  return false;
}

static void random_user(int slot) {
  struct proc *p = &w->proc[slot];
  switch (rnd(14)) {
    case 0:
    case 1:
      if (polls_of(p) < 2) act_call(slot, DMI_CTL_POLL, 0, 0, -1);
      break;
    case 2:
      act_call(slot, DMI_CTL_PEEK, 0, 0, -1);
      break;
    case 3:
    case 4:
    case 5:
      welcome_or_goodbye(slot);
      break;
    case 6:
      use_memory(slot);
      break;
    case 7:
      act_call(slot, DMI_CTL_NODES, 0, 0, -1);
      break;
    case 8:
    case 9:
      some_member(slot, true);
      break;
    case 10:
    case 11:
      some_member(slot, false);
      break;
    case 12:
      if (p->main_runs && p->closed && pick_other_user(slot) && may_end_thread(p) && rnd(3) == 0) {
        act_end_thread(slot, true);
        break;
      }
      if (p->threads > 0 && may_end_thread(p)) act_end_thread(slot, false);
      break;
    default:
      ask_departed(slot);
  }
}

static uint32_t living(void) {
  uint32_t num = 0;
  for (int i = 0; i < w->slots; i++)
    num += w->proc[i].alive;
  return num;
}

static void random_act(bool joins) {
  int slot;
  switch (rnd(16)) {
    case 0:
    case 1:
      slot = pick(is_alive);
      if (joins && slot >= 0 && w->slots < SLOTS && living() < LIVING) world_spawn(slot);
      break;
    case 2:
      slot = pick(is_joined);
      if (rnd(2) && slot >= 0) act_leave(slot);
      break;
    case 3:
      slot = pick(is_refused);
      if (rnd(4) == 0 && slot >= 0) act_room(slot);
      slot = pick(rnd(2) ? has_left : is_losable);
      if (slot >= 0 && rnd(pick(is_parting) >= 0 ? 2 : 8) == 0) world_kill(slot);
      break;
    default:
      slot = pick(has_user);
      if (slot < 0) break;
      if (rnd(4) == 0 && pick(is_draining) >= 0) {
        use_memory(slot);
      } else {
        random_user(slot);
      }
  }
}

/* ---- Notices ----------------------------------------------------------------------------- */

uint32_t world_close_notices(int slot) {
  uint32_t num = w->proc[slot].close_got;
  int at = world_coordinator();
  const struct dmi_coord *c = at < 0 ? NULL : w->proc[at].m->coord;
  for (uint32_t i = 0; c && i < c->notices.num; i++) {
    const struct dmi_queued *queued = &c->notices.at[i];
    num += queued->uid == w->proc[slot].uid && queued->notice.state == DMI_CLOSE;
  }
  return num;
}

/* What the coordinator's queue of notices says after an event of it. */
void world_watch(int slot) {
  const struct dmi_coord *c = w->proc[slot].m->coord;
  uint64_t oldest = UINT64_MAX, last = 0;
  if (!c) return;
  if (w->proc[slot].rooms && w->proc[slot].rooms < c->rooms) w->room_event = w->event;
  w->proc[slot].rooms = c->rooms;
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    struct proc *p = &w->proc[atoi(record->info.host + 1)];
    if (record->life == DMI_LIFE_JOINING || record->life == DMI_LIFE_LOST) continue;
    if (!p->open_rank) p->open_rank = w->event;
    if (record->life >= DMI_LIFE_CLOSING && !p->close_rank) p->close_rank = w->event;
  }
  for (uint32_t i = 0; i < c->notices.num; i++) {
    const struct dmi_notice *notice = &c->notices.at[i].notice;
    struct proc *p = &w->proc[atoi(notice->info.host + 1)];
    uint64_t rank = notice->state == DMI_OPEN ? p->open_rank : p->close_rank;
    if (notice->state == DMI_CLOSE && p->refused_room) continue; /* it may be told again */
    if (rank < last) fail("notices are not in the order of asking");
    if (notice->state == DMI_OPEN ? p->open_out : p->close_out) fail("a notice came back");
    last = rank;
    if (rank < oldest) oldest = rank;
  }
  for (int s = 0; s < w->slots; s++) {
    struct proc *p = &w->proc[s];
    bool open = false, close = false;
    for (uint32_t i = 0; i < c->notices.num; i++) {
      if (c->notices.at[i].uid != p->uid || !p->uid) continue;
      if (c->notices.at[i].notice.state == DMI_OPEN) open = true;
      if (c->notices.at[i].notice.state == DMI_CLOSE) close = true;
    }
    if (p->killed) continue;
    if (p->open_rank && !open && !p->open_out) {
      p->open_out = true;
      if (p->open_rank > oldest) fail("a younger notice was given first");
    }
    if (p->close_rank && !close && !p->close_out) {
      p->close_out = true;
      if (p->close_rank > oldest) fail("a younger notice was given first");
    }
  }
}

/* ---- Quiet: everything that was on its way has come ---------------------------------------- */

static void check_call_done(int slot) {
  const struct proc *p = &w->proc[slot];
  for (uint32_t i = 0; i < p->calls.num; i++) {
    if (p->calls.at[i].type == DMI_CTL_POLL) continue;
    fail("%s of %d has no answer", dmi_wire_name((uint8_t)p->calls.at[i].type), slot);
  }
  if (p->ops) fail("a page operation of %d has no answer", slot);
  if (p->own_creates || p->creating.num) fail("a create of %d has no answer", slot);
}

static void check_views_agree(void) {
  const struct proc *first = NULL;
  for (int i = 0; i < w->slots; i++) {
    const struct proc *p = &w->proc[i];
    if (!p->alive) continue;
    if (!p->joined) fail("%d asks to join for ever (phase %d)", i, p->m->phase);
    if (p->m->phase == DMI_PHASE_PARTING || p->m->phase == DMI_PHASE_LAST) {
      fail("%d does not part", i);
    }
    if (!first) first = p;
    if (dmi_member_view(p->m) != dmi_member_view(first->m) ||
        dmi_member_coordinator(p->m) != dmi_member_coordinator(first->m) ||
        p->view.num != first->view.num) {
      fail("views of %d differ", i);
    }
    for (uint32_t j = 0; j < p->view.num; j++) {
      int other = world_slot_of(p->view.at[j]);
      if (!dmi_uid_set_has(&first->view, p->view.at[j])) fail("views of %d differ", i);
      if (other < 0 || !w->proc[other].alive) fail("%d has a dead process in its view", i);
    }
    if (p->view.num != living()) fail("%d misses a member", i);
  }
}

/* Who found no room hears of it as soon as there may be some, and is not forgotten until then. */
static void check_refused(int slot, const struct dmi_record *record) {
  const struct proc *p = &w->proc[slot];
  if (!p->m->no_room || !record) return;
  if (record->no_room && (w->room_event > p->refused_at || p->room_at > p->refused_at)) {
    fail("there may be room for %d, and nobody is told", slot);
  }
  if (!record->no_room && record->life == DMI_LIFE_CLOSING &&
      world_close_notices(slot) <= p->close_base) {
    fail("%d found no room and was forgotten", slot);
  }
}

static void check_lost_told(void) {
  for (int i = 0; i < w->slots; i++) {
    const struct proc *p = &w->proc[i];
    if (p->main_lost && p->told == 0) fail("nobody was told that DMI_main was lost with %d", i);
  }
}

static void settle(void) {
  uint64_t limit = 200000;
  uint32_t polls = 0;
  int slot;
  while (world_deliver()) {
    if (--limit == 0) fail("it does not come to rest");
  }
  if (living() == 0) return;
  slot = world_coordinator();
  if (slot < 0) fail("nobody is coordinator");
  check_views_agree();
  check_lost_told();
  for (int i = 0; i < w->slots; i++) {
    const struct proc *p = &w->proc[i];
    if (!p->alive) continue;
    check_call_done(i);
    check_refused(i, dmi_coord_find(w->proc[slot].m->coord, p->uid));
    polls += polls_of(p);
    if (p->dismissed && !p->left) fail("%d was dismissed and does not know", i);
    if (polls_of(p) > 0 && w->proc[slot].m->coord->notices.num > 0) {
      fail("%d polls while there is a notice", i);
    }
    /* a leaver whose heir has its pages, and where nothing runs, is gone by now */
    if (p->left && p->heir && !has_user(p)) fail("%d should have gone", i);
    if (w->proc[i].m->phase == DMI_PHASE_LEFT && !dmi_member_losable(p->m)) {
      fail("%d may be lost and does not know", i);
    }
    if (dmi_uid_set_has(&p->away, p->uid) && !p->left) fail("%d has left and does not say so", i);
  }
  if (polls != w->proc[slot].m->coord->polls.num) fail("callers of DMI_poll were forgotten");
  if (!world_user_code()) fail("nothing runs and the program does not end");
}

static void check_notices_given(void) {
  if (w->notices_lost) return;
  for (int i = 0; i < w->slots; i++) {
    const struct proc *p = &w->proc[i];
    if (p->killed) continue;
    if (p->open_out && p->open_got != 1) fail("the notice OPEN of %d was lost", i);
    if (p->close_out && (p->refused_room ? p->close_got < 1 : p->close_got != 1)) {
      fail("the notice CLOSE of %d was lost", i);
    }
  }
}

/* ---- A program ----------------------------------------------------------------------------- */

/* Everybody is asked to leave and dismissed, as far as somebody runs who can say so. */
static void dismiss_all(void) {
  for (int i = 0; i < w->slots; i++) {
    if (w->proc[i].alive && !w->proc[i].closed) act_leave(i);
    while (rnd(4))
      world_deliver();
  }
  for (int round = 0; round < 60; round++) {
    int slot = pick(has_user), about = pick(rnd(2) ? asked_open : asked_close);
    if (slot < 0) return;
    if (polls_of(&w->proc[slot]) < 2) act_call(slot, DMI_CTL_POLL, 0, 0, -1);
    if (about >= 0 && (w->proc[about].threads == 0 || about == slot)) {
      bool open = asked_open(&w->proc[about]);
      act_call(slot, open ? DMI_CTL_WELCOME : DMI_CTL_GOODBYE, w->proc[about].dmi_id, 0, about);
    }
    for (int i = 0; i < w->slots; i++) {
      struct proc *p = &w->proc[i];
      if (!p->alive || rnd(2) || !may_end_thread(p)) continue;
      if (p->threads) {
        act_end_thread(i, false);
      } else if (p->main_runs && pick_other_user(i)) {
        act_end_thread(i, true);
      }
    }
    while (rnd(12))
      world_deliver();
    if (rnd(8) == 0) settle();
  }
}

/* All user code ends where it can, until none is left: then the program must end. */
static void end_all(void) {
  uint64_t limit = 500000;
  while (living() > 0) {
    bool ended = false;
    if (--limit == 0) fail("it does not end");
    for (int i = 0; i < w->slots; i++) {
      struct proc *p = &w->proc[i];
      if (!p->alive || !has_user(p) || !may_end_thread(p) || rnd(3)) continue;
      ended = true;
      act_end_thread(i, p->main_runs && (p->threads == 0 || rnd(2)));
    }
    if (!world_deliver() && !ended && !world_user_code()) {
      fail("nothing runs, nothing is on its way, and %u processes have not ended", living());
    }
  }
  while (world_deliver())
    continue;
}

static void run_seed(uint64_t seed, enum dmi_member_break broken, bool trace) {
  uint64_t steps;
  uint64_t stats[8];
  memcpy(stats, &w->stat_events, sizeof(stats));
  world_free();
  memset(w, 0, sizeof(*w));
  memcpy(&w->stat_events, stats, sizeof(stats));
  w->seed = seed;
  w->rng = seed * 0x9e3779b97f4a7c15ull + 88172645463325252ull;
  w->broken = broken;
  w->trace = trace;
  w->next_temp = DMI_NET_TEMP;
  for (int i = 0; i < 8; i++)
    rnd(2);
  w->random_ids = rnd(3) == 0;
  world_spawn(-1);
  steps = 50 + rnd(400);
  for (uint64_t i = 0; i < steps; i++) {
    if (rnd(4)) world_deliver();
    if (rnd(3) == 0) random_act(true);
    if (rnd(100) == 0) settle();
    if (rnd(200) == 0) dismiss_all();
  }
  if (rnd(3)) settle();
  if (rnd(2)) dismiss_all();
  end_all();
  check_notices_given();
}

static void print_stats(uint64_t seeds, double seconds) {
  printf(
      "member_sim: %llu programs, %llu events, %llu joins, %llu removals, %llu handovers, "
      "%llu lost joiners, %llu views taken, %llu notices, %llu calls, %.1f s\n",
      (unsigned long long)seeds, (unsigned long long)w->stat_events,
      (unsigned long long)w->stat_joins, (unsigned long long)w->stat_leaves,
      (unsigned long long)w->stat_handovers, (unsigned long long)w->stat_kills,
      (unsigned long long)w->stat_views, (unsigned long long)w->stat_notices,
      (unsigned long long)w->stat_calls, seconds);
}

static void run_many(uint64_t first, uint64_t seeds, enum dmi_member_break broken, bool trace) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (uint64_t i = 0; i < seeds; i++)
    run_seed(first + i, broken, trace);
  clock_gettime(CLOCK_MONOTONIC, &end);
  print_stats(seeds,
              (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}

/* In a child of its own, since it ends by abort or exit.  True: it was noticed. */
static bool noticed(enum dmi_member_break broken, uint64_t seeds) {
  int status;
  pid_t pid;
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    run_many(1, seeds, broken, false);
    fflush(NULL);
    _exit(0);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return false;
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static int break_all(uint64_t seeds) {
  int missed = 0;
  for (int i = DMI_MBREAK_NOTHING + 1; i < DMI_MBREAK_LAST_KIND; i++) {
    bool ok = noticed((enum dmi_member_break)i, seeds);
    printf("member_sim: without rule '%s': %s\n", break_names[i], ok ? "noticed" : "NOT NOTICED");
    if (!ok) missed++;
  }
  return missed;
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE");
  const char *broken = NULL;
  uint64_t seeds = 3000, first = 1;
  bool trace = false;
  if (scale && strcmp(scale, "small") == 0) seeds = 300;
  if (scale && strcmp(scale, "soak") == 0) seeds = 300000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--trace") == 0) {
      trace = true;
    } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
      seeds = strtoull(argv[++i], NULL, 10);
    } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
      first = strtoull(argv[++i], NULL, 10);
      seeds = 1;
    } else if (i + 1 < argc && strcmp(argv[i], "--break") == 0) {
      broken = argv[++i];
    } else {
      fprintf(stderr, "usage: %s [--seeds N] [--seed S] [--break KIND|all] [--trace]\n", argv[0]);
      return 2;
    }
  }
  if (trace) setvbuf(stdout, NULL, _IOLBF, 0);
  w = calloc(1, sizeof(*w));
  if (!w) return 2;
  if (!broken) {
    run_many(first, seeds, DMI_MBREAK_NOTHING, trace);
    return argc > 1 ? 0 : break_all(4000) > 0;
  }
  if (strcmp(broken, "all") == 0) return break_all(seeds) > 0;
  for (int i = 0; i < DMI_MBREAK_LAST_KIND; i++) {
    if (strcmp(broken, break_names[i]) == 0) {
      run_many(first, seeds, (enum dmi_member_break)i, trace);
      return 0;
    }
  }
  fprintf(stderr, "%s: no rule '%s'\n", argv[0], broken);
  return 2;
}
