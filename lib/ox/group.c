/*
 * group.c - ranks (RFC-102): broadcast and reduction over binomial trees, send and receive, as
 * commands and as functions of the server's own.  Each is an op that is tried again whenever
 * something has come; a reset forgets it.
 *
 * Who cannot pass on data passes on an error instead, so that nobody behind it in the tree waits.
 */
#include <stdio.h>
#include <string.h>

#include "ox/number.h"
#include "ox/session_int.h"

void dmi_ox_group_forget(struct dmi_ox_session *s) {
  struct dmi_ox_op *op = &s->op;
  if ((op->kind == DMI_OX_OP_CALL || op->kind == DMI_OX_OP_REDUCE) && op->id != 0 &&
      op->result == NULL)
    dmi_ox_session_act(s, DMI_OX_CANCEL, op->id);
  if (op->kind == DMI_OX_OP_OPEN) {
    struct dmi_ox_stream *link = dmi_ox_session_stream(s, op->id);
    if (link != NULL && link->state < DMI_OX_OPEN) dmi_ox_link_remove(s, link);
  }
  DMI_ox_drop(op->data);
  DMI_ox_drop(op->name);
  DMI_ox_drop(op->result);
  DMI_ox_drop(op->failed);
  *op = (struct dmi_ox_op){0};
}

