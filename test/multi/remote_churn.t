#!/usr/bin/perl
# remote_churn.t - LU (examples/lu_dmi) of 1,024 equations, with 1 to 4 processes at first, which join,
# leave and are killed at random meanwhile: each result is that of one process, to the last bit.
#
# When something happens is counted in calls: a process is asked to leave, or killed, or another one
# joins, when it has done so many.  The seed of a round is in its name: DMI_TEST_SEED=N is round N alone.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my $t = DMITest->new(timeout => $soak ? 3600 : 300, wait => 100);
my $rounds = $soak ? 100 : $t->scale eq 'small' ? 3 : 10;
my @rounds = defined $ENV{DMI_TEST_SEED} ? $ENV{DMI_TEST_SEED} : 1 .. $rounds;
my $program = $t->build . '/examples/lu_dmi';
my %opt = (opts => ['--survive', '--dead-after', 10], env => { DMI_EVENT_LEVEL => 'debug' });
my %happened;

# What it has computed; the result is right.
sub checksum {
  my ($first) = @_;
  my ($sum) = $first->expect_out(qr/^checksum ([0-9a-f]{16})/m);
  $first->wait_exit(0);
  like($first->out, qr/^scaled residual [\d.]+: good$/m, $first->name . ': the result is right');
  return $sum;
}

sub calls_of { return scalar(() = $_[0]{evt}{text} =~ /"event":"call_done"/g) }
sub is_over { return $_[0]->out =~ /^checksum/m }

# It has done so many calls more.  False: all is done, or it has ended.
sub await_calls {
  my ($first, $process, $calls) = @_;
  my $until = calls_of($process) + $calls;
  $t->wait_until(sub { is_over($first) || !$process->running || calls_of($process) >= $until },
    $process->name . " has done $until calls");
  return !is_over($first) && $process->running;
}

my $right = checksum($t->start($program, args => [1024, 32], name => 'alone'));

for my $seed (@rounds) {
  srand $seed;
  my $num = 1 + int rand 4;
  my $name = "round $seed:";
  my $first = $t->start($program, %opt, args => [1024, 32, $num], name => "$name 1 of $num");
  my $more = sub { $t->start($program, %opt, join => $first, name => "$name $_[0]") };
  my @others = map { $more->("$_ of $num") } 2 .. $num;
  my (@killed, @left, @late);
  $first->expect_out(qr/^all calls are issued/m);
  for my $step (1 .. 2 + int rand 4) {
    my @there = grep { $_->events('opened') && $_->running } @others, @late;
    my $process = @there ? $there[rand @there] : $first;
    my $what = @there ? (qw(join leave kill))[rand 3] : 'join';
    # Three could all meet the same call, which is given up then (docs/remote.md, rule 17).
    $what = 'leave' if @killed == 2 && $what eq 'kill';
    await_calls($first, $process, 1 + int rand 30) or next;
    $happened{$what}++;
    if ($what eq 'join') { push @late, $more->("late $step") }
    else {
      $process->signal('INT') if $what eq 'leave';
      $process->kill_now if $what eq 'kill';
      push @{ $what eq 'kill' ? \@killed : \@left }, $process;
      @$_ = grep { $_ != $process } @$_ for \@others, \@late;
    }
  }
  is(checksum($first), $right, "$name the same result");
  for my $process (@left, @others) {
    $t->wait_until(sub { !$process->running }, $process->name . ' ends');
    # It had heard of a view that only it and the coordinator knew, which was killed then: it has to end.
    $process->wait_exit($process->err =~ /^dmi: .*, and that was taken back, /m ? 1 : 0);
  }
  # All may have been done just before; and who came then was not let in.
  for my $process (@killed, @late) {
    $t->wait_until(sub { !$process->running }, $process->name . ' ends');
  }
  $_->wait_exit($_->events('opened') || !$_->{status} ? 0 : 1) for @late;
}
diag(join ', ', map { "$_: $happened{$_}" } sort keys %happened) if $soak;
if (@rounds > 1) {
  cmp_ok($happened{$_} // 0, '>', 0, "some $_") for qw(join leave kill);
}
$t->done;
