#!/usr/bin/perl
# reduce.t - DMI_local_barrier_allreduce_op: all operations and types, by threads of three processes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $program = $t->compile('test/multi/reduce_dmi.c');
my @all = $t->start($program, args => [3]);
push @all, $t->start($program, join => $all[0]) for 2 .. 3;
$all[0]->expect_verdict('reduce', 2000, @all[1, 2]);
$t->done;
