#!/usr/bin/perl
# team_end.t - DMI_exit ends all calls of teams that wait, with DMI_EEND; a thread of a process that
# is dismissed joins no team.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/team_end_dmi.c');

for my $case (['exit', 7, 35], ['left', 5, 5]) {
  my ($what, $status, $least) = @$case;
  my @all = $t->start_in_order($program, 2, args => [$what], name => $what);
  if ($what eq 'left') {
    $all[0]->expect_out(qr/^leave$/m);
    $all[0]->signal('INT');
  }
  my ($checks, $failed) = $all[0]->expect_out(qr/^verdict team_end: (\d+) checks, (\d+) failed$/m);
  is($failed, 0, "$what: no check failed");
  cmp_ok($checks, '>', $least, "$what: checks were made ($checks)");
  $_->wait_exit($status) for @all;
  unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for @all;
}
$t->done;
