/*
 * command.c - commands of the data connection that use the stack and do not wait.  One that does
 * not find on the stack what it needs pushes an ERROR2 with its serial, and the session goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "ox/encode.h"
#include "ox/session_int.h"

static const int32_t commands[] = {258, 262, 263, 264, 265, 266, 267, 268, 269, 270, 271, 272, 273,
                                   274, 275, 276, 277, 278, 279, 280, 281, 282, 283, 300, 400};
static const int32_t types[] = {DMI_OX_NULL,    DMI_OX_INT32,     DMI_OX_BYTES,   DMI_OX_STRING,
                                DMI_OX_MATHCAP, DMI_OX_LIST,      DMI_OX_INTEGER, DMI_OX_RATIONAL,
                                DMI_OX_ZERO,    DMI_OX_DOUBLE_64, DMI_OX_DOUBLES, DMI_OX_DOUBLE,
                                DMI_OX_ERROR};

static void send_value(struct dmi_ox_session *s, struct dmi_ox_value *value) {
  struct dmi_ox_bytes bytes = {0};
  dmi_ox_encode_word(&bytes, s->data.little, DMI_OX_DATA);
  dmi_ox_encode_word(&bytes, s->data.little, s->serial++);
  if (s->asir)
    dmi_ox_encode_peer_value(&bytes, s->data.little, s->doubles_64, value);
  else
    dmi_ox_encode_value(&bytes, s->data.little, value);
  dmi_ox_session_put(s, &s->data, bytes);
  DMI_ox_drop(value);
}

static void send_text(struct dmi_ox_session *s) {
  struct dmi_ox_value *value = dmi_ox_stack_pop(s);
  char *text = DMI_ox_to_text(value);
  DMI_ox_drop(value);
  struct dmi_ox_value *as_text = dmi_ox_value_text(text);
  if (as_text == NULL)
    as_text = dmi_ox_value_error(s->command, DMI_OX_E_LIMIT, "the text is too large");
  send_value(s, as_text);
  free(text);
}

/* ---- Mathcap --------------------------------------------------------------------------------- */

static struct dmi_ox_value *numbers(const int32_t *at, size_t num) {
  struct dmi_ox_value **items = dmi_ox_alloc(num * sizeof items[0]);
  for (size_t i = 0; i < num; i++)
    items[i] = dmi_ox_value_int32(at[i]);
  return dmi_ox_value_items(DMI_OX_LIST, items, (int32_t)num);
}

static struct dmi_ox_value *mathcap(void) {
  struct dmi_ox_value *version[] = {dmi_ox_value_int32(102), dmi_ox_value_text("ox_dmi"),
                                    dmi_ox_value_text(DMI_VERSION)};
  struct dmi_ox_value *data[] = {dmi_ox_value_int32(DMI_OX_DATA),
                                 numbers(types, sizeof types / sizeof types[0])};
  struct dmi_ox_value *data_list = DMI_ox_list(data, 2);
  struct dmi_ox_value *all[] = {DMI_ox_list(version, 3),
                                numbers(commands, sizeof commands / sizeof commands[0]),
                                DMI_ox_list(&data_list, 1)};
  struct dmi_ox_value **items = dmi_ox_alloc(sizeof items[0]);
  items[0] = DMI_ox_list(all, 3);
  return dmi_ox_value_items(DMI_OX_MATHCAP, items, 1);
}

/* The client's mathcap: MATHCAP(LIST[LIST[version, STRING system, ...], commands,
 * LIST[LIST[514, LIST of types], ...]]), or that list. */
static const struct dmi_ox_value *list_of(const struct dmi_ox_value *cap) {
  return cap->tag == DMI_OX_LIST ? cap : DMI_ox_item(cap, 0);
}

