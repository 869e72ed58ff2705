# bin/local.mk - the launchers (Perl).  bin/NAME.in becomes bin/NAME; list NAME in `launchers`.

launchers = bin/dmicc bin/dmirun bin/dmimw bin/dmitimeline
bin_SCRIPTS += $(launchers) bin/dmicxx
CLEANFILES += $(launchers) bin/dmicxx

# What dmirun --witness starts, instead of a program of the user's.
start_PROGRAMS = bin/dmi-witness
bin_dmi_witness_SOURCES = bin/witness.c
bin_dmi_witness_LDADD = libdmi.la $(DMI_LIBS)
bin_dmi_witness_LDFLAGS = -static

# The HTTP server of dmirun --web.
if HAVE_MICROHTTPD
start_PROGRAMS += bin/dmi-web
bin_dmi_web_SOURCES = web/feed.c web/feed.h web/http.c web/http.h web/listen.c web/listen.h web/main.c \
	web/policy.c web/policy.h web/stream.c web/stream.h web/text.c web/text.h
bin_dmi_web_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
bin_dmi_web_LDADD = $(MICROHTTPD_LIBS) $(SODIUM_LIBS)
endif

# Modules of the launchers: in the build tree these take them from the source, as they are.
perldir = $(pkgdatadir)/perl
perldmidir = $(perldir)/DMI
dist_perldmi_DATA = $(addprefix bin/lib/DMI/, \
	Agent.pm \
	Answer.pm \
	Become.pm \
	Columns.pm \
	CommandLine.pm \
	Control.pm \
	Copy.pm \
	Dump.pm \
	Events.pm \
	FileLimit.pm \
	Frames.pm \
	Json.pm \
	Key.pm \
	Launch.pm \
	Link.pm \
	Look.pm \
	LookText.pm \
	Loop.pm \
	Member.pm \
	Munge.pm \
	NodeFile.pm \
	Output.pm \
	Picture.pm \
	Profile.pm \
	Program.pm \
	Set.pm \
	Settings.pm \
	Several.pm \
	Show.pm \
	Started.pm \
	Status.pm \
	Terminal.pm \
	Top.pm \
	TopView.pm \
	Values.pm \
	Waits.pm \
	Watch.pm \
	Way.pm \
	Web.pm)
perldmiwaydir = $(perldmidir)/Way
dist_perldmiway_DATA = $(addprefix bin/lib/DMI/Way/,Slurm.pm Ssh.pm)
perldmiwebdir = $(perldmidir)/Web
dist_perldmiweb_DATA = $(addprefix bin/lib/DMI/Web/,Metrics.pm Pace.pm Server.pm Start.pm State.pm page.css page.html page.js)

# bash finds them by the name of the command.
completionsdir = $(datadir)/bash-completion/completions
dist_completions_DATA = bin/completions/dmirun bin/completions/dmimw

# Directories are written relative to bindir, so that an installed tree may be moved.
# What they know of options comes from the library's table.
EXTRA_DIST += bin/lib/DMI/Options.pm
options_table = $(top_srcdir)/lib/node/option_table.h
options_module = $(top_srcdir)/bin/lib/DMI/Options.pm
fill_options = $(PERL) -0777 -I$(top_srcdir)/bin/lib -MDMI::Options \
	-pe 'BEGIN { DMI::Options->read(shift) } DMI::Options->fill' $(options_table)

$(launchers): %: $(top_srcdir)/%.in Makefile $(options_table) $(options_module)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)includedir=`$(relative_to_bindir) $(includedir) $(bindir)` && \
	libdir=`$(relative_to_bindir) $(libdir) $(bindir)` && \
	startdir=`$(relative_to_bindir) $(startdir) $(bindir)` && \
	pythondir=`$(relative_to_bindir) $(pythondir) $(bindir)` && \
	perldir=`$(relative_to_bindir) $(perldir) $(bindir)` && \
	sed -e 's|@PERL[@]|$(PERL)|g' \
	  -e 's|@VERSION[@]|$(VERSION)|g' \
	  -e 's|@CC[@]|$(CC)|g' \
	  -e 's|@CXX[@]|$(CXX)|g' \
	  -e 's|@DMI_LIBS[@]|$(DMI_LIBS)|g' \
	  -e 's|@OX_LIBS[@]|$(OX_LIBS)|g' \
	  -e 's|@DMI_SANITIZER_FLAGS[@]|$(DMI_SANITIZER_FLAGS)|g' \
	  -e "s|@REL_INCLUDEDIR[@]|$$includedir|g" \
	  -e "s|@REL_LIBDIR[@]|$$libdir|g" \
	  -e "s|@REL_PERLDIR[@]|$$perldir|g" \
	  -e "s|@REL_STARTDIR[@]|$$startdir|g" \
	  -e "s|@REL_PYTHONDIR[@]|$$pythondir|g" \
	  $< > $@.sed && $(fill_options) $@.sed > $@.tmp && rm $@.sed && chmod +x $@.tmp && mv $@.tmp $@

# The same program, which looks at its name.
bin/dmicxx: bin/dmicc
	$(AM_V_GEN)cp bin/dmicc $@

relative_to_bindir = $(PERL) -MFile::Spec -e 'print File::Spec->abs2rel(@ARGV)'
