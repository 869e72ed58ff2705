#!/usr/bin/perl
# tree.t - a page that k processes read after one write costs its owner at most ceil(log2(k + 1))
# transfers, for every k from 1 to 8, and the whole program exactly k.  By TCP: within a host that
# has shared memory the owner sends to all (delegate_test).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $readers = { small => $ENV{DMI_TEST_NODES} ? 2 : 4, soak => 15 }->{ $ENV{DMI_TEST_SCALE} // '' } // 8;
my $t = DMITest->new(timeout => 100, wait => 60);
my $program = $t->compile('test/multi/tree_dmi.c');
my @opts = $t->nodes ? () : (opts => ['--no-shm']);    # nodes of one process have none
my $first = $t->start($program, @opts, args => [$readers], name => 'writer');
my @others = map { $t->start($program, @opts, join => $first, name => "reader $_") } 1 .. $readers;
$first->expect_verdict('tree', 100, @others);
note($first->out);
$t->done;
