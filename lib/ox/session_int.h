/*
 * session_int.h - what the files of a session share: session.c (streams, the loop), command.c (the
 * stack), run.c (texts and functions), group.c (ranks and links), control.c (resets).
 */
#ifndef DMI_OX_SESSION_INT_H
#define DMI_OX_SESSION_INT_H

#include <uthash.h>

#include "ox/decode.h"
#include "ox/memory.h"
#include "ox/session.h"
#include "ox/text.h"

#define DMI_OX_LONG ((uint64_t)64 << 10) /* bytes of operands from which on a thread calculates */

enum dmi_ox_stream_state {
  DMI_OX_OPENING, /* of a link: there is no connection yet */
  DMI_OX_ORDER,   /* the other's order of bytes has not come */
  DMI_OX_OPEN,
  DMI_OX_ENDED /* the other has closed; what it sent before may still be here */
};

struct dmi_ox_stream {
  uint32_t id;
  enum dmi_ox_stream_state state;
  int32_t rank;  /* of a link: the peer's */
  uint32_t base; /* of a link: 281 that came before it was made (link.c) */
  uint32_t seen; /* of a link to a lower rank: round of the last ball, modulo 256 */
  bool little;
  struct dmi_ox_decoder decoder;
  struct dmi_ox_bytes in; /* came */
  size_t from;            /* what is decoded of it */
  uint64_t queued;        /* bytes to be sent that are not written */
};

/* What a command does that may have to wait: tried again whenever something has come. */
enum dmi_ox_op_kind {
  DMI_OX_OP_NONE,
  DMI_OX_OP_OPEN, /* accept, connect: until link id is open or failed */
  DMI_OX_OP_SEND,
  DMI_OX_OP_RECV,
  DMI_OX_OP_BCAST,
  DMI_OX_OP_REDUCE,
  DMI_OX_OP_RESET_LINKS,
  DMI_OX_OP_CALL /* until call id has returned */
};

struct dmi_ox_op {
  enum dmi_ox_op_kind kind;
  int32_t rank;                /* SEND, RECV: the other; RESET_LINKS: lower ones are done */
  int32_t root;                /* BCAST, REDUCE */
  int64_t mask;                /* BCAST, REDUCE: where in the tree */
  bool sends;                  /* BCAST: has its data; RESET_LINKS: has those of all lower ranks */
  uint32_t reads;              /* the link that it waits to read; 0: none */
  uint32_t id;                 /* OPEN: the link, REDUCE, CALL: the call; 0 none */
  struct dmi_ox_value *data;   /* SEND, BCAST, REDUCE */
  struct dmi_ox_value *name;   /* REDUCE: the operation, a string */
  struct dmi_ox_value *result; /* of a call that has returned */
  struct dmi_ox_value *failed; /* BCAST: could not be sent to all; OPEN: why */
};

/* A text or a function that runs: its op may be waited for. */
struct dmi_ox_run {
  bool is;    /* there is one */
  bool batch; /* nothing is pushed */
  struct dmi_ox_program program;
  size_t at; /* the next step */
  struct dmi_ox_value **values;
  size_t num, room;
  uint64_t
      used; /* bytes of the program and the values; together with the stack's below its limit */
};

struct dmi_ox_variable {
  UT_hash_handle hh; /* by name */
  struct dmi_ox_value *value;
  char name[];
};

struct dmi_ox_session {
  struct dmi_ox_settings settings;
  bool (*known)(const char *name);
  bool ended;
  bool asir;          /* the client's mathcap says so */
  bool doubles_64;    /* it lists type 40 */
  bool yields;        /* AGAIN was asked for */
  uint64_t balls;     /* SYNC_BALLs that the client still owes: data is discarded */
  uint64_t unsent;    /* SYNC_BALLs for the client: they wait while it does not read */
  uint32_t serial;    /* of the next message of ours */
  uint32_t command;   /* the serial of the command that is being carried out */
  uint32_t next_link; /* ids */
  uint32_t next_call;
  struct dmi_ox_stream control, data;
  struct dmi_ox_stream **links;
  size_t num_links, room_links;
  struct dmi_ox_value **stack;
  size_t num, room;
  uint64_t used;  /* bytes of the values on the stack and with names */
  size_t *blocks; /* heights of the stack at BEGIN_BLOCK */
  size_t num_blocks, room_blocks;
  struct dmi_ox_variable *variables; /* a hash table */
  int32_t nserver, rank;
  uint32_t rounds; /* 281 that came, also those that a reset has discarded */
  struct dmi_ox_op op;
  struct dmi_ox_run run;
  struct dmi_ox_action *actions;
  size_t num_actions, first_action, room_actions;
};

