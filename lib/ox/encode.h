/*
 * encode.h - messages as bytes.  Pure.
 */
#ifndef DMI_OX_ENCODE_H
#define DMI_OX_ENCODE_H

#include <stdbool.h>

#include "ox/memory.h"
#include "ox/value.h"

/* Each appends to `out`; `little`: words and doubles in little-endian order, else network order. */
void dmi_ox_encode_word(struct dmi_ox_bytes *out, bool little, uint32_t word);
void dmi_ox_encode_value(struct dmi_ox_bytes *out, bool little, const struct dmi_ox_value *value);
/* For other servers, some of which calculate with ZZ only, and read doubles only as type 51
 * (`doubles_64`: it reads type 40, too).  The serial and the code of an error, and the numbers of a
 * mathcap, stay INT32. */
void dmi_ox_encode_peer_value(struct dmi_ox_bytes *out, bool little, bool doubles_64,
                              const struct dmi_ox_value *value);
void dmi_ox_encode_data(struct dmi_ox_bytes *out, bool little, uint32_t serial,
                        const struct dmi_ox_value *value);
void dmi_ox_encode_command(struct dmi_ox_bytes *out, bool little, uint32_t serial, int32_t code);
void dmi_ox_encode_ball(struct dmi_ox_bytes *out, bool little, uint32_t serial);

#endif