/* The op is complete. */
static bool finish(struct dmi_ox_session *s, struct dmi_ox_value *value) {
  dmi_ox_group_forget(s);
  dmi_ox_run_result(s, value);
  return true;
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static int32_t rank_of(const struct dmi_ox_session *s, int64_t relative) {
  return (int32_t)((relative + s->op.root) % s->nserver);
}

static int64_t relative_rank(const struct dmi_ox_session *s) {
  int64_t r = (int64_t)s->rank - s->op.root;
  return r < 0 ? r + s->nserver : r;
}

static bool step_bcast(struct dmi_ox_session *s) {
  struct dmi_ox_op *op = &s->op;
  int64_t r = relative_rank(s);
  if (!op->sends) {
    for (op->mask = 1; op->mask < s->nserver && (r & op->mask) == 0;)
      op->mask <<= 1;
    if (r != 0 && dmi_ox_link_receive(s, rank_of(s, r - op->mask), &op->data) == DMI_OX_WAITS)
      return false;
    op->sends = true;
    op->mask >>= 1;
  }
  for (; op->mask > 0; op->mask >>= 1) {
    struct dmi_ox_value *error = NULL;
    if (r + op->mask >= s->nserver) continue;
    switch (dmi_ox_link_send(s, rank_of(s, r + op->mask), op->data, &error)) {
      case DMI_OX_WAITS:
        return false;
      case DMI_OX_FAILED:
        DMI_ox_drop(op->failed);
        op->failed = error;
        break;
      default:
        break;
    }
  }
  return finish(s, DMI_ox_keep(op->failed != NULL ? op->failed : op->data));
}

/* What a function gave. An error that it has made itself says of which message it is the answer. */
static struct dmi_ox_value *result_of(const struct dmi_ox_session *s, struct dmi_ox_value *value) {
  const struct dmi_ox_value *list = value->tag == DMI_OX_ERROR ? DMI_ox_item(value, 0) : NULL;
  const char *text =
      list != NULL && DMI_ox_length(list) == 3 ? DMI_ox_bytes(list->list.at[2], NULL) : NULL;
  return text != NULL ? dmi_ox_value_error(s->command, DMI_OX_E_FUNCTION, text)
                      : DMI_ox_keep(value);
}

/* Combines own data with what was received; false when a function has to be waited for. */
static bool combine(struct dmi_ox_session *s, struct dmi_ox_value *other) {
  struct dmi_ox_op *op = &s->op;
  const char *why = "", *name = op->name->bytes.at;
  struct dmi_ox_value *value;
  uint64_t size = op->data->size + other->size;
  bool large = dmi_ox_number_is_large(*name, op->data, other);
  bool takes_long = !large && size > DMI_OX_LONG && size <= s->settings.limits.message;
  if (op->data->tag == DMI_OX_ERROR || other->tag == DMI_OX_ERROR) {
    value = DMI_ox_keep(op->data->tag == DMI_OX_ERROR ? op->data : other);
  } else if ((strcmp(name, "+") == 0 || strcmp(name, "*") == 0) && !takes_long) {
    value = dmi_ox_number_op(*name, op->data, other, s->settings.limits.message, &why);
    if (value == NULL)
      value = dmi_ox_value_error(s->command, large ? DMI_OX_E_LIMIT : DMI_OX_E_ARGUMENT, why);
  } else {
    struct dmi_ox_value *pair[2] = {DMI_ox_keep(op->data), other};
    struct dmi_ox_value *args = DMI_ox_list(pair, 2); /* drops both when it cannot be made */
    if (args != NULL) {
      op->id = dmi_ox_run_call(s, DMI_ox_keep(op->name), args);
      return false;
    }
    other = NULL;
    value = dmi_ox_value_error(s->command, DMI_OX_E_LIMIT, "lists are nested too deep");
  }
  DMI_ox_drop(other);
  DMI_ox_drop(op->data);
  op->data = value;
  return true;
}

static bool step_reduce(struct dmi_ox_session *s) {
  struct dmi_ox_op *op = &s->op;
  int64_t r = relative_rank(s);
  if (op->id != 0) {
    if (op->result == NULL) return false;
    DMI_ox_drop(op->data);
    op->data = result_of(s, op->result);
    DMI_ox_drop(op->result);
    op->result = NULL;
    op->id = 0;
    op->mask <<= 1;
  }
  for (; op->mask < s->nserver; op->mask <<= 1) {
    struct dmi_ox_value *other = NULL;
    if (r & op->mask) {
      enum dmi_ox_moved moved = dmi_ox_link_send(s, rank_of(s, r - op->mask), op->data, &other);
      if (moved == DMI_OX_WAITS) return false;
      return finish(s, moved == DMI_OX_FAILED ? other : DMI_ox_null());
    }
    if (r + op->mask >= s->nserver) continue;
    if (dmi_ox_link_receive(s, rank_of(s, r + op->mask), &other) == DMI_OX_WAITS) return false;
    if (!combine(s, other)) return false;
  }
  return finish(s, DMI_ox_keep(op->data));
}

static bool step_send(struct dmi_ox_session *s) {
  struct dmi_ox_value *error = NULL;
  enum dmi_ox_moved moved = dmi_ox_link_send(s, s->op.rank, s->op.data, &error);
  if (moved == DMI_OX_WAITS) return false;
  return finish(s, moved == DMI_OX_FAILED ? error : DMI_ox_null());
}

static bool step_recv(struct dmi_ox_session *s) {
  struct dmi_ox_value *value = NULL;
  if (dmi_ox_link_receive(s, s->op.rank, &value) == DMI_OX_WAITS) return false;
  return finish(s, value);
}

static bool step_call(struct dmi_ox_session *s) {
  if (s->op.result == NULL) return false;
  return finish(s, result_of(s, s->op.result));
}

bool dmi_ox_group_step(struct dmi_ox_session *s) {
  switch (s->op.kind) {
    case DMI_OX_OP_OPEN:
      return dmi_ox_link_opened(s);
    case DMI_OX_OP_SEND:
      return step_send(s);
    case DMI_OX_OP_RECV:
      return step_recv(s);
    case DMI_OX_OP_BCAST:
      return step_bcast(s);
    case DMI_OX_OP_REDUCE:
      return step_reduce(s);
    case DMI_OX_OP_RESET_LINKS:
      return dmi_ox_link_reset(s);
    case DMI_OX_OP_CALL:
      return step_call(s);
    default:
      return true;
  }
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static bool is_rank(const struct dmi_ox_session *s, int64_t rank) {
  return rank >= 0 && rank < s->nserver;
}

/* Takes over the data. */
static void begin_bcast(struct dmi_ox_session *s, int32_t root, struct dmi_ox_value *data) {
  s->op = (struct dmi_ox_op){.kind = DMI_OX_OP_BCAST, .root = root, .data = data};
}

/* Takes over both; false: the operation is not known. */
static bool begin_reduce(struct dmi_ox_session *s, int32_t root, struct dmi_ox_value *name,
                         struct dmi_ox_value *data) {
  bool good =
      name->tag == DMI_OX_STRING && (strcmp(name->bytes.at, "+") == 0 ||
                                     strcmp(name->bytes.at, "*") == 0 || s->known(name->bytes.at));
  if (!good) {
    DMI_ox_drop(name);
    DMI_ox_drop(data);
    return false;
  }
  s->op = (struct dmi_ox_op){
      .kind = DMI_OX_OP_REDUCE, .root = root, .name = name, .data = data, .mask = 1};
  return true;
}

static void command_set_rank(struct dmi_ox_session *s) {
  int32_t nserver, rank;
  bool good = dmi_ox_stack_pop_int32(s, &rank);
  good = dmi_ox_stack_pop_int32(s, &nserver) && good;
  if (!good || nserver < 1 || rank < 0 || rank >= nserver) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "set_rank: nserver > rank >= 0 is needed");
    return;
  }
  s->nserver = nserver;
  s->rank = rank;
}

