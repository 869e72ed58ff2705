#!/usr/bin/perl
# huge.t - a page of more than 4 GiB: small accesses around 2^31 and 2^32; in the long form it is
# filled, copied, updated and given away as a whole.  2^30 pages of 8 bytes cost nothing until they
# are touched.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my $t = DMITest->new(timeout => $soak ? 600 : 60, wait => $soak ? 500 : 50);
my $program = $t->compile('test/multi/huge_dmi.c');
my %how = (args => [$soak ? 'whole' : ()], opts => [-s => '16G']);
my $first = $t->start($program, %how, name => 'first');
my $second = $t->start($program, %how, join => $first, name => 'second');
$first->expect_verdict('huge', 100, $second);
$t->done;
