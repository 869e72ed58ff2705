#!/usr/bin/perl
# rwset.t - read-write-sets: values, one request a neighbour, wrong sets, domains that move to another
# process, while one leaves and another joins.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $program = $t->compile('test/multi/rwset_dmi.c');
my ($first, @others) = $t->start_changing($program);
$first->expect_verdict('rwset', $t->nodes ? 100 : 200, @others);
$t->done;
