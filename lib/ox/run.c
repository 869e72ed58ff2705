/*
 * run.c - texts and functions that run: a small machine with a stack of its own, which stops at a
 * call that has to be waited for.  What goes wrong ends it with an ERROR2 on the session's stack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/number.h"
#include "ox/session_int.h"

void dmi_ox_run_forget(struct dmi_ox_session *s) {
  struct dmi_ox_run *run = &s->run;
  while (run->num > 0)
    DMI_ox_drop(run->values[--run->num]);
  free(run->values);
  dmi_ox_program_free(&run->program);
  *run = (struct dmi_ox_run){0};
}

#define PLACE ((uint64_t)sizeof(struct dmi_ox_value *)) /* bytes of a place among the values */

/* What it may take beside what is there. */
static uint64_t room_left(const struct dmi_ox_session *s) {
  uint64_t used = s->used + s->run.used, limit = s->settings.limits.stack;
  return used < limit ? limit - used : 0;
}

static void push(struct dmi_ox_run *run, struct dmi_ox_value *value) {
  run->values = dmi_ox_grow(run->values, run->num, &run->room, sizeof run->values[0]);
  run->values[run->num++] = value;
  run->used += value->size + PLACE;
}

static struct dmi_ox_value *pop(struct dmi_ox_run *run) {
  struct dmi_ox_value *value = run->values[--run->num];
  run->used -= value->size + PLACE;
  return value;
}

/* Takes over the error. */
static void fail_with(struct dmi_ox_session *s, struct dmi_ox_value *error) {
  dmi_ox_run_forget(s);
  dmi_ox_stack_push(s, error);
}

static void fail(struct dmi_ox_session *s, enum dmi_ox_code code, const char *what,
                 const char *why) {
  char text[400];
  snprintf(text, sizeof text, "%.100s%s%.250s", what, *what != '\0' ? ": " : "", why);
  fail_with(s, dmi_ox_value_error(s->command, code, text));
}

/* One value more, if there is room for it; takes it over. */
static void add(struct dmi_ox_session *s, struct dmi_ox_value *value) {
  if (value->size + PLACE <= room_left(s)) {
    push(&s->run, value);
    return;
  }
  DMI_ox_drop(value);
  fail(s, DMI_OX_E_LIMIT, "", "its values are too large for the session");
}

void dmi_ox_run_result(struct dmi_ox_session *s, struct dmi_ox_value *value) {
  if (!s->run.is) {
    if (value != NULL) dmi_ox_stack_push(s, value);
  } else if (value != NULL && value->tag == DMI_OX_ERROR) {
    fail_with(s, value);
  } else {
    add(s, value != NULL ? value : DMI_ox_null());
  }
}

/* ---- Beginning ------------------------------------------------------------------------------- */

void dmi_ox_run_text(struct dmi_ox_session *s, bool batch) {
  struct dmi_ox_value *text = dmi_ox_stack_pop(s);
  const char *why = "executeString: no text is on the stack";
  size_t where = 0;
  char message[200];
  if (text->tag != DMI_OX_STRING) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, why);
  } else if (!dmi_ox_text_compile(
                 &s->run.program, text->bytes.at,
                 dmi_ox_value_is_text(text) ? strlen(text->bytes.at) : (size_t)text->bytes.len,
                 s->settings.limits.depth, room_left(s), &why, &where)) {
    snprintf(message, sizeof message, "%s (byte %zu)", why, where);
    dmi_ox_stack_error(s, strcmp(why, DMI_OX_TOO_LARGE) == 0 ? DMI_OX_E_LIMIT : DMI_OX_E_SYNTAX,
                       message);
  } else {
    s->run.is = true;
    s->run.used = s->run.program.used;
    s->run.batch = batch;
  }
  DMI_ox_drop(text);
}

void dmi_ox_run_function(struct dmi_ox_session *s) {
  struct dmi_ox_value *name = dmi_ox_stack_pop(s);
  int32_t num = 0;
  if (name->tag != DMI_OX_STRING) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT, "executeFunction: the name of a function is needed");
    DMI_ox_drop(name);
    return;
  }
  if (!dmi_ox_stack_pop_int32(s, &num) || num < 0 || (size_t)num > s->num) {
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT,
                       "executeFunction: the number of arguments is not that of the objects");
    DMI_ox_drop(name);
    return;
  }
  s->run.is = true;
  for (int32_t i = 0; i < num; i++) /* the first one is uppermost */
    push(&s->run, dmi_ox_stack_pop(s));
  dmi_ox_program_add(&s->run.program,
                     (struct dmi_ox_step){.kind = DMI_OX_STEP_CALL, .num = num, .value = name});
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The last `num` values as a list. */
static struct dmi_ox_value *take_list(struct dmi_ox_run *run, int32_t num) {
  struct dmi_ox_value **items = dmi_ox_alloc((size_t)num * sizeof items[0]);
  for (int32_t i = num; i > 0; i--)
    items[i - 1] = pop(run);
  return dmi_ox_value_items(DMI_OX_LIST, items, num);
}

