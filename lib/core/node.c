/*
 * node.c - the parts of one process's protocol, and what they ask of each other.
 *
 * An input goes to its part. The actions of all parts go into one list. An action for another part
 * is carried out when it is taken from the list (dmi_node_next), so everything happens in the order
 * in which it was decided.
 */
#include "core/node.h"

#include <stdlib.h>
#include <string.h>

#include "core/node_int.h"
#include "dmi_api.h"
#include "msg/wire.h"

/* ---- Actions of membership ------------------------------------------------------------------ */

/* Moves the actions of an event of membership into the list. */
void dmi_node_life_out(struct dmi_node *node, struct dmi_out *out) {
  for (uint32_t i = 0; i < node->life.num; i++) {
    struct dmi_mact *act = &node->life.act[i];
    if (act->type == DMI_MACT_SEND) {
      dmi_out_send(out, act->id, &act->msg);
    } else {
      struct dmi_mact *member = dmi_xalloc(1, sizeof(*member));
      *member = *act;
      dmi_out_add(out, DMI_ACT_MEMBER)->member = member;
    }
    memset(act, 0, sizeof(*act));
  }
  node->life.num = 0;
}

void dmi_act_end(struct dmi_act *act) {
  if (act->type == DMI_ACT_SEND) {
    dmi_slice_drop(&act->msg.list);
    dmi_slice_drop(&act->msg.body);
  } else if (act->type == DMI_ACT_MEMBER) {
    struct dmi_mout one = {1, 1, act->member};
    dmi_mout_free(&one);
  }
}

/* ---- The handover --------------------------------------------------------------------------- */

/* Does one step of the handover. Promises to other leavers come first: they return them, or use
 * them. False: nothing to do until something has happened. */
static bool go_on(struct dmi_node *node, struct dmi_out *out) {
  if (!node->goes_on || atomic_load(&node->core->frozen)) return false;
  node->goes_on = false;
  if (dmi_handover_state(node->handover) == DMI_HANDOVER_ASKS &&
      dmi_pressure_promised(node->pressure) && !DMI_BROKEN(node, DMI_NODE_BREAK_PROMISED))
    return false;
  if (dmi_handover_go_on(node->handover, out)) node->goes_on = true;
  return true;
}

/* Carries out START_DRAIN. */
static void drain(struct dmi_node *node, uint32_t heir, struct dmi_out *out) {
  dmi_pressure_leave(node->pressure, heir);
  dmi_handover_begin(node->handover, heir, out);
  node->goes_on = true;
}

/* Carries out STAYS. Returns whether the caller must know: not if it was dismissed before. */
static bool stays(struct dmi_node *node, struct dmi_out *out) {
  dmi_pressure_stay(node->pressure);
  (void)dmi_out_add(out, DMI_ACT_LOOK);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_REFUSED)) LIFE(node, out, no_capacity, &node->life);
  return dmi_handover_state(node->handover) == DMI_HANDOVER_STAYS &&
         !DMI_BROKEN(node, DMI_NODE_BREAK_STAYS);
}

/* Makes a mapping known that the directory has reported. */
struct dmi_map *dmi_node_enter(struct dmi_node *node, const struct dmi_entry *entry) {
  const struct dmi_handover_env *records = &node->env->records;
  struct dmi_map what = {.base = entry->base,
                         .page_size = entry->page_size,
                         .page_num = entry->page_num,
                         .tag = entry->tag};
  struct dmi_map *map = records->find(records->arg, entry->base);
  if (map) return map;
  atomic_init(&what.home, entry->home);
  records->enter(records->arg, &what);
  return records->find(records->arg, entry->base);
}

/* For membership: the mappings known here.  Who has given the home away was it before. */
static bool next_mapping(void *arg, uint64_t above, struct dmi_entry *entry, dmi_uid_t *before) {
  const struct dmi_node *node = arg;
  const struct dmi_handover_env *records = &node->env->records;
  const struct dmi_map *map = records->next_map(records->arg, above);
  dmi_uid_t arriving;
  if (!map) return false;
  arriving = atomic_load(&map->arriving); /* half of a home is not one */
  *entry = (struct dmi_entry){map->base, map->page_size, map->page_num,
                              arriving ? arriving : atomic_load(&map->home), map->tag};
  *before = map->given == entry->home
                ? node->core->self
                : dmi_recover_home_before(node->recover, map->base, entry->home);
  return true;
}

