/*
 * crash_member.c - the whole way from a lost process to RESUME: as crash_proc.c, but the daemon's
 * part is the product's membership (core/member*.c, coord*.c).  Users poll, welcome and dismiss.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "crash_exit.h"
#include "crash_map.h"
#include "crash_note.h"
#include "crash_sim.h"
#include "core/coord_int.h"
#include "msg/wire.h"

#define GOT_MAX 64u

/* A notice that a user here was given. */
struct got {
  uint32_t uid, state;
};

struct daemon {
  struct sim *sim;
  struct sim_proc *proc;
  struct dmi_member *m;
  struct dmi_mout out;
  bool carrying, joined, opened, asked, over;
  bool stopped;           /* its users have ended: the program may end without hearing of it */
  bool busy;              /* its user code runs, and was not stopped */
  bool witness, survived; /* DMI_survive was called, and has returned */
  uint64_t survive_op;
  uint32_t seed; /* index */
  uint32_t attempts;
  uint32_t temp;
  uint64_t root, root_op,
      root_set;          /* number it gives its name to; ROOT_SET that is out; completed */
  uint64_t polls, calls; /* out */
  struct got got[GOT_MAX];
  uint32_t got_num;
  struct sim_maps maps;
  dmi_id_t ids[PROCS]; /* of the members of proc->view */
  uint64_t cut[PROCS]; /* the last crash view that this process has taken, by its CUT */
  uint64_t recovers;   /* number of the RECOVER that waits for CUT of all; 0: none */
  struct sim_notes notes;
  struct sim_exit exit;
  struct dmi_pulse_out held; /* what the agreement asks for inside of an event of membership */
};

/* ---- Names: processes are known by index, uid, or temporary id ------------------------------- */

static uint32_t index_of(const struct sim *sim, uint32_t id) {
  if (id >= DMI_NET_TEMP) return id % 16;
  for (uint32_t i = 1; i < PROCS; i++) {
    uint32_t uid = sim->proc[i].uid ? sim->proc[i].uid : sim->proc[i].promised_uid;
    if (uid == id) return i;
  }
  return 0;
}

static struct daemon *daemon_of(const struct sim_proc *proc) {
  return proc->daemon;
}

dmi_uid_t sim_index_of(const struct sim *sim, dmi_uid_t uid) {
  return index_of(sim, uid);
}

/* ---- What membership asks for -----------------------------------------------------------------
 */

static bool env_connected(void *arg, uint32_t uid) {
  const struct daemon *daemon = arg;
  uint32_t at = index_of(daemon->sim, uid);
  return at && daemon->sim->proc[at].alive && daemon->sim->proc[at].uid == uid;
}

static void env_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  const struct daemon *daemon = arg;
  memset(ours, 0, sizeof(*ours));
  memset(theirs, 0, sizeof(*theirs));
  ours->ip[0] = theirs->ip[0] = 1;
  theirs->port = (uint16_t)(1000 + index_of(daemon->sim, id));
}

static void carry_pulse(struct daemon *daemon, struct dmi_pulse_out *out);
static void carry(struct daemon *daemon);

static dmi_ms_t now_of(const struct daemon *daemon) {
  return sim_proc_now(daemon->sim, daemon->proc);
}

/* DMI_survive: what was known without the agreement is forgotten, but who has ended is seen again.
 */
static void forget_pulse(struct daemon *daemon) {
  struct sim *sim = daemon->sim;
  uint32_t self = (uint32_t)(daemon->proc - sim->proc);
  if (!daemon->proc->pulse) return;
  dmi_pulse_free(daemon->proc->pulse);
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct sim_proc *proc = &sim->proc[i];
    struct sim_letter dead = {.said = SAID_DEAD, .number = proc->uid};
    if (proc->daemon && !proc->alive && proc->uid && proc->host == daemon->proc->host)
      sim_letter(sim, i, self, LANE_HOST, dead);
  }
}

/* Without the agreement: who is silent or dead is lost. */
static void pulse_alone(struct daemon *daemon) {
  struct sim_proc *proc = daemon->proc;
  const struct dmi_pulse_config config = {.self = proc->uid, .dead_after = DEAD_AFTER};
  struct dmi_pulse_member members[PROCS];
  struct dmi_pulse_view view = {.number = dmi_member_view(daemon->m),
                                .coordinator = dmi_member_coordinator_next(daemon->m),
                                .members = members};
  const struct dmi_peer *peers = dmi_member_peers(daemon->m, &view.num);
  for (uint32_t i = 0; i < view.num; i++)
    members[i] = (struct dmi_pulse_member){.uid = peers[i].uid, .voter = !peers[i].left};
  if (!proc->pulse) {
    proc->pulse = dmi_pulse_new(&config);
    proc->started = true;
    dmi_pulse_start(proc->pulse, now_of(daemon), &view, 0, &daemon->held);
  } else {
    (void)dmi_pulse_take(proc->pulse, now_of(daemon), &view, 0, &daemon->held);
  }
  dmi_pulse_all_taken(proc->pulse, now_of(daemon), view.number, &daemon->held);
}

