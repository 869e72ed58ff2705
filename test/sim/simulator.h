/*
 * simulator.h - the header of the simulator that a file of both (both.h) is compiled for.
 */
#ifndef SIM_SIMULATOR_H
#define SIM_SIMULATOR_H

#ifdef SIM_WHOLE_NODES
#include "node_sim.h"
#else
#include "sim.h"
#endif

#endif
