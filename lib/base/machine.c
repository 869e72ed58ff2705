/*
 * machine.c - cores by hwloc, limits of control groups from /proc and /sys.
 *
 * hwloc knows which processors share a core and which the cpuset group forbids, and can be asked
 * for the affinity. It does not know quotas, so they are read here from the files of both versions
 * of control groups. A group's limit also applies to all groups below it, so all groups on the path
 * to the root are read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/machine.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hwloc.h>

/* ---- Control groups -------------------------------------------------------------------------- */

#define PATH_BYTES 8192

/* The hierarchies: one for each controller in version 1, a single one in version 2. */
enum { UNIFIED, CPU, MEMORY };

struct group {
  char mount[PATH_BYTES]; /* begins with `root`; empty: it is not mounted */
  char path[PATH_BYTES];  /* of this process below it, "/..." */
};

static bool has_word(const char *list, const char *word) {
  size_t len = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += len) {
    if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0')) return true;
  }
  return false;
}

static const char *const controllers[] = {[UNIFIED] = "", [CPU] = "cpu", [MEMORY] = "memory"};

/* Reads the line "number:controllers:path" of /proc/self/cgroup. */
static bool find_path(const char *root, int which, struct group *group) {
  char name[PATH_BYTES], line[PATH_BYTES];
  bool found = false;
  snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
  FILE *file = fopen(name, "r");
  if (file == NULL) return false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    char *list = strchr(line, ':');
    char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL) continue;
    *list++ = *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    found = which == UNIFIED ? *list == '\0' : has_word(list, controllers[which]);
    if (found) snprintf(group->path, sizeof group->path, "%s", path);
  }
  fclose(file);
  return found;
}

/* Reads the line of /proc/self/mountinfo: "id parent device ROOT MOUNT options ... - type source
 * OPTIONS". In containers often only a part of the hierarchy is mounted: then ROOT is removed
 * from the path. */
static bool find_mount(const char *root, int which, struct group *group) {
  char name[PATH_BYTES], line[PATH_BYTES], top[PATH_BYTES], mount[PATH_BYTES];
  bool found = false;
  snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
  FILE *file = fopen(name, "r");
  if (file == NULL) return false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    char type[64], options[PATH_BYTES];
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(line, "%*s %*s %*s %8191s %8191s", top, mount) != 2) continue;
    if (sscanf(rest, " - %63s %*s %8191s", type, options) != 2) continue;
    found = which == UNIFIED ? strcmp(type, "cgroup2") == 0
                             : strcmp(type, "cgroup") == 0 && has_word(options, controllers[which]);
  }
  fclose(file);
  if (!found) return false;
  size_t cut = strlen(top);
  if (cut > 1 && strncmp(group->path, top, cut) == 0 &&
      (group->path[cut] == '/' || group->path[cut] == '\0')) {
    memmove(group->path, group->path + cut, strlen(group->path + cut) + 1);
  }
  int length = snprintf(group->mount, sizeof group->mount, "%s%s", root, mount);
  return length > 0 && (size_t)length < sizeof group->mount;
}

/* Reads the numbers of a file, "max" as -1. Returns how many there are. */
static int read_numbers(const struct group *group, const char *name, double value[2]) {
  char path[3 * PATH_BYTES], word[2][64];
  snprintf(path, sizeof path, "%s%s/%s", group->mount, group->path, name);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  int num = fscanf(file, "%63s %63s", word[0], word[1]);
  fclose(file);
  for (int i = 0; i < num; i++)
    value[i] = strcmp(word[i], "max") == 0 ? -1 : strtod(word[i], NULL);
  return num < 0 ? 0 : num;
}

