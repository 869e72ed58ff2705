/*
 * functions.h - functions for clients of ox_dmi.
 */
#ifndef OX_FUNCTIONS_H
#define OX_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Registers nqueens(n), matmul(a, b), processes(). */
void ox_functions_register(void);

/* No process of a DMI program: it was not started by dmirun. */
bool ox_runs_alone(void);

/* ---- queens.c, matrix.c: parts (parts.h) ---- */
void ox_queens_part(const void *job, int64_t job_size, const void *part, int64_t part_size,
                    void *out, int64_t out_size);
void ox_product_part(const void *job, int64_t job_size, const void *part, int64_t part_size,
                     void *out, int64_t out_size);

/* ---- The functions ---- */
struct dmi_ox_value *ox_nqueens(struct dmi_ox_value *const *args, int64_t num);
struct dmi_ox_value *ox_matmul(struct dmi_ox_value *const *args, int64_t num);

#endif
