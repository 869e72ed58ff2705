#!/usr/bin/perl
# history.t - random operations of real processes, one leaving and one joining: there is an order
# of all operations on a page that explains every answer.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($ops, $runs) = $scale eq 'small' ? (3000, 2) : $scale eq 'soak' ? (50_000, 50) : (20_000, 6);
my $t = DMITest->new(timeout => 20 + 20 * $runs);
my $program = $t->compile('test/multi/history_dmi.c',
  with => [map { "test/sim/$_.c" } qw(checker history shrink)]);

for my $seed (map { $ENV{DMI_TEST_SEED} // $_ } 1 .. $runs) {
  my @all = $t->start_changing($program, args => [$ops, $seed], name => "seed $seed");
  my $first = $all[0];
  my ($total) = $first->expect_out(qr/^history: (\d+) operations$/m);
  my ($failed) = $first->expect_out(qr/^verdict history: \d+ checks, (\d+) failed$/m);
  is($failed, 0, "seed $seed: every page has an order");
  cmp_ok($total, '>', $ops, "seed $seed: $total operations");
  like($first->out, qr/^page $_: \d+ operations, \d+ tries: an order$/m, "seed $seed: page $_")
    for 0 .. 3;
  note($first->out);
  $_->wait_exit(0) for @all;
  unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for @all;
}
$t->done;
