#!/usr/bin/perl
# guests.t - a mutex and a barrier go on while guests join the team, own their page, and leave.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $guests = { small => 3, soak => 100 }->{ $ENV{DMI_TEST_SCALE} // '' } // 8;
my $t = DMITest->new(timeout => 40 + 5 * $guests, wait => 30);
my $program = $t->compile('test/multi/guests_dmi.c');

my @hosts = $t->start($program, args => [$guests]);
push @hosts, $t->start($program, join => $hosts[0]);
$hosts[1]->expect_event('opened');
for my $i (1 .. $guests) {
  my $guest = $t->start($program, join => $hosts[$i % 2], name => "guest $i");
  $hosts[0]->expect_out(qr/^guest $i works$/m);
  $guest->signal('INT');
  $guest->wait_exit(0);
  is(scalar $guest->events('left'), 1, "guest $i has left");
  unlike($guest->out, qr/^FAIL/m, "guest $i complains of nothing");
}
my ($rounds) = $hosts[0]->expect_out(qr/^rounds: (\d+)$/m);
my ($checks, $failed) = $hosts[0]->expect_out(qr/^verdict guests: (\d+) checks, (\d+) failed$/m);
is($failed, 0, 'no check failed');
cmp_ok($rounds, '>=', 10 * $guests, "there were $rounds rounds");
cmp_ok($checks, '>', $rounds * 12, "checks were made ($checks)");
$_->wait_exit(0) for @hosts;
$t->done;
