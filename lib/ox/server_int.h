/*
 * server_int.h - what the files of a server share: server.c (its thread, its sessions), caller.c
 * (connections that are not yet those of a session).
 */
#ifndef DMI_OX_SERVER_INT_H
#define DMI_OX_SERVER_INT_H

#include <ev.h>
#include <pthread.h>
#include <sys/socket.h>

#include "ox/host.h"
#include "ox/memory.h"

/* A connection that waits for its password, or for the other one of its session. */
struct dmi_ox_caller {
  struct dmi_ox_caller *next; /* in the order in which they came */
  struct DMI_ox_server_t *server;
  struct dmi_ox_listener *listener; /* which has taken it */
  int fd;
  bool control; /* what it is to be; with one port for both: as it turns out */
  bool known;   /* has said the password */
  bool told;    /* the byte of order is sent */
  bool answers; /* it has sent something */
  size_t heard; /* so many bytes of it were seen */
  size_t have;  /* bytes of the password */
  bool wrong;
  ev_io io;
  ev_timer late;
};

struct dmi_ox_listener {
  struct DMI_ox_server_t *server;
  int fd; /* -1: none */
  bool control;
  int64_t callers; /* of it, which wait */
  ev_io io;
};

struct dmi_ox_running {
  struct dmi_ox_running *next;
  struct DMI_ox_server_t *server;
  struct dmi_ox_host *host;
};

struct DMI_ox_server_t {
  struct ev_loop *loop;
  struct dmi_ox_settings settings;
  struct dmi_ox_calls *calls; /* of functions that run */
  char *password;             /* or NULL */
  bool one;                   /* ends with its session */
  bool begun;                 /* one: there is the session */
  bool same_port;             /* of control and data */
  int32_t most;               /* sessions */
  struct dmi_ox_listener listeners[2];
  struct sockaddr_storage links; /* where sessions listen for other servers */
  socklen_t links_len;
  struct dmi_ox_caller *callers;
  ev_async stop, changed;
  ev_timer again; /* no descriptor was left: accept again */
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t over;  /* ended */
  bool stopping, ended;
  int32_t sessions;
  struct dmi_ox_running *running;
};

/* ---- caller.c ---- */
void dmi_ox_caller_new(struct dmi_ox_listener *listener, int fd);
void dmi_ox_caller_free(struct dmi_ox_caller *caller);

/* ---- server.c ---- */
/* Listens while there is room for sessions, and for callers. */
void dmi_ox_server_watch(struct DMI_ox_server_t *server);
/* Takes over both connections. */
void dmi_ox_server_session(struct DMI_ox_server_t *server, int control, int data);

#endif
