#!/usr/bin/perl
# team_examples.t - the examples of teams: halo_dmi has the same digest as a sequential run, whatever
# the number of processes and ranks, also when they change while it runs; pipeline_dmi finds the
# primes, whatever the number of stages.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 900 : 110, wait => 100);
my $scale = $t->scale;

# Runs an example by so many processes; returns what the first one wrote.
sub run {
  my ($name, $processes, @args) = @_;
  my $program = $t->build . "/examples/${name}_dmi";
  my $first = $t->start($program, args => \@args, name => "$name @args");
  my @others = map { $t->start($program, join => $first, name => "$name @args, $_") } 2 .. $processes;
  $_->wait_exit(0) for $first, @others;
  like($first->out, qr/^correct$/m, "$name @args: correct");
  note($first->out);
  return $first->out;
}

# Two phases.  Rows and columns of ranks: 1 x 1, 1 x 3, 2 x 2, 2 x 3, 1 x 7.
my @shapes = $scale eq 'small' ? ([1, 1], [2, 2]) : ([1, 1], [1, 3], [2, 2], [3, 2], [1, 7]);
my ($n, $steps) = $scale eq 'soak' ? (400, 500) : (30, 40);
my %digest;
for my $shape (@shapes) {
  my ($processes, $ranks) = @$shape;
  my ($digest) = run('halo', $processes, $n, $steps, @$shape, $steps * 0.6) =~ /digest (\w{16})$/m;
  $digest{$digest // 'none'} = 1;
}
is(keys %digest, 1, 'halo: the same digest with each number of ranks');
run('halo', 1, 3, 5, 1, 3);

# Begun by two processes; one joins and two leave in the middle.
my ($side, $long) = @{ { small => [12, 4000], soak => [24, 60000] }->{$scale} // [16, 12000] };
my $halo = $t->build . '/examples/halo_dmi';
my @all = $t->start_in_order($halo, 2, args => [$side, $long, 2, 2, 20], name => 'halo changing');
my $go_on = sub { $all[0]->expect_out(qr/^$_[0] ranks go on after step (\d+)$/m) };
$go_on->(4);
push @all, $t->start($halo, join => $all[0], name => 'halo joiner');
my $joined = $go_on->(6);
$all[1]->signal('INT');
$all[1]->expect_event('left');
$all[0]->signal('INT'); # DMI_main goes on there
my $left = $go_on->(2);
cmp_ok($left, '>', $joined, "step $joined: one has joined; $left: two have left");
$_->wait_exit(0) for @all;
like($all[0]->out, qr/^correct$/m, 'halo changing: correct');

my $limit = { small => 50000, soak => 20000000 }->{$scale} // 300000;
my $wanted = { small => 5133, soak => 1270607 }->{$scale} // 25997;
for my $shape ($scale eq 'small' ? ([2, 2]) : ([1, 1], [1, 3], [2, 2], [3, 2])) {
  like(run('pipeline', $shape->[0], $limit, @$shape), qr/^$wanted primes below $limit by /m, "$wanted primes");
}
run('pipeline', 2, 1, 2, 1); # there is none
run('pipeline', 2, 3, 2, 2); # one; stages without small primes
$t->done;
