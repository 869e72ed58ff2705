/*
 * pack.c - the programs of a job's bin/ in one piece.
 *
 * For each file: struct entry, its name without a zero, its bytes.
 */
#include "pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"

struct entry {
  int64_t name_size, size;
  uint32_t mode;
};

static char *say(const char *path) {
  return farm_format("%s: %s", path, strerror(errno));
}

/* Appends one file; directories are left out. */
static char *pack_file(const char *path, const char *name, FILE *to) {
  struct stat status;
  char bytes[64 << 10];
  ssize_t size = 0;
  int64_t left;
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return say(path);
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return NULL;
  }
  left = status.st_size;
  fwrite(&(struct entry){(int64_t)strlen(name), left, status.st_mode & 0777}, sizeof(struct entry),
         1, to);
  fputs(name, to);
  while (left > 0 && (size = read(file, bytes, sizeof(bytes))) > 0) {
    if (size > left) size = left;
    fwrite(bytes, 1, (size_t)size, to);
    left -= size;
  }
  close(file);
  if (size < 0) return say(path);
  return left ? farm_format("%s: it became shorter while it was read", path) : NULL;
}

char *farm_pack(const char *dir, char **bytes, int64_t *size) {
  char *bin = farm_format("%s/bin", dir), *why = NULL;
  size_t length = 0;
  DIR *list = opendir(bin);
  FILE *to;
  *bytes = NULL;
  *size = 0;
  if (!list) {
    if (errno != ENOENT) why = say(bin);
    free(bin);
    return why;
  }
  to = open_memstream(bytes, &length);
  for (struct dirent *entry; to && !why && (entry = readdir(list));) {
    char *path = farm_format("%s/%s", bin, entry->d_name);
    why = pack_file(path, entry->d_name, to);
    free(path);
  }
  closedir(list);
  if (!to || fclose(to) != 0)
    why = farm_format("%s: too large for the memory of this machine", bin);
  *size = (int64_t)length;
  free(bin);
  return why;
}

static bool unpack_file(const char *dir, const char *name, int64_t name_size, const char *bytes,
                        const struct entry *entry) {
  char *path = farm_format("%s/%.*s", dir, (int)name_size, name);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  bool well = file >= 0 && farm_write(file, bytes, entry->size);
  free(path);
  if (file < 0) return false;
  (void)fchmod(file, entry->mode | S_IRUSR | S_IWUSR);
  return close(file) == 0 && well;
}

int farm_unpack(const char *dir, const char *bytes, int64_t size) {
  const char *end = bytes + size;
  if (mkdir(dir, 0700) != 0) return errno;
  while (end - bytes >= (int64_t)sizeof(struct entry)) {
    struct entry entry;
    memcpy(&entry, bytes, sizeof(entry));
    bytes += sizeof(entry);
    if (!unpack_file(dir, bytes, entry.name_size, bytes + entry.name_size, &entry))
      return errno ? errno : EIO;
    bytes += entry.name_size + entry.size;
  }
  return 0;
}
