#!/usr/bin/perl
# group.t - scattered reads and writes: values, one request a page, processes leaving and joining.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $program = $t->compile('test/multi/group_dmi.c');
my ($first, @others) = $t->start_changing($program);
$first->expect_verdict('group', 1000, @others);
$t->done;
