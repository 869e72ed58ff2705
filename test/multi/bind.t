#!/usr/bin/perl
# bind.t - dmirun --bind-threads, and the cores that a process tells of, under affinities.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/bind_dmi.c');

sub run { my ($command) = @_; local $SIG{CHLD} = 'DEFAULT'; return scalar `$command` }

# The processors that this test may use.
my ($list) = run("taskset -pc $$") =~ /: ([\d,-]+)\n/ or die "taskset: no list of processors\n";
my @all = map { /(\d+)-(\d+)/ ? $1 .. $2 : $_ } split /,/, $list;
if (grep { $_ > 61 } @all) {
  plan skip_all => 'the test program sees processors 0 to 61 only';
}

# Runs the program on these processors; returns cores, [processors of each thread], those of the
# one that came later.
sub on {
  my ($processors, $threads, @options) = @_;
  my $process = $t->spawn(
    ['taskset', '-c', join(',', @$processors), $t->build . '/bin/dmirun', -l => 0, @options, $program,
      $threads], name => "$threads threads on @$processors @options");
  my ($cores) = $process->expect_out(qr/^cores (\d+)$/m);
  my @threads = map { [split ' ', scalar $process->expect_out(qr/^thread $_: (.*)$/m)] }
    0 .. $threads - 1;
  my $again = [split ' ', scalar $process->expect_out(qr/^again 0: (.*)$/m)];
  $process->expect_out(qr/verdict bind: \d+ checks, 0 failed/);
  $process->wait_exit(0);
  return ($cores, \@threads, $again);
}

my ($cores, $threads) = on(\@all, 2);
ok($cores >= 1 && $cores <= @all, "cores: $cores of " . @all . ' processors');
is_deeply($threads, [(\@all) x 2], 'without --bind-threads they may run everywhere');

my $num = @all;
($cores, $threads) = on(\@all, $num, '--bind-threads');
is_deeply([map { scalar @$_ } @$threads], [(1) x $num], 'bound: each to one processor');
is_deeply([sort { $a <=> $b } map { @$_ } @$threads], \@all, 'as many as there are: each its own');
(undef, $threads, my $again) = on(\@all, 1, '--bind-threads');
is_deeply($again, $threads->[0], 'the place of a thread that has ended is taken again');

(undef, $threads) = on(\@all, 2 * $num, '--bind-threads');
my %load;
$load{$_->[0]}++ for @$threads;
is_deeply(\%load, { map { $_ => 2 } @all }, 'twice as many: two on each');

my $last = [$all[-1]];
($cores, $threads) = on($last, 3, '--bind-threads');
is($cores, 1, 'with an affinity of one processor there is one core');
is_deeply($threads, [($last) x 3], 'and nobody leaves it');
$t->done;
