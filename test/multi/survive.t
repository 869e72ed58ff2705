#!/usr/bin/perl
# survive.t - processes are killed, stopped, and killed again while others recover; the program goes on
# (dmirun --survive).
#
#   survive.t [kills [ways]]    only ways that match; DMI_TEST_SEED chooses who is killed, and when
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMISurvivors;
use Time::HiRes qw(time);

my $soak = DMITest::scale() eq 'soak';
my $kills = shift // ($soak ? 1000 : DMITest::scale() eq 'small' ? 10 : 50);
my $ways = shift // '.';
my $seed = $ENV{DMI_TEST_SEED} // int(time);
srand $seed;

my $t = DMITest->new(timeout => 120 + 10 * $kills, wait => 40);
# Who is killed is known to be dead at once; a busy machine must not be taken for one.
my @survive = (opts => ['--survive', '--dead-after', 10]);

# Nobody is lost: all calls succeed, also those about pages of a process that leaves.
{
  my $s = DMISurvivors->new($t);
  $s->begin;
  $s->add for 1 .. 2;
  $s->go_on('three');
  $s->leave($s->{members}[1]);
  $s->finish;
  is($s->{elost} // 0, 0, 'nothing was lost');
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
  $t->kill_together(map { $_->{process} } $p, $q);
}

# ---- Whom, and when ----------------------------------------------------------------------------

# So many processes at least.
sub fill { my ($s, $num) = @_; $s->add while $s->members < $num }

# Until this process has reported the event.
sub happened {
  my ($p, $event) = @_;
  $t->wait_until(sub { $p->{process}->events($event) || !$p->{process}->running }, "$p->{process}{name}: $event");
}

sub views { my $num = 0; $num += $_->{process}->events('view') for @_; return $num }

# Those that may be killed: not DMI_main's process while DMI_main runs.
sub mortals { my ($s) = @_; my @all = $s->members; return $s->{main} ? @all[1 .. $#all] : @all }

# Each chooses whom to kill.
my %ways = (
  'the youngest' => sub { (mortals($_[0]))[-1] },
  'the oldest' => sub { (mortals($_[0]))[0] },    # the coordinator, when DMI_main has returned
  'any' => sub { my @all = mortals($_[0]); $all[rand @all] },
  'two at once' => sub { my @all = mortals($_[0]); (splice(@all, rand @all, 1), splice(@all, rand @all, 1)) },
);

# Kills one process, and another one as soon as somebody has taken the view without the first.
sub kill_in_recovery {
  my ($s) = @_;
  my @all = mortals($s);
  my $first = splice @all, rand @all, 1;
  my @others = $s->others($first);
  my $before = views(@others);
  $first->{process}->kill_now;
  $t->wait_until(sub { views(@others) > $before }, 'somebody has a view without it');
  $s->kill($first, $all[rand @all]);
}

# Kills a process that joins, in a certain phase.
sub kill_joiner {
  my ($s, $phase) = @_;
  my $p = $s->start(($s->members)[rand $s->members]);
  happened($p, $phase eq 'start' ? 'initialized' : 'joined');
  $s->open($p) if $phase eq 'open';
  $s->invite($p) if $phase eq 'welcome';
  $s->kill($p);
}

# Kills a process that leaves, in a certain phase.
sub kill_leaver {
  my ($s, $phase) = @_;
  my $p = ($s->members)[-1];
  my ($by) = $s->others($p);
  if ($phase ne 'asks') {
    asks_to_leave($s, $p, $by);
    $p->{goodbye} = [$by, $phase eq 'goodbye' ? $s->order($by, goodbye => $p->{id}) : $s->goodbye($p, $by)];
  } else {
    $p->{process}->signal('INT');
  }
  $s->kill($p);
}

sub asks_to_leave {
  my ($s, $p, $by) = @_;
  $p->{process}->signal('INT');
  $s->notice('close', $by);
  $s->empty($p);
}

# Until all its threads have stopped.
sub stop { $_[0]{process}->stop }

# The coordinator leaves, and the next oldest process, which takes over its homes and pages, is stopped, so
# that the leave stays at that: returns both, the one that has called DMI_goodbye, and the number of that
# call's answer.
sub held_leave {
  my ($s) = @_;
  my ($p, $heir, @rest) = $s->members;
  my $by = $rest[-1];
  asks_to_leave($s, $p, $by);
  stop($heir);
  my $order = $s->goodbye($p, $by);
  my ($event) = $p->{process}->events('dismissed');
  my ($joined) = $heir->{process}->events('joined');
  $t->fail_now('the oldest takes its pages over') if $event->{heir} != $joined->{member};
  return ($p, $heir, $by, $order);
}

# The process that takes over is killed, and the other one leaves all the same.
sub kill_heir {
  my ($s) = @_;
  my ($p, $heir, $by, $order) = held_leave($s);
  $s->{members} = [$s->others($p)];
  $s->kill($heir);
  like($s->answer($by, $order, 'goodbye'), qr/^ok/, 'it leaves without its first heir');
  $s->has_left($p, $by);
}

# Or the one that leaves is, while it gives its homes and pages away.
sub kill_giver {
  my ($s) = @_;
  my ($p, $heir, $by, $order) = held_leave($s);
  $p->{goodbye} = [$by, $order];
  $p->{process}->kill_now;
  $heir->{process}->signal('CONT');
  $s->survive($p);
}

# ---- kill -9 -----------------------------------------------------------------------------------

my @plan = (
  (map { [$_ => $ways{$_}] } 'the youngest', 'the oldest', 'any', 'two at once'),
  ['one more during recovery' => \&kill_in_recovery],
  (map { my $phase = $_; ["a joiner ($phase)" => sub { kill_joiner($_[0], $phase) }] } qw(start joined open welcome)),
  (map { my $phase = $_; ["a leaver ($phase)" => sub { kill_leaver($_[0], $phase) }] } qw(asks goodbye dismissed)),
  ['the heir of a leaver' => \&kill_heir, 'coordinator'],
  ['a leaver that gives homes away' => \&kill_giver, 'coordinator'],
);

@plan = grep { $_->[0] =~ /$ways/ } @plan;

# In turn, so that each comes; in the long form in any order.
sub run {
  my ($num, @first) = @_;
  my $s = DMISurvivors->new($t, @survive);
  my @plan = grep { !@first || !$_->[2] } @plan;    # with DMI_main its process is the coordinator
  return unless @plan;
  $s->begin(@first);
  $s->{main} = @first;
  my $turn = 0;
  while ($s->{kills} < $num) {
    fill($s, $soak ? 4 + int rand 5 : 4);
    my ($what, $how) = @{ $plan[$soak ? rand @plan : $turn++ % @plan] };
    my $before = $s->{kills};
    note("kill $before: $what");
    # A mapping that only lost processes know is gone (docs/crashes.md), so others use the newest first.
    $s->go_on('before a coordinator is killed') if !@first;
    $t->_pump(rand 0.05) if rand() < 0.5;
    my @victims = $how->($s);
    $s->kill(@victims) if $s->{kills} == $before && $what !~ /joiner|leaver|recovery/;
  }
  $s->finish;
  my @took = sort { $a <=> $b } @{ $s->{took} };
  note(sprintf '%d kills, seed %d: %d calls, %d of them lost something; pages kept %d, renewed %d; '
    . 'all went on after %.2f s (median), %.2f s at most', $s->{kills}, $seed, $s->{done}, $s->{elost} // 0,
    $s->{kept} // 0, $s->{renewed} // 0, $took[@took / 2], $took[-1]);
}

# ---- Stopped -----------------------------------------------------------------------------------

# How many members the newest view has that this process has taken.
sub members_of { my ($p) = @_; my @views = $p->{process}->events('view'); return $views[-1]{members} }

# The words of its workers in all slots, as another process reads them; those that are lost are left out.
sub words_of {
  my ($s, $p, $by) = @_;
  my %word;
  for my $slot (sort keys %{ $s->{slots} }) {
    for my $number (map { $_->{number} } @{ $p->{workers} }) {
      my $answer = $s->answer($by, $s->order($by, word => $slot, $number), 'word') // 'nothing';
      $word{"$slot/$number"} = $1 if $answer =~ /^ok (\d+)/;
    }
  }
  return \%word;
}

# Stopped for a third of --dead-after, nobody is removed.  Stopped for longer, it is removed; it ends
# with a line when it goes on, and what it does until then changes nothing.
sub stopped {
  my $after = $ENV{DMI_TEST_SLOW} // 1;
  my $s = DMISurvivors->new($t, opts => ['--survive', '--dead-after', $after]);
  $s->begin('main');
  $s->add for 2 .. 4;
  $s->go_on('four');
  my $p = ($s->members)[2];
  my $views = views($s->members);
  my $by = ($s->others($p))[0];
  my $before = words_of($s, $p, $by);
  stop($p);
  my $until = time + 0.3 * $after;
  while (time < $until) { $t->_pump($until - time) }
  $p->{process}->signal('CONT');
  $s->go_on('after a short stop');
  is(views($s->members), $views, 'a short stop removes nobody');
  my $after_stop = words_of($s, $p, $by);
  is(scalar(grep { $after_stop->{$_} == $before->{$_} } keys %$before), 0, 'it has added to all its words since');

  stop($p);
  my @others = $s->others($p);
  $t->wait_until(sub { !grep { members_of($_) > 3 } @others }, 'all have a view without it');
  $s->{members} = \@others;
  $s->go_on('while it is stopped');
  my $left = words_of($s, $p, $by);
  cmp_ok(scalar keys %$left, '>', 2, 'some of the pages that it wrote are there');
  $p->{process}->signal('CONT');
  $p->{process}->expect_err(qr/^dmi: .*(?:this process ends|have lost this process)/m);
  $p->{process}->wait_exit(1);
  $s->go_on('when it has ended');
  is_deeply(words_of($s, $p, $by), $left, 'what it did when it woke up has changed nothing');
  $s->survive($p);
  $s->finish;
}

# DMI_main runs on in the first process; or it has returned, and the coordinator may be killed.
run($kills, 'main');
run($soak ? $kills : DMITest::scale() eq 'small' ? 5 : 2 * @plan);
stopped() if 'stopped' =~ /$ways/;
$t->done;
