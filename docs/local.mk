# docs/local.mk - man pages and texts.
#
# Man pages are made in the build directory, in man/ (so `man -M man DMI_read` shows them before they
# are installed), by docs/mkman from include/*.h, bin/*.in and docs/*.[17].pod, and docs/ja/*.7.pod: docs/man-pages.md.
# Which pages there are is known only then; man/list names them.

dist_doc_DATA = docs/tutorial.md docs/cxx.md docs/python.md docs/memory-model.md docs/running.md docs/security.md docs/cluster.md \
	docs/farm.md docs/slurm.md docs/examples.md docs/porting.md docs/trace.md docs/trace.schema.json docs/troubleshooting.md docs/timeline.svg

# For Japanese readers, and their man pages: docs/ja/*.7.pod.
jadocdir = $(docdir)/ja
dist_jadoc_DATA = docs/ja/tutorial.md docs/ja/manual.md docs/ja/examples.md \
	docs/ja/terms.md

# Programs to copy from, as they are.
examplesdir = $(docdir)/examples
example_files = cd $(srcdir)/examples && find . -name '*.[ch]' -o -name '*.cc' -o -name '*.py' -o -name '*.sbatch' | LC_ALL=C sort

man_sources = $(top_srcdir)/docs/mkman $(wildcard $(top_srcdir)/docs/lib/Man*.pm \
	$(top_srcdir)/docs/*.[17].pod $(top_srcdir)/docs/ja/*.7.pod $(top_srcdir)/include/*.h $(top_srcdir)/bin/*.in) \
	$(options_table) $(options_module)

all-local: man/list

man/list: $(man_sources)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(PERL) $(top_srcdir)/docs/mkman $(top_srcdir) $(@D)

install-data-local: man/list
	@while read page; do \
	  $(MKDIR_P) "$(DESTDIR)$(mandir)/$${page%/*}" && \
	  $(INSTALL_DATA) "man/$$page" "$(DESTDIR)$(mandir)/$$page" || exit 1; \
	done < man/list
	@for file in `$(example_files)`; do \
	  to="$(DESTDIR)$(examplesdir)/$${file#./}" && $(MKDIR_P) "$${to%/*}" && \
	  $(INSTALL_DATA) "$(srcdir)/examples/$$file" "$$to" || exit 1; \
	done

uninstall-local: man/list
	@while read page; do rm -f "$(DESTDIR)$(mandir)/$$page"; done < man/list
	@for file in `$(example_files)`; do rm -f "$(DESTDIR)$(examplesdir)/$$file"; done

CLEAN_DIRS += man
