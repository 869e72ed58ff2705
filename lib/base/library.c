/*
 * library.c - see library.h.
 */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

bool dmi_library_load(const char *library, void *into, const struct dmi_symbol *symbols,
                      size_t num) {
  void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!loaded) return false;
  for (size_t i = 0; i < num; i++) {
    void *found = dlsym(loaded, symbols[i].name);
    if (!found) return false;
    memcpy((char *)into + symbols[i].at, &found, sizeof found);
  }
  return true;
}
