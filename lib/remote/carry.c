/*
 * carry.c - carries out what the machines decide: writes messages, has values fetched and freed,
 * calls run, threads woken.
 *
 * All actions of an event are taken out before the next event is given.  An input that was made
 * here needs no fetch, as whoever runs the call reads it; the pool is told so behind its actions.
 */
#include <stdlib.h>

#include "node/actions.h"
#include "remote/remote_int.h"

/* ---- The pool ------------------------------------------------------------------------------- */

static void send_have(struct dmi_remote *remote, dmi_uid_t to, dmi_remote_client_t client,
                      uint64_t number, uint32_t gen, uint64_t seq,
                      const struct dmi_remote_result *result, const void *bytes) {
  struct dmi_pack *body = dmi_remote_line(remote, to, DMI_RMT_HAVE);
  dmi_remote_pack_client(body, client);
  dmi_pack_u64(body, number);
  dmi_pack_u32(body, gen);
  dmi_pack_u64(body, seq);
  dmi_remote_pack_result(body, result);
  dmi_pack_bytes(body, bytes, bytes ? result->size : 0);
}

/* What this process has to do, as the client is told. */
static struct dmi_remote_load load_of(const struct dmi_remote *remote, dmi_remote_client_t client) {
  struct dmi_remote_load load = dmi_remote_pool_load(remote->pool, client);
  load.rate = remote->rate.bytes;
  return load;
}

static void send_done(struct dmi_remote *remote, const struct dmi_remote_pool_action *act) {
  const struct dmi_remote_call *call = act->call;
  const struct dmi_remote_load load = load_of(remote, act->client);
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_DONE);
  dmi_remote_pack_client(body, act->client);
  dmi_pack_u64(body, call->number);
  dmi_pack_u64(body, act->took);
  dmi_remote_pack_why(body, act->why);
  if (act->why) {
    dmi_pack_u32(body, 0);
  } else {
    dmi_pack_u32(body, call->output_num);
    for (uint32_t i = 0; i < call->output_num; i++) {
      dmi_pack_u64(body, (uint64_t)call->outputs[i].at.addr);
      dmi_pack_u64(body, call->outputs[i].at.size);
    }
  }
  dmi_remote_pack_load(body, &load);
}

static void send_return(struct dmi_remote *remote, const struct dmi_remote_pool_action *act) {
  const struct dmi_remote_load load = load_of(remote, act->client);
  const bool lost = act->reason == DMI_REMOTE_INPUT_LOST;
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_RETURN);
  char client[DMI_REMOTE_CLIENT_TEXT];
  dmi_emit(&remote->process->stream, call_returned,
           .client = dmi_remote_client_text(act->client, client), .call = act->call->number);
  dmi_remote_pack_client(body, act->client);
  dmi_pack_u64(body, act->call->number);
  dmi_pack_u8(body, (uint8_t)act->reason);
  dmi_pack_u64(body, lost ? act->number : 0);
  dmi_pack_u64(body, lost ? (uint64_t)act->result.addr : 0);
  dmi_remote_pack_load(body, &load);
}

static void send_fired(struct dmi_remote *remote, const struct dmi_remote_pool_action *act) {
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_FIRED);
  dmi_remote_pack_client(body, act->client);
  dmi_pack_u64(body, act->call->number);
}

static void send_stolen(struct dmi_remote *remote, const struct dmi_remote_pool_action *act) {
  const struct dmi_remote_load load = load_of(remote, act->client);
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_STOLEN);
  dmi_remote_pack_client(body, act->client);
  dmi_remote_pack_load(body, &load);
}

/* Inputs that need no reading here, since the last event of the pool. */
struct at_once {
  struct dmi_remote_fetch **fetches;
  uint32_t num, room;
};

static void fetch(struct dmi_remote *remote, struct dmi_remote_fetch *fetch,
                  struct at_once *at_once) {
  struct dmi_remote_reading *reading;
  if (fetch->carried || fetch->here || !fetch->size) {
    fetch->buffer = fetch->carried;
    fetch->carried = NULL;
    DMI_XALLOC_GROW(at_once->fetches, at_once->num, at_once->room);
    at_once->fetches[at_once->num++] = fetch;
    return;
  }
  reading = dmi_xalloc(1, sizeof(*reading));
  reading->fetch = fetch;
  reading->addr = fetch->addr;
  reading->size = (int64_t)fetch->size;
  dmi_remote_reading_begin(remote, reading);
}

static void emptied(struct dmi_process *process, struct dmi_post *post) {
  (void)post;
  dmi_actions_stopped(process, true);
}

/* Nothing runs any more: the leave goes on. */
static void empty(struct dmi_remote *remote) {
  remote->empty = true;
  dmi_remote_stores_trim(remote);
  if (!remote->awaits) return;
  remote->awaits = false;
  remote->post.run = emptied;
  dmi_post(remote->process, &remote->post);
}