static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct daemon *daemon = arg;
  const struct dmi_pulse_config config = {
      .self = dmi_member_uid(daemon->m), .dead_after = DEAD_AFTER, .survive = true};
  forget_pulse(daemon);
  daemon->proc->pulse = dmi_pulse_new(&config);
  dmi_pulse_set_break(daemon->proc->pulse, daemon->sim->broken);
  daemon->proc->uid = config.self;
  daemon->proc->started = true;
  dmi_pulse_start(daemon->proc->pulse, now_of(daemon), view, ballot, &daemon->held);
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct daemon *daemon = arg;
  bool takes;
  takes = dmi_pulse_take(daemon->proc->pulse, now_of(daemon), view, ballot, &daemon->held);
  return takes;
}

static uint64_t on_may_change(void *arg) {
  struct daemon *daemon = arg;
  bool may = dmi_pulse_may_change(daemon->proc->pulse, now_of(daemon));
  return may ? daemon->proc->pulse->promised : 0;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  struct daemon *daemon = arg;
  daemon->sim->totals->changes++;
  daemon->sim->totals->handovers += view->coordinator != daemon->proc->uid;
  (void)dmi_pulse_change(daemon->proc->pulse, now_of(daemon), view, &daemon->held);
}

static void on_all_taken(void *arg, uint64_t number) {
  struct daemon *daemon = arg;
  dmi_pulse_all_taken(daemon->proc->pulse, now_of(daemon), number, &daemon->held);
  sim_check_view(daemon->sim, daemon->proc, true);
}

static uint32_t on_tie(void *arg) {
  return dmi_pulse_tie(((struct daemon *)arg)->proc->pulse);
}

static bool on_leased(void *arg, dmi_uid_t uid) {
  return dmi_pulse_leased(((struct daemon *)arg)->proc->pulse, uid); /* asked again at each tick */
}

static const struct dmi_member_survive survive = {
    .start = on_start,
    .take = on_take,
    .may_change = on_may_change,
    .change = on_change,
    .tie = on_tie,
    .all_taken = on_all_taken,
    .leased = on_leased,
};

/* ---- Actions of the agreement ------------------------------------------------------------------
 */

/* ---- Recovery ---------------------------------------------------------------------------------
 * As the product's pages do it: a process is READY when all that the others had sent it before they
 * took the crash view is here.
 */

static void send_cut(struct daemon *daemon) {
  struct sim *sim = daemon->sim;
  const struct sim_view *view = &daemon->proc->view;
  struct sim_letter cut = {.said = SAID_CUT, .number = view->view.number};
  uint32_t self = index_of(sim, daemon->proc->uid);
  daemon->recovers = 0;
  for (uint32_t i = 0; i < view->view.num; i++) {
    uint32_t to = index_of(sim, view->member[i].uid);
    if (to && to != self) sim_letter(sim, self, to, LANE_DAEMON, cut);
  }
}

static void look_ready(struct daemon *daemon) {
  struct sim *sim = daemon->sim;
  const struct sim_view *view = &daemon->proc->view;
  uint64_t number = daemon->recovers;
  for (uint32_t i = 0; i < view->view.num; i++) {
    uint32_t at = index_of(sim, view->member[i].uid);
    if (view->member[i].uid != daemon->proc->uid && daemon->cut[at] < number) return;
  }
  daemon->recovers = 0;
  if (number) dmi_member_recovered(daemon->m, number, 0, &daemon->out);
}

static void note_view(struct daemon *daemon) {
  struct sim_view *view = &daemon->proc->view;
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(daemon->m, &num);
  view->view.number = dmi_member_view(daemon->m);
  view->view.num = num < PROCS ? num : PROCS;
  for (uint32_t i = 0; i < view->view.num; i++) {
    view->member[i] = (struct dmi_pulse_member){peers[i].uid, peers[i].voter, peers[i].witness};
    daemon->ids[i] = peers[i].dmi_id;
  }
}

