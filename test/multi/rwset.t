#!/usr/bin/perl
# rwset.t - read-write-sets: values, one request a neighbour, wrong sets, domains that move to another
# process, while one leaves and another joins.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60, wait => 50);
my $program = $t->compile('test/multi/rwset_dmi.c');
my $first = $t->start($program, name => 'first');
my $second = $t->start($program, join => $first, name => 'second');
$second->expect_err(qr/=== opened ===/);    # so that the third is the one that leaves
my $third = $t->start($program, join => $first, name => 'third');
$first->expect_out(qr/^leave now$/m);
$third->signal('INT');
$first->expect_out(qr/^join now$/m);
my $fourth = $t->start($program, join => $second, name => 'fourth');
my ($checks, $failed) = $first->expect_out(qr/^verdict rwset: (\d+) checks, (\d+) failed$/m);
is($failed, 0, 'no check failed');
cmp_ok($checks, '>', 200, "checks were made ($checks)");
$_->wait_exit(0) for $first, $second, $third, $fourth;
unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing')
  for $first, $second, $third, $fourth;
$t->done;
