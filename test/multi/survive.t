#!/usr/bin/perl
# survive.t - processes are killed, and the program goes on (dmirun --survive).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMISurvivors;

my $t = DMITest->new(timeout => 300, wait => 30);

# Nobody is lost: all calls succeed, also those about pages of a process that leaves.
{
  my $s = DMISurvivors->new($t);
  $s->begin;
  $s->add for 1 .. 2;
  $s->go_on('three');
  $s->leave($s->{members}[1]);
  $s->finish;
  is($s->{elost} // 0, 0, 'nothing was lost');
  note("$s->{done} calls");
}

# The checks can fail: an addition that is done twice, words that go back, a worker that hangs.
for my $fault ([1, qr/^FAIL .*: slot \d+: worker \d+ has added/m], [2, qr/^FAIL .*goes back/m], [3]) {
  my ($number, $line) = @$fault;
  my $s = DMISurvivors->new($t);
  my ($p, $q) = ($s->begin, $s->add);
  $s->go_on('two');
  $s->have($p, fault => $number);
  if ($line) {
    $t->wait_until(sub { grep { $_->{process}->out =~ $line } $p, $q }, "fault $number is noticed");
    pass("fault $number is noticed");
  } else {
    my $all = $s->order($p, go => 2);
    $s->have($p, go => 1) for 1 .. 50;    # the other worker
    is($s->said($p, $all), undef, 'a worker that hangs is noticed');
  }
  $_->{process}->kill_now for $p, $q;
  $_->{process}->wait_exit(signal => 'KILL') for $p, $q;
}
$t->done;
