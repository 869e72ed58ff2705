#!/usr/bin/perl
# spmd.t - the examples that run as a fixed team of threads give the right results, whatever the
# number of processes and threads: jacobi_dmi, matmat_dmi, swap_dmi,
# remoteswap_dmi, sync_dmi; jacobi_dmi also when processes are killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 1800 : 110, wait => 300);
my $scale = $t->scale;

# Runs an example by so many processes; returns what the first one wrote.
sub run {
  my ($name, $processes, @args) = @_;
  my $program = $t->build . "/examples/${name}_dmi";
  my $first = $t->start($program, args => \@args, name => "$name @args");
  my @others = map { $t->start($program, join => $first, name => "$name @args, $_") }
    2 .. $processes;
  $_->wait_exit(0) for $first, @others;
  like($first->out, qr/^correct$/m, "$name @args: correct");
  note($first->out);
  return $first->out;
}

my @shapes = $scale eq 'small' ? ([2, 2]) : ([1, 1], [1, 3], [2, 1], [3, 2], [4, 1]);
for my $shape (@shapes) {
  my ($num) = @$shape;
  my $out = run('jacobi', $num, $scale eq 'soak' ? (200, 100) : (24, 30), @$shape);
  # The same to the last digit shown: it does not depend on who computed what.
  my ($change) = $out =~ /last change (\S+)$/m;
  is($change, '2.553297e-02', "jacobi @$shape: the change") if $scale ne 'soak';
  run('matmat', $num, @$shape, 60);
  run('remoteswap', $num, $scale eq 'soak' ? 200 : 9, @$shape);
  run('swap', $num, $scale eq 'soak' ? 1000 : 20, @$shape);
  run('sync', $num, { soak => 5000, small => 10 }->{$scale} // 50, @$shape);
}
# More threads than planes; one plane, one iteration.
run('jacobi', 2, 3, 7, 2, 3);
run('jacobi', 1, 1, 1, 1, 1);

# One process of three is killed, and then another one: those that are left begin anew.
sub killed {
  my ($n, $iterations, @every) = @_;
  my $program = $t->build . '/examples/jacobi_dmi';
  my $first = $t->start($program, args => [$n, $iterations, 3, 2, @every], name => 'killed 1',
    opts => ['--survive', '--dead-after', 10]);
  my @others = map { $t->start($program, join => $first, name => "killed $_") } 2, 3;
  $first->expect_out(qr/^6 threads begin after iteration 0$/m);
  my $left = 6;
  for my $victim (@others) {
    $first->expect_out(qr/^saved after \d+ iterations\n(?:saved.*\n){2}/m) if @every;
    $victim->kill_now;
    $victim->wait_exit(signal => 'KILL');
    $left -= 2;
    my ($after) = $first->expect_out(qr/^$left threads begin after iteration (\d+), as a process was lost$/m);
    cmp_ok($after, @every ? '>' : '==', 0, "$left threads go on after iteration $after");
  }
  $first->wait_exit(0);
  like($first->out, qr/^correct$/m, 'correct, although two were killed');
}
my $work = { soak => 50, small => 1 }->{$scale} // 4;
if (!$t->nodes) {    # one node among several in a process cannot be killed
  killed(12, 10000 * $work, 20);
  killed(12, 2000 * $work);
}
$t->done;
