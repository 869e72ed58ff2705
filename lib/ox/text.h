/*
 * text.h - values as texts, and the command language of SM_executeStringByLocalParser.  Pure.
 *
 *   commands: [ command { ; command } [ ; ] ]
 *   command:  [ NAME = ] sum
 *   sum:      product { + | - product }
 *   product:  sign { * | / sign }
 *   sign:     { - } item
 *   item:     INTEGER | DOUBLE | "STRING" | NAME | NAME ( sums ) | [ sums ] | ( sum )
 *   sums:     [ sum { , sum } ]
 *
 * A text is compiled to a row of small steps for a machine with a stack, so that a call in the
 * middle of it can wait for a peer or for a thread (run.c).
 */
#ifndef DMI_OX_TEXT_H
#define DMI_OX_TEXT_H

#include "ox/value.h"

enum dmi_ox_step_kind {
  DMI_OX_STEP_PUSH, /* value */
  DMI_OX_STEP_LIST, /* of num values */
  DMI_OX_STEP_CALL, /* the function value (a string), with num values */
  DMI_OX_STEP_GET,  /* the variable value */
  DMI_OX_STEP_SET,  /* it, to the last value, which stays */
  DMI_OX_STEP_OP,   /* op of the last two */
  DMI_OX_STEP_POP
};

struct dmi_ox_step {
  enum dmi_ox_step_kind kind;
  int32_t num;
  char op;
  struct dmi_ox_value *value; /* one use */
};

struct dmi_ox_program {
  struct dmi_ox_step *at;
  size_t num, room;
  uint64_t used; /* bytes of the steps and their values */
};

#define DMI_OX_TOO_LARGE "the text is too large for the session"

/* Compiles a text to at most `most` bytes of steps; false, and why and at which byte, when it is
 * none, or it needs more. */
bool dmi_ox_text_compile(struct dmi_ox_program *program, const char *text, size_t len,
                         int32_t depth, uint64_t most, const char **why, size_t *where);
void dmi_ox_program_add(struct dmi_ox_program *program, struct dmi_ox_step step);
void dmi_ox_program_free(struct dmi_ox_program *program);

#endif
