#!/usr/bin/perl
# survive_cut.t - hosts are cut off from each other, one way or both, for a while or for good: at most
# one side goes on, the other ends with a line (dmirun --survive).
#
#   survive_cut.t [cuts]     DMI_TEST_SEED chooses who is cut off
#
# Takes long: ten cuts, one after the other.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMICluster;
use DMISurvivors;
use Time::HiRes qw(time);

if (my $why = DMICluster::missing()) { plan(skip_all => $why) }

my $cuts = shift // (DMITest::scale() eq 'soak' ? 200 : DMITest::scale() eq 'small' ? 5 : 10);
my $seed = $ENV{DMI_TEST_SEED} // int(time);
srand $seed;
my $after = ($ENV{DMI_TEST_SLOW} // 1) > 1 ? 3 : 1;    # --dead-after

my $t = DMITest->new(timeout => 120 + 20 * $cuts, wait => 40);
my $cluster = DMICluster->with_networks($t, hosts => 4);

my $dmirun = $t->build . '/bin/dmirun';
my @opts = ('-l', 0, '--survive', '--dead-after', $after);
my ($s, @free);    # hosts without a process

# A process on the next free host.
sub start_on {
  my ($name, $join, $args, $stdin) = @_;
  my $host = shift @free;
  my @join = $join ? (-i => $cluster->address($join->{host}), -p => $join->{process}->port) : ();
  my $process = $t->spawn([$cluster->on($host, $dmirun, @opts, @join, $s->{program}, @$args)],
    name => "$name ($host)", stdin => $stdin);
  return ($process, host => $host);
}

sub fill { $s->add while @free }

# The ways between these hosts and all others.
sub ways {
  my (@hosts) = @_;
  my %in = map { $_ => 1 } @hosts;
  return map { my $out = $_; map { [$_, $out] } @hosts } grep { !$in{$_} } $cluster->names;
}

sub members_of { my ($p) = @_; my @views = $p->{process}->events('view'); return $views[-1]{members} }

# Nobody may be removed by what takes a third of --dead-after.  On a busy machine the cut may end late;
# if it took too long, somebody may be removed, as by any other cut.
sub short {
  my (@ways) = @_;
  my @before = map { scalar $_->{process}->events('view') } $s->members;
  my $begin = time;
  $cluster->cut_way(@$_) for @ways;
  while (time < $begin + $after / 3) { $t->_pump($begin + $after / 3 - time) }
  $cluster->mend_way(@$_) for @ways;
  my $took = time - $begin;
  my @orders = map { [$_, $s->order($_, go => scalar @{ $_->{workers} })] } $s->members;
  $s->answer(@$_, 'go, after a short cut') for @orders;    # or it has ended
  my @gone = grep { !$_->{process}->running } $s->members;
  if (@gone && $took > 0.5 * $after) {
    note(sprintf 'this cut took %.2f s', $took);
    return ends(@gone);
  }
  is(scalar @gone, 0, sprintf('nobody ends after a cut of %.2f s', $took)) or $t->fail_now('all go on');
  is_deeply([map { scalar $_->{process}->events('view') } $s->members], \@before, 'a short cut removes nobody');
}

# These members are cut off: the others go on, and they end with a line.  On their side nobody goes on
# meanwhile: no worker there gets to all slots again.
sub cut_off {
  my (@lost) = @_;
  my @ways = map { ($_, [reverse @$_]) } ways(map { $_->{host} } @lost);
  $cluster->cut_way(@$_) for @ways;
  my @orders = map { [$_, $s->order($_, go => 1)] } @lost;
  ends(@lost);
  is($s->said(@$_), undef, "$_->[0]{process}{name} has not gone on") for @orders;
  $cluster->mend_way(@$_) for @ways;
}

sub ends {
  my (@lost) = @_;
  my $rest = $s->members - @lost;
  my @others = $s->others(@lost);
  $t->wait_until(sub { !grep { members_of($_) > $rest } @others }, 'the others have a view without them');
  $_->{process}->expect_err(qr/^dmi: .*(?:this process ends|have lost this process)/m) for @lost;
  $_->{process}->wait_exit(1) for @lost;
  $s->survive(@lost);
  push @free, map { $_->{host} } @lost;
}

# One way only, for good: one of the two is removed, never the process of DMI_main.
sub one_way {
  my ($from, $to) = @_;
  $cluster->cut_way($from->{host}, $to->{host});
  my $ended = $t->wait_until(sub { (grep { !$_->{process}->running } $s->members)[0] }, 'one of them ends');
  ok((grep { $_ == $ended } $from, $to), 'it is one of the two');
  isnt($ended, ($s->members)[0], 'and not the process of DMI_main');
  ends($ended);
  $cluster->mend_way($from->{host}, $to->{host});
}

my @plan = (
  ['one is cut off' => sub { cut_off(($s->members)[1 + rand($s->members - 1)]) }],
  ['a short cut, one way' => sub { my @m = $s->members; short([$m[1]{host}, $m[0]{host}]) }],
  ['one way, to the coordinator' => sub { my @m = $s->members; one_way($m[1 + rand $#m], $m[0]) }],
  ['half of them' => sub { my @m = $s->members; cut_off(@m[2, 3]) }],
  ['one way, from the coordinator' => sub { my @m = $s->members; one_way($m[0], $m[1 + rand $#m]) }],
  ['a short cut, both ways' => sub { my @m = $s->members; short([$m[2]{host}, $m[0]{host}], [$m[0]{host}, $m[2]{host}]) }],
  ['one way, between two others' => sub { my @m = $s->members; one_way(@m[1, 2]) }],
);

@free = $cluster->names;
$s = DMISurvivors->new($t, start => \&start_on);
$s->begin('main');
for my $cut (0 .. $cuts - 1) {
  fill();
  my ($what, $how) = @{ $plan[$cut % @plan] };
  note("cut $cut: $what");
  $s->go_on("before cut $cut");
  $how->();
}
$s->finish;
note(sprintf '%d cuts, seed %d: %d calls, %d of them lost something', $cuts, $seed, $s->{done}, $s->{elost} // 0);
$cluster->stop;
$t->done;
