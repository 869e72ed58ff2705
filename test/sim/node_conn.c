/*
 * node_conn.c - the simulated network: connections between virtual nodes, and sending.
 *
 * A process knows another by its uid, or by a temporary id until the connection is renamed.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

/* ---- Queues --------------------------------------------------------------------------------- */

static void put(struct sim_queue *queue, const struct dmi_msg *msg) {
  if (queue->num == queue->capacity) {
    uint32_t capacity = queue->capacity ? 2 * queue->capacity : 8;
    struct dmi_msg *more = malloc(capacity * sizeof(*more));
    if (!more) abort();
    for (uint32_t i = 0; i < queue->num; i++)
      more[i] = queue->msg[(queue->first + i) & (queue->capacity - 1)];
    free(queue->msg);
    queue->msg = more;
    queue->first = 0;
    queue->capacity = capacity;
  }
  queue->msg[(queue->first + queue->num++) & (queue->capacity - 1)] = *msg;
}

struct dmi_msg *sim_queue_head(const struct sim_queue *queue) {
  return &queue->msg[queue->first];
}

struct dmi_msg sim_queue_take(struct sim_queue *queue) {
  struct dmi_msg msg = *sim_queue_head(queue);
  queue->first = (queue->first + 1) & (queue->capacity - 1);
  queue->num--;
  queue->part = 0;
  return msg;
}

/* Drops a message that arrives nowhere. */
static void drop(struct sim *sim, struct dmi_msg *msg) {
  sim_lose_message(sim, msg);
}

void sim_queue_drop(struct sim *sim, struct sim_queue *queue) {
  while (queue->num) {
    struct dmi_msg msg = sim_queue_take(queue);
    drop(sim, &msg);
  }
}

/* Drops the GRANTs of a queue. */
static void drop_grants(struct sim *sim, struct sim_queue *queue) {
  uint64_t part = queue->part;
  for (uint32_t num = queue->num; num; num--) {
    struct dmi_msg msg = sim_queue_take(queue);
    if (msg.type == DMI_MSG_GRANT) {
      drop(sim, &msg);
    } else {
      put(queue, &msg);
    }
  }
  queue->part = part; /* of a DATA */
}

/* ---- Lines: messages in flight to one end --------------------------------------------------- */

struct sim_end *sim_line(struct sim *sim, uint16_t line) {
  return &sim->net.conn[line / 2].end[line % 2];
}

struct sim_conn *sim_conn(const struct sim_end *end) {
  return &end->node->sim->net.conn[end->line / 2];
}

struct sim_end *sim_net_other(const struct sim_end *end) {
  return &sim_conn(end)->end[1 - end->line % 2];
}

/* Adds the line to the list of those with messages in flight, or takes it out. */
void sim_line_look(struct sim *sim, struct sim_end *end) {
  struct sim_net *net = &sim->net;
  struct sim_conn *conn = sim_conn(end);
  bool ends = !conn->self && sim_net_other(end)->closed && !end->dead;
  bool busy = end->queue.num || end->bulk.num || ends;
  if (busy == end->busy) return;
  end->busy = busy;
  if (busy) {
    end->place = net->busy_num;
    net->busy[net->busy_num++] = end->line;
    return;
  }
  uint16_t last = net->busy[--net->busy_num];
  net->busy[end->place] = last;
  sim_line(sim, last)->place = end->place;
}

