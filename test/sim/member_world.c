/*
 * member_world.c - the world of member_sim: network, shells, and what is checked at each event.
 */
#include "member_world.h"
#include "msg/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct world *w;

uint64_t rnd(uint64_t below) {
  w->rng ^= w->rng << 13;
  w->rng ^= w->rng >> 7;
  w->rng ^= w->rng << 17;
  return (w->rng * 0x2545f4914f6cdd1dull >> 20) % below;
}

void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "member_sim: seed %llu, event %llu: ", (unsigned long long)w->seed,
          (unsigned long long)w->event);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  exit(1);
}

void say(const char *format, ...) {
  va_list args;
  if (!w->trace) return;
  va_start(args, format);
  printf("%llu: ", (unsigned long long)w->event);
  vprintf(format, args);
  printf("\n");
  va_end(args);
}

int world_slot_of(uint32_t uid) {
  for (int i = w->slots - 1; i >= 0; i--) {
    if (w->proc[i].uid == uid) return i;
  }
  return -1;
}

int world_coordinator(void) {
  int found = -1;
  for (int i = 0; i < w->slots; i++) {
    if (!w->proc[i].alive || !dmi_member_is_coordinator(w->proc[i].m)) continue;
    if (found >= 0) fail("%d and %d are both coordinator", found, i);
    found = i;
  }
  return found;
}

bool world_user_code(void) {
  for (int i = 0; i < w->slots; i++) {
    struct proc *p = &w->proc[i];
    if (!p->alive) continue;
    if (p->main_runs || p->threads || p->creating.num || p->own_creates) return true;
  }
  return false;
}

/* ---- Connections --------------------------------------------------------------------------- */

static struct dmi_addr addr_of(int slot, int seen_from) {
  struct dmi_addr addr = {{0}, 0};
  const struct proc *p = &w->proc[slot];
  addr.ip[10] = addr.ip[11] = 0xff;
  if (p->host == w->proc[seen_from].host) {
    addr.ip[12] = 127;
    addr.ip[15] = 1;
  } else {
    addr.ip[12] = 10;
    addr.ip[15] = (uint8_t)(p->host + 1);
  }
  addr.port = (uint16_t)(1000 + slot);
  return addr;
}

/* Who listens there, for a process at slot `from`? */
static int slot_at(const struct dmi_addr *addr, int from) {
  int slot = addr->port - 1000;
  int host = addr->ip[12] == 127 ? w->proc[from].host : addr->ip[15] - 1;
  if (slot < 0 || slot >= w->slots || w->proc[slot].host != host) {
    fail("%d connects to %d.%d port %d, where nobody ever was", from, addr->ip[12], addr->ip[15],
         addr->port);
  }
  return slot;
}

static struct conn *find_conn(int slot, uint32_t id, int *end) {
  for (int i = 0; i < CONNS; i++) {
    struct conn *c = &w->conn[i];
    for (int e = 0; c->used && e < 2; e++) {
      if (c->slot[e] != slot || c->id[e] != id || c->dead[e]) continue;
      *end = e;
      return c;
    }
  }
  return NULL;
}

static struct conn *new_conn(int a, int b, uint32_t id_a, uint32_t id_b) {
  for (int i = 0; i < CONNS; i++) {
    struct conn *c = &w->conn[i];
    if (c->used) continue;
    memset(c, 0, sizeof(*c));
    c->used = true;
    c->slow[0] = rnd(4) == 0;
    c->slow[1] = rnd(4) == 0;
    c->slot[0] = a;
    c->slot[1] = b;
    c->id[0] = id_a;
    c->id[1] = id_b;
    return c;
  }
  fail("too many connections");
}

bool world_connected(void *arg, uint32_t uid) {
  int end;
  const struct conn *c = find_conn((int)(intptr_t)arg, uid, &end);
  return c && !c->closed[end];
}

void world_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  int slot = (int)(intptr_t)arg, end;
  struct conn *c = find_conn(slot, id, &end);
  if (!c) fail("%d asks for the addresses of a connection that is not there", slot);
  *ours = addr_of(slot, c->slot[1 - end]);
  *theirs = addr_of(c->slot[1 - end], slot);
}

