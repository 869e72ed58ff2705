#!/usr/bin/perl
# npb.t - the NAS Parallel Benchmarks in examples/ verify, whatever the number of processes.
#
#   npb.t [name ...]         only these: ep, cg, is
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 1800 : 110, wait => 300);

# Benchmark and class by so many processes, with so many threads each (none: a thread per core).
my %runs = (
  nodes => [['is', 'S', 2]],
  small => [['ep', 'S', 2], ['cg', 'S', 2, 1], ['is', 'S', 2]],
  '' => [
    ['ep', 'S', 1], ['ep', 'S', 4], ['ep', 'W', 2],
    ['cg', 'S', 1], ['cg', 'S', 4, 1], ['cg', 'W', 2, 1],
    ['is', 'S', 1], ['is', 'S', 4], ['is', 'W', 2], ['is', 'A', 2]
  ],
  soak => [
    map { my $name = $_; map { my $class = $_; map { [$name, $class, $_] } 1, 2, 4 } qw(S W A) }
      qw(ep cg is)
  ]);

for my $run (@{ $runs{ $t->nodes ? 'nodes' : $t->scale } }) {
  my ($name, $class, $processes, @threads) = @$run;
  next if @ARGV && !grep { $_ eq $name } @ARGV;
  my $title = join ' x ', "$name $class by $processes", @threads;
  my $program = $t->build . "/examples/${name}_dmi";
  my $first = $t->start($program, args => [$class, $processes, @threads], name => $title);
  my @others = map { $t->start($program, join => $first, name => "$title, $_") } 2 .. $processes;
  $first->expect_out(qr/^Class\s+= $class$/m);
  my ($seconds) = $first->expect_out(qr/^Time in seconds = ([\d.]+)$/m);
  my ($mops) = $first->expect_out(qr/^Mop\/s total\s+= ([\d.]+)$/m);
  $first->expect_out(qr/^Verification\s+= VERIFICATION SUCCESSFUL$/m);
  note("$title: $seconds s, $mops Mop/s");
  $_->wait_exit(0) for $first, @others;
}

# IS lets processes in and out between two iterations.  Both that began leave, and the work waits
# until another one joins.
if (!@ARGV || grep { $_ eq 'is' } @ARGV) {
  my $program = $t->build . '/examples/is_dmi';
  my $class = $t->scale eq 'small' ? 'W' : 'A';
  my $first = $t->start($program, args => [$class, 2], name => 'is 1');
  my $second = $t->start($program, join => $first, name => 'is 2');
  $_->expect_event('opened') for $first, $second;
  $_->running && $_->signal('INT') for $first, $second;
  # Nobody waits if the signals came too late, after the last iteration: then this proves less.
  my ($line) = $first->expect_out(qr/^(waiting for a process|Class)/m);
  my @all = ($first, $second);
  if ($line eq 'Class') {
    diag('is was too fast to be left');
  } else {
    $second->expect_event('left');
    push @all, $t->start($program, join => $first, name => 'is 3');
  }
  $first->expect_out(qr/^Verification\s+= VERIFICATION SUCCESSFUL$/m);
  $_->wait_exit(0) for @all;
}

# The same with so little memory that the second process cannot go: its pages find no memory.  Nobody
# ends for that; when a third one brings memory, the second leaves by itself.
if (!@ARGV || grep { $_ eq 'is' } @ARGV) {
  my $program = $t->build . '/examples/is_dmi';
  my ($class, $pool) = $t->scale eq 'small' ? ('W', '3M') : ('A', '26M');
  my @all = $t->start($program, args => [$class, 2, 1], name => 'full 1', opts => [-s => $pool]);
  push @all, $t->start($program, join => $all[0], name => 'full 2', opts => [-s => $pool]);
  $_->expect_event('opened') for @all;
  $_->running && $_->signal('INT') for @all;
  my ($line) = $all[0]->expect_out(qr/^(waiting for a process|Class)/m);
  if ($line eq 'Class') {
    diag('is was too fast to be left');
  } else {
    $all[1]->expect_err(qr/^dmi: waiting for memory: .*$/m);
    is(scalar $all[1]->events('left'), 0, 'no memory for its pages: it has not left');
    ok($_->running, $_->name . ' has not ended') for @all;
    push @all, $t->start($program, join => $all[0], name => 'full 3');
    $all[1]->expect_event('left');
    is(() = $all[1]->err =~ /^dmi: waiting for memory/mg, 1, 'it said once why it was still there');
  }
  $all[0]->expect_out(qr/^Verification\s+= VERIFICATION SUCCESSFUL$/m);
  $_->wait_exit(0) for @all;
}
$t->done;