static void step_list(struct dmi_ox_session *s, int32_t num) {
  struct dmi_ox_value *list = take_list(&s->run, num);
  const struct dmi_ox_limits *limits = &s->settings.limits;
  if (list->depth > limits->depth || list->size > limits->message) {
    DMI_ox_drop(list);
    fail(s, DMI_OX_E_LIMIT, "", "a list is too large, or nested too deep");
    return;
  }
  add(s, list);
}

static void step_op(struct dmi_ox_session *s, char op) {
  struct dmi_ox_run *run = &s->run;
  const char *why = "", name[] = {op, '\0'};
  struct dmi_ox_value *b = pop(run), *a = pop(run), *value = NULL;
  uint64_t size = a->size + b->size;
  bool large = dmi_ox_number_is_large(op, a, b);
  if (!large && size > DMI_OX_LONG && size <= s->settings.limits.message) {
    struct dmi_ox_value *pair[2] = {a, b}, *args = DMI_ox_list(pair, 2);
    if (args != NULL) {
      s->op = (struct dmi_ox_op){.kind = DMI_OX_OP_CALL};
      s->op.id = dmi_ox_run_call(s, dmi_ox_value_text(name), args);
    } else {
      fail(s, DMI_OX_E_ARGUMENT, "", "an operand is no number");
    }
    return;
  }
  value = dmi_ox_number_op(op, a, b, s->settings.limits.message, &why);
  DMI_ox_drop(a);
  DMI_ox_drop(b);
  if (value != NULL)
    add(s, value);
  else
    fail(s, large ? DMI_OX_E_LIMIT : DMI_OX_E_ARGUMENT, "", why);
}

uint32_t dmi_ox_run_call(struct dmi_ox_session *s, struct dmi_ox_value *name,
                         struct dmi_ox_value *args) {
  struct dmi_ox_action *action = dmi_ox_session_act(s, DMI_OX_CALL, s->next_call++);
  action->name = name;
  action->args = args;
  return action->id;
}

static void step_call(struct dmi_ox_session *s, struct dmi_ox_value *name, int32_t num) {
  const char *why = NULL;
  struct dmi_ox_value *args = take_list(&s->run, num);
  if (dmi_ox_group_call(s, name->bytes.at, args->list.at, num, &why)) {
    DMI_ox_drop(args);
  } else if (why != NULL) {
    DMI_ox_drop(args);
    fail(s, DMI_OX_E_ARGUMENT, name->bytes.at, why);
  } else if (s->known(name->bytes.at)) {
    s->op = (struct dmi_ox_op){.kind = DMI_OX_OP_CALL};
    s->op.id = dmi_ox_run_call(s, DMI_ox_keep(name), args);
  } else {
    DMI_ox_drop(args);
    fail(s, DMI_OX_E_NAME, name->bytes.at, "no function has this name");
  }
}

static void step_get(struct dmi_ox_session *s, const char *name) {
  struct dmi_ox_value *value = dmi_ox_stack_variable(s, name);
  if (value != NULL)
    add(s, DMI_ox_keep(value));
  else
    fail(s, DMI_OX_E_NAME, name, "nothing has this name");
}

static void finish(struct dmi_ox_session *s) {
  struct dmi_ox_run *run = &s->run;
  struct dmi_ox_value *value = run->num > 0 ? run->values[--run->num] : DMI_ox_null();
  bool batch = run->batch;
  dmi_ox_run_forget(s);
  if (batch)
    DMI_ox_drop(value);
  else
    dmi_ox_stack_push(s, value);
}

static uint64_t work_of(const struct dmi_ox_run *run) {
  return 1 + (run->num > 0 ? run->values[run->num - 1]->size / 1024 : 0);
}

uint64_t dmi_ox_run_step(struct dmi_ox_session *s) {
  struct dmi_ox_run *run = &s->run;
  uint64_t work = work_of(run);
  if (run->at == run->program.num) {
    finish(s);
    return work;
  }
  struct dmi_ox_step *step = &run->program.at[run->at++];
  switch (step->kind) {
    case DMI_OX_STEP_PUSH:
      add(s, DMI_ox_keep(step->value));
      break;
    case DMI_OX_STEP_LIST:
      step_list(s, step->num);
      break;
    case DMI_OX_STEP_CALL: {
      struct dmi_ox_value *name = DMI_ox_keep(step->value); /* the program may be forgotten */
      step_call(s, name, step->num);
      DMI_ox_drop(name);
      break;
    }
    case DMI_OX_STEP_GET:
      step_get(s, step->value->bytes.at);
      break;
    case DMI_OX_STEP_SET:
      if (!dmi_ox_stack_set(s, step->value->bytes.at, DMI_ox_keep(run->values[run->num - 1])))
        fail(s, DMI_OX_E_LIMIT, "", "there is no room for a variable");
      break;
    case DMI_OX_STEP_OP:
      step_op(s, step->op);
      break;
    default: /* POP */
      DMI_ox_drop(pop(run));
      break;
  }
  return work;
}