static void lost(int slot, uint32_t id) {
  struct dmi_mout out;
  struct proc *p = &w->proc[slot];
  if (!p->alive || p->expect_close) return;
  say("%d: lost %u", slot, id);
  dmi_mout_init(&out);
  dmi_member_lost(p->m, id, "it broke", &out);
  world_run(slot, &out);
}

/* Page traffic that another process waits for. */
static bool for_others(const struct proc *p, const struct dmi_msg *msg) {
  if (msg->type == SIM_REQUEST) return msg->origin != p->uid;
  return msg->type > SIM_REQUEST && msg->type != SIM_CREATE;
}

void world_send(int slot, uint32_t id, const struct dmi_msg *msg) {
  struct proc *p = &w->proc[slot];
  int end;
  struct conn *c = find_conn(slot, id, &end);
  if (!c) {
    int to = id < DMI_NET_TEMP ? world_slot_of(id) : -1;
    if (to >= 0 && w->proc[to].killed)
      return; /* the network knows that it was lost, and drops it */
    if (id >= DMI_NET_TEMP || !dmi_uid_set_has(&p->known, id)) {
      if (w->broken == DMI_MBREAK_NOTHING && id < DMI_NET_TEMP && msg->type >= SIM_REQUEST) {
        fail("%d sends to %u, whom its network does not know", slot, id);
      }
      return;
    }
    for (uint32_t i = 0; i < p->addrs.num && !c; i++) {
      if (p->addrs.at[i].uid != id) continue;
      c = new_conn(slot, slot_at(&p->addrs.at[i].addr, slot), id, p->uid);
      if (w->proc[c->slot[1]].uid != id) fail("%d reaches the wrong process for %u", slot, id);
      if (!w->proc[c->slot[1]].alive) {
        if (!w->proc[c->slot[1]].killed) fail("%d connects to %u, which has ended", slot, id);
        c->closed[1] = c->dead[1] = true;
      }
      end = 0;
    }
    if (!c) fail("%d has no address for %u", slot, id);
  }
  if (c->closed[end]) {
    if (w->proc[c->slot[1 - end]].killed && msg->type > SIM_REQUEST) return; /* an answer for it */
    fail("%d sends %s to %u after closing", slot, dmi_wire_name(msg->type), id);
  }
  if (c->last[end] && for_others(p, msg)) fail("%d forwards to %u after LAST", slot, id);
  if (msg->type == DMI_CTL_LAST) c->last[end] = true;
  dmi_keep_add(&c->queue[1 - end], 0, msg);
  { /* what keep does not keep */
    struct dmi_msg *kept = &c->queue[1 - end].at[c->queue[1 - end].num - 1].msg;
    kept->origin = msg->origin;
    kept->page = msg->page;
    kept->map = msg->map;
    kept->flags = msg->flags;
  }
}

void world_send_sim(int slot, uint32_t to, int type, uint64_t op, uint32_t origin, uint64_t hops) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.member.op = op;
  msg.origin = origin;
  msg.page = hops;
  world_send(slot, to, &msg);
}

/* The process ends; what it sent is still delivered. */
static void end_proc(int slot) {
  struct proc *p = &w->proc[slot];
  say("%d: ends", slot);
  p->alive = false;
  for (int i = 0; i < CONNS; i++) {
    struct conn *c = &w->conn[i];
    for (int e = 0; c->used && e < 2; e++) {
      if (c->slot[e] != slot) continue;
      c->closed[e] = c->dead[e] = true;
      if (c->queue[e].num > 0 && !p->killed && !p->over && p->uid) {
        uint8_t type = c->queue[e].at[0].msg.type;
        if (c->id[e] < DMI_NET_TEMP && !w->proc[c->slot[1 - e]].killed) {
          fail("%d has ended, and %s from %u is on its way to it", slot, dmi_wire_name(type),
               c->id[e]);
        }
      }
      dmi_keep_free(&c->queue[e]);
    }
  }
}

