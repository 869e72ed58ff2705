/*
 * port_int.h - private to the files of a port.
 */
#ifndef DMI_TEAM_PORT_INT_H
#define DMI_TEAM_PORT_INT_H

#include <uthash.h>
#include <utlist.h>

#include "base/mutation.h"
#include "team/port.h"

/* A message that nobody has received: EAGER or OFFER. */
struct dmi_team_item {
  struct dmi_team_item *prev_all, *next_all; /* of all ranks, as they came */
  struct dmi_team_item *next;                /* of its rank; or of those that came ahead */
  struct dmi_msg msg;                        /* with its body */
};

/* Who has sent messages of a newer epoch.  The name may be wrong: that is seen when it begins. */
struct dmi_team_sender {
  uint64_t epoch;
  uint32_t process, rank;
};
struct dmi_team_ahead {
  struct dmi_team_sender sender;
  uint64_t used; /* bytes of its window */
  bool reset;    /* it has sent RESET */
  bool left;     /* it has sent LEAVE */
  UT_hash_handle hh;
};
void dmi_team_ahead_free(struct dmi_team_port *port);

static inline enum dmi_team_lane dmi_team_lane_of(const struct dmi_team_port *port,
                                                  const struct dmi_msg *msg) {
  if (DMI_BROKEN(port, DMI_TEAM_NO_LANES)) return DMI_TEAM_USER;
  return msg->flags & DMI_F_COLLECTIVE ? DMI_TEAM_COLLECTIVE : DMI_TEAM_USER;
}

/* Bytes of the message. */
static inline uint64_t dmi_team_size_of(const struct dmi_msg *msg) {
  return msg->type == DMI_TEAM_OFFER ? msg->team.count : msg->body.len;
}

/* Bytes of the window that it uses. */
static inline uint64_t dmi_team_cost(const struct dmi_msg *msg) {
  return msg->type == DMI_TEAM_OFFER ? 0 : msg->body.len + DMI_TEAM_OVERHEAD;
}

/* A message of this type from this port to another rank. */
struct dmi_msg *dmi_team_say(const struct dmi_team_port *port, enum dmi_msg_type type, int32_t to,
                             struct dmi_team_out *out);

/* Ends an operation that is in no list (any more). */
void dmi_team_over(struct dmi_team_op *op, int32_t error, struct dmi_team_out *out);

/* For a message that is to be kept.  Takes its body over. */
struct dmi_team_item *dmi_team_item_new(struct dmi_team_port *port, struct dmi_msg *msg);

/* Keeps it behind the others.  Takes its body over. */
void dmi_team_keep(struct dmi_team_port *port, struct dmi_msg *msg);
/* Takes a message out that was kept; the caller frees it with dmi_team_item_free. */
void dmi_team_unkeep(struct dmi_team_port *port, struct dmi_team_item *item);
void dmi_team_item_free(struct dmi_team_port *port, struct dmi_team_item *item);

/* No other rank will send anything. */
static inline bool dmi_team_alone(const struct dmi_team_port *port) {
  return port->holes + port->left + 1 >= (uint32_t)port->size;
}
/* Ends what waits for a rank that has left. */
void dmi_team_end_left(struct dmi_team_port *port, int32_t rank, struct dmi_team_out *out);

/* The receive takes the message: bytes are copied, or pulled.  True: it has taken it; false: it
 * looked at it, or its buffer is too small, and it is over. */
bool dmi_team_take(struct dmi_team_port *port, struct dmi_team_op *op, const struct dmi_msg *msg,
                   struct dmi_team_out *out);

/* Some receive that waits takes it; false: none does. */
bool dmi_team_match(struct dmi_team_port *port, const struct dmi_msg *msg,
                    struct dmi_team_out *out);

#endif
