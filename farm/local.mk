# farm/local.mk - dmifarm, a program of DMI's own: see docs/farm.md.

noinst_LIBRARIES += farm/libfarm.a
farm_libfarm_a_SOURCES = farm/alloc.c farm/alloc.h farm/plan.c farm/plan.h farm/runner.c \
	farm/runner.h farm/runner_start.c farm/version.c farm/version.h
farm_libfarm_a_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
