/*
 * dmi_api.h - DMI, an elastic global address space for C: the one header a program includes.
 *
 * A program defines DMI_main (runs once, in the process started without -i) and, if it creates
 * threads, DMI_thread; DMI_function if it uses DMI_atomic.  Compile with dmicc, start with dmirun.
 *
 * Conventions of every function below
 *   - It returns DMI_TRUE or DMI_FALSE.  After DMI_FALSE nothing was changed, unless stated, and
 *     DMI_errno() of the same thread says why.
 *   - A last argument `status` of NULL makes the call synchronous.  Otherwise the call returns at
 *     once (with DMI_FALSE if an argument is wrong) and `*status` must stay alive until
 *     DMI_wait or DMI_check has said that the operation is complete.
 *   - Any thread of any process of the program may call any function.  Only DMI_function must not:
 *     inside of it every call returns DMI_FALSE with DMI_EINFUNC.
 *   - Sizes are in bytes.  Global addresses are int64_t and never 0 (DMI_NULL).
 *
 * How a program ends
 *   - By itself, when DMI_main has returned and no DMI thread runs in any process: nothing could
 *     ever run again then, so all processes end, with status 0.  DMI_main's own process may leave
 *     before; the program goes on in the threads of the others.
 *   - A process that was welcomed and is lost (it crashed, was killed, was cut off) ends the whole
 *     program: each other process says which one was lost and ends with status 1.  Unless the
 *     program survives losses (dmirun --survive, DMI_survive): then the others go on.
 *
 * Chapters named below are those of the DMI manual, which explains how to use this interface:
 *   1 about DMI: installing, compiling, running      2 a first program; rules for all calls
 *   3 processes and threads: joining, leaving,       4 memory: pages, reading and writing, modes,
 *     dmirun, dmimw, DMI_create                        scattered access, read-write-sets
 *   5 synchronisation: mutexes, conditions,          6 sample programs
 *     barriers, scheduling, read-modify-write        7 list of all calls
 * The comments here are complete without it; where the two differ, the comments are right.
 */
#ifndef DMI_API_H
#define DMI_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* the library itself is compiled with everything hidden */
#endif

#define DMI_VERSION "0.1.0"

#define DMI_TRUE 1
#define DMI_FALSE 0
#define DMI_NULL ((int64_t)0)

/* Bytes of a host name with its final zero. */
#define IP_SIZE 256

/* ---- Errors -------------------------------------------------------------------------------- */

/* What DMI_errno() returns.  Numbers are stable across versions. */
#define DMI_OK 0         /* no error yet in this thread */
#define DMI_EINVAL 1     /* an argument is outside its domain (NULL pointer, unknown mode, ...) */
#define DMI_EADDR 2      /* the address is in no mapping, or no mapping or object begins there */
#define DMI_ERANGE 3     /* the range leaves its mapping, or must lie in one page and does not */
#define DMI_ESIZE 4      /* page size or page count not positive, or their product too large */
#define DMI_ENOMEM 5     /* no process has memory left for pages; or no local memory */
#define DMI_EMEMBER 6    /* no process with that id is a member */
#define DMI_ENOTASKED 7  /* that process has not asked to join, or to leave */
#define DMI_EBUSY 8      /* in use: DMI threads still run there, or threads hold it or wait */
#define DMI_ETHREAD 9    /* thread unknown, ended, detached or joined; or caller is no DMI thread */
#define DMI_EINFUNC 10   /* called from inside DMI_function */
#define DMI_ENOFUNC 11   /* the program does not define a function that is to be called */
#define DMI_ELEAVING 12  /* that process has left, or is not yet welcome */
#define DMI_EINACTIVE 13 /* the DMI program is not running (before DMI_main, or after its end) */
#define DMI_EHOLDER 14   /* the calling thread does not hold this lock, or locks it a second time */
#define DMI_ERWSET 15    /* wrong read-write-set: see DMI_rwset_decompose, DMI_local_rwset_init */
#define DMI_ELOST 16     /* lost with a process; a write may have been done or not */
#define DMI_EOWNERDEAD 17 /* a process was lost that held this lock; the caller holds it now */
#define DMI_EBROKEN 18    /* a process was lost: the round of the barrier does not end */
#define DMI_EEND 19       /* the program is ending (DMI_exit): nothing is waited for, or created */
#define DMI_EREMOTE 20    /* a remote function has failed (dmi_remote.h): there is no such value */
#define DMI_ERESET 21     /* a rank of the team has called DMI_team_reset (dmi_team.h) */

/*
 * Tells why the last DMI call of this thread that returned DMI_FALSE did so.
 *
 * Return value: an error number; DMI_OK before the first call that failed.  A call that succeeds
 * does not change it.
 */
int32_t DMI_errno(void);

/*
 * Gives a sentence for an error number.
 *
 * Return value: a string that is never NULL and stays valid for ever, also for unknown numbers.
 */
const char *DMI_strerror(int32_t error);

/* ---- Asynchronous calls (chapter 2, "asynchronous API") ------------------------------------- */

/* A local object: it means nothing in another process.  Contents are private. */
typedef struct {
  int64_t dmi_private[4];
} DMI_local_status_t;

/*
 * Waits until the operation that `status` was given to is complete.  *ret_ptr (may be NULL) gets
 * what the synchronous call would have returned; when that is DMI_FALSE, DMI_errno() of this thread
 * is set too.  Waiting again gives the same result.  For a call that returned DMI_FALSE it gives
 * DMI_FALSE.  A status of zero bytes, which no call was given yet, gives DMI_FALSE (DMI_EINVAL); one
 * whose bytes were never set must not be waited for (DMI_EINVAL in most cases, else it may not end).
 *
 * Until then everything that the operation stores into must stay alive: the buffer of DMI_read, the
 * places of old values, flags, addresses and handles, and *status itself.  What it only reads, such
 * as the buffer of DMI_write, may be used again as soon as the call has returned.
 *
 * Threads: any thread of the process that made the call, several at once as well.
 */
void DMI_wait(DMI_local_status_t *status, int32_t *ret_ptr);

/*
 * Tells whether the operation that `status` was given to is complete, without waiting.  If so,
 * *ret_ptr (may be NULL) gets what DMI_wait would store there.
 *
 * Return value: DMI_TRUE when the operation is complete, whether it succeeded or not; DMI_FALSE
 * when it is not, and *ret_ptr is unchanged.  Also DMI_FALSE for a `status` of NULL or of zero
 * bytes (DMI_EINVAL) and inside DMI_function (DMI_EINFUNC).
 */
int32_t DMI_check(DMI_local_status_t *status, int32_t *ret_ptr);

/* ---- The functions a program defines (chapter 2) -------------------------------------------- */