void world_kill(int slot) {
  struct proc *p = &w->proc[slot];
  say("%d: killed", slot);
  w->stat_kills++;
  p->killed = true;
  p->main_lost = p->main_runs && p->left;
  for (uint32_t i = 0; i < p->calls.num; i++) {
    uint8_t type = (uint8_t)p->calls.at[i].type;
    if (type == DMI_CTL_POLL || type == DMI_CTL_PEEK) w->notices_lost = true;
  }
  end_proc(slot);
  for (int i = 0; i < CONNS; i++) { /* some of the last messages do not arrive */
    struct conn *c = &w->conn[i];
    for (int e = 0; c->used && e < 2; e++) {
      if (c->slot[1 - e] != slot) continue;
      while (c->queue[e].num > 0 && rnd(2))
        dmi_keep_drop(&c->queue[e], c->queue[e].num - 1);
    }
  }
}

/* ---- The shell: actions -------------------------------------------------------------------- */

static struct pending *add_pending(struct proc *p, enum pending_type type) {
  struct pending *pending = DMI_LIST_ADD(&p->pend);
  pending->type = type;
  return pending;
}

static struct known_map *find_map(struct proc *p, uint64_t base) {
  for (uint32_t i = 0; i < p->maps.num; i++) {
    if (p->maps.at[i].base == base) return &p->maps.at[i];
  }
  return NULL;
}

static void enter_map(int slot, uint64_t base, uint32_t home) {
  struct proc *p = &w->proc[slot];
  struct known_map *map = find_map(p, base);
  for (uint32_t i = 0; i < w->map_dead.num; i++) {
    if (w->map_dead.at[i] == base) fail("%d learns of a mapping that was unmapped", slot);
  }
  say("%d: mapping %llx has home %u", slot, (unsigned long long)base, home);
  if (!map) map = DMI_LIST_ADD(&p->maps);
  map->base = base;
  map->home = home;
}

static void do_view(int slot, const struct dmi_mact *act) {
  struct proc *p = &w->proc[slot];
  w->stat_views++;
  for (uint32_t i = 0; i < act->peer_num; i++) {
    dmi_uid_set_add(&p->view, act->peers[i].uid);
    if (act->peers[i].left) dmi_uid_set_add(&p->away, act->peers[i].uid);
  }
  for (uint32_t i = 0; i < act->removed_num; i++) {
    if (act->removed[i].main) {
      struct proc *victim = &w->proc[world_slot_of(act->removed[i].uid)];
      if (!victim->killed) fail("a process is said to be lost, and is not");
      victim->told++;
    }
    if (!act->removed[i].heir) {
      dmi_uid_set_drop(&p->view, act->removed[i].uid);
      dmi_uid_set_drop(&p->away, act->removed[i].uid);
      continue;
    }
    dmi_uid_set_add(&p->away, act->removed[i].uid);
    if (p->heir == act->removed[i].uid) p->heir = act->removed[i].heir;
    for (uint32_t j = 0; j < p->maps.num; j++) {
      if (p->maps.at[j].home == act->removed[i].uid) p->maps.at[j].home = act->removed[i].heir;
    }
  }
  add_pending(p, PEND_VIEWED);
}

static void do_drain(int slot, uint32_t heir) {
  struct proc *p = &w->proc[slot];
  if (heir && rnd(4) == 0) {
    say("%d: finds no room for its pages", slot);
    p->refused_at = w->event;
    add_pending(p, PEND_NO_ROOM);
    return;
  }
  p->heir = heir;
  say("%d: drains to %u", slot, heir);
  for (uint32_t i = 0; heir && i < p->maps.num; i++) {
    struct dmi_msg msg = {0};
    if (p->maps.at[i].home != p->uid) continue;
    msg.type = SIM_HOME;
    msg.map = p->maps.at[i].base;
    world_send(slot, heir, &msg);
    p->maps.at[i].home = heir;
  }
  add_pending(p, PEND_DRAINED);
}

