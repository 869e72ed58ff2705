/*
 * function.c - see function.h.
 */
#include "ox/function.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"
#include "ox/number.h"

/* Whoever registers a function wants a server: `dmirun --ox` starts it from outside of this
 * library, which is static, so that its file has to be linked for that. */
__attribute__((used)) static int32_t (*const server)(DMI_ox_server_t **, const DMI_ox_options_t *,
                                                     char *, int64_t) = DMI_ox_start;

struct registered {
  char *name;
  DMI_ox_function_t function;
};

/* Of the program's text, so of the OS process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct registered *functions;
static size_t num, room;

/* ---- Operations: of large numbers, which take long (run.c, group.c) -------------------------- */

static DMI_ox_value_t *calculate(char op, DMI_ox_value_t *const *args) {
  const char *why = "";
  DMI_ox_value_t *value =
      dmi_ox_number_op(op, args[0], args[1], UINT64_MAX, &why); /* it has been compared */
  return value != NULL ? value : DMI_ox_error(why);
}

static DMI_ox_value_t *add(DMI_ox_value_t *const *args, int64_t number) {
  (void)number;
  return calculate('+', args);
}

static DMI_ox_value_t *subtract(DMI_ox_value_t *const *args, int64_t number) {
  (void)number;
  return calculate('-', args);
}

static DMI_ox_value_t *multiply(DMI_ox_value_t *const *args, int64_t number) {
  (void)number;
  return calculate('*', args);
}

static DMI_ox_value_t *divide(DMI_ox_value_t *const *args, int64_t number) {
  (void)number;
  return calculate('/', args);
}

static DMI_ox_function_t operation(char op) {
  return op == '+' ? add : op == '-' ? subtract : op == '*' ? multiply : divide;
}

/* ---- Names ----------------------------------------------------------------------------------- */

DMI_ox_function_t dmi_ox_function_find(const char *name) {
  DMI_ox_function_t function = NULL;
  if (strchr("+-*/", name[0]) != NULL && name[0] != '\0') return operation(name[0]);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < num; i++)
    if (strcmp(functions[i].name, name) == 0) function = functions[i].function;
  pthread_mutex_unlock(&lock);
  return function;
}

bool dmi_ox_function_known(const char *name) {
  return dmi_ox_value_is_name(name) && dmi_ox_function_find(name) != NULL;
}

int32_t DMI_ox_function(const char *name, DMI_ox_function_t function) {
  if (name == NULL || function == NULL || !dmi_ox_value_is_name(name) ||
      strncmp(name, "ox_", 3) == 0)
    return DMI_FALSE;
  pthread_mutex_lock(&lock);
  size_t at = 0;
  while (at < num && strcmp(functions[at].name, name) != 0)
    at++;
  if (at == num) {
    size_t len = strlen(name) + 1;
    functions = dmi_ox_grow(functions, num, &room, sizeof functions[0]);
    functions[at].name = dmi_ox_alloc(len);
    memcpy(functions[at].name, name, len);
    num++;
  }
  functions[at].function = function;
  pthread_mutex_unlock(&lock);
  return DMI_TRUE;
}
