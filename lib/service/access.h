/*
 * access.h - reads, writes and read-modify-writes of this process's threads, and the page messages
 * of the others: the shell around the page protocol's core.
 */
#ifndef DMI_SERVICE_ACCESS_H
#define DMI_SERVICE_ACCESS_H

#include "mem/mapping.h"
#include "service/status.h"

struct dmi_process;

/* One operation on a page that is out, or about to be. */
struct dmi_op {
  struct dmi_req req;          /* first: the core gives it back */
  struct dmi_mapping *mapping; /* one reference */
  struct dmi_page *page;
  struct dmi_call *call;
  uint32_t slot;           /* place in the table of operations */
  bool heap;               /* free it when complete */
  unsigned char small[24]; /* inputs or an answer nobody wants, when they are this small */
};

/* A call of the API: complete when all its operations are. */
struct dmi_call {
  _Atomic uint32_t left; /* operations not complete, and 1 until all have begun */
  _Atomic int32_t error; /* of the first that failed */
  struct dmi_status *status;
  bool heap;
};

/* The API's reads and writes; `status` NULL: synchronous.  Return DMI_TRUE or DMI_FALSE. */
int32_t dmi_access_read(struct dmi_process *process, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status);
int32_t dmi_access_write(struct dmi_process *process, int64_t addr, int64_t size, const void *buf,
                         int8_t mode, DMI_local_status_t *status);

/* A read-modify-write: inputs out1 then out2, answer to `in` (NULL: not wanted). */
struct dmi_rmw_call {
  enum dmi_rmw rmw;
  int64_t addr, size;
  const void *out1, *out2;
  void *in;
  struct dmi_rmw_sizes sizes;
  int8_t tag, mode;
};
int32_t dmi_access_rmw(struct dmi_process *process, const struct dmi_rmw_call *rmw,
                       DMI_local_status_t *status);

/* ---- For the daemon ---- */

/* A page message (GET .. RELEASE).  Takes its slices over.  False: not from a correct peer. */
bool dmi_access_message(struct dmi_process *process, uint32_t from, struct dmi_msg *msg);

/* Where the body of a page message goes; see net.h. */
void *dmi_access_body(struct dmi_process *process, uint32_t from, struct dmi_msg *msg);

/* Answers to ourselves, put in line by any thread. */
void dmi_access_self(struct dmi_process *process);

/* Carries out the actions of a step on this page; `locked` part first, then, unlocked, the rest. */
void dmi_access_carry_locked(struct dmi_process *process, struct dmi_page *page,
                             struct dmi_out *out);
void dmi_access_carry(struct dmi_process *process, struct dmi_out *out);

#endif
