/*
 * message.c - the messages of class REMOTE: how calls, results and the like are written, and what
 * is done when they come (docs/remote.md, "Messages").
 *
 * Whatever is about a client or a value that is not known here any more is passed over: it was
 * closed, or dropped, while the message was on its way.
 */
#include <stdlib.h>

#include "base/futex.h"
#include "remote/remote_int.h"

/* ---- Writing -------------------------------------------------------------------------------- */

void dmi_remote_pack_client(struct dmi_pack *body, dmi_remote_client_t client) {
  dmi_pack_u32(body, client.process);
  dmi_pack_u32(body, client.n);
}

static void pack_text(struct dmi_pack *body, const char *text) {
  char part[DMI_TEXT_SIZE];
  snprintf(part, sizeof(part), "%s", text);
  dmi_pack_text(body, part);
}

void dmi_remote_pack_why(struct dmi_pack *body, const struct dmi_remote_why *why) {
  dmi_pack_u8(body, why != NULL);
  if (!why) return;
  dmi_pack_u32(body, (uint32_t)why->error);
  pack_text(body, why->function);
  pack_text(body, why->host);
  pack_text(body, why->sentence);
}

void dmi_remote_pack_result(struct dmi_pack *body, const struct dmi_remote_result *result) {
  dmi_pack_u8(body, (uint8_t)result->state);
  if (result->state == DMI_REMOTE_FAILED) {
    dmi_remote_pack_why(body, result->why);
    return;
  }
  if (result->state == DMI_REMOTE_DONE) dmi_pack_u64(body, (uint64_t)result->addr);
  dmi_pack_u64(body, result->size);
}

void dmi_remote_pack_call(struct dmi_pack *body, const struct dmi_remote_call *call) {
  dmi_remote_pack_client(body, call->client);
  dmi_pack_u64(body, call->number);
  dmi_pack_u64(body, call->seq);
  dmi_pack_u32(body, call->gen);
  dmi_pack_u32(body, call->flags);
  dmi_pack_u32(body, call->input_num);
  for (uint32_t i = 0; i < call->input_num; i++) {
    dmi_pack_u64(body, call->inputs[i].number);
    dmi_pack_u32(body, call->inputs[i].gen);
    dmi_remote_pack_result(body, &call->inputs[i].at);
    dmi_pack_u8(body, call->inputs[i].last);
  }
  dmi_pack_u32(body, call->output_num);
  for (uint32_t i = 0; i < call->output_num; i++) {
    dmi_pack_u64(body, call->outputs[i].number);
    dmi_pack_u64(body, call->outputs[i].at.size);
    dmi_pack_u8(body, call->outputs[i].spare);
  }
  dmi_pack_bytes(body, call->args, call->arg_size);
}

