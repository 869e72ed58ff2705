/*
 * program.h - the functions that a program defines, as its start object passes them.
 *
 * The library must not refer to them by name: a shared libdmi is linked without them, and all but
 * DMI_main are optional.
 */
#ifndef DMI_NODE_PROGRAM_H
#define DMI_NODE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "dmi_api.h"
#include "dmi_ox.h"

/* The executable of every DMI program contains this text, stripped or not: dmirun looks for it. */
#define DMI_PROGRAM_MARK "DMI program; start it with dmirun"

/* What a DMI thread runs. */
enum dmi_body {
  DMI_BODY_USER,  /* DMI_thread */
  DMI_BODY_FARM,  /* tasks of a farm: elastic/farm.h */
  DMI_BODY_SCALE, /* a part of DMI_rescale */
  DMI_BODIES
};

struct dmi_mact;
struct dmi_msg;
struct dmi_process;
struct dmi_remote;
struct dmi_teams;

/* Functions of lib/remote, which is above this folder.  All but `ends`, `polls`, `dies` and
 * `free` are called in the daemon thread. */
struct dmi_program_remote {
  struct dmi_remote *(*make)(struct dmi_process *process); /* what process->remote is */
  void (*free)(struct dmi_remote *remote); /* at the end of the process; NULL does nothing */
  /* A message of class REMOTE, which keeps its slices.  False: a correct peer does not send it. */
  bool (*message)(struct dmi_remote *remote, uint32_t from, const struct dmi_msg *msg);
  void (*opened)(struct dmi_remote *remote); /* this process was welcomed */
  /* A view was published. */
  void (*view)(struct dmi_remote *remote, const struct dmi_mact *view);
  /* This process is to leave.  No call begins here any more, and those that have not begun are
   * given back.  DMI_OK: none runs.  DMI_EBUSY: it must not leave.  Another number: calls run, and
   * dmi_actions_stopped is called when they have ended. */
  int32_t (*stop)(struct dmi_remote *remote);
  void (*stays)(struct dmi_remote *remote); /* it does not leave after all */
  bool (*runs)(struct dmi_remote *remote);  /* a function runs here */
  /* All messages from a member that has left are here. */
  void (*last)(struct dmi_remote *remote, uint32_t from);
  void (*stopping)(struct dmi_remote *remote); /* DMI_exit was called */
  /* DMI_main, DMI_recover or the body of a thread has returned.  In its thread; may wait. */
  void (*ends)(struct dmi_remote *remote);
  /* DMI_farm_run, DMI_rescale or a client has handled notices, and does so no more. */
  void (*polls)(struct dmi_remote *remote);
  /* A fatal signal of the calling thread, in its handler: names the function that it runs. */
  void (*dies)(const char *signal);
  /* This process cannot go on, perhaps as others are lost: names calls that these had. */
  void (*fatal)(struct dmi_remote *remote);
};

/* Functions of lib/team, which is above this folder. */
struct dmi_program_team {
  struct dmi_teams *(*make)(struct dmi_process *process); /* what process->teams is */
  void (*free)(struct dmi_teams *teams);
  /* Messages of class TEAM, in any thread that receives; as in net/net.h. */
  void *(*where)(struct dmi_teams *teams, uint32_t from, struct dmi_msg *msg);
  bool (*message)(struct dmi_teams *teams, uint32_t from, struct dmi_msg *msg);
  /* ---- In the daemon thread ---- */
  void (*view)(struct dmi_teams *teams, const struct dmi_mact *view);
  /* This process is to leave: no thread joins a team here any more.  False: one is in a team, or
   * joins one, and the process must not leave. */
  bool (*stop)(struct dmi_teams *teams);
  void (*stays)(struct dmi_teams *teams);    /* it does not leave after all */
  void (*stopping)(struct dmi_teams *teams); /* DMI_exit was called */
  /* What DMI_function is for the program, for DMI_STEP_TEAM. */
  void (*step)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
               int64_t out2_size, void *in, int64_t in_size, int8_t tag);
};

/* Functions of libdmiox (dmi_ox.h), a library of its own that some programs are linked with. */
struct dmi_program_ox {
  int32_t (*start)(DMI_ox_server_t **server_ptr, const DMI_ox_options_t *options, char *why,
                   int64_t size);
  void (*stop)(DMI_ox_server_t *server);
  void (*wait)(DMI_ox_server_t *server);
  void (*free)(DMI_ox_server_t *server);
};

/* Tags of steps on tables (negative: DMI_function is not called). */
#define DMI_STEP_FARM ((int8_t)-1)
#define DMI_STEP_TEAM ((int8_t)-2)

/* What else than the executable is the program, when that is an interpreter. */
struct dmi_program_identity {
  const char *name; /* for messages; at most 63 characters of it */
  const char *text; /* must be the same in all processes, byte for byte */
};

/* What the library offers to a program of an interpreter, for its own errors and lines: dmi_start
 * fills it before it calls a function of the program. */
struct dmi_program_language {
  /* A place in a source, as "prog.py:42 (main)".  It stays; NULL: there are too many. */
  const void *(*place)(const char *text);
  /* The next calls of this thread come from there; NULL: from where they return to. */
  void (*at)(const void *place);
};

/* All but main and mark are NULL when the program does not define them. */
struct dmi_program {
  void (*main)(int argc, char **argv);
  int64_t (*thread)(int64_t addr);
  void (*function)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag);
  void (*init)(int argc, char **argv);
  int32_t (*recover)(int argc, char **argv, int32_t lost_id);
  int32_t (*farm_task)(int64_t task, void *out, int64_t size, const void *job);
  int32_t (*scaleunit)(int my_rank, int pnum, int64_t scaleunit_addr);
  int32_t (*start_scale)(DMI_node_t *in, int in_num);
  int32_t (*judge_rescale)(DMI_node_t *in, DMI_node_t *out, DMI_node_t *cur, int in_num,
                           int out_num, int cur_num);
  const struct dmi_program_remote *remote; /* NULL: the process takes no part in remote functions */
  const struct dmi_program_team *team;     /* NULL: there are no teams */
  const struct dmi_program_ox *ox;         /* NULL: it cannot serve OpenXM clients */
  const char *mark; /* DMI_PROGRAM_MARK: used here, so that the linker keeps it */
  const struct dmi_program_identity *identity; /* NULL: the executable is the program */
  struct dmi_program_language *language;       /* NULL: it is in C */

  /* ---- filled by lib/elastic, which is above this folder ---- */
  int64_t (*inner[DMI_BODIES])(int64_t addr); /* its bodies of threads; NULL: cannot be run */
  /* What DMI_function is for the program, for negative tags: of requests that lib/elastic makes. */
  void (*step)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
               int64_t out2_size, void *in, int64_t in_size, int8_t tag);
};

#endif
