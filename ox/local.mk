# ox/local.mk - ox_dmi, the ready server for OpenXM clients: see docs/openxm.md.

bin_PROGRAMS += bin/ox_dmi
bin_ox_dmi_SOURCES = ox/functions.c ox/functions.h ox/matrix.c ox/options.c ox/options.h ox/ox_dmi.c \
	ox/parts.c ox/parts.h ox/pool.c ox/pool.h ox/queens.c
bin_ox_dmi_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
bin_ox_dmi_LDADD = libdmiox.la libdmi.la $(OX_LIBS) $(DMI_LIBS)
bin_ox_dmi_LDFLAGS = -static
