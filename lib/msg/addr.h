/*
 * addr.h - where a process listens.
 */
#ifndef DMI_MSG_ADDR_H
#define DMI_MSG_ADDR_H

#include <stdint.h>

/* Numbers below this are uids; from it on, temporary ids of processes that have no uid yet. */
#define DMI_NET_TEMP 0x80000000u

/* Where a process listens. IPv4 is stored as ::ffff:a.b.c.d. All zero: unknown. */
struct dmi_addr {
  uint8_t ip[16];
  uint16_t port;
};

#endif
