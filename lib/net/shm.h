/*
 * shm.h - links in shared memory, between two processes of one user on one host.
 *
 * Every connection begins with TCP and the whole handshake. With HELLO the end that connects can
 * offer such a link, and the other end takes it before it answers HELLO_OK, which says so. The link
 * then takes the place of the TCP one, before any message was sent. docs/shm.md has the steps, and
 * what a killed or malicious process can do.
 *
 * Only the daemon calls these functions.  None of them blocks.
 */
#ifndef DMI_NET_SHM_H
#define DMI_NET_SHM_H

#include <stdbool.h>

#include "net/proof.h"
#include "net/transport.h"

#define DMI_SHM_NAME "shared memory" /* of their operations */

#define DMI_SHM_SPARES 3 /* the socket, the memory, and what the two have in common */

/* An offer: the other end can take it while this lasts. */
struct dmi_shm_offer {
  int listener;               /* -1: none */
  int spares[DMI_SHM_SPARES]; /* descriptors that are kept free for the link; -1: none */
};

#define DMI_SHM_NO_OFFER ((struct dmi_shm_offer){-1, {-1, -1, -1}})

/* The end that connects, before HELLO: makes an offer to the other end of this link. False: its
 * address is not one of this host, or the system cannot. */
bool dmi_shm_offer(struct dmi_shm_offer *offer, struct dmi_link *link,
                   const struct dmi_proof_keys *keys);
/* After HELLO_OK, if that says that the offer is taken: the new link.  NULL: the connection cannot
 * be used.  *common: the descriptor that the other end has given, or -1. */
struct dmi_link *dmi_shm_open(struct dmi_shm_offer *offer, struct dmi_link *link,
                              const struct dmi_proof_keys *keys, int *common);
/* Ends the offer, if there is one. */
void dmi_shm_withdraw(struct dmi_shm_offer *offer);

/* The end that is connected to, before HELLO_OK: takes the offer of the other end of this link.
 * NULL: not possible; the link stays as it is.  `common`: a descriptor for it, or -1. */
struct dmi_link *dmi_shm_take(struct dmi_link *link, const struct dmi_proof_keys *keys, int common);

/* New memory that nobody can make smaller; /proc/PID/maps shows the name.  -1: not possible. */
int dmi_shm_make_memory(const char *name, size_t size);
/* True if accesses to this memory cannot fail: it is of this size and stays so. */
bool dmi_shm_is_memory(int fd, size_t size);

#endif
