#!/usr/bin/perl
# hour.t - twice as many computing threads as there are cores: nobody is taken for lost because its
# threads have to wait for one (dmirun --survive).
#
#   hour.t [seconds]     the soak form: one hour
#
# Two programs run at the same time, so there are four times as many: one with the default of
# --dead-after, one with one second.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use Time::HiRes qw(time);

my %seconds = (soak => 3600, small => 3);
my $seconds = shift // $seconds{ DMITest::scale() } // 10;
my $num = 4;    # processes of a program
chomp(my $cores = `getconf _NPROCESSORS_ONLN`);
my $threads = int((2 * $cores + $num - 1) / $num);

my $t = DMITest->new(timeout => 120 + 2 * $seconds, wait => 60);
my $program = $t->compile('test/multi/hour_dmi.c');

# A program of $num processes, all of which compute.
sub begin {
  my ($name, @opts) = @_;
  pipe my $reader, my $in or die "no pipe: $!\n";
  my @opts_of_all = (opts => ['--survive', @opts]);
  my @all = $t->start($program, @opts_of_all, name => "$name 1", args => [$num, $threads], stdin => $reader);
  push @all, $t->start($program, @opts_of_all, name => "$name $_", join => $all[0]) for 2 .. $num;
  $all[0]->expect_out(qr/^all compute$/m);
  return { name => $name, in => $in, all => \@all };
}

# Members that the others have gone on without: what a view says less than one before.
sub removed {
  my ($p) = @_;
  my @members = map { $_->{members} } $p->events('view');
  return grep { $members[$_] < $members[$_ - 1] } 1 .. $#members;
}

# Nobody was removed; then all end, and nothing was added twice or never.
sub finish {
  my ($case) = @_;
  my ($first, @others) = @{ $case->{all} };
  is(scalar(grep { removed($_) } $first, @others), 0, "$case->{name}: nobody was removed");
  syswrite $case->{in}, "stop\n";
  my ($added) = $first->expect_out(qr/^added (\d+)$/m);
  $first->expect_verdict('hour', $num * $threads - 1, @others);
  note(sprintf '%s: %d s, %d additions, %d lines about silence', $case->{name}, $seconds, $added,
    scalar map { $_->events('stalled') } $first, @others);
}

# What is looked for can be seen: a process that is stopped for longer is removed.
{
  my $case = begin('stopped', '--dead-after', 1);
  my ($stopped, @others) = reverse @{ $case->{all} };
  is(scalar(grep { removed($_) } @others), 0, 'nobody is removed at first');
  $stopped->stop;
  $t->wait_until(sub { !grep { !removed($_) } @others }, 'a process that is stopped is removed');
  pass('a process that is stopped is removed');
  $t->kill_together(@{ $case->{all} });
}

my @cases = (begin('default'), begin('one second', '--dead-after', 1));
my $until = time + $seconds;
my $ended;
while (!$ended && (my $left = $until - time) > 0) {
  $t->_pump($left);
  ($ended) = grep { !$_->running } map { @{ $_->{all} } } @cases;
}
$t->fail_now("$ended->{name} computes to the end") if $ended;
finish($_) for @cases;
$t->done;
