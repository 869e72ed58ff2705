/*
 * node_net.c - the simulated network: decides what arrives next.
 *
 * Messages arrive in order within a connection, and in any order between connections; DATA and
 * BLOCKs may be overtaken by all others but LAST_MESSAGE.  Rare races need some connection to be
 * slow for long while others are fast, so the way in which the next message is chosen changes all
 * the time.  A message counts in the sender's memory until it arrives; then the receiver gets a
 * copy.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

/* ---- Arriving ------------------------------------------------------------------------------- */

/* The receiver owns what arrives; a list is valid only during the call. */
static struct dmi_frame *receive(struct dmi_msg *msg, bool copied) {
  struct dmi_frame *list = NULL;
  if (msg->body.len && !copied) {
    struct dmi_slice body = dmi_slice_copy(msg->body.ptr, msg->body.len);
    dmi_slice_drop(&msg->body);
    msg->body = body;
  }
  if (msg->list.len) {
    list = dmi_frame_new(msg->list.len);
    if (!list) abort();
    memcpy(list->bytes, msg->list.ptr, msg->list.len);
    struct dmi_slice borrowed = {NULL, list->bytes, msg->list.len};
    dmi_slice_drop(&msg->list);
    msg->list = borrowed;
  }
  return list;
}

static void arrive(struct sim_end *end, struct sim_queue *queue) {
  struct node *node = end->node;
  struct sim *sim = node->sim;
  uint32_t from = sim_conn(end)->self ? node->uid : end->id;
  bool copied = queue->part > 0, fenced = node->fenced[sim_uid(sim, from)];
  bool unknown =
      from < DMI_NET_TEMP && from != node->uid && !node->knows[sim_uid(sim, from)] && !end->closed;
  struct dmi_msg msg;
  struct dmi_frame *list;
  if (queue == &end->queue && !sim_conn(end)->self) sim_pack_break(end);
  msg = sim_queue_take(queue);
  if (queue == &end->queue && !sim_conn(end)->self) sim_pack_arrives(end, &msg);
  sim_line_look(sim, end);
  sim->totals->messages++;
  if (unknown && !fenced && !node_is_removed(sim_net_other(end)->node))
    sim_bad(sim, "p%u meets p%u, which it does not know", node->uid, from);
  if (sim->opt.verbose)
    sim_log(sim, "p%u (%u) takes %s from %u: map %u page %u", node->uid, node->num,
            dmi_wire_name(msg.type), from,
            dmi_wire_about_page(msg.type) ? sim_map_num(sim, msg.map) : 0, (unsigned)msg.page);
  if (fenced || (sim->opt.crashes && unknown)) { /* one that was removed may have connected again */
    sim_lose_message(sim, &msg);
    return;
  }
  if (msg.type == DMI_MSG_GRANT) {
    sim->map[sim_map_num(sim, msg.map)].grants[msg.page]--;
  }
  list = receive(&msg, copied);
  node_message(node, from, &msg);
  if (list) memset(list->bytes, 0xdd, list->size); /* it must not be read again */
  dmi_frame_unref(list);
}

/* Some more bytes of a DATA or BLOCK arrive. */
static bool arrive_part(struct sim_end *end, struct sim_queue *queue) {
  struct dmi_msg *msg = queue->num ? sim_queue_head(queue) : NULL;
  struct sim *sim = end->node->sim;
  uint32_t from = sim_conn(end)->self ? end->node->uid : end->id;
  uint64_t off = queue->part;
  if (!msg || (msg->type != DMI_MSG_DATA && msg->type != DMI_MSG_BLOCK)) return false;
  if (off + 1 >= msg->body.len || end->node->fenced[sim_uid(sim, from)]) return false;
  if (!off) node_part_begins(end->node, from, msg);
  queue->part += rng_range(&sim->rng, 1, (uint32_t)(msg->body.len - off - 1));
  struct dmi_msg copy = *msg; /* the queue may move meanwhile */
  node_part(end->node, &copy, off, queue->part);
  return true;
}

/* With losses: has another uid than the one that the other end takes it for?  Then that one was
 * given to it by a coordinator that was lost; the product's handshake ends the connection. */
static bool is_mistaken(const struct sim_end *end) {
  uint32_t meant = sim_net_other(end)->id;
  const struct node *node = end->node;
  return node->sim->opt.crashes && !sim_conn(end)->self && node->alive && node->uid &&
         meant < DMI_NET_TEMP && meant != node->uid;
}

static void line_step(struct sim_end *end) {
  struct node *node = end->node;
  struct sim *sim = node->sim;
  struct sim_queue *queue = &end->queue;
  if (is_mistaken(end)) {
    sim_queue_drop(sim, &end->queue);
    sim_queue_drop(sim, &end->bulk);
    end->dead = true;
    sim_line_look(sim, end);
    sim_net_close(end);
    return;
  }
  if (!node->alive) { /* see sim_net_leave: this was sent after the end */
    if (!node->killed && !node->over && node->uid && !node_is_removed(sim_net_other(end)->node) &&
        end->id < DMI_NET_TEMP && (queue->num || end->bulk.num))
      sim_bad(sim, "%s for p%u, which has ended", dmi_wire_name(sim_queue_head(queue)->type),
              node->uid);
    sim_queue_drop(sim, &end->queue);
    sim_queue_drop(sim, &end->bulk);
    end->dead = true;
    sim_line_look(sim, end);
    sim_conn_look(sim, sim_conn(end));
    return;
  }
  if (!queue->num && !end->bulk.num) { /* the other end has closed */
    uint32_t id = end->id;
    bool closed = end->closed;
    end->dead = end->closed = true;
    sim_line_look(sim, end);
    sim_conn_look(sim, sim_conn(end));
    if (!closed) node_lost(node, id);
    return;
  }
  if (end->bulk.num && (!queue->num || sim_queue_head(queue)->type == DMI_CTL_LAST_MESSAGE ||
                        (!end->late && rng_once_in(&sim->rng, 2))))
    queue = &end->bulk;
  if (rng_once_in(&sim->rng, 3) && arrive_part(end, queue)) return;
  arrive(end, queue);
  if (sim_conn(end)->used) sim_conn_look(sim, sim_conn(end));
}

