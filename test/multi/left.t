#!/usr/bin/perl
# left.t - a process that has left may be lost: kill -9 as soon as it says so, and the program goes on,
# with every count exact.
#
# A worker; the first process, which is home, coordinator and heir, when DMI_main has returned, and
# when it runs on; both at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $rounds = $scale eq 'soak' ? 100 : $scale eq 'small' ? 1 : 5;
my $t = DMITest->new(timeout => $scale eq 'soak' ? 3000 : 110, wait => 40);
my $program = $t->compile('test/multi/left_dmi.c');

# Asks these to leave; as soon as one of them says that it has left, it is killed.
sub leave_and_kill {
  my @them = @_;
  $_->signal('INT') for @them;
  for my $process (@them) {
    $process->expect_event('left');
    $process->kill_now;
  }
}

for my $round (1 .. $rounds) {
  for my $main (qw(returns goes_on)) {
    for my $together (0, 1) {
      my $name = "$main $round" . ($together ? ' together' : '');
      my $first = $t->start($program, args => [$main], name => "$name: first");
      my $manager = $t->start($program, join => $first, name => "$name: manager");
      $manager->expect_out(qr/^works in 0$/m);
      my @workers =
        map { $t->start($program, join => $_, name => "$name: worker") } $first, $manager;
      $manager->expect_out(qr/^works in [23]$/m) for @workers;
      if ($together) {
        leave_and_kill($workers[0], $first);
      } else {
        leave_and_kill($workers[0]);
        $first->signal('INT');
        $first->expect_event('left');
        if ($main eq 'goes_on') {    # and uses all that it used before
          my $lines = () = $first->out =~ /^main goes on$/mg;
          $t->wait_until(sub { (() = $first->out =~ /^main goes on$/mg) > $lines + 5 },
            "$name: DMI_main goes on after having left");
          $first->signal('INT');
          like(
            scalar $first->expect_err(qr/^dmi: (still here.*)$/m),
            qr/DMI_main still runs.*the next Ctrl\+C ends only this process/,
            "$name: another Ctrl+C would do no harm, it says");
        }
        $first->kill_now;
      }
      # The program has gone on: one more process joins, works, and the counts are right.
      my $last = $t->start($program, join => $manager, name => "$name: last");
      $manager->expect_out(qr/^works in 0$/m);
      $manager->signal('INT');
      is(scalar $manager->expect_out(qr/^verdict left: \d+ checks, (\d+) failed$/m), 0,
        "$name: every count is exact");
      $_->wait_exit(0) for $manager, $workers[1], $last;
      my $lost = qr/^dmi: lost process 0 .*had left the program, and with it DMI_main/m;
      if ($main eq 'goes_on') {
        like($_->err, $lost, $_->name . ' says what was lost') for $manager, $workers[1];
      } else {
        is(join("\n", grep { /^dmi:/ } $_->complaints), '', $_->name . ' says nothing') for $manager, $workers[1];
      }
      unlike($_->out, qr/FAIL/, $_->name . ' complains of nothing') for $first, $manager;
    }
  }
}
$t->done;
