#!/usr/bin/perl
# churn.t - processes join and leave at random while others compute: nothing is lost, nothing torn.
#
#   churn.t [seconds]        DMI_TEST_SEED chooses when who joins and leaves
#
# Twice: DMI_main returns at once and the program lives in its threads; or DMI_main goes on in a
# process that was dismissed.  The first process is among the first to leave; the oldest one, which
# is the coordinator, is chosen often; and several are asked at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use Time::HiRes qw(time);

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $usual = $ENV{DMI_TEST_NODES} ? 3 : 16;    # processes do the long form
my $seconds = shift // { small => $usual, soak => 120 }->{$scale} // 20;
my $seed = $ENV{DMI_TEST_SEED} // int(time);
srand $seed;

my $t = DMITest->new(timeout => 3 * $seconds + 60, wait => 40);
my $program = $t->compile('test/multi/churn_dmi.c');

sub has { return scalar $_[0]->events($_[1]) }

sub run {
  my ($mode) = @_;
  my (@all, %asked, %holds);    # holds: those that a joiner is about to speak to
  my $start = sub {
    my ($join) = @_;
    my @options = $join ? (join => $join) : (args => [$mode]);
    push @all, $t->start($program, @options, name => "$mode " . (@all + 1));
    $holds{ $all[-1] } = $join if $join;
  };
  my $ask = sub {
    $_->signal('INT') for @_;
    $asked{$_} = 1 for @_;
  };
  my $opened = sub {
    has($_, 'joined') and delete $holds{$_} for @all;
    return grep { !$asked{$_} && has($_, 'opened') } @all;
  };
  $start->();
  $all[0]->ready;
  my $until = time + $seconds / 2;
  my ($at_once, $joins) = (0, 0);
  while (time < $until) {
    my $next = time + rand 0.3;
    while (time < $next) { $t->_pump($next - time) }
    my @opened = $opened->();
    my $alive = grep { !$asked{$_} } @all;
    my $wanted = 2 + int rand 5;
    if ($wanted > $alive) {
      next if !@opened;
      $start->($opened[rand @opened]) for $alive + 1 .. $wanted;
      $joins += $wanted - $alive;
      next;
    }
    my %held = map { $_ => 1 } values %holds;
    my @free = grep { !$held{$_} } @opened;
    my ($num) = sort { $a <=> $b } $alive - $wanted, @opened - 2, scalar @free;
    next if $num < 1;
    # Not quite at random: the oldest one first, every other time; so the first one goes early.
    my @chosen = rand() < 0.5 || !$asked{ $all[0] } ? shift @free : ();
    push @chosen, splice @free, rand @free, 1 while @chosen < $num;
    $ask->(@chosen);
    $at_once++ if @chosen > 1;
  }
  $t->wait_until(sub { (() = $opened->()) == grep { !$asked{$_} } @all }, 'all are welcome');
  $ask->($opened->());
  $_->wait_exit(0) for @all;

  my @verdicts = map { $_->out =~ /^verdict churn: (\d+ checks, \d+) failed$/mg } @all;
  is(scalar @verdicts, 1, "$mode: one thread compared everything");
  like($verdicts[0] // '', qr/checks, 0$/, "$mode: totals exact, pages whole");
  my ($figures) = map { $_->out =~ /^churn: (.*)$/m } @all;
  my ($joined, $left, $stewards) = ($figures // '') =~ /(\d+) joins, (\d+) leaves, (\d+) stew/;
  is($joined, $joins, "$mode: all joins counted");
  cmp_ok($left, '>=', $joins, "$mode: all leaves counted");
  note("$mode, seed $seed: $figures; $at_once times several at once");
  if ($mode eq 'stays') {
    like($all[0]->out, qr/^verdict main: \d+ checks, 0 failed$/m,
      "$mode: DMI_main went on in a dismissed process");
  }
  my @wrong = grep { $_->out =~ /^FAIL/m } @all;
  is(scalar @wrong, 0, "$mode: nobody complains");
  my $last = 0;
  for my $process (@all) {
    my $shown = join ' ', $process->err =~ /^=== (\w+) ===$/mg;
    # The process where the last steward ran is not dismissed: the program ends under it.
    $last++, next if $shown eq 'initialized joined opened closed finalized';
    is($shown, 'initialized joined opened closed left finalized',
      $process->name . ': its life in order');
    is(join("\n", $process->complaints), '', $process->name . ': nothing else on stderr, unless its leave takes long');
  }
  is($last, 1, "$mode: one was the last");
}

run($_) for qw(returns stays);
$t->done;