/* ---- session.c ---- */
struct dmi_ox_action *dmi_ox_session_act(struct dmi_ox_session *s, enum dmi_ox_act act,
                                         uint32_t id);
/* Takes over the bytes. */
void dmi_ox_session_put(struct dmi_ox_session *s, struct dmi_ox_stream *stream,
                        struct dmi_ox_bytes bytes);
struct dmi_ox_stream *dmi_ox_session_stream(struct dmi_ox_session *s, uint32_t id);
/* The next message of a stream, if one is here. */
bool dmi_ox_stream_message(struct dmi_ox_stream *stream, struct dmi_ox_message *message);
void dmi_ox_stream_free(struct dmi_ox_stream *stream);
void dmi_ox_session_end(struct dmi_ox_session *s);

/* ---- stack.c ---- */
/* Push takes over a use; an error in its place when the stack is full. */
void dmi_ox_stack_push(struct dmi_ox_session *s, struct dmi_ox_value *value);
void dmi_ox_stack_error(struct dmi_ox_session *s, enum dmi_ox_code code, const char *why);
/* Gives away a use; of an empty stack NULL, the value. */
struct dmi_ox_value *dmi_ox_stack_pop(struct dmi_ox_session *s);
bool dmi_ox_stack_pop_int32(struct dmi_ox_session *s, int32_t *number);
struct dmi_ox_value *dmi_ox_stack_variable(struct dmi_ox_session *s,
                                           const char *name); /* or NULL */
/* Takes over a use of the value; false when there is no room. */
bool dmi_ox_stack_set(struct dmi_ox_session *s, const char *name, struct dmi_ox_value *value);
void dmi_ox_stack_free(struct dmi_ox_session *s);

/* ---- command.c ---- */
void dmi_ox_command_run(struct dmi_ox_session *s, uint32_t serial, int32_t code);

/* ---- run.c ---- */
void dmi_ox_run_text(struct dmi_ox_session *s, bool batch);
void dmi_ox_run_function(struct dmi_ox_session *s);
/* One step; returns how much work that was: 1, and more for large values. */
uint64_t dmi_ox_run_step(struct dmi_ox_session *s);
void dmi_ox_run_forget(struct dmi_ox_session *s);
/* An op is complete: its value, or NULL for nothing, to the text or to the stack. */
void dmi_ox_run_result(struct dmi_ox_session *s, struct dmi_ox_value *value);
/* Asks for a call; returns its number. Takes over both. */
uint32_t dmi_ox_run_call(struct dmi_ox_session *s, struct dmi_ox_value *name,
                         struct dmi_ox_value *args);

/* ---- group.c, link.c ---- */
void dmi_ox_group_command(struct dmi_ox_session *s, int32_t code);
/* A function of the server's own: begins its op, or returns false and why. */
bool dmi_ox_group_call(struct dmi_ox_session *s, const char *name, struct dmi_ox_value **args,
                       int32_t num, const char **why);
/* Goes on with the op; false when it has to wait. */
bool dmi_ox_group_step(struct dmi_ox_session *s);
void dmi_ox_group_forget(struct dmi_ox_session *s);

enum dmi_ox_moved { DMI_OX_MOVED, DMI_OX_WAITS, DMI_OX_FAILED };
/* FAILED: `*value` is an error. */
enum dmi_ox_moved dmi_ox_link_receive(struct dmi_ox_session *s, int32_t rank,
                                      struct dmi_ox_value **value);
enum dmi_ox_moved dmi_ox_link_send(struct dmi_ox_session *s, int32_t rank,
                                   const struct dmi_ox_value *value, struct dmi_ox_value **error);
struct dmi_ox_stream *dmi_ox_link_find(struct dmi_ox_session *s, int32_t rank);
void dmi_ox_link_command(struct dmi_ox_session *s, bool accept);
/* Of an op OPEN that is given up: it is no link any more. */
void dmi_ox_link_remove(struct dmi_ox_session *s, struct dmi_ox_stream *link);
bool dmi_ox_link_opened(struct dmi_ox_session *s);
/* RESET_LINKS; false when it has to wait. */
bool dmi_ox_link_reset(struct dmi_ox_session *s);

/* ---- control.c ---- */
/* Sends SYNC_BALLs that wait, if it can. */
void dmi_ox_control_balls(struct dmi_ox_session *s);
void dmi_ox_control_message(struct dmi_ox_session *s, const struct dmi_ox_message *message);

#endif
