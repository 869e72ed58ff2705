/*
 * manual_watch.c - lets manual.t see what the manual's programs do but do not print.
 *
 * The programs are compiled unchanged; the linker (--wrap) puts these functions between them and
 * the library.  Each does what was asked for, and looks, or counts.
 *
 *   DMI_munmap                   the first one in a process: prints what the mapping holds, as
 *                                doubles: how many, and the least and the greatest (manual01: C)
 *   DMI_local_barrier_allreduce  the number of the call goes in as the part to be summed up; all
 *                                threads of a round must have had the same number (manual01, 06)
 *   DMI_cond_broadcast           counted (manual05: once per barrier)
 *
 * At the end of a process: "watch: BARRIERS barriers, WRONG wrong, BROADCASTS broadcasts".
 */
#include <math.h>

#include "dmi_api.h"

int32_t __real_DMI_munmap(int64_t addr, DMI_local_status_t *status);
int32_t __wrap_DMI_munmap(int64_t addr, DMI_local_status_t *status);
int32_t __real_DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier, double sub_sum,
                                           double *sum_ptr, int32_t pnum);
int32_t __wrap_DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier, double sub_sum,
                                           double *sum_ptr, int32_t pnum);
int32_t __real_DMI_cond_broadcast(int64_t addr);
int32_t __wrap_DMI_cond_broadcast(int64_t addr);

static int64_t barriers, wrong, broadcasts, unmaps; /* __atomic */

int32_t __wrap_DMI_munmap(int64_t addr, DMI_local_status_t *status) {
  if (__atomic_fetch_add(&unmaps, 1, __ATOMIC_RELAXED) == 0) {
    double value, least = INFINITY, greatest = -INFINITY;
    int64_t num = 0;
    while (DMI_read(addr + num * (int64_t)sizeof(value), sizeof(value), &value, DMI_GET_READ,
                    NULL) == DMI_TRUE) {
      least = fmin(least, value);
      greatest = fmax(greatest, value);
      num++;
    }
    printf("unmapped: %lld from %g to %g\n", (long long)num, least, greatest);
  }
  return __real_DMI_munmap(addr, status);
}

int32_t __wrap_DMI_local_barrier_allreduce(DMI_local_barrier_t *barrier, double sub_sum,
                                           double *sum_ptr, int32_t pnum) {
  static _Thread_local int64_t calls;
  double sum = -1;
  if (sub_sum != 0) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED); /* these programs give 0 */
  calls++;
  const int32_t ok = __real_DMI_local_barrier_allreduce(barrier, (double)calls, &sum, pnum);
  __atomic_fetch_add(&barriers, 1, __ATOMIC_RELAXED);
  if (ok != DMI_TRUE || sum != (double)(calls * pnum)) {
    __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
  }
  *sum_ptr = 0;
  return ok;
}

int32_t __wrap_DMI_cond_broadcast(int64_t addr) {
  __atomic_fetch_add(&broadcasts, 1, __ATOMIC_RELAXED);
  return __real_DMI_cond_broadcast(addr);
}

__attribute__((destructor)) static void report(void) {
  printf("watch: %lld barriers, %lld wrong, %lld broadcasts\n", (long long)barriers,
         (long long)wrong, (long long)broadcasts);
}
