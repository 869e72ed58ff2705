/*
 * dmi_ext.h - DMI calls beyond those of the DMI manual; included beside dmi_api.h by programs that
 * want them.  Its conventions hold here too.
 */
#ifndef DMI_EXT_H
#define DMI_EXT_H

#include "dmi_api.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- The memory pool (chapter 4, "memory") ---- */

/* The memory that this process lends to the program, and how it is used.  All are bytes, except the
 * three counts of pages. */
typedef struct {
  int64_t limit;       /* dmirun -s */
  int64_t used;        /* by pages that are here, are being sent, or are about to arrive */
  int64_t peak;        /* the most that was used */
  int64_t copies;      /* part of `used`: copies of pages that others own; they are dropped first */
  int64_t tables;      /* page tables: not part of the pool, not limited */
  int64_t spilled;     /* of pages in the file of dmirun --spill */
  int64_t pages_sent;  /* pages given to other processes for lack of memory */
  int64_t pages_taken; /* pages taken from others for that reason, or because they left */
  int64_t pages_dropped; /* copies dropped for lack of memory */
} DMI_pool_t;

/*
 * Tells what the calling process lends, and how much of it is in use.  The figures may be from
 * slightly different moments.  DMI_EINVAL for a pointer of NULL.  (Not in the manual; chapter 4.)
 */
int32_t DMI_pool(DMI_pool_t *pool_ptr);

/* ---- Hits (chapter 4, "memory") ---- */

/*
 * Reads or writes as DMI_read and DMI_write without a status do, but only if that needs no waiting:
 * the bytes are here, in one page.  For who holds a lock that others need meanwhile, such as that
 * of an interpreter, and has to give it away before a call that waits.
 *
 * Return value: DMI_TRUE when it was done.  DMI_FALSE: nothing has happened, for whatever reason,
 * and DMI_errno() is as before; DMI_read or DMI_write does it, or says why not.
 *
 * Threads: any.  (Not in the manual; chapter 4.)
 */
int32_t DMI_try_read(int64_t addr, int64_t size, void *buf, int8_t mode);
int32_t DMI_try_write(int64_t addr, int64_t size, const void *buf, int8_t mode);

/* ---- Bytes that stay (chapter 4, "memory") ---- */

/* Bytes that are held.  A local object: it means nothing in another process.  Contents are private.
 */
typedef struct {
  int64_t dmi_private[3];
} DMI_local_hold_t;

/*
 * Gives the `size` bytes at `addr` without copying them: *ptr_ptr gets where they are in the memory
 * of this process.  If the page is not here a copy is fetched, as by DMI_read with
 * DMI_INVALIDATE_READ; *hold is to be given to DMI_release.
 *
 * The bytes are those of one moment, and do not change: whoever writes to the page meanwhile, here
 * or elsewhere, has the page moved to other memory first.  They stay valid until DMI_release,
 * whatever becomes of the page, also when it is unmapped and when the program has ended.  They must
 * not be written.  Until then the memory of the whole page counts as used by the pool of this
 * process.
 *
 * Bytes of a page that nobody has written yet are copied, and so are those that are taken away by
 * others at this moment.
 *
 * Errors: DMI_EINVAL for a size below 1 or a pointer of NULL.  DMI_EADDR when `addr` is in no
 * mapping.  DMI_ERANGE when the range is not in one page.  DMI_ENOMEM when this process has no
 * memory for the page.  DMI_ELOST when the page was lost with a process.
 *
 * Threads: any.  (Not in the manual; chapter 4.)
 */
int32_t DMI_hold(int64_t addr, int64_t size, const void **ptr_ptr, DMI_local_hold_t *hold);

/*
 * Ends what DMI_hold began: the bytes must not be used any more.
 *
 * Errors: DMI_EINVAL when `hold` is NULL or holds nothing.
 *
 * Threads: any of the same process, also before the program runs and behind its end.  (Not in the
 * manual; chapter 4.)
 */
int32_t DMI_release(DMI_local_hold_t *hold);

