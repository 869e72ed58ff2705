# test/multi/local.mk - tests of several real processes (docs/testing.md).
#
# Scripts test/multi/*.t (Perl, use DMITest) are found and run by the suite, and packed with all
# of test/.  They compile their own programs with dmicc ($t->compile), so nothing has to be listed
# here.
#
# Programs that tests of several processes need and that are no DMI programs go into check_tools.
check_tools += test/multi/attack
EXTRA_PROGRAMS += test/multi/attack
test_multi_attack_SOURCES = test/multi/attack.c test/multi/attack_flood.c \
	test/multi/attack_flood.h test/unit/net_node.h test/unit/net_raw.h
test_multi_attack_LDADD = libdmi.la $(DMI_LIBS)
CLEANFILES += test/multi/attack

# `make soak` runs each in its long form: litmus.t 100,000 rounds of each race, history.t 50 seeds,
# churn.t 120 s, sync.t a million cycles of a condition,
# malloc.t 1,000 joins and leaves, cluster.t 20 rounds, survive.t twice 1,000 kills, survive_cut.t 200 cuts,
# hour.t an hour, team_random.t 10,000 programs.  The long forms one by one:

soak-litmus soak-history soak-churn soak-hostile soak-sync soak-malloc soak-cluster soak-survive soak-survive_cut soak-hour soak-rescale soak-team_random: all
	DMI_TEST_SCALE=soak $(run_suite) $(abs_builddir) test/multi/$(@:soak-%=%).t

.PHONY: soak-litmus soak-history soak-churn soak-hostile soak-sync soak-malloc soak-cluster soak-survive soak-survive_cut soak-hour soak-rescale soak-team_random

# What the scripts have compiled.
CLEAN_DIRS += test/multi/programs
