# test/bench/local.mk - measurements, for `make bench`.
#
# List C programs in EXTRA_PROGRAMS (built only when asked for) and in BENCH_TARGETS the phony
# target that builds and runs them.
