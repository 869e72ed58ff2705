/*
 * memory_net.h - a transport for tests: a network in memory, between dmi_nets of one process.
 *
 * It keeps what lib/net/transport.h promises, and behaves as TCP does where one can tell: bounded
 * buffers at both ends, a machine that takes bytes whether its process reads or not, FIN and RST,
 * refused connections, attempts that wait while there is no way.  Beyond that a test has it delay,
 * cut and mend the ways between machines, and break connections.
 *
 * Machines are numbers from 1 on; machine N has the address 10.0.0.0 + N, and several processes of
 * it listen at different ports.  All functions may be called from any thread.
 */
#ifndef TEST_MEMORY_NET_H
#define TEST_MEMORY_NET_H

#include <stdint.h>

#include "msg/addr.h"

struct dmi_transport;
struct memory_net;

struct memory_net *memory_net_new(void);
/* All its transports are freed. */
void memory_net_free(struct memory_net *net);

/* What one process at this machine has of it. */
struct dmi_transport *memory_net_open(struct memory_net *net, uint32_t machine);
struct dmi_addr memory_net_addr(uint32_t machine, uint16_t port);

/* ---- The way from one machine to another; that back is another one ---- */

/* What is sent on it from now on takes so many seconds; 0 at first. */
void memory_net_delay(struct memory_net *net, uint32_t from, uint32_t to, double seconds);

/* Nothing arrives on it any more: neither bytes nor ends nor attempts to connect.  Nobody is told,
 * as with a cable.  (What has arrived counts as acknowledged, also when the way back is cut.) */
void memory_net_cut(struct memory_net *net, uint32_t from, uint32_t to);
/* What waits arrives now, in order.  So an exact delay is: cut, do something, mend. */
void memory_net_mend(struct memory_net *net, uint32_t from, uint32_t to);

/* Breaks all connections between these two, as a router does that has forgotten them: both ends get
 * ECONNRESET, and what was on its way is lost.  Returns how many. */
uint32_t memory_net_reset(struct memory_net *net, uint32_t a, uint32_t b);

#endif
