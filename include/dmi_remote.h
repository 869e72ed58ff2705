/*
 * dmi_remote.h - remote functions whose data stays where it is: a sequential program calls
 * functions that run in other processes, and waits only where it looks at a result.  Included
 * beside dmi_api.h; its conventions hold here too.
 *
 *     DMI_REMOTE(add) {
 *       int64_t size;
 *       const double *a = DMI_remote_in(call, 0, &size), *b = DMI_remote_in(call, 1, NULL);
 *       double *c = DMI_remote_out(call, 2, NULL);
 *       for (int64_t i = 0; i < size / (int64_t)sizeof(double); i++)
 *         c[i] = a[i] + b[i];
 *     }
 *
 *     DMI_call(client, add, DMI_IN(a), DMI_IN(b), DMI_OUT(&c, size));
 */
#ifndef DMI_REMOTE_H
#define DMI_REMOTE_H

#include "dmi_api.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- Clients of remote functions (chapter 3, "creating and joining threads") ---- */

/* A client: it issues calls, and knows which data there are.  A local object, of the process that
 * has opened it.  Do not use it after DMI_client_close. */
typedef struct DMI_client_t DMI_client_t;

/* What a client does otherwise than usual.  Set all bytes to zero, and then what is wanted. */
typedef struct {
  int32_t own_poll;   /* 1: the program calls DMI_poll itself, welcomes and dismisses processes */
  int32_t processes;  /* DMI_client_open returns when so many serve; 0: 1; with own_poll: none */
  int64_t call_bytes; /* of calls that are not done, with their values; 0: 64 MiB */
  int32_t late_fetch; /* 1: inputs are not fetched ahead, but when a core is free for the call */
} DMI_client_options_t;

/*
 * Opens a client.  From now on all processes that are welcome serve it: each runs as many functions
 * at a time as it has cores.  The calling process is one of them.
 *
 * Unless the options say own_poll, or another client, DMI_farm_run or DMI_rescale of this process
 * does so already, a thread of the client handles all notices (DMI_poll) until it is closed: it
 * welcomes processes that ask to join, which then get work, and dismisses those that ask to leave,
 * which give back what they have not begun.  Notes of the program (DMI_notify) are kept, and said
 * again when it ends, by this process.  When it ends another client of this process that is open
 * takes that over; one also does so when DMI_farm_run or DMI_rescale has returned.  The
 * calling process itself stays until the client is closed, and is dismissed then if it has asked.
 * A client that is opened in a remote function never handles notices.
 *
 * `options` NULL is as all zero.
 *
 * Errors: DMI_EINVAL when `client_ptr` is NULL, or a number of the options is negative. DMI_ENOMEM.
 * DMI_ELEAVING when this process is leaving, or has left, unless the caller is a remote function.
 * DMI_EEND when the program is ending
 * (dmi_ext.h).
 *
 * Threads: any.  Any number of clients may be open, in any processes.  (Not in the manual; chapter
 * 3.)
 */
int32_t DMI_client_open(DMI_client_t **client_ptr, const DMI_client_options_t *options);

/*
 * Waits until all calls of the client are done or have failed, and closes it: all its data are
 * freed, in all processes.  From then on each use of it, or of its data, fails with DMI_EINVAL.
 *
 * A client that is still open when the thread that has opened it ends (DMI_main, DMI_thread, a
 * remote function) is closed then, and a warning says so.  Another one tells of calls that have
 * failed if none of their data was read, the first of them with its function and sentence.
 *
 * Errors: DMI_EINVAL when it is not open, or the calling remote function has not opened it.
 *
 * Threads: any, when no other uses the client.  (Not in the manual; chapter 3.)
 */
int32_t DMI_client_close(DMI_client_t *client);

/* ---- Data of remote functions (chapter 3, "creating and joining threads") ---- */

/* The name of a value: bytes that never change once they are there.  They stay in the process in
 * which they were made.  A local object, of the client that has made it; all zero: no value.
 * Copies of it are the same name. */
typedef struct {
  int64_t dmi_private[2];
} DMI_data_t;

