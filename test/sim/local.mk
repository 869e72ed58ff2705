# test/sim/local.mk - the protocol core under a simulated network, in one process
# (docs/simulation.md).
#
# The suite runs each program without arguments.  DMI_TEST_SCALE tells how much to do: small
# (sanitizers), unset (seconds), soak (as long as it takes).

# The core with switches for its rules (lib/base/mutation.h), which the library does not have.
check_LTLIBRARIES += libdmi_mutant.la
libdmi_mutant_la_CPPFLAGS = $(AM_CPPFLAGS) -DDMI_MUTATIONS -DDMI_DEBUG
libdmi_mutant_la_SOURCES = $(base_sources) $(msg_sources) $(core_sources) $(remote_pure) $(team_pure) \
	lib/mem/range_set.c lib/mem/range_set.h
sim_libs = libdmi_mutant.la $(DMI_LIBS)
sim_cppflags = $(AM_CPPFLAGS) -DDMI_MUTATIONS

# Both simulators with pages have these; each compiles them for itself (simulator.h).
both_sources = \
	test/sim/both.h \
	test/sim/checker.c \
	test/sim/checker.h \
	test/sim/draw.c \
	test/sim/history.c \
	test/sim/history.h \
	test/sim/hunt.c \
	test/sim/hunt.h \
	test/sim/losses.c \
	test/sim/ops.c \
	test/sim/pager_judge.c \
	test/sim/pager_judge.h \
	test/sim/pages.c \
	test/sim/part.c \
	test/sim/pause.c \
	test/sim/rng.h \
	test/sim/shrink.c \
	test/sim/simulator.h

check_PROGRAMS += test/sim/checker_test
test_sim_checker_test_SOURCES = \
	test/sim/checker.c \
	test/sim/checker.h \
	test/sim/checker_test.c \
	test/sim/history.c \
	test/sim/history.h \
	test/sim/shrink.c

check_PROGRAMS += test/sim/object_test
test_sim_object_test_SOURCES = \
	test/sim/history.c \
	test/sim/history.h \
	test/sim/object_test.c \
	test/sim/rng.h
test_sim_object_test_CPPFLAGS = $(sim_cppflags)
test_sim_object_test_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/sim
test_sim_sim_SOURCES = \
	$(both_sources) \
	test/sim/main.c \
	test/sim/sim.h \
	test/sim/sim_check.c \
	test/sim/sim_crash.c \
	test/sim/sim_handover.c \
	test/sim/sim_member.c \
	test/sim/sim_net.c \
	test/sim/sim_ops.c \
	test/sim/sim_pager.c \
	test/sim/sim_pager.h \
	test/sim/sim_pager_check.c \
	test/sim/sim_pager_events.c \
	test/sim/sim_proc.c \
	test/sim/sim_capacity.c \
	test/sim/sim_run.c
test_sim_sim_CPPFLAGS = $(sim_cppflags)
test_sim_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/node_sim
test_sim_node_sim_SOURCES = \
	$(both_sources) \
	test/sim/node_agree.c \
	test/sim/node_call.c \
	test/sim/node_clock.c \
	test/sim/node_check.c \
	test/sim/node_conn.c \
	test/sim/node_judge.c \
	test/sim/node_life.c \
	test/sim/node_loss.c \
	test/sim/node_main.c \
	test/sim/node_net.c \
	test/sim/node_net.h \
	test/sim/node_number.c \
	test/sim/node_ops.c \
	test/sim/node_pack.c \
	test/sim/node_page.c \
	test/sim/node_pager.c \
	test/sim/node_proc.c \
	test/sim/node_pulse.c \
	test/sim/node_records.c \
	test/sim/node_pressure.c \
	test/sim/node_run.c \
	test/sim/node_sim.h \
	test/sim/node_user.c
test_sim_node_sim_CPPFLAGS = $(sim_cppflags) -DSIM_WHOLE_NODES
test_sim_node_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/crash_sim
test_sim_crash_sim_SOURCES = \
	test/sim/crash_check.c \
	test/sim/crash_depose.c \
	test/sim/crash_net.c \
	test/sim/crash_proc.c \
	test/sim/crash_sim.c \
	test/sim/crash_sim.h \
	test/sim/rng.h
test_sim_crash_sim_CPPFLAGS = $(sim_cppflags)
test_sim_crash_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/member_sim
test_sim_member_sim_SOURCES = \
	test/sim/crash_check.c \
	test/sim/crash_depose.c \
	test/sim/crash_exit.c \
	test/sim/crash_exit.h \
	test/sim/crash_map.c \
	test/sim/crash_map.h \
	test/sim/crash_note.c \
	test/sim/crash_note.h \
	test/sim/crash_member.c \
	test/sim/crash_net.c \
	test/sim/crash_sim.c \
	test/sim/crash_sim.h \
	test/sim/rng.h
test_sim_member_sim_CPPFLAGS = $(sim_cppflags)
test_sim_member_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/lock_sim
test_sim_lock_sim_SOURCES = test/sim/lock_sim.c test/sim/rng.h
test_sim_lock_sim_CPPFLAGS = $(sim_cppflags)
test_sim_lock_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/heap_sim
test_sim_heap_sim_SOURCES = test/sim/heap_sim.c test/sim/rng.h
test_sim_heap_sim_CPPFLAGS = $(sim_cppflags)
test_sim_heap_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/team_sim
test_sim_team_sim_SOURCES = \
	test/sim/rng.h \
	test/sim/team_judge.c \
	test/sim/team_rank.c \
	test/sim/team_sim.c \
	test/sim/team_sim.h
test_sim_team_sim_CPPFLAGS = $(sim_cppflags)
test_sim_team_sim_LDADD = $(sim_libs)

check_PROGRAMS += test/sim/remote_sim
test_sim_remote_sim_SOURCES = \
	test/sim/remote_net.c \
	test/sim/remote_proc.c \
	test/sim/remote_prog.c \
	test/sim/remote_sim.c \
	test/sim/remote_sim.h \
	test/sim/remote_user.c \
	test/sim/rng.h
test_sim_remote_sim_CPPFLAGS = $(sim_cppflags)
test_sim_remote_sim_LDADD = $(sim_libs)

# Ten million operations over a thousand seeds, with joins and leaves; other seeds:
# SEEDS=1001-2000.
SEEDS = 1-1000
SOAK_TARGETS += soak-sim
soak-sim: test/sim/sim$(EXEEXT) test/sim/node_sim$(EXEEXT) test/sim/remote_sim$(EXEEXT)
	test/sim/remote_sim --seeds $(SEEDS)
	test/sim/node_sim --seeds $(SEEDS) --ops 10000
	test/sim/sim --seeds $(SEEDS) --ops 10000
	test/sim/sim --seeds $(SEEDS) --ops 10000 --pagers
.PHONY: soak-sim
