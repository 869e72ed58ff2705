#!/usr/bin/perl
# exit.t - DMI_exit: whoever calls it, all processes end in order, with its status; calls that wait end
# with DMI_EEND.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/exit_dmi.c');

sub begin {
  my ($what, $num, @opts) = @_;
  return $t->start_in_order($program, $num, args => [$what, $num], name => $what, opts => \@opts);
}

sub end_well {
  my ($status, @all) = @_;
  $_->wait_exit($status) for @all;
  for my $process (@all) {
    is(($process->events('stopping'))[0]{status}, $status, $process->name . ' knows the status');
    is(scalar $process->events('finalized'), 1, $process->name . ' ended in order');
    unlike($process->out, qr/^FAIL/m, $process->name . ' complains of nothing');
  }
}

sub no_check_failed {
  my ($process, $least) = @_;
  my ($checks, $failed) = $process->expect_out(qr/^verdict exit: (\d+) checks, (\d+) failed$/m);
  is($failed, 0, 'no check failed');
  cmp_ok($checks, '>', $least, "checks were made ($checks)");
}

for my $opts ([], ['--survive', '--dead-after', 20]) {
  my @all = begin('waits', 3, @$opts);
  no_check_failed($all[0], 60);
  end_well(7, @all);
}

{
  my ($first) = begin('main', 1);
  no_check_failed($first, 4);
  end_well(3, $first);
}

{
  my @all = begin('left', 2);
  $all[0]->expect_out(qr/^leave now$/m);
  $all[0]->signal('INT');
  no_check_failed($all[0], 2);
  end_well(5, @all);
}

{
  my @all = begin('goodbye', 3);
  $all[0]->expect_out(qr/^leave now$/m);
  $all[2]->signal('INT');
  no_check_failed($all[0], 3);
  $_->wait_exit(4) for @all[0, 1];
  $t->wait_until(sub { $all[2]->_ended }, 'the leaver ends');
  like($all[2]->_how_ended, qr/status [04]$/, 'the leaver ends in order, before or with the program');
  $all[2]{judged} = 1;
}

# DMI_main is lost behind DMI_exit: that changes nothing, also if there is a DMI_recover.
if (!DMITest::nodes()) {
  my @all = begin('hangs', 3, '--survive', '--dead-after', 20);
  $all[0]->expect_out(qr/^ending$/m);
  my $late = $t->start($program, join => $all[1], name => 'late');
  $late->wait_exit(1);
  like($late->err, qr/that program is ending/, 'nobody joins any more');
  $all[0]->signal('KILL');
  end_well(9, @all[1, 2]);
}
$t->done;
