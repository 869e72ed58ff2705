#!/usr/bin/perl
# settings.t - what the first process is given counts for all: --dead-after, which --survive changes;
# who joins with others is told so.
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
  my ($name, $first_opts, $second_opts) = @_;
  pipe my $reader, my $in or die;
  my $first = $t->start($program, opts => $first_opts, stdin => $reader, name => "$name, first");
  my $second = $t->start($program, opts => $second_opts, join => $first, name => "$name, second");
  $first->expect_out(qr/^in 1$/m);
  return ($first, $second, $in);
}

my $does_not_count = qr/does not count: /;

# The second one would not wait, but nobody is lost here.  It is stopped longer than what follows
# takes.
my ($never, $patient, $never_in) = begin('never', ['--dead-after', 0], ['--dead-after', 1, '--survive']);
$patient->expect_err(qr/^dmi: --survive does not count: the first process of this program does not have it$/m);
$never->stop;

# The second one would wait for a minute.
{
  my ($first, $second, $in) = begin('2 s', ['--dead-after', 2], ['--dead-after', 60]);
  $second->expect_err(qr/^dmi: --dead-after 60 does not count: this program has 2, from its first process$/m);
  my $from = time;
  $first->stop;
  $second->expect_err(qr/^dmi: lost process 0 \(\S+\): nothing was heard of it for \d+\.\d s \(--dead-after\)/m);
  cmp_ok(time - $from, '<', 20, 'soon');
  $second->wait_exit(1);
  $first->signal('CONT');
  $first->wait_exit(1);
}

$never->signal('CONT');
close $never_in;
$_->wait_exit(0) for $never, $patient;
unlike($patient->err, qr/lost|waiting/, 'the patient one loses nobody');

# With --survive the first process misses others sooner; who joins need not say it.
{
  my ($first, $second, $in) = begin('survive', ['--survive'], []);
  $second->stop;
  $first->expect_err(qr/; it is lost when it is silent for 5 s \(dmirun --dead-after\)$/m);
  $second->signal('CONT');
  $first->expect_err(qr/^dmi: process 1 \(\S+\) answers again$/m);
  close $in;
  $_->wait_exit(0) for $first, $second;
  unlike($_->err, $does_not_count, $_->name . ' is told nothing') for $first, $second;
}
$t->done;