static void got_notice(int slot, const struct dmi_notice *notice) {
  int about = atoi(notice->info.host + 1);
  struct proc *p = &w->proc[about];
  uint32_t *got = notice->state == DMI_OPEN ? &p->open_got : &p->close_got;
  say("%d: notice %s of %d", slot, notice->state == DMI_OPEN ? "OPEN" : "CLOSE", about);
  w->stat_notices++;
  if (++*got > 1 && !(notice->state == DMI_CLOSE && p->refused_room)) {
    fail("a notice of %d was given twice", about);
  }
  if (!p->joined) p->dmi_id = notice->dmi_id; /* JOINED is on its way to it */
  if (notice->dmi_id != p->dmi_id) fail("a notice with the wrong id");
  if (notice->state == DMI_CLOSE && !p->closed && !p->killed) fail("%d has not asked", about);
}

/* Told to end: no user code runs there, and it need not learn anything any more. */
static bool is_out(const struct proc *p) {
  int slot = world_coordinator();
  const struct dmi_record *record =
      slot < 0 ? NULL : dmi_coord_find(w->proc[slot].m->coord, p->uid);
  return record && record->life == DMI_LIFE_OUT;
}

static void check_unmapped(uint64_t base) {
  *DMI_LIST_ADD(&w->map_dead) = base;
  for (int i = 0; i < w->slots; i++) {
    struct proc *p = &w->proc[i];
    if (!p->alive || is_out(p)) continue;
    if (find_map(p, base)) fail("%d knows a mapping after DMI_munmap returned", i);
  }
}

static void check_dismissal(const struct call *call, int error) {
  struct proc *about = &w->proc[call->slot];
  bool sole = call->sole;
  if (about->killed) return;
  if (w->random_used[0][about->dmi_id] || w->random_used[1][about->dmi_id]) sole = false;
  if (call->type == DMI_CTL_WELCOME) {
    if (error == DMI_OK && about->welcomed) fail("%d was welcomed twice", call->slot);
    if (error == DMI_OK) about->welcomed = true;
    if (error && sole && about->goodbyes == 0) {
      fail("the only welcome of %d fails: %d", call->slot, error);
    }
    return;
  }
  if (error == DMI_OK && about->dismissed) fail("%d was dismissed twice", call->slot);
  if (error == DMI_OK) about->dismissed = true;
  if (error == DMI_EBUSY && !about->refused_stop) fail("%d was not busy", call->slot);
  if (error == DMI_ENOMEM && !about->refused_room) fail("%d had room", call->slot);
  if (error && error != DMI_EBUSY && error != DMI_ENOMEM && sole) {
    fail("the only goodbye of %d fails: %d", call->slot, error);
  }
}

static void check_result(int slot, const struct call *call, const struct dmi_mact *act) {
  struct proc *p = &w->proc[slot];
  int home;
  switch (call->type) {
    case DMI_CTL_POLL:
    case DMI_CTL_PEEK:
      if (act->flag) got_notice(slot, &act->notices[0]);
      break;
    case DMI_CTL_WELCOME:
    case DMI_CTL_GOODBYE:
      if (call->slot >= 0) check_dismissal(call, act->error);
      if (call->slot >= 0 && call->type == DMI_CTL_WELCOME && act->error == DMI_OK &&
          !w->proc[call->slot].killed && (p->threads || p->main_runs)) {
        struct pending *create = add_pending(p, PEND_CREATE);
        create->uid = w->proc[call->slot].uid;
        create->must = w->proc[call->slot].goodbyes == 0;
      }
      break;
    case DMI_CTL_MMAP:
      if (act->error) fail("mmap fails: %d", act->error);
      if (act->mapping.home == p->uid && p->heir) fail("%d is home again while it leaves", slot);
      enter_map(slot, act->mapping.base, act->mapping.home);
      if (w->map_num < MAPS) w->map_live[w->map_num++] = act->mapping.base;
      break;
    case DMI_CTL_LOOKUP:
      if (act->error) break;
      if (!find_map(p, act->mapping.base)) enter_map(slot, act->mapping.base, act->mapping.home);
      home = world_slot_of(act->mapping.home);
      if (home < 0 || !w->proc[home].alive) fail("the home of a mapping has ended");
      break;
    case DMI_CTL_MUNMAP:
      if (act->error == DMI_OK) check_unmapped(call->arg);
      break;
    case DMI_CTL_THREAD:
      if (act->error || act->value != call->arg * 1000 + call->uid) {
        fail("result of thread %u:%llu: %d", call->uid, (unsigned long long)call->arg, act->error);
      }
      break;
    default:
      break;
  }
}