/*
 * Makes a value of `size` bytes from `buf`, in this process, and gives it a name.  `buf` may be
 * used again when the call returns.
 *
 * Return value: the name; all zero when it fails, and DMI_errno() says why.
 *
 * Errors: DMI_EINVAL when the client is not open, the size is negative, or `buf` is NULL although
 * it is not 0.  DMI_ENOMEM.
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
DMI_data_t DMI_data_put(DMI_client_t *client, const void *buf, int64_t size);

/*
 * Reads `size` bytes from byte `offset` of a value on into `buf`: waits until the call is done that
 * makes it.  No other function of a client waits for that.  Size 0 waits, and reads nothing.
 *
 * With a `status`, `buf` must stay valid until DMI_wait or DMI_check has said that the read is
 * complete.  In a remote function the call itself waits, and the status is complete at once.
 *
 * Errors: DMI_EREMOTE when the call has failed that was to make it, or one on whose output that
 * depends: DMI_data_failure says why.  DMI_EINVAL when the client is not open, the value is not one
 * of it, or was dropped; for a negative size or offset, and a `buf` of NULL (unless the size is 0).
 * DMI_ERANGE when the range leaves the value.  DMI_ENOMEM.  DMI_ELOST when the value was lost with
 * a process, and cannot be made again: it was put (DMI_data_put) by a process that is lost, or the
 * program does not keep what is necessary.  DMI_EEND when the program is ending (dmi_ext.h).
 *
 * Threads: any thread of the process that has opened the client.  In a remote function it lets
 * another one run meanwhile.  (Not in the manual; chapter 3.)
 */
int32_t DMI_data_read(DMI_client_t *client, DMI_data_t data, void *buf, int64_t offset,
                      int64_t size, DMI_local_status_t *status);

/*
 * Gives a second name to a value, which has to be dropped, too.  So the value stays, although the
 * first name is given to DMI_INOUT or DMI_data_drop.  Nothing is copied.
 *
 * Return value: the name; all zero when it fails, and DMI_errno() says why.
 *
 * Errors: DMI_EINVAL when the client is not open, or the value is not one of it, or was dropped.
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
DMI_data_t DMI_data_copy(DMI_client_t *client, DMI_data_t data);

/*
 * Drops the name of a value.  When all its names are dropped, and no call needs it any more, its
 * memory is freed.  Calls that were issued with it before run as they would have.
 *
 * Errors: DMI_EINVAL when the client is not open, or the value is not one of it, or was dropped.
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
int32_t DMI_data_drop(DMI_client_t *client, DMI_data_t data);

#define DMI_SENTENCE_SIZE 1024 /* bytes of the sentence of a failure, with its final zero */

/* Why there is no value.  A local object. */
typedef struct {
  char hostname[IP_SIZE];           /* where the process runs in which it has failed */
  char function[IP_SIZE];           /* the remote function, or the first bytes of its name */
  char sentence[DMI_SENTENCE_SIZE]; /* why it has failed */
} DMI_failure_t;

/*
 * Tells why a value could not be made: waits until the call that makes it is done or has failed.
 * When it was not run because of another call that failed, *failure_ptr tells of that one.
 *
 * Errors: DMI_EADDR when the call has not failed: the value is there.  DMI_EINVAL when the client
 * is not open, the value is not one of it, or was dropped, or `failure_ptr` is NULL.  DMI_EEND when
 * the program is ending (dmi_ext.h).
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
int32_t DMI_data_failure(DMI_client_t *client, DMI_data_t data, DMI_failure_t *failure_ptr);

/* ---- Calls of remote functions (chapter 3, "creating and joining threads") ---- */

/* A call that runs: what a remote function gets. */
typedef struct DMI_remote_t DMI_remote_t;

/* What DMI_REMOTE defines. */
typedef void (*DMI_remote_function_t)(DMI_remote_t *call);

/* An argument of DMI_call: what DMI_IN, DMI_OUT, DMI_INOUT, DMI_VALUE and DMI_BYTES make.  Contents
 * are private. */
typedef struct {
  const struct dmi_arg_kind *dmi_kind; /* so that nothing else is taken for one */
  int64_t dmi_private[2];
} DMI_arg_t;

