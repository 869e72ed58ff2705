/*
 * runtime.h - the life of a process, and functions of the daemon thread.
 */
#ifndef DMI_NODE_RUNTIME_H
#define DMI_NODE_RUNTIME_H

#include "node/process.h"
#include "node/thread.h"

struct dmi_entry;
struct dmi_mact;

/* ---- main.c ---- */
/* Runs the program in this OS process, with the options in the environment; returns the exit
 * status. */
int dmi_runtime_main(const struct dmi_program *program, int argc, char **argv);

/* ---- A process of a program, of which there may be several in an OS process ---- */

/* Makes a process; *program and *host are copied. */
struct dmi_process *dmi_runtime_new(const struct dmi_program *program, const struct dmi_host *host);
/* Sets its options.  Events are emitted from here on.  The texts in *config must live as long as
 * the process.  False: a file that is asked for cannot be made; an event said why. */
bool dmi_runtime_configure(struct dmi_process *process, const struct dmi_config *config);
/* Opens the network and listens.  False: it cannot; an event said why. */
bool dmi_runtime_open(struct dmi_process *process, const char *argv0);
/* For both: the file that an option of dmirun names cannot be made (errno).  Says so; it is a wrong
 * option.  Returns false. */
bool dmi_runtime_not_made(struct dmi_process *process, const char *option, const char *path,
                          int error);
/* Runs the process to its end, in the calling thread; returns the exit status. */
int dmi_runtime_run(struct dmi_process *process, int argc, char **argv);
/* Does as if the OS process had got this signal: SIGINT asks to leave.  Any thread, while the
 * process runs. */
void dmi_runtime_signal(struct dmi_process *process, int number);
void dmi_runtime_free(struct dmi_process *process);

/* The access to global memory of the calling thread's process; NULL before it begins and after it
 * has ended. */
struct dmi_access *dmi_runtime_access(void);

/* The process for a call of the API by this thread; NULL: it may not call now, and DMI_errno() says
 * why. */
struct dmi_process *dmi_runtime_usable(void);

/* Does the calling thread run DMI_main or DMI_recover? */
bool dmi_runtime_is_main(void);

/* DMI_OK if this thread may call DMI functions now, else why not.  As dmi_access_usable; `process`
 * may be NULL. */
static inline int32_t dmi_runtime_error(const struct dmi_process *process) {
  return dmi_access_usable(process ? &process->access : NULL);
}

/* ---- above.c ---- */
extern const struct dmi_access_above dmi_runtime_above;

/* ---- For the daemon thread ---- */

/* Sends and flushes; drops the message when the process has left.  Any thread. */
void dmi_runtime_send(struct dmi_process *process, dmi_uid_t to, struct dmi_msg *msg);

/* One more reason why the program must not end; known(arg, DMI_OK) is called when the coordinator
 * knows that this process is busy, if `known` is not NULL; with DMI_EINACTIVE: it has ended. */
void dmi_runtime_busy(struct dmi_process *process, void (*known)(void *arg, int32_t error),
                      void *arg);
/* One reason less; takes effect when no operation is in flight any more. */
void dmi_runtime_idle(struct dmi_process *process);
void dmi_runtime_idle_look(struct dmi_process *process);

/* A call of the membership core that waits for its result. */
struct dmi_wait {
  struct dmi_wait *next;
  uint64_t op;
  void (*done)(struct dmi_process *process, struct dmi_wait *wait, const struct dmi_mact *result);
};

/* Gives the wait a number and remembers it until the result comes. */
uint64_t dmi_wait_add(struct dmi_process *process, struct dmi_wait *wait);

/* Does one step of the protocol of this process (core/node.h) and carries out its actions.  An
 * input that an action causes only adds to the list.  False: a correct peer does not send this
 * message. */
bool dmi_actions_input(struct dmi_process *process, const struct dmi_input *in);
/* The list of actions, and what carries it out. */
struct dmi_out *dmi_actions(struct dmi_process *process);
void dmi_actions_carry(struct dmi_process *process);
/* This process cannot go on: a line says why, and it ends with status 1. */
void dmi_actions_fatal(struct dmi_process *process, const char *why);
/* The seed could not be reached.  True: the contact file names another one, which is tried now. */
bool dmi_actions_seed_moved(struct dmi_process *process);

/* Enters a mapping of the directory; returns it without a reference.  NULL: no memory. */
struct dmi_mapping *dmi_enter_mapping(struct dmi_process *process, const struct dmi_entry *entry);

#endif