/* ---- Named roots (chapter 4, "memory") ---- */

/*
 * Names a global address, so that any process finds it by DMI_root_get: one that joins later, too,
 * and after processes were lost.  `name` is any string of 1 to 65535 bytes.  A name has one
 * address, the last that it was given; 0 takes the name away.  When the call returns all processes
 * know the name: that takes as long as a process takes to join, so name few things.  All names of a
 * program together may have 16 MiB.
 *
 * A name keeps the address, not the memory: a mapping that no other process had used is gone with a
 * lost process (DMI_EADDR), and pages of which only that one had the bytes are lost (DMI_ELOST).
 *
 * Errors: DMI_EINVAL for a name that is NULL, empty or too long.  DMI_ENOMEM when the names would
 * have more than 16 MiB.
 *
 * Threads: any.  (Not in the manual; chapter 4.)
 */
int32_t DMI_root_set(const char *name, int64_t addr);

/*
 * Finds a global address by its name: *addr_ptr gets what DMI_root_set was given last, or 0 if
 * there is no such name (that is no error).
 *
 * Errors: DMI_EINVAL for a pointer of NULL, or a name that is empty or too long.
 *
 * Threads: any.  (Not in the manual; chapter 4.)
 */
int32_t DMI_root_get(const char *name, int64_t *addr_ptr);

/* ---- Surviving (chapter 2) ---- */

/*
 * Makes the program go on without processes that are lost, as dmirun --survive does; call it first
 * in DMI_main, before another process is welcomed.  When the call returns it holds for all
 * processes, those that join later too.  From then on a process counts as lost that is silent for 5
 * seconds, unless --dead-after says otherwise.  Another call changes nothing, nor does one in a
 * program that was started with --survive.
 *
 * `copies` is how many copies of each page are kept in other processes, so that it is not lost with
 * its owner.  There are none yet, so it must be 0.
 *
 * Errors: DMI_EINVAL if `copies` is not 0.  DMI_EBUSY if another process has been welcomed, or
 * DMI_main does not run in this process.
 *
 * Threads: those of DMI_main's process.  (Not in the manual; chapter 2.)
 */
int32_t DMI_survive(int32_t copies);

/*
 * Goes on in place of DMI_main when that was lost with its process: a program that survives losses
 * (dmirun --survive) may define it.  It is called once for such a loss, in another process, with
 * the arguments of DMI_main; `lost_id` is the dmi_id of the process that was lost.  From then on it
 * counts as DMI_main: when it has returned and no DMI thread runs anywhere, all processes end, and
 * if its process is lost, too, it is called again in another one.  DMI_main may have returned at
 * that very moment: it may be called although nothing was left to do.
 *
 * It finds names (DMI_root_get), pages, and threads in the other processes as they were.  What
 * DMI_main had in its own variables is lost.  So are pages of which only the lost process had the
 * bytes (DMI_ELOST; DMI_revive makes them usable again), and mappings that no other process had
 * used (DMI_EADDR).  DMI_nodes tells which processes were welcomed.
 *
 * Without it a program that survives losses ends when DMI_main is lost.
 *
 * Threads: called by the thread that would run DMI_main.  DMI threads of its process may run.
 *
 * Return value: DMI_TRUE; or DMI_FALSE when the program cannot go on: then all processes end, with
 * status 1.  (Not in the manual; chapter 2.)
 */
int32_t DMI_recover(int argc, char **argv, int32_t lost_id);

/*
 * Makes lost pages usable again, filled with zeros.  A page is lost when its bytes were lost with a
 * process (dmirun --survive); calls about it fail with DMI_ELOST.  Of the pages touched by [addr,
 * addr + size) those that are lost become zero in all their bytes, also in those outside of the
 * range.  All other pages stay as they are, whatever happens at the same time: of several threads
 * that call it for a page one makes it usable, and what any thread writes afterwards stays.
 *
 * *pages_ptr (may be NULL) gets the number of pages that this call has made usable: who gets more
 * than 0 may be the one that fills them again.  If another process is lost during the call, a page
 * may be counted by nobody.
 *
 * It takes no memory of the pool, and moves no page.  A lost page that is written as a whole
 * (DMI_write) is usable again, too.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or it is unmapped meanwhile.  DMI_ERANGE when the
 * range leaves its mapping (nothing is done).  DMI_EINVAL for a negative size.  DMI_ENOMEM when
 * there is no local memory; some of the pages may be usable then.
 *
 * Threads: any.  (Not in the manual; chapter 4.)
 */
