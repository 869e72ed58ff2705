#!/usr/bin/perl
# tutorial_cxx.t - does docs/cxx.md tell the truth?  Compiles its programs, and acts out its terminals: see
# tutorial.t.
use strict;
use warnings;
use FindBin;

$ENV{DMI_TUTORIAL} = "$FindBin::Bin/../../docs/cxx.md";
do "$FindBin::Bin/tutorial.t" or die $@ || $!;
