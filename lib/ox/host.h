/*
 * host.h - a session with its sockets, in a thread and a loop of its own.
 *
 * It carries out what the session decides (session.h): writes, links, calls. What the session does
 * not want yet is not read, so that the other's writes wait. When the session ends, what is to be
 * written is, for at most FLUSH seconds, and the thread ends.
 */
#ifndef DMI_OX_HOST_H
#define DMI_OX_HOST_H

#include <sys/socket.h>

#include "ox/desk.h"
#include "ox/session.h"

struct dmi_ox_host;

/*
 * Starts a session of these connections, which it takes over; they have sent their byte of order.
 * `links` is where it listens for other servers, with port 0; `calls` the server's account of them.
 * `ended` is called in its thread when all is closed, and is the last that happens in it. NULL:
 * there is no thread.
 */
struct dmi_ox_host *dmi_ox_host_start(const struct dmi_ox_settings *settings,
                                      struct dmi_ox_calls *calls, int control, int data,
                                      const struct sockaddr_storage *links, socklen_t links_len,
                                      void (*ended)(struct dmi_ox_host *host, void *arg),
                                      void *arg);
/* Has it end; only before `ended` is called. Any thread. */
void dmi_ox_host_stop(struct dmi_ox_host *host);
/* To be called from `ended`. */
void dmi_ox_host_free(struct dmi_ox_host *host);

#endif
