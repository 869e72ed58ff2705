# test/multi/local.mk - tests of several real processes.
#
# Scripts test/multi/*.t (Perl, use DMITest) are found and run by the suite.  They compile their
# own programs with dmicc ($t->compile), so nothing has to be listed here.
