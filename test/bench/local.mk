# test/bench/local.mk - measurements, for `make bench`.
#
# List C programs in EXTRA_PROGRAMS (built only when asked for) and in BENCH_TARGETS the phony
# target that builds and runs them.  Programs that need DMI go into bench_dmi_programs: they are
# compiled with dmicc, as examples are.

bench_raw_programs = test/bench/raw_barrier test/bench/raw_echo test/bench/raw_memcpy test/bench/raw_sealed \
	test/bench/raw_star test/bench/raw_stream
EXTRA_PROGRAMS += $(bench_raw_programs)
test_bench_raw_barrier_SOURCES = test/bench/raw_barrier.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_raw_echo_SOURCES = test/bench/raw_echo.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_raw_memcpy_SOURCES = test/bench/raw_memcpy.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_raw_sealed_SOURCES = test/bench/raw_sealed.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_raw_sealed_LDADD = libdmi.la $(DMI_LIBS)
test_bench_raw_star_SOURCES = test/bench/raw_star.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_raw_stream_SOURCES = test/bench/raw_stream.c test/bench/raw_tcp.h test/bench/bench.h

bench_dmi_programs = test/bench/bench_crash_dmi test/bench/bench_group_dmi test/bench/bench_join_dmi \
	test/bench/bench_leave_dmi test/bench/bench_many_dmi test/bench/bench_ops_dmi test/bench/bench_remote_dmi \
	test/bench/bench_rescale_dmi \
	test/bench/bench_seen_dmi \
	test/bench/bench_sync_dmi \
	test/bench/bench_team_dmi \
	test/bench/bench_tree_dmi \
	test/bench/bench_wide_dmi

$(bench_dmi_programs): %: $(top_srcdir)/%.c $(top_srcdir)/test/bench/bench.h $(top_srcdir)/test/bench/ranks.h \
	$(dmicc_needs)
	@$(MKDIR_P) $(@D)
	$(dmicc_program)

# Open MPI beside it, where it is installed (test/bench/setup).  Not part of anything else.
MPICC = mpicc
test/bench/mpi_ops: $(top_srcdir)/test/bench/mpi_ops.c $(top_srcdir)/test/bench/bench.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(MPICC) -std=gnu11 -O2 -Wall -Wextra -o $@ $<
# The counterpart of examples/lu_dmi.c.
test/bench/mpi_lu: $(top_srcdir)/test/bench/mpi_lu.c $(top_srcdir)/examples/blocks.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(MPICC) -std=gnu11 -O3 -Wall -Wextra -o $@ $< -lm
# Those of the other examples, for test/bench/programs.
mpi_programs = test/bench/mpi_jacobi test/bench/mpi_cg test/bench/mpi_is test/bench/mpi_ep
$(mpi_programs): %: $(top_srcdir)/%.c $(examples_headers)
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(MPICC) $(CFLAGS) -std=gnu11 -Wall -Wextra -o $@ $< -lm
# The counterpart of bench_team_dmi.c.
test/bench/mpi_team: $(top_srcdir)/test/bench/mpi_team.c $(top_srcdir)/test/bench/ranks.h $(top_srcdir)/test/bench/bench.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(MPICC) -std=gnu11 -O2 -Wall -Wextra -o $@ $<

BENCH_TARGETS += bench-calls
bench-calls: all $(bench_raw_programs) $(bench_dmi_programs)
	@! command -v $(MPICC) > /dev/null || $(MAKE) $(AM_MAKEFLAGS) test/bench/mpi_ops test/bench/mpi_lu
	$(PERL) $(top_srcdir)/test/bench/bench $(abs_builddir)

.PHONY: bench-calls
CLEANFILES += $(bench_raw_programs) $(bench_dmi_programs) test/bench/mpi_ops test/bench/mpi_lu test/bench/mpi_team \
	bench.json

# lib/net alone, beside raw TCP in the same run.
EXTRA_PROGRAMS += test/bench/net_echo
test_bench_net_echo_SOURCES = test/bench/net_echo.c test/bench/raw_tcp.h test/bench/bench.h
test_bench_net_echo_LDADD = libdmi.la $(DMI_LIBS)
BENCH_TARGETS += bench-net
bench-net: test/bench/net_echo
	test/bench/net_echo

.PHONY: bench-net
CLEANFILES += test/bench/net_echo