/*
 * The beginning of the program: called once, in the process that was started without -i, with the
 * arguments that follow the program's name on the command line of dmirun.  Every program must
 * define it.  When it has returned and no DMI thread runs anywhere, all processes end.  It may end
 * by pthread_exit, too; exit() ends its process at once, which the others lose: DMI_exit
 * (dmi_ext.h) ends all of them.
 */
void DMI_main(int argc, char **argv);

/*
 * The body of a thread that DMI_create starts.  `addr` is what DMI_create was given, usually the
 * global address of the thread's arguments.  DMI_join stores the value that it returns, or has
 * given to pthread_exit.  A program that creates threads must define it.
 *
 * pthread_cancel has no effect on such a thread, as it could end a call of DMI in the middle.  A
 * thread may allow it (pthread_setcancelstate) for code that calls nothing of DMI; its value is -1
 * then.
 */
int64_t DMI_thread(int64_t addr);

/*
 * The program's own read-modify-write: DMI_atomic runs it at the owner of the page, while nothing
 * else happens to that page.  `page_ptr` points to the `size` bytes that DMI_atomic names, to be
 * read and changed in place; `out1_ptr` and `out2_ptr` point to the inputs, `in_ptr` to `in_size`
 * bytes for the answer (zeroed before), and `tag` is what the caller gave.  A program that calls
 * DMI_atomic must define it.
 *
 * Threads: runs in any thread of the owner's process, at the same time for different pages.  Must
 * be short and must call no DMI function.
 */
void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag);

/* ---- Processes (chapter 3, "joining and leaving of processes") ------------------------------ */

#define DMI_OPEN 1   /* DMI_node_t.state: asks to join */
#define DMI_CLOSE 2  /* asks to leave */
#define DMI_OPENED 3 /* DMI_nodes only: a member that has been welcomed */
#define DMI_LOST 4   /* lost, in a program that survives losses (dmirun --survive) */
#define DMI_NOTE 5   /* DMI_poll only: it has called DMI_notify (dmi_ext.h) */

/* A global object: keeps its meaning in other processes. */
typedef struct DMI_node_t {
  int32_t state;          /* DMI_OPEN, DMI_CLOSE, DMI_OPENED, DMI_LOST or DMI_NOTE */
  int32_t dmi_id;         /* small number, unique among living processes, may be used again later */
  int32_t core;           /* processor cores that the process may use */
  int64_t memory;         /* bytes of its memory pool (dmirun -s) */
  char hostname[IP_SIZE]; /* host name, zero-terminated */
  int64_t value;          /* DMI_NOTE: what DMI_notify was given; else 0 */
} DMI_node_t;

/*
 * Waits for the next notice of a process that asks to join or leave, and stores it in *node_ptr.
 * Each notice of the program is given to exactly one caller, in the order in which the processes
 * asked.  The first notice of a program is the DMI_OPEN of its first process: it is welcomed, and
 * gets threads, like any other.
 *
 * In a program that survives losses (dmirun --survive) DMI_LOST says that a process was lost whose
 * DMI_OPEN was given, and that has not left.  It is no member any more: there is nothing to answer,
 * and its id is used again only after this notice was given.  If the caller that was given a notice
 * is lost itself, another one may get that notice, too; but that of a loss only as long as no other
 * process has got the id.  So it is always about the process that had the id last.
 *
 * DMI_NOTE says that a thread of that process has put this notice into the queue (dmi_ext.h); only
 * programs that do so get it.
 *
 * Errors: DMI_EINVAL for NULL.  DMI_EEND when the program is ending (dmi_ext.h).
 *
 * Threads: any, also several at once in several processes; they are served in turn.
 */
int32_t DMI_poll(DMI_node_t *node_ptr);

/*
 * Looks for a notice, as DMI_poll, but does not wait for one: *flag_ptr is DMI_TRUE when *node_ptr
 * was filled, DMI_FALSE when there is none and *node_ptr is unchanged.  DMI_EINVAL for NULL.
 * DMI_EEND when the program is ending (dmi_ext.h).
 */
int32_t DMI_peek(DMI_node_t *node_ptr, int32_t *flag_ptr);

/*
 * Admits a process that asked to join.  When it returns, the process is welcome and DMI_create can
 * start threads there; before that, it lends nothing and runs nothing.  With dmirun --survive the
 * program survives the loss of any one process of its host from then on, DMI_main's too
 * (DMI_recover).
 *
 * Errors: DMI_EMEMBER when no member has this id, or it was lost meanwhile.  DMI_ENOTASKED when it
 * was welcomed before, or a DMI_goodbye for it is under way.
 */
int32_t DMI_welcome(int32_t dmi_id);

/*
 * Dismisses a process that asked to leave.  Returns when its pages, and whatever else it kept for
 * the program, are at other processes, and no process needs it any more: from then on the program
 * goes on even if it crashes.  (One exception: when no process can take its pages, because no other
 * welcomed process exists or all others are leaving, it keeps them until one can.)  The other
 * processes do not pause.  All DMI threads there must have ended before; DMI_main need not.  A
 * process may dismiss itself.
 *
 * Errors: DMI_EBUSY while DMI threads run there (nothing changes).  DMI_ENOMEM when the processes
 * that stay have no memory for its pages: nothing changes, and the request stays.  This is not a
 * failure but "later": when there may be memory (a process was welcomed, a mapping freed, memory
 * became free) the notice DMI_CLOSE comes again, once for each such failure.  DMI_ENOTASKED when it
 * has not asked to leave, or another DMI_goodbye for it is under way.  DMI_EMEMBER when no member
 * has this id, or it was dismissed before.
 */
int32_t DMI_goodbye(int32_t dmi_id);

/* Tells the id of the calling process.  DMI_EINVAL for NULL. */
int32_t DMI_rank(int32_t *dmi_id_ptr);

/* Lists the members at this time: at most `capacity` of them, *num_ptr tells how many were stored.
 * DMI_EINVAL when `num_ptr` is NULL, `capacity` is negative, or `node_array` is NULL and `capacity`
 * is not 0. */
int32_t DMI_nodes(DMI_node_t *node_array, int32_t *num_ptr, int32_t capacity);

/* ---- Threads (chapter 3, "creating and joining threads") ------------------------------------ */

/* A global object.  Contents are private. */
typedef struct {
  int64_t dmi_private[2];
} DMI_thread_t;

/*
 * Starts a thread that runs DMI_thread(addr) in process `dmi_id`, this one or another, and stores
 * its handle in *thread_ptr.  Only the system limits the number of threads.
 *
 * Every thread must be joined or detached at some time; until then its result is kept, also after
 * its process has left.
 *
 * Errors: DMI_EINVAL when `thread_ptr` is NULL.  DMI_EMEMBER when no member has this id.  DMI_ELOST
 * when the process was lost before it answered: whether the thread has run is not known.
 * DMI_ELEAVING when that process is not welcome yet, or has been dismissed.  DMI_ENOFUNC when the
 * program has no DMI_thread.  DMI_ENOMEM when that process, or its system, allows no more threads.
 * DMI_EEND when the program is ending (dmi_ext.h).
 */
