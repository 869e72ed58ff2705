#!/bin/sh
# run-demo.sh - installs what the build needs, builds, and shows a program that grows and shrinks.
# What only the tests need is not asked for.
set -eu
cd "$(dirname "$0")"
. .ci/prepare

# follow_build LOG PROCESS: says what a build does, by its log, as long as there is the process.
follow_build() {
  said=
  while sleep 3 && kill -0 "$2" 2> /dev/null; do
    count=$(grep -cE '^  (CC|CXX)  ' "$1" || :)
    if [ "$count" -gt 0 ]; then
      now="compiling: $((count / 25 * 25)) files are done"
    elif grep -q '^checking ' "$1"; then
      now=configuring
    else
      now='making configure'
    fi
    [ "$now" = "$said" ] || echo "  $now ..."
    said=$now
  done
}

# shellcheck disable=SC2086
dmi_install_packages $dmi_build_packages
echo 'building in build/ (a minute or so the first time; build/build.log has all of it) ...'
follow_build build/build.log $$ &
follower=$!
trap 'kill $follower' EXIT
dmi_build build
trap - EXIT
kill $follower
exec perl examples/demo build
