#!/bin/sh
# run-demo.sh - installs what the build needs, builds, and shows a program that grows and shrinks.
# What only the tests need is not asked for.
set -eu
cd "$(dirname "$0")"
. .ci/prepare
# shellcheck disable=SC2086
dmi_install_packages $dmi_build_packages
echo 'building in build/ (a minute or so the first time) ...'
dmi_build build
exec perl examples/demo build