/* Frees the connection if both directions have ended. */
void sim_conn_look(struct sim *sim, struct sim_conn *conn) {
  for (int e = 0; e < 2; e++) {
    struct sim_end *end = &conn->end[e];
    if (!(end->closed || end->dead) || end->queue.num || end->bulk.num) return;
  }
  for (int e = 0; e < 2; e++) {
    conn->end[e].dead = true;
    sim_line_look(sim, &conn->end[e]);
  }
  conn->used = false;
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void tune(struct sim *sim, struct sim_end *end) {
  end->prio = (uint32_t)rng_next(&sim->rng);
  end->slow = rng_once_in(&sim->rng, 4);
  end->late = rng_once_in(&sim->rng, 4);
}

static struct sim_conn *new_conn(struct sim *sim) {
  for (uint16_t i = 0; i < SIM_CONNS; i++) {
    struct sim_conn *conn = &sim->net.conn[i];
    if (conn->used) continue;
    for (uint16_t e = 0; e < 2; e++) {
      struct sim_queue queue = conn->end[e].queue, bulk = conn->end[e].bulk;
      memset(&conn->end[e], 0, sizeof(conn->end[e]));
      conn->end[e].queue = queue; /* their memory is used again */
      conn->end[e].bulk = bulk;
      conn->end[e].line = (uint16_t)(2 * i + e);
      tune(sim, &conn->end[e]);
    }
    conn->used = true;
    conn->self = false;
    return conn;
  }
  fprintf(stderr, "too many connections\n");
  abort();
}

static void set_id(struct sim_end *end, uint32_t id) {
  end->id = id;
  if (id < DMI_NET_TEMP)
    end->node->conn_of[sim_uid(end->node->sim, id)] = (uint16_t)(1 + end->line);
}

struct sim_conn *sim_net_connect(struct node *from, struct node *to, uint32_t id_from,
                                 uint32_t id_to) {
  struct sim_conn *conn = new_conn(from->sim);
  conn->end[0].node = from;
  conn->end[1].node = to;
  set_id(&conn->end[0], id_from);
  set_id(&conn->end[1], id_to);
  sim_cut_look(&conn->end[0]);
  sim_cut_look(&conn->end[1]);
  return conn;
}

struct sim_end *sim_net_end(const struct node *node, uint32_t id) {
  struct sim *sim = node->sim;
  if (id < DMI_NET_TEMP) {
    uint16_t at = node->conn_of[sim_uid(sim, id)];
    struct sim_end *end = at ? sim_line(sim, (uint16_t)(at - 1)) : NULL;
    return end && sim->net.conn[end->line / 2].used && end->node == node && end->id == id &&
                   !end->dead
               ? end
               : NULL;
  }
  for (uint16_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, i);
    if (sim->net.conn[i / 2].used && !sim->net.conn[i / 2].self && end->node == node &&
        end->id == id && !end->dead)
      return end;
  }
  return NULL;
}

void sim_net_rename(struct node *node, uint32_t temp, uint32_t uid) {
  struct sim_end *end = sim_net_end(node, temp);
  node->knows[sim_uid(node->sim, uid)] = true;
  if (end) set_id(end, uid); /* else it broke meanwhile, and the network reports that */
}

void sim_net_close(struct sim_end *end) {
  end->closed = true;
  sim_line_look(end->node->sim, sim_net_other(end));
  sim_conn_look(end->node->sim, sim_conn(end));
}

struct dmi_addr sim_addr_of(const struct node *node, const struct node *seen_from) {
  struct dmi_addr addr = {{0}, (uint16_t)(1000 + node->num)};
  addr.ip[10] = addr.ip[11] = 0xff;
  if (node->host == seen_from->host) {
    addr.ip[12] = 127;
    addr.ip[15] = 1;
  } else {
    addr.ip[12] = 10;
    addr.ip[15] = (uint8_t)(node->host + 1);
  }
  return addr;
}

struct node *sim_node_at(const struct node *from, const struct dmi_addr *addr) {
  struct sim *sim = from->sim;
  uint32_t num = addr->port - 1000u;
  uint32_t host = addr->ip[12] == 127 ? from->host : addr->ip[15] - 1u;
  if (num < sim->nodes && sim->all[num]->host == host) return sim->all[num];
  sim_bad(sim, "process %u connects to %u.x.x.%u port %u, where nobody ever was", from->num,
          addr->ip[12], addr->ip[15], addr->port);
  return NULL;
}

