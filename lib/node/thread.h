/*
 * thread.h - DMI threads: create, join, detach, self, across processes.
 *
 * All functions but dmi_thread_self, _suspend and _wake run in the daemon thread.  A thread is
 * named by the uid of its process and a number, which that process counts up.
 */
#ifndef DMI_NODE_THREAD_H
#define DMI_NODE_THREAD_H

#include "msg/msg.h"
#include "dmi_api.h"
#include "node/program.h"

struct dmi_process;
struct dmi_threads;

/* The name of a thread, which others see, is one of these and its number; names have at most 15
 * characters. */
#define DMI_THREAD_NAME "dmi-thread "
#define DMI_THREAD_NAME_SHORT "dmi-t " /* from DMI_THREAD_NUMBER_LONG on */
#define DMI_THREAD_NUMBER_LONG 10000

struct dmi_threads *dmi_threads_new(void);
/* Joins all pthreads, and frees the tables.  No thread may run user code any more. */
void dmi_threads_free(struct dmi_threads *threads);

/* How many threads run user code here, DMI_main included. */
uint32_t dmi_threads_running(const struct dmi_threads *threads);
bool dmi_threads_main_runs(const struct dmi_threads *threads);

void dmi_threads_main_begins(struct dmi_process *process);
/* Not `good`: DMI_recover could not recover. */
void dmi_threads_main_ends(struct dmi_process *process, bool good);

/* Calls about a thread of any process.  `done` is called once, in the daemon thread. */
typedef void dmi_thread_done(void *arg, int32_t error, int64_t value);
void dmi_thread_create(struct dmi_process *process, dmi_uid_t uid, enum dmi_body body, int64_t addr,
                       dmi_thread_done *done, void *arg);
void dmi_thread_join(struct dmi_process *process, dmi_uid_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg);
void dmi_thread_detach(struct dmi_process *process, dmi_uid_t uid, uint64_t number,
                       dmi_thread_done *done, void *arg);

/* Any thread.  `done` is called at once in this thread, or later in the daemon thread. */
void dmi_thread_wake(struct dmi_process *process, dmi_uid_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg);
/* Sleeps until there is a wake for the calling thread, and consumes it.  DMI_ETHREAD: not a DMI
 * thread.  DMI_EEND: the program is ending. */
int32_t dmi_thread_suspend(void);

/* The same with bytes, whose reference it takes over: they stay until the thread takes them. */
void dmi_thread_wake_with(struct dmi_process *process, dmi_uid_t uid, uint64_t number,
                          struct dmi_slice *bytes, dmi_thread_done *done, void *arg);
/* Sleeps until such bytes have come for the calling thread, and takes those that came first: *size
 * gets how many.  DMI_ESIZE: they are more than `capacity`, and stay. */
int32_t dmi_thread_suspend_with(void *to, int64_t capacity, int64_t *size);

/* core.stopping was set: threads that sleep get DMI_EEND, like those that come to it.  The daemon.
 */
void dmi_threads_end_waits(struct dmi_threads *threads);

/* Handles a message of class THREAD.  False: a correct peer does not send it. */
bool dmi_thread_message(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg *msg);

/* The daemon, after the view without it was published: process `uid` is lost.  Its answers will not
 * come, and it joins no thread.  `crashed`: it may have run threads (a crash view removed it). */
void dmi_threads_lost(struct dmi_process *process, dmi_uid_t uid, bool crashed);

/* This process has been welcomed: threads can be created here from now on. */
void dmi_threads_open(struct dmi_threads *threads);

/* A leave begins: no new threads from now on.  False, and nothing has changed: DMI threads still
 * run. */
bool dmi_threads_stop(struct dmi_threads *threads);
/* The leave has failed: threads can be created again. */
void dmi_threads_go_on(struct dmi_threads *threads);

/* The leave succeeds: gives the results of threads that were not joined to `each`, and forgets
 * them. */
void dmi_threads_hand_over(struct dmi_process *process,
                           void (*each)(void *arg, uint64_t number, int64_t value), void *arg);

/* The number of the calling DMI thread; 0 in other threads. */
uint64_t dmi_thread_self(void);

/* Visits each process that has not answered a DMI_create, DMI_detach or DMI_wake of this process.
 */
void dmi_threads_awaits(struct dmi_threads *threads,
                        void (*visit)(void *arg, dmi_uid_t uid, const char *what), void *arg);

#endif
