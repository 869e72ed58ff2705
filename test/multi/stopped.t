#!/usr/bin/perl
# stopped.t - a process is stopped (SIGSTOP, as by a debugger): who waits for it says so once, nobody
# loses it, and all goes on when it does.
# Mostly waits: until it is said what is waited for.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/stopped_dmi.c');
# Stopped for as long as that, it would be lost: pulse.t.
my @opts = (opts => ['--dead-after', 0]);

sub begin {
  pipe my $reader, my $writer or die;
  $writer->autoflush(1);
  my $first = $t->start($program, args => ['ask'], @opts, stdin => $reader, name => 'first');
  close $reader;
  $first->expect_out(qr/^in 0$/m);
  return ($first, $writer);
}

sub more {
  my ($first, $name, $id) = @_;
  my $process = $t->start($program, join => $first, @opts, name => $name);
  $first->expect_out(qr/^in $id$/m);
  $process->expect_event('opened');
  return $process;
}

# How often it has said so.
sub lines { my ($process, $regex) = @_; return scalar(() = $process->err =~ /^dmi: $regex/mg) }

my $waiting = qr/waiting for process 2 \(\S+, pid \d+\) since \d\d:\d\d:\d\d UTC: it does not answer; /;
my $back = qr/process 2 \(\S+\) answers again\n/;

sub says_back {
  my ($process, $what) = @_;
  $process->expect_err(qr/^dmi: $back/m);
  is(lines($process, $waiting), 1, "$what: " . $process->name . ' said once that it waits');
}

# A join, and a leave.
{
  my ($first, $in) = begin();
  my $second = more($first, 'second', 1);
  my $third = more($first, 'third', 2);
  $third->stop;
  my $fourth = $t->start($program, join => $first, @opts, name => 'fourth');
  $first->expect_err(qr/^dmi: ${waiting}processes cannot join or leave meanwhile\n/m);
  $fourth->expect_err(qr/^dmi: ${waiting}this process cannot join meanwhile\n/m);
  is(scalar $fourth->events('joined'), 0, 'a join waits for the one that is stopped');
  $third->signal('CONT');
  says_back($_, 'join') for $first, $fourth;
  $first->expect_out(qr/^in 3$/m);
  $fourth->expect_event('opened');

  $third->stop;
  $second->signal('INT');
  $first->expect_err(qr/^dmi: ${waiting}/m);
  $third->signal('CONT');
  $first->expect_err(qr/^dmi: $back/m);
  $second->wait_exit(0);
  is(lines($_, qr/lost/), 0, $_->name . ' lost nobody') for $first, $third, $fourth;
  close $in;    # DMI_main returns
  $_->wait_exit(0) for $first, $third, $fourth;
}

# Operations: of one that has a connection to the owner, and of one that only its home knows.
{
  my ($first, $in) = begin();
  my $second = more($first, 'second', 1);
  my $third = more($first, 'third', 2);
  print $in "main 2\n";
  $first->expect_out(qr/^owned by 2$/m);
  print $in "read 1\n";    # when it is stopped there is no connection between the two yet
  $first->expect_out(qr/^read by 1$/m);
  $third->stop;
  print $in "read\n";
  $first->expect_err(qr/^dmi: ${waiting}a read or write here may need its answer\n/m);
  $third->signal('CONT');
  says_back($first, 'read');
  $first->expect_out(qr/^read$/m);
  is(lines($_, qr/lost/), 0, $_->name . ' lost nobody') for $first, $second, $third;
  close $in;    # DMI_main returns
  $_->wait_exit(0) for $first, $second, $third;
}

# The first connection to it.
{
  my ($first, $in) = begin();
  my $second = more($first, 'second', 1);
  my $third = more($first, 'third', 2);
  print $in "main 2\n";
  $first->expect_out(qr/^owned by 2$/m);
  $third->stop;
  print $in "read 1\n";
  # It has asked the home, which has passed that on.
  $second->expect_err(qr/^dmi: ${waiting}a read or write here may need its answer\n/m);
  my $more = $t->start($program, join => $first, @opts, name => 'clock');
  $first->expect_err(qr/^dmi: ${waiting}/m);
  $third->signal('CONT');
  says_back($second, 'first connection');
  $t->wait_until(sub { $first->out =~ /^in 3$/m && $first->out =~ /^read by 1$/m },
    'join and read are over');
  is(lines($_, qr/lost/), 0, $_->name . ' lost nobody') for $first, $second, $third, $more;
  close $in;    # DMI_main returns
  $_->wait_exit(0) for $first, $second, $third, $more;
}

$t->done;
