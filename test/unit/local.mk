# test/unit/local.mk - cmocka tests of single modules.
#
# For test/unit/NAME_test.c add, in the `if HAVE_CMOCKA` part:
#   check_PROGRAMS += test/unit/NAME_test
#   test_unit_NAME_test_SOURCES = test/unit/NAME_test.c
#   test_unit_NAME_test_LDADD = $(unit_libs)
# The program is run without arguments; exit status 77 means skipped.

unit_libs = libdmi.la $(DMI_LIBS) -lcmocka

if HAVE_CMOCKA
check_PROGRAMS += test/unit/version_test
test_unit_version_test_SOURCES = test/unit/version_test.c
test_unit_version_test_LDADD = $(unit_libs)
endif