int32_t DMI_create(DMI_thread_t *thread_ptr, int32_t dmi_id, int64_t addr,
                   DMI_local_status_t *status);

/*
 * Waits for the end of a thread; *addr_ptr (may be NULL) gets what DMI_thread returned.  Each
 * thread can be joined once, by any thread of any process, also when its own process has left.  If
 * a process that waits for the end of a thread is lost, the thread can be joined again.
 *
 * Errors: DMI_ETHREAD when the thread is unknown, detached, has been joined, or is the calling one.
 * DMI_ELOST when it was lost with its process; or when its process has left, and its result was
 * lost with the coordinator, which kept it.
 */
int32_t DMI_join(DMI_thread_t thread, int64_t *addr_ptr, DMI_local_status_t *status);

/*
 * Says that nobody will join this thread; it is forgotten when it ends.
 *
 * Errors: DMI_ETHREAD when the thread is unknown, detached, or has been joined.  DMI_ELOST: as for
 * DMI_join.
 */
int32_t DMI_detach(DMI_thread_t thread, DMI_local_status_t *status);

/* Tells the handle of the calling DMI thread.  DMI_ETHREAD in DMI_main and in threads not made by
 * DMI. */
int32_t DMI_self(DMI_thread_t *thread_ptr);

/*
 * Sleeps until another thread wakes the calling DMI thread (chapter 5, "scheduling of threads"). If
 * a DMI_wake came before, the call returns at once; one such wake is kept at most.  The call
 * returns only because of a DMI_wake, and each wake ends one call at most.  After it the thread
 * sees what the waking thread wrote before its DMI_wake.  DMI_ETHREAD in DMI_main and in threads
 * not made by DMI.  DMI_EEND when the program is
 * ending (dmi_ext.h), also while it sleeps.
 */
int32_t DMI_suspend(void);

/* Wakes `thread` from DMI_suspend; if it does not sleep, its next DMI_suspend returns at once.  Any
 * thread of any process may call it.  Complete once the wake has taken effect there.  DMI_ETHREAD:
 * the thread is unknown, has ended, or was lost with its process. */
int32_t DMI_wake(DMI_thread_t thread, DMI_local_status_t *status);

/* ---- Teams of ranked threads that change (chapter 3, "joining and leaving of processes") ----- */

/* What DMI_scaleunit returns when it is to be called again. */
#define DMI_AGAIN (-1000)

/*
 * Runs the program's DMI_scaleunit in a team of threads, and has the team made anew when processes
 * join or leave.  It waits until `init_node_num` processes have come, this one included (or until
 * DMI_start_scale, if the program defines it, says that those that are there are enough; with
 * `init_node_num` 0 that decides alone), and welcomes them.  Then DMI_scaleunit is called in
 * `thread_num` threads of each (0: as many as the process has cores, which may differ), with
 * `scaleunit_addr` and ranks from 0 on.  Threads of one process have neighbouring ranks; processes
 * that stay keep their order, new ones come behind them.
 *
 * Processes that ask to join or leave meanwhile do so when all threads have returned from
 * DMI_scaleunit, which DMI_check_rescale asks them to do.  When all have returned DMI_AGAIN they
 * are called again, as members of the new team; any other value ends DMI_rescale.  A process that
 * leaves has its pages taken over while the next team works already.
 *
 * This process itself leaves the team when it is asked to, and the program when DMI_rescale
 * returns. When all processes have asked to leave, and none wants to join, DMI_rescale fails with
 * DMI_ELEAVING: the pages are still there.
 *
 * In a program that survives losses (dmirun --survive) the team is made anew without a process that
 * was lost, whatever the threads return: they must return from DMI_scaleunit when a call fails with
 * DMI_EBROKEN or DMI_ELOST.  A thread that waits otherwise (DMI_cond_wait, DMI_watch, DMI_suspend)
 * for one that was lost is not woken.  DMI_scale_lost tells the next team of the loss.
 * When DMI_main is lost, DMI_recover may call DMI_rescale; but threads of the old team may still
 * run then, and write into global memory beside the new one, until their next DMI_check_rescale
 * fails.
 *
 * DMI_rescale handles all notices while it runs (DMI_poll), so nobody else should; notes of
 * the program are dropped, but have DMI_judge_rescale asked again.  It may be called several times,
 * one after the other: those that are there are the first team's.
 *
 * Return value: that of rank 0 of the last team (of the lowest rank that did not return DMI_AGAIN);
 * DMI_FALSE on failure, too: so return something else.
 *
 * Errors: DMI_ENOFUNC when the program defines no DMI_scaleunit.  DMI_EINVAL for a negative number,
 * a `thread_num` above 65536, or `init_node_num` 0 without DMI_start_scale.  DMI_EBUSY in any other
 * thread than that of DMI_main or DMI_recover, in a function that DMI_rescale calls there, and
 * while another thread of this process is in DMI_farm_run (dmi_farm.h).
 * DMI_ELEAVING when all processes have asked to leave.  DMI_EEND when the program is ending
 * (dmi_ext.h).  DMI_ENOMEM.
 *
 * Threads: that of DMI_main, or of DMI_recover.  (Not in the manual; chapter 3.)
 */
int32_t DMI_rescale(int64_t scaleunit_addr, int32_t init_node_num, int32_t thread_num);

/*
 * The work of a thread of the team; a program that calls DMI_rescale defines it.  `my_rank` is 0 to
 * `pnum` - 1, `pnum` the number of threads, `scaleunit_addr` what DMI_rescale was given, usually
 * the global address of the work and of its state.  Between two calls only what is in global memory
 * is kept.
 *
 * Return value: DMI_AGAIN to be called again, any other value to end.  When a thread returns early,
 * the next DMI_check_rescale of the others says 1.  (Not in the manual; chapter 3.)
 */
int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr);

/*
 * Asks whether DMI_scaleunit is to begin anew.  All threads of the team call it equally often, at
 * safe points: *judge_ptr becomes 1 in all of them, or 0 in all of them.  With 1 they put into
 * global memory what they need to go on, and return DMI_AGAIN.  It waits for all threads, as a
 * barrier: what they have written before, all may read after it.
 *
 * DMI_EBROKEN says that a process was lost, and that some threads may have come further than
 * others: this is no safe point.  *judge_ptr is 1.  The thread should store nothing, and return;
 * the next team goes on from what was stored at a safe point before (DMI_scale_lost), so a program
 * that is to survive losses stores its state now and then, in two places in turn.  A page that a
 * thread writes with DMI_EXCLUSIVE_WRITE is lost with its process.  So DMI_main writes these pages
 * first in that way, which makes its process their owner, and the threads use DMI_PUT_WRITE, which
 * leaves them there.  When DMI_check_rescale or a barrier has shown that all have written, rank 0
 * writes which of the two places counts.
 *
 * Errors: DMI_EBROKEN (above).  DMI_EEND when the program is ending (dmi_ext.h); *judge_ptr is 1.
 * DMI_ETHREAD when the caller does not run DMI_scaleunit.  DMI_EINVAL for NULL.
 *
 * Threads: those that run DMI_scaleunit.  (Not in the manual; chapter 3.)
 */
