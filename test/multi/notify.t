#!/usr/bin/perl
# notify.t - DMI_notify: notes come to whoever polls, each once and in order, also when processes leave,
# and when the coordinator is lost.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/notify_dmi.c');

sub begin {
  my ($num, $args, @opts) = @_;
  return $t->start_in_order($program, $num, args => [$num, @$args], opts => \@opts);
}

{
  my @all = begin(4, []);
  $all[0]->expect_out(qr/^leave now$/m);
  $all[3]->signal('INT');
  $all[0]->expect_verdict('notify', 800, @all);
}

if (!DMITest::nodes()) {
  my @all = begin(5, ['lost'], '--survive', '--dead-after', 20);
  $all[0]->expect_out(qr/^leave now$/m);
  $all[0]->signal('INT');
  $all[0]->expect_out(qr/^kill now$/m);
  $t->wait_until(sub { $all[1]->events('coordinating') }, 'the second one is the coordinator');
  $all[1]->signal('KILL');
  $all[0]->expect_verdict('notify', 120, @all[2 .. 4]);
}
$t->done;
