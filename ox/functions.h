/*
 * functions.h - functions for clients of ox_dmi.
 */
#ifndef OX_FUNCTIONS_H
#define OX_FUNCTIONS_H

/* Registers nqueens(n) and matmul(a, b). */
void ox_functions_register(void);

#endif