/* Handles the result of a LOOKUP of the handover. */
static void found(struct dmi_node *node, const struct dmi_mact *result, struct dmi_out *out) {
  struct dmi_map *map = result->error == DMI_OK ? dmi_node_enter(node, &result->mapping) : NULL;
  dmi_handover_found(node->handover, result->op - DMI_NODE_OP, map, out);
}

/* ---- Views ---------------------------------------------------------------------------------- */

/* Called before the caller publishes who is a member. So the new homes are known when threads
 * can no longer send to a member that has left. */
static void view_begins(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out) {
  if (act->flag) dmi_node_crash_view(node, act, out);
  for (uint32_t i = 0; i < act->removed_num; i++) {
    const struct dmi_removed *removed = &act->removed[i];
    if (removed->uid != node->core->self)
      dmi_handover_removed(node->handover, removed->uid, removed->heir);
  }
  node->viewed = true;
}

static void view_ends(struct dmi_node *node, struct dmi_out *out) {
  if (!node->viewed) return;
  node->viewed = false;
  dmi_node_pressure_view(node, out);
  LIFE(node, out, viewed, &node->life);
}

/* ---- DMI_exit ------------------------------------------------------------------------------- */

/* What waits here, and what comes to wait: ends with DMI_EEND.  A frozen page does that when it
 * resumes. */
static void stop(struct dmi_node *node, uint32_t status) {
  const struct dmi_handover_env *records = &node->env->records;
  struct dmi_map *map;
  struct dmi_page *page;
  atomic_store(&node->core->stopping, status + 1);
  DMI_EACH_MAP(records, map) {
    DMI_EACH_RECORD(records, map, page) {
      struct dmi_out out;
      dmi_out_init(&out);
      dmi_page_wait_stop(node->core, page, &out);
      records->step_end(records->arg, page, &out);
    }
  }
}

/* ---- What is done in here ------------------------------------------------------------------- */

/* Returns false if the caller has something to do (as well). */
static bool own_member(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out) {
  switch (act->type) {
    case DMI_MACT_SELF:
      node->core->self = act->id;
      atomic_store(&node->core->losses, (uint32_t)act->op);
      return false;
    case DMI_MACT_VIEW:
      view_begins(node, act, out);
      return false;
    case DMI_MACT_RECOVER:
      dmi_node_crash_recover(node, act, out);
      return false;
    case DMI_MACT_RESUME:
      dmi_node_crash_resume(node, out);
      return false;
    case DMI_MACT_JOINED:
      if (node->first) dmi_node_pressure_open(node, out);
      return false;
    case DMI_MACT_OPENED:
      dmi_node_pressure_open(node, out);
      return false;
    case DMI_MACT_START_DRAIN:
      drain(node, act->uid, out);
      return false;
    case DMI_MACT_STOPPING:
      stop(node, (uint32_t)act->value);
      return false;
    case DMI_MACT_ADOPT:
      if (!DMI_BROKEN(node, DMI_NODE_BREAK_ADOPT)) (void)dmi_node_enter(node, &act->mapping);
      return true;
    case DMI_MACT_FORGET:
      dmi_handover_forget(node->handover, act->mapping.base, out);
      if (!DMI_BROKEN(node, DMI_NODE_BREAK_FORGOT))
        LIFE(node, out, forgot, act->mapping.base, &node->life);
      return false;
    case DMI_MACT_RESULT:
      if (act->op < DMI_NODE_OP) return false;
      if (!DMI_BROKEN(node, DMI_NODE_BREAK_FOUND)) found(node, act, out);
      return true;
    default:
      return false;
  }
}

