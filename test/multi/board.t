#!/usr/bin/perl
# board.t - threads of many processes of one host meet by a board in shared memory (docs/barriers.md), also
# while processes are killed: each loss breaks the barrier once for each of the others, and these go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t       = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/board_dmi.c');
my $num     = 11;

# Without shared memory there is no board: then each arrival is a message.
for my $case ([0], [2, '--survive', '--dead-after', 60], [0, '--no-shm']) {
  my ($lost, @opts) = @$case;
  my $alone  = "@opts" eq '--no-shm';
  my $name   = $alone ? 'alone' : $lost;
  my $first  = $t->start($program, name => "first $name", args => [$num, $lost], opts => \@opts);
  my @living = map { $t->start($program, name => "more $name $_", join => $first, opts => \@opts) } 2 .. $num;
  for my $time (1 .. $lost) {
    my $said = $time > 1 ? 'broken ' . ($time - 1) : 'meets';
    $_->expect_out(qr/^$said$/m) for @living;
    my $victim = splice @living, 3 * $time, 1;
    $victim->kill_now;
    $victim->wait_exit(signal => 'KILL');
  }
  $_->wait_exit(0) for $first, @living;
  like($first->out, qr{^verdict board: \d+ checks, 0 failed$}m, "$lost were killed: nothing is wrong");
  is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } $first, @living), '', 'nobody complains');
  my ($messages, $arrivals) = $living[0]->expect_out(qr/^messages (\d+) for (\d+) arrivals$/m);
  if ($alone) { is($messages, $arrivals, "without a board $arrivals arrivals are as many messages") }
  else { cmp_ok($messages, '<', $arrivals, "with a board $arrivals arrivals are $messages messages") }
}

# Processes join while others meet, own the barrier's page, and leave.
{
  my $guests = $t->scale eq 'small' ? 2 : 6;
  my $meeting = $t->compile('test/multi/guests_dmi.c', flags => ['-DHOSTS=8', '-DEACH=1']);
  my $first = $t->start($meeting, name => 'host 1', args => [$guests]);
  my @hosts = ($first, map { $t->start($meeting, name => "host $_", join => $first) } 2 .. 8);
  $_->expect_event('opened') for @hosts[1 .. 7];
  for my $i (1 .. $guests) {
    my $guest = $t->start($meeting, join => $hosts[$i % 8], name => "guest $i");
    $first->expect_out(qr/^guest $i works$/m);
    $guest->signal('INT');
    $guest->wait_exit(0);
    unlike($guest->out, qr/^FAIL/m, "guest $i complains of nothing");
  }
  my ($rounds) = $first->expect_out(qr/^rounds: (\d+)$/m);
  cmp_ok($rounds, '>=', 10 * $guests, "there were $rounds rounds");
  my ($failed) = $first->expect_out(qr/^verdict guests: \d+ checks, (\d+) failed$/m);
  is($failed, 0, 'no check failed');
  $_->wait_exit(0) for @hosts;
}

# All wait, most of them for a process that has taken their arrivals: when the program ends they do not wait
# for it, though it is stopped.  Nobody can see which process that is, so all but one of those that wait are.
{
  my $first  = $t->start($program, name => 'ends', args => [$num, 'exit']);
  my @others = map { $t->start($program, name => "waits$_", join => $first) } 2 .. $num;
  $first->expect_out(qr/^all wait$/m);
  my ($goes, @stopped) = @others;
  $_->stop for @stopped;
  $first->signal('INT');
  $goes->expect_out(qr/^ends$/m);
  $_->signal('CONT') for @stopped;
  $_->wait_exit(6) for $first, @others;
  like($first->out, qr{^verdict board: \d+ checks, 0 failed$}m, 'who ends the program complains of nothing');
  is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } @others), '', 'nor does who waited');
}
$t->done;
