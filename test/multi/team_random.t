#!/usr/bin/perl
# team_random.t - random programs of a team get at each rank what an oracle says: sends, receives,
# receives from anyone, collective calls and resets of 2 to 8 ranks, while processes join, leave and
# are killed, and ranks move from one process to another.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($rounds, $programs, $kills) =
  $scale eq 'small' ? (4, 3, 1) : $scale eq 'soak' ? (500, 10, 20) : (20, 5, 2);
my $seed = $ENV{DMI_TEST_SEED} // 1;
my $t = DMITest->new($scale eq 'soak' ? (timeout => 1800, wait => 900) : (timeout => 120, wait => 60));
my $program = $t->compile('test/multi/team_random_dmi.c');

# A round begins from now on.
sub next_round {
  my ($first) = @_;
  my $rounds = () = $first->out =~ /^round /mg;
  $t->wait_until(sub { (() = $first->out =~ /^round /mg) > $rounds }, 'the next round');
}

# Six join, one after the other, and two leave.
{
  my $first = $t->start($program, args => [$seed, $rounds, $programs, 2, 6, 2, 0], name => 'first');
  my @others = $t->start($program, join => $first, name => 'second');
  for my $i (1 .. 6) {
    next_round($first);
    push @others, $t->start($program, join => $first, name => "joins $i");
    $others[-1]->expect_event('opened');
  }
  for my $i (1 .. 2) {
    next_round($first);
    $others[$i]->signal('INT');
    $first->expect_out(qr/^left $i$/m);
    $others[$i]->wait_exit(0);
  }
  $first->expect_verdict('team_random', 500, @others[0, 3 .. 6]);
  note($programs * (() = $first->out =~ /^round /mg) . ' programs');
}

# Some are killed in the middle of a round, and others join.
if (!$t->nodes) {
  my @survive = (opts => ['--survive', '--dead-after', 10]);
  my $first = $t->start($program,
    args => [$seed + 1, $rounds, $programs, 4, $kills, 0, $kills], @survive, name => 'survives');
  my @others = map { $t->start($program, join => $first, name => "more $_") } 1 .. 3;
  for my $i (1 .. $kills) {
    next_round($first);
    my $killed = shift @others;
    $killed->kill_now;
    $killed->wait_exit(signal => 'KILL');
    $first->expect_out(qr/^lost $i$/m);
    push @others, $t->start($program, join => $first, name => "comes $i");
    $others[-1]->expect_event('opened');
  }
  $first->expect_verdict('team_random', 500, @others);
  note($programs * (() = $first->out =~ /^round /mg) . ' programs');
}
$t->done;
