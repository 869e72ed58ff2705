/*
 * rmw.c - compare-and-swap, fetch-and-store, fetch-and-add and the user's DMI_function.
 *
 * Works on a copy of the bytes made by the caller; does not touch pages.
 */
#include "core/rmw.h"

#include <string.h>

#include "core/heap.h"
#include "core/syncop.h"

bool dmi_rmw_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                   uint64_t input) {
  if (sizes->out1 > input || input - sizes->out1 != sizes->out2) return false;
  switch (rmw) {
    case DMI_RMW_CAS:
      return sizes->out1 == len && sizes->out2 == len && sizes->in == 1;
    case DMI_RMW_FAS:
      return sizes->out1 == len && sizes->out2 == 0 && sizes->in == len;
    case DMI_RMW_FAD:
      return len == 8 && sizes->out1 == 8 && sizes->out2 == 0 && sizes->in == 8;
    case DMI_RMW_CLAIM:
      return len % 8 == 0 && sizes->out1 % sizeof(struct dmi_claim) == 0 &&
             sizes->out1 <= len / 8 * sizeof(struct dmi_claim) && sizes->out2 == 0 &&
             sizes->in == 8;
    case DMI_RMW_USER:
      return input <= DMI_RMW_MOST && sizes->in <= DMI_RMW_MOST;
    case DMI_RMW_HEAP:
      return sizes->out2 == 0 && dmi_heap_step_valid(len, input, sizes->in);
    case DMI_RMW_REVIVE:
      return !len && !input && sizes->in == 8;
    default:
      return dmi_syncop_valid(rmw, len, sizes, input);
  }
}

/* Returns how many cells were not free, or out of range. */
static uint64_t claim(unsigned char *bytes, uint64_t cells, const unsigned char *claims,
                      uint64_t num) {
  uint64_t taken = 0, old;
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_claim one;
    memcpy(&one, claims + i * sizeof(one), sizeof(one));
    old = 1;
    if (one.cell < cells) memcpy(&old, bytes + 8 * one.cell, 8);
    if (old) {
      taken++;
    } else {
      memcpy(bytes + 8 * one.cell, &one.value, 8);
    }
  }
  return taken;
}

/* The user's function may change its inputs: they are our own or a copy, never shared. */
static void call_function(const struct dmi_core *core, const struct dmi_req *req,
                          unsigned char *bytes, unsigned char *answer) {
  unsigned char *out1 = (unsigned char *)(uintptr_t)req->src.ptr;
  (req->tag < 0 ? core->step : core->function)(
      bytes, (int64_t)req->len, out1, (int64_t)req->sizes.out1, out1 + req->sizes.out1,
      (int64_t)req->sizes.out2, answer, (int64_t)req->sizes.in, req->tag);
}

enum dmi_rmw_end dmi_rmw_run(const struct dmi_core *core, const struct dmi_req *waiting,
                             const struct dmi_req *req, unsigned char *bytes,
                             unsigned char *answer) {
  const unsigned char *out1 = req->src.ptr;
  const unsigned char *out2 = out1 + req->sizes.out1;
  uint64_t old, add;
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_CAS:
      if (memcmp(bytes, out1, req->len) != 0) return DMI_RMW_DONE;
      memcpy(bytes, out2, req->len);
      answer[0] = 1;
      return DMI_RMW_DONE;
    case DMI_RMW_FAS:
      memcpy(answer, bytes, req->len);
      memcpy(bytes, out1, req->len);
      return DMI_RMW_DONE;
    case DMI_RMW_FAD:
      memcpy(&old, bytes, 8);
      memcpy(&add, out1, 8);
      memcpy(answer, &old, 8);
      old += add;
      memcpy(bytes, &old, 8);
      return DMI_RMW_DONE;
    case DMI_RMW_CLAIM:
      old = claim(bytes, req->len / 8, out1, req->sizes.out1 / sizeof(struct dmi_claim));
      memcpy(answer, &old, 8);
      return DMI_RMW_DONE;
    case DMI_RMW_USER:
      if (!(req->tag < 0 ? core->step : core->function)) return DMI_RMW_NO_FUNCTION;
      call_function(core, req, bytes, answer);
      return DMI_RMW_DONE;
    case DMI_RMW_HEAP:
      dmi_heap_step(bytes, req->len, out1, answer, req->sizes.in);
      return DMI_RMW_DONE;
    default:
      return dmi_syncop_run(core, waiting, req, bytes, answer);
  }
}