static bool own(struct dmi_node *node, const struct dmi_act *act, struct dmi_out *out) {
  switch (act->type) {
    case DMI_ACT_MEMBER:
      return own_member(node, act->member, out);
    case DMI_ACT_LOOKUP:
      LIFE(node, out, lookup, DMI_NODE_OP + act->number, act->value, &node->life);
      return true;
    case DMI_ACT_PROMISED:
      if (!DMI_BROKEN(node, DMI_NODE_BREAK_TAKEN))
        dmi_pressure_taken(node->pressure, act->to, act->value);
      node->goes_on = true; /* this process's own leave may wait for that */
      return true;
    case DMI_ACT_KEPT:
      dmi_pressure_kept(node->pressure, act->to);
      (void)dmi_out_add(out, DMI_ACT_LOOK);
      return true;
    case DMI_ACT_STAYS:
      return !stays(node, out);
    case DMI_ACT_READY:
      dmi_node_crash_ready(node, act->number, out);
      return true;
    case DMI_ACT_BEGUN:
      dmi_recover_begun(node->recover, act->number, out);
      return true;
    case DMI_ACT_FREED: /* some of its pages may have been stalled */
      (void)dmi_out_add(out, DMI_ACT_LOOK);
      return false;
    default:
      return false;
  }
}

bool dmi_node_next(struct dmi_node *node, struct dmi_out *out, struct dmi_act *act) {
  view_ends(node, out);
  do {
    while (dmi_out_take(out, act)) {
      if (!own(node, act, out)) return true;
      dmi_act_end(act);
    }
  } while (go_on(node, out));
  return false;
}

/* ---- Inputs --------------------------------------------------------------------------------- */

static void call(struct dmi_node *node, const struct dmi_input *in, struct dmi_out *out) {
  struct dmi_member *m = node->member;
  struct dmi_mout *life = &node->life;
  switch (in->call) {
    case DMI_CTL_POLL:
      dmi_member_poll(m, in->op, life);
      break;
    case DMI_CTL_PEEK:
      dmi_member_peek(m, in->op, life);
      break;
    case DMI_CTL_NODES:
      dmi_member_nodes(m, in->op, life);
      break;
    case DMI_CTL_WELCOME:
      dmi_member_welcome(m, in->op, in->dmi_id, life);
      break;
    case DMI_CTL_GOODBYE:
      dmi_member_goodbye(m, in->op, in->dmi_id, life);
      break;
    case DMI_CTL_MMAP:
      dmi_member_mmap_tag(m, in->op, in->a, in->b, in->tag, life);
      break;
    case DMI_CTL_LOOKUP:
      dmi_member_lookup(m, in->op, in->a, life);
      break;
    case DMI_CTL_MUNMAP:
      dmi_member_munmap_tag(m, in->op, in->a, in->tag, life);
      break;
    case DMI_CTL_ROOT_SET:
      dmi_member_root_set(m, in->op, in->text, in->b, in->a, life);
      break;
    case DMI_CTL_SURVIVE:
      dmi_member_survives(m, in->op, life);
      break;
    case DMI_CTL_NOTIFY:
      dmi_member_notify(m, in->op, in->a, life);
      break;
    case DMI_CTL_STOP:
      dmi_member_exit(m, in->op, (uint32_t)in->a, life);
      break;
    case DMI_CTL_ROOT_GET:
      dmi_member_root_get(m, in->op, in->text, in->b, life);
      break;
    default: /* THREAD */
      dmi_member_thread(m, in->op, (uint32_t)in->a, in->b, life);
  }
  dmi_node_life_out(node, out);
}

