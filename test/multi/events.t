#!/usr/bin/perl
# events.t - what processes tell a launcher (DMI_EVENT_FD): lines of JSON, in an order that makes
# sense, the same life as on stderr; what one gives another takes; a reader that reads nothing costs
# the process nothing, and is told how much it has missed.
use strict;
use warnings;
use Fcntl qw(F_SETFD);
use FindBin;
use IO::Handle;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP ();

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/events_dmi.c');

# Three processes; the second leaves.  Options as for start, `second` those of that one; `at_leave` is
# called before it is asked to.
sub run {
  my ($rounds, %opt) = @_;
  my %own = map { $_ => delete $opt{$_} } qw(second at_leave);
  my $first = $t->start($program, args => [$rounds], %opt);
  my $second = $t->start($program, join => $first, %opt, %{ $own{second} // {} });
  $second->expect_err(qr/^=== opened ===$/m);
  my $third = $t->start($program, join => $first, %opt);
  $first->expect_out(qr/^leave now$/m);
  $own{at_leave}->() if $own{at_leave};
  $second->signal('INT');
  $first->expect_verdict('events', 2, $second, $third);
  return ($first, $second, $third);
}

# Names of events, those of its life.
my %life = map { $_ => 1 } qw(listening initialized joined opened closed dismissed left finalized);
sub life { return join ' ', map { $_->{event} } grep { $life{ $_->{event} } } @_ }

# ---- All that happens --------------------------------------------------------------------------

my @all = run(10, env => { DMI_EVENT_LEVEL => 'debug' });
my ($first, $second, $third) = @all;
my (%member, %given, %taken);
for my $process (@all) {
  my $name = $process->name;
  my @events = $process->events;    # all lines are JSON, or this dies
  my ($joined) = $process->events('joined');
  $member{$process} = $joined->{member};
  my ($wrong, $last) = (0, 0);
  my $is;
  for my $event (@events) {
    $is = $event->{id} if $event->{event} eq 'joined';
    $wrong++ if $event->{pid} != $process->pid || $event->{time} < $last
      || ($event->{process} // 'none') ne ($is // 'none');
    $last = $event->{time};
  }
  is($wrong, 0, "$name: each event says who and when");
  my @shown = $process->err =~ /^=== (\w+) ===$/mg;
  is(join(' ', @shown), life(@events) =~ s/listening |dismissed //gr, "$name: the same as on stderr");
  is(scalar $process->events('lost'), 0, "$name: nothing is lost");

  my @views = map { $_->{view} } $process->events('view');
  is_deeply(\@views, [sort { $a <=> $b } @views], "$name: views follow one another");
  cmp_ok(scalar @views, '>=', 1, "$name: there are some");
  for my $event ($process->events('page_given')) {
    $given{"$event->{mapping} $event->{page} $event->{bytes} $joined->{member} $event->{to}"}++;
  }
  for my $event ($process->events('page_taken')) {
    $taken{"$event->{mapping} $event->{page} $event->{bytes} $event->{from} $joined->{member}"}++;
  }
}
is(life($second->events), 'listening initialized joined opened closed dismissed left finalized',
  'the life of one that leaves');
is(life($third->events), 'listening initialized joined opened finalized', 'and of one that stays');
is_deeply(\%given, \%taken, 'what is given to a process, that one takes');
cmp_ok(scalar(grep { /^\S+ 0 8 / } keys %given), '>=', 2, 'a page went to and fro');
my ($left) = $first->events('member_left');
is($left->{member}, $member{$second}, 'the first process is told who has left');
my ($dismissed) = $second->events('dismissed');
is($dismissed->{heir}, $left->{heir}, 'and both who has taken over');
is(scalar $first->events('lock_taken'), 10, 'each lock is told');
is(scalar $second->events('thread_begun'), 1, 'each thread');
ok((grep { $_->{member} == $member{$third} } $second->events('member_joined')), 'each member');
ok($first->events('unmapped'), 'each mapping that is freed');
ok($first->events('coordinating') && !$third->events('coordinating'), 'and who coordinates');

# ---- Less --------------------------------------------------------------------------------------

@all = run(10);
ok((!grep { $_->events('page_given') } @all), 'not asked for: not told');
ok((!grep { !$_->events('view') } @all), 'views are, always');
if (!$t->nodes) {    # which have one each
  (undef, $second) = run(10, second => { env => { DMI_EVENT_FD => undef } });
  is(scalar $second->events, 0, 'no descriptor, no events');
}

# ---- Pages that nobody can take ----------------------------------------------------------------

$first = $t->start($program, args => ['keeps']);
$second = $t->start($program, join => $first);
$first->expect_out(qr/^leave now$/m);
$first->signal('INT');
my $keeps = $first->expect_event('keeps_pages');
cmp_ok($keeps->{pages}, '>', 0, 'one that leaves says that it keeps pages');
$first->expect_err(qr/^dmi: no other process can take the pages of this one now \($keeps->{pages}\): it keeps .*\n=== left ===$/m);
$first->expect_verdict('events', 2, $second);

# ---- A slow reader -----------------------------------------------------------------------------

if ($t->nodes) {
  $t->done;
  exit;
}
pipe my $reader, my $writer or die;
$_->blocking(0) for $reader;
fcntl $writer, F_SETFD, 0;
my $text = '';
my $take = sub { 1 while sysread $reader, $text, 65536, length $text };
my $env = { DMI_EVENT_FD => fileno $writer, DMI_EVENT_LEVEL => 'debug' };
@all = run(3000, second => { env => $env }, at_leave => $take);
close $writer;
$take->();
my @told = map { JSON::PP::decode_json($_) } split /\n/, $text;
cmp_ok(scalar @told, '>', 100, 'a reader that comes late finds what there was room for');
is(life(@told), 'listening initialized joined opened closed dismissed left finalized', 'and what came then');
my @lost = grep { $_->{event} eq 'lost' } @told;
is(scalar @lost, 1, 'in between it is told once') or diag(scalar @lost);
cmp_ok($lost[0]{count} // 0, '>', 100, 'how much it has missed');
$t->done;