int32_t DMI_check_rescale(int32_t *judge_ptr);

/*
 * Tells how many processes were lost since DMI_scaleunit was called before: *num_ptr gets 0 in a
 * team that follows a safe point, and in the first.  Above 0 what the lost processes had is gone,
 * and what the threads had written since the last safe point is from different times.
 *
 * Errors: DMI_ETHREAD when the caller does not run DMI_scaleunit.  DMI_EINVAL for NULL.
 *
 * Threads: those that run DMI_scaleunit.  (Not in the manual; chapter 3.)
 */
int32_t DMI_scale_lost(int32_t *num_ptr);

/*
 * Decides when the first team begins: a program may define it.  DMI_rescale calls it when a process
 * has come or gone, until the team begins; `in` are the `in_num` processes that are there.
 *
 * Threads: that of DMI_rescale.
 *
 * Return value: 1 to begin (`in_num` must be above 0), 0 to wait for more.  (Not in the manual;
 * chapter 3.)
 */
int32_t DMI_start_scale(DMI_node_t *in, int in_num);

/*
 * Decides whether the team is to change: a program may define it.  DMI_rescale calls it when
 * processes ask to join or leave, or a thread calls DMI_notify, unless a change is under way
 * already, which takes them in, too.  `in` are those that ask to join, `out` those that ask to
 * leave, `cur` all of the team, with those that ask to leave.  Not called before the first team.
 *
 * Threads: that of DMI_rescale.
 *
 * Return value: 1 to change the team, 0 to go on as it is; then it is called again with the next
 * notice, and when a team is made for another reason.  (Not in the manual; chapter 3.)
 */
int32_t DMI_judge_rescale(DMI_node_t *in, DMI_node_t *out, DMI_node_t *cur, int in_num, int out_num,
                          int cur_num);

/* ---- Memory (chapter 4) --------------------------------------------------------------------- */

#define DMI_INVALIDATE_READ ((int8_t)1)  /* keep the page here until somebody writes it */
#define DMI_UPDATE_READ ((int8_t)2)      /* keep the page here and have writes sent to it */
#define DMI_GET_READ ((int8_t)3)         /* fetch just these bytes, keep nothing */
#define DMI_EXCLUSIVE_WRITE ((int8_t)4)  /* become the owner of the page, then write */
#define DMI_PUT_WRITE ((int8_t)5)        /* send these bytes to the owner */
#define DMI_EXCLUSIVE_ATOMIC ((int8_t)6) /* become the owner of the page, then operate on it */
#define DMI_PUT_ATOMIC ((int8_t)7)       /* have the owner do it */

/*
 * Maps `page_num` pages of `page_size` bytes each and stores the global address of the first byte
 * in *addr_ptr; the pages lie one after the other.  The address is valid in all processes.  All
 * bytes read as zero until written, and a page costs no memory until touched: far more than all
 * pools together may be mapped.
 *
 * The page is the unit that is moved, copied and kept coherent.  Put what one thread works on
 * into one page, and what different threads write into different pages.
 *
 * Errors: DMI_EINVAL when `addr_ptr` is NULL.  DMI_ESIZE unless both sizes are positive and their
 * product is below 2^62.  DMI_ENOMEM when there are no addresses left.
 */
int32_t DMI_mmap(int64_t *addr_ptr, int64_t page_size, int64_t page_num,
                 DMI_local_status_t *status);

/*
 * Unmaps the whole mapping whose address DMI_mmap stored as `addr`.  Once this has returned, every
 * access to the mapping, from any process, fails with DMI_EADDR.  Accesses that are under way at
 * that time succeed, or fail with the same error.
 *
 * Errors: DMI_EADDR when `addr` is not the beginning of a mapping.
 */
int32_t DMI_munmap(int64_t addr, DMI_local_status_t *status);

/*
 * Reads `size` bytes at `addr` into `buf`.  Any alignment and any number of pages, inside one
 * mapping; size 0 does nothing, whatever `addr` and `buf` are.  Within one page the call is atomic
 * and sequentially consistent with all others; a range over several pages is one such access for
 * each page, in any order.
 *
 * `mode` says what stays in this process when it does not have the page yet:
 * - DMI_INVALIDATE_READ: a copy, until somebody writes to the page.  For what is read often and
 *   written seldom.
 * - DMI_UPDATE_READ: a copy that is changed with every write.  For what is written by one and
 *   soon read by others; each write then costs a message to each copy.
 * - DMI_GET_READ: nothing; only these bytes travel.  For what is read once, or a small part.
 *
 * With a `status`, `buf` must stay valid, and must not be looked at, until DMI_wait or DMI_check
 * has said that the read is complete.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or it is unmapped meanwhile.  DMI_ERANGE when the
 * range leaves its mapping (nothing is read).  DMI_EINVAL for a negative size, a `buf` of NULL
 * (unless the size is 0) or a mode that is not for reading.  DMI_ENOMEM when this process has no
 * memory for the page.  DMI_ELOST when a page was lost with a process.
 */
int32_t DMI_read(int64_t addr, int64_t size, void *buf, int8_t mode, DMI_local_status_t *status);

/*
 * Writes `size` bytes from `buf` to `addr`.  Any alignment and any number of pages, inside one
 * mapping.  Atomic and sequentially consistent within one page, as DMI_read.  When the write is
 * complete, no process reads the old bytes any more.
 *
 * `mode` says where it takes place:
 * - DMI_EXCLUSIVE_WRITE: here, after the page has moved here: this process becomes its owner.  For
 *   pages that this process writes again; a write over a whole page moves no old bytes.
 * - DMI_PUT_WRITE: at the owner, to which the bytes are sent.  For pages that several processes
 *   write by turns, or once.
 *
 * Size 0 changes no byte, and `buf` may be NULL.  With DMI_EXCLUSIVE_WRITE the page that holds
 * `addr` moves here with its bytes: when the write is complete, further reads and writes of this
 * process there cost no message.  At the end of a mapping there is no such page, and nothing is
 * done; nor is anything done with DMI_PUT_WRITE, whatever `addr` is.
 *
 * `buf` may be used again as soon as the call returns, also with a `status`.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or it is unmapped meanwhile.  DMI_ERANGE when the
 * range leaves its mapping (nothing is written).  DMI_EINVAL for a negative size, a `buf` of NULL
 * (unless the size is 0) or a mode that is not for writing.  DMI_ENOMEM when there is no memory for
 * the page; parts of the range in other pages may have been written then.  DMI_ELOST when a page
 * was lost with a process, or the write was on its way to one: it may have been done or not.
 */