/* Not inside of an event of membership. */
static void carry_pulse(struct daemon *daemon, struct dmi_pulse_out *out) {
  struct sim *sim = daemon->sim;
  struct sim_proc *proc = daemon->proc;
  uint32_t self = index_of(sim, proc->uid);
  for (uint32_t i = 0; i < out->num && proc->alive; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    struct sim_letter letter = {.said = SAID_PULSE, .msg = act->msg, .number = proc->uid};
    uint32_t to = index_of(sim, act->uid);
    switch (act->type) {
      case DMI_PULSE_SEND:
        if (!to) break;
        sim_log_said(sim, proc, act);
        sim_letter(sim, self, to, LANE_PULSE, letter);
        memset(&act->msg, 0, sizeof(act->msg));
        break;
      case DMI_PULSE_VIEW:
        sim_log(sim, "p%u is to take a %sview", proc->uid, act->crash ? "crash " : "");
        sim->totals->crashes += act->crash;
        letter = (struct sim_letter){.said = SAID_AGREED, .number = act->crash};
        letter.view.view.body = act->body;
        sim_letter(sim, self, self, LANE_HOST, letter);
        memset(&act->body, 0, sizeof(act->body));
        break;
      case DMI_PULSE_END:
        sim_log(sim, "p%u ends: %s", proc->uid, act->text);
        sim_check_gives_up(sim, proc, act->text);
        if (!daemon->m->env.survive)
          sim_bad(sim, "p%u ends, and has not heard of DMI_survive", proc->uid);
        sim_proc_die(sim, proc);
        break;
      case DMI_PULSE_LOST:
        dmi_member_lost(daemon->m, act->uid, act->text, &daemon->out);
        break;
      case DMI_PULSE_FREEZE:
        sim->totals->freezes++;
        break;
      case DMI_PULSE_THAW:
        dmi_member_may_change(daemon->m, &daemon->out);
        break;
      default:
        break;
    }
  }
  dmi_pulse_out_free(out);
}

/* ---- Actions of membership ----------------------------------------------------------------------
 */

static void send(struct daemon *daemon, struct dmi_mact *act) {
  struct sim *sim = daemon->sim;
  uint32_t self = (uint32_t)(daemon->proc - sim->proc), to = index_of(sim, act->id);
  struct sim_letter letter = {.said = SAID_DAEMON, .msg = act->msg};
  if (!to) return;
  letter.number = act->id >= DMI_NET_TEMP ? act->id - to + self : daemon->proc->uid;
  sim_letter(sim, self, to, LANE_DAEMON, letter);
  memset(&act->msg, 0, sizeof(act->msg));
}

static void connect_to(struct daemon *daemon, const struct dmi_addr *addr) {
  struct sim *sim = daemon->sim;
  uint32_t to = addr->port ? addr->port - 1000u : daemon->seed;
  if (!sim->proc[to].alive || !daemon_of(&sim->proc[to]) || sim->proc[to].ended) {
    dmi_member_not_connected(daemon->m, "nobody is there", &daemon->out);
    return;
  }
  daemon->temp = DMI_NET_TEMP + 16 * (++sim->attempts) + to;
  dmi_member_connected(daemon->m, daemon->temp, &daemon->out);
}

static void user(struct daemon *daemon);

/* The user would take that for the loss of another one, which has the id in the view taken last. */
static void check_told_loss(struct daemon *daemon, const struct dmi_notice *notice) {
  const struct sim_view *view = &daemon->proc->view;
  for (uint32_t i = 0; notice->state == DMI_LOST && i < view->view.num; i++) {
    const struct dmi_pulse_member *member = &view->member[i];
    if (member->witness || member->uid == notice->uid || !dmi_id_is(daemon->ids[i], notice->dmi_id))
      continue;
    sim_bad(daemon->sim, "p%u is told the loss of p%u, whose id %u p%u has", daemon->proc->uid,
            notice->uid, notice->dmi_id.n, member->uid);
  }
}

static void result(struct daemon *daemon, const struct dmi_mact *act) {
  struct sim *sim = daemon->sim;
  const struct dmi_notice *notice = act->notice_num ? &act->notices[0] : NULL;
  if (sim_maps_result(sim, &daemon->maps, act)) return;
  sim_notes_result(sim, &daemon->notes, act);
  if (act->op % 2 == 0) {
    if (act->op == daemon->root_op) {
      daemon->root_set = daemon->root;
      daemon->root_op = 0;
      sim->totals->roots++;
    }
    if (act->op == daemon->survive_op) {
      if (act->error) sim_bad(sim, "DMI_survive fails");
      daemon->survived = true;
      sim->totals->survives++;
    }
    daemon->calls--;
    return;
  }
  daemon->polls--;
  if (!notice || act->error || notice->state == DMI_NOTE) return;
  sim_log(sim, "p%u is given: state %u of p%u", daemon->proc->uid, notice->state, notice->uid);
  check_told_loss(daemon, notice);
  if (daemon->got_num < GOT_MAX)
    daemon->got[daemon->got_num++] = (struct got){notice->uid, notice->state};
  if (daemon->stopped) return;
  if (notice->state == DMI_OPEN) {
    daemon->calls++;
    dmi_member_welcome(daemon->m, 2 * ++sim->attempts, notice->dmi_id, &daemon->out);
  } else if (notice->state == DMI_CLOSE) {
    daemon->calls++;
    dmi_member_goodbye(daemon->m, 2 * ++sim->attempts, notice->dmi_id, &daemon->out);
  }
}

