/*
 * node_world.h - whole nodes (lib/core/node.h) side by side for a unit test: a network that
 * delivers one message after the other, mappings, pools, and a pager that drops nothing.
 *
 * Included after cmocka.h.
 */
#ifndef DMI_TEST_NODE_WORLD_H
#define DMI_TEST_NODE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/pool.h"
#include "core/node.h"
#include "dmi_api.h"
#include "msg/pack.h"
#include "msg/wire.h"

#define NODES 3
#define MAPS 6
#define PAGES 4
#define SIZE 64
#define NAMES 16
#define LINE 512
#define HELD 16
#define VIEWS 64 /* numbers of views, at most */
#define PORT 7u  /* of the first process */

struct world;

/* A name by which a node knows another one. */
struct name {
  uint32_t id; /* uid or temporary id; 0: free */
  uint32_t of; /* index */
};

struct known {
  bool here, forgotten;
  int refs;
  struct dmi_map map;
  struct dmi_page *page[PAGES];
};

struct proc {
  struct world *world;
  struct dmi_core core;
  struct dmi_pool *pool;
  struct dmi_pressure *pressure;
  struct dmi_node_env env;
  struct dmi_node *node;
  struct dmi_out out;
  bool alive, carrying;
  uint32_t uid;
  struct name name[NAMES];
  uint32_t members; /* bits, by uid */
  uint32_t spoke;   /* likewise: something was sent to them */
  struct known at[MAPS];
  /* what has happened */
  bool joined, opened, closed, left, stays, leaves, drained, finished;
  /* to be answered */
  bool connects, stops, look, maps_when_stopped;
  struct dmi_pressure_action pager;
  /* the last result */
  uint64_t op, answered;
  int error;
  struct dmi_entry mapping;
  struct dmi_notice notice;
  /* after a loss */
  bool froze, resumed;
  struct dmi_req *req; /* an own operation, and its page; NULL: none */
  struct dmi_page *req_page;
  struct held {
    uint32_t from;
    struct dmi_msg msg;
  } held[HELD];
  uint32_t held_num;
};

struct world {
  struct proc proc[NODES]; /* the first one starts the program */
  struct line {
    struct dmi_msg msg;
    uint32_t from, to; /* indices */
  } line[LINE];
  uint32_t first, last;
  uint32_t sent[256]; /* by type */
  bool survive;
  struct change { /* by number; bytes NULL: none, or a crash view */
    unsigned char *bytes;
    uint64_t len;
    uint32_t coordinator; /* uid */
  } change[VIEWS];
  uint64_t newest; /* its number */
};

/* ---- Records -------------------------------------------------------------------------------- */

static struct known *known_at(struct proc *p, uint64_t base) {
  for (uint32_t m = 0; m < MAPS; m++) {
    if (p->at[m].map.base == base && (p->at[m].here || p->at[m].forgotten)) return &p->at[m];
  }
  return NULL;
}

static struct known *known_of(struct proc *p, const struct dmi_map *map) {
  return known_at(p, map->base);
}

static struct dmi_map *env_find(void *arg, uint64_t base) {
  struct known *known = known_at(arg, base);
  return known && known->here ? &known->map : NULL;
}

static void env_enter(void *arg, const struct dmi_map *what) {
  struct proc *p = arg;
  uint32_t m = 0;
  if (env_find(p, what->base)) return;
  while (p->at[m].here || p->at[m].forgotten)
    m++;
  assert_true(m < MAPS);
  memcpy(&p->at[m].map, what, sizeof(*what));
  p->at[m].here = true;
}

static void env_forget(void *arg, struct dmi_map *map) {
  struct known *known = known_of(arg, map);
  known->here = false;
  known->forgotten = true;
  known->refs++;
}

static struct dmi_map *env_next_map(void *arg, uint64_t base) {
  struct proc *p = arg;
  struct dmi_map *next = NULL;
  for (uint32_t m = 0; m < MAPS; m++) {
    struct dmi_map *map = &p->at[m].map;
    if (p->at[m].here && map->base > base && (!next || map->base < next->base)) next = map;
  }
  return next;
}