int32_t DMI_write(int64_t addr, int64_t size, const void *buf, int8_t mode,
                  DMI_local_status_t *status);

/*
 * Asks the calling process to keep the pages touched by [addr, addr + size) in its memory pool when
 * it must replace pages.  Nothing is fetched, and other processes may still take a page away by
 * writing to it.  Calls are not counted: a page is saved or not, and one DMI_unsave ends it however
 * often it was saved; DMI_unsave of a page that was not saved does nothing.  Any range inside one
 * mapping, also of pages that this process does not have now; the call takes the time and memory of
 * one entry, whatever the size.  DMI_munmap ends it.  Size 0 succeeds.  DMI_EADDR, DMI_ERANGE,
 * DMI_EINVAL, DMI_ENOMEM.
 */
int32_t DMI_save(int64_t addr, int64_t size);

/* Ends what DMI_save asked for, for the pages touched by [addr, addr + size).  DMI_EADDR,
 * DMI_ERANGE, DMI_EINVAL. */
int32_t DMI_unsave(int64_t addr, int64_t size);

/* ---- Objects (chapter 4, "DMI_mmap and DMI_munmap are heavy") -------------------------------- */

/*
 * Allocates `size` bytes of global memory in pages of `page_size` bytes.  Small objects share
 * mappings: no mapping is made for each.  The bytes are undefined until written.
 *
 * An object that fits into a page lies in one page, so that read-modify-writes and mutexes in it
 * work; if it takes at most half a page, it shares the page with others.  A larger one has whole
 * pages, one after the other; above 256 KiB, a mapping of its own.  The address is a multiple of
 * 16 when page_size is.  Each page size has memory of its own: use few of them.
 *
 * Any thread of any process may free the object, also when this process has left.
 *
 * Errors: DMI_ESIZE unless both sizes are positive and the pages together smaller than 2^62 bytes.
 * DMI_EINVAL when addr_ptr is NULL.  DMI_ENOMEM.
 */
int32_t DMI_malloc(int64_t *addr_ptr, int64_t size, int64_t page_size);

/*
 * Makes an object smaller or larger, or moves it to pages of another size.  *new_addr_ptr is where
 * it is from now on, the same address or another one; the bytes up to the smaller of both sizes are
 * kept.  Nobody may use the object meanwhile.  An `old_addr` of DMI_NULL allocates a new object.
 * After DMI_FALSE the object is as it was.
 *
 * Errors: DMI_EADDR when no object begins at `old_addr`.  DMI_ESIZE, DMI_EINVAL and DMI_ENOMEM as
 * for DMI_malloc.
 */
int32_t DMI_realloc(int64_t old_addr, int64_t *new_addr_ptr, int64_t size, int64_t page_size);

/*
 * Frees an object.  DMI_munmap does not: it refuses addresses of objects.
 *
 * Errors: DMI_EADDR when no object begins at `addr`: the object was freed before, `addr` is inside
 * an object, or DMI_malloc never gave it (such as DMI_NULL).
 */
int32_t DMI_free(int64_t addr);

/* ---- Scattered access (chapter 4, "scattered read and write") -------------------------------- */

/* A group of items, for scattered access.  A local object: it means nothing in another process.
 * Contents are private. */
typedef struct {
  int64_t dmi_private[4];
} DMI_local_group_t;

/*
 * Makes a group of `group_num` items.  Item i is [addrs[i], addrs[i] + sizes[i]) of global memory
 * and the same number of bytes at ptr_offsets[i] from the buffer that DMI_group_read and
 * DMI_group_write are given (a negative offset is before it).
 *
 * Items may lie in any mappings and pages, across page borders, and may overlap; those of size 0
 * are left out.  They are sorted here, once: a group is made to be used often.  It takes about 40
 * bytes for each item and 100 for each page.  The arrays are not needed afterwards; with
 * `group_num` 0 they may be NULL.
 *
 * Programs for the last published DMI pass the arrays in the order addrs, ptr_offsets, sizes.  The
 * compiler cannot notice this.  Then offsets are taken for sizes: items leave their mapping
 * (DMI_ERANGE) or are refused by the rule below; the programmer must check the remaining cases,
 * groups of one or two items.  Where the other order would have been right, dmirun --on-error says
 * so.
 *
 * Errors: DMI_EADDR when an item is in no mapping.  DMI_ERANGE when one leaves its mapping.
 * DMI_EINVAL for a negative size or `group_num`, or a pointer of NULL; also when there are three
 * sizes or more, each is the sum of the offsets before it, and items overlap in the buffer.
 * DMI_ENOMEM when there is no memory for the group.
 *
 * Threads: a group belongs to its process; any number of threads may use it at the same time, each
 * with its own buffer.
 */
int32_t DMI_group_init(DMI_local_group_t *group, const int64_t *addrs, const int64_t *sizes,
                       const int64_t *ptr_offsets, int32_t group_num);

/*
 * Frees a group.  Asynchronous calls with it that are not complete go on.
 *
 * Errors: DMI_EINVAL when it is not a group, or has been destroyed.
 *
 * Threads: no other thread may be inside a call with the group.
 */
int32_t DMI_group_destroy(DMI_local_group_t *group);

/*
 * Reads all items of a group into the buffer at `in_ptr`, as DMI_GET_READ does: one request and one
 * answer for each page, however many items it has, all of them at the same time; none for a page
 * that this process owns or has a copy of.
 *
 * What the items have in one page is read at one moment.  Pages are read in any order, and items
 * reach the buffer in any order.
 *
 * Errors: DMI_EADDR when a mapping has been unmapped.  DMI_EINVAL when it is not a group, or
 * `in_ptr` is NULL.  DMI_ENOMEM when there is no memory, here or at an owner; some items may have
 * been read then.  DMI_ELOST when a page was lost with a process; items in other pages have been
 * read.
 */
int32_t DMI_group_read(DMI_local_group_t *group, void *in_ptr, DMI_local_status_t *status);

/*
 * Writes all items of a group from the buffer at `out_ptr`, as DMI_PUT_WRITE does, with as few
 * messages as DMI_group_read.
 *
 * What the items have in one page is written at one moment.  Where items overlap, the bytes are
 * those of the item that was given later.  The buffer may be used again as soon as the call
 * returns, also with a `status`.
 *
 * Errors: DMI_EADDR when a mapping has been unmapped.  DMI_EINVAL when it is not a group, or
 * `out_ptr` is NULL.  DMI_ENOMEM when there is no memory, here or at an owner; items in other pages
 * may have been written then.  DMI_ELOST when a page was lost with a process, or was on its way
 * there; items in other pages have been written.
 */