static void ends(struct daemon *daemon, bool well) {
  daemon->over = true;
  if (well) {
    daemon->proc->ended = true;
    daemon->sim->totals->leaves++;
  }
  sim_log(daemon->sim, "p%u %s", daemon->proc->uid, well ? "has left" : "fails");
  sim_proc_die(daemon->sim, daemon->proc);
}

static void drain(struct daemon *daemon, dmi_uid_t heir) {
  struct sim_proc *proc = &daemon->sim->proc[index_of(daemon->sim, heir)];
  /* one that was removed, and does not know it, is fenced there */
  if (heir && proc->daemon && dmi_member_peer(daemon_of(proc)->m, daemon->proc->uid))
    sim_maps_drain(&daemon->maps, daemon->proc->uid, &daemon_of(proc)->maps, heir);
  dmi_member_drained(daemon->m, NULL, 0, &daemon->out);
}

static void act_on(struct daemon *daemon, struct dmi_mact *act) {
  struct sim *sim = daemon->sim;
  sim_maps_act(&daemon->maps, act);
  sim_exit_act(sim, &daemon->exit, act);
  switch (act->type) {
    case DMI_MACT_SEND:
      send(daemon, act);
      break;
    case DMI_MACT_CONNECT:
      connect_to(daemon, &act->addr);
      break;
    case DMI_MACT_SELF:
      daemon->proc->uid = daemon->maps.self = act->id;
      break;
    case DMI_MACT_RENAME:
      if (index_of(sim, act->id)) sim->proc[index_of(sim, act->id)].promised_uid = act->uid;
      break;
    case DMI_MACT_VIEW:
      note_view(daemon);
      sim_log(sim, "p%u takes view %u: %u members, coordinator p%u", daemon->proc->uid,
              (unsigned)dmi_member_view(daemon->m), daemon->proc->view.view.num,
              daemon->m->coordinator_next);
      if (daemon->m->crash == dmi_member_view(daemon->m)) {
        sim_check_view(sim, daemon->proc, false);
        send_cut(daemon);
      }
      if (!daemon->m->env.survive) pulse_alone(daemon);
      dmi_member_viewed(daemon->m, &daemon->out);
      break;
    case DMI_MACT_JOINED:
      daemon->joined = true;
      sim->totals->joins++;
      sim->totals->witnesses += daemon->witness;
      break;
    case DMI_MACT_OPENED:
      daemon->opened = true;
      break;
    case DMI_MACT_STOP_THREADS:
      daemon->stopped = true;
      if (daemon->busy) dmi_member_idle(daemon->m, &daemon->out);
      if (sim->totals->with_roots && daemon->m->busy) { /* DMI_main, or DMI_recover */
        dmi_member_main_ended(daemon->m, true, &daemon->out);
        dmi_member_idle(daemon->m, &daemon->out);
      }
      dmi_member_stopped(daemon->m, true, &daemon->out);
      break;
    case DMI_MACT_START_DRAIN:
      drain(daemon, act->uid);
      break;
    case DMI_MACT_FORGET:
      dmi_member_forgot(daemon->m, act->mapping.base, &daemon->out);
      break;
    case DMI_MACT_MAIN_LOST:
      sim->totals->recovers++;
      break;
    case DMI_MACT_RECOVER:
      daemon->recovers = act->op;
      look_ready(daemon);
      break;
    case DMI_MACT_RESUME:
      dmi_member_resumed(daemon->m, &daemon->out);
      break;
    case DMI_MACT_RESULT:
      result(daemon, act);
      break;
    case DMI_MACT_FINISH:
      ends(daemon, true);
      break;
    case DMI_MACT_FATAL:
      if (daemon->proc->uid) sim_bad(sim, "p%u: fatal: %s", daemon->proc->uid, act->text);
      ends(daemon, false);
      break;
    default:
      break;
  }
}