static bool env_ref(void *arg, struct dmi_map *map) {
  known_of(arg, map)->refs++;
  return true;
}

static void env_unref(void *arg, struct dmi_map *map) {
  known_of(arg, map)->refs--;
}

static void env_nothing(void *arg, struct dmi_map *map) {
  (void)arg;
  (void)map;
}

static void env_arrived(void *arg, struct dmi_map *map) {
  (void)arg;
  atomic_store(&map->arriving, 0);
}

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  struct proc *p = arg;
  struct dmi_page **page = &known_of(p, map)->page[index];
  if (*page || !make) return *page;
  *page = calloc(1, sizeof(**page));
  dmi_page_init(&p->core, map, *page, index);
  return *page;
}

static struct dmi_page *env_next_record(void *arg, struct dmi_map *map, uint64_t from) {
  for (uint64_t i = from; i < PAGES; i++) {
    if (known_of(arg, map)->page[i]) return known_of(arg, map)->page[i];
  }
  return NULL;
}

static void env_unlock(void *arg, struct dmi_page *page) {
  (void)arg;
  (void)page;
}

static void world_send(struct proc *p, uint32_t id, struct dmi_msg *msg);

static void world_hold(struct proc *p, uint32_t from, const struct dmi_msg *msg) {
  assert_true(p->held_num < HELD);
  p->held[p->held_num++] = (struct held){from, *msg};
}

static void env_step_end(void *arg, struct dmi_page *page, struct dmi_out *out) {
  struct proc *p = arg;
  (void)page;
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->act[i].type == DMI_ACT_COMPLETE) { /* the test checks the page */
      p->req = NULL;
      continue;
    }
    if (out->act[i].type == DMI_ACT_HOLD) {
      world_hold(p, out->act[i].to, &out->act[i].msg);
      continue;
    }
    assert_int_equal(out->act[i].type, DMI_ACT_SEND);
    world_send(p, out->act[i].to, &out->act[i].msg);
  }
  dmi_out_free(out);
  if (p->leaves) (void)dmi_node_step(p->node, &(struct dmi_input){.type = DMI_IN_STEPPED}, &p->out);
}

/* ---- The network ---------------------------------------------------------------------------- */

static struct name *name_find(struct proc *p, uint32_t id) {
  for (uint32_t i = 0; i < NAMES; i++) {
    if (p->name[i].id == id) return &p->name[i];
  }
  return NULL;
}

static void name_add(struct proc *p, uint32_t id, uint32_t of) {
  struct name *name = name_find(p, 0);
  assert_non_null(name);
  *name = (struct name){id, of};
}

static bool env_connected(void *arg, uint32_t uid) {
  return name_find(arg, uid) != NULL;
}

static void env_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  (void)arg;
  (void)id;
  memset(ours, 0, sizeof(*ours));
  memset(theirs, 0, sizeof(*theirs));
}

/* A frame counts in the pool of one process, so messages copy their bytes, as a wire does. */
static void copy(struct dmi_slice *slice) {
  struct dmi_slice old = *slice;
  if (!old.len) return;
  *slice = dmi_slice_copy(old.ptr, old.len);
  dmi_slice_drop(&old);
}

static void world_send(struct proc *p, uint32_t id, struct dmi_msg *msg) {
  struct world *w = p->world;
  const struct name *name = name_find(p, id);
  uint32_t from = (uint32_t)(p - w->proc);
  copy(&msg->list);
  copy(&msg->body);
  if (!name && id != p->uid) { /* it has left, or never existed */
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
    return;
  }
  assert_true(w->last < LINE);
  if (id < 32) p->spoke |= 1u << id;
  w->sent[msg->type]++;
  w->line[w->last++] = (struct line){*msg, from, name ? name->of : from};
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void world_input(struct proc *p, const struct dmi_input *in);

static void see_view(struct proc *p) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(dmi_node_member(p->node), &num);
  p->members = 1u << p->uid;
  for (uint32_t i = 0; i < num; i++) {
    if (!peers[i].left) p->members |= 1u << peers[i].uid;
  }
}