static void do_result(int slot, const struct dmi_mact *act) {
  struct proc *p = &w->proc[slot];
  for (uint32_t i = 0; i < p->creating.num; i++) {
    struct creating creating = p->creating.at[i];
    if (creating.op != act->op) continue;
    DMI_LIST_DROP(&p->creating, i);
    if (act->error) fail("%d cannot be busy: %d", slot, act->error);
    p->threads++;
    world_send_sim(slot, creating.from, SIM_CREATED, creating.from_op, 0, 0);
    return;
  }
  for (uint32_t i = 0; i < p->calls.num; i++) {
    struct call call = p->calls.at[i];
    if (call.op != act->op) continue;
    DMI_LIST_DROP(&p->calls, i);
    say("%d: result of %s: %d", slot, dmi_wire_name((uint8_t)call.type), act->error);
    w->stat_calls++;
    if (act->error == DMI_EINACTIVE) {
      if (call.type != DMI_CTL_POLL) fail("%s fails: inactive", dmi_wire_name((uint8_t)call.type));
      return;
    }
    check_result(slot, &call, act);
    return;
  }
  if (act->op != 0) fail("%d: a result for no call: op %llu", slot, (unsigned long long)act->op);
}

static void do_joined(int slot, const struct dmi_mact *act) {
  struct proc *p = &w->proc[slot];
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(p->m, &num);
  p->joined = true;
  p->uid = act->uid;
  p->dmi_id = act->dmi_id;
  w->stat_joins++;
  for (int i = 0; i < w->slots; i++) {
    if (i == slot || !w->proc[i].alive || !w->proc[i].joined || is_out(&w->proc[i])) continue;
    if (w->proc[i].dmi_id == p->dmi_id) fail("%d and %d have the same id", slot, i);
    /* nobody may meet an unknown uid: whom it knows knows it */
    for (uint32_t j = 0; j < num; j++) {
      if (peers[j].uid == w->proc[i].uid && !dmi_uid_set_has(&w->proc[i].view, p->uid)) {
        fail("%d is joined and %d does not know it", slot, i);
      }
    }
  }
}

static void do_self(int slot, const struct dmi_mact *act) {
  if (act->id >= 4096 || w->uid_used[act->id]) fail("uid %u is used again", act->id);
  w->uid_used[act->id] = true;
  w->proc[slot].uid = act->id;
}

static void do_close(int slot, uint32_t id) {
  int end;
  struct conn *c = find_conn(slot, id, &end);
  dmi_uid_set_drop(&w->proc[slot].known, id);
  if (c) c->closed[end] = true;
}

static void do_rename(int slot, const struct dmi_mact *act) {
  int end;
  struct conn *c = find_conn(slot, act->id, &end);
  dmi_uid_set_add(&w->proc[slot].known, act->uid);
  if (!c) return; /* broke meanwhile: the network tells */
  c->id[end] = act->uid;
}

static void do_add_peer(struct proc *p, const struct dmi_mact *act) {
  struct dmi_peer *peer = DMI_LIST_ADD(&p->addrs);
  peer->uid = act->uid;
  peer->addr = act->addr;
  dmi_uid_set_add(&p->known, act->uid);
}

static void set_over(struct proc *p) {
  p->over = true;
  if (world_user_code()) fail("the program ends while user code runs");
}

static void do_expect_close(int slot) {
  struct proc *p = &w->proc[slot];
  p->expect_close = true;
  if (!p->over && !p->m->coord) {
    w->stat_leaves++;
    if (p->threads || p->main_runs) fail("%d is removed while user code runs there", slot);
    for (uint32_t i = 0; i < p->maps.num; i++) {
      if (p->maps.at[i].home == p->uid)
        fail("%d leaves as home of mapping %llx", slot, (unsigned long long)p->maps.at[i].base);
    }
  } else {
    set_over(p);
  }
}