/*
 * Issues a call of a remote function, and returns at once: the function runs in some process when
 * all its inputs are there.  Calls run in any order that this allows, many at a time.  So a
 * function should only compute its outputs from its inputs and values: it may be run again when a
 * process is lost.  One that ends its process (a crash, exit) is named on that one's stderr.  When
 * the program survives that the call is run elsewhere, and fails when four processes were lost with
 * it, or three of all but the client's.
 *
 * Behind the function come its arguments, any number of these:
 * - DMI_IN(data): an input.  Data is a DMI_data_t of this client, whose value may not be there yet.
 * - DMI_OUT(&data, size): an output of `size` bytes, all zero when the function begins.  Data is
 *   given the name of the new value, whatever it was before.
 * - DMI_INOUT(&data): an input and an output.  Data is given the name of the new value, which has
 *   the bytes of the old one when the function begins; the old name is dropped.
 * - DMI_VALUE(x): the value of a variable or expression that is not an array.
 * - DMI_BYTES(ptr, size): these bytes, as they are now.
 * All bytes by value of a call together are at most 64 MiB: more are for DMI_data_put.
 *
 * The call chooses the process: where the inputs are, or reach soonest, and where calls have to
 * wait least.  It waits itself only when the client's calls have reached the bound of its options
 * (call_bytes).
 *
 * Errors: DMI_EINVAL when the client is not open, a value is not one of it or was dropped, a size
 * is negative, a pointer is NULL, the same data is given to DMI_INOUT and to another argument that
 * changes it, or there are more than 64 MiB by value.  DMI_ENOFUNC when the function was not
 * defined by DMI_REMOTE.  DMI_ENOMEM. DMI_EEND when the program is ending (dmi_ext.h).  After an
 * error no data was changed.
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
int32_t DMI_call(DMI_client_t *client, DMI_remote_function_t function, ...);

/*
 * Issues a call that is to run in process `dmi_id`, which may be another than DMI_call would
 * choose. When that process leaves or is lost before it has run the call, another one runs it.
 *
 * Errors: as for DMI_call.  DMI_EMEMBER when no process with that id serves.
 *
 * Threads: any thread of the process that has opened the client.  (Not in the manual; chapter 3.)
 */
int32_t DMI_call_on(DMI_client_t *client, int32_t dmi_id, DMI_remote_function_t function, ...);

static inline DMI_arg_t dmi_arg(int64_t kind, int64_t a, int64_t b) {
  DMI_arg_t arg = {(const struct dmi_arg_kind *)(intptr_t)kind, {a, b}};
  return arg;
}
static inline DMI_arg_t dmi_arg_in(DMI_data_t data) {
  return dmi_arg(1, data.dmi_private[0], data.dmi_private[1]);
}
static inline DMI_arg_t dmi_arg_data(int64_t kind, const DMI_data_t *data_ptr, int64_t size) {
  return dmi_arg(kind, (int64_t)(intptr_t)data_ptr, size);
}
static inline DMI_arg_t dmi_arg_at(int64_t kind, const void *ptr, int64_t size) {
  return dmi_arg(kind, (int64_t)(intptr_t)ptr, size);
}

/* These have all arguments of the two functions, and the end behind them.  In C the compiler checks
 * that each is a DMI_arg_t. */
