#!/usr/bin/perl
# suspend.t - DMI_suspend and DMI_wake: none lost, none made up, while processes join and leave.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/suspend_dmi.c');

my $first = $t->start($program);
my @others = map { $t->start($program, join => $first) } 2 .. 3;

# The part with joins and leaves: one joins, gets threads, leaves; and again.
$first->expect_out(qr/^come and go$/m);
for my $round (1 .. 3) {
  my $guest = $t->start($program, join => $others[0]);
  $first->expect_out(qr/^guest $round plays$/m);
  $guest->signal('INT');
  $guest->wait_exit(0);
  is(scalar $guest->events('left'), 1, "guest $round left");
  push @others, $guest;
}
$first->expect_verdict('suspend', $t->scale eq 'small' ? 300 : 2000, @others);
note($first->out =~ /^(suspend: .*)$/m);
$t->done;
