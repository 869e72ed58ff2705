#!/usr/bin/perl
# team.t - teams: messages of all sizes in order, any source, collective calls with each root,
# resets at random times, other sizes; ranks in one process, in several, and several in each.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120);
my $program = $t->compile('test/multi/team_dmi.c');

for my $case ([1, 1], [1, 2], [2, 2], [2, 5], [3, 8]) {
  my ($processes, $ranks) = @$case;
  my $first = $t->start($program, args => [$processes, $ranks]);
  my @others = map { $t->start($program, join => $first) } 2 .. $processes;
  $first->expect_verdict('team', $ranks * 100, @others);
  note("$ranks ranks, $processes processes: ", $first->out =~ /^(verdict .*)$/m);
}
$t->done;