static void carry_held(struct daemon *daemon) {
  while (daemon->held.num && daemon->proc->alive) {
    struct dmi_pulse_out held = daemon->held;
    dmi_pulse_out_init(&daemon->held);
    carry_pulse(daemon, &held);
  }
}

static void carry(struct daemon *daemon) {
  if (daemon->carrying) return;
  daemon->carrying = true;
  carry_held(daemon);
  for (uint32_t i = 0; i < daemon->out.num && daemon->proc->alive; i++) {
    struct dmi_mact act = daemon->out.act[i]; /* the list may move */
    struct dmi_mout one = {1, 1, &act};
    memset(&daemon->out.act[i], 0, sizeof(act));
    act_on(daemon, &act);
    dmi_mout_clear(&one);
    carry_held(daemon);
  }
  dmi_mout_clear(&daemon->out);
  daemon->carrying = false;
  if (daemon->proc->alive) dmi_member_check(daemon->m);
}

/* ---- Life ----------------------------------------------------------------------------------- */

void sim_proc_start(struct sim *sim, dmi_uid_t at, uint32_t host) {
  static const uint8_t program_id[16] = {1};
  struct sim_proc *proc = &sim->proc[at];
  struct daemon *daemon = dmi_xalloc(1, sizeof(*daemon));
  struct dmi_member_env env = {
      .arg = daemon,
      .connected = env_connected,
      .addrs = env_addrs,
      .survive = &survive,
      .survive_arg = daemon,
      .settings = {.survive = !sim->totals->late, .dead_after = DEAD_AFTER / 1000},
      .surviving = {.survive = true, .dead_after = DEAD_AFTER / 1000},
      .main_lost = sim->totals->with_roots ? DMI_MAIN_RECOVERS : DMI_MAIN_IGNORED};
  struct dmi_node_info info = {.cores = 1, .memory = 1, .host = "host"};
  struct dmi_addr own = {.port = (uint16_t)(1000 + at)};
  proc->host = host;
  proc->alive = true;
  proc->born = proc->trouble = sim->now;
  proc->rate = 0.99 + rng_below(&sim->rng, 20) / 1000.0;
  proc->offset = rng_below(&sim->rng, 1000000);
  proc->daemon = daemon;
  daemon->sim = sim;
  daemon->proc = proc;
  daemon->witness = env.witness = at > 1 && rng_once_in(&sim->rng, 5);
  if (!sim->given) sim->given = dmi_xalloc(1, sizeof(*sim->given));
  daemon->maps.all = sim->given;
  sim_maps_env(&daemon->maps, &env);
  daemon->m = dmi_member_new(&env, &info, &own);
  dmi_mout_init(&daemon->out);
  if (at == 1) {
    dmi_member_start_first(daemon->m, program_id, &daemon->out);
  } else {
    daemon->seed = sim->seed_of;
    dmi_member_start_join(daemon->m, &daemon->out);
  }
  carry(daemon);
}

void sim_proc_free(struct sim_proc *proc) {
  struct daemon *daemon = proc->daemon;
  if (!daemon) return;
  dmi_member_free(daemon->m);
  dmi_mout_free(&daemon->out);
  dmi_pulse_out_free(&daemon->held);
  free(daemon->notes.got);
  free(daemon);
}

void sim_proc_die(struct sim *sim, struct sim_proc *proc) {
  uint32_t at = (uint32_t)(proc - sim->proc);
  proc->alive = false;
  for (uint32_t i = 1; i < PROCS; i++) {
    struct sim_letter dead = {.said = SAID_DEAD, .number = proc->uid};
    if (i == at || !sim->proc[i].alive) continue;
    sim_lane_end(sim, at, i);
    if (sim->proc[i].host == proc->host && proc->uid) sim_letter(sim, at, i, LANE_HOST, dead);
  }
}

void sim_proc_tick(struct sim *sim, struct sim_proc *proc) {
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  dmi_pulse_tick(proc->pulse, sim_proc_now(sim, proc), &out);
  carry_pulse(daemon_of(proc), &out);
  carry(daemon_of(proc));
  if (!proc->alive || !daemon_of(proc)->m->coord) return;
  dmi_member_may_change(daemon_of(proc)->m, &daemon_of(proc)->out);
  carry(daemon_of(proc));
}

/* Its user code runs as soon as it is welcomed.  BUSY goes first: who has called DMI_welcome waits
 * for OPENED, as who calls DMI_create for BUSY, so that the program does not end before. */
static void before_open(struct daemon *daemon) {
  if (daemon->busy || !daemon->joined || daemon->stopped) return;
  daemon->busy = true;
  daemon->calls++;
  dmi_member_busy(daemon->m, 2 * ++daemon->sim->attempts, &daemon->out);
}

