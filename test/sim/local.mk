# test/sim/local.mk - the protocol core under a simulated network, in one process.
#
# For test/sim/NAME.c add:
#   check_PROGRAMS += test/sim/NAME
#   test_sim_NAME_SOURCES = test/sim/NAME.c ...
#   test_sim_NAME_LDADD = $(sim_libs)
# The suite runs each program without arguments.  DMI_TEST_SCALE tells how much to do: small
# (sanitizers), unset (seconds), soak (as long as it takes).

sim_libs = libdmi.la $(DMI_LIBS)
