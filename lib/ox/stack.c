/*
 * stack.c - the stack of a session and its variables, which share one account.
 */
#include <stdlib.h>
#include <string.h>

#include "ox/session_int.h"

#define PLACE ((uint64_t)sizeof(struct dmi_ox_value *)) /* bytes of a place on the stack */

void dmi_ox_stack_push(struct dmi_ox_session *s, struct dmi_ox_value *value) {
  uint64_t limit = s->settings.limits.stack;
  if (value->size + PLACE > limit || s->used > limit - value->size - PLACE) {
    /* The error is what the client is to see; it has to fit whatever else is there. */
    DMI_ox_drop(value);
    value = dmi_ox_value_error(s->command, DMI_OX_E_LIMIT, "the stack is full");
    if (s->used > limit + (1 << 20)) { /* a flood of them: the last one becomes the newest */
      DMI_ox_drop(dmi_ox_stack_pop(s));
    }
  }
  s->stack = dmi_ox_grow(s->stack, s->num, &s->room, sizeof s->stack[0]);
  s->stack[s->num++] = value;
  s->used += value->size + PLACE;
}

void dmi_ox_stack_error(struct dmi_ox_session *s, enum dmi_ox_code code, const char *why) {
  dmi_ox_stack_push(s, dmi_ox_value_error(s->command, code, why));
}

struct dmi_ox_value *dmi_ox_stack_pop(struct dmi_ox_session *s) {
  if (s->num == 0) return DMI_ox_null();
  struct dmi_ox_value *value = s->stack[--s->num];
  s->used -= value->size + PLACE;
  return value;
}

bool dmi_ox_stack_pop_int32(struct dmi_ox_session *s, int32_t *number) {
  int64_t wide;
  if (s->num == 0) return false;
  struct dmi_ox_value *value = dmi_ox_stack_pop(s);
  bool good = DMI_ox_to_int64(value, &wide) && wide >= INT32_MIN && wide <= INT32_MAX;
  if (good) *number = (int32_t)wide;
  DMI_ox_drop(value);
  return good;
}

static struct dmi_ox_variable *find(struct dmi_ox_session *s, const char *name) {
  struct dmi_ox_variable *variable;
  HASH_FIND_STR(s->variables, name, variable);
  return variable;
}

struct dmi_ox_value *dmi_ox_stack_variable(struct dmi_ox_session *s, const char *name) {
  struct dmi_ox_variable *variable = find(s, name);
  return variable != NULL ? variable->value : NULL;
}

bool dmi_ox_stack_set(struct dmi_ox_session *s, const char *name, struct dmi_ox_value *value) {
  struct dmi_ox_variable *variable = find(s, name);
  size_t len = strlen(name) + 1;
  uint64_t cost = value->size, limit = s->settings.limits.stack;
  uint64_t before = variable != NULL ? variable->value->size : 0;
  if (variable == NULL) cost += len + sizeof *variable;
  if (cost > limit || s->used - before > limit - cost) {
    DMI_ox_drop(value);
    return false;
  }
  if (variable == NULL) {
    variable = dmi_ox_alloc(sizeof *variable + len);
    memcpy(variable->name, name, len);
    HASH_ADD_STR(s->variables, name, variable);
  } else {
    DMI_ox_drop(variable->value);
  }
  variable->value = value;
  s->used += cost - before;
  return true;
}

void dmi_ox_stack_free(struct dmi_ox_session *s) {
  struct dmi_ox_variable *variable, *next;
  for (size_t i = 0; i < s->num; i++)
    DMI_ox_drop(s->stack[i]);
  HASH_ITER(hh, s->variables, variable, next) {
    HASH_DEL(s->variables, variable);
    DMI_ox_drop(variable->value);
    free(variable);
  }
  free(s->stack);
  free(s->blocks);
}