void sim_net_settle(struct node *node) {
  struct sim_end *end = node->self_conn ? &node->self_conn->end[0] : NULL;
  while (end && end->queue.num)
    arrive(end, &end->queue);
}

bool sim_net_take(struct sim_end *end, uint8_t type) {
  if (end->cut || !end->queue.num || sim_queue_head(&end->queue)->type != type) return false;
  arrive(end, &end->queue);
  return true;
}

/* ---- Which is next -------------------------------------------------------------------------- */

void sim_net_retune(struct sim *sim) {
  struct sim_net *net = &sim->net;
  uint32_t lag = rng_below(&sim->rng, 4), one = rng_below(&sim->rng, SIM_LIVING);
  uint32_t other = rng_below(&sim->rng, SIM_LIVING);
  net->strategy = (enum sim_strategy)rng_below(&sim->rng, SIM_STRATEGIES);
  net->burst = 0;
  for (uint16_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, i);
    if (!net->conn[i / 2].used) continue;
    uint32_t to = end->node->slot, from = sim_net_other(end)->node->slot;
    end->prio = (uint32_t)rng_next(&sim->rng);
    end->late = rng_once_in(&sim->rng, 4);
    /* slow is one pair, or all to a process, all from a process, or some */
    end->slow = lag == 0   ? from == one && to == other
                : lag == 1 ? to == one
                : lag == 2 ? from == one
                           : rng_once_in(&sim->rng, 3);
  }
}

void sim_net_slow(struct node *node, uint32_t uid) {
  struct sim_end *end = sim_net_end(node, uid);
  if (!end) return;
  node->sim->net.strategy = SIM_LAG;
  sim_net_other(end)->slow = true;
}

/* With losses a member may hear of a view late, and not know who sends: the network keeps the
 * connection until then. */
static bool is_early(const struct sim_end *end) {
  const struct node *node = end->node, *from = sim_net_other(end)->node;
  uint32_t uid = sim_uid(node->sim, end->id);
  return node->sim->opt.crashes && uid && !sim_conn(end)->self && node->alive && from->alive &&
         !node->knows[uid] && !node->fenced[uid] && !end->closed;
}

/* False if the process is stopped, or if others would know its uid sooner than itself. */
static bool moves(const struct sim_end *end) {
  const struct node *node = end->node;
  return !end->cut && !is_early(end) && !node_frozen(node) &&
         (node->uid || end->id >= DMI_NET_TEMP || !node->alive);
}

/* Any line whose process is not stopped; NULL: none. */
static struct sim_end *any(struct sim *sim) {
  struct sim_net *net = &sim->net;
  uint32_t start = net->busy_num ? rng_below(&sim->rng, net->busy_num) : 0;
  for (uint32_t i = 0; i < net->busy_num; i++) {
    struct sim_end *end = sim_line(sim, net->busy[(start + i) % net->busy_num]);
    if (moves(end)) return end;
  }
  return NULL;
}

static struct sim_end *choose(struct sim *sim) {
  struct sim_net *net = &sim->net;
  struct sim_end *best = any(sim), *end;
  if (!best) return NULL;
  switch (net->strategy) {
    case SIM_PRIO:
      if (rng_once_in(&sim->rng, 25)) best->prio = (uint32_t)rng_next(&sim->rng);
      for (uint32_t i = 0; i < net->busy_num; i++) {
        end = sim_line(sim, net->busy[i]);
        if (end->prio > best->prio && moves(end)) best = end;
      }
      return best;
    case SIM_LAG:
      for (uint32_t i = 0; i < net->busy_num && best->slow; i++) {
        end = sim_line(sim, net->busy[i]);
        if (moves(end)) best = end;
      }
      return best;
    case SIM_BURST:
      end = sim_line(sim, net->burst_line);
      if (net->burst > 0 && end->busy && moves(end)) {
        net->burst--;
        return end;
      }
      net->burst = rng_below(&sim->rng, 12);
      net->burst_line = best->line;
      return best;
    case SIM_UNIFORM:
    case SIM_STRATEGIES:
      break;
  }
  return best;
}

bool sim_net_step(struct sim *sim) {
  struct sim_end *end = choose(sim);
  if (!end) return false;
  line_step(end);
  return true;
}

void sim_net_init(struct sim *sim) {
  sim->net.next_temp = DMI_NET_TEMP;
  sim_net_retune(sim);
}

void sim_net_fini(struct sim *sim) {
  for (uint16_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, i);
    sim_queue_drop(sim, &end->queue);
    sim_queue_drop(sim, &end->bulk);
    free(end->queue.msg);
    free(end->bulk.msg);
  }
}
