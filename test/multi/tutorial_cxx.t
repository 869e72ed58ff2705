#!/usr/bin/perl
# tutorial_cxx.t - does docs/cxx.md tell the truth?  Compiles its programs, and acts out its terminals: see
# tutorial.t.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use FindBin;

$ENV{DMI_TUTORIAL} = "$FindBin::Bin/../../docs/cxx.md";
do "$FindBin::Bin/tutorial.t" or die $@ || $!;
