# examples/local.mk - programs a user would copy from.
#
# An example is compiled with dmicc, as a user would, by listing its program here as examples/NAME;
# the source is examples/NAME.c.  Options that one example needs: examples_NAME_flags = -lpng.
# Their sources are installed, with the texts (docs/local.mk).  One that needs libpng goes into the `if HAVE_PNG` part.

example_programs = examples/joinleave_dmi examples/matmat_dmi examples/nqueens_dmi \
	examples/ep_dmi examples/cg_dmi examples/is_dmi examples/jacobi_dmi examples/swap_dmi \
	examples/remoteswap_dmi examples/sync_dmi examples/rwset_heat examples/primes_dmi \
	examples/lu_dmi examples/cholesky_dmi examples/stencil_dmi examples/halo_dmi examples/pipeline_dmi \
	examples/kmeans_dmi

if HAVE_PNG
example_programs += examples/mandel_dmi
endif
examples_mandel_dmi_flags = -lpng
examples_ep_dmi_flags = -lm
examples_cg_dmi_flags = -lm
examples_is_dmi_flags = -lm
examples_jacobi_dmi_flags = -lm
examples_rwset_heat_flags = -lm
examples_halo_dmi_flags = -lm
examples_lu_dmi_flags = -O3 -lm
examples_cholesky_dmi_flags = -O3 -lm
examples_kmeans_dmi_flags = -O3

if HAVE_CXX
cxx_examples = examples/kmeans_cxx examples/nqueens_cxx
if HAVE_PNG
cxx_examples += examples/mandel_cxx
endif
endif
examples_kmeans_cxx_flags = -O3
examples_mandel_cxx_flags = -lpng

all-local: $(example_programs) $(cxx_examples)
CLEANFILES += $(example_programs) $(cxx_examples)

# Those in C++ (examples/NAME.cc) are compiled with dmicxx: cxx_examples.

# What a program made with dmicc is made from, beside its source, and how; test/bench/local.mk too.
dmicc_needs = $(top_srcdir)/include/dmi_api.h $(top_srcdir)/include/dmi_ext.h $(top_srcdir)/examples/check.h bin/dmicc \
	dmi_start.o libdmi.la
dmicc_program = $(AM_V_CCLD)bin/dmicc $(CFLAGS) -Wall -Wextra $< -o $@ \
	$($(subst /,_,$@)_flags)

examples_headers = $(top_srcdir)/examples/team.h $(top_srcdir)/include/dmi_farm.h \
	$(top_srcdir)/examples/spmd.h $(top_srcdir)/examples/npb.h $(top_srcdir)/include/dmi_remote.h \
	$(top_srcdir)/examples/cg.h $(top_srcdir)/examples/ep.h $(top_srcdir)/examples/is.h \
	$(top_srcdir)/examples/jacobi.h $(top_srcdir)/examples/hash.h \
	$(top_srcdir)/examples/remote.h $(top_srcdir)/examples/blocks.h $(top_srcdir)/include/dmi_team.h

$(example_programs): %: $(top_srcdir)/%.c $(examples_headers) $(dmicc_needs)
	@$(MKDIR_P) $(@D)
	$(dmicc_program)

cxx_headers = $(top_srcdir)/include/dmi.hpp $(addprefix $(top_srcdir)/,$(cxxinclude_HEADERS))

$(cxx_examples): %: $(top_srcdir)/%.cc $(cxx_headers) $(examples_headers) bin/dmicxx $(dmicc_needs)
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)bin/dmicxx $(CFLAGS) -Wall -Wextra $< -o $@ $($(subst /,_,$@)_flags)

