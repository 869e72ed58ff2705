# farm/local.mk - dmifarm, a program of DMI's own: see docs/farm.md.

noinst_LIBRARIES += farm/libfarm.a
farm_libfarm_a_SOURCES = farm/alloc.c farm/alloc.h farm/job.c farm/job.h farm/job_int.h \
	farm/job_log.c farm/job_store.c farm/job_tidy.c farm/plan.c farm/plan.h farm/runner.c \
	farm/runner.h farm/runner_start.c farm/store.c farm/store.h farm/timeline.c farm/timeline.h \
	farm/version.c farm/version.h
farm_libfarm_a_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
