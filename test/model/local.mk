# test/model/local.mk - the exhaustive model (SPIN) of the page protocol.
#
# Scripts test/model/*.t are found and run by the suite; they skip (exit 77) without spin.
# `make soak` makes model.t run all configurations (test/model/run --full).

EXTRA_DIST += \
	test/model/configs \
	test/model/dmi.pml \
	test/model/model.t \
	test/model/run \
	test/model/tests.h
