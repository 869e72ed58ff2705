#!/usr/bin/perl
# letters.t - DMI_wake_with and DMI_suspend_with: threads of three processes write to each other;
# DMI_exit ends waiting.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 100, wait => 60);
my $program = $t->compile('test/multi/letters_dmi.c');

sub begin {
  my @all = $t->start($program, args => [3, @_]);
  push @all, $t->start($program, join => $all[0]) for 2 .. 3;
  return @all;
}

{
  my @all = begin();
  $all[0]->expect_verdict('letters', 500, @all[1, 2]);
}
{
  my @all = begin('exit');
  $all[0]->expect_out(qr/^verdict letters: \d+ checks, 0 failed$/m);
  $_->wait_exit(3) for @all;
}
$t->done;
