#!/usr/bin/perl
# litmus.t - races between real processes: outcomes that sequential consistency forbids never come.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $rounds = { small => $ENV{DMI_TEST_NODES} ? 300 : 600, soak => 100_000 }->{$scale} // 3000;
my $seconds = $scale eq 'soak' ? 600 : 50;
my $t = DMITest->new(timeout => $seconds, wait => $seconds);
my $program = $t->compile('test/multi/litmus_dmi.c');

my $first = $t->start($program, args => [$rounds]);
my @others = map { $t->start($program, join => $first) } 2 .. 3;

# Threads that run one after the other always see the same: the program goes on until they do not, or
# the time of this test is over.
for my $test (qw(sb mp iriw co)) {
  my ($done, $outcomes, $forbidden) =
    $first->expect_out(qr/^litmus $test: (\d+) rounds, (\d+) outcomes, (\d+) forbidden$/m);
  cmp_ok($done, '>=', $rounds, "$test: $done rounds");
  is($forbidden, 0, "$test: no forbidden outcome");
  my %seen = $first->out =~ /^outcome $test (.*): (\d+)$/mg;
  note("$test: ", join ', ', map { "$_ $seen{$_} times" } sort keys %seen);
}
$_->wait_exit(0) for $first, @others;
$t->done;