static bool is_member(void *arg, uint32_t uid) {
  return uid < 32 && (((struct proc *)arg)->members >> uid & 1);
}

static void got_result(struct proc *p, const struct dmi_mact *act) {
  p->answered = act->op;
  p->error = act->error;
  p->mapping = act->mapping;
  if (act->notice_num) p->notice = act->notices[0];
  if (act->error == DMI_OK && act->mapping.base) {
    struct dmi_map what = {.base = act->mapping.base,
                           .page_size = act->mapping.page_size,
                           .page_num = act->mapping.page_num};
    atomic_init(&what.home, act->mapping.home);
    env_enter(p, &what);
  }
}

static void act_member(struct proc *p, const struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_CONNECT:
      p->connects = true;
      break;
    case DMI_MACT_SELF:
      p->uid = act->id;
      assert_int_equal(p->core.self, act->id);
      break;
    case DMI_MACT_RENAME:
      name_find(p, act->id)->id = act->uid;
      break;
    case DMI_MACT_ADD_PEER:
      if (!name_find(p, act->uid)) name_add(p, act->uid, act->addr.port - PORT);
      break;
    case DMI_MACT_CLOSE_PEER:
      if (name_find(p, act->id)) name_find(p, act->id)->id = 0;
      break;
    case DMI_MACT_VIEW:
      if (act->flag) p->froze = atomic_load(&p->core.frozen);
      see_view(p);
      break;
    case DMI_MACT_JOINED:
      p->joined = true;
      break;
    case DMI_MACT_OPENED:
      p->opened = true;
      break;
    case DMI_MACT_CLOSED:
      p->closed = true;
      break;
    case DMI_MACT_STOP_THREADS:
      p->stops = true;
      break;
    case DMI_MACT_LEFT:
      p->left = true;
      break;
    case DMI_MACT_FINISH:
      p->finished = true;
      break;
    case DMI_MACT_RESULT:
      got_result(p, act);
      break;
    default:
      break;
  }
}

static void world_replay(struct proc *p);

static void act_one(struct proc *p, struct dmi_act *act) {
  switch (act->type) {
    case DMI_ACT_SEND:
      world_send(p, act->to, &act->msg);
      memset(&act->msg, 0, sizeof(act->msg));
      break;
    case DMI_ACT_MEMBER:
      act_member(p, act->member);
      break;
    case DMI_ACT_FREED:
      known_of(p, act->map)->refs--;
      break;
    case DMI_ACT_LOOK:
      p->look = true;
      break;
    case DMI_ACT_LEAVES:
      p->leaves = true;
      break;
    case DMI_ACT_STAYS:
      p->stays = true;
      break;
    case DMI_ACT_HOLD:
      world_hold(p, act->to, &act->msg);
      break;
    case DMI_ACT_RESUMED:
      p->resumed = true;
      world_replay(p);
      break;
    case DMI_ACT_DRAINED:
      p->leaves = false;
      p->drained = true;
      world_input(p, &(struct dmi_input){.type = DMI_IN_DRAINED});
      break;
    default: /* REPLAY, TAKEN */
      break;
  }
}

static void world_carry(struct proc *p) {
  struct dmi_act act;
  if (p->carrying) return;
  p->carrying = true;
  while (dmi_node_next(p->node, &p->out, &act)) {
    act_one(p, &act);
    dmi_act_end(&act);
  }
  p->carrying = false;
}

static void world_input(struct proc *p, const struct dmi_input *in) {
  assert_true(dmi_node_step(p->node, in, &p->out));
  world_carry(p);
}

/* ---- The pager ------------------------------------------------------------------------------ */

