#!/usr/bin/perl
# sync.t - mutexes, conditions, barriers, watches over three processes; the one that has them leaves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my $t = DMITest->new(timeout => $soak ? 900 : 60, wait => $soak ? 800 : 50);
my $program = $t->compile('test/multi/sync_dmi.c');

my $first = $t->start($program, args => $soak ? [200, 1_000_000] : []);
my $second = $t->start($program, join => $first);
$second->expect_event('opened');    # so that the third is the one that leaves
my $third = $t->start($program, join => $second);
$first->expect_out(qr/^leave now$/m);
$third->signal('INT');
$third->expect_event('left');
# Two of them have watches that nobody waits for: they end all the same.
$first->expect_verdict('sync', $t->scale eq 'small' ? 2000 : 20_000, $second, $third);
$t->done;