static void on_daemon(struct sim *sim, struct daemon *daemon, uint32_t at,
                      struct sim_letter *letter) {
  uint32_t from = (uint32_t)letter->number;
  /* of a connection that it has made, and closed, before the one by which it has joined */
  if (from >= DMI_NET_TEMP && from != daemon->temp && letter->msg.type != DMI_CTL_JOIN) return;
  if (!daemon->proc->uid) { /* not renamed yet */
    if (from < DMI_NET_TEMP && daemon->temp % 16 != at) return;
    if (from < DMI_NET_TEMP) from = daemon->temp;
  }
  if (from < DMI_NET_TEMP && !dmi_member_peer(daemon->m, from)) return; /* it was removed: fenced */
  sim_log(sim, "p%u takes %s of %u", daemon->proc->uid, dmi_wire_name(letter->msg.type), from);
  if (letter->msg.type == DMI_CTL_OPEN) before_open(daemon);
  if (!dmi_member_message(daemon->m, from, &letter->msg, &daemon->out))
    sim_bad(sim, "p%u refuses %s of %u", daemon->proc->uid, dmi_wire_name(letter->msg.type), from);
  carry(daemon);
}

static void on_eof(struct sim *sim, struct daemon *daemon, dmi_uid_t from,
                   struct dmi_pulse_out *out) {
  const struct sim_proc *gone = &sim->proc[from];
  if (!daemon->proc->started && daemon->temp % 16 == from && daemon->temp) {
    dmi_member_lost(daemon->m, daemon->temp, "it ended", &daemon->out);
  } else if (!daemon->m->env.survive && gone->uid && !gone->ended) {
    dmi_member_lost(daemon->m, gone->uid, "it ended", &daemon->out);
  } else if (daemon->proc->started && gone->uid && !gone->ended) {
    dmi_pulse_broken(daemon->proc->pulse, now_of(daemon), gone->uid, out);
  }
  for (uint32_t i = 0; daemon->m->coord && i < daemon->m->coord->joins.num; i++) {
    uint32_t temp = daemon->m->coord->joins.at[i].temp;
    if (temp % 16 != from) continue;
    dmi_member_lost(daemon->m, temp, "it ended", &daemon->out);
    break;
  }
  carry(daemon);
}

void sim_proc_letter(struct sim *sim, struct sim_proc *proc, dmi_uid_t from,
                     struct sim_letter *letter) {
  struct daemon *daemon = proc->daemon;
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  switch (letter->said) {
    case SAID_PULSE:
      if (proc->started && !dmi_pulse_message(proc->pulse, now_of(daemon),
                                              (dmi_uid_t)letter->number, &letter->msg, &out))
        sim_bad(sim, "p%u refuses a message of p%u", proc->uid, from);
      break;
    case SAID_AGREED: /* its daemon was busy */
      dmi_member_agreed(daemon->m, &letter->view.view.body, letter->number != 0, &daemon->out);
      carry(daemon);
      break;
    case SAID_DAEMON:
      on_daemon(sim, daemon, from, letter);
      break;
    case SAID_CUT:
      daemon->cut[from] = letter->number;
      look_ready(daemon);
      break;
    case SAID_EOF:
      on_eof(sim, daemon, from, &out);
      break;
    case SAID_DEAD:
      if (proc->started && !sim->proc[from].ended)
        dmi_pulse_dead(proc->pulse, now_of(daemon), (dmi_uid_t)letter->number, &out);
      break;
    default:
      break;
  }
  dmi_slice_drop(&letter->msg.body);
  dmi_slice_drop(&letter->view.view.body);
  if (proc->alive) carry_pulse(daemon, &out);
  if (proc->alive) carry(daemon);
  dmi_pulse_out_free(&out);
}

/* ---- Users ----------------------------------------------------------------------------------- */

/* The first process welcomes nobody before it has called it.  False: it has not returned. */
static bool asks_to_survive(struct daemon *daemon) {
  struct sim *sim = daemon->sim;
  if (!sim->totals->late || !daemon->m->first || daemon->survived) return true;
  if (!daemon->survive_op && (sim->now > 1500 * (uint64_t)MS || rng_once_in(&sim->rng, 12))) {
    daemon->survive_op = 2 * ++sim->attempts;
    daemon->calls++;
    sim_log(sim, "p%u calls DMI_survive", daemon->proc->uid);
    dmi_member_survives(daemon->m, daemon->survive_op, &daemon->out);
    carry(daemon);
  }
  return daemon->survived;
}

