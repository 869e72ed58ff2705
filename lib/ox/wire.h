/*
 * wire.h - the numbers of OpenXM: messages, types of values, commands, errors.
 */
#ifndef DMI_OX_WIRE_H
#define DMI_OX_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* The first word of a message. */
enum dmi_ox_tag {
  DMI_OX_FAULT = 0, /* of a decoder: what came is no message */
  DMI_OX_COMMAND = 513,
  DMI_OX_DATA = 514,
  DMI_OX_SYNC_BALL = 515,
  DMI_OX_NOTIFY = 516
};

/* Types of values that dmi_ox.h does not name: a double under its older number. */
#define DMI_OX_DOUBLE_64 40

/* Commands of the data connection. */
enum dmi_ox_command {
  DMI_OX_POP_SERIALIZED = 258,
  DMI_OX_POP_CMO = 262,
  DMI_OX_POP_STRING = 263,
  DMI_OX_MATHCAP_ASK = 264,
  DMI_OX_POPS = 265,
  DMI_OX_SET_NAME = 266,
  DMI_OX_EVAL_NAME = 267,
  DMI_OX_EXECUTE_STRING = 268,
  DMI_OX_EXECUTE_FUNCTION = 269,
  DMI_OX_BEGIN_BLOCK = 270,
  DMI_OX_END_BLOCK = 271,
  DMI_OX_SHUTDOWN = 272,
  DMI_OX_SET_MATHCAP = 273,
  DMI_OX_EXECUTE_BATCH = 274,
  DMI_OX_GET_SP = 275,
  DMI_OX_DUP_ERRORS = 276,
  DMI_OX_PUSH_TAG = 277,
  DMI_OX_SET_RANK = 278,
  DMI_OX_TCP_ACCEPT = 279,
  DMI_OX_TCP_CONNECT = 280,
  DMI_OX_RESET_LINKS = 281,
  DMI_OX_BCAST = 282,
  DMI_OX_REDUCE = 283,
  DMI_OX_NOP = 300,
  DMI_OX_EXECUTE_SYNC = 400,
  /* Of the control connection. */
  DMI_OX_KILL = 1024,
  DMI_OX_INTERRUPT = 1025,
  DMI_OX_RESET_SERVER = 1029,
  DMI_OX_RESET = 1030
};

/* Numbers of errors: the second item of an ERROR2. */
enum dmi_ox_code {
  DMI_OX_E_MALFORMED = 1, /* not a message, or not a value */
  DMI_OX_E_TYPE = 2,      /* a type of values that is not known */
  DMI_OX_E_COMMAND = 3,   /* a command that is not known */
  DMI_OX_E_LIMIT = 4,     /* too large, too deep, too many */
  DMI_OX_E_ARGUMENT = 5,  /* not what the command needs on the stack */
  DMI_OX_E_NAME = 6,      /* no function, or variable, of this name */
  DMI_OX_E_SYNTAX = 7,    /* a text that is no command */
  DMI_OX_E_LINK = 8,      /* no link to a rank, or it ended */
  DMI_OX_E_INTERRUPTED = 9,
  DMI_OX_E_FUNCTION = 10 /* a registered function returned it */
};

/* True for the commands above: of the control connection, or of the other one. */
bool dmi_ox_command_known(int32_t code, bool control);

/* What one session may use. */
struct dmi_ox_limits {
  uint64_t message; /* bytes of one message when decoded */
  uint64_t stack;   /* bytes of the values on the stack and with names */
  uint64_t queue;   /* bytes that wait to be sent to a peer before a command waits for them */
  int32_t depth;    /* of nested lists */
};

#define DMI_OX_DEPTH_MAX 10000 /* values are walked by recursion */

#endif
