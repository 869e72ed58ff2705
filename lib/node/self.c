/*
 * self.c - see self.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/self.h"

#include <elf.h>
#include <link.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The size of a note's name or description, padded to 4 bytes. */
static size_t padded(size_t size) {
  return (size + 3) & ~(size_t)3;
}

/* Finds the build id among the notes at `note`: the first bytes of the hash that the linker made of
 * the executable (`file` and `readelf -n` show it). */
static bool id_of_notes(const uint8_t *note, size_t size, uint8_t build[16]) {
  ElfW(Nhdr) head;
  while (size >= sizeof head) {
    memcpy(&head, note, sizeof head);
    size_t name = padded(head.n_namesz), desc = padded(head.n_descsz);
    if (name + desc > size - sizeof head) return false;
    const uint8_t *at = note + sizeof head;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(at, "GNU", 4) == 0) {
      if (head.n_descsz < 16) return false;
      memcpy(build, at + name, 16);
      return true;
    }
    note = at + name + desc;
    size -= sizeof head + name + desc;
  }
  return false;
}

struct id_found {
  uint8_t *build;
  bool found;
};

/* Callback of dl_iterate_phdr.  The first object is the executable; returns 1 to look at no other.
 */
static int id_of_object(struct dl_phdr_info *info, size_t size, void *arg) {
  struct id_found *result = arg;
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum && !result->found; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_NOTE) continue;
    const void *notes = (const void *)(info->dlpi_addr + part->p_vaddr);
    result->found = id_of_notes(notes, part->p_memsz, result->build);
  }
  return 1;
}

static bool build_id(uint8_t build[16]) {
  struct id_found result = {.build = build};
  dl_iterate_phdr(id_of_object, &result);
  return result.found;
}

/* Hashes the whole file, if the program was linked without a build id. */
static bool hash_file(uint8_t hash[16]) {
  unsigned char buf[65536];
  crypto_generichash_state state;
  size_t got;
  FILE *file = fopen("/proc/self/exe", "rb");
  if (!file) return false;
  crypto_generichash_init(&state, NULL, 0, 16);
  while ((got = fread(buf, 1, sizeof(buf), file)) > 0)
    crypto_generichash_update(&state, buf, got);
  fclose(file);
  crypto_generichash_final(&state, hash, 16);
  return true;
}

/* Identifies the executable, so that processes can check that all run the same one.  Hashing a file
 * with debug information, which has megabytes, would take a third of a join. */
static bool find_build(uint8_t build[16]) {
  return build_id(build) || hash_file(build);
}

/* The path of the executable, for messages; only the end of it if it is too long. */
static void program_name(char name[64], const char *argv0) {
  char path[4096];
  ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (len <= 0) {
    snprintf(name, 64, "%.63s", argv0);
    return;
  }
  path[len] = '\0';
  snprintf(name, 64, "%s%.60s", len <= 60 ? "" : "...", len <= 60 ? path : path + len - 60);
}

/* Addresses in fe80::/10 work on one link only, and each host must add its interface to them. */
static bool is_link_local(const struct dmi_addr *addr) {
  return addr->ip[0] == 0xfe && (addr->ip[1] & 0xc0) == 0x80;
}

/* Identifies what an interpreter runs.  The interpreter itself may be another file. */
static bool hash_identity(struct dmi_self *self, const struct dmi_program_identity *identity) {
  snprintf(self->name, sizeof self->name, "%s", identity->name);
  return crypto_generichash(self->build, sizeof self->build, (const void *)identity->text,
                            strlen(identity->text), NULL, 0) == 0;
}

bool dmi_self_find(struct dmi_self *self, const struct dmi_config *config, const char *argv0,
                   const struct dmi_program_identity *identity) {
  const char *given = config->advertise;
  memset(self, 0, sizeof(*self));
  program_name(self->name, argv0);
  if (config->witness || config->see) {
    memset(self->build, 0, sizeof self->build); /* it runs nothing */
  } else if (!(identity ? hash_identity(self, identity) : find_build(self->build))) {
    snprintf(self->why, sizeof(self->why),
             "cannot read /proc/self/exe to tell this program from others: is /proc mounted?");
    return false;
  }
  if (!given) {
    if (gethostname(self->host, sizeof(self->host) - 1) != 0) strcpy(self->host, "unknown");
    return true;
  }
  snprintf(self->host, sizeof(self->host), "%s", given);
  const char *error = dmi_net_resolve(given, &self->addr);
  if (error) {
    snprintf(self->why, sizeof(self->why),
             "cannot find host '%.200s': %s; check dmirun's option --advertise ADDR", given, error);
    return false;
  }
  if (is_link_local(&self->addr)) {
    snprintf(self->why, sizeof(self->why),
             "--advertise %.200s: that is a link-local address, by which others cannot reach this "
             "host; give an IPv4, a global or a unique local (fd00::/8) address",
             given);
    return false;
  }
  return true;
}

struct dmi_net_config dmi_self_net(const struct dmi_self *self, const struct dmi_config *config) {
  struct dmi_net_config net = {.listen_port = config->listen_port,
                               .bind = config->bind,
                               .advertised = config->advertise != NULL,
                               .look = {.us = config->spin},
                               .encrypt = config->encrypt};
  net.dead_after = dmi_config_settings(config, config->survive).dead_after;
  memcpy(net.name, self->name, sizeof net.name);
  memcpy(net.build, self->build, sizeof net.build);
  return net;
}
