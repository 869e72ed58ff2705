/*
 * node_int.h - what the files of the node share; no other file includes it.
 */
#ifndef DMI_CORE_NODE_INT_H
#define DMI_CORE_NODE_INT_H

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/node.h"

struct dmi_node {
  struct dmi_core *core;
  const struct dmi_node_env *env;
#ifdef DMI_MUTATIONS
  enum dmi_node_break broken;
#endif
  struct dmi_member *member;
  struct dmi_handover *handover;
  struct dmi_pressure *pressure;
  struct dmi_recover *recover;
  struct dmi_mout life; /* actions of the current event of membership */
  bool first;           /* this process started the program */
  bool viewed;          /* the caller has got a VIEW that is not answered yet */
  bool goes_on;         /* the handover may have something to do when the list is empty */
};

/* ---- node.c ---- */
/* Makes a mapping known that the directory has reported; NULL: no memory. */
struct dmi_map *dmi_node_enter(struct dmi_node *node, const struct dmi_entry *entry);
/* Moves the actions of an event of membership into the list. */
void dmi_node_life_out(struct dmi_node *node, struct dmi_out *out);
/* Calls an event function of core/member.h. */
#define LIFE(node, out, event, ...)                  \
  do {                                               \
    dmi_member_##event((node)->member, __VA_ARGS__); \
    dmi_node_life_out((node), (out));                \
  } while (0)

/* ---- node_crash.c: core/recover.h in the node ---- */
void dmi_node_crash_init(struct dmi_node *node);
/* A crash view was taken. */
void dmi_node_crash_view(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out);
/* Carries out RECOVER, READY and RESUME. */
void dmi_node_crash_recover(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out);
void dmi_node_crash_ready(struct dmi_node *node, uint64_t number, struct dmi_out *out);
void dmi_node_crash_resume(struct dmi_node *node, struct dmi_out *out);
/* A message of the handover arrives. True: it is held. */
bool dmi_node_crash_holds(struct dmi_node *node, dmi_uid_t from, struct dmi_msg *msg,
                          struct dmi_out *out);

/* ---- node_pressure.c: core/pressure.h in the node ---- */
/* This process may own pages from now on. */
void dmi_node_pressure_open(struct dmi_node *node, struct dmi_out *out);
/* A message of class CAPACITY. */
/* The handlers of class CAPACITY, and who calls them.  False: not from a correct peer. */
#define DMI_CAPACITY_HANDLER(symbol, number, name, handler, ...)                 \
  bool handler(struct dmi_node *node, dmi_uid_t from, const struct dmi_msg *msg, \
               struct dmi_out *out);
DMI_MSGS_CAPACITY(DMI_CAPACITY_HANDLER)
bool dmi_node_pressure_message(struct dmi_node *node, dmi_uid_t from, const struct dmi_msg *msg,
                               struct dmi_out *out);
/* Tells core/pressure.h and the handover who the members are. */
void dmi_node_pressure_view(struct dmi_node *node, struct dmi_out *out);

#endif