/* One that was not welcomed dies, before the program survives losses or at that moment. */
static void kill_early(struct sim *sim) {
  struct sim_proc *proc = &sim->proc[rng_range(&sim->rng, 2, PROCS - 1)];
  if (daemon_of(&sim->proc[1])->survived || !proc->alive || !rng_once_in(&sim->rng, 6)) return;
  sim->totals->kills++;
  sim_log(sim, "p%u is killed, and was not welcomed", proc->uid);
  sim_proc_die(sim, proc);
}

static void user(struct daemon *daemon) {
  struct sim *sim = daemon->sim;
  if (!daemon->joined || daemon->over || daemon->stopped || !asks_to_survive(daemon)) return;
  if (!daemon->polls && (daemon->opened || daemon->m->first)) {
    daemon->polls++;
    dmi_member_poll(daemon->m, 2 * ++sim->attempts + 1, &daemon->out);
  }
  if (daemon->opened && !daemon->m->left && daemon->m->phase <= DMI_PHASE_DRAINED)
    sim_maps_user(sim, &daemon->maps, daemon->m, 2 * ++sim->attempts, &daemon->out);
  if (sim->totals->with_exit && daemon->opened && !daemon->asked)
    daemon->calls +=
        sim_exit_user(sim, &daemon->exit, daemon->m, 2 * ++sim->attempts, &daemon->out);
  if (sim->totals->with_notes && daemon->opened && !daemon->asked)
    daemon->calls +=
        sim_notes_user(sim, &daemon->notes, daemon->m, 2 * ++sim->attempts, &daemon->out);
  if (sim->totals->with_roots && !sim->resting && daemon->opened && !daemon->root_op &&
      !daemon->asked) {
    daemon->calls++;
    daemon->root_op = 2 * ++sim->attempts;
    dmi_member_root_set(daemon->m, daemon->root_op, &daemon->proc->uid, sizeof(daemon->proc->uid),
                        ++daemon->root, &daemon->out);
  }
  carry(daemon);
}

/* Some process joins, or one is asked to leave; users poll. */
void sim_proc_change(struct sim *sim, struct sim_proc *proc) {
  struct daemon *daemon = proc->daemon;
  uint32_t alive = 0, unborn = 0, what = rng_below(&sim->rng, 8);
  for (uint32_t i = 1; i < PROCS; i++) {
    alive += sim->proc[i].alive;
    if (!sim->proc[i].daemon && !unborn) unborn = i;
  }
  user(daemon);
  if (sim->joins) what = 0;
  if (what < 3 && unborn && alive < 6 && daemon->joined) {
    sim->seed_of = (uint32_t)(proc - sim->proc);
    sim_proc_start(sim, unborn, rng_below(&sim->rng, sim->hosts));
  } else if (what == 7 && alive > 3 && (daemon->opened || daemon->witness) && !daemon->asked &&
             rng_once_in(&sim->rng, 3)) {
    sim_log(sim, "p%u is asked to leave", proc->uid);
    daemon->asked = true;
    dmi_member_leave_asked(daemon->m, &daemon->out);
    carry(daemon);
  }
}

void sim_users(struct sim *sim) {
  if (sim->totals->late) kill_early(sim);
  for (uint32_t i = 1; i < PROCS; i++) {
    if (sim->proc[i].daemon && sim_proc_runs(sim, &sim->proc[i])) user(daemon_of(&sim->proc[i]));
  }
}

/* ---- What must hold in the end -----------------------------------------------------------------
 */

/* To how many, of those that live or of all. */
static uint32_t given(const struct sim *sim, uint32_t uid, uint32_t state, bool all) {
  uint32_t num = 0;
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct daemon *daemon = sim->proc[i].daemon;
    if (!daemon || (!all && !sim->proc[i].alive)) continue;
    for (uint32_t k = 0; k < daemon->got_num; k++)
      num += daemon->got[k].uid == uid && daemon->got[k].state == state;
  }
  return num;
}

/* Does a user poll? */
static bool anybody_polls(const struct sim *sim) {
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct daemon *daemon = sim->proc[i].daemon;
    if (daemon && sim->proc[i].alive && daemon->polls && !daemon->stopped) return true;
  }
  return false;
}

