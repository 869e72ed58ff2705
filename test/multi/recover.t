#!/usr/bin/perl
# recover.t - the process of DMI_main is killed: DMI_recover goes on in another one, and in a third one
# when that is killed, too; without it, or when it says that it cannot go on, all end with a line.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/recover_dmi.c');

# (processes, stdin of the first one)
sub begin {
  my ($what, $num, $of) = @_;
  $of //= $program;
  pipe my $reader, my $in or die;
  my @all = $t->start($of, opts => ['--survive'], args => [$what, $num], stdin => $reader,
    name => "$what 0");
  push @all, $t->start($of, join => $all[0], name => "$what $_") for 1 .. $num - 1;
  $all[0]->expect_out(qr/^ready$/m);
  return (\@all, $in);
}

# Who prints this first.
sub whoever {
  my ($pattern, @all) = @_;
  my $who;
  $t->wait_until(sub { ($who) = grep { $_->out =~ $pattern } @all; return $who }, "somebody's stdout shows /$pattern/");
  return $who;
}

# Ids follow the order in which they were accepted.
sub by_id {
  my ($all) = @_;
  return map { $_->[1] } sort { $a->[0] <=> $b->[0] }
    map { my ($event) = $_->events('joined'); [$event->{process}, $_] } @$all;
}

{
  my ($all, $in) = begin('count', 3);
  my ($first, @others) = by_id($all);
  $first->kill_now;
  # Usually the next one; on a busy machine the last one may be the first that leads.
  my $second = whoever(qr/^recovered from the loss of 0: 41$/m, @others);
  my ($third) = grep { $_ != $second } @others;
  my ($id) = map { $_->{process} } $second->events('joined');
  $_->expect_err(qr/^dmi: process 0 \(\S+\) is lost; (?:\d+ pages? (?:is|are) lost with it; )?the program goes on with 2 processes$/m)
    for $second, $third;
  my ($lost) = $third->events('member_lost');
  my ($begun) = $first->events('joined');
  is_deeply([@$lost{qw(member id)}], [$begun->{member}, 0], 'the event says who');
  $second->expect_err(qr/^dmi: DMI_main was lost with process 0: DMI_recover goes on in process $id \(\S+\)$/m);
  $second->kill_now;
  $third->expect_out(qr/^recovered from the loss of $id: 42$/m);
  $third->expect_err(qr/^dmi: process $id \(\S+\) is lost; .*the program goes on with 1 process$/m);
  $third->expect_verdict('recover', 2);
}

{
  my ($all, $in) = begin('refuse', 3);
  my ($first, @others) = by_id($all);
  $first->kill_now;
  $_->expect_err(qr/DMI_recover says, in process [12] \(\S+\), that the program cannot go on: it ends/) for @others;
  $_->wait_exit(1) for @others;
}

# pthread_exit in it counts as its return, as in DMI_main.
{
  my ($all, $in) = begin('leave', 3);
  my ($first, @others) = by_id($all);
  $first->kill_now;
  $_->wait_exit(0) for @others;
  is(scalar(map { $_->events('finalized') } @others), 2, 'the program ends in order when DMI_recover has called pthread_exit');
  unlike($_->err, qr/pthread_exit/, 'which nobody complains of') for @others;
}

# Whoever has been welcomed goes on, however soon behind that the others are lost: here at once.
for (1 .. 10) {
  my $all = $t->start($program, opts => ['-n', 2, '--survive'], args => ['welcome', 2], name => "welcome $_");
  $all->wait_exit(0);
  $all->expect_verdict('recover', 1);
}

# Those that were not welcomed cannot, and say why; one that has nobody to wait for says so at once.
for my $num (2, 3) {
  my @all = $t->start($program, opts => ['--survive', '--dead-after', 1], args => ['joined', $num], name => "joined 0 of $num");
  push @all, $t->start($program, join => $all[0], name => "joined $_ of $num") for 1 .. $num - 1;
  (shift @all)->wait_exit(signal => 'KILL');
  $_->expect_err(qr/this process ends, as all are dead that could go on with the program: only processes can for which DMI_welcome has returned, and that have not left/) for @all;
  $_->wait_exit(1) for @all;
}

# One that has none.
{
  my $none = $t->compile('test/multi/recover_dmi.c', flags => ['-DNO_RECOVER']);
  my ($all, $in) = begin('without', 3, $none);
  my ($first, @others) = by_id($all);
  $first->kill_now;
  $_->expect_err(qr/process 0 \(\S+\) is lost, and DMI_main with it; the program defines no DMI_recover, so it ends/) for @others;
  $_->wait_exit(1) for @others;
}
$t->done;
