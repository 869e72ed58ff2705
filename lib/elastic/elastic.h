/*
 * elastic.h - what a program can use of this folder: farms of tasks (farm.h), teams (scale.h).
 */
#ifndef DMI_ELASTIC_ELASTIC_H
#define DMI_ELASTIC_ELASTIC_H

#include <stdint.h>

struct dmi_process;
struct dmi_program;

/* Makes a program able to run tasks, if it defines DMI_farm_task, and teams, if it defines
 * DMI_scaleunit.  To be called when the program's own functions are known, before it starts. */
void dmi_elastic_use(struct dmi_program *program);

/* The calling thread is about to handle all notices, in `who`, a phrase that stays.  DMI_OK, until
 * dmi_elastic_end; or an error, as another one does so in this process, or waits for the caller in
 * another process. */
int32_t dmi_elastic_begin(struct dmi_process *process, const char *who);
void dmi_elastic_end(struct dmi_process *process);

#endif
