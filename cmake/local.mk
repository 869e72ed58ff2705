# cmake/local.mk - find_package(DMI) of CMake: what it includes, and its version.
#
# Directories are written relative to where these files are installed, so that an installed tree may
# be moved.  The libraries of others become lists.

cmakedir = $(libdir)/cmake/DMI
cmake_made = cmake/DMIConfig.cmake cmake/DMIConfigVersion.cmake
cmake_DATA = $(cmake_made)
CLEANFILES += $(cmake_made)
EXTRA_DIST += $(addsuffix .in,$(cmake_made))

as_list = `echo '$(1)' | sed 's/^ *//; s/  */;/g'`

$(cmake_made): %: $(top_srcdir)/%.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)relative() { $(PERL) -MFile::Spec -e 'print File::Spec->abs2rel(@ARGV)' "$$1" '$(cmakedir)'; }; \
	sed -e 's|@VERSION[@]|$(VERSION)|g' \
	  -e "s|@REL_INCLUDEDIR[@]|`relative '$(includedir)'`|g" \
	  -e "s|@REL_LIBDIR[@]|`relative '$(libdir)'`|g" \
	  -e "s|@REL_STARTDIR[@]|`relative '$(startdir)'`|g" \
	  -e "s|@REL_BINDIR[@]|`relative '$(bindir)'`|g" \
	  -e "s|@SHARED_NAME[@]|`. ./libdmi.la; echo $$dlname`|g" \
	  -e "s|@DMI_LIBS[@]|$(call as_list,$(DMI_LIBS))|g" \
	  -e "s|@OX_LIBS[@]|$(call as_list,$(OX_LIBS))|g" \
	  -e "s|@DMI_SANITIZER_FLAGS[@]|$(call as_list,$(DMI_SANITIZER_FLAGS))|g" \
	  -e 's|@POINTER_BYTES[@]|$(POINTER_BYTES)|g' \
	  $< > $@.tmp && mv $@.tmp $@
$(cmake_made): libdmi.la
