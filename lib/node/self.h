/*
 * self.h - how this process presents itself to others: executable, host, address.
 */
#ifndef DMI_NODE_SELF_H
#define DMI_NODE_SELF_H

#include "core/member.h"
#include "net/net.h"
#include "node/config.h"
#include "node/program.h"

struct dmi_self {
  char name[64];     /* the executable's path, or the end of it; for messages */
  uint8_t build[16]; /* first bytes of the executable's build id, or a hash of the file or of the
                        program's identity */
  char host[DMI_HOST_MAX + 1]; /* the name by which others reach it */
  /* of --advertise; all zero: others use the source address that they see */
  struct dmi_addr addr;
  char why[600]; /* an error message if something could not be found */
};

/* Fills in *self.  `identity` NULL: the executable is the program.  False: self->why says what to
 * change.  May resolve a name, which blocks. */
bool dmi_self_find(struct dmi_self *self, const struct dmi_config *config, const char *argv0,
                   const struct dmi_program_identity *identity);

/* The configuration of the network, without the key. */
struct dmi_net_config dmi_self_net(const struct dmi_self *self, const struct dmi_config *config);

#endif
