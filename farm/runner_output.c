/*
 * runner_output.c - what tasks print.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "runner_int.h"

#define READS 16 /* at a time: others want to be heard, too; more than a pipe may hold */

int farm_output_open(struct farm_output *output, const char *path) {
  int ends[2];
  *output = (struct farm_output){.path = path, .pipe = -1, .file = -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
  output->pipe = ends[0];
  return ends[1];
}

void farm_output_close(struct farm_output *output) {
  if (output->pipe >= 0) close(output->pipe);
  if (output->file >= 0 && close(output->file) != 0 && !output->error) output->error = errno;
  output->pipe = output->file = -1;
}

/* A new file: one that is cut and written again is brought to the disk at once by some systems. */
static bool open_file(struct farm_output *output) {
  (void)unlink(output->path);
  output->file = open(output->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return output->file >= 0 && farm_write(output->file, output->bytes, (int64_t)output->size);
}

static void keep(struct farm_output *output, const char *bytes, size_t size) {
  if (output->error) return;
  if (output->file < 0 && output->size + size <= FARM_INLINE) {
    memcpy(output->bytes + output->size, bytes, size);
  } else if ((output->file < 0 && !open_file(output)) ||
             !farm_write(output->file, bytes, (int64_t)size)) {
    output->error = errno;
  }
  output->size += size;
}

void farm_output_drain(struct farm_output *output) {
  char bytes[64 << 10];
  ssize_t size = 1;
  for (int i = 0; i < READS && output->pipe >= 0 && size > 0; i++) {
    size = read(output->pipe, bytes, sizeof(bytes));
    if (size > 0) keep(output, bytes, (size_t)size);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
      close(output->pipe);
      output->pipe = -1;
    }
  }
}