/* Connects to a uid whose address is known; a joiner may not know its own uid yet. */
static struct sim_end *dial(struct node *node, uint32_t uid) {
  struct sim *sim = node->sim;
  for (uint32_t i = 0; i < node->addrs.num; i++) {
    struct node *to;
    struct sim_conn *conn;
    if (node->addrs.at[i].uid != uid) continue;
    to = sim_node_at(node, &node->addrs.at[i].addr);
    if (!to) return NULL;
    if (to->uid && to->uid != uid)
      sim_bad(sim, "p%u reaches the wrong process for p%u", node->uid, uid);
    conn = sim_net_connect(node, to, uid, node->uid);
    if (!to->alive) {
      if (!to->killed && !to->over && to->uid)
        sim_bad(sim, "p%u connects to p%u, which has ended", node->uid, uid);
      conn->end[1].closed = conn->end[1].dead = true;
      sim_line_look(sim, &conn->end[0]);
    }
    return &conn->end[0];
  }
  sim_bad(sim, "p%u has no address for p%u", node->uid, uid);
  return NULL;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static bool is_answer(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_GOT || msg->type == DMI_MSG_DONE || msg->type == DMI_MSG_FAIL;
}

/* Copies borrowed bytes: they may change as soon as this returns. */
static void own_bytes(struct dmi_msg *msg) {
  if (msg->body.len && !msg->body.frame) msg->body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  if (msg->list.len && !msg->list.frame) msg->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
}

static void append(struct sim *sim, struct sim_end *to, struct dmi_msg *msg) {
  bool bulk = msg->type == DMI_MSG_BLOCK ||
              (msg->type == DMI_MSG_DATA && msg->body.len && rng_once_in(&sim->rng, 2));
  own_bytes(msg);
  put(bulk && !sim_conn(to)->self ? &to->bulk : &to->queue, msg);
  sim_line_look(sim, to);
}

/* True if others wait for this message. */
static bool for_others(const struct node *node, const struct dmi_msg *msg) {
  if (!dmi_wire_about_page(msg->type)) return msg->type == SIM_CREATED;
  return msg->origin != node->uid;
}

bool sim_net_send(struct node *node, uint32_t to, struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  struct sim_end *end = sim_net_end(node, to);
  struct node *other = sim_by_uid(sim, to);
  uint32_t uid = sim_uid(sim, to); /* 0: a temporary id */
  bool page = dmi_wire_about_page(msg->type);
  if (node->fenced[uid]) {
    drop(sim, msg);
    return true;
  }
  if (end && (end->closed || (node->barred[uid] && uid && node->by_thread && !is_answer(msg)))) {
    if (end->closed && !page && !(other && other->killed) && msg->type < SIM_CREATE)
      sim_bad(sim, "p%u sends %s to %u after closing", node->uid, dmi_wire_name(msg->type), to);
    return false;
  }
  if (!end && other && node->barred[uid] && node->by_thread && !is_answer(msg)) return false;
  if (!end) {
    if (!uid || !node->knows[uid] || node->lost[uid]) {
      drop(sim, msg); /* lost or unknown: dropped */
      return true;
    }
    end = dial(node, to);
    if (!end) return false;
  }
  if (end->last && for_others(node, msg))
    sim_bad(sim, "p%u forwards %s to p%u after LAST_MESSAGE", node->uid, dmi_wire_name(msg->type),
            to);
  if (msg->type == DMI_CTL_LAST_MESSAGE) end->last = true;
  append(sim, sim_net_other(end), msg);
  return true;
}

void sim_net_self(struct node *node, struct dmi_msg *msg) {
  if (!node->self_conn) {
    node->self_conn = new_conn(node->sim);
    node->self_conn->self = true;
    node->self_conn->end[0].node = node->self_conn->end[1].node = node;
  }
  append(node->sim, &node->self_conn->end[0], msg);
}

/* The process is lost, and may still run: what is in flight to it is granted to nobody. */
void sim_net_ungrant(struct node *node) {
  struct sim *sim = node->sim;
  for (uint32_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, (uint16_t)i);
    if (!sim->net.conn[i / 2].used || end->node != node) continue;
    drop_grants(sim, &end->queue);
    sim_line_look(sim, end);
  }
}

/* ---- The end of a process ------------------------------------------------------------------- */

/* The answer to an operation that nobody waits for any more. */
static bool is_for_nobody(const struct node *node, const struct dmi_msg *msg) {
  bool any = false;
  for (uint32_t t = 0; t <= SIM_THREADS; t++)
    any |= node->thread[t].out && node->thread[t].given_up;
  return any && (msg->type == DMI_MSG_DONE || msg->type == DMI_MSG_FAIL);
}

/* Drops what is in flight to a process that has ended; none of it may matter. */
static void nobody_takes(struct sim *sim, struct node *node, struct sim_end *end) {
  struct node *other = sim_net_other(end)->node;
  const struct sim_queue *queue = &end->queue;
  bool good = node->killed || node->over || !node->uid || end->id >= DMI_NET_TEMP;
  for (uint32_t i = 0; i < queue->num && !good && !node_is_removed(other); i++) {
    const struct dmi_msg *msg = &queue->msg[(queue->first + i) & (queue->capacity - 1)];
    if (!is_for_nobody(node, msg))
      sim_bad(sim, "p%u has ended, and %s from p%u is in flight to it", node->uid,
              dmi_wire_name(msg->type), end->id);
  }
  end->closed = end->dead = true;
  sim_queue_drop(sim, &end->queue);
  sim_queue_drop(sim, &end->bulk);
  sim_line_look(sim, end);
}

void sim_net_leave(struct node *node, bool killed) {
  struct sim *sim = node->sim;
  for (uint32_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, (uint16_t)i), *other;
    struct sim_conn *conn = &sim->net.conn[i / 2];
    if (!conn->used || end->node != node) continue;
    if (conn->self) {
      sim_queue_drop(sim, &end->queue);
      sim_line_look(sim, end);
      conn->used = false;
      continue;
    }
    nobody_takes(sim, node, end);
    other = sim_net_other(end);
    while (killed && other->queue.num && rng_once_in(&sim->rng, 2)) {
      other->queue.num--; /* some of its last messages do not arrive */
      drop(
          sim,
          &other->queue.msg[(other->queue.first + other->queue.num) & (other->queue.capacity - 1)]);
    }
    sim_line_look(sim, other);
    sim_conn_look(sim, conn);
  }
  node->self_conn = NULL;
}
