/*
 * dmi_ox.h - a server for OpenXM clients (RFC-100 and RFC-102): a program registers functions, and
 * serves clients that push values, call the functions, and fetch results.  Included beside
 * dmi_api.h; link with -ldmiox.
 *
 *     static DMI_ox_value_t *add(DMI_ox_value_t *const *args, int64_t num) {
 *       int64_t a, b;
 *       if (num != 2 || !DMI_ox_to_int64(args[0], &a) || !DMI_ox_to_int64(args[1], &b))
 *         return DMI_ox_error("add: two integers, please");
 *       return DMI_ox_from_int64(a + b);
 *     }
 *
 *     DMI_ox_function("add", add);
 */
#ifndef DMI_OX_H
#define DMI_OX_H

#include "dmi_api.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- Values of OpenXM (chapter 3, "creating and joining threads") ---- */

/* A value: a number, a string, a list of values.  It never changes.  It is counted who uses it:
 * the functions that make one return one use, DMI_ox_keep adds one, DMI_ox_drop ends one. */
typedef struct dmi_ox_value DMI_ox_value_t;

/* What DMI_ox_kind returns: the numbers of the types on the wire. */
#define DMI_OX_NULL 1
#define DMI_OX_INT32 2
#define DMI_OX_BYTES 3
#define DMI_OX_STRING 4
#define DMI_OX_MATHCAP 5
#define DMI_OX_LIST 17
#define DMI_OX_INTEGER 20
#define DMI_OX_RATIONAL 21
#define DMI_OX_ZERO 22
#define DMI_OX_DOUBLES 41
#define DMI_OX_DOUBLE 51
#define DMI_OX_ERROR 0x7f000002

/*
 * Adds a use of a value, and returns it.
 *
 * Return value: the value.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_keep(DMI_ox_value_t *value);

/*
 * Ends a use of a value; with the last one its memory is freed.  NULL is nothing.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
void DMI_ox_drop(DMI_ox_value_t *value);

/*
 * Makes the value NULL, which is also what clients take for the number 0.
 *
 * Return value: the value.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_null(void);

/*
 * Makes an integer; of 0 the value NULL, as clients do.
 *
 * Return value: the value.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_from_int64(int64_t number);

/*
 * Makes a double: a number of 64 bits with a point.
 *
 * Return value: the value.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_from_double(double number);

/*
 * Makes an integer or a rational of any size from its digits: `-12`, `22/7`.
 *
 * Return value: the value; NULL when the text is no number, or the denominator is 0.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_from_digits(const char *digits);

/*
 * Makes a string of `size` bytes.
 *
 * Return value: the value; NULL when `size` is negative, or more than 2^31 - 1.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_from_string(const char *bytes, int64_t size);

/*
 * Makes a list of `num` values, and takes over one use of each.
 *
 * Return value: the value; NULL, with all of them dropped, when `num` is negative or more than
 * 2^31 - 1, one of them is NULL, or lists would be nested more than 10,000 deep.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_list(DMI_ox_value_t *const *values, int64_t num);

/*
 * Makes an error with a text.  A client that calls a function which returns it gets it with the
 * number of the message that called.
 *
 * Return value: the value.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_error(const char *text);

/*
 * Says of what type a value is.
 *
 * Return value: DMI_OX_NULL, DMI_OX_INT32, or another one of these.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_kind(const DMI_ox_value_t *value);

/*
 * Gives the integer that a value is: NULL and ZERO are 0.
 *
 * Return value: DMI_TRUE; DMI_FALSE when it is no integer, or needs more than 64 bits.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_to_int64(const DMI_ox_value_t *value, int64_t *number_ptr);

/*
 * Gives a number as a double, rounded towards zero when it is exact.
 *
 * Return value: DMI_TRUE; DMI_FALSE when it is no number.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_to_double(const DMI_ox_value_t *value, double *number_ptr);

/*
 * Gives a value as text, as the command language of the server writes it.  A string is itself.
 *
 * Return value: the text, to be freed with free().
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
char *DMI_ox_to_text(const DMI_ox_value_t *value);

/*
 * Gives the bytes of a string, or of DMI_OX_BYTES; behind them is a byte 0.
 *
 * Return value: the bytes, which belong to the value; NULL when it is neither.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
const char *DMI_ox_bytes(const DMI_ox_value_t *value, int64_t *size_ptr);

/*
 * Gives the number of items of a list.
 *
 * Return value: the number; -1 when it is no list.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int64_t DMI_ox_length(const DMI_ox_value_t *value);

/*
 * Gives an item of a list; the first one is 0.
 *
 * Return value: the item, whose use belongs to the list; NULL when there is none.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
DMI_ox_value_t *DMI_ox_item(const DMI_ox_value_t *value, int64_t index);

/*
 * Tells how many bytes a value takes, as they are counted against the limits of a session: with
 * all its items; each item of a list has 8 more.
 *
 * Return value: the bytes.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int64_t DMI_ox_size(const DMI_ox_value_t *value);

/* ---- A server for OpenXM clients (chapter 3, "creating and joining threads") ---- */

