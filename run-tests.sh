#!/bin/sh
# run-tests.sh - installs what the build needs, builds, and runs every test.
#
#   ./run-tests.sh [--quick]
#
# Three builds: plain in build/ (some tests once more by TCP), with the address and undefined
# sanitizers in build-asan/, with the thread sanitizer in build-tsan/; and make distcheck.  --quick
# is the first alone, once.  The last line counts the tests of all of them.  Exit status 0 if none
# failed.
set -u
cd "$(dirname "$0")" || exit 1
. .ci/prepare

quick=
case ${1-} in
  '') ;;
  --quick) quick=1 ;;
  *) echo "usage: ./run-tests.sh [--quick]" >&2; exit 2 ;;
esac

passed=0
failed=0
skipped=0
ahead= # what builds for a later suite
log=$(mktemp) || exit 1
trap 'rm -f "$log"; [ -z "$ahead" ] || kill -s KILL -- "-$ahead"' EXIT
trap 'exit 1' INT TERM HUP

# suite NAME DIR [pattern ...]: runs the suite of a build and adds up its last line.
suite() {
  echo "== $1"
  shift
  # The status of test/run is in its counts: a last line that is none counts as one failure.
  $no_randomization perl test/run "$@" > "$log" 2>&1
  sed '$d' "$log"
  counts=$(tail -n 1 "$log" | sed -n \
    's/^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)\{0,1\}$/\1 \2 \4/p')
  if [ -z "$counts" ]; then
    tail -n 1 "$log"
    counts='0 1'
  fi
  set -- $counts
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + ${3:-0}))
}

finish() {
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [ "$failed" -eq 0 ]
  exit
}

# A build that fails counts as one failed test.
built() {
  dmi_build "$@" && return
  failed=$((failed + 1))
  return 1
}

# build_ahead DIR [configure options]: begins to build for a later suite, with what the tests of this one leave of
# the processors: these often wait.  await_ahead comes before `built`, which says what failed.
build_ahead() {
  # shellcheck disable=SC2016
  dmi_installed=$dmi_installed setsid nice -n 19 sh -c 'installed=$dmi_installed; . .ci/prepare
    dmi_installed=$installed; dmi_build "$@" && make -j2 -C "$1" check-programs' build_ahead "$@" > /dev/null 2>&1 &
  ahead=$!
}

await_ahead() {
  [ -z "$ahead" ] || wait "$ahead"
  ahead=
}

# Is what `make dist` packs complete?  One more test, which has its own few tests.
distcheck() {
  echo '== make distcheck'
  if make -j2 -C build distcheck > build/distcheck.log 2>&1; then
    passed=$((passed + 1))
  else
    echo 'make distcheck failed:'
    grep -B 2 -A 20 -E '^failed|^ERROR|\*\*\*' build/distcheck.log | head -n 60
    failed=$((failed + 1))
  fi
}

by_tcp='multi/api.t multi/churn.t multi/history.t multi/litmus.t multi/lost.t multi/pressure.t
  multi/remote.t multi/stopped.t multi/survive.t multi/team.t multi/tree.t'

no_randomization=
# shellcheck disable=SC2086
if ! dmi_install_packages $dmi_build_packages $dmi_test_packages; then
  failed=1
  finish
fi
# Deadlines are for quiet machines; a suite that nobody watches has time.
export DMI_TEST_SLOW=4
# Sanitizers: programs link the static library, and who links the shared one (Python) is not tested with them: half
# as much to compile.
asan='build-asan --enable-werror --disable-shared --enable-sanitizer=address,undefined'
tsan='build-tsan --enable-werror --disable-shared --enable-sanitizer=thread'
if built build --enable-werror; then
  # shellcheck disable=SC2086
  [ -n "$quick" ] || build_ahead $asan
  suite 'plain' build
  # Processes of one host talk by shared memory; what depends on how they do, once more by TCP.
  if [ -z "$quick" ]; then
    export DMI_NO_SHM=1
    # shellcheck disable=SC2086
    suite 'plain, by TCP' build $by_tcp
    unset DMI_NO_SHM
  fi
fi
[ -z "$quick" ] || finish
distcheck

# Sanitizers make everything several times slower: fewer rounds, longer deadlines.
export DMI_TEST_SCALE=small DMI_TEST_SLOW=8
await_ahead
# shellcheck disable=SC2086
if built $asan; then
  build_ahead $tsan
  suite 'address and undefined sanitizers' build-asan test/unit test/sim test/nodes test/multi test/fuzz
fi

# The thread sanitizer of older compilers does not run where addresses are randomized too widely.
if setarch -R true 2> /dev/null; then no_randomization='setarch -R'; fi
await_ahead
# shellcheck disable=SC2086
built $tsan &&
  suite 'thread sanitizer' build-tsan test/unit test/nodes test/multi
finish
