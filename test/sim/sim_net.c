/*
 * sim_net.c - the virtual network: messages of a pair of processes arrive in order, those of
 * different pairs in any order, and DATA and BLOCKs may be late.
 *
 * Rare races need some channel to be slow for long while others are fast, so the way in which the
 * next channel is chosen changes all the time.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

const char *sim_msg_name(uint32_t type) {
  if (type == SIM_LAST_REQUEST) return "LAST_REQUEST";
  return dmi_wire_name((uint8_t)type);
}

void sim_net_init(struct sim *sim) {
  sim_net_retune(sim);
}

void sim_net_fini(struct sim *sim) {
  for (uint32_t from = 0; from < SIM_ROWS; from++) {
    for (uint32_t to = 0; to < SIM_PROCS; to++) {
      struct sim_chan *chan = &sim->net.chan[from][to];
      while (chan->num) {
        struct dmi_msg *msg = &chan->msg[chan->first];
        dmi_slice_drop(&msg->list);
        dmi_slice_drop(&msg->body);
        dmi_frame_unref(chan->hold[chan->first]);
        chan->first = (chan->first + 1) & (chan->capacity - 1);
        chan->num--;
      }
      free(chan->msg);
      free(chan->hold);
    }
  }
}

void sim_net_retune(struct sim *sim) {
  struct sim_net *net = &sim->net;
  net->strategy = (enum sim_strategy)rng_below(&sim->rng, SIM_STRATEGIES);
  net->burst = 0;
  uint32_t lag = rng_below(&sim->rng, 4), one = rng_below(&sim->rng, SIM_PROCS);
  uint32_t other = rng_below(&sim->rng, SIM_PROCS);
  for (uint32_t from = 0; from < SIM_ROWS; from++) {
    for (uint32_t to = 0; to < SIM_PROCS; to++) {
      struct sim_chan *chan = &net->chan[from][to];
      chan->prio = (uint32_t)rng_next(&sim->rng);
      /* slow is one pair, or all to a process, all from a process, or some */
      chan->slow = lag == 0   ? from % SIM_PROCS == one && to == other
                   : lag == 1 ? to == one
                   : lag == 2 ? from % SIM_PROCS == one
                              : rng_once_in(&sim->rng, 3);
    }
  }
}

/* Makes the ring larger if it is full. */
static void grow(struct sim_chan *chan) {
  uint32_t capacity = chan->capacity ? 2 * chan->capacity : 16;
  struct dmi_msg *msg = malloc(capacity * sizeof(*msg));
  struct dmi_frame **hold = malloc(capacity * sizeof(struct dmi_frame *));
  if (!msg || !hold) abort();
  for (uint32_t i = 0; i < chan->num; i++) {
    msg[i] = chan->msg[(chan->first + i) & (chan->capacity - 1)];
    hold[i] = chan->hold[(chan->first + i) & (chan->capacity - 1)];
  }
  free(chan->msg);
  free(chan->hold);
  chan->msg = msg;
  chan->hold = hold;
  chan->first = 0;
  chan->capacity = capacity;
}

void sim_net_put(struct sim *sim, uint32_t from, uint32_t to, const struct dmi_msg *msg,
                 struct dmi_frame *hold) {
  struct sim_net *net = &sim->net;
  bool bulk = msg->type == DMI_MSG_BLOCK ||
              (msg->type == DMI_MSG_DATA && msg->body.len && rng_once_in(&sim->rng, 2));
  if (bulk) from += SIM_PROCS;
  struct sim_chan *chan = &net->chan[from][to];
  if (chan->num == chan->capacity) grow(chan);
  chan->hold[(chan->first + chan->num) & (chan->capacity - 1)] = hold;
  chan->msg[(chan->first + chan->num++) & (chan->capacity - 1)] = *msg;
  net->in_flight++;
  if (chan->num == 1) {
    chan->place = net->busy_num;
    net->busy[net->busy_num++] = (uint16_t)(from * SIM_PROCS + to);
  }
}

static struct sim_chan *chan_of(struct sim_net *net, uint16_t id) {
  return &net->chan[id / SIM_PROCS][id % SIM_PROCS];
}

static uint16_t any(struct sim *sim) {
  return sim->net.busy[rng_below(&sim->rng, sim->net.busy_num)];
}

