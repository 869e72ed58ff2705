/*
 * runtime.h - the life of this process, and calls that the daemon thread carries out for others.
 */
#ifndef DMI_NODE_RUNTIME_H
#define DMI_NODE_RUNTIME_H

#include "node/process.h"
#include "node/thread.h"

struct dmi_entry;
struct dmi_mact;

/* ---- main.c ---- */
/* Runs the program in this OS process, as the environment says; returns the exit status. */
int dmi_runtime_main(const struct dmi_program *program, int argc, char **argv);

/* ---- A process of a program, of which there may be several in an OS process ---- */

/* A new one; *program and *host are copied. */
struct dmi_process *dmi_runtime_new(const struct dmi_program *program, const struct dmi_host *host);
/* Its options, from here on told of what happens; the texts in *config must live as long as it. */
void dmi_runtime_configure(struct dmi_process *process, const struct dmi_config *config);
/* It listens then.  False: it cannot, which was told. */
bool dmi_runtime_open(struct dmi_process *process, const char *argv0);
/* Runs it to its end, in the calling thread; returns the exit status. */
int dmi_runtime_run(struct dmi_process *process, int argc, char **argv);
/* As if the OS process had got this signal: SIGINT asks to leave.  Any thread, while it runs. */
void dmi_runtime_signal(struct dmi_process *process, int number);
void dmi_runtime_free(struct dmi_process *process);

/* What the calling thread's process has of global memory, NULL before and after it. */
struct dmi_access *dmi_runtime_access(void);

/* The process for a call of this thread; NULL: it may not call now, and DMI_errno() says why. */
struct dmi_process *dmi_runtime_usable(void);

/* May this thread call DMI functions now?  As dmi_access_usable; `process` may be NULL. */
static inline int32_t dmi_runtime_error(const struct dmi_process *process) {
  return dmi_access_usable(process ? &process->access : NULL);
}

/* ---- above.c ---- */
extern const struct dmi_access_above dmi_runtime_above;

/* ---- The daemon thread's ---- */

/* Sends and flushes; drops the message when the process has left. */
void dmi_runtime_send(struct dmi_process *process, uint32_t to, struct dmi_msg *msg);

/* One more reason to be busy; known(arg) is called when the coordinator knows (NULL: nobody cares).
 */
void dmi_runtime_busy(struct dmi_process *process, void (*known)(void *arg), void *arg);
/* One less; takes effect when no operation is in flight any more. */
void dmi_runtime_idle(struct dmi_process *process);
void dmi_runtime_idle_look(struct dmi_process *process);

/* A call of the membership core that has no result yet. */
struct dmi_wait {
  struct dmi_wait *next;
  uint64_t op;
  void (*done)(struct dmi_process *process, struct dmi_wait *wait, const struct dmi_mact *result);
};

/* Gives the wait its number and remembers it until the result comes. */
uint64_t dmi_wait_add(struct dmi_process *process, struct dmi_wait *wait);

/* A step of the protocol of this process (core/node.h), and what it asks for.  An input that comes
 * while that is carried out only adds to the list.  False: a message not from a correct peer. */
bool dmi_actions_input(struct dmi_process *process, const struct dmi_input *in);
/* The list for dmi_node_step, and carrying it out. */
struct dmi_out *dmi_actions(struct dmi_process *process);
void dmi_actions_carry(struct dmi_process *process);
/* The seed could not be reached.  True: its file tells of another one by now, which is tried. */
bool dmi_actions_seed_moved(struct dmi_process *process);

/* Enters a mapping that the directory has told of; returns it, without a reference.  NULL: no
 * memory. */
struct dmi_mapping *dmi_enter_mapping(struct dmi_process *process, const struct dmi_entry *entry);

#endif
