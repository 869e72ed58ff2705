/*
 * make.h - dmifarm make: writes the tasks of a job.
 */
#ifndef FARM_MAKE_H
#define FARM_MAKE_H

/* argv[0] is "make".  Returns the exit status. */
int farm_make(int argc, char **argv);

#endif
