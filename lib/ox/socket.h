/*
 * socket.h - addresses and sockets of the OpenXM server.  All sockets are non-blocking.
 */
#ifndef DMI_OX_SOCKET_H
#define DMI_OX_SOCKET_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define DMI_OX_HOST_BYTES 256

/* Splits [ADDR:]PORT; ADDR may be [IPv6]. False when it is none. */
bool dmi_ox_socket_split(const char *text, char host[DMI_OX_HOST_BYTES], char port[8]);
/* All addresses of a host and port, freed by freeaddrinfo; NULL and why. */
struct addrinfo *dmi_ox_socket_resolve(const char *host, const char *port, const char **why);
/* A socket that listens; -1 and errno. */
int dmi_ox_socket_listen(const struct sockaddr *addr, socklen_t len, int backlog);
/* A socket that connects, or has; -1 and errno. */
int dmi_ox_socket_connect(const struct sockaddr *addr, socklen_t len);
/* Takes a connection of a listener; -1 and errno. */
int dmi_ox_socket_accept(int listener);
/* ADDR:PORT of the end here (`peer` false), or there. */
void dmi_ox_socket_name(int fd, bool peer, char *text, size_t size);
/* True when the other ends of both are at one address. */
bool dmi_ox_socket_same_host(int a, int b);
/* True when the other end is on this machine: both are loopback, or of one address. */
bool dmi_ox_socket_is_near(int fd);
/* 127.0.0.1, or another address of loopback (IPv4). */
bool dmi_ox_socket_is_loopback(const struct sockaddr_storage *addr);
/* The address of the end here, with port 0. */
bool dmi_ox_socket_here(int fd, struct sockaddr_storage *addr, socklen_t *len);
void dmi_ox_socket_set_port(struct sockaddr_storage *addr, int port);
/* False and errno when there are no descriptors for a loop of libev, which aborts without them. */
bool dmi_ox_socket_spare(void);

#endif