static void world_pager(struct proc *p) {
  do {
    struct dmi_pressure_result result = {.yes = p->pager.type == DMI_PRESSURE_ARM};
    struct dmi_capacity_out out;
    if (p->pager.type == DMI_PRESSURE_SETTLE) result.fate = dmi_pressure_offered(p->pager.page);
    if (p->pager.type == DMI_PRESSURE_CHECK) result.fate = dmi_pressure_stalls(p->pager.page);
    dmi_capacity_out_init(&out);
    dmi_pressure_next(p->pressure, &result, &p->pager, &out);
    for (uint64_t i = 0; i < out.num; i++) {
      struct dmi_msg msg = out.send[i].msg;
      msg.origin = p->uid;
      world_send(p, out.send[i].to, &msg);
    }
    dmi_capacity_out_free(&out);
    if (p->pager.release) env_unref(p, p->pager.release->map);
  } while (p->pager.type != DMI_PRESSURE_REST || !p->pager.sleep);
}

static void pool_wakes(void *arg) {
  ((struct proc *)arg)->look = true;
}

static bool capacity_reserve(void *arg, uint64_t bytes, bool force) {
  return dmi_pool_reserve(((struct proc *)arg)->pool, bytes, force);
}

static void capacity_release(void *arg, uint64_t bytes) {
  dmi_pool_release(((struct proc *)arg)->pool, bytes);
}

static void capacity_attach(void *arg, struct dmi_frame *frame, bool reserved) {
  dmi_pool_attach(((struct proc *)arg)->pool, frame, reserved);
}

static void capacity_detach(void *arg, struct dmi_frame *frame) {
  dmi_pool_detach(((struct proc *)arg)->pool, frame);
}

static void capacity_copies(void *arg, int64_t more) {
  dmi_pool_copies(((struct proc *)arg)->pool, more);
}

/* ---- Events --------------------------------------------------------------------------------- */

static void page_message(struct proc *p, uint32_t from, struct dmi_msg *msg) {
  struct dmi_map *map = env_find(p, msg->map);
  struct dmi_input in = {.type = DMI_IN_PAGE, .id = from, .msg = msg};
  struct dmi_out out;
  assert_non_null(map);
  in.page = env_record(p, map, msg->page, true);
  dmi_out_init(&out);
  assert_true(dmi_node_step(p->node, &in, &out));
  env_step_end(p, in.page, &out);
  world_carry(p);
}

static void world_give(struct proc *p, uint32_t from, struct dmi_msg *msg) {
  if (dmi_wire_class(msg) == DMI_CLASS_PAGE) {
    page_message(p, from, msg);
  } else {
    world_input(p,
                &(struct dmi_input){
                    .type = DMI_IN_MESSAGE, .id = from, .msg = msg, .class = dmi_wire_class(msg)});
  }
}

static void world_replay(struct proc *p) {
  struct held held[HELD];
  uint32_t num = p->held_num;
  memcpy(held, p->held, sizeof(held));
  p->held_num = 0;
  for (uint32_t i = 0; i < num; i++)
    world_give(p, held[i].from, &held[i].msg);
}

static void deliver(struct world *w) {
  struct line line = w->line[w->first++];
  struct proc *p = &w->proc[line.to];
  uint32_t id = w->proc[line.from].uid;
  if (w->first == w->last) w->first = w->last = 0;
  for (uint32_t i = 0; i < NAMES; i++) {
    if (p->name[i].id && p->name[i].of == line.from) id = p->name[i].id;
  }
  if (!p->alive) {
    dmi_slice_drop(&line.msg.list);
    dmi_slice_drop(&line.msg.body);
  } else {
    world_give(p, id, &line.msg);
  }
}

static void answer(struct proc *p) {
  uint32_t own = (uint32_t)(p - p->world->proc);
  if (p->connects) {
    p->connects = false;
    name_add(p, DMI_NET_TEMP, 0);
    name_add(&p->world->proc[0], DMI_NET_TEMP + own, own);
    world_input(p, &(struct dmi_input){.type = DMI_IN_CONNECTED, .id = DMI_NET_TEMP});
  }
  if (p->stops) {
    p->stops = false;
    world_input(p, &(struct dmi_input){.type = DMI_IN_STOPPED, .yes = true});
    if (p->maps_when_stopped)
      world_input(
          p, &(struct dmi_input){
                 .type = DMI_IN_CALL, .call = DMI_CTL_MMAP, .op = ++p->op, .a = SIZE, .b = PAGES});
  }
  if (p->look) {
    p->look = false;
    world_pager(p);
  }
}

