/*
 * worker.h - a worker of dmifarm: runs the tasks that the master orders.
 */
#ifndef FARM_WORKER_H
#define FARM_WORKER_H

#include <stdint.h>

/* The body of the DMI thread that the master starts in each process; `addr` of a struct farm_start.
 * Returns when the master has ended it, or is gone. */
void farm_worker(int64_t addr);

#endif
