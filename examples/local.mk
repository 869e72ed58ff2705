# examples/local.mk - programs a user would copy from.
#
# An example is compiled with dmicc, as a user would, by listing its program here as examples/NAME;
# the source is examples/NAME.c.  Options that one example needs: examples_NAME_flags = -lpng.
# Examples are not installed.  One that needs libpng goes into the `if HAVE_PNG` part.

example_programs =

if HAVE_PNG
example_programs +=
endif

all-local: $(example_programs)
CLEANFILES += $(example_programs)

$(example_programs): %: $(top_srcdir)/%.c $(top_srcdir)/include/dmi_api.h bin/dmicc dmi_start.o \
		libdmi.la
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)bin/dmicc $(CFLAGS) -Wall -Wextra $< -o $@ $($(subst /,_,$@)_flags)
