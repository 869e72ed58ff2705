/*
 * config.h - the options of a process, from environment variables: each is a row of option_table.h.
 */
#ifndef DMI_NODE_CONFIG_H
#define DMI_NODE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/look.h"
#include "core/member.h"

struct dmi_config {
  const char *join_host;    /* DMI_JOIN_HOST; NULL: start a new program */
  const char *join_file;    /* DMI_JOIN_FILE: read host and port there instead; NULL: none */
  uint16_t join_port;       /* DMI_JOIN_PORT */
  uint16_t listen_port;     /* DMI_LISTEN_PORT; 0: any free one */
  const char *advertise;    /* DMI_ADVERTISE: where others connect to; NULL: as they see it */
  int listen_else;          /* DMI_LISTEN_ELSE; not 0: any free port if that one is in use */
  uint64_t pool_bytes;      /* DMI_POOL_BYTES */
  const char *spill_dir;    /* DMI_SPILL_DIR; NULL: pages are not spilled */
  const char *port_file;    /* DMI_PORT_FILE; NULL: none */
  const char *events_file;  /* DMI_EVENTS_FILE, gets all events as JSON; NULL: none */
  const char *profile_file; /* DMI_PROFILE, gets where the program has waited; NULL: none */
  const char *trace;        /* DMI_TRACE: gets the trace of the program; NULL: none */
  const char *contact_file; /* DMI_CONTACT_FILE, written while this process is the coordinator */
  int ready_fd;             /* DMI_READY_FD: the port is written there; -1: none */
  enum dmi_log_level log;   /* DMI_LOG */
  int event_fd;             /* DMI_EVENT_FD, gets events as JSON; -1: none */
  int control_fd;           /* DMI_CONTROL_FD: what the launcher tells is read there; -1: none */
  enum dmi_log_level event_level; /* DMI_EVENT_LEVEL: events up to it */
  const char *tag;                /* DMI_TAG: what its launcher calls it; NULL: nothing */
  const char *dmirun;             /* DMI_RUN: its dmirun, which can ask all; NULL: not known */
  enum dmi_on_error on_error;     /* DMI_ON_ERROR */
  bool check;                     /* DMI_CHECK: say what would be used, and end */
  bool bind_threads;              /* DMI_BIND_THREADS */
  int share, shares;    /* DMI_SHARE, DMI_SHARES: which part of the processors, of how many */
  int parent;           /* DMI_PARENT_PID: when it ends, this process asks to leave; 0: none */
  int grace;            /* DMI_GRACE: seconds that it has for leaving then */
  const char *bind;     /* DMI_BIND: where to listen; NULL: see struct dmi_net_config */
  const char *key_file; /* DMI_KEY_FILE; NULL: ~/.dmi/key */
  int key_fd;           /* DMI_KEY_FD: descriptor to read the key from; -1: none */
  bool encrypt;         /* DMI_ENCRYPT */
  bool no_shm;          /* DMI_NO_SHM */
  int spin;             /* DMI_SPIN: microseconds, 0: off, DMI_LOOK_AUTO */
  bool survive;         /* DMI_SURVIVE */
  int dead_after;       /* DMI_DEAD_AFTER: seconds after which a silent process is lost; 0: never */
  bool dead_after_set;  /* it is not the default value */
  bool trust_refused;   /* DMI_TRUST_REFUSED */
  bool witness;         /* DMI_WITNESS */
  const char *ox;       /* DMI_OX: where OpenXM clients are served; NULL: nowhere */
  bool see;             /* DMI_SEE: only look at a running program: node/viewer.h */
};

/* False: this is the first process of its program. */
static inline bool dmi_config_joins(const struct dmi_config *config) {
  return config->join_host || config->join_file;
}

#define DMI_CONFIG_WRONG 5000 /* bytes of an error message about a variable */

/* `get` gives the text of a variable, NULL if it is not set.  False: a variable is wrong; `wrong`
 * is a message about the first one.  The others are read all the same. */
bool dmi_config_read(struct dmi_config *config, const char *(*get)(void *arg, const char *name),
                     void *arg, char wrong[DMI_CONFIG_WRONG]);

/* What a program that this process starts would have, if it survives losses, or not.  One that it
 * joins has its own. */
struct dmi_settings dmi_config_settings(const struct dmi_config *config, bool survive);

#endif