#ifdef __cplusplus
#define DMI_call(...) DMI_call(__VA_ARGS__, dmi_arg(0, 0, 0))
#define DMI_call_on(...) DMI_call_on(__VA_ARGS__, dmi_arg(0, 0, 0))
#else
#define dmi_arg_check(...) (void)sizeof((DMI_arg_t[]){dmi_arg(0, 0, 0), ##__VA_ARGS__})
#define DMI_call(client, function, ...) \
  (dmi_arg_check(__VA_ARGS__), DMI_call(client, function, ##__VA_ARGS__, dmi_arg(0, 0, 0)))
#define DMI_call_on(client, dmi_id, function, ...) \
  (dmi_arg_check(__VA_ARGS__),                     \
   DMI_call_on(client, dmi_id, function, ##__VA_ARGS__, dmi_arg(0, 0, 0)))
#endif

#define DMI_IN(data) dmi_arg_in(data)
#define DMI_OUT(data_ptr, size) dmi_arg_data(2, (data_ptr), (size))
#define DMI_INOUT(data_ptr) dmi_arg_data(3, (data_ptr), 0)
#define DMI_BYTES(ptr, size) dmi_arg_at(4, (ptr), (size))
#ifndef __cplusplus
#define DMI_VALUE(x) dmi_arg_at(4, (__typeof__(x)[1]){x}, (int64_t)sizeof(x))
#else
#define DMI_VALUE(x) dmi_arg_value(x)
#endif

/* ---- Remote functions (chapter 3, "creating and joining threads") ---- */

/* Defines a remote function: the body follows, in which `call` is the call.  It is a C function of
 * that name, which all processes of the program know by it; other files declare it as
 * void name(DMI_remote_t *call).  As any function of a program it takes the place of one of the C
 * library with the same name: do not call it open or stat. */
#define DMI_REMOTE(name)                                                \
  void name(DMI_remote_t *call);                                        \
  static void __attribute__((constructor)) dmi_registers_##name(void) { \
    DMI_remote_register(#name, name);                                   \
  }                                                                     \
  void name(DMI_remote_t *call)

/*
 * Makes a remote function known by a name; DMI_REMOTE does so.  A second function with the same
 * name takes the place of the first.  The name is not copied.
 *
 * Threads: before DMI_main begins, or DMI_init.  (Not in the manual; chapter 3.)
 */
void DMI_remote_register(const char *name, DMI_remote_function_t function);

/*
 * Tells how many arguments the call has.
 *
 * Return value: the number.
 *
 * Threads: that of the function.  (Not in the manual; chapter 3.)
 */
int32_t DMI_remote_args(const DMI_remote_t *call);

/*
 * Gives the bytes of an argument, `index` counted from 0 in the order of DMI_call: an input, an
 * output, one that is both, a value.  *size_ptr (may be NULL) gets how many bytes they are.  They
 * are valid until the function returns.  Those of inputs and values must not be changed.
 *
 * What DMI_remote_out gives is the value when the function has returned; nobody sees it before.
 *
 * When the call has no such argument, or it is of another kind, the call fails, and the function is
 * left at once (as by longjmp): none of these functions returns then.
 *
 * Return value: the bytes, at an address that is good for any type; never NULL.
 *
 * Threads: that of the function.  (Not in the manual; chapter 3.)
 */
const void *DMI_remote_in(DMI_remote_t *call, int32_t index, int64_t *size_ptr);
void *DMI_remote_out(DMI_remote_t *call, int32_t index, int64_t *size_ptr);
void *DMI_remote_inout(DMI_remote_t *call, int32_t index, int64_t *size_ptr);
const void *DMI_remote_value(DMI_remote_t *call, int32_t index, int64_t *size_ptr);

/* The value of an argument as a type; the call fails when its size is another one. */
#define DMI_REMOTE_VALUE(call, index, type) \
  (*(const type *)DMI_remote_value_of((call), (index), (int64_t)sizeof(type)))

/*
 * Gives the bytes of a value of this size; DMI_REMOTE_VALUE(call, index, type) is the value itself.
 * With another size the call fails, and the function is left at once.
 *
 * Return value: the bytes; never NULL.
 *
 * Threads: that of the function.  (Not in the manual; chapter 3.)
 */
const void *DMI_remote_value_of(DMI_remote_t *call, int32_t index, int64_t size);

/*
 * Says that the call has failed, and why: a sentence for people, of which at most
 * DMI_SENTENCE_SIZE - 1 bytes are kept.  When the function has returned its outputs are failed,
 * too: calls that need one of them are not run, but fail, and DMI_data_read of one fails with
 * DMI_EREMOTE.  The first sentence counts.
 *
 * Threads: that of the function.  (Not in the manual; chapter 3.)
 */
void DMI_remote_fail(DMI_remote_t *call, const char *sentence);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}

template <typename T>
static inline DMI_arg_t dmi_arg_value(const T &x) {
  return dmi_arg_at(4, &x, (int64_t)sizeof(x));
}
#endif

#endif
