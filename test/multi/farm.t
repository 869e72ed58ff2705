#!/usr/bin/perl
# farm.t - examples/nqueens_dmi: known counts, by any number of processes that come and go.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my %solutions = (
  1 => 1, 2 => 0, 3 => 0, 8 => 92, 9 => 352, 10 => 724, 11 => 2680, 12 => 14200, 13 => 73712,
  14 => 365596, 15 => 2279184, 16 => 14772512);

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 1800 : 110, wait => 300);
my $program = $t->build . '/examples/nqueens_dmi';
my $soak = $t->scale eq 'soak';
my $small = $t->scale eq 'small';

# The last line of the one that began, and good ends everywhere.
sub ends_right {
  my ($n, @all) = @_;
  my ($count) = $all[0]->expect_out(qr/^$n queens: (\d+) solutions/m);
  is($count, $solutions{$n}, "$n queens by " . @all);
  $_->wait_exit(0) for @all;
}

# Alone, and by several that begin together.
my @sizes = $soak ? (1 .. 3, 8 .. 16) : $small ? (1, 2, 8 .. 10) : (1 .. 3, 8 .. 13);
for my $n (@sizes) {
  my $processes = $solutions{$n} == 0 ? 1 : 1 + $n % 4;
  my $first = $t->start($program, args => [$n, $processes], name => "$n queens");
  ends_right($n, $first, map { $t->start($program, join => $first) } 2 .. $processes);
}

# A relay: each one works for a while, or hardly at all, and is asked to leave; nobody works until
# the next one joins; the last one does what is left.
{
  my $n = $soak ? 16 : $small ? 13 : 15;
  my $first = $t->start($program, args => [$n, 1, 4], name => 'relay 1');
  my ($runner, @all) = ($first, $first);
  $first->expect_out(qr/^welcome 0!/m);
  my $waits = 0;
  for my $leg (2 .. 5) {
    $runner->signal('INT') if $runner->running;
    # Where the machine is so busy that the work was done before the signal came, this proves less.
    my ($what) = $first->expect_out(qr/^(waiting|$n queens)/m);
    last if $what ne 'waiting';
    $waits++;
    last if $leg == 5;
    if ($runner != $first) {
      $runner->wait_exit(0);
      is(scalar $runner->events('left'), 1, $runner->name . ' is dismissed while there is work');
    }
    push @all, $runner = $t->start($program, join => $first, name => "relay $leg");
    $runner->expect_event('opened');
  }
  diag("only $waits of 4 were stopped in time") if $waits < 4;
  push @all, $t->start($program, join => $first, name => 'relay last') if $waits == 4;
  $t->wait_until(sub { !$first->running }, 'the work is done');
  my ($count) = $first->out =~ /^$n queens: (\d+) solutions/m;
  is($count, $solutions{$n}, "$n queens by a relay of " . @all);
  $_->wait_exit(0) for @all;
}

# Any number may come and go at once.
{
  my $n = $soak ? 16 : $small ? 11 : 14;
  my $first = $t->start($program, args => [$n, 4], name => 'crowd 1');
  my @others = map { $t->start($program, join => $first, name => "crowd $_") } 2 .. 4;
  $_->expect_event('opened') for @others;
  $_->signal('INT') for grep { $_->running } @others[0, 1];
  ends_right($n, $first, @others);
}
$t->done;
