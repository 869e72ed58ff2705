# python/local.mk - the module dmi for Python: the package python/dmi, and the extension module _dmi,
# which is linked with the shared libdmi.  Where it goes is found by configure (pythondir).
#
# In the build tree the package is in python/module; dmirun says so to Python by itself.

pydmidir = $(pythondir)/dmi
python_made =
if HAVE_PYTHON
python_sources = $(addprefix $(srcdir)/python/dmi/, \
	__init__.py \
	_errors.py \
	_farm.py \
	_memory.py \
	_pack.py \
	_program.py \
	_remote.py \
	_result.py \
	_status.py \
	_sync.py)
pydmi_DATA = $(python_sources)

# Its objects.  What they make is linked here and not by libtool, which cannot install it below
# another prefix than that of configure.
noinst_LTLIBRARIES = python/libpydmi.la
python_libpydmi_la_SOURCES = python/dmi_python.h python/farm.c python/memory.c python/module.c \
	python/place.c python/program.c python/remote.c python/sync.c
python_libpydmi_la_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CPPFLAGS)
python_libpydmi_la_LDFLAGS =
python_link = $(CC) -shared -pthread $(CFLAGS) $(DMI_SANITIZER_FLAGS) $(LDFLAGS) \
	-Wl,--whole-archive python/.libs/libpydmi.a -Wl,--no-whole-archive .libs/libdmi.so

python_made += python/module/dmi/made
python/module/dmi/made: $(python_sources) python/libpydmi.la libdmi.la
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)cp -f $(python_sources) $(@D) && \
	$(python_link) -Wl,-rpath,'$$ORIGIN/../../../.libs' -o $(@D)/_dmi.so && touch $@
CLEAN_DIRS += python/module

# The module finds the library from where it is itself, so an installed tree may be moved; below
# /usr the system does.
install-exec-local: $(python_made)
	$(MKDIR_P) "$(DESTDIR)$(pydmidir)"
	@rel=`$(PERL) -MFile::Spec -e 'print File::Spec->abs2rel(@ARGV)' $(libdir) $(pydmidir)`; \
	case '$(prefix)' in \
	  /usr) $(python_link) -o "$(DESTDIR)$(pydmidir)/_dmi.so" ;; \
	  *) $(python_link) -Wl,-rpath,'$$ORIGIN/'"$$rel" -o "$(DESTDIR)$(pydmidir)/_dmi.so" ;; \
	esac
endif

all-local: $(python_made)
