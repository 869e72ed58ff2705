/*
 * memory_net.h - a transport for tests: a network in memory, between dmi_nets of one process.
 *
 * It does what lib/net/transport.h promises, and behaves as TCP does: bounded buffers at both ends,
 * a machine that receives bytes whether its process reads or not, FIN and RST, refused connections,
 * attempts that wait while the route is cut.  A test can also delay, cut and restore routes between
 * machines, and break connections.
 *
 * Machines are numbers from 1; machine N has the address 10.0.0.0 + N, and its processes listen on
 * different ports.  All functions may be called from any thread.
 */
#ifndef TEST_MEMORY_NET_H
#define TEST_MEMORY_NET_H

#include <stdint.h>

#include "msg/addr.h"

struct dmi_transport;
struct memory_net;

struct memory_net *memory_net_new(void);
/* All its transports must have been freed. */
void memory_net_free(struct memory_net *net);

/* The transport of one process on this machine. */
struct dmi_transport *memory_net_open(struct memory_net *net, uint32_t machine);
struct dmi_addr memory_net_addr(uint32_t machine, uint16_t port);

/* ---- The route from one machine to another; the way back is a separate one ---- */

/* Bytes that are sent on it from now on take so many seconds; 0 at first. */
void memory_net_delay(struct memory_net *net, uint32_t from, uint32_t to, double seconds);

/* Nothing arrives on it any more: neither bytes nor ends of streams nor attempts to connect.  No
 * end is told, as with a cable that is cut.  (Bytes that have arrived count as acknowledged, even
 * if the way back is cut.) */
void memory_net_cut(struct memory_net *net, uint32_t from, uint32_t to);
/* Bytes that wait arrive now, in order.  So for an exact delay: cut, do something, mend. */
void memory_net_mend(struct memory_net *net, uint32_t from, uint32_t to);

/* Breaks all connections between these two, as a router that has forgotten them does: both ends get
 * ECONNRESET, and bytes in flight are lost.  Returns how many. */
uint32_t memory_net_reset(struct memory_net *net, uint32_t a, uint32_t b);

#endif