# Remote functions; LU beside the same program written for MPI.
BENCH_TARGETS += bench-remote
bench-remote: all test/bench/bench_remote_dmi test/bench/bench_many_dmi
	@! command -v $(MPICC) > /dev/null || $(MAKE) $(AM_MAKEFLAGS) test/bench/mpi_lu
	$(PERL) $(top_srcdir)/test/bench/remote $(abs_builddir)

.PHONY: bench-remote

# Whole programs beside the same algorithms written for MPI.
BENCH_TARGETS += bench-programs
bench-programs: all
	@! command -v $(MPICC) > /dev/null || $(MAKE) $(AM_MAKEFLAGS) $(mpi_programs) test/bench/mpi_lu
	$(PERL) $(top_srcdir)/test/bench/programs $(abs_builddir)

.PHONY: bench-programs
CLEANFILES += $(mpi_programs) bench-programs.json

# Teams; the same loops with MPI.
BENCH_TARGETS += bench-team
bench-team: all $(bench_raw_programs) test/bench/bench_team_dmi
	@! command -v $(MPICC) > /dev/null || $(MAKE) $(AM_MAKEFLAGS) test/bench/mpi_team
	$(PERL) $(top_srcdir)/test/bench/team $(abs_builddir)

.PHONY: bench-team

# Many processes.
BENCH_TARGETS += bench-wide
bench-wide: all test/bench/bench_wide_dmi test/bench/raw_star
	@! command -v $(MPICC) > /dev/null || $(MAKE) $(AM_MAKEFLAGS) test/bench/mpi_ops
	$(PERL) $(top_srcdir)/test/bench/wide $(abs_builddir)

.PHONY: bench-wide

# What calls pay so that others can see them.
EXTRA_PROGRAMS += test/bench/seen_cost
test_bench_seen_cost_SOURCES = test/bench/seen_cost.c test/bench/bench.h
test_bench_seen_cost_LDADD = libdmi.la $(DMI_LIBS)
BENCH_TARGETS += bench-seen
bench-seen: all test/bench/bench_seen_dmi test/bench/bench_ops_dmi test/bench/seen_cost
	$(PERL) $(top_srcdir)/test/bench/seen $(abs_builddir)

.PHONY: bench-seen
CLEANFILES += test/bench/seen_cost

# C++ beside C.
test/bench/bench_cxx_dmi: $(top_srcdir)/test/bench/bench_cxx_dmi.cc $(top_srcdir)/test/bench/bench.h $(cxx_headers) \
	bin/dmicxx $(dmicc_needs)
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)bin/dmicxx $(CFLAGS) -Wall -Wextra $< -o $@
CLEANFILES += test/bench/bench_cxx_dmi
if HAVE_CXX
BENCH_TARGETS += bench-cxx
endif
bench-cxx: all test/bench/bench_cxx_dmi
	$(PERL) $(top_srcdir)/test/bench/cxx $(abs_builddir)

.PHONY: bench-cxx

# Calls in Python.
if HAVE_PYTHON
BENCH_TARGETS += bench-python
endif
bench-python: all
	$(PERL) $(top_srcdir)/test/bench/python $(abs_builddir) $(PYTHON3)

.PHONY: bench-python

# What --trace costs, by the clock.
BENCH_TARGETS += bench-trace
bench-trace: all
	$(PERL) $(top_srcdir)/test/bench/trace $(abs_builddir)

.PHONY: bench-trace

# What the page of dmirun --web takes of a core.
BENCH_TARGETS += bench-web
bench-web: all
	$(PERL) $(top_srcdir)/test/bench/web $(abs_builddir)

.PHONY: bench-web

# dmifarm beside xargs, GNU parallel and the plain program.
BENCH_TARGETS += bench-farm
bench-farm: all
	$(PERL) $(top_srcdir)/test/bench/farm $(abs_builddir)

.PHONY: bench-farm

# All programs, compiled: for test/multi/bench.t, as nothing else builds those that nobody measures.
bench_all_programs = $(bench_raw_programs) $(bench_dmi_programs) test/bench/net_echo test/bench/seen_cost
bench_all_mpi_programs = test/bench/mpi_ops test/bench/mpi_lu test/bench/mpi_team $(mpi_programs)
if HAVE_CXX
bench_all_programs += test/bench/bench_cxx_dmi
endif
bench-build: all
	$(MAKE) $(AM_MAKEFLAGS) $(bench_all_programs)
bench-build-mpi:
	$(MAKE) $(AM_MAKEFLAGS) $(bench_all_mpi_programs)

.PHONY: bench-build bench-build-mpi
