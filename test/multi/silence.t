#!/usr/bin/perl
# silence.t - a cable is cut between two hosts (network namespaces): within about --dead-after each
# process says by name which one it has lost, whether it waits without a word or data is in flight.
# A shorter cut is survived.  And: hosts that have only link-local addresses for each other.
# Mostly waits: until somebody is missed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMICluster;
use Time::HiRes qw(time);

if (my $why = DMICluster::missing()) { plan(skip_all => $why) }

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/stopped_dmi.c');
my $cluster = DMICluster->with_networks($t, hosts => 3);

my $dmirun = $t->build . '/bin/dmirun';

sub start {
  my ($host, $name, $opts, @args) = @_;
  return $t->spawn([$cluster->on($host, $dmirun, -l => 0, @$opts, $program, @args)], name => $name);
}

sub begin {
  my ($after, $what, $host) = @_;
  my @opts = ('--dead-after', $after);
  my $first = start('h1', "$what, first", \@opts, $what);
  my $second = start($host, "$what, second",
    [-i => $cluster->address('h1'), -p => $first->port, @opts]);
  return ($first, $second);
}

# Joining by a link-local address.
{
  my $first = start('h1', 'first of fe80', [], 'meet');
  my ($address) = `@{[join ' ', $cluster->on('h1', qw(ip -6 addr show dev eth0 scope link))]}`
    =~ m{inet6 (fe80\S+)/};
  if (defined $address) {
    my $joiner = start('h2', 'joiner', [-i => "$address%eth0", -p => $first->port]);
    $joiner->expect_err(qr/^dmi: \Q$address\E%eth0 is a link-local address, .*fd00::/m);
    $joiner->wait_exit(1);
  } else {
    note('no IPv6 here');
  }
  $first->signal('KILL');
  $first->wait_exit(signal => 'KILL');
}

# A short cut.
{
  my ($first, $second) = begin(30, 'stream', 'h2');
  $first->expect_out(qr/^streaming$/m);
  $cluster->cut('h2');
  my $line = qr/^dmi: waiting for process \d \(h\d, pid \d+\) since [\d:]+ UTC: it does not answer; /m;
  # The one that has the page goes on.
  my $waits = $t->wait_until(sub { (grep { $_->err =~ $line } $first, $second)[0] }, 'one waits');
  $cluster->mend('h2');
  $waits->expect_err(qr/^dmi: process \d \(h\d\) answers again$/m);
  $first->signal('KILL');
  $first->wait_exit(signal => 'KILL');
  $second->wait_exit(1);    # as it has lost the first
}

for my $case ([meet => 'h2', qr/^waiting$/m], [stream => 'h3', qr/^streaming$/m]) {
  my ($what, $host, $ready) = @$case;
  my $after = 4;
  my ($first, $second) = begin($after, $what, $host);
  $first->expect_out($ready);
  my $cut = time;
  $cluster->cut($host);
  my %took;
  my @left = ([$first, "process 1 \\($host\\)"], [$second, 'process 0 \(h1\)']);
  for my $case (@left) {
    my ($process, $other) = @$case;
    $process->expect_err(
      qr/^dmi: lost $other: (?:its machine has been silent for $after s \(dmirun --dead-after\)|nothing was heard of it for [\d.]+ s \(--dead-after\)); /m);
    $took{ $process->name } = time - $cut;
    $process->wait_exit(1);
  }
  # Not sooner (a second before the cut something had come), nor for ever: machines may be busy.
  for my $name (sort keys %took) {
    note(sprintf '%s: lost %.1f s after the cut', $name, $took{$name});
    cmp_ok($took{$name}, '>', $after - 1.5, "$name: not before its time");
    cmp_ok($took{$name}, '<', 3 * $after + 5, "$name: soon after it");
  }
  $cluster->mend($host);
}

# One way only: each of the two ends by name all the same, and neither hangs.
for my $way (['h1', 'h2'], ['h2', 'h1']) {
  my ($first, $second) = begin(4, 'meet', 'h2');
  $first->expect_out(qr/^waiting$/m);
  $cluster->cut_way(@$way);
  $_->expect_err(qr/^dmi: lost process \d \(h\d\): /m) for $first, $second;
  $_->wait_exit(1) for $first, $second;
  $cluster->mend_way(@$way);
}

# One way only, and healed: nobody is lost.
{
  my ($first, $second) = begin(20, 'meet', 'h2');
  $first->expect_out(qr/^waiting$/m);
  $cluster->cut_way('h2', 'h1');
  $first->expect_err(qr/^dmi: waiting for process 1 \(h2, pid \d+\) since /m);
  $cluster->mend_way('h2', 'h1');
  $first->expect_err(qr/^dmi: process 1 \(h2\) answers again$/m);
  $t->kill_together($first, $second);
}

$cluster->stop;
$t->done;