/* Nobody is told to forget a mapping whose home is on its way: it would come back to life there. */
static void check_forget(const struct dmi_msg *msg) {
  struct dmi_unpack body;
  uint64_t base;
  dmi_unpack_init(&body, &msg->body);
  base = dmi_unpack_u64(&body);
  for (int i = 0; i < CONNS; i++) {
    for (int e = 0; w->conn[i].used && e < 2; e++) {
      const struct dmi_keep *queue = &w->conn[i].queue[e];
      for (uint32_t k = 0; k < queue->num; k++) {
        const struct dmi_msg *home = &queue->at[k].msg;
        if (home->type == SIM_HOME && home->map == base) {
          fail("mapping %llx is forgotten while its home moves", (unsigned long long)base);
        }
      }
    }
  }
}

static void do_act(int slot, struct dmi_mact *act) {
  struct proc *p = &w->proc[slot];
  switch (act->type) {
    case DMI_MACT_SEND:
      say("%d -> %u: %s", slot, act->id, dmi_wire_name(act->msg.type));
      if (act->msg.type == DMI_CTL_COORD) w->stat_handovers++;
      if (act->msg.type == DMI_CTL_FORGET) check_forget(&act->msg);
      world_send(slot, act->id, &act->msg);
      break;
    case DMI_MACT_CONNECT:
      add_pending(p, PEND_CONNECT)->addr = act->addr;
      break;
    case DMI_MACT_SELF:
      do_self(slot, act);
      break;
    case DMI_MACT_RENAME:
      do_rename(slot, act);
      break;
    case DMI_MACT_ADD_PEER:
      do_add_peer(p, act);
      break;
    case DMI_MACT_CLOSE_PEER:
      do_close(slot, act->id);
      break;
    case DMI_MACT_VIEW:
      do_view(slot, act);
      break;
    case DMI_MACT_JOINED:
      do_joined(slot, act);
      break;
    case DMI_MACT_OPENED:
      if (p->opened) fail("%d is opened twice", slot);
      p->opened = p->creates = true;
      break;
    case DMI_MACT_CLOSED:
      p->closed = true;
      break;
    case DMI_MACT_STOP_THREADS:
      add_pending(p, PEND_STOPPED);
      break;
    case DMI_MACT_START_DRAIN:
      do_drain(slot, act->uid);
      break;
    case DMI_MACT_LEFT:
      p->left = true;
      for (uint32_t i = 0; i < p->ended.num; i++) {
        struct departed *departed = DMI_LIST_ADD(&w->departed);
        departed->uid = p->uid;
        departed->seq = p->ended.at[i].seq;
      }
      p->ended.num = 0;
      break;
    case DMI_MACT_ADOPT:
      if (p->heir) fail("%d leaves and shall adopt", slot);
      enter_map(slot, act->mapping.base, p->uid);
      break;
    case DMI_MACT_FORGET:
      if (find_map(p, act->mapping.base)) {
        DMI_LIST_DROP(&p->maps, find_map(p, act->mapping.base) - p->maps.at);
      }
      add_pending(p, PEND_FORGOT)->base = act->mapping.base;
      break;
    case DMI_MACT_RESULT:
      do_result(slot, act);
      break;
    case DMI_MACT_TELL:
      say("%d: says: %s", slot, act->text);
      break;
    case DMI_MACT_EXPECT_CLOSE:
      do_expect_close(slot);
      break;
    case DMI_MACT_FINISH:
      end_proc(slot);
      break;
    case DMI_MACT_FATAL:
      if (p->uid) fail("%d: fatal: %s", slot, act->text);
      say("%d: fatal: %s", slot, act->text);
      end_proc(slot);
      break;
    default:
      fail("unknown action %d", act->type);
  }
}