int32_t DMI_group_write(DMI_local_group_t *group, const void *out_ptr, DMI_local_status_t *status);

/* ---- Read-write-sets (chapter 4, "read-write-set") ------------------------------------------- */

/*
 * A read-write-set holds the values of an irregular domain decomposition: `element_num` elements of
 * `element_size` bytes, divided among `rwset_num` domains.  Each domain writes its own elements,
 * step after step, and reads some of its neighbours'.  The values of a domain lie together, in a
 * page of their own, which is owned by the process that writes them: publishing them is a local
 * write, and fetching the neighbours' values takes one request for each neighbour.
 *
 * The program must keep the steps apart: all publish before one fetches, and all fetch before one
 * publishes again.  Use a barrier twice a step, or once a step with two sets in turn.
 */

/* A read-write-set.  A global object: keeps its meaning in other processes.  Contents are private.
 */
typedef struct {
  int64_t dmi_private[8];
} DMI_rwset_t;

/* One domain's part in a read-write-set.  A local object: it means nothing in another process.
 * Contents are private. */
typedef struct {
  int64_t dmi_private[4];
} DMI_local_rwset_t;

/*
 * Makes a read-write-set in the sizeof(DMI_rwset_t) bytes of global memory at `rwset_addr`, where
 * any process may use it from then on.  It takes global memory for the values, 8 bytes for each
 * element, and 24 for each domain.
 *
 * Errors: DMI_EINVAL unless all three numbers are positive.  DMI_EADDR when `rwset_addr` is in no
 * mapping.  DMI_ERANGE when a DMI_rwset_t would leave the mapping.  DMI_ESIZE when there are more
 * than 2^59 elements.  DMI_ENOMEM when there is no memory.
 */
int32_t DMI_rwset_init(int64_t rwset_addr, int64_t element_num, int64_t element_size,
                       int32_t rwset_num);

/*
 * Frees a read-write-set and its values.  Local objects that DMI_local_rwset_init made of it must
 * be destroyed as well; all other calls with them fail with DMI_EADDR.
 *
 * Errors: DMI_EINVAL when there is none at `rwset_addr`, or it has been overwritten.  DMI_EADDR
 * when that is in no mapping.  DMI_ERANGE when a DMI_rwset_t would leave the mapping.  DMI_ENOMEM
 * when there is no memory.
 */
int32_t DMI_rwset_destroy(int64_t rwset_addr);

/*
 * Declares which elements domain `my_id` writes: `write_element_num` different numbers from 0 to
 * element_num - 1 (see DMI_rwset_init), in any order; DMI_local_rwset_write takes the values in the
 * same order.  They are zeros at first.
 *
 * Each domain from 0 to rwset_num - 1 does this once, in any process, also a domain that writes
 * nothing; they may do so at the same time.  If an element is in two domains' write sets,
 * DMI_local_rwset_init fails in all domains.
 *
 * Errors: DMI_EINVAL when an element is named twice, `my_id` is no domain, a number is negative, a
 * pointer is NULL, or there is no read-write-set at `rwset_addr`.  DMI_ERANGE when an element does
 * not exist, or a DMI_rwset_t would leave the mapping.  DMI_ERWSET when `my_id` has decomposed
 * before.  DMI_EADDR when `rwset_addr` is in no mapping.  DMI_ESIZE when the values of the domain
 * are more than 2^62 bytes.  DMI_ENOMEM when there is no memory.
 */
int32_t DMI_rwset_decompose(int64_t rwset_addr, int32_t my_id, const int64_t *write_elements,
                            int32_t write_element_num);

/*
 * Prepares domain `my_id`, in this process, for writing its elements and reading
 * `read_element_num` elements, of any domains including its own; an element may be named more than
 * once.  Call it after every domain has called DMI_rwset_decompose.  A domain that continues in
 * another process calls it again there.
 *
 * Errors: DMI_ERWSET when not all domains have decomposed, an element is in two write sets (of
 * whichever domains), or one that is to be read is in none.  DMI_EINVAL when `my_id` is no domain,
 * a number is negative, a pointer is NULL, or there is no read-write-set at `rwset_addr`.
 * DMI_ERANGE when an element does not exist, or a DMI_rwset_t would leave the mapping.  DMI_EADDR
 * when `rwset_addr` is in no mapping.  DMI_ESIZE when all that is read together is more than 2^63
 * bytes. DMI_ENOMEM when there is no memory.
 *
 * Threads: what it makes belongs to its process, and is for one thread at a time.
 */
int32_t DMI_local_rwset_init(DMI_local_rwset_t *local_rwset, int64_t rwset_addr, int32_t my_id,
                             const int64_t *read_elements, int32_t read_element_num);

/*
 * Frees what DMI_local_rwset_init made.  Asynchronous calls that are not complete go on.
 *
 * Errors: DMI_EINVAL when it was not initialised, or has been destroyed.
 */
int32_t DMI_local_rwset_destroy(DMI_local_rwset_t *local_rwset);

/*
 * Publishes the values of the domain's write set from `buf`: element_size bytes for each element,
 * in the order of DMI_rwset_decompose.  All of them change at one moment.  This is a local write,
 * except for the first one after the domain has moved to another process.  `buf` may be used again
 * as soon as the call returns, also with a `status`.
 *
 * Errors: DMI_EADDR when the set has been destroyed.  DMI_EINVAL for a pointer of NULL, or when
 * DMI_local_rwset_init did not make `local_rwset`.  DMI_ENOMEM when there is no memory.
 */
int32_t DMI_local_rwset_write(DMI_local_rwset_t *local_rwset, const void *buf,
                              DMI_local_status_t *status);

/*
 * Fetches the values of the domain's read set to `buf`: element_size bytes for each element, in the
 * order of DMI_local_rwset_init.  It sends at most one request for each other domain, all at the
 * same time; the values of one domain are read at one moment.
 *
 * Errors: DMI_EADDR when the set has been destroyed.  DMI_EINVAL for a pointer of NULL, or when
 * DMI_local_rwset_init did not make `local_rwset`.  DMI_ENOMEM when there is no memory, here or at
 * an owner.  DMI_ELOST when the values of a domain were lost with a process; those of the other
 * domains have been fetched.
 */
int32_t DMI_local_rwset_read(DMI_local_rwset_t *local_rwset, void *buf, DMI_local_status_t *status);

/* ---- Read-modify-write (chapter 5, "read-modify-write") ------------------------------------- */