static void command_bcast(struct dmi_ox_session *s) {
  int32_t root;
  if (!dmi_ox_stack_pop_int32(s, &root) || !is_rank(s, root))
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "bcast: the root is no rank of the group");
  else
    begin_bcast(s, root, root == s->rank ? dmi_ox_stack_pop(s) : NULL);
}

static void command_reduce(struct dmi_ox_session *s) {
  struct dmi_ox_value *name = dmi_ox_stack_pop(s);
  int32_t root;
  if (!dmi_ox_stack_pop_int32(s, &root) || !is_rank(s, root)) {
    DMI_ox_drop(name);
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "reduce: the root is no rank of the group");
  } else if (!begin_reduce(s, root, name, dmi_ox_stack_pop(s))) {
    dmi_ox_stack_error(s, DMI_OX_E_NAME, "reduce: the operation is not known");
  }
}

void dmi_ox_group_command(struct dmi_ox_session *s, int32_t code) {
  switch (code) {
    case DMI_OX_SET_RANK:
      command_set_rank(s);
      break;
    case DMI_OX_TCP_ACCEPT:
    case DMI_OX_TCP_CONNECT:
      dmi_ox_link_command(s, code == DMI_OX_TCP_ACCEPT);
      break;
    case DMI_OX_RESET_LINKS:
      s->rounds++;
      s->op = (struct dmi_ox_op){.kind = DMI_OX_OP_RESET_LINKS, .rank = -1};
      break;
    case DMI_OX_BCAST:
      command_bcast(s);
      break;
    default:
      command_reduce(s);
      break;
  }
}

/* ---- Functions ------------------------------------------------------------------------------- */

static struct dmi_ox_value *own_rank(const struct dmi_ox_session *s) {
  struct dmi_ox_value *items[2] = {DMI_ox_from_int64(s->nserver), DMI_ox_from_int64(s->rank)};
  return DMI_ox_list(items, 2);
}

/* Of a function that takes its data as an argument or, without it, from the stack. */
static struct dmi_ox_value *argument_or_pop(struct dmi_ox_session *s, struct dmi_ox_value **args,
                                            int32_t num, int32_t at) {
  return at < num ? DMI_ox_keep(args[at]) : dmi_ox_stack_pop(s);
}

static bool call_collective(struct dmi_ox_session *s, bool bcast, struct dmi_ox_value **args,
                            int32_t num, const char **why) {
  int64_t root;
  int32_t before = bcast ? 1 : 2; /* arguments before the data */
  if (num < before || num > before + 1) {
    *why = "the number of arguments is wrong";
  } else if (!DMI_ox_to_int64(args[0], &root) || !is_rank(s, root)) {
    *why = "the root is no rank of the group";
  } else if (bcast) {
    /* What is given is pushed first: other ranks than the root keep it on their stacks. */
    if (root != s->rank && num == 2) dmi_ox_stack_push(s, DMI_ox_keep(args[1]));
    begin_bcast(s, (int32_t)root, root == s->rank ? argument_or_pop(s, args, num, 1) : NULL);
    return true;
  } else if (begin_reduce(s, (int32_t)root, DMI_ox_keep(args[1]),
                          argument_or_pop(s, args, num, 2))) {
    return true;
  } else {
    *why = "the operation is not known";
  }
  return false;
}

static bool call_peer(struct dmi_ox_session *s, bool send, struct dmi_ox_value **args, int32_t num,
                      const char **why) {
  int64_t rank;
  if (num != (send ? 2 : 1)) {
    *why = "the number of arguments is wrong";
  } else if (!DMI_ox_to_int64(args[0], &rank) || rank < 0 || rank > INT32_MAX) {
    *why = "the first argument is no rank";
  } else {
    s->op = (struct dmi_ox_op){.kind = send ? DMI_OX_OP_SEND : DMI_OX_OP_RECV,
                               .rank = (int32_t)rank,
                               .data = send ? DMI_ox_keep(args[1]) : NULL};
    return true;
  }
  return false;
}

bool dmi_ox_group_call(struct dmi_ox_session *s, const char *name, struct dmi_ox_value **args,
                       int32_t num, const char **why) {
  if (strcmp(name, "ox_get_rank_102") == 0) {
    if (num == 0) {
      dmi_ox_run_result(s, own_rank(s));
      return true;
    }
    *why = "it has no arguments";
    return false;
  }
  if (strcmp(name, "ox_send_102") == 0) return call_peer(s, true, args, num, why);
  if (strcmp(name, "ox_recv_102") == 0) return call_peer(s, false, args, num, why);
  if (strcmp(name, "ox_bcast_102") == 0) return call_collective(s, true, args, num, why);
  if (strcmp(name, "ox_reduce_102") == 0) return call_collective(s, false, args, num, why);
  return false;
}
