/*
 * why.c - the reason of a failure: one block with its texts behind it, and a count of references.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote/types.h"

/* Copies a text to *at, which moves behind it. */
static const char *put(char **at, const char *text) {
  const char *here = *at;
  size_t size = strlen(text) + 1;
  memcpy(*at, text, size);
  *at += size;
  return here;
}

struct dmi_remote_why *dmi_remote_why_new(int32_t error, const char *function, const char *host,
                                          const char *sentence) {
  struct dmi_remote_why *why;
  char *at;
  if (!function) function = "";
  if (!host) host = "";
  if (!sentence) sentence = "";
  why = dmi_xalloc(1, sizeof(*why) + strlen(function) + strlen(host) + strlen(sentence) + 3);
  at = (char *)(why + 1);
  why->refs = 1;
  why->error = error;
  why->function = put(&at, function);
  why->host = put(&at, host);
  why->sentence = put(&at, sentence);
  return why;
}

struct dmi_remote_why *dmi_remote_why_large(uint64_t bytes) {
  char sentence[200];
  (void)snprintf(sentence, sizeof(sentence),
                 "the call needs %" PRIu64
                 " MiB for its inputs and outputs (DMI_INOUT counts "
                 "twice), more than a process has for one call: half of its pool (dmirun -s)",
                 (bytes + 1048575) >> 20);
  return dmi_remote_why_new(DMI_ENOMEM, NULL, NULL, sentence);
}

struct dmi_remote_why *dmi_remote_why_fatal(const char *function, uint32_t losses, uint64_t call) {
  char sentence[200];
  (void)snprintf(sentence, sizeof(sentence),
                 "%" PRIu32 " processes were lost with it (call %" PRIu64
                 "), one after the other: it is not run again",
                 losses, call);
  return dmi_remote_why_new(DMI_EREMOTE, function, NULL, sentence);
}

struct dmi_remote_why *dmi_remote_why_hold(struct dmi_remote_why *why) {
  why->refs++;
  return why;
}

void dmi_remote_why_release(struct dmi_remote_why *why) {
  if (why && !--why->refs) free(why);
}
