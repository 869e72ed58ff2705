# farm/local.mk - dmifarm, a program of DMI's own: see docs/dmifarm.md.

noinst_LIBRARIES += farm/libfarm.a
farm_libfarm_a_SOURCES = farm/alarm.c farm/alarm.h farm/alloc.c farm/alloc.h farm/clock.c farm/clock.h \
	farm/environment.c farm/environment.h farm/file.c farm/file.h farm/job.c \
	farm/job.h farm/job_begun.c farm/job_finish.c farm/job_int.h farm/job_log.c farm/job_store.c farm/job_tidy.c farm/pack.c farm/pack.h farm/plan.c \
	farm/plan.h farm/progress.c farm/progress.h farm/runner.c farm/runner.h farm/runner_int.h \
	farm/runner_lost.c farm/runner_output.c farm/runner_start.c farm/runner_task.c \
	farm/share.c farm/share.h farm/store.c farm/store.h farm/timeline.c farm/timeline.h farm/version.c farm/version.h

farm_libfarm_a_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE

bin_PROGRAMS += bin/dmifarm
bin_dmifarm_SOURCES = farm/launch.c farm/launch.h farm/main.c farm/make.c farm/make.h \
	farm/master.c farm/master.h farm/master_end.c farm/master_finish.c farm/master_int.h farm/master_member.c \
	farm/master_place.c farm/nodes.c farm/nodes.h farm/options.c farm/options.h \
	farm/worker.c farm/worker.h farm/worker_int.h farm/worker_place.c
bin_dmifarm_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
bin_dmifarm_LDADD = farm/libfarm.a libdmi.la $(DMI_LIBS)
bin_dmifarm_LDFLAGS = -static
