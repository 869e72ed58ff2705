#!/usr/bin/perl
# damage.t - objects in global memory with wrong bytes in them: every call ends, with DMI_EINVAL where
# it can be seen, and nothing is read or written beyond its place (the build with the address sanitizer
# tells).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $one = $t->start($t->compile('test/multi/damage_dmi.c'));
$one->expect_verdict('damage', 500);
$t->done;
