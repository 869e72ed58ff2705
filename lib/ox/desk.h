/*
 * desk.h - calls of registered functions, each in a thread of its own.
 *
 * A call belongs to a desk, where its result is left; who waits there is woken by a function. When
 * the desk is closed nobody waits any more, and calls that still run are told so.  The desks of a
 * server share one account of the calls that run.
 */
#ifndef DMI_OX_DESK_H
#define DMI_OX_DESK_H

#include "ox/value.h"

/* What is said of each call of a server; all may be NULL. */
struct dmi_ox_around {
  int32_t (*begins)(void *arg); /* in the call's thread; DMI_FALSE: it is not made */
  void (*ends)(void *arg);      /* the same; the function has returned */
  void *arg;
};

struct dmi_ox_calls;

/* At most `most` calls run at a time; a result may take `room` bytes. */
struct dmi_ox_calls *dmi_ox_calls_new(int32_t most, uint64_t room,
                                      const struct dmi_ox_around *around);
/* Waits until none runs. */
void dmi_ox_calls_free(struct dmi_ox_calls *calls);

struct dmi_ox_desk;

/* `wake` is called in the thread of a call, never after dmi_ox_desk_close has returned. */
struct dmi_ox_desk *dmi_ox_desk_new(struct dmi_ox_calls *calls, void (*wake)(void *arg), void *arg);
/* Begins a call; takes over both.  False: they are dropped, and `why` (of 200 bytes) says why. */
bool dmi_ox_desk_call(struct dmi_ox_desk *desk, uint32_t id, struct dmi_ox_value *name,
                      struct dmi_ox_value *args, char *why);
/* Nobody wants the result of this call any more. */
void dmi_ox_desk_cancel(struct dmi_ox_desk *desk, uint32_t id);
/* A result that has come; false when there is none. One use of it is given away. */
bool dmi_ox_desk_take(struct dmi_ox_desk *desk, uint32_t *id, struct dmi_ox_value **value);
void dmi_ox_desk_close(struct dmi_ox_desk *desk);

#endif
