/*
 * machine.h - what this process may use of its machine: cores, processors, memory.
 *
 * Limits count: the affinity that it was started with (taskset, Slurm), the processors and the time
 * that its control groups leave it (containers, systemd), and their memory.
 */
#ifndef DMI_BASE_MACHINE_H
#define DMI_BASE_MACHINE_H

#include <stdint.h>

struct dmi_machine {
  uint32_t cores;     /* that it may use, at least 1: of `usable`, as many as `quota` pays for */
  uint32_t usable;    /* cores of which it may use a processor */
  uint32_t present;   /* cores of the machine */
  double quota;       /* processors' worth of time that control groups grant; 0: no limit */
  uint64_t memory;    /* bytes of the machine, or what control groups leave; 0: unknown */
  uint32_t order_num; /* processors that it may use */
  uint32_t *order;    /* their numbers (the system's), in the order in which threads should */
                      /* take them: packages in turn, cores in turn, then second processors */
};

/* What the system does not tell is taken for one core, no limit, unknown.  dmi_machine_free frees
 * it. */
void dmi_machine_look(struct dmi_machine *machine);
void dmi_machine_free(struct dmi_machine *machine);

/* The process may open as many files as the system lets it: each other process of the program takes
 * a descriptor.  The soft limit, often 1,024, is for programs that use select(). */
void dmi_machine_raise_files(void);

/*
 * The least limit of this process's control groups and of all above them.  `root` is put before
 * all paths ("": the system's), for tests.  0: no limit.
 */
double dmi_machine_quota(const char *root);
uint64_t dmi_machine_memory_limit(const char *root);

#endif
