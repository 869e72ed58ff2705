#!/usr/bin/perl
# idpool.t - pools of small numbers, by threads of several processes, and when one is killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/idpool_dmi.c');

sub begin {
  my ($num, $args, @opts) = @_;
  return $t->start_in_order($program, $num, args => [$num, @$args], opts => \@opts);
}

{
  my @all = begin(3, []);
  $all[0]->expect_verdict('idpool', 1500, @all);
}

if (!DMITest::nodes()) {
  my @all = begin(3, ['lost'], '--survive', '--dead-after', 20);
  $all[2]->expect_out(qr/^kill now$/m);
  $all[2]->signal('KILL');
  $all[0]->expect_verdict('idpool', 5, $all[1]);
}
$t->done;
