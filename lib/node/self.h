/*
 * self.h - who this process is for others: executable, host, address.
 */
#ifndef DMI_NODE_SELF_H
#define DMI_NODE_SELF_H

#include "core/member.h"
#include "net/net.h"
#include "node/config.h"

struct dmi_self {
  char name[64];               /* the executable's path, or its end; for messages */
  uint8_t build[16];           /* first bytes of the executable's build id, or a hash of the file */
  char host[DMI_HOST_MAX + 1]; /* as others reach it */
  struct dmi_addr addr;        /* --advertise; all zero: as others see it */
  char why[600];               /* a sentence, where it could not be found */
};

/* False: self->why says what to change.  May resolve a name, which blocks. */
bool dmi_self_find(struct dmi_self *self, const struct dmi_config *config, const char *argv0);

/* What the network is opened with, but for the key. */
struct dmi_net_config dmi_self_net(const struct dmi_self *self, const struct dmi_config *config);

#endif
