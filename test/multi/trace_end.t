#!/usr/bin/perl
# trace_end.t - dmirun --trace when another process is slow to tell its last events: the one with the file
# waits for them; but not if that process is killed meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMITrace;

my $CALLS = 50;    # of trace_end_dmi.c
my $t = DMITest->new(timeout => 100, wait => 40);
my $program = $t->compile('test/multi/trace_end_dmi.c', flags => ['-Wl,--wrap=syscall']);

# Until the first process waits for the second one, which does not tell its last events before its stdin ends.
sub ends {
  my ($name) = @_;
  my $file = $t->dir . "/$name.json";
  pipe my $in, my $out or die $!;
  my $first = $t->start($program, opts => ['--trace', $file], name => "$name, first");
  my $second = $t->start($program, join => $first, stdin => $in, name => "$name, second");
  close $in;
  $first->expect_out(qr/^made $CALLS$/m);
  $first->expect_err(qr/the trace waits for the last events of process 1 /);
  return ($file, $first, $second, $out);
}

# How many calls of the second process that waited for a page are in the trace.
sub calls {
  my ($file) = @_;
  my $events = DMITrace::read_trace($file);
  is(scalar(grep { !/arrow/ } DMITrace::faults($events)), 0, 'the trace is valid');
  return scalar grep { $_->{ph} eq 'X' && $_->{name} eq 'DMI_fad' && $_->{pid} != 1 && $_->{args}{waits} eq 'page' } @$events;
}

{
  my ($file, $first, $second, $out) = ends('slow');
  close $out;
  $_->wait_exit(0) for $first, $second;
  unlike($first->err, qr/without the last events/, 'nothing is missing');
  is(calls($file), $CALLS, 'all that it did in the end is in the trace');
}

{
  my ($file, $first, $second, $out) = ends('killed');    # its stdin is open
  $second->kill_now;
  $second->wait_exit(signal => 'KILL');
  $first->wait_exit(0);
  like($first->err, qr/ends without the last events of process 1 .*, which has ended before/, 'a line says what is missing');
  unlike($first->err, qr/in time/, 'and it does not wait for a process that has ended');
  is(calls($file), 0, 'and that is not there');
}

$t->done;
