#!/usr/bin/perl
# cause.t - dmirun --survive: all processes say why another one has ended, also those that had no connection
# with it, and that nothing was heard of it; and nothing, if nobody was told.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 100, wait => 30);
my $program = $t->compile('test/multi/cause_dmi.c');

# Three processes, of which the first one is the coordinator.
sub three {
  my ($way, $after) = @_;
  return $t->start_in_order($program, 3, args => [$way], name => $way, opts => ['--survive', '--dead-after', $after // 10]);
}

# With whom it has been connected, as a member: of three the numbers are 1, 2, 3.
sub connected {
  my ($process) = @_;
  return join ' ', sort map { $_->{member} } $process->events('member_connected');
}

my $why = qr/killed by SIGABRT \(abort\(\) was called\) in .* of pid/;
{
  my @all = three('last');
  $all[2]->wait_exit(signal => 'ABRT');
  $_->expect_err(qr/process 2 \(\S+\) is lost; $why \d+.*; the program goes on with 2 processes$/m) for @all[0, 1];
  $all[0]->expect_verdict('cause', 0);
  $all[1]->wait_exit(0);
  is(connected($all[0]), '', 'last: the others have connected with the first one');
  is(connected($all[1]) . connected($all[2]), '', 'and not with each other');
}
{
  my @all = three('main');
  $all[0]->wait_exit(signal => 'ABRT');
  $_->expect_err(qr/process 0 \(\S+\) is lost: $why .*, and DMI_main with it; the program defines no DMI_recover/m) for @all[1, 2];
  $_->wait_exit(1) for @all[1, 2];
  is(connected($all[1]), '3', 'main: they have to connect then');
}
{
  my @all = three('killed');
  $all[0]->expect_out(qr/^created$/m);
  $all[2]->signal('KILL', dies => 1);
  $all[2]->wait_exit(signal => 'KILL');
  $_->expect_err(qr/process 2 \(\S+\) is lost; the program goes on with 2 processes$/m) for @all[0, 1];
  $all[0]->expect_verdict('cause', 0);
  $all[1]->wait_exit(0);
  pass('killed: nobody was told anything');
}
{
  my @all = three('killed', 4);
  $all[0]->expect_out(qr/^created$/m);
  $all[2]->stop;
  $_->expect_err(qr/process 2 \(\S+\) is lost; nothing was heard of it for \d+\.\d s \(--dead-after\); the program goes on with 2 processes$/m) for @all[0, 1];
  $all[0]->expect_verdict('cause', 0);
  $all[1]->wait_exit(0);
  $all[2]->signal('CONT');
  $all[2]->wait_exit(1);
}
$t->done;
