/*
 * node_pack.c - envelopes of the simulated network: messages about pages that arrive one behind the
 * other have packed headers (msg/packed.h), the product's code, and arrive as what these say.
 *
 * An envelope is equal to its messages sent back to back, so it changes nothing in what may arrive
 * when; where one ends depends on what was in the sender's queue, here on a count.  The broken
 * rules show that its parts must come in their order, all of them, each read behind the right one.
 */
#include <string.h>

#include "msg/packed.h"
#include "simulator.h"

/* True every now and then; the other random numbers of a run do not depend on it. */
static bool sometimes(struct sim_end *end) {
  return (++end->packs * UINT32_C(2654435761)) >> 28 == 0;
}

static bool is_packed(const struct sim_queue *queue, uint32_t at) {
  return at < queue->num &&
         dmi_packed_may(queue->msg[(queue->first + at) & (queue->capacity - 1)].type);
}

void sim_pack_break(struct sim_end *end) {
  struct sim *sim = end->node->sim;
  struct sim_queue *queue = &end->queue;
  if (sim->opt.pack_break == SIM_PACK_NOTHING || queue->part || !is_packed(queue, 0)) return;
  if (!is_packed(queue, 1) || !sometimes(end)) return;
  struct dmi_msg *next = &queue->msg[(queue->first + 1) & (queue->capacity - 1)];
  struct dmi_msg msg = *sim_queue_head(queue);
  if (sim->opt.pack_break == SIM_PACK_BEFORE) return; /* see below */
  *sim_queue_head(queue) = *next;
  *next = msg;
  if (sim->opt.pack_break != SIM_PACK_LOST) return;
  msg = sim_queue_take(queue);
  sim_lose_message(sim, &msg);
}

void sim_pack_arrives(struct sim_end *end, struct dmi_msg *msg) {
  struct sim *sim = end->node->sim;
  const bool may = dmi_packed_may(msg->type);
  if (may && end->packing && !sometimes(end)) {
    unsigned char bytes[DMI_PACKED_HEADER];
    struct dmi_packed_before before = end->before;
    struct dmi_msg got;
    const char *wrong;
    size_t size = dmi_packed_put(bytes, msg, &end->before);
    if (sim->opt.pack_break == SIM_PACK_BEFORE)
      dmi_packed_begin(&before, &end->first); /* read behind the first one, not the one before */
    for (size_t have = 0; have < size; have++) {
      if (dmi_packed_get(&got, bytes, have, &before, &wrong) || wrong)
        sim_bad(sim, "a part of a packed header is read as one");
    }
    if (dmi_packed_get(&got, bytes, size, &before, &wrong) != size)
      sim_bad(sim, "a packed %s is not read: %s", dmi_wire_name(msg->type), wrong ? wrong : "?");
    got.list = msg->list;
    got.body = msg->body;
    *msg = got;
    sim->totals->packed++;
  } else if ((end->packing = may)) {
    dmi_packed_begin(&end->before, msg);
    end->first = *msg;
  }
}
