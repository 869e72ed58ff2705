#!/usr/bin/perl
# nodes.t - scripts of test/multi once more, with nodes of one OS process in place of processes, over
# a network in memory (test/multi/lib/DMINodes.pm): everything that they expect must come true.
#
# Two run at a time.  Each is one test here; what a script that fails has written is shown.  With
# DMI_TEST_SCALE=small (sanitizers) only those run that differ most from what processes do.
#
#   nodes.t [NAME ...]         only these scripts
#   DMI_TEST_NODES=tcp         over loopback
#
# Takes long: nearly thirty scripts.
use strict;
use warnings;
use FindBin;
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(time);

my @scripts = qw(api badinput churn damage end events farm group guests heat history huge litmus malloc
  npb pause pressure remote remote_examples rwset spmd suspend sync team team_random threads told tree);
@scripts = qw(api badinput churn damage end group guests history litmus pause pressure rwset spmd suspend
  sync team tree) if ($ENV{DMI_TEST_SCALE} // '') eq 'small';
@scripts = @ARGV if @ARGV;

# Quick forms: the programs in processes do the long ones.
$ENV{DMI_TEST_NODES} //= 'memory';
$ENV{DMI_TEST_SCALE} = 'small' if ($ENV{DMI_TEST_SCALE} // '') ne 'soak';

my $cpu = 0;
my %runs;    # pid => [name, what it prints, since when]

sub begin {
  my ($name) = @_;
  my $pid = open my $out, '-|';
  defined $pid or die "no process: $!\n";
  if (!$pid) {
    open STDERR, '>&', \*STDOUT;
    exec $^X, "$FindBin::Bin/../multi/$name.t" or POSIX::_exit(127);
  }
  $runs{$pid} = [$name, $out, time, ''];
}

# Reads what they print until one has ended, and judges that one.
sub finish_one {
  while (1) {
    my $bits = '';
    vec($bits, fileno $_->[1], 1) = 1 for values %runs;
    select my $ready = $bits, undef, undef, undef;
    for my $pid (keys %runs) {
      my ($name, $out, $since) = @{ $runs{$pid} };
      next if !vec $ready, fileno $out, 1;
      next if sysread $out, $runs{$pid}[3], 65536, length $runs{$pid}[3];
      my $text = $runs{$pid}[3];
      my ($before, $after);
      $before += $_ for (times)[2, 3];
      close $out;    # waits for it
      my $status = $?;
      $after += $_ for (times)[2, 3];
      $cpu += $after - $before;
      my $checks = () = $text =~ /^ok \d+/mg;
      ok($status == 0 && $text =~ /^1\.\.[1-9]/m && $text !~ /^not ok/m && $checks > 2,
        sprintf "$name: as nodes of one process (%d checks)", $checks)
        or diag("status $status\n", $text =~ s/^ok .*\n//mgr);
      note(sprintf '%.1f s, %.1f of processors', time - $since, $after - $before);
      delete $runs{$pid};
      return;
    }
  }
}

my $from = time;
for my $name (@scripts) {
  finish_one() if keys %runs == 2;
  begin($name);
}
finish_one() while %runs;
note(sprintf '%d scripts in %.1f s, %.1f s of processors', scalar @scripts, time - $from, $cpu);
done_testing();
