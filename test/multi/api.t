#!/usr/bin/perl
# api.t - every call of the memory chapters, by one process and by three, every value checked.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 55, wait => 50);
my $program = $t->compile('test/multi/api_dmi.c');

for my $processes (1, 3) {
  my $first = $t->start($program, args => [$processes, 1 << 30], opts => [-s => '1G']);
  my @others = map { $t->start($program, join => $first, opts => [-s => '1G']) } 2 .. $processes;
  $first->expect_verdict('api', 3000, @others);
}
$t->done;
