/*
 * wire.c - see wire.h.
 */
#include "ox/wire.h"

bool dmi_ox_command_known(int32_t code, bool control) {
  if (control)
    return code == DMI_OX_SHUTDOWN || code == DMI_OX_KILL || code == DMI_OX_INTERRUPT ||
           code == DMI_OX_RESET_SERVER || code == DMI_OX_RESET;
  return code == DMI_OX_POP_SERIALIZED || (code >= DMI_OX_POP_CMO && code <= DMI_OX_REDUCE) ||
         code == DMI_OX_NOP || code == DMI_OX_EXECUTE_SYNC;
}
