#!/usr/bin/perl
# npb.t - the NAS Parallel Benchmarks in examples/ verify, whatever the number of processes.
#
#   npb.t [name ...]         only these: ep
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 1800 : 110, wait => 300);

# Benchmark and class by so many processes.
my %runs = (
  small => [['ep', 'S', 2]],
  '' => [['ep', 'S', 1], ['ep', 'S', 4], ['ep', 'W', 2]],
  soak => [
    map { my $name = $_; map { my $class = $_; map { [$name, $class, $_] } 1, 2, 4 } qw(S W A) }
      qw(ep)
  ]);

for my $run (@{ $runs{ $t->scale } }) {
  my ($name, $class, $processes) = @$run;
  next if @ARGV && !grep { $_ eq $name } @ARGV;
  my $title = "$name $class by $processes";
  my $program = $t->build . "/examples/${name}_dmi";
  my $first = $t->start($program, args => [$class, $processes], name => $title);
  my @others = map { $t->start($program, join => $first, name => "$title, $_") } 2 .. $processes;
  $first->expect_out(qr/^Class\s+= $class$/m);
  my ($seconds) = $first->expect_out(qr/^Time in seconds = ([\d.]+)$/m);
  my ($mops) = $first->expect_out(qr/^Mop\/s total\s+= ([\d.]+)$/m);
  $first->expect_out(qr/^Verification\s+= VERIFICATION SUCCESSFUL$/m);
  note("$title: $seconds s, $mops Mop/s");
  $_->wait_exit(0) for $first, @others;
}
$t->done;