/* Delivers a message, and lets processes do what they have to.  False: there is nothing. */
static bool world_step(struct world *w) {
  bool more = w->first < w->last;
  if (more) deliver(w);
  for (uint32_t i = 0; i < NODES; i++) {
    struct proc *p = &w->proc[i];
    if (!p->alive) continue;
    more |= p->connects || p->stops || p->look;
    answer(p);
  }
  return more;
}

/* Runs until nothing is in flight. */
static void world_run(struct world *w) {
  while (world_step(w))
    ;
}

/* Makes a call of this process and runs until its answer, or until nothing moves.  False: there is
 * no answer. */
static bool world_answers(struct proc *p, struct dmi_input in) {
  in.type = DMI_IN_CALL;
  in.op = ++p->op;
  world_input(p, &in);
  world_run(p->world);
  return p->answered == in.op;
}

static bool world_call(struct proc *p, enum dmi_msg_type type, uint64_t a, uint64_t b) {
  return world_answers(p, (struct dmi_input){.call = type, .a = a, .b = b});
}

/* DMI_welcome or DMI_goodbye. */
static bool world_dismiss(struct proc *p, enum dmi_msg_type type, dmi_id_t id) {
  return world_answers(p, (struct dmi_input){.call = type, .dmi_id = id});
}

/* ---- Losses --------------------------------------------------------------------------------- */

static void agree_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
}

static bool agree_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
  return true;
}

static void agree_change(void *arg, const struct dmi_pulse_view *view) {
  struct world *w = ((struct proc *)arg)->world;
  struct change *change = &w->change[view->number];
  assert_true(view->number < VIEWS && !change->bytes);
  w->newest = view->number;
  change->coordinator = view->coordinator;
  change->len = view->body.len;
  change->bytes = malloc(change->len);
  memcpy(change->bytes, view->body.ptr, change->len);
}

/* The agreement gives a member the changes that it has not taken, too. */
static void take_changes(struct proc *p) {
  uint64_t number = dmi_member_view(dmi_node_member(p->node));
  while (++number <= p->world->newest) {
    const struct change *change = &p->world->change[number];
    struct dmi_msg msg = {.body = {.ptr = change->bytes, .len = change->len}};
    world_input(p, &(struct dmi_input){.type = DMI_IN_AGREED, .msg = &msg});
  }
}

static const struct dmi_member_survive agree_always = {.start = agree_start,
                                                       .take = agree_take,
                                                       .may_change = agree_may_change,
                                                       .change = agree_change,
                                                       .tie = agree_tie,
                                                       .all_taken = agree_all_taken,
                                                       .leased = agree_leased};

static struct dmi_req *ops_next(void *arg, uint64_t *at, struct dmi_page **page) {
  struct proc *p = arg;
  if ((*at)++ || !p->req || !atomic_load(&p->req->sent)) return NULL;
  *page = p->req_page;
  return p->req;
}

static bool ops_speaks(void *arg, dmi_uid_t uid) {
  return uid >= 32 || ((const struct proc *)arg)->spoke >> uid & 1;
}

/* All have agreed that this one is gone (NULL: nobody is, but they recover once more); they take
 * the view one after the other. */
static void world_crash(struct world *w, const struct proc *dead) {
  uint64_t number = w->newest + 1;
  assert_true(number < VIEWS);
  for (uint32_t k = 0; k < NODES; k++) {
    struct proc *p = &w->proc[k];
    struct dmi_msg msg = {0};
    struct dmi_pack body;
    if (!p->alive) continue;
    take_changes(p);
    dmi_pack_init(&body);
    dmi_pack_u64(&body, number);
    dmi_pack_u32(&body, w->proc[0].uid);
    dmi_pack_u32(&body, 0);
    dmi_pack_u32(&body, dead ? 1 : 0);
    if (dead) {
      dmi_pack_u32(&body, dead->uid);
      dmi_pack_u32(&body, 0);
      dmi_pack_u8(&body, 2);
    }
    msg.body = (struct dmi_slice){.ptr = body.bytes, .len = body.len};
    world_input(p, &(struct dmi_input){.type = DMI_IN_AGREED, .msg = &msg, .yes = true});
    dmi_pack_free(&body);
  }
  w->newest = number;
  w->change[number].coordinator = w->proc[0].uid;
}