int32_t DMI_revive(int64_t addr, int64_t size, int64_t *pages_ptr);

/* ---- Beginning (chapter 2) ---- */

/*
 * Prepares a process: a program may define it.  It is called once in each process, in its main
 * thread, before the process joins the program, and so before DMI_main or any DMI thread runs
 * there; for libraries, devices and files that all threads of a process share.  In the first
 * process `argc` and `argv` are those of DMI_main, in one that joins its own.  (A program without
 * DMI_init refuses arguments there, as nothing else gets them.)
 *
 * The process is no member yet: calls of DMI fail with DMI_EINACTIVE.  Others that want to join by
 * it wait until it returns.  If it ends the process (exit) the others do not notice.  (Not in the
 * manual; chapter 2.)
 */
void DMI_init(int argc, char **argv);

/* ---- Ending (chapter 3, "joining and leaving of processes") ---- */

/*
 * Ends the program in order, in all processes: each ends with `status` as its exit status, when
 * DMI_main has returned and no DMI thread runs anywhere.  When the call returns all processes know
 * that the program is ending.  The caller goes on: it should return soon, like all others.
 *
 * From then on
 * - DMI_stopping says DMI_TRUE: threads that work for long should look now and then, and return;
 * - calls fail with DMI_EEND that wait for what another thread does: DMI_poll, DMI_suspend,
 *   DMI_cond_wait (the caller holds the mutex again), DMI_watch, those of barriers, and all calls
 *   of threads in a team (dmi_team.h); also those that wait already.  DMI_join and locks are waited
 *   for as before, for these come by themselves;
 * - DMI_peek and DMI_create fail with DMI_EEND, and no process can join.
 *
 * All other calls go on as before, so that threads can save what they have.  The first call counts:
 * others fail.  A process that is lost meanwhile changes nothing in a program that survives losses;
 * else it ends the program, with status 1.
 *
 * Errors: DMI_EINVAL unless `status` is 0 to 255.  DMI_EEND when DMI_exit was called before.
 *
 * Threads: any, of any process; in one that was dismissed until its DMI_main has returned.  (Not in
 * the manual; chapter 3.)
 */
int32_t DMI_exit(int32_t status);

/*
 * Tells whether the program is ending: *flag_ptr becomes DMI_TRUE once DMI_exit was called in any
 * process, else DMI_FALSE.  Takes a few nanoseconds, and sends nothing.  DMI_EINVAL for NULL.  (Not
 * in the manual; chapter 3.)
 */
int32_t DMI_stopping(int32_t *flag_ptr);

/*
 * Puts a notice into the queue of DMI_poll and DMI_peek: its state is DMI_NOTE, its `value` this
 * one, and the rest tells of the calling process.  So a thread tells whoever handles notices that
 * something has happened.  When the call returns it is in the queue.
 *
 * Each is given to exactly one caller (if that one is lost, another one may get it), those of one
 * thread in their order.  It stays in the queue
 * when the calling process leaves or is lost; where the coordinator is lost, in a program that
 * survives that, it is queued again if the calling process still lives.
 *
 * Errors: DMI_EEND when the program is ending (DMI_exit): nobody polls any more.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_notify(int64_t value);

/* ---- Ranges (chapter 4, "memory") ---- */

