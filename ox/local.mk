# ox/local.mk - ox_dmi, the ready server for OpenXM clients: see docs/openxm.md.

bin_PROGRAMS += bin/ox_dmi
bin_ox_dmi_SOURCES = ox/functions.c ox/functions.h ox/ox_dmi.c
bin_ox_dmi_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
bin_ox_dmi_LDADD = libdmiox.la $(OX_LIBS)
