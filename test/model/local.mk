# test/model/local.mk - the exhaustive model (SPIN) of the page protocol.
#
# Scripts test/model/*.t are found and run by the suite; they skip (exit 77) without spin.
# Anything that must be compiled is listed as in test/sim/local.mk.
