#!/usr/bin/perl
# hold.t - DMI_hold: the bytes are where the page's are, and stay as they were, whatever becomes of the page, also
# behind the end of the program.  DMI_try_read, DMI_try_write: only hits.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/hold_dmi.c');
my @all = $t->start_in_order($program, 2, args => [2]);
$all[0]->expect_verdict('hold', 30, @all);
$t->done;
