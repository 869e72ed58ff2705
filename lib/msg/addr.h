/*
 * addr.h - where a process listens.
 */
#ifndef DMI_MSG_ADDR_H
#define DMI_MSG_ADDR_H

#include <stdint.h>

/* Who somebody is: a uid below this, or, while it has none, a temporary id from here on. */
#define DMI_NET_TEMP 0x80000000u

/* Where a process listens.  IPv4 is kept as ::ffff:a.b.c.d.  All zero: unknown. */
struct dmi_addr {
  uint8_t ip[16];
  uint16_t port;
};

#endif
