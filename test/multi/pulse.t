#!/usr/bin/perl
# pulse.t - a process from which nothing comes for --dead-after ends the program, by name; one whose
# daemon is busy for as long does not, nor one that is silent for a shorter time.
# Mostly waits: until somebody is missed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use Time::HiRes qw(time);

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/pulse_dmi.c');

# (the first, the second, the first one's stdin)
sub begin {
  my ($after) = @_;
  pipe my $reader, my $in or die;
  my @opts = (opts => ['--dead-after', $after]);
  my $first = $t->start($program, @opts, stdin => $reader, name => "first, $after s");
  my $second = $t->start($program, @opts, join => $first, name => "second, $after s");
  $first->expect_out(qr/^in 1$/m);    # it was welcomed: without it the program cannot go on
  return ($first, $second, $in);
}

# Silent for too long: a member, and the coordinator.
for my $silent (1, 0) {
  my $after = 2;
  my ($first, $second, $in) = begin($after);
  my ($lost, $left) = $silent ? ($second, $first) : ($first, $second);
  my $from = time;
  $lost->stop;
  my $name = qr/process $silent \(\S+\)/;
  my $line = qr/^dmi: waiting for process $silent \(\S+, pid \d+\) since [\d:]+ UTC: it does not answer; it is lost when it is silent for $after s \(dmirun --dead-after\)$/m;
  $left->expect_err($line);
  $left->expect_err(qr/^dmi: lost $name: nothing was heard of it for \d+\.\d s \(--dead-after\); this ends the program/m);
  my $took = time - $from;
  note(sprintf 'lost after %.1f s', $took);
  cmp_ok($took, '>', $after - 0.5, 'not before its time');
  is(() = $left->err =~ /waiting for/g, 1, 'said once that it waits');
  $left->wait_exit(1);
  $lost->signal('CONT');    # it learns that it was lost
  $lost->expect_err(qr/^dmi: lost process \d+ \(.*; this process itself stood still for \d+\.\d s, so the others may have lost it first \(--dead-after; was it stopped\?\); this ends the program in all processes$/m);
  $lost->wait_exit(1);
}

# kill -9: all know of it soon.
{
  my ($first, $second, $in) = begin(60);
  my @more;
  for my $id (2, 3) {
    push @more, $t->start($program, opts => ['--dead-after', 60], join => $first, name => "process $id");
    $first->expect_out(qr/^in $id$/m);
  }
  my $killed = time;
  $more[1]->kill_now;
  for my $process ($first, $second, $more[0]) {
    $process->expect_err(qr/^dmi: lost process 3 \(\S+\): /m);
    my ($event) = $process->events('error');
    note(sprintf '%s: after %.0f ms', $process->name, 1000 * ($event->{time} - $killed));
    cmp_ok($event->{time} - $killed, '<', 5, $process->name . ' knows it');
    $process->wait_exit(1);
  }
}

# For a shorter time.
{
  my ($first, $second, $in) = begin(20);
  $second->stop;
  $first->expect_err(qr/^dmi: waiting for process 1 /m);
  $second->signal('CONT');
  $first->expect_err(qr/^dmi: process 1 \(\S+\) answers again$/m);
  close $in;
  $_->wait_exit(0) for $first, $second;
  unlike($_->err, qr/^dmi: lost/m, $_->name . ' lost nobody') for $first, $second;
}

# Daemons that are busy for three times as long.
{
  my $first = $t->start($program, args => ['busy', 3000], opts => ['--dead-after', 1], name => 'busy first');
  my $second = $t->start($program, join => $first, name => 'busy second');
  $first->expect_verdict('pulse', 1, $second);
  unlike($_->err, qr/lost|waiting/, $_->name . ' misses nobody') for $first, $second;
}
$t->done;