/* A function for clients: it gets its arguments, which stay the caller's, and returns a value, of
 * which it gives away one use; NULL is taken for the value NULL. */
typedef DMI_ox_value_t *(*DMI_ox_function_t)(DMI_ox_value_t *const *args, int64_t num);

/*
 * Registers a function under a name that clients call.  A second one with the same name replaces
 * the first.
 *
 * Each call runs in a thread of its own, several clients' calls at a time.  If it calls
 * pthread_exit instead of returning its client gets an error.
 *
 * Return value: DMI_TRUE; DMI_FALSE when the name is no name (a letter or `_`, then letters, digits
 * and `_`), or begins with `ox_`, which is kept for the server's own; or `function` is NULL.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_function(const char *name, DMI_ox_function_t function);

/*
 * Says to a function whether its client has gone, or does not want the result any more.  A long
 * function asks now and then, and returns anything when it is so.
 *
 * Return value: DMI_TRUE when nobody waits for the result; DMI_FALSE also outside of a call.
 *
 * Threads: the thread that runs the function.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_interrupted(void);

/*
 * Tells how many bytes the result of this call may take (DMI_ox_size): all values of a session
 * together may have so many.  A function whose result may be much larger than its arguments asks
 * before it makes it.
 *
 * Return value: the bytes; outside of a call 2^63 - 1.
 *
 * Threads: the thread that runs the function.  (Not in the manual; chapter 3.)
 */
int64_t DMI_ox_room(void);

/* How a server is started.  Set all bytes to zero, and then what is wanted. */
typedef struct {
  const char *control;  /* [ADDR:]PORT of control connections; ADDR: 127.0.0.1; PORT 0: any */
  const char *data;     /* the same of data connections; NULL: the same port */
  const char *reverse;  /* HOST: connects there, to both ports, instead of listening */
  const char *password; /* what both connections begin with, for one session; NULL: nothing */
  const char *status;   /* after accept, connect: "auto" (NULL), "rfc", "asir" */
  const char *order;    /* "little" (NULL), "network" */
  int64_t max_message;  /* bytes of one message when decoded; 0: 256 MiB */
  int64_t max_stack;    /* bytes of all values of a session; 0: 1 GiB */
  int32_t max_depth;    /* of nested lists; 0: 1,000; at most 10,000 */
  int32_t max_sessions; /* at a time; 0: 64 */
  int32_t max_calls;    /* of functions that run at a time; 0: 1,024 */
  /* These may be NULL. */
  /* It listens, at these addresses: ADDR:PORT.  Not called again. */
  void (*listens)(const char *control, const char *data, void *arg);
  int32_t (*begins)(void *arg); /* a call begins, in its thread; DMI_FALSE: it is not made */
  void (*ends)(void *arg);      /* its function has returned; the same thread */
  void *arg;                    /* for these */
} DMI_ox_options_t;

/* A server that runs.  A local object. */
typedef struct DMI_ox_server_t DMI_ox_server_t;

/*
 * Starts a server: a thread that listens, and serves any number of clients at a time.
 *
 * Return value: DMI_TRUE; DMI_FALSE with a reason in `why`, of at most `size` bytes.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_ox_start(DMI_ox_server_t **server_ptr, const DMI_ox_options_t *options, char *why,
                     int64_t size);

/*
 * Waits until a server that has to end has done so: one that has connected to a client
 * (`reverse`) or has a password ends with its session, each one when DMI_ox_stop is called.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
void DMI_ox_wait(DMI_ox_server_t *server);

/*
 * Ends a server: its sessions are closed.  DMI_ox_wait returns, and must be called before the
 * server is freed by DMI_ox_free.
 *
 * Threads: any; may be called in a handler of a signal.  (Not in the manual; chapter 3.)
 */
void DMI_ox_stop(DMI_ox_server_t *server);

/*
 * Frees a server that has ended.  It waits for functions that still run.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
void DMI_ox_free(DMI_ox_server_t *server);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
