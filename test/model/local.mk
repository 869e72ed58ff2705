# test/model/local.mk - the exhaustive models (SPIN) of the page protocol, and of who goes on.
#
# Scripts test/model/*.t are found and run by the suite; they skip (exit 77) without spin.
# `make soak` makes model.t run all configurations (test/model/run --full).

EXTRA_DIST += \
	test/model/board.pml \
	test/model/configs \
	test/model/crash.h \
	test/model/dmi.pml \
	test/model/model.t \
	test/model/run \
	test/model/shm.pml \
	test/model/tests.h \
	test/model/view.pml
