/*
 * compile.c - the command language: see text.h.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"
#include "ox/text.h"

struct reader {
  struct dmi_ox_program *program;
  const char *at, *end; /* `end` points to a byte 0 */
  int32_t depth;        /* more nesting that is allowed */
  uint64_t most;        /* bytes of the program */
  const char *why;      /* NULL: no mistake so far */
};

void dmi_ox_program_add(struct dmi_ox_program *program, struct dmi_ox_step step) {
  program->at = dmi_ox_grow(program->at, program->num, &program->room, sizeof program->at[0]);
  program->at[program->num++] = step;
  program->used += sizeof step + (step.value != NULL ? step.value->size : 0);
}

void dmi_ox_program_free(struct dmi_ox_program *program) {
  for (size_t i = 0; i < program->num; i++)
    DMI_ox_drop(program->at[i].value);
  free(program->at);
  *program = (struct dmi_ox_program){0};
}

static void mistake(struct reader *r, const char *why) {
  if (r->why == NULL) r->why = why;
}

static void add_step(struct reader *r, struct dmi_ox_step step) {
  dmi_ox_program_add(r->program, step);
  if (r->program->used > r->most) mistake(r, DMI_OX_TOO_LARGE);
}

static void add(struct reader *r, enum dmi_ox_step_kind kind, int32_t num,
                struct dmi_ox_value *value) {
  add_step(r, (struct dmi_ox_step){.kind = kind, .num = num, .value = value});
}

static void add_op(struct reader *r, char op) {
  add_step(r, (struct dmi_ox_step){.kind = DMI_OX_STEP_OP, .op = op});
}

/* The next character that is no space; 0 at the end. */
static char next(struct reader *r) {
  while (r->at < r->end && isspace((unsigned char)*r->at))
    r->at++;
  return r->at < r->end ? *r->at : '\0';
}

static bool accept(struct reader *r, char c) {
  if (next(r) != c || c == '\0') return false;
  r->at++;
  return true;
}

static void expect(struct reader *r, char c, const char *why) {
  if (!accept(r, c)) mistake(r, why);
}

static struct dmi_ox_value *read_name(struct reader *r) {
  const char *from = r->at;
  while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_'))
    r->at++;
  return DMI_ox_from_string(from, r->at - from);
}

static void read_number(struct reader *r) {
  const char *from = r->at;
  bool exact = true;
  while (isdigit((unsigned char)*r->at))
    r->at++;
  if (*r->at == '.' || *r->at == 'e' || *r->at == 'E') {
    char *end;
    double number = strtod(from, &end);
    exact = end == r->at; /* what is behind the digits does not belong to them */
    if (!exact) {
      r->at = end;
      add(r, DMI_OX_STEP_PUSH, 0, DMI_ox_from_double(number));
    }
  }
  if (exact) {
    struct dmi_ox_value *digits = DMI_ox_from_string(from, r->at - from);
    add(r, DMI_OX_STEP_PUSH, 0, DMI_ox_from_digits(digits->bytes.at));
    DMI_ox_drop(digits);
  }
}

static void read_string(struct reader *r) {
  struct dmi_ox_bytes out = {0};
  r->at++;
  while (r->at < r->end && *r->at != '"') {
    char c = *r->at++;
    if (c == '\\' && r->at < r->end) {
      c = *r->at++;
      if (c == 'n') c = '\n';
    }
    dmi_ox_bytes_put(&out, &c, 1);
  }
  expect(r, '"', "a string has no end");
  add(r, DMI_OX_STEP_PUSH, 0, DMI_ox_from_string((char *)out.at, (int64_t)out.len));
  dmi_ox_bytes_free(&out);
}

static void read_sum(struct reader *r);

/* Values up to a closing bracket; returns their number. */
static int32_t read_sums(struct reader *r, char close) {
  int32_t num = 0;
  if (accept(r, close)) return 0;
  do {
    read_sum(r);
    num++;
  } while (r->why == NULL && accept(r, ','));
  expect(r, close, "a bracket is not closed");
  return num;
}

static void read_item(struct reader *r) {
  char c = next(r);
  if (isdigit((unsigned char)c)) {
    read_number(r);
  } else if (c == '"') {
    read_string(r);
  } else if (isalpha((unsigned char)c) || c == '_') {
    struct dmi_ox_value *name = read_name(r);
    bool call = accept(r, '(');
    int32_t num = call ? read_sums(r, ')') : 0;
    add(r, call ? DMI_OX_STEP_CALL : DMI_OX_STEP_GET, num, name);
  } else if (accept(r, '[')) {
    add(r, DMI_OX_STEP_LIST, read_sums(r, ']'), NULL);
  } else if (accept(r, '(')) {
    read_sum(r);
    expect(r, ')', "a bracket is not closed");
  } else {
    mistake(r, "a value is missing");
  }
}

static void read_sign(struct reader *r) {
  bool minus = false;
  while (accept(r, '-'))
    minus = !minus;
  if (minus) add(r, DMI_OX_STEP_PUSH, 0, DMI_ox_null());
  read_item(r);
  if (minus) add_op(r, '-');
}

static void read_product(struct reader *r) {
  read_sign(r);
  while (r->why == NULL && (next(r) == '*' || next(r) == '/')) {
    char op = *r->at++;
    read_sign(r);
    add_op(r, op);
  }
}

static void read_sum(struct reader *r) {
  if (r->why != NULL) return;
  if (r->depth-- <= 0) {
    mistake(r, "brackets are nested too deep");
    return;
  }
  read_product(r);
  while (r->why == NULL && (next(r) == '+' || next(r) == '-')) {
    char op = *r->at++;
    read_product(r);
    add_op(r, op);
  }
  r->depth++;
}

static void read_command(struct reader *r) {
  const char *from = r->at;
  char c = next(r);
  if (isalpha((unsigned char)c) || c == '_') {
    struct dmi_ox_value *name = read_name(r);
    if (accept(r, '=')) {
      read_sum(r);
      add(r, DMI_OX_STEP_SET, 0, name);
      return;
    }
    DMI_ox_drop(name);
    r->at = from;
  }
  read_sum(r);
}

bool dmi_ox_text_compile(struct dmi_ox_program *program, const char *text, size_t len,
                         int32_t depth, uint64_t most, const char **why, size_t *where) {
  struct reader r = {
      .program = program, .at = text, .end = text + len, .depth = depth, .most = most};
  bool first = true;
  while (r.why == NULL && next(&r) != '\0') {
    if (accept(&r, ';')) continue;
    if (!first) add(&r, DMI_OX_STEP_POP, 0, NULL);
    first = false;
    read_command(&r);
    if (next(&r) != '\0' && next(&r) != ';') mistake(&r, "an operator is missing");
  }
  if (r.why == NULL && r.at < r.end) mistake(&r, "a byte 0 is in the text");
  if (r.why == NULL) return true;
  *why = r.why;
  *where = (size_t)(r.at - text);
  dmi_ox_program_free(program);
  return false;
}