/* Only membership handles messages of processes that are not members yet. */
static bool message(struct dmi_node *node, const struct dmi_input *in, struct dmi_out *out) {
  struct dmi_msg *msg = in->msg;
  bool good = false;
  if (in->class == DMI_CLASS_MEMBER) {
    good = dmi_member_message(node->member, in->id, msg, &node->life);
    dmi_node_life_out(node, out);
  } else if (in->class == DMI_CLASS_HANDOVER && in->id < DMI_NET_TEMP) {
    if (dmi_node_crash_holds(node, in->id, msg, out)) return true;
    node->goes_on = true;
    return dmi_handover_message(node->handover, in->id, msg, out);
  } else if (in->class == DMI_CLASS_RECOVER && in->id < DMI_NET_TEMP &&
             dmi_member_settings(node->member).survive) {
    return dmi_recover_message(node->recover, in->id, msg, out);
  } else if (in->class == DMI_CLASS_CAPACITY && in->id < DMI_NET_TEMP) {
    good = dmi_node_pressure_message(node, in->id, msg, out);
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

bool dmi_node_input(struct dmi_node *node, const struct dmi_input *in, struct dmi_out *out) {
  struct dmi_mout *life = &node->life;
  switch (in->type) {
    case DMI_IN_MESSAGE:
      return message(node, in, out);
    case DMI_IN_CONNECTED:
      LIFE(node, out, connected, in->id, life);
      break;
    case DMI_IN_NOT_CONNECTED:
      LIFE(node, out, not_connected, in->text, life);
      break;
    case DMI_IN_LOST:
      LIFE(node, out, lost, in->id, in->text, life);
      break;
    case DMI_IN_CUT_OFF:
      LIFE(node, out, cut_off, in->text, life);
      break;
    case DMI_IN_FIRST:
      node->first = true;
      LIFE(node, out, start_first, in->program_id, life);
      break;
    case DMI_IN_JOIN:
      LIFE(node, out, start_join, life);
      break;
    case DMI_IN_AGREED:
      LIFE(node, out, agreed, &in->msg->body, in->yes, life);
      break;
    case DMI_IN_MAY_CHANGE:
      LIFE(node, out, may_change, life);
      break;
    case DMI_IN_LEAVE_ASKED:
      LIFE(node, out, leave_asked, life);
      break;
    case DMI_IN_STOPPED:
      LIFE(node, out, stopped, in->yes, life);
      break;
    case DMI_IN_DRAINED:
      LIFE(node, out, drained, in->ended, in->ended_num, life);
      break;
    case DMI_IN_STEPPED:
      if (!DMI_BROKEN(node, DMI_NODE_BREAK_GO_ON)) node->goes_on = true;
      break;
    case DMI_IN_BUSY:
      LIFE(node, out, busy, in->op, life);
      break;
    case DMI_IN_IDLE:
      LIFE(node, out, idle, life);
      break;
    case DMI_IN_MAIN_ENDED:
      LIFE(node, out, main_ended, in->yes, life);
      break;
    case DMI_IN_CALL:
      call(node, in, out);
      break;
    default: /* messages about pages do not come here */
      return false;
  }
  return true;
}

/* ---- Making and ending ---------------------------------------------------------------------- */

struct dmi_node *dmi_node_new(struct dmi_core *core, struct dmi_pressure *pressure,
                              const struct dmi_node_env *env, const struct dmi_node_info *info,
                              const struct dmi_addr *own_addr) {
  struct dmi_node *node = dmi_xalloc(1, sizeof(*node));
  struct dmi_member_env net = env->net;
  net.next_mapping = next_mapping;
  net.mapping_arg = node;
  node->core = core;
  node->pressure = pressure;
  node->env = env;
  node->handover = dmi_handover_new(core, &env->records);
  node->member = dmi_member_new(&net, info, own_addr);
  dmi_mout_init(&node->life);
  dmi_node_crash_init(node);
  return node;
}

void dmi_node_free(struct dmi_node *node) {
  if (!node) return;
  dmi_recover_free(node->recover);
  dmi_handover_free(node->handover);
  dmi_member_free(node->member);
  dmi_mout_free(&node->life);
  free(node);
}

#ifdef DMI_MUTATIONS
void dmi_node_set_break(struct dmi_node *node, enum dmi_node_break broken) {
  node->broken = broken;
}
#endif

struct dmi_member *dmi_node_member(const struct dmi_node *node) {
  return node->member;
}

struct dmi_handover *dmi_node_handover(const struct dmi_node *node) {
  return node->handover;
}

struct dmi_core *dmi_node_core(const struct dmi_node *node) {
  return node->core;
}

struct dmi_recover *dmi_node_recover(const struct dmi_node *node) {
  return node->recover;
}
