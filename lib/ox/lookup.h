/*
 * lookup.h - looks up the name of a host in a thread of its own, as that may take long.
 */
#ifndef DMI_OX_LOOKUP_H
#define DMI_OX_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>

struct dmi_ox_lookup;

/* `wake` is called in that thread when it is over, never after it was given up.  NULL: there is no
 * thread. */
struct dmi_ox_lookup *dmi_ox_lookup_begin(const char *host, const char *port,
                                          void (*wake)(void *arg), void *arg);
/* True when it is over: then it is freed, and *found are the addresses; NULL: *why says why not. */
bool dmi_ox_lookup_take(struct dmi_ox_lookup *lookup, struct addrinfo **found, const char **why);
void dmi_ox_lookup_give_up(struct dmi_ox_lookup *lookup);

#endif
