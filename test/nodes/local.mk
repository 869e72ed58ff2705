# test/nodes/local.mk - programs of test/multi and examples/ as nodes of one OS process.
#
# A module is a program made as a shared object (module.h); test/nodes/nodes loads a copy of it for
# each node.  Add the name of test/multi/NAME_dmi.c to node_programs, that of examples/NAME.c to
# node_examples, and the script that runs it to test/nodes/nodes.t.
node_programs = api badinput churn damage end events group guests history huge litmus malloc pause pressure \
	remote rwset suspend sync team team_random threads told tree
node_examples = cholesky_dmi lu_dmi stencil_dmi rwset_heat nqueens_dmi is_dmi jacobi_dmi matmat_dmi remoteswap_dmi \
	swap_dmi sync_dmi kmeans_dmi

node_modules = $(node_programs:%=test/nodes/%.so) $(node_examples:%=test/nodes/example_%.so)
check_tools += test/nodes/nodes $(node_modules)
CLEANFILES += test/nodes/nodes test/nodes/*.so
EXTRA_PROGRAMS += test/nodes/nodes

# All of the API is there for the modules, and no start object.
test_nodes_nodes_SOURCES = test/nodes/nodes.c $(memory_net)
test_nodes_nodes_LDADD = libdmi.la $(DMI_LIBS)
test_nodes_nodes_LDFLAGS = $(AM_LDFLAGS) -export-dynamic -Wl,--whole-archive,.libs/libdmi.a,--no-whole-archive

node_module = $(AM_V_CCLD)$(CC) -shared -fPIC $(CPPFLAGS) -I$(top_srcdir)/include $(CFLAGS) $(DMI_SANITIZER_FLAGS) \
	-pthread -Wall -include $(top_srcdir)/test/nodes/module.h -Wl,-Bsymbolic
node_needs = test/nodes/module.h include/dmi_api.h include/dmi_ext.h include/dmi_farm.h include/dmi_team.h

test/nodes/history.so: test/multi/history_dmi.c test/multi/multi.h test/sim/checker.c test/sim/history.c \
		test/sim/shrink.c $(node_needs)
	@$(MKDIR_P) test/nodes
	$(node_module) -o $@ $(filter %.c,$^) -lm
test/nodes/team_random.so: test/multi/team_random.h test/multi/team_random_run.h
test/nodes/example_%.so: examples/%.c $(node_needs)
	@$(MKDIR_P) test/nodes
	$(node_module) -o $@ $< -lm
test/nodes/%.so: test/multi/%_dmi.c test/multi/multi.h $(node_needs)
	@$(MKDIR_P) test/nodes
	$(node_module) -o $@ $< -lm