/*
 * Each operation is one atomic step at the owner of the page.  All processes see these operations,
 * reads and writes in the same order.  The range must lie in one page.
 *
 * `mode` says which process that owner is:
 * - DMI_PUT_ATOMIC: the present one; the operation is sent to it, and its answer comes back.  For
 *   counters, queues and flags that several processes use by turns.  When in doubt, this one.
 * - DMI_EXCLUSIVE_ATOMIC: this process, to which the page is moved first.  For pages that this
 *   process goes on using: the next operations here cost no message.  When several processes use it
 *   in turn, the page moves each time.
 *
 * With a `status`, the places that the operation stores into must stay valid until it is complete;
 * its inputs may be used again as soon as the call returns.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or it is unmapped meanwhile.  DMI_ERANGE when the
 * range is not in one page.  DMI_EINVAL for a size below 1, a pointer of NULL where that is not
 * allowed, or another mode.  DMI_ENOMEM when there is no memory for the page.  DMI_ELOST when the
 * page was lost with a process, or the operation was on its way to one: it may have been done or
 * not.
 */

/* Compares and swaps: if the `size` bytes at addr equal *cmp_ptr, stores *swap_ptr there and sets
 * *flag_ptr to DMI_TRUE; otherwise sets it to DMI_FALSE. */
int32_t DMI_cas(int64_t addr, int64_t size, const void *cmp_ptr, const void *swap_ptr,
                int8_t *flag_ptr, int8_t mode, DMI_local_status_t *status);

/* Fetches and stores: *in_ptr gets the `size` bytes at addr, and those of *out_ptr take their
 * place. */
int32_t DMI_fas(int64_t addr, int64_t size, const void *out_ptr, void *in_ptr, int8_t mode,
                DMI_local_status_t *status);

/* Fetches and adds: *old_ptr (may be NULL) gets the 8-byte signed number at addr, in the byte order
 * of the machine, and `add` is added to it.  Wraps around. */
int32_t DMI_fad(int64_t addr, int64_t add, int64_t *old_ptr, int8_t mode,
                DMI_local_status_t *status);

/*
 * Runs the program's DMI_function at the owner of the page.  It gets the `size` bytes at addr in
 * place, the inputs *out1_ptr and *out2_ptr (NULL and size 0: no input), and `tag`, which tells it
 * what to do; *in_ptr gets its answer of `in_size` bytes.
 *
 * Errors: DMI_ENOFUNC when the program has no DMI_function.  DMI_EINVAL also for a negative size, a
 * tag below 0 (reserved), and when the inputs together, or the answer, take 4 GiB or more.
 */
int32_t DMI_atomic(int64_t addr, int64_t size, const void *out1_ptr, int64_t out1_size,
                   const void *out2_ptr, int64_t out2_size, void *in_ptr, int64_t in_size,
                   int8_t tag, int8_t mode, DMI_local_status_t *status);

/* ---- Mutexes (chapter 5, "mutual exclusion") ------------------------------------------------ */

/*
 * The object is `sizeof(DMI_mutex_t)` bytes of global memory at any address, also as a member of a
 * larger struct beside ordinary data, as long as these bytes lie in one page: make the page size a
 * multiple of the struct's size.  Memory that was never written is an unlocked mutex.  All
 * processes can use it, whichever of them join and leave, including the owner of its page.
 *
 * Waiting threads sleep and use no processor.  The mutex goes to the thread that has waited
 * longest, with one message; no thread asks again over the network.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or is unmapped while the thread waits. DMI_ERANGE
 * when the object is not in one page.  DMI_EINVAL when the bytes at `addr` are not a mutex: neither
 * initialised nor zero; they are not changed.
 *
 * When a process is lost (and the program goes on) a mutex that one of its threads held goes to the
 * next thread that waits or comes.  Its call (DMI_mutex_lock, DMI_mutex_trylock, DMI_cond_wait)
 * fails with DMI_EOWNERDEAD, but it holds the mutex: what this guards may be half changed.  It
 * mends that and calls DMI_mutex_consistent; until then each lock of the mutex, also after an
 * unlock, gives DMI_EOWNERDEAD.  Threads that were waiting keep their order.  DMI_ELOST: the page
 * of the mutex was lost.
 */

/* A global object: keeps its meaning in other processes.  Contents are private. */
typedef struct {
  int64_t dmi_private[2];
} DMI_mutex_t;

/* Makes a mutex at `addr`.  No thread may use it meanwhile. */
int32_t DMI_mutex_init(int64_t addr);

/*
 * Ends a mutex; its memory is free for other use.
 *
 * Errors: DMI_EBUSY while a thread holds it or waits for it: nothing changes.
 */
int32_t DMI_mutex_destroy(int64_t addr);

/*
 * Waits until no other thread holds the mutex, and takes it.  First come, first served, over
 * all threads of all processes.
 *
 * Errors: DMI_EHOLDER when the calling thread holds it already.
 */
int32_t DMI_mutex_lock(int64_t addr);

/*
 * Gives the mutex to the thread that has waited longest, if there is one.
 *
 * Errors: DMI_EHOLDER when the calling thread does not hold it: nothing changes.
 */
int32_t DMI_mutex_unlock(int64_t addr);

/* Locks the mutex if no thread holds it, and does not wait: *flag_ptr becomes DMI_TRUE when the
 * calling thread got it, else DMI_FALSE.  DMI_EINVAL when `flag_ptr` is NULL. */
int32_t DMI_mutex_trylock(int64_t addr, int32_t *flag_ptr);

/*
 * Says that what a mutex guards is consistent again, after a lock of it has failed with
 * DMI_EOWNERDEAD: the next thread locks it without that error.  The calling thread goes on holding
 * the mutex.
 *
 * Errors: DMI_EHOLDER when the calling thread does not hold the mutex.  DMI_EINVAL when its last
 * lock of it did not fail with DMI_EOWNERDEAD, or it has called this function since.
 *
 * Threads: the one that holds the mutex.
 */
int32_t DMI_mutex_consistent(int64_t addr);

/* ---- Conditions (chapter 5, "conditions") --------------------------------------------------- */

/*
 * The object is `sizeof(DMI_cond_t)` bytes of global memory, with the same rules as a mutex.
 *
 * Errors: DMI_EADDR when an address is in no mapping, or is unmapped while the thread waits.
 * DMI_ERANGE when an object is not in one page.  DMI_EINVAL when the bytes are not a condition, or
 * not a mutex: neither initialised nor zero.
 */

/* A global object: keeps its meaning in other processes.  Contents are private. */
typedef struct {
  int64_t dmi_private[2];
} DMI_cond_t;

/* Makes a condition at `addr`.  No thread may use it meanwhile. */
int32_t DMI_cond_init(int64_t addr);

/*
 * Ends a condition; its memory is free for other use.
 *
 * Errors: DMI_EBUSY while a thread waits: nothing changes.
 */
int32_t DMI_cond_destroy(int64_t addr);

