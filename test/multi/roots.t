#!/usr/bin/perl
# roots.t - named roots: set and found by all processes, at the same time, later, and behind leaves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 60);
my $program = $t->compile('test/multi/roots_dmi.c');
my $first = $t->start($program, name => 'first');
my $second = $t->start($program, join => $first, name => 'second');
$first->expect_out(qr/^raced$/m);
$second->signal('INT');
$first->expect_out(qr/^one has left$/m);
my $third = $t->start($program, join => $first, name => 'third');
$first->expect_verdict('roots', 2, $third);
$second->wait_exit(0);
$t->done;
