#!/usr/bin/perl
# team_lost.t - a process with a rank of a team is killed: who waits for it gets DMI_ELOST, and the
# others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/team_lost_dmi.c');
my $first = $t->start($program, opts => ['--survive', '--dead-after', 10]);
my @others;
for (2 .. 3) { # in this order they get their ranks
  push @others, $t->start($program, join => $first);
  $others[-1]->expect_err(qr/=== opened ===/);
}
$first->expect_out(qr/^kill$/m);
$others[1]->signal('KILL');
$others[1]->wait_exit(signal => 'KILL');
$first->expect_verdict('team_lost', 20, $others[0]);
$t->done;
