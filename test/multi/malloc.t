#!/usr/bin/perl
# malloc.t - DMI_malloc, DMI_realloc, DMI_free: by all processes at once, while others join and leave.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $guests = { small => 2, soak => 1000 }->{ $ENV{DMI_TEST_SCALE} // '' } // 6;
my $t = DMITest->new(timeout => 60 + $guests, wait => 40);
my $program = $t->compile('test/multi/malloc_dmi.c');

my $first = $t->start($program, args => [$guests]);
my @others = $t->start($program, join => $first);
$others[0]->expect_event('opened');    # so that it is the second for the program, too
push @others, $t->start($program, join => $first);
for my $round (1 .. $guests) {
  $first->expect_out(qr/^guest $round comes$/m);
  my $guest = $t->start($program, join => $others[0]);
  $first->expect_out(qr/^guest $round leaves$/m);
  $guest->signal('INT');
  $guest->wait_exit(0);
  $guest->events('left') or $t->problem("guest $round did not leave");
}
# The first process leaves, too, and with it the first home of the allocator's pages.
$first->expect_out(qr/^the first leaves$/m);
$first->signal('INT');
$first->expect_event('left');
my $second = shift @others;
$second->expect_verdict('malloc', $t->scale eq 'small' ? 2000 : 20000, $first, @others);
note($_) for $first->out =~ /^(malloc: .*)$/mg;
$t->done;