static bool lists_type(const struct dmi_ox_value *cap, int32_t type) {
  const struct dmi_ox_value *list = list_of(cap);
  const struct dmi_ox_value *all = list != NULL ? DMI_ox_item(list, 2) : NULL;
  for (int64_t i = 0; all != NULL && i < DMI_ox_length(all); i++) {
    const struct dmi_ox_value *pair = DMI_ox_item(all, i);
    const struct dmi_ox_value *known = DMI_ox_item(pair, 1);
    int64_t number;
    for (int64_t j = 0; known != NULL && j < DMI_ox_length(known); j++)
      if (DMI_ox_to_int64(DMI_ox_item(known, j), &number) && number == type) return true;
  }
  return false;
}

static bool names_asir(const struct dmi_ox_value *cap) {
  const struct dmi_ox_value *list = list_of(cap);
  const struct dmi_ox_value *about = list != NULL ? DMI_ox_item(list, 0) : NULL;
  for (int64_t i = 0; about != NULL && i < DMI_ox_length(about); i++) {
    const char *text = DMI_ox_bytes(DMI_ox_item(about, i), NULL);
    if (text != NULL && (strstr(text, "asir") != NULL || strstr(text, "Asir") != NULL)) return true;
  }
  return false;
}

static void set_mathcap(struct dmi_ox_session *s) {
  struct dmi_ox_value *cap = dmi_ox_stack_pop(s);
  if (cap->tag == DMI_OX_MATHCAP || (cap->tag == DMI_OX_LIST && cap->list.num > 0)) {
    s->asir = names_asir(cap);
    s->doubles_64 = lists_type(cap, DMI_OX_DOUBLE_64);
  } else {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "setMathCap: no mathcap is on the stack");
  }
  DMI_ox_drop(cap);
}

/* ---- Stack ----------------------------------------------------------------------------------- */

static void pops(struct dmi_ox_session *s) {
  int32_t num;
  if (!dmi_ox_stack_pop_int32(s, &num) || num < 0) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "pops: a number of objects is needed");
    return;
  }
  while (num-- > 0 && s->num > 0)
    DMI_ox_drop(dmi_ox_stack_pop(s));
}

/* A name from the stack, or NULL and an error on it. */
static struct dmi_ox_value *pop_name(struct dmi_ox_session *s) {
  struct dmi_ox_value *name = dmi_ox_stack_pop(s);
  if (dmi_ox_value_is_text(name)) return name;
  DMI_ox_drop(name);
  dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "a name is needed");
  return NULL;
}

static void set_name(struct dmi_ox_session *s) {
  struct dmi_ox_value *name = pop_name(s);
  if (name == NULL) return;
  if (s->num == 0)
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "setName: no object is on the stack");
  else if (!dmi_ox_stack_set(s, name->bytes.at, dmi_ox_stack_pop(s)))
    dmi_ox_stack_error(s, DMI_OX_E_LIMIT, "setName: no room");
  DMI_ox_drop(name);
}

static void eval_name(struct dmi_ox_session *s) {
  struct dmi_ox_value *name = pop_name(s);
  if (name == NULL) return;
  struct dmi_ox_value *value = dmi_ox_stack_variable(s, name->bytes.at);
  if (value != NULL)
    dmi_ox_stack_push(s, DMI_ox_keep(value));
  else
    dmi_ox_stack_error(s, DMI_OX_E_NAME, "evalName: nothing has this name");
  DMI_ox_drop(name);
}

static void begin_block(struct dmi_ox_session *s) {
  if (s->used + sizeof s->blocks[0] > s->settings.limits.stack) {
    dmi_ox_stack_error(s, DMI_OX_E_LIMIT, "beginBlock: no room");
    return;
  }
  s->blocks = dmi_ox_grow(s->blocks, s->num_blocks, &s->room_blocks, sizeof s->blocks[0]);
  s->blocks[s->num_blocks++] = s->num;
  s->used += sizeof s->blocks[0];
}

