#!/usr/bin/perl
# heat.t - the example of read-write-sets gives what one process computes, while processes come and
# go: the second leaves, another one joins, then the first leaves, in which DMI_main runs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $program = $t->build . '/examples/rwset_heat';
my ($points, $steps) = $t->quick ? (500, 1000) : $t->scale eq 'small' ? (2000, 1000) : (4000, 2500);
my $first = $t->start($program, args => [$points, 7, $steps, 3], name => 'first');
my $second = $t->start($program, join => $first, name => 'second');
my $third = $t->start($program, join => $first, name => 'third');
$first->expect_out(qr/^50 steps, 3 processes$/m);
$second->signal('INT');
$first->expect_out(qr/ steps, 2 processes$/m);
my $fourth = $t->start($program, join => $third, name => 'fourth');
$first->expect_out(qr/ 2 processes\n.* 3 processes$/ms);
$first->signal('INT');
$first->expect_out(qr/^correct$/m);
is(scalar $first->events('left'), 1, 'the first process has been dismissed');
$_->wait_exit(0) for $first, $second, $third, $fourth;
$t->done;
