#!/bin/sh
# run-demo.sh - installs what the build needs, builds, and shows a program that grows and shrinks.
set -eu
cd "$(dirname "$0")"
. .ci/prepare
dmi_install_packages
dmi_build build
exec perl examples/demo build