/*
 * Unlocks the mutex and waits for a signal, then locks the mutex again.  Unlocking and waiting are
 * one step for threads that signal while they hold the mutex: no signal gets lost between them.
 *
 * Each return is caused by one DMI_cond_signal or by a DMI_cond_broadcast; there are no spurious
 * wake-ups, unless a process was lost: from then on a signal may wake more threads than one, so
 * that none is spent on a thread of a lost process.  Threads are woken in the order in which they
 * came.  Another thread may have held the mutex in between, so the condition must still be tested
 * in a loop.
 *
 * Errors: DMI_EHOLDER when the calling thread does not hold the mutex: nothing changes.  After
 * DMI_EADDR because the condition was unmapped, the thread holds the mutex.  DMI_EEND when the
 * program is ending (dmi_ext.h): the thread holds the mutex.
 */
int32_t DMI_cond_wait(int64_t cond_addr, int64_t mutex_addr);

/* Wakes the thread that has waited longest, if there is one. */
int32_t DMI_cond_signal(int64_t addr);

/* Wakes all threads that wait now. */
int32_t DMI_cond_broadcast(int64_t addr);

/* ---- Spin locks (chapter 5, "mutual exclusion") --------------------------------------------- */

/* A global object: keeps its meaning in other processes.  Contents are private. */
typedef struct {
  int64_t dmi_private[2];
} DMI_spin_t;

/*
 * Work as the calls for mutexes, for very short critical sections: the order of service, the errors
 * and the messages are the same, but a waiting thread spins in its own process for a short while
 * before it sleeps.
 *
 * Errors: as for DMI_mutex_init, DMI_mutex_destroy, DMI_mutex_lock, DMI_mutex_unlock and
 * DMI_mutex_trylock.
 */
int32_t DMI_spin_init(int64_t addr);
int32_t DMI_spin_destroy(int64_t addr);
int32_t DMI_spin_lock(int64_t addr);
int32_t DMI_spin_unlock(int64_t addr);
int32_t DMI_spin_trylock(int64_t addr, int32_t *flag_ptr);

/* ---- Barriers (chapter 5, "barriers") ------------------------------------------------------- */

/*
 * A barrier is `sizeof(DMI_barrier_t)` bytes of global memory, with the same rules as a mutex; each
 * thread that uses it has its own DMI_local_barrier_t.  Threads and processes may come and
 * go between two rounds.  The arrivals of one process's threads travel in one message, if they come
 * to every round; when fewer come than the last time, their process may wait for 0.2 ms before it
 * sends the message without the others.
 *
 * Errors: DMI_EADDR when the barrier's address is in no mapping, or is unmapped while the thread
 * waits.  DMI_ERANGE when it is not in one page.  DMI_EINVAL when the bytes are not a barrier:
 * neither initialised nor zero.
 *
 * When a process is lost (and the program goes on) no round that has begun ends.  Each thread that
 * waits gets DMI_EBROKEN, and each other one gets it at its next call, for each DMI_local_barrier_t
 * once after a loss; so may a thread of a process that has joined since.  Then all threads that are
 * left arrive anew, and the number that they give to DMI_local_barrier_sync is without those that
 * are lost.
 */

/* A global object: keeps its meaning in other processes.  Contents are private. */
typedef struct {
  int64_t dmi_private[5];
} DMI_barrier_t;

/* A local object: it means nothing in another process.  Contents are private. */
typedef struct {
  int64_t dmi_private[2];
} DMI_local_barrier_t;

/* Makes a barrier at `addr`.  No thread may use it meanwhile. */
int32_t DMI_barrier_init(int64_t addr);

/*
 * Ends a barrier; its memory is free for other use.
 *
 * Errors: DMI_EBUSY while threads wait there for others: nothing changes.
 */
int32_t DMI_barrier_destroy(int64_t addr);

/*
 * Prepares *barrier_ptr for the calling thread's use of the barrier at `addr`.  It must stay in its
 * place until DMI_local_barrier_destroy.  Nothing is read at `addr`, as the barrier may be made
 * later: if there is none, DMI_local_barrier_sync says so (DMI_EINVAL, DMI_EADDR).
 *
 * Errors: DMI_EINVAL when `barrier_ptr` is NULL.  DMI_ENOMEM.
 */
int32_t DMI_local_barrier_init(DMI_local_barrier_t *barrier_ptr, int64_t addr);

/*
 * Ends the calling thread's use of a barrier.
 *
 * Errors: DMI_EINVAL when *barrier_ptr was not initialised, or has been destroyed.
 */
int32_t DMI_local_barrier_destroy(DMI_local_barrier_t *barrier_ptr);

/*
 * Waits until `pnum` calls of DMI_local_barrier_sync, DMI_local_barrier_allreduce or
 * DMI_local_barrier_allreduce_op (dmi_ext.h) have been made at the same barrier, by any threads of
 * any processes, including this one.  These calls are one round; the next round may have another
 * `pnum` and other threads.
 *
 * Errors: DMI_EINVAL when `pnum` is not the one that the first thread of the round gave (this call
 * is not counted then, and the round goes on), is below 1, or *barrier_ptr was not initialised.
 * DMI_EEND when the program is ending (dmi_ext.h): the round does not end.
 */
int32_t DMI_local_barrier_sync(DMI_local_barrier_t *barrier_ptr, int32_t pnum);

/*
 * Does what DMI_local_barrier_sync does, and stores the sum of the `sub_sum` of all calls of the
 * round in *sum_ptr (may be NULL; the others have added 0).  They are added in the order of
 * arrival; all threads get the same bits.
 *
 * Errors: as for DMI_local_barrier_sync.
 */
int32_t DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier_ptr, double sub_sum,
                                    double *sum_ptr, int32_t pnum);

/* ---- Watching (chapter 5) ------------------------------------------------------------------- */

/*
 * Waits until the `size` bytes at `addr` differ from those at `in_ptr`, and stores them at
 * `out_ptr` (which may be the same place).  If they do not differ yet, these are the bytes after
 * the first write that makes them differ.  Waiting sends no messages until a thread writes there:
 * then one message comes.
 *
 * With a `status`, `in_ptr` may be used again as soon as the call returns; what is at `out_ptr`
 * must stay valid until the watch is complete.  A watch that no thread waits for does not keep a
 * program or a process from ending.
 *
 * Errors: DMI_EADDR when `addr` is in no mapping, or is unmapped meanwhile.  DMI_ERANGE when the
 * range is not in one page.  DMI_EINVAL for a size below 1 or a pointer of NULL.  DMI_ELOST when
 * the page was lost with a process.  DMI_EEND when the program is ending (dmi_ext.h).
 */
int32_t DMI_watch(int64_t addr, int64_t size, const void *in_ptr, void *out_ptr,
                  DMI_local_status_t *status);

/* ---- Local memory --------------------------------------------------------------------------- */

/*
 * malloc and free for programs that cannot go on without memory: instead of returning NULL,
 * my_malloc prints how much was asked for and ends the process.  my_free takes what my_malloc
 * returned, or NULL.
 */
void *my_malloc(size_t size);
void my_free(void *ptr);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
