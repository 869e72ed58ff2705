/*
 * function.c - the remote functions of this program, by name.  They are facts of the program's
 * text: of the OS process, and all are there before DMI_main begins; unless an OS process has
 * several nodes, whose programs are loaded while others run.  Hence the lock.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/remote_int.h"

struct function {
  UT_hash_handle by_name, by_address;
  const char *name;
  uint32_t number; /* from 0 */
  DMI_remote_function_t address;
};

static _Atomic uint32_t lock; /* rank LEAF; guards these */
static struct function *names, *addresses;

void dmi_remote_register(const char *name, DMI_remote_function_t function) {
  struct function *one = dmi_xalloc(1, sizeof(*one)), *before;
  one->name = name;
  one->address = function;
  dmi_lock(&lock, DMI_RANK_LEAF);
  HASH_FIND(by_name, names, name, strlen(name), before);
  if (before) HASH_DELETE(by_name, names, before); /* it is still known by its address */
  one->number = HASH_CNT(by_address, addresses);
  HASH_ADD_KEYPTR(by_name, names, name, strlen(name), one);
  HASH_ADD(by_address, addresses, address, sizeof(one->address), one);
  dmi_unlock(&lock, DMI_RANK_LEAF);
}

DMI_remote_function_t dmi_remote_function_find(const char *name, size_t len) {
  struct function *one;
  dmi_lock(&lock, DMI_RANK_LEAF);
  HASH_FIND(by_name, names, name, len, one);
  dmi_unlock(&lock, DMI_RANK_LEAF);
  return one ? one->address : NULL;
}

bool dmi_remote_function_any(void) {
  bool any;
  dmi_lock(&lock, DMI_RANK_LEAF);
  any = names != NULL;
  dmi_unlock(&lock, DMI_RANK_LEAF);
  return any;
}

const char *dmi_remote_function_name(DMI_remote_function_t function, uint32_t *number) {
  struct function *one;
  dmi_lock(&lock, DMI_RANK_LEAF);
  HASH_FIND(by_address, addresses, &function, sizeof(function), one);
  dmi_unlock(&lock, DMI_RANK_LEAF);
  *number = one ? one->number : 0;
  return one ? one->name : NULL;
}
