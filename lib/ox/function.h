/*
 * function.h - the functions that the program has registered, and threads that run calls of them.
 *
 * A call belongs to a desk, where its result is left; who waits there is woken by a function. When
 * the desk is closed nobody waits any more, and calls that still run are told so.
 */
#ifndef DMI_OX_FUNCTION_H
#define DMI_OX_FUNCTION_H

#include "ox/value.h"

bool dmi_ox_function_known(const char *name);

struct dmi_ox_desk;

/* `wake` is called in the thread of a call, never after dmi_ox_desk_close has returned. */
struct dmi_ox_desk *dmi_ox_desk_new(void (*wake)(void *arg), void *arg);
/* Begins a call in a thread of its own; takes over both. False: there is no thread, too many
 * calls run, or no such function; they are dropped. */
bool dmi_ox_desk_call(struct dmi_ox_desk *desk, uint32_t id, struct dmi_ox_value *name,
                      struct dmi_ox_value *args);
/* Nobody wants the result of this call any more. */
void dmi_ox_desk_cancel(struct dmi_ox_desk *desk, uint32_t id);
/* A result that has come; false when there is none. One use of it is given away. */
bool dmi_ox_desk_take(struct dmi_ox_desk *desk, uint32_t *id, struct dmi_ox_value **value);
void dmi_ox_desk_close(struct dmi_ox_desk *desk);
/* Waits until no call runs, of any desk. */
void dmi_ox_desk_wait_all(void);

#endif
