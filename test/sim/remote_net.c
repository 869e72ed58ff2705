/*
 * remote_net.c - messages: from one process to another in order, otherwise at any time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "remote_sim.h"

/* ---- Channels ------------------------------------------------------------------------------- */

struct msg *net_new(enum kind kind, dmi_remote_client_t client) {
  struct msg *msg = dmi_xalloc(1, sizeof(*msg));
  msg->kind = kind;
  msg->client = client;
  return msg;
}

void net_free(struct msg *msg) {
  if (msg->kind == M_CALL) {
    free(msg->call.inputs);
    free(msg->call.outputs);
  }
  dmi_remote_why_release(msg->result.why);
  free(msg->results);
  free(msg);
}

static void set_busy(struct world *world, struct channel *channel) {
  if (channel->place) return;
  DMI_XALLOC_GROW(world->busy, world->busy_num, world->busy_capacity);
  world->busy[world->busy_num++] = channel;
  channel->place = world->busy_num;
}

static void set_idle(struct world *world, struct channel *channel) {
  struct channel *last = world->busy[--world->busy_num];
  world->busy[channel->place - 1] = last;
  last->place = channel->place;
  channel->place = 0;
}

void net_send(struct world *world, dmi_uid_t from, dmi_uid_t to, struct msg *msg) {
  struct channel *channel = &world->channel[from][to];
  if (to == 0 || to > world->last_uid || world->process[to].state == P_GONE ||
      world->process[to].state == P_NONE) {
    net_free(msg);
    return;
  }
  if (!channel->first) channel->last = &channel->first;
  *channel->last = msg;
  channel->last = &msg->next;
  set_busy(world, channel);
}

void net_send_all(struct world *world, dmi_uid_t from, const struct msg *msg) {
  for (dmi_uid_t to = 1; to <= world->last_uid; to++) {
    struct msg *copy = net_new(msg->kind, msg->client);
    copy->server = msg->server;
    net_send(world, from, to, copy);
  }
}

static struct msg *take(struct world *world, struct channel *channel) {
  struct msg *msg = channel->first;
  channel->first = msg->next;
  msg->next = NULL;
  if (!channel->first) set_idle(world, channel);
  return msg;
}

void net_free_channel(struct world *world, struct channel *channel) {
  while (channel->first)
    net_free(take(world, channel));
}

void net_cut(struct world *world, dmi_uid_t from, enum kind end, bool all) {
  for (dmi_uid_t to = 1; to <= world->last_uid; to++) {
    struct channel *channel = &world->channel[from][to];
    struct msg **at = &channel->first, *msg;
    bool cut = !all && rng_below(&world->rng, 2);
    net_free_channel(world, &world->channel[to][from]);
    if (to == from || world->process[to].state == P_GONE) continue;
    while (*at && !(cut && rng_once_in(&world->rng, 4)))
      at = &(*at)->next;
    for (struct msg *next; (msg = *at) != NULL;) {
      next = msg->next;
      net_free(msg);
      *at = next;
    }
    if (channel->place && !channel->first) set_idle(world, channel);
    channel->last = at;
    msg = net_new(end, (dmi_remote_client_t){0, 0});
    msg->server.uid = from;
    if (!channel->first) channel->last = &channel->first;
    *channel->last = msg;
    channel->last = &msg->next;
    set_busy(world, channel);
  }
}

/* ---- Arrival -------------------------------------------------------------------------------- */

static bool to_pool(struct dmi_remote_pool *pool, const struct msg *msg) {
  switch (msg->kind) {
    case M_CALL:
      return dmi_remote_pool_call(pool, &msg->call);
    case M_WANT:
      return dmi_remote_pool_want(pool, msg->client, msg->number, msg->reader, msg->seq);
    case M_HAVE:
      return dmi_remote_pool_have(pool, msg->client, msg->number, msg->gen, msg->seq, &msg->result,
                                  msg->carries ? msg->bytes : NULL);
    case M_DROP:
      return dmi_remote_pool_drop(pool, msg->client, msg->number, msg->lost);
    case M_STEAL:
      return dmi_remote_pool_steal(pool, msg->client, msg->num, msg->rate);
    default:
      dmi_remote_pool_close(pool, msg->client);
      return true;
  }
}

