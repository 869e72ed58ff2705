/*
 * machine.h - what this process may use of its machine: cores, processors, memory.
 *
 * These limits are taken into account: the affinity at the start (taskset, Slurm); the processors,
 * processor time and memory that its control groups allow (containers, systemd); and that other
 * processes of the program on this machine have parts of these processors (--share).
 */
#ifndef DMI_BASE_MACHINE_H
#define DMI_BASE_MACHINE_H

#include <stdint.h>

struct dmi_machine {
  uint32_t cores;     /* cores to use, at least 1: `usable`, but no more than `quota` */
  uint32_t usable;    /* cores with a processor that it may use */
  uint32_t present;   /* cores of the machine */
  double quota;       /* processor time that control groups allow, in processors; 0: no limit */
  uint64_t memory;    /* bytes of the machine, or what control groups allow; 0: unknown */
  uint32_t order_num; /* number of processors that it may use */
  uint32_t *order;    /* the system's numbers of them, in the order in which threads should */
                      /* take them: packages in turn, cores in turn, then second processors */
};

/* Asks the system. What it does not tell is set to: one core, no limit, unknown memory. Of the
 * processors, and of the time of them, only the part with this number (from 1) of `parts` equal
 * ones counts. dmi_machine_free frees it. */
void dmi_machine_look(struct dmi_machine *machine, uint32_t part, uint32_t parts);
void dmi_machine_free(struct dmi_machine *machine);

/* Raises the soft limit of open files to the hard limit, because each other process of the
 * program needs a descriptor. The soft limit, often 1,024, exists for programs that use
 * select(). */
void dmi_machine_raise_files(void);

/* The smallest limit of this process's control groups and of all above them; 0: no limit. `root`
 * is put before all paths, for tests ("": the system's files). */
double dmi_machine_quota(const char *root);
uint64_t dmi_machine_memory_limit(const char *root);

#endif
