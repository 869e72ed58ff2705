/*
 * pool.h - ox_dmi as the first process of a DMI program.
 */
#ifndef OX_POOL_H
#define OX_POOL_H

/* DMI_main: serves clients, and has processes come and go. */
void ox_pool(int argc, char **argv);

#endif