void world_run(int slot, struct dmi_mout *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    if (!w->proc[slot].alive) fail("%d acts after its end", slot);
    do_act(slot, &out->act[i]);
  }
  dmi_mout_free(out);
  if (w->proc[slot].alive && w->proc[slot].m->phase == DMI_PHASE_ENDED) set_over(&w->proc[slot]);
  if (w->proc[slot].alive) dmi_member_check(w->proc[slot].m);
}

/* ---- The shell: events --------------------------------------------------------------------- */

static void answer_connect(int slot, const struct dmi_addr *addr) {
  struct proc *p = &w->proc[slot];
  struct dmi_mout out;
  int target = addr->port ? slot_at(addr, slot) : p->seed;
  dmi_mout_init(&out);
  if (w->proc[target].alive && target != slot) {
    uint32_t mine = w->next_temp++, theirs = w->next_temp++;
    new_conn(slot, target, mine, theirs);
    dmi_member_connected(p->m, mine, &out);
  } else {
    dmi_member_not_connected(p->m, "nobody listens there", &out);
  }
  world_run(slot, &out);
}

static void answer(int slot, uint32_t i) {
  struct proc *p = &w->proc[slot];
  struct pending pending = p->pend.at[i];
  struct dmi_mout out;
  bool stopped;
  DMI_LIST_DROP(&p->pend, i);
  dmi_mout_init(&out);
  switch (pending.type) {
    case PEND_CONNECT:
      answer_connect(slot, &pending.addr);
      return;
    case PEND_VIEWED:
      dmi_member_viewed(p->m, &out);
      break;
    case PEND_STOPPED:
      stopped = p->threads == 0 && p->creating.num == 0;
      if (stopped) {
        p->creates = false;
      } else {
        p->refused_stop = true;
      }
      dmi_member_stopped(p->m, stopped, &out);
      break;
    case PEND_NO_ROOM:
      p->refused_room = true;
      p->close_base = world_close_notices(slot);
      if (!p->left) p->creates = p->opened; /* as before */
      dmi_member_no_room(p->m, &out);
      break;
    case PEND_DRAINED:
      dmi_member_drained(p->m, p->ended.at, p->ended.num, &out);
      break;
    case PEND_CREATE:
      if (p->threads || p->main_runs) act_create(slot, pending.uid, pending.must);
      return;
    case PEND_FORGOT:
      dmi_member_forgot(p->m, pending.base, &out);
      break;
  }
  world_run(slot, &out);
}

static uint32_t random_member(int slot) {
  const struct proc *p = &w->proc[slot];
  uint32_t found = 0, seen = 0;
  for (uint32_t i = 0; i < p->view.num; i++) {
    int other = world_slot_of(p->view.at[i]);
    if (other < 0 || other == slot || !w->proc[other].opened) continue;
    if (dmi_uid_set_has(&p->away, p->view.at[i])) continue;
    if (rnd(++seen) == 0) found = p->view.at[i];
  }
  return found;
}

static void on_request(int slot, const struct dmi_msg *msg) {
  struct proc *p = &w->proc[slot];
  uint32_t next = msg->page > 0 && p->uid != msg->origin ? random_member(slot) : 0;
  if (next) {
    world_send_sim(slot, next, SIM_REQUEST, msg->member.op, msg->origin, msg->page - 1);
  } else if (p->uid == msg->origin) {
    p->ops--;
  } else {
    world_send_sim(slot, msg->origin, SIM_ANSWER, msg->member.op, 0, 0);
  }
}

static void on_sim(int slot, uint32_t from, const struct dmi_msg *msg) {
  struct proc *p = &w->proc[slot];
  struct dmi_mout out;
  struct creating *creating;
  switch (msg->type) {
    case SIM_REQUEST:
      on_request(slot, msg);
      break;
    case SIM_ANSWER:
      p->ops--;
      break;
    case SIM_HOME:
      enter_map(slot, msg->map, p->uid);
      if (p->heir) fail("%d leaves and gets a home", slot);
      break;
    case SIM_CREATE:
      if (!p->opened && msg->flags) fail("%d was welcomed and refuses a thread", slot);
      if (!p->creates) {
        world_send_sim(slot, from, SIM_CREATED, msg->member.op, 0, 0);
        break;
      }
      creating = DMI_LIST_ADD(&p->creating);
      creating->op = ++w->next_op;
      creating->from = from;
      creating->from_op = msg->member.op;
      dmi_mout_init(&out);
      dmi_member_busy(p->m, creating->op, &out);
      world_run(slot, &out);
      break;
    default: /* CREATED */
      p->own_creates--;
      dmi_mout_init(&out);
      dmi_member_idle(p->m, &out);
      world_run(slot, &out);
  }
}