static double least(double a, double b) {
  return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Calls `limit` for the group and all above it. Returns the smallest result that is not 0. */
static double walk(const char *root, int which, double (*limit)(const struct group *group)) {
  struct group *group = calloc(1, sizeof *group);
  double result = 0;
  if (group == NULL) return 0;
  if (find_path(root, which, group) && find_mount(root, which, group)) {
    for (;;) {
      char *slash = strrchr(group->path, '/');
      result = least(result, limit(group));
      if (slash == NULL) break;
      *slash = '\0';
    }
  }
  free(group);
  return result;
}

static double cpu_v2(const struct group *group) {
  double value[2];
  return read_numbers(group, "cpu.max", value) == 2 && value[0] > 0 && value[1] > 0
             ? value[0] / value[1]
             : 0;
}

static double cpu_v1(const struct group *group) {
  double quota[2], period[2];
  if (read_numbers(group, "cpu.cfs_quota_us", quota) < 1 || quota[0] <= 0) return 0;
  if (read_numbers(group, "cpu.cfs_period_us", period) < 1 || period[0] <= 0) return 0;
  return quota[0] / period[0];
}

static double memory_v2(const struct group *group) {
  double value[2];
  return read_numbers(group, "memory.max", value) >= 1 && value[0] > 0 ? value[0] : 0;
}

static double memory_v1(const struct group *group) {
  double value[2];
  return read_numbers(group, "memory.limit_in_bytes", value) >= 1 && value[0] > 0 ? value[0] : 0;
}

double dmi_machine_quota(const char *root) {
  return least(walk(root, UNIFIED, cpu_v2), walk(root, CPU, cpu_v1));
}

uint64_t dmi_machine_memory_limit(const char *root) {
  double limit = least(walk(root, UNIFIED, memory_v2), walk(root, MEMORY, memory_v1));
  return limit >= 0x1p62 ? 0 : (uint64_t)limit; /* version 1 writes nearly 2^63 for no limit */
}

/* ---- Cores ----------------------------------------------------------------------------------- */

/* A processor and its position. Threads first use one processor of each core, changing the
 * package each time. */
struct place {
  /* core: number in its package; second: number in its core */
  uint32_t processor, package, core, second;
};

static int by_place(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  if (x->second != y->second) return x->second < y->second ? -1 : 1;
  if (x->core != y->core) return x->core < y->core ? -1 : 1;
  if (x->package != y->package) return x->package < y->package ? -1 : 1;
  return 0;
}

/* The next core number in this package; `seen` counts usable cores for each package. */
static uint32_t next_core(hwloc_obj_t package, uint32_t *seen) {
  return seen[package != NULL ? package->logical_index : 0]++;
}

static void look_at_core(struct dmi_machine *machine, struct place *places, hwloc_obj_t core,
                         hwloc_obj_t package, hwloc_const_bitmap_t allowed, uint32_t *seen) {
  uint32_t second = 0, number = 0;
  int processor;
  hwloc_bitmap_foreach_begin(processor, core->cpuset) {
    if (!hwloc_bitmap_isset(allowed, (unsigned)processor)) continue;
    if (second == 0) number = next_core(package, seen);
    places[machine->order_num++] = (struct place){
        (uint32_t)processor, package != NULL ? package->logical_index : 0, number, second++};
  }
  hwloc_bitmap_foreach_end();
  if (second > 0) machine->usable++;
}

static void look_at_cores(struct dmi_machine *machine, hwloc_topology_t topology,
                          hwloc_const_bitmap_t allowed) {
  /* If the system does not tell the cores (some virtual machines), each processor is one. */
  bool cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  hwloc_obj_type_t type = cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  int num = hwloc_get_nbobjs_by_type(topology, type);
  int processors = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  int packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
  if (num <= 0 || processors <= 0) return;
  struct place *places = calloc((size_t)processors, sizeof *places);
  uint32_t *seen = calloc(packages > 0 ? (size_t)packages : 1, sizeof *seen);
  machine->order = calloc((size_t)processors, sizeof *machine->order);
  if (places != NULL && seen != NULL && machine->order != NULL) {
    machine->present = (uint32_t)num;
    for (int i = 0; i < num; i++) {
      hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, (unsigned)i);
      hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
      look_at_core(machine, places, core, package, allowed, seen);
    }
    qsort(places, machine->order_num, sizeof *places, by_place);
    for (uint32_t i = 0; i < machine->order_num; i++)
      machine->order[i] = places[i].processor;
  }
  free(places);
  free(seen);
}

/* Leaves of the `allowed` processors those of one part of several, which are near to each other. If
 * there are more parts than processors, several parts are one and the same processor. */
static void take_part(hwloc_topology_t topology, hwloc_bitmap_t allowed, uint32_t part,
                      uint32_t parts) {
  hwloc_topology_t own;
  if (parts <= 1 || hwloc_topology_dup(&own, topology) != 0) return;
  if (hwloc_topology_restrict(own, allowed, 0) == 0) {
    hwloc_obj_t root = hwloc_get_root_obj(own);
    int processors = hwloc_bitmap_weight(root->cpuset);
    uint32_t num = processors > 0 && (uint32_t)processors < parts ? (uint32_t)processors : parts;
    uint32_t which = (uint32_t)((uint64_t)(part - 1) * num / parts);
    hwloc_bitmap_t *sets = calloc(num, sizeof *sets);
    if (sets != NULL && hwloc_distrib(own, &root, 1, sets, num, INT_MAX, 0) == 0 &&
        sets[which] != NULL) {
      hwloc_bitmap_copy(allowed, sets[which]);
    }
    for (uint32_t i = 0; sets != NULL && i < num; i++)
      hwloc_bitmap_free(sets[i]);
    free(sets);
  }
  hwloc_topology_destroy(own);
}

static void ask_hwloc(struct dmi_machine *machine, uint32_t part, uint32_t parts) {
  hwloc_topology_t topology;
  /* Without /sys, hwloc would warn the user on stderr at every start, although it asks the
   * system in another way then. */
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (allowed == NULL || hwloc_topology_init(&topology) != 0) {
    hwloc_bitmap_free(allowed);
    return;
  }
  /* Leave out what is not used: caches and devices would take time at every start. */
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) == 0) {
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0)
      hwloc_bitmap_fill(allowed);
    take_part(topology, allowed, part, parts);
    look_at_cores(machine, topology, allowed);
  }
  hwloc_topology_destroy(topology);
  hwloc_bitmap_free(allowed);
}

void dmi_machine_look(struct dmi_machine *machine, uint32_t part, uint32_t parts) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t limit = dmi_machine_memory_limit("");
  memset(machine, 0, sizeof *machine);
  ask_hwloc(machine, part, parts);
  machine->quota = dmi_machine_quota("") / (parts > 0 ? parts : 1);
  machine->cores = machine->usable > 0 ? machine->usable : 1;
  /* Rounded up: the time of one and a half processors is better used by two threads than by one. */
  if (machine->quota > 0 && ceil(machine->quota) < machine->cores)
    machine->cores = (uint32_t)ceil(machine->quota);
  if (pages > 0 && page > 0) machine->memory = (uint64_t)pages * (uint64_t)page;
  if (limit > 0 && (machine->memory == 0 || limit < machine->memory)) machine->memory = limit;
}

void dmi_machine_free(struct dmi_machine *machine) {
  free(machine->order);
  memset(machine, 0, sizeof *machine);
}

void dmi_machine_raise_files(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}
