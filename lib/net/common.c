/*
 * common.c - see common.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/common.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/shm.h"

void dmi_common_init(struct dmi_common *common, size_t size) {
  common->size = size;
  common->fd = common->own = -1;
  atomic_init(&common->memory, NULL);
}

void dmi_common_close(struct dmi_common *common) {
  void *memory = atomic_exchange(&common->memory, NULL);
  if (memory != NULL) munmap(memory, common->size);
  if (common->fd >= 0) close(common->fd);
  if (common->own >= 0) close(common->own);
  common->fd = common->own = -1;
}

int dmi_common_give(struct dmi_common *common) {
  if (common->fd < 0 && common->size != 0)
    dmi_common_take(common, dmi_shm_make_memory("dmi-common", common->size));
  return common->fd;
}

/* All processes have the same open file, as descriptors that are sent are.  Locks belong to an open
 * file: so this is another one.  -1: not possible. */
static int open_anew(int fd) {
  char path[32];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

void dmi_common_take(struct dmi_common *common, int fd) {
  void *memory = MAP_FAILED;
  int own = -1;
  if (fd < 0) return;
  if (common->fd < 0 && common->size != 0 && dmi_shm_is_memory(fd, common->size) &&
      (own = open_anew(fd)) >= 0)
    memory = mmap(NULL, common->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    if (own >= 0) close(own);
    close(fd);
    return;
  }
  madvise(memory, common->size, MADV_DONTFORK);
  common->fd = fd;
  common->own = own;
  atomic_store(&common->memory, memory);
}

/* ---- Marks: each is a byte far behind the end of the file that its process has locked -------- */

static struct flock lock_of(uint64_t mark) {
  return (struct flock){
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)mark, .l_len = 1};
}

bool dmi_common_hold(const struct dmi_common *common, uint64_t mark) {
  struct flock lock = lock_of(mark);
  return fcntl(common->own, F_OFD_SETLK, &lock) == 0;
}

bool dmi_common_has_ended(const struct dmi_common *common, uint64_t mark) {
  struct flock lock = lock_of(mark);
  return fcntl(common->own, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}
