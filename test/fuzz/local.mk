# test/fuzz/local.mk - hostile input for whatever reads bytes from a peer.
#
# For test/fuzz/NAME.c add:
#   check_PROGRAMS += test/fuzz/NAME
#   test_fuzz_NAME_SOURCES = test/fuzz/NAME.c
#   test_fuzz_NAME_LDADD = $(fuzz_libs)
# Without arguments a program does a quick, seeded run; DMI_TEST_SCALE=soak a long one.

fuzz_libs = libdmi.la $(DMI_LIBS)
