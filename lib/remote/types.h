/*
 * types.h - what the machines of remote functions speak of: clients, calls, values, failures
 * (docs/remote.md).
 *
 * A name {client, number} is of a value, not of memory: it is given once, by the client, and a
 * value never changes.  Numbers of calls and of values come from one counter of the client.
 */
#ifndef DMI_REMOTE_TYPES_H
#define DMI_REMOTE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

/* A client: the n-th of its process, never used again. */
typedef struct {
  dmi_uid_t process;
  uint32_t n;
} dmi_remote_client_t;

static inline bool dmi_remote_client_is(dmi_remote_client_t a, dmi_remote_client_t b) {
  return a.process == b.process && a.n == b.n;
}

/* Why a value is failed.  Made by dmi_remote_why_new; each machine counts its own references, so an
 * object must not be given to machines under different locks. */
struct dmi_remote_why {
  uint32_t refs;
  int32_t error; /* DMI_E*: DMI_EREMOTE, or what the machine found (DMI_ENOMEM, DMI_ELOST) */
  const char *function, *host, *sentence; /* of the call that failed first; never NULL */
};

/* With one reference, the caller's.  The texts are copied; NULL: "". */
struct dmi_remote_why *dmi_remote_why_new(int32_t error, const char *function, const char *host,
                                          const char *sentence);
/* The inputs and outputs of a call do not fit together. */
struct dmi_remote_why *dmi_remote_why_large(uint64_t bytes);
/* So many servers were lost with the call. */
struct dmi_remote_why *dmi_remote_why_fatal(const char *function, uint32_t losses, uint64_t call);
struct dmi_remote_why *dmi_remote_why_hold(struct dmi_remote_why *why);
void dmi_remote_why_release(struct dmi_remote_why *why); /* NULL: nothing */

enum dmi_remote_state {
  DMI_REMOTE_PENDING, /* a call is to make it */
  DMI_REMOTE_DONE,    /* its bytes are at addr */
  DMI_REMOTE_FAILED   /* there will be none: why */
};

/* What is known of a value. */
struct dmi_remote_result {
  enum dmi_remote_state state;
  int64_t addr;               /* DONE: global address */
  uint64_t size;              /* DONE: bytes; PENDING: at most so many, or 0 if that is not known */
  struct dmi_remote_why *why; /* FAILED; a reference of whoever has the struct, unless said */
};

struct dmi_remote_input {
  uint64_t number;
  uint32_t gen;                /* see struct dmi_remote_call; of the call that made it */
  struct dmi_remote_result at; /* PENDING: a HAVE will come, or it is made in the same pool */
  bool last; /* nobody else needs it, nor will: the call may have its memory for an output */
};

struct dmi_remote_output {
  uint64_t number;
  bool spare;                  /* done again: this output is there, and is not to be made */
  struct dmi_remote_result at; /* PENDING, with the size at most */
};

/* Flags of a call. */
#define DMI_REMOTE_PINNED 1u  /* it was issued for this server, and is not stolen */
#define DMI_REMOTE_LATE 2u    /* its inputs are fetched only when there is a core for it */
#define DMI_REMOTE_SUSPECT 4u /* a server was lost that may have run it: FIRED before it runs */
#define DMI_REMOTE_ALONE 8u   /* more were: it does not run beside another call */

/* A call, as a CALL says it.  What function and args mean only the runtime knows: positions of
 * arguments, values by copy. */
struct dmi_remote_call {
  dmi_remote_client_t client;
  uint64_t number;
  uint64_t seq;      /* this is so manyth CALL from the client to this server, from 1 */
  uint64_t function; /* not looked at by the machines */
  uint32_t gen;      /* 1; one more each time that it is done again after a loss */
  uint32_t flags;    /* DMI_REMOTE_PINNED, _LATE, _SUSPECT, _ALONE */
  uint32_t input_num, output_num;
  struct dmi_remote_input *inputs;   /* the same value may be there twice */
  struct dmi_remote_output *outputs; /* numbers ascend; no input is between them */
  uint64_t arg_size;                 /* bytes at args */
  const void *args;                  /* not looked at */
};

/* How much a server has to do, for one client: said in each message that carries DONE or RETURN. */
struct dmi_remote_load {
  uint32_t ready;   /* calls of this client that it could run, had it more cores: worth a STEAL */
  uint32_t foreign; /* calls of other clients that it has */
  uint64_t rate;    /* bytes of inputs that reach it in a microsecond; 0: not known */
};

/* A server, as SERVES says it. */
struct dmi_remote_server {
  dmi_uid_t uid;
  uint32_t cores; /* at least 1 */
  uint64_t
      limit; /* bytes: inputs and outputs of one call that do not fit are refused there; 0: any */
};

#endif