static bool to_book(struct dmi_remote_book *book, dmi_uid_t from, const struct msg *msg) {
  switch (msg->kind) {
    case M_DONE:
      return msg->result.why
                 ? dmi_remote_book_failed(book, from, msg->number, msg->result.why)
                 : dmi_remote_book_done(book, from, msg->number, msg->results, msg->num, msg->took);
    case M_STOLEN:
      return dmi_remote_book_stolen(book, from);
    case M_FIRED:
      return dmi_remote_book_fired(book, from, msg->number);
    case M_LOAD:
      dmi_remote_book_load(book, from, &msg->load);
      return true;
    default:
      return dmi_remote_book_returned(book, from, msg->number, msg->seq, msg->result.addr);
  }
}

/* What a process hears of another one, and tells its clients. */
static void about_server(struct world *world, struct process *process, const struct msg *msg) {
  dmi_uid_t uid = msg->server.uid;
  if (msg->kind == M_SERVES) process->heard[uid] = msg->server;
  if (msg->kind == M_LEAVES) process->leaving[uid] = true;
  if (msg->kind == M_LEFT || msg->kind == M_LOST) {
    process->heard[uid].uid = 0;
    dmi_remote_pool_gone(process->pool, uid);
    proc_act(world, process);
  }
  for (struct program *program = world->programs; program; program = program->next) {
    if (program->id.process != process->uid) continue;
    if (msg->kind == M_SERVES) dmi_remote_book_serves(program->book, &msg->server);
    if (msg->kind == M_LEAVES) dmi_remote_book_leaves(program->book, uid);
    if (msg->kind == M_LEFT) dmi_remote_book_left(program->book, uid);
    if (msg->kind == M_LOST) dmi_remote_book_lost(program->book, uid);
    prog_act(world, program);
  }
}

static void deliver(struct world *world, dmi_uid_t from, struct process *to, struct msg *msg) {
  struct program *program;
  static const char *const kinds[] = {"CALL",  "WANT",   "HAVE",   "DROP",   "STEAL",
                                      "CLOSE", "DONE",   "RETURN", "STOLEN", "FIRED",
                                      "LOAD",  "SERVES", "LEAVES", "LEFT",   "LOST"};
  sim_say(world, "%u > %u: %s client %u.%u number %llu seq %llu gen %u addr %llx%s\n", from,
          to->uid, kinds[msg->kind], msg->client.process, msg->client.n,
          (unsigned long long)msg->number,
          (unsigned long long)(msg->kind == M_CALL ? msg->call.seq : msg->seq),
          msg->kind == M_CALL ? msg->call.gen : msg->gen, (unsigned long long)msg->result.addr,
          msg->lost ? " lost" : "");
  world->totals->messages++;
  if (msg->kind >= M_SERVES) {
    about_server(world, to, msg);
  } else if (msg->kind < M_DONE) {
    if (!to_pool(to->pool, msg))
      sim_wrong(world, "pool %u refuses message %d of number %llu from %u", to->uid, msg->kind,
                (unsigned long long)msg->number, from);
    proc_act(world, to);
  } else if ((program = prog_find(world, msg->client)) != NULL) {
    if (msg->kind == M_RETURN && msg->reason == DMI_REMOTE_LEAVES)
      about_server(world, to, &(struct msg){.kind = M_LEAVES, .server = {.uid = from}});
    if (!to_book(program->book, from, msg))
      sim_wrong(world, "the book refuses message %d of number %llu from %u", msg->kind,
                (unsigned long long)msg->number, from);
    prog_act(world, program);
    if (msg->kind == M_LOAD) prog_check_steal(world, program);
  }
}

/* Any of those that have something; one process is slow for long, to or from the others. */
static struct channel *choose(struct world *world) {
  struct channel *channel = NULL;
  if (rng_once_in(&world->rng, 500)) {
    world->slow[0] = rng_below(&world->rng, world->last_uid + 1);
    world->slow[1] = rng_below(&world->rng, world->last_uid + 1);
  }
  for (int tries = 0; tries < 20; tries++) {
    size_t at;
    channel = world->busy[rng_below(&world->rng, (uint32_t)world->busy_num)];
    at = (size_t)(channel - &world->channel[0][0]);
    if ((at / PROCESSES != world->slow[0] && world->slow[0]) ||
        (at % PROCESSES != world->slow[1] && world->slow[1]) || at / PROCESSES == at % PROCESSES)
      return channel;
  }
  return channel;
}

void net_deliver(struct world *world) {
  struct channel *channel = choose(world);
  size_t at = (size_t)(channel - &world->channel[0][0]);
  struct msg *msg = take(world, channel);
  struct process *to = &world->process[at % PROCESSES];
  if (to->state != P_GONE) deliver(world, (dmi_uid_t)(at / PROCESSES), to, msg);
  net_free(msg);
}