/*
 * Divides the numbers from 0 to n - 1 into `pnum` ranges, one after the other, whose sizes differ
 * by 1 at most: *begin_ptr gets the first number of range `rank`, *end_ptr the one behind its last.
 * Where `pnum` is above `n` the last ranges are empty.
 *
 * Errors: DMI_EINVAL for a negative `n`, a `pnum` below 1, a `rank` that is not from 0 to pnum - 1,
 * and a pointer of NULL.
 *
 * Threads: any; also before the program runs and behind its end.  (Not in the manual; chapter 4.)
 */
int32_t DMI_block(int64_t n, int32_t rank, int32_t pnum, int64_t *begin_ptr, int64_t *end_ptr);

/* ---- Small numbers (chapter 5, "mutual exclusion") ---- */

/*
 * A pool gives out the numbers 0, 1, 2 ... and takes them back: for places in a table, ranks, names
 * of files, among threads that come and go.  It is `sizeof(DMI_idpool_t)` bytes of global memory,
 * with the same rules as a mutex; memory that was never written is a pool that has given out
 * nothing.  It takes a bit of global memory for each number, up to the highest that was given out.
 *
 * When a process is lost (and the program goes on) the numbers that it has stay given out.  Any
 * threads may use a pool at the same time; the calls below say where none may.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping.  DMI_ERANGE when the object is not in one page.
 * DMI_EINVAL when the bytes are not a pool.  DMI_ENOMEM when there is no memory.  DMI_ELOST when a
 * page of it was lost with a process.
 */

/* A global object: keeps its meaning in other processes.  Contents are private. */
typedef struct {
  int64_t dmi_private[4];
} DMI_idpool_t;

/* Makes a pool at `addr`.  No thread may use it meanwhile. */
int32_t DMI_idpool_init(int64_t addr);

/* Ends a pool, whatever it has given out; its memory is free for other use.  No thread may use it
 * meanwhile. */
int32_t DMI_idpool_destroy(int64_t addr);

/* Gives out the smallest number that is not given out: *id_ptr gets it.  DMI_EINVAL when `id_ptr`
 * is NULL. */
int32_t DMI_idpool_get(int64_t addr, int32_t *id_ptr);

/* Takes a number back.  DMI_EINVAL when it is not given out. */
int32_t DMI_idpool_put(int64_t addr, int32_t id);

/* ---- Waking with bytes (chapter 5, "scheduling of threads") ---- */

/*
 * Gives `size` bytes at `ptr` to a thread, and wakes it from DMI_suspend_with.  Each call's bytes
 * are kept until the thread takes them, those of one caller in their order; their number and size
 * are limited only by the memory of its process.  The bytes may be used again as soon as the call
 * returns.  Complete once the bytes are there.  It has nothing to do with DMI_wake.
 *
 * Errors: DMI_EINVAL for a negative size, or a `ptr` of NULL unless the size is 0.  DMI_ETHREAD
 * when the thread is unknown, has ended, or was lost with its process.  DMI_ENOMEM when there is no
 * memory, here or there.
 *
 * Threads: any, of any process.  (Not in the manual; chapter 5.)
 */
int32_t DMI_wake_with(DMI_thread_t thread, const void *ptr, int64_t size,
                      DMI_local_status_t *status);

/*
 * Sleeps until a DMI_wake_with has given bytes to the calling DMI thread, and takes them: one
 * call's each time, those first that came first.  `ptr` has place for `capacity` bytes, and
 * *size_ptr (may be NULL) gets how many there were.  After it the thread sees what the waking
 * thread wrote before its DMI_wake_with.
 *
 * Errors: DMI_ESIZE when there are more bytes than `capacity`: *size_ptr gets how many, and they
 * stay. DMI_EINVAL for a negative capacity, or a `ptr` of NULL unless the capacity is 0.
 * DMI_ETHREAD in DMI_main and in threads not made by DMI.  DMI_EEND when the program is ending
 * (DMI_exit), also while it sleeps, and though there are bytes that it has not taken: who needs
 * them takes them before.  *size_ptr is set in case of success and of DMI_ESIZE only.
 *
 * Threads: DMI threads.  (Not in the manual; chapter 5.)
 */
int32_t DMI_suspend_with(void *ptr, int64_t capacity, int64_t *size_ptr);