/* ---- One step ------------------------------------------------------------------------------ */

static void deliver(struct conn *c, int e) {
  int slot = c->slot[e];
  struct proc *p = &w->proc[slot];
  struct dmi_kept kept = c->queue[e].at[0];
  uint32_t from = c->id[e];
  struct dmi_mout out;
  DMI_LIST_DROP(&c->queue[e], 0);
  if (from < DMI_NET_TEMP && !dmi_uid_set_has(&p->known, from) && !c->closed[e]) {
    fail("%d meets %u, which it does not know", slot, from);
  }
  if (kept.msg.type >= SIM_REQUEST) {
    on_sim(slot, from, &kept.msg);
  } else {
    dmi_mout_init(&out);
    if (!dmi_member_message(p->m, from, &kept.msg, &out)) {
      if (!(from < DMI_NET_TEMP && w->proc[world_slot_of(from)].killed)) {
        fail("%d refuses %s from %u", slot, dmi_wire_name(kept.msg.type), from);
      }
    }
    world_run(slot, &out);
  }
  dmi_slice_drop(&kept.msg.body);
}

/* Both directions are done with? */
static void look_conn(struct conn *c) {
  if (!(c->closed[0] || c->dead[0]) || !(c->closed[1] || c->dead[1])) return;
  if (c->queue[0].num > 0 || c->queue[1].num > 0) return;
  dmi_keep_free(&c->queue[0]);
  dmi_keep_free(&c->queue[1]);
  c->used = false;
}

static bool step_conn(struct conn *c, int e) {
  int slot = c->slot[e];
  if (!c->used) return false;
  if (c->queue[e].num > 0) {
    if (!w->proc[slot].alive) {
      if (!w->proc[slot].killed && !w->proc[slot].over && c->id[e] < DMI_NET_TEMP) {
        fail("a message for %d, which has ended", slot);
      }
      dmi_keep_free(&c->queue[e]);
      return true;
    }
    deliver(c, e);
    return true;
  }
  if (c->closed[1 - e] && !c->dead[e]) { /* the other end has closed */
    c->dead[e] = true;
    if (!c->closed[e]) lost(slot, c->id[e]);
    c->closed[e] = true;
    look_conn(c);
    return true;
  }
  look_conn(c);
  return false;
}

bool world_deliver(void) {
  uint32_t base = (uint32_t)rnd(2 * CONNS), base_slot = (uint32_t)rnd(SLOTS);
  bool shell_first = rnd(3) == 0;
  w->event++;
  w->stat_events++;
  for (int round = 0; round < 3; round++) {
    if (round < 2 && (round == 0) == shell_first) {
      for (uint32_t i = 0; i < SLOTS; i++) {
        int slot = (int)((base_slot + i) % SLOTS);
        struct proc *p = &w->proc[slot];
        if (!p->alive || p->pend.num == 0) continue;
        answer(slot, (uint32_t)rnd(p->pend.num));
        world_watch(slot);
        return true;
      }
    } else {
      for (uint32_t i = 0; i < 2 * CONNS; i++) {
        uint32_t k = (base + i * 7) % (2 * CONNS);
        struct conn *c = &w->conn[k / 2];
        int slot = c->slot[k % 2];
        if (round < 2 && c->used && c->slow[k % 2] && rnd(16)) continue;
        if (!step_conn(c, (int)(k % 2))) continue;
        if (w->proc[slot].alive) world_watch(slot);
        return true;
      }
    }
  }
  return false;
}
