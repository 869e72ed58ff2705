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

for my $lost (0, 2) {
  my @survive = $lost ? (opts => ['--survive', '--dead-after', 60]) : ();
  my $first   = $t->start($program, name => "first$lost", args => [$num, $lost], @survive);
  my @living  = map { $t->start($program, name => "more${lost}_$_", join => $first, @survive) } 2 .. $num;
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
}
# All wait, most of them for a process that has taken their arrivals: when the program ends they do not wait
# for it, though it is stopped.  Nobody can see which process that is, so all but one of those that wait are.
{
  my $first  = $t->start($program, name => 'ends', args => [$num, 'exit']);
  my @others = map { $t->start($program, name => "waits$_", join => $first) } 2 .. $num;
  $first->expect_out(qr/^all wait$/m);
  my ($goes, @stopped) = @others;
  $_->signal('STOP') for @stopped;
  $first->signal('INT');
  $goes->expect_out(qr/^ends$/m);
  $_->signal('CONT') for @stopped;
  $_->wait_exit(6) for $first, @others;
  like($first->out, qr{^verdict board: \d+ checks, 0 failed$}m, 'who ends the program complains of nothing');
  is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } @others), '', 'nor does who waited');
}
$t->done;