static void act(struct dmi_remote *remote, const struct dmi_remote_pool_action *act,
                struct at_once *at_once) {
  char client[DMI_REMOTE_CLIENT_TEXT];
  switch (act->type) {
    case DMI_REMOTE_SEND_HAVE:
      send_have(remote, act->to, act->client, act->number, act->gen, act->seq, &act->result,
                act->bytes);
      break;
    case DMI_REMOTE_SEND_DONE:
      send_done(remote, act);
      break;
    case DMI_REMOTE_SEND_FIRED:
      send_fired(remote, act);
      break;
    case DMI_REMOTE_SEND_RETURN:
      send_return(remote, act);
      break;
    case DMI_REMOTE_SEND_STOLEN:
      send_stolen(remote, act);
      break;
    case DMI_REMOTE_COMPLETE:
      dmi_emit(&remote->process->stream, call_complete,
               .client = dmi_remote_client_text(act->call->client, client),
               .call = act->call->number);
      break;
    case DMI_REMOTE_FETCH:
      fetch(remote, act->fetch, at_once);
      break;
    case DMI_REMOTE_RELEASE:
      if (act->fetch->holder)
        dmi_frame_unref(act->fetch->holder);
      else
        free(act->fetch->buffer);
      act->fetch->buffer = act->fetch->holder = NULL;
      break;
    case DMI_REMOTE_RUN:
      dmi_remote_run_queue(remote, act->run);
      break;
    case DMI_REMOTE_FREE:
      dmi_remote_store_drop(remote, act->client, &act->result, act->retire);
      break;
    case DMI_REMOTE_EMPTY:
      empty(remote);
      break;
  }
}

void dmi_remote_carry(struct dmi_remote *remote) {
  const struct dmi_remote_pool_action *next;
  struct at_once at_once = {NULL, 0, 0};
  for (;;) {
    while ((next = dmi_remote_pool_next(remote->pool)))
      act(remote, next, &at_once);
    if (at_once.num) {
      dmi_remote_pool_fetched(remote->pool, at_once.fetches[--at_once.num], true);
    } else if (!dmi_remote_runs_fail(remote)) {
      break;
    }
  }
  free(at_once.fetches);
}

#define DROP_WEIGHT 1024 /* bytes that a value costs its server beside its own */

/* ---- A book --------------------------------------------------------------------------------- */

/* A server that has calls is heard again, and the DROP may wait until then; but not for memory. */
static void send_drop(struct dmi_remote *remote, const struct dmi_remote_user *user,
                      const struct dmi_remote_book_action *act) {
  struct dmi_pack *body =
      dmi_remote_book_awaits(user->book, act->to)
          ? dmi_remote_line_lazy(remote, act->to, DMI_RMT_DROP, DROP_WEIGHT + act->result.size)
          : dmi_remote_line(remote, act->to, DMI_RMT_DROP);
  dmi_remote_pack_client(body, user->id);
  dmi_pack_u64(body, act->number);
  dmi_pack_u8(body, act->lost);
}

static void send_want(struct dmi_remote *remote, const struct dmi_remote_user *user,
                      const struct dmi_remote_book_action *act) {
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_WANT);
  dmi_remote_pack_client(body, user->id);
  dmi_pack_u64(body, act->number);
  dmi_pack_u32(body, act->reader);
  dmi_pack_u64(body, act->seq);
}

static void send_steal(struct dmi_remote *remote, const struct dmi_remote_user *user,
                       const struct dmi_remote_book_action *act) {
  struct dmi_pack *body = dmi_remote_line(remote, act->to, DMI_RMT_STEAL);
  dmi_remote_pack_client(body, user->id);
  dmi_pack_u32(body, act->num);
  dmi_pack_u64(body, act->rate);
}

static void act_book(struct dmi_remote *remote, struct dmi_remote_user *user,
                     const struct dmi_remote_book_action *act) {
  switch (act->type) {
    case DMI_REMOTE_SEND_CALL:
      dmi_remote_pack_call(dmi_remote_line(remote, act->to, DMI_RMT_CALL), act->call);
      break;
    case DMI_REMOTE_SEND_WANT:
      send_want(remote, user, act);
      break;
    case DMI_REMOTE_TELL_HAVE:
      send_have(remote, act->to, user->id, act->number, act->gen, act->seq, &act->result, NULL);
      break;
    case DMI_REMOTE_SEND_DROP:
      send_drop(remote, user, act);
      break;
    case DMI_REMOTE_SEND_STEAL:
      send_steal(remote, user, act);
      break;
    case DMI_REMOTE_WAKE:
      dmi_remote_wake(user, act->number);
      dmi_remote_readings_wake(remote, user, act->number);
      break;
    case DMI_REMOTE_ROOM:
      dmi_remote_wake(user, 0);
      break;
    case DMI_REMOTE_FREE_PUT:
      dmi_remote_store_drop(remote, user->id, &act->result, false);
      break;
    case DMI_REMOTE_GONE: /* its arena goes with the client */
      break;
  }
}

void dmi_remote_carry_book(struct dmi_remote *remote, struct dmi_remote_user *user) {
  const struct dmi_remote_book_action *next;
  while ((next = dmi_remote_book_next(user->book)))
    act_book(remote, user, next);
  /* The last call may have ended by any event: it was done, or can be placed nowhere. */
  if (user->closing && !dmi_remote_book_counts(user->book).undone) dmi_remote_wake(user, 0);
}
