#!/usr/bin/perl
# lost.t - nobody hangs for ever: a call that waits for a process which is lost then gets an error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 30);
my $program = $t->compile('test/multi/lost_dmi.c');

# Calls about threads of a process that was not welcomed yet, and will never answer.
{
  pipe my $reader, my $in or die;
  $in->autoflush(1);
  my $first = $t->start($program, stdin => $reader, name => 'first');
  $first->expect_out(qr/^ready$/m);
  my $second = $t->start($program, join => $first, name => 'second');
  $first->expect_out(qr/^asked by 1$/m);
  $second->stop;
  print $in "go\n";
  # The call is in flight when the one that it waits for is named.
  $first->expect_err(qr/^dmi: waiting for process 1 .*: it does not answer; a call of DMI waits for it$/m);
  $second->kill_now;
  $first->expect_out(qr/^create: no process with this id takes part in the program$/m);
  $first->expect_out(qr/^$_: .*thread.*$/m) for qw(wake detach join);
  $first->expect_out(qr/^over$/m);
  $first->wait_exit(0);
  $second->wait_exit(signal => 'KILL');
}
$t->done;