/* ---- Reductions (chapter 5, "barriers") ---- */

typedef int32_t DMI_op_t;   /* DMI_OP_SUM ... DMI_OP_BXOR */
typedef int32_t DMI_type_t; /* DMI_TYPE_INT32 ... DMI_TYPE_DOUBLE */

#define DMI_OP_SUM 1  /* the sum; integers wrap around */
#define DMI_OP_PROD 2 /* the product; integers wrap around */
#define DMI_OP_MIN 3  /* the smallest */
#define DMI_OP_MAX 4  /* the largest */
#define DMI_OP_BAND 5 /* integers: the bits that are set in all */
#define DMI_OP_BOR 6  /* integers: the bits that are set in any */
#define DMI_OP_BXOR 7 /* integers: the bits that are set in an odd number of them */

#define DMI_TYPE_INT32 1  /* int32_t */
#define DMI_TYPE_INT64 2  /* int64_t */
#define DMI_TYPE_FLOAT 3  /* float */
#define DMI_TYPE_DOUBLE 4 /* double */

/*
 * Combines numbers at a barrier: sum, product, minimum, maximum or bits.  It does what
 * DMI_local_barrier_sync does, and combines the `count` elements at `in_ptr` of all calls, each
 * with those of the same index: all threads get the same `count` elements at `out_ptr`, which may
 * be the same place.  They are combined in the order of arrival, so sums of float and double may
 * differ in the last digits from run to run.  All calls of a round must give the same `op`, `type`
 * and `count`; this is not checked.
 *
 * It takes one round of the barrier for each 8 bytes of elements, at least one; so one number costs
 * what DMI_local_barrier_allreduce does.  When it fails some of the elements may have been stored.
 *
 * Errors: DMI_EINVAL for an unknown operation or type, an operation on bits that is not for
 * integers, a negative `count`, or a pointer of NULL although there are elements; and as for
 * DMI_local_barrier_sync.
 *
 * Threads: as DMI_local_barrier_sync.  (Not in the manual; chapter 5.)
 */
int32_t DMI_local_barrier_allreduce_op(DMI_local_barrier_t *barrier_ptr, DMI_op_t op,
                                       DMI_type_t type, const void *in_ptr, void *out_ptr,
                                       int64_t count, int32_t pnum);

/* ---- Errors (chapter 2) ---- */

/*
 * Tells why the last DMI call of this thread that failed did so, in words about that call: which
 * bytes are beyond the end of which mapping, that the buffer is NULL, who holds the lock.  The line
 * of dmirun --on-error print ends with it.  Of a call with a status that fails later, and where no
 * more is known, it is what DMI_strerror gives.  It is made when it is asked for, of what is there
 * now; when bytes were lost with a process, it reads one.
 *
 *     if (!DMI_read(addr, 8, &value, DMI_GET_READ, NULL))
 *       puts(DMI_error_reason());
 *
 * Return value: a string that is never NULL and stays valid until the next DMI call of this thread.
 * It is for people: its words may change.
 *
 * Threads: any; each has its own.  (Not in the manual; chapter 2.)
 */
const char *DMI_error_reason(void);

/*
 * Gives the name of an error number as the program writes it, such as "DMI_EADDR"; DMI_strerror
 * gives a sentence.  (Not in the manual; chapter 2.)
 *
 * Return value: a string that is never NULL and stays valid for ever; "DMI_E?" for unknown numbers.
 */
const char *DMI_strerrorname(int32_t error);

/*
 * Prints to stderr where the calling thread is: a line with `why`, the host, the process and the
 * thread, and below it the functions that have not returned, the innermost first, as far as
 * DMI_main, DMI_thread and the like; those of dmi.hpp are left out.  With file names and lines if
 * the program was compiled with -g and libdw of elfutils is installed.  It takes some milliseconds
 * the first time.  `why` NULL is an empty text.
 *
 * Threads: any; not in a handler of a signal.  (Not in the manual; chapter 2.)
 */
void DMI_backtrace(const char *why);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
