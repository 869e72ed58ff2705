#!/usr/bin/perl
# threads.t - DMI threads over three processes: results exact, also where the process left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 40);
my $program = $t->compile('test/multi/threads_dmi.c');

my ($first, @others) = $t->start_changing($program);
$first->expect_verdict('threads', $t->nodes ? 300 : $t->scale eq 'small' ? 400 : 4000, @others);
is(scalar $others[1]->events('left'), 1, 'the third has left');
$t->done;