/* Process `i` is lost, with all that is in flight to and from it. */
static void world_kill(struct world *w, uint32_t i) {
  w->proc[i].alive = false;
  for (uint32_t k = w->first; k < w->last; k++) {
    if (w->line[k].from == i) w->line[k].to = i; /* to nobody */
  }
  world_crash(w, &w->proc[i]);
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

static const struct dmi_account world_capacity = {.reserve = capacity_reserve,
                                                  .release = capacity_release,
                                                  .attach = capacity_attach,
                                                  .detach = capacity_detach,
                                                  .copies = capacity_copies};

/* Starts process `i`, which lends so many pages. */
static struct proc *world_open(struct world *w, uint32_t i, uint64_t pages,
                               enum dmi_node_break broken) {
  struct proc *p = &w->proc[i];
  struct dmi_node_info info = {.cores = 1, .memory = pages * SIZE, .host = "here"};
  static const uint8_t program_id[16] = {7};
  p->world = w;
  p->alive = true;
  p->core.is_member = is_member;
  p->core.arg = p;
  p->core.account = &world_capacity;
  p->pool = dmi_pool_new(pages * SIZE, pool_wakes, p);
  p->pressure = dmi_pressure_new(&p->core, p->pool, false);
  p->pager.type = DMI_PRESSURE_REST;
  p->env.arg = p;
  p->env.net = (struct dmi_member_env){.arg = p, .connected = env_connected, .addrs = env_addrs};
  p->env.net.survive = &agree_always;
  p->env.net.survive_arg = p;
  p->env.net.settings.survive = w->survive;
  p->env.ops = (struct dmi_recover_env){.arg = p, .next_op = ops_next, .speaks = ops_speaks};
  p->env.records = (struct dmi_handover_env){.arg = p,
                                             .find = env_find,
                                             .enter = env_enter,
                                             .forget = env_forget,
                                             .next_map = env_next_map,
                                             .ref = env_ref,
                                             .unref = env_unref,
                                             .hold = env_nothing,
                                             .release = env_nothing,
                                             .arrived = env_arrived,
                                             .record = env_record,
                                             .next_record = env_next_record,
                                             .unlock = env_unlock,
                                             .step_end = env_step_end};
  p->node = dmi_node_new(&p->core, p->pressure, &p->env, &info,
                         &(struct dmi_addr){.port = (uint16_t)(PORT + i)});
  dmi_node_set_break(p->node, broken);
  dmi_out_init(&p->out);
  if (i == 0) {
    world_input(p, &(struct dmi_input){.type = DMI_IN_FIRST, .program_id = program_id});
  } else {
    world_input(p, &(struct dmi_input){.type = DMI_IN_JOIN});
  }
  world_run(w);
  return p;
}

static void let_go(void *arg, struct dmi_page *page) {
  env_unref(arg, page->map);
}

static void world_close(struct world *w) {
  struct dmi_act act;
  for (uint32_t i = 0; i < VIEWS; i++)
    free(w->change[i].bytes);
  for (; w->first < w->last; w->first++) {
    dmi_slice_drop(&w->line[w->first].msg.list);
    dmi_slice_drop(&w->line[w->first].msg.body);
  }
  for (uint32_t i = 0; i < NODES; i++) {
    struct proc *p = &w->proc[i];
    if (!p->node) continue;
    while (dmi_out_take(&p->out, &act))
      dmi_act_end(&act);
    dmi_out_free(&p->out);
    dmi_node_free(p->node);
    dmi_pressure_free(p->pressure, let_go, p);
    for (uint32_t m = 0; m < MAPS; m++) {
      for (uint32_t n = 0; n < PAGES; n++) {
        if (p->at[m].page[n]) dmi_page_fini(&p->core, p->at[m].page[n]);
        free(p->at[m].page[n]);
      }
    }
    dmi_pool_free(p->pool);
  }
}

#endif
