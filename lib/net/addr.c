/*
 * addr.c - addresses as bytes, as the system's structs and as text.
 *
 * Must not resolve names (join.c and tcp.c do).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool dmi_addr_is_any(const struct dmi_addr *addr) {
  static const uint8_t none[16];
  return memcmp(addr->ip, none, sizeof none) == 0;
}

bool dmi_addr_is_zero(const struct dmi_addr *addr) {
  return addr->port == 0 || dmi_addr_is_any(addr);
}

bool dmi_addr_is_ipv4(const struct dmi_addr *addr) {
  return memcmp(addr->ip, mapped, sizeof mapped) == 0;
}

bool dmi_addr_is_loopback(const struct dmi_addr *addr) {
  static const uint8_t one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (dmi_addr_is_ipv4(addr)) return addr->ip[12] == 127;
  return memcmp(addr->ip, one, sizeof one) == 0;
}

/* Writes IPv4 addresses as AF_INET, which also works where there is no IPv6. */
socklen_t dmi_addr_to_socket(const struct dmi_addr *addr, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  if (dmi_addr_is_ipv4(addr)) {
    struct sockaddr_in *in4 = (struct sockaddr_in *)out;
    in4->sin_family = AF_INET;
    in4->sin_port = htons(addr->port);
    memcpy(&in4->sin_addr, addr->ip + 12, 4);
    return sizeof *in4;
  }
  struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(addr->port);
  memcpy(&in6->sin6_addr, addr->ip, 16);
  return sizeof *in6;
}

void dmi_addr_of_socket(struct dmi_addr *addr, const struct sockaddr_storage *in) {
  memset(addr, 0, sizeof *addr);
  if (in->ss_family == AF_INET) {
    const struct sockaddr_in *in4 = (const struct sockaddr_in *)in;
    memcpy(addr->ip, mapped, sizeof mapped);
    memcpy(addr->ip + 12, &in4->sin_addr, 4);
    addr->port = ntohs(in4->sin_port);
  } else if (in->ss_family == AF_INET6) {
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)in;
    memcpy(addr->ip, &in6->sin6_addr, 16);
    addr->port = ntohs(in6->sin6_port);
  }
}

bool dmi_addr_is_link_local(const struct dmi_addr *addr) {
  return addr->ip[0] == 0xfe && (addr->ip[1] & 0xc0) == 0x80;
}

const char *dmi_addr_text(const struct dmi_addr *addr, char out[80]) {
  char ip[INET6_ADDRSTRLEN] = "?";
  if (dmi_addr_is_ipv4(addr)) {
    inet_ntop(AF_INET, addr->ip + 12, ip, sizeof ip);
  } else {
    inet_ntop(AF_INET6, addr->ip, ip, sizeof ip);
  }
  snprintf(out, 80, "%s port %u", ip, addr->port);
  return out;
}
