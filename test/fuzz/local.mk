# test/fuzz/local.mk - hostile input for whatever reads bytes from a peer.
#
# For test/fuzz/NAME.c add:
#   check_PROGRAMS += test/fuzz/NAME
#   test_fuzz_NAME_SOURCES = test/fuzz/NAME.c
#   test_fuzz_NAME_LDADD = $(fuzz_libs)
# Without arguments a program does a quick, seeded run; DMI_TEST_SCALE=soak a long one.

fuzz_libs = libdmi.la $(DMI_LIBS)

check_PROGRAMS += test/fuzz/net_fuzz
test_fuzz_net_fuzz_SOURCES = test/fuzz/net_fuzz.c test/unit/net_node.h test/unit/net_raw.h
test_fuzz_net_fuzz_LDADD = $(fuzz_libs)

check_PROGRAMS += test/fuzz/wire_fuzz
test_fuzz_wire_fuzz_SOURCES = test/fuzz/wire_fuzz.c
test_fuzz_wire_fuzz_LDADD = $(fuzz_libs)

check_PROGRAMS += test/fuzz/ox_fuzz
test_fuzz_ox_fuzz_SOURCES = test/fuzz/ox_fuzz.c
test_fuzz_ox_fuzz_LDADD = $(ox_libs)

# The faulty member sends what the linker puts between the layers.
check_PROGRAMS += test/fuzz/member_fuzz
test_fuzz_member_fuzz_SOURCES = test/fuzz/member_fuzz.c test/fuzz/faulty.c test/fuzz/faulty.h
test_fuzz_member_fuzz_LDADD = $(fuzz_libs)
test_fuzz_member_fuzz_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dmi_net_send -Wl,--wrap=dmi_wire_check
