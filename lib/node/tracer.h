/*
 * tracer.h - traces of the program (docs/trace.md): what this process tells of itself to the one
 * that was started with --trace, or, if it is that one, what it asks the others, and writes.
 */
#ifndef DMI_NODE_TRACER_H
#define DMI_NODE_TRACER_H

#include "node/process.h"

/* Numbers of its questions; those of see.c are below. */
#define DMI_TRACER_EVENTS UINT32_C(0x80000000)
#define DMI_TRACER_CLOCK UINT32_C(0x80000001)

/* Before any other thread runs.  With --trace it begins; without memory nothing is traced. */
struct dmi_tracer *dmi_tracer_new(struct dmi_process *process, const char *host);
/* False: --trace asks for a file, and there is none, which was said. */
bool dmi_tracer_good(const struct dmi_process *process);
/* Writes what is left, and ends its thread and the file.  When the daemon has ended (or in it), and
 * before anything that it looks at is freed.  May be called again. */
void dmi_tracer_end(struct dmi_process *process);
/* When no thread emits events any more. */
void dmi_tracer_free(struct dmi_process *process);

/* ---- For the daemon ---- */

/* A question of a member.  False: a correct one does not ask it. */
bool dmi_tracer_on_ask(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg_see *ask);
/* An answer to one of ours, likewise. */
bool dmi_tracer_on_answer(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg *msg);
/* There is a new view. */
void dmi_tracer_view(struct dmi_process *process);
/* No connection with this member is there any more: it tells nothing more. */
void dmi_tracer_gone(struct dmi_process *process, dmi_uid_t uid);
/* The process is about to end: the network is stopped (dmi_net_stop) when the rest has been sent,
 * and that of others has come, or `patience` ns have passed. */
void dmi_tracer_finish(struct dmi_process *process, int64_t patience);

#endif