/* All know the same names; what it has set is there; DMI_main runs in a member, or has returned. */
static void check_roots(struct sim *sim, const struct sim_proc *proc) {
  const struct dmi_roots *roots = &daemon_of(proc)->m->roots;
  uint64_t main_is = dmi_root_get(roots, "", 0);
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct sim_proc *other = &sim->proc[i];
    uint64_t found;
    if (!other->daemon || !other->uid) continue;
    found = dmi_root_get(roots, &other->uid, sizeof(other->uid));
    if (found < daemon_of(other)->root_set || found > daemon_of(other)->root)
      sim_bad(sim, "p%u finds root %u of p%u, which has set %u", proc->uid, (unsigned)found,
              other->uid, (unsigned)daemon_of(other)->root_set);
    if (!other->alive) continue;
    if (found != dmi_root_get(&daemon_of(other)->m->roots, &other->uid, sizeof(other->uid)))
      sim_bad(sim, "p%u and p%u find different roots", proc->uid, other->uid);
    if (other->uid == main_is) main_is = 0;
  }
  if (main_is) sim_bad(sim, "DMI_main runs in p%u, which does not live", (unsigned)main_is);
}

static void check_one(struct sim *sim, const struct sim_proc *proc) {
  const struct daemon *daemon = proc->daemon;
  if (!daemon->joined) sim_bad(sim, "process %u joins for ever", (unsigned)(proc - sim->proc));
  if (daemon->m->crash) sim_bad(sim, "p%u waits for RESUME", proc->uid);
  if (sim->totals->with_roots) check_roots(sim, proc);
  if (daemon->calls) sim_bad(sim, "p%u has calls without an answer", proc->uid);
  if (given(sim, proc->uid, DMI_OPEN, false) > 1)
    sim_bad(sim, "p%u was announced twice", proc->uid);
  if (daemon->witness && dmi_member_is_coordinator(daemon->m))
    sim_bad(sim, "p%u, a witness, is the coordinator", proc->uid);
}

/* The program does not see it. */
static void check_witness(struct sim *sim, const struct sim_proc *proc) {
  static const uint32_t state[] = {DMI_OPEN, DMI_CLOSE, DMI_LOST};
  for (uint32_t i = 0; daemon_of(proc)->witness && proc->uid && i < 3; i++) {
    if (given(sim, proc->uid, state[i], true))
      sim_bad(sim, "the program is told of p%u, a witness", proc->uid);
  }
}

static void check_maps(struct sim *sim) {
  struct sim_maps *all[PROCS];
  const struct dmi_coord *c = NULL;
  uint32_t num = 0;
  for (uint32_t i = 1; i < PROCS; i++) {
    if (!sim->proc[i].alive || !sim->proc[i].daemon) continue;
    all[num++] = &daemon_of(&sim->proc[i])->maps;
    if (daemon_of(&sim->proc[i])->m->coord) c = daemon_of(&sim->proc[i])->m->coord;
  }
  sim_maps_check(sim, c, all, num);
}

static void check_calls(struct sim *sim) {
  const struct sim_notes *all[PROCS] = {NULL};
  const struct sim_exit *exits[PROCS] = {NULL};
  const struct dmi_coord *c = NULL;
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct daemon *daemon = sim->proc[i].daemon;
    if (daemon) all[i] = &daemon->notes;
    if (daemon) exits[i] = &daemon->exit;
    if (daemon && sim->proc[i].alive && daemon->m->coord) c = daemon->m->coord;
  }
  for (uint32_t i = 1; i < PROCS; i++) {
    if (all[i]) sim_notes_check(sim, c, all, i);
  }
  sim_exit_check(sim, exits);
}

void sim_check_members(struct sim *sim) {
  uint32_t coordinators = 0, alive = 0;
  for (uint32_t i = 1; i < PROCS; i++) {
    const struct sim_proc *proc = &sim->proc[i];
    if (!proc->daemon) continue;
    check_witness(sim, proc);
    if (proc->alive) {
      alive++;
      check_one(sim, proc);
      coordinators += dmi_member_is_coordinator(daemon_of(proc)->m);
    } else if (proc->uid && !proc->ended && daemon_of(proc)->m->phase < DMI_PHASE_DRAINED &&
               given(sim, proc->uid, DMI_OPEN, false) &&
               ((given(sim, proc->uid, DMI_LOST, true) == 0 && anybody_polls(sim)) ||
                given(sim, proc->uid, DMI_LOST, false) > 1)) {
      sim_bad(sim, "the loss of p%u was told to %u, of which %u live", proc->uid,
              given(sim, proc->uid, DMI_LOST, true), given(sim, proc->uid, DMI_LOST, false));
    }
    sim->totals->notices += given(sim, proc->uid, DMI_LOST, true);
  }
  if (alive && coordinators != 1) sim_bad(sim, "%u coordinators", coordinators);
  if (alive && coordinators == 1) check_maps(sim);
  if (alive && coordinators == 1) check_calls(sim);
}

/* The first process. */
void sim_begin(struct sim *sim) {
  sim_proc_start(sim, 1, 0);
}

bool sim_may_change(const struct sim_proc *proc) {
  return daemon_of(proc)->joined;
}
