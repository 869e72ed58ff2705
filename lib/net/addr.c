/*
 * addr.c - addresses as bytes, as the system's structs and as text; options of sockets.
 *
 * Must not resolve names (dial.c does).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

#define BIG_BUFFER (4 << 20)
#define KEEPALIVE_MOST 32767 /* seconds that Linux takes, for each of the two */
#define KEEPALIVE_TIMES 127  /* likewise */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool dmi_addr_is_zero(const struct dmi_addr *addr) {
  static const uint8_t none[16];
  return addr->port == 0 || memcmp(addr->ip, none, sizeof none) == 0;
}

bool dmi_addr_is_ipv4(const struct dmi_addr *addr) {
  return memcmp(addr->ip, mapped, sizeof mapped) == 0;
}

bool dmi_addr_is_loopback(const struct dmi_addr *addr) {
  static const uint8_t one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (dmi_addr_is_ipv4(addr)) return addr->ip[12] == 127;
  return memcmp(addr->ip, one, sizeof one) == 0;
}

/* IPv4 always as AF_INET: that works where there is no IPv6, too. */
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

bool dmi_addr_is_link_local(const struct sockaddr_storage *name) {
  const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)name;
  return name->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

void dmi_addr_set_port(struct sockaddr_storage *name, uint16_t port) {
  if (name->ss_family == AF_INET)
    ((struct sockaddr_in *)name)->sin_port = htons(port);
  else
    ((struct sockaddr_in6 *)name)->sin6_port = htons(port);
}

bool dmi_addr_bind(struct dmi_net *net, int fd, const struct sockaddr_storage *to) {
  if (net->from_size == 0) return true;
  if (net->from.ss_family != to->ss_family) {
    errno = EAFNOSUPPORT;
    return false;
  }
  return bind(fd, (const struct sockaddr *)&net->from, net->from_size) == 0;
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

bool dmi_addr_big_buffers(void) {
  static const char *const limits[] = {"/proc/sys/net/core/rmem_max",
                                       "/proc/sys/net/core/wmem_max"};
  for (int i = 0; i < 2; i++) {
    long value = 0;
    FILE *file = fopen(limits[i], "r");
    if (file == NULL) return false;
    if (fscanf(file, "%ld", &value) != 1) value = 0;
    fclose(file);
    if (value < BIG_BUFFER) return false;
  }
  return true;
}

static int within(int value, int most) {
  return value < 1 ? 1 : value > most ? most : value;
}

/* With nothing on its way the system asks the other machine, in the last half of the time. */
void dmi_addr_keep_alive(struct dmi_net *net, int fd) {
  int on = 1, after = (int)net->config.dead_after;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (after == 0) return;
  int times = after > 3 ? 3 : after > 1 ? after - 1 : 1;
  int pause = within(after / 6, KEEPALIVE_MOST);
  int idle = within(after - times * pause, KEEPALIVE_MOST);
  while (idle + times * pause < after && times < KEEPALIVE_TIMES)
    times++; /* of days */
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

bool dmi_addr_is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EHOSTDOWN || error == ENETDOWN;
}

void dmi_addr_why(const struct dmi_net *net, char why[DMI_NET_WHY], const char *what, int error) {
  if (!dmi_addr_is_silence(error)) {
    snprintf(why, DMI_NET_WHY, "%s: %s", what, strerror(error));
  } else if (net->config.dead_after == 0) {
    snprintf(why, DMI_NET_WHY, "its machine is silent (%s)", strerror(error));
  } else {
    snprintf(why, DMI_NET_WHY, "its machine has been silent for %u s (dmirun --dead-after)",
             net->config.dead_after);
  }
}

void dmi_addr_tune(struct dmi_net *net, int fd) {
  int on = 1, big = BIG_BUFFER;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  dmi_addr_keep_alive(net, fd);
  /* Asking for a size ends the system's own tuning, so ask only for one that it will give. */
  if (net->big_buffers) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
  }
}