void dmi_remote_pack_load(struct dmi_pack *body, const struct dmi_remote_load *load) {
  dmi_pack_u32(body, load->ready);
  dmi_pack_u32(body, load->foreign);
  dmi_pack_u64(body, load->rate);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static dmi_remote_client_t unpack_client(struct dmi_unpack *body) {
  dmi_remote_client_t client;
  client.process = dmi_unpack_u32(body);
  client.n = dmi_unpack_u32(body);
  return client;
}

/* NULL: there is none, or it is bad. */
static struct dmi_remote_why *unpack_why(struct dmi_unpack *body) {
  char function[DMI_TEXT_SIZE], host[DMI_TEXT_SIZE], sentence[DMI_TEXT_SIZE];
  int32_t error;
  if (!dmi_unpack_u8(body)) return NULL;
  error = (int32_t)dmi_unpack_u32(body);
  dmi_unpack_text(body, function);
  dmi_unpack_text(body, host);
  dmi_unpack_text(body, sentence);
  if (body->bad || error <= 0 || DMI_WITHOUT_WHY(error) != error) return NULL;
  return dmi_remote_why_new(error, function, host, sentence);
}

/* False: bad; then there is no `why` to be released. */
static bool unpack_result(struct dmi_unpack *body, struct dmi_remote_result *result) {
  *result = (struct dmi_remote_result){.state = (enum dmi_remote_state)dmi_unpack_u8(body)};
  if (result->state > DMI_REMOTE_FAILED) return false;
  if (result->state == DMI_REMOTE_FAILED) return (result->why = unpack_why(body)) != NULL;
  if (result->state == DMI_REMOTE_DONE) result->addr = (int64_t)dmi_unpack_u64(body);
  result->size = dmi_unpack_u64(body);
  return !body->bad;
}

static struct dmi_remote_load unpack_load(struct dmi_unpack *body) {
  struct dmi_remote_load load;
  load.ready = dmi_unpack_u32(body);
  load.foreign = dmi_unpack_u32(body);
  load.rate = dmi_unpack_u64(body);
  return load;
}

#define INPUT_BYTES 22  /* of an input in a CALL, at least */
#define OUTPUT_BYTES 16 /* of an output, at least */

/* The rest of a CALL.  False: bad. */
static bool unpack_values(struct dmi_unpack *body, struct dmi_remote_call *call) {
  size_t size;
  call->input_num = dmi_unpack_count(body, INPUT_BYTES);
  if (call->input_num) call->inputs = dmi_xalloc(call->input_num, sizeof(*call->inputs));
  for (uint32_t i = 0; i < call->input_num; i++) {
    call->inputs[i].number = dmi_unpack_u64(body);
    call->inputs[i].gen = dmi_unpack_u32(body);
    if (!unpack_result(body, &call->inputs[i].at)) return false;
    call->inputs[i].last = dmi_unpack_u8(body) != 0;
  }
  call->output_num = dmi_unpack_count(body, OUTPUT_BYTES);
  if (call->output_num) call->outputs = dmi_xalloc(call->output_num, sizeof(*call->outputs));
  for (uint32_t i = 0; i < call->output_num; i++) {
    call->outputs[i].number = dmi_unpack_u64(body);
    call->outputs[i].at.state = DMI_REMOTE_PENDING;
    call->outputs[i].at.size = dmi_unpack_u64(body);
    call->outputs[i].spare = dmi_unpack_u8(body) != 0;
  }
  call->args = dmi_unpack_bytes(body, &size);
  call->arg_size = size;
  return !body->bad;
}

static void call_free(struct dmi_remote_call *call) {
  for (uint32_t i = 0; call->inputs && i < call->input_num; i++)
    dmi_remote_why_release(call->inputs[i].at.why);
  free(call->inputs);
  free(call->outputs);
}

/* ---- For the pool --------------------------------------------------------------------------- */

bool dmi_remote_on_call(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_call call = {.client = unpack_client(body)};
  bool good;
  call.number = dmi_unpack_u64(body);
  call.seq = dmi_unpack_u64(body);
  call.gen = dmi_unpack_u32(body);
  call.flags = dmi_unpack_u32(body);
  good = unpack_values(body, &call) && call.client.process == from && remote->pool &&
         dmi_remote_begin_locked(remote);
  if (good) {
    char name[DMI_REMOTE_CLIENT_TEXT], function[DMI_REMOTE_NAME_TEXT];
    dmi_emit(&remote->process->stream, call_queued,
             .client = dmi_remote_client_text(call.client, name), .call = call.number,
             .function = dmi_remote_name_text(&call, function));
    good = dmi_remote_pool_call(remote->pool, &call);
    dmi_remote_carry(remote);
  }
  call_free(&call);
  return good;
}

bool dmi_remote_on_want(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  dmi_remote_client_t client = unpack_client(body);
  uint64_t number = dmi_unpack_u64(body);
  uint32_t to = dmi_unpack_u32(body);
  uint64_t seq = dmi_unpack_u64(body);
  bool good;
  if (body->bad || client.process != from || !remote->pool) return false;
  good = dmi_remote_pool_want(remote->pool, client, number, to, seq);
  dmi_remote_carry(remote);
  return good;
}

bool dmi_remote_on_have(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_result result;
  dmi_remote_client_t client = unpack_client(body);
  uint64_t number = dmi_unpack_u64(body);
  uint32_t gen = dmi_unpack_u32(body);
  uint64_t seq = dmi_unpack_u64(body);
  const uint8_t *bytes;
  size_t size;
  bool good;
  (void)from;
  if (!unpack_result(body, &result)) return false;
  bytes = dmi_unpack_bytes(body, &size);
  good = !body->bad && remote->pool && result.state != DMI_REMOTE_PENDING &&
         (!size || (result.state == DMI_REMOTE_DONE && size == result.size)) &&
         dmi_remote_pool_have(remote->pool, client, number, gen, seq, &result, size ? bytes : NULL);
  dmi_remote_why_release(result.why);
  if (good) dmi_remote_carry(remote);
  return good;
}

bool dmi_remote_on_drop(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  dmi_remote_client_t client = unpack_client(body);
  uint64_t number = dmi_unpack_u64(body);
  bool lost = dmi_unpack_u8(body) != 0, good;
  if (body->bad || client.process != from || !remote->pool) return false;
  good = dmi_remote_pool_drop(remote->pool, client, number, lost);
  dmi_remote_carry(remote);
  return good;
}

bool dmi_remote_on_steal(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  dmi_remote_client_t client = unpack_client(body);
  uint32_t num = dmi_unpack_u32(body);
  uint64_t rate = dmi_unpack_u64(body);
  bool good;
  if (body->bad || client.process != from || !remote->pool) return false;
  good = dmi_remote_pool_steal(remote->pool, client, num, rate);
  dmi_remote_carry(remote);
  return good;
}

bool dmi_remote_on_close(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  dmi_remote_client_t client = unpack_client(body);
  if (body->bad || client.process != from) return false;
  if (!remote->pool) return true;
  dmi_remote_pool_close(remote->pool, client);
  dmi_remote_carry(remote);
  dmi_remote_store_close(remote, client);
  return true;
}

/* ---- For a book ----------------------------------------------------------------------------- */

/* The load that is said at the end of the last thing of a client. */
static void take_load(struct dmi_remote *remote, struct dmi_remote_user *user, dmi_uid_t from,
                      const struct dmi_remote_load *load) {
  dmi_remote_carry_book(remote, user);
  dmi_remote_book_load(user->book, from, load);
  dmi_remote_carry_book(remote, user);
  if (!dmi_remote_book_awaits(user->book, from)) dmi_remote_line_go(remote, from);
}

bool dmi_remote_on_done(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_user *user = dmi_remote_user_of(remote, unpack_client(body));
  uint64_t number = dmi_unpack_u64(body), took = dmi_unpack_u64(body);
  struct dmi_remote_why *why = unpack_why(body);
  uint32_t num = dmi_unpack_count(body, OUTPUT_BYTES);
  struct dmi_remote_result *results = num ? dmi_xalloc(num, sizeof(*results)) : NULL;
  struct dmi_remote_load load;
  bool good;
  for (uint32_t i = 0; i < num; i++) {
    results[i].state = DMI_REMOTE_DONE;
    results[i].addr = (int64_t)dmi_unpack_u64(body);
    results[i].size = dmi_unpack_u64(body);
  }
  load = unpack_load(body);
  good = !body->bad;
  if (good && user && why) {
    good = dmi_remote_book_failed(user->book, from, number, why); /* which has its own reference */
  } else if (good && user) {
    good = dmi_remote_book_done(user->book, from, number, results, num, took);
  }
  if (good && user) take_load(remote, user, from, &load);
  dmi_remote_why_release(why);
  free(results);
  return good;
}

bool dmi_remote_on_fired(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_user *user = dmi_remote_user_of(remote, unpack_client(body));
  uint64_t number = dmi_unpack_u64(body);
  if (body->bad) return false;
  return !user || dmi_remote_book_fired(user->book, from, number);
}

bool dmi_remote_on_return(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_user *user = dmi_remote_user_of(remote, unpack_client(body));
  uint64_t number = dmi_unpack_u64(body);
  uint8_t reason = dmi_unpack_u8(body);
  uint64_t lost = dmi_unpack_u64(body);
  int64_t addr = (int64_t)dmi_unpack_u64(body);
  struct dmi_remote_load load = unpack_load(body);
  if (body->bad) return false;
  if (!user) return true;
  if (reason == DMI_REMOTE_LEAVES) {
    dmi_remote_book_leaves(user->book, from);
    dmi_remote_carry_book(remote, user);
  }
  if (!dmi_remote_book_returned(user->book, from, number, lost, addr)) return false;
  take_load(remote, user, from, &load);
  return true;
}

bool dmi_remote_on_stolen(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_user *user = dmi_remote_user_of(remote, unpack_client(body));
  struct dmi_remote_load load = unpack_load(body);
  if (body->bad) return false;
  if (!user) return true;
  if (!dmi_remote_book_stolen(user->book, from)) return false;
  take_load(remote, user, from, &load);
  return true;
}

bool dmi_remote_on_arena(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body) {
  struct dmi_remote_user *user = dmi_remote_user_of(remote, unpack_client(body));
  uint64_t base = dmi_unpack_u64(body);
  if (body->bad) return false;
  if (!user) return true;
  DMI_XALLOC_GROW(user->lent, user->lent_num, user->lent_room);
  user->lent[user->lent_num++] = (struct dmi_remote_lent){from, base};
  return true;
}

/* ---- All ------------------------------------------------------------------------------------ */

static bool handle(struct dmi_remote *remote, dmi_uid_t from, uint8_t type,
                   struct dmi_unpack *body) {
  switch (type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(remote, from, body);
    DMI_MSGS_REMOTE(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

bool dmi_remote_deliver(struct dmi_remote *remote, dmi_uid_t from, uint8_t type, uint64_t num,
                        const struct dmi_slice *body) {
  struct dmi_unpack unpack;
  if (!body->ptr) return false; /* no memory */
  dmi_unpack_init(&unpack, body);
  for (uint64_t i = 0; i < num; i++) {
    if (!handle(remote, from, type, &unpack)) return false;
  }
  return dmi_unpack_done(&unpack);
}

bool dmi_remote_message(struct dmi_remote *remote, dmi_uid_t from, const struct dmi_msg *msg) {
  uint32_t wakes;
  bool good;
  dmi_remote_lock(remote);
  remote->defers = true;
  good = dmi_remote_deliver(remote, from, msg->type, msg->remote.num, &msg->body);
  remote->defers = false;
  wakes = remote->wakes;
  remote->wakes = 0;
  dmi_remote_unlock(remote);
  /* With the lock, a worker on the same core would wake up to wait for it. */
  for (uint32_t i = 0; i < wakes; i++)
    pthread_cond_signal(&remote->work);
  dmi_wakes += wakes;
  return good;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

const char *dmi_remote_client_text(dmi_remote_client_t client, char text[DMI_REMOTE_CLIENT_TEXT]) {
  snprintf(text, DMI_REMOTE_CLIENT_TEXT, "%u.%u", client.process, client.n);
  return text;
}

const char *dmi_remote_name_text(const struct dmi_remote_call *call,
                                 char text[DMI_REMOTE_NAME_TEXT]) {
  const struct dmi_slice args = {NULL, call->args, call->arg_size};
  struct dmi_unpack unpack;
  const uint8_t *name;
  size_t len;
  dmi_unpack_init(&unpack, &args);
  name = dmi_unpack_bytes(&unpack, &len);
  if (!name) len = 0;
  if (len >= DMI_REMOTE_NAME_TEXT) len = DMI_REMOTE_NAME_TEXT - 1;
  if (len) memcpy(text, name, len);
  text[len] = 0;
  return text;
}
