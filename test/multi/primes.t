#!/usr/bin/perl
# primes.t - examples/primes_dmi: the process of DMI_main is killed, then the one that goes on for it;
# the last one has the right number.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 110, wait => 60);
my $program = $t->build . '/examples/primes_dmi';
my ($pieces, $primes) = (2000, 1270607);

my @all = $t->start($program, opts => ['--survive'], args => [$pieces, 3], name => 'first');
push @all, map { $t->start($program, join => $all[0], name => "joiner $_") } 1, 2;
# Before, a process may have no lease yet, and cannot go on alone (docs/crashes.md, "Leases").
$_->expect_out(qr/^process [12] computes$/m) for @all[1, 2];

for my $left (2, 1) {
  my $victim = shift @all;
  $victim->kill_now;
  my $goes_on = qr/^process \d is lost, and DMI_main with it: this one goes on$/m;
  $t->wait_until(sub { grep { $_->out =~ $goes_on } @all }, "one of $left goes on");
  @all = sort { ($b->out =~ $goes_on) - ($a->out =~ $goes_on) } @all;    # the next to be killed
}
my ($found, $below) = $all[0]->expect_out(qr/^there are (\d+) primes below (\d+)$/m);
is($found, $primes, 'the right number');
is($below, 10_000 * $pieces, 'of all');
$all[0]->wait_exit(0);
$t->done;
