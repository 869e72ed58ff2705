/*
 * dying.h - a process that a signal ends tells the other members by which one, why and where, so
 * that they can say more of it than that it is lost.
 *
 * The handler of the signal only wakes the pulse thread, which never runs code of users.  That one
 * sends DYING on the connections on which the others will see the end, and so before that.
 */
#ifndef DMI_NODE_DYING_H
#define DMI_NODE_DYING_H

#include "base/safe.h"
#include "msg/msg.h"
#include "node/process.h"

/* ---- In the handler of the signal: nothing is allocated, no lock taken ---- */

/* Has it told what the line says, DMI_DYING_TEXTS times at most: the others say the last one that
 * they got. */
#define DMI_DYING_TEXTS 2
void dmi_dying_tell(const struct dmi_safe *line);
/* Waits until it is sent, or for some 100 ms. */
void dmi_dying_wait(void);

/* ---- The pulse thread ---- */

/* It can be woken by dmi_net_post(net), and calls dmi_dying_send then.  Before it is started, as a
 * process may end before its first step. */
void dmi_dying_begin(struct dmi_net *net);
/* The calling thread is that one. */
void dmi_dying_thread(void);
void dmi_dying_end(struct dmi_net *net);
void dmi_dying_send(struct dmi_process *process);

/* ---- The daemon of the others ---- */

/* DMI_survive: for what it may be removed, unless it tells more itself; and that it was heard
 * again. */
void dmi_dying_doubt(struct dmi_process *process, dmi_uid_t uid, const char *why);
void dmi_dying_heard(struct dmi_process *process, dmi_uid_t uid);

/* What this member has told of its end; else `why`. */
const char *dmi_dying_why(struct dmi_process *process, dmi_uid_t uid, const char *why);
/* The same, or of which doubt there is about it; NULL: nothing. */
const char *dmi_dying_told(struct dmi_process *process, dmi_uid_t uid);
void dmi_dying_forget(struct dmi_process *process, dmi_uid_t uid);
void dmi_dying_free(struct dmi_process *process);

#endif