static uint16_t choose(struct sim *sim) {
  struct sim_net *net = &sim->net;
  uint16_t best = any(sim);
  switch (net->strategy) {
    case SIM_PRIO:
      if (rng_once_in(&sim->rng, 25)) chan_of(net, best)->prio = (uint32_t)rng_next(&sim->rng);
      for (uint32_t i = 0; i < net->busy_num; i++) {
        if (chan_of(net, net->busy[i])->prio > chan_of(net, best)->prio) best = net->busy[i];
      }
      return best;
    case SIM_LAG:
      for (uint32_t i = 0; i < net->busy_num && chan_of(net, best)->slow; i++)
        best = net->busy[i];
      return best;
    case SIM_BURST:
      if (net->burst > 0 && chan_of(net, net->burst_chan)->num) {
        net->burst--;
        return net->burst_chan;
      }
      net->burst = rng_below(&sim->rng, 12);
      net->burst_chan = best;
      return best;
    case SIM_UNIFORM:
    case SIM_STRATEGIES:
      break;
  }
  return best;
}

bool sim_net_take(struct sim *sim, uint32_t *from, uint32_t *to, struct dmi_msg *msg) {
  struct sim_net *net = &sim->net;
  if (!net->busy_num) return false;
  uint16_t id = choose(sim);
  struct sim_chan *chan = chan_of(net, id);
  *from = id / SIM_PROCS % SIM_PROCS;
  *to = id % SIM_PROCS;
  *msg = chan->msg[chan->first];
  dmi_frame_unref(chan->hold[chan->first]);
  chan->first = (chan->first + 1) & (chan->capacity - 1);
  chan->part = 0;
  net->in_flight--;
  if (--chan->num == 0) {
    uint16_t last = net->busy[--net->busy_num];
    net->busy[chan->place] = last;
    chan_of(net, last)->place = chan->place;
  }
  return true;
}

void sim_net_each(struct sim *sim, uint32_t from, uint32_t to,
                  void (*visit)(struct sim *, const struct dmi_msg *)) {
  for (uint32_t row = 0; row < SIM_ROWS; row++) {
    const struct sim_chan *chan = &sim->net.chan[row][to];
    if (row % SIM_PROCS != from) continue;
    for (uint32_t i = 0; i < chan->num; i++)
      visit(sim, &chan->msg[(chan->first + i) & (chan->capacity - 1)]);
  }
}

void sim_net_cut(struct sim *sim, uint32_t slot, void (*drop)(struct sim *, struct dmi_msg *)) {
  for (uint32_t row = slot; row < SIM_ROWS; row += SIM_PROCS) {
    for (uint32_t to = 0; to < SIM_PROCS; to++) {
      struct sim_chan *chan = &sim->net.chan[row][to];
      if (!sim->proc[to] || !chan->num) continue;
      uint32_t keep = rng_range(&sim->rng, 1, chan->num);
      for (; chan->num > keep; chan->num--) {
        uint32_t last = (chan->first + chan->num - 1) & (chan->capacity - 1);
        drop(sim, &chan->msg[last]);
        dmi_frame_unref(chan->hold[last]);
        sim->net.in_flight--;
      }
    }
  }
}

bool sim_net_part(struct sim *sim, uint32_t *from, uint32_t *to, struct dmi_msg **msg,
                  uint64_t *off, uint64_t *got) {
  struct sim_net *net = &sim->net;
  if (!net->busy_num) return false;
  uint16_t id = any(sim);
  struct sim_chan *chan = chan_of(net, id);
  *msg = &chan->msg[chan->first];
  if ((*msg)->type != DMI_MSG_DATA && (*msg)->type != DMI_MSG_BLOCK) return false;
  if (chan->part + 1 >= (*msg)->body.len) return false;
  *off = chan->part;
  chan->part += rng_range(&sim->rng, 1, (uint32_t)((*msg)->body.len - chan->part - 1));
  *from = id / SIM_PROCS % SIM_PROCS;
  *to = id % SIM_PROCS;
  *got = chan->part;
  return true;
}

/* True if nothing is in flight from or to this process. */
bool sim_net_idle(const struct sim *sim, uint32_t slot) {
  for (uint32_t other = 0; other < SIM_PROCS; other++) {
    for (uint32_t row = 0; row < SIM_ROWS; row += SIM_PROCS) {
      if (sim->net.chan[row + slot][other].num || sim->net.chan[row + other][slot].num)
        return false;
    }
  }
  return true;
}

static bool silent(const struct sim_chan *chan) {
  for (uint32_t i = 0; i < chan->num; i++) {
    uint8_t type = chan->msg[(chan->first + i) & (chan->capacity - 1)].type;
    if (dmi_wire_type(type)->class == DMI_CLASS_CAPACITY) return false;
  }
  return true;
}

bool sim_net_silent(const struct sim *sim, uint32_t slot, uint32_t other) {
  return silent(&sim->net.chan[slot][other]) && silent(&sim->net.chan[other][slot]);
}