/* The objects from `from` on become a list. */
static void make_list(struct dmi_ox_session *s, size_t from) {
  size_t num = s->num - from;
  bool deep = num > INT32_MAX;
  for (size_t i = from; i < s->num; i++)
    deep = deep || s->stack[i]->depth >= s->settings.limits.depth;
  if (deep) {
    dmi_ox_stack_error(s, DMI_OX_E_LIMIT, "endBlock: lists would be nested too deep");
    return;
  }
  struct dmi_ox_value **items = dmi_ox_alloc(num * sizeof items[0]);
  while (s->num > from) {
    struct dmi_ox_value *value = dmi_ox_stack_pop(s);
    items[s->num - from] = value;
  }
  dmi_ox_stack_push(s, dmi_ox_value_items(DMI_OX_LIST, items, (int32_t)num));
}

static void end_block(struct dmi_ox_session *s) {
  if (s->num_blocks == 0) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "endBlock: no block has begun");
    return;
  }
  size_t from = s->blocks[--s->num_blocks];
  s->used -= sizeof s->blocks[0];
  make_list(s, from < s->num ? from : s->num);
}

static void dup_errors(struct dmi_ox_session *s) {
  struct dmi_ox_value **errors = NULL;
  size_t num = 0, room = 0;
  for (size_t i = 0; i < s->num; i++) {
    if (s->stack[i]->tag != DMI_OX_ERROR) continue;
    errors = dmi_ox_grow(errors, num, &room, sizeof errors[0]);
    errors[num++] = DMI_ox_keep(s->stack[i]);
  }
  dmi_ox_stack_push(s, dmi_ox_value_items(DMI_OX_LIST, errors, (int32_t)num));
}

static void push_tag(struct dmi_ox_session *s) {
  dmi_ox_stack_push(s, dmi_ox_value_int32(s->num > 0 ? s->stack[s->num - 1]->tag : DMI_OX_NULL));
}

void dmi_ox_command_run(struct dmi_ox_session *s, uint32_t serial, int32_t code) {
  s->command = serial;
  switch (code) {
    case DMI_OX_POP_SERIALIZED:
    case DMI_OX_POP_CMO:
      send_value(s, dmi_ox_stack_pop(s));
      break;
    case DMI_OX_POP_STRING:
      send_text(s);
      break;
    case DMI_OX_MATHCAP_ASK:
      dmi_ox_stack_push(s, mathcap());
      break;
    case DMI_OX_POPS:
      pops(s);
      break;
    case DMI_OX_SET_NAME:
      set_name(s);
      break;
    case DMI_OX_EVAL_NAME:
      eval_name(s);
      break;
    case DMI_OX_EXECUTE_STRING:
    case DMI_OX_EXECUTE_BATCH:
      dmi_ox_run_text(s, code == DMI_OX_EXECUTE_BATCH);
      break;
    case DMI_OX_EXECUTE_FUNCTION:
    case DMI_OX_EXECUTE_SYNC:
      dmi_ox_run_function(s);
      break;
    case DMI_OX_BEGIN_BLOCK:
      begin_block(s);
      break;
    case DMI_OX_END_BLOCK:
      end_block(s);
      break;
    case DMI_OX_SHUTDOWN:
      dmi_ox_session_end(s);
      break;
    case DMI_OX_SET_MATHCAP:
      set_mathcap(s);
      break;
    case DMI_OX_GET_SP:
      dmi_ox_stack_push(s, dmi_ox_value_int32((int32_t)s->num));
      break;
    case DMI_OX_DUP_ERRORS:
      dup_errors(s);
      break;
    case DMI_OX_PUSH_TAG:
      push_tag(s);
      break;
    case DMI_OX_NOP:
      break;
    default:
      if (code >= DMI_OX_SET_RANK && code <= DMI_OX_REDUCE)
        dmi_ox_group_command(s, code);
      else
        dmi_ox_stack_error(s, DMI_OX_E_COMMAND, "the command is not known");
      break;
  }
}
