#!/usr/bin/perl
# web.t - what dmirun --web makes of the answers of all processes: what its page gets, metrics, and how
# often it looks.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Json;
use DMI::Look;
use DMI::Web;
use DMI::Web::Metrics;
use DMI::Web::Pace;
use DMI::Web::State;
use JSON::PP ();
use Test::More;

sub process { return { pid => 1, state => 'member', now => 20, since => 10, cores => 2, threads => 1, bytes_in => 3, bytes_out => 4, faults => 5,
    pool => { limit => 100, used => 10, peak => 20, copies => 1, spilled => 0, tables => 7 }, @_ } }
sub member { my ($uid, %more) = @_; return { member => $uid, process => $uid - 1, host => "h$uid", state => 'member', cores => 2, process_now => process(),
    threads => [], locks => [], barriers => [], %more } }
sub all { return { time => 30, objects => {}, mappings => [], members => [@_] } }

# ---- How often ---------------------------------------------------------------------------------

{
  my $pace = DMI::Web::Pace->new(share => 0.005, least => 1);
  my ($now, $spent, $looks) = (0, 0, 0);
  is($pace->next, 0, 'the first look is at once');
  for my $cost (0.001, 0.002, 0.02, 0.04, 0.001, 0.3, 0.001) {
    my $at = $now > $pace->next ? $now : $pace->next;
    $pace->took($at, $cost);
    $spent += $cost;
    $now = $at;
  }
  cmp_ok($spent, '<=', 0.005 * $pace->next, 'looking takes no more than its share, however much a look costs');
  $pace->took(100, 0.0001);
  is($pace->next, 101, 'and is not done more often than is of use');
  $pace->hurry;
  is($pace->next, 0, 'somebody has begun to look: at once');
}

# ---- The page ----------------------------------------------------------------------------------

{
  my $all = all(member(1, coordinator => JSON::PP::true, pid => 4711), member(2, pid => 4712, process_now => undef, silent => JSON::PP::true, host => "a\x01b"));
  my $event = DMI::Web::State::members($all, 1.26);
  is($event->{seconds}, 1.3, 'members: when they are told again');
  my ($first, $second) = @{ $event->{members} };
  is_deeply([@$first{qw(process state first since bytes_in)}, $first->{pool}{used}], [0, 'member', 1, 10, 3, 10], 'a member with its counters');
  is_deeply([@$second{qw(state host first pool)}], ['silent', 'a?b', 0, undef], 'and one that gives no answer');
  is_deeply([map { $_->{pid} } $first, $second], [4711, 4712], 'both with their pids, which are told when they join');
  unlike(DMI::Json::encode($event), qr/\n/, 'an event is one line');
  ok(!exists $event->{program}, 'no program is named if none is known');
  $event = DMI::Web::State::members({ %$all, program => "./p\x{1b} 1", asked_at => 'h1:7881' }, 1);
  is_deeply([@$event{qw(program asked_at)}], ['./p? 1', 'h1:7881'], 'the program, and where it was asked');
}
{
  my $thread = sub { my ($number, $waits, %more) = @_; return { thread => $number, number => $number, who => 'dmi', tid => $number, state => 'S', call => 'DMI_call',
      place => 'p.c:1 (f)', $waits ? (waits => $waits, ns => 5e9, addr => '0xa', size => 8, op => "op$number") : (), %more } };
  my @members = (
    member(1, threads => [$thread->(1, 'lock', addr => '0xb'), $thread->(2), $thread->(3, undef, state => 'R'), $thread->(4, undef, who => 'other', call => undef)],
      locks => [{ lock => '0xa', thread => 1, op => 'x', call => 'DMI_mutex_lock', place => 'p.c:9 (f)' }]),
    member(2, threads => [$thread->(1, 'lock')], locks => [{ lock => '0xb', thread => 1, op => 'y', call => 'DMI_mutex_lock', place => 'p.c:9 (f)' }]));
  my $event = DMI::Web::State::threads({ %{ all(@members) }, mappings => [{ mapping => '0x100', page_size => 8, pages => 2, home => 1, of => { 1 => { owned => 1, copies => 0 } } }] }, 2);
  is(join(' ', map { "$_->{thread}:$_->{state}" } map { { %$_, thread => $_->{thread} =~ s/ /./r } } @{ $event->{threads} }), '1.1:lock 1.2:outside 1.3:computes 2.1:lock', 'threads: what each does; not those that never called DMI');
  is_deeply($event->{traffic}, [], 'traffic between processes: only if it was asked for');
  $members[0]{peers} = [{ member => 1, bytes_out => 0 }, { member => 2, bytes_out => 17 }];
  is_deeply(DMI::Web::State::threads(all(@members), 2)->{traffic}, [{ member => 1, out => { 1 => 0, 2 => 17 } }], 'and then what each sends to each');
  like($event->{threads}[0]{waits}, qr/^for the lock at 0xb, held by thread 1 of process 1 \(h2\)/, 'for whom it waits, in the words of --threads');
  is(scalar @{ $event->{deadlocks} }, 1, 'the deadlock');
  is($event->{deadlocks}[0]{why}, 'none of these threads can go on', 'what is wrong');
  like($event->{deadlocks}[0]{threads}[1], qr/^thread 1 of process 1 \(h2\), in DMI_call at p.c:1 \(f\), waits for the lock at 0xa/, 'with its threads');
  is_deeply($event->{mappings}, [{ mapping => '0x100', page_size => 8, pages => 2, home => 1, allocator => 0, made => '', of => { 1 => { owned => 1, copies => 0 } } }], 'mappings');
  is_deeply($event->{hot}, [], 'no hot pages');
  my %of = (mapping => '0x100', page_size => 8, pages => 2, home => 1, call => 'DMI_mmap', place => 'p.c:3 (f)', of => {});
  $members[0]{process_now} = process(faults_now => 50);
  @{ $members[0] }{qw(hot_of hot)} = ({ faults => 100 }, [{ mapping => '0x100', page => 1, faults => 100, surely => 90 }]);
  my %all = (%{ all(@members) }, mappings => [\%of]);
  $all{hottest} = [DMI::Look::hot_pages(\%all)];
  $event = DMI::Web::State::threads(\%all, 2);
  is($event->{mappings}[0]{made}, 'DMI_mmap at p.c:3 (f)', 'a mapping with the call that has made it');
  is_deeply($event->{hot}, [{ mapping => '0x100', page => 1, rate => 45, by => '0: 45', owner => '?' }], 'a hot page');
  is_deeply($event->{sharing}, [], 'which does not look like false sharing');
  $event = DMI::Web::State::threads({ %all, objects => { 'page 0x108' => { owner => 2, role => 'owner' } } }, 2);
  is($event->{hot}[0]{owner}, 1, 'with the process that owns it');
}

# Who is missing at a barrier is told once, of the first thread that waits there.
{
  my $waiting = sub { my ($number) = @_; return { thread => $number, number => $number, who => 'dmi', tid => $number, call => 'DMI_local_barrier_sync', place => 'p.c:1 (f)', waits => 'barrier', ns => 5e9, addr => '0xa', size => 4, op => "op$number" } };
  my @members = (member(1, threads => [map { $waiting->($_) } 1 .. 3], barriers => [map { { barrier => '0xa', thread => $_ } } 1 .. 3]),
    member(2, threads => [{ thread => 1, number => 1, who => 'dmi', tid => 1, call => 'DMI_read', place => 'p.c:2 (g)' }], barriers => [{ barrier => '0xa', thread => 1 }]));
  my $event = DMI::Web::State::threads({ %{ all(@members) }, objects => { 'barrier 0xa' => { arrived => 3, needed => 4, owner => 1 } } }, 2);
  is(scalar(grep { /still missing/ } map { $_->{waits} // '' } @{ $event->{threads} }), 1, 'who is still missing at a barrier: once');
  is($event->{threads}[2]{waits}, 'at the barrier at 0xa, as does thread 1 of process 0 (h1)', 'the others wait as that one');
}

# ---- Its end -----------------------------------------------------------------------------------

is_deeply([DMI::Web::_ended_text(good => 1, left => 0, status => 0)], ['the program has ended', 1], 'an orderly end is no failure');
is_deeply([DMI::Web::_ended_text(good => '', left => 0, status => 3)], ['the program has ended with status 3', 0], 'one with a status is');
is_deeply([DMI::Web::_ended_text(good => 1, left => 2, status => 0)], ['the process that was asked has left the program', 1], 'a process that has left');
is_deeply([DMI::Web::_ended_text(lost => 1)], [], 'one that was lost says nothing');

# ---- Metrics -----------------------------------------------------------------------------------

{
  my $text = DMI::Web::Metrics::text(all(member(1), member(2, process_now => undef, silent => 1), member(3, host => "a\"b\\c\nd", process_now => process(faults => 'nan'))));
  like($text, qr/^# HELP dmi_members .*\n# TYPE dmi_members gauge\ndmi_members 3$/m, 'metrics: help, type and figure');
  like($text, qr/^dmi_received_bytes_total\{process="0",member="1",host="h1"\} 3$/m, 'of a process');
  like($text, qr/^dmi_answers\{process="1",member="2",host="h2"\} 0$/m, 'one that gives no answer');
  unlike($text, qr/^dmi_cores\{process="1"/m, 'has no figures');
  like($text, qr/host="a\\"b\\\\c\\nd"\} 10$/m, 'labels are escaped');
  unlike($text, qr/nan/, 'what is no number is left out');
}
{
  my $thread = sub { my ($number, $call, $ns, $lock) = @_; return { thread => $number, number => $number, who => 'dmi', tid => $number, call => $call,
      defined $ns ? (waits => $lock ? 'lock' : 'page', ns => $ns, addr => $lock // '0x9', size => 8, op => "op$number") : () } };
  my $lock = sub { my ($lock, $number) = @_; return { lock => $lock, thread => $number, op => 'x', call => 'DMI_mutex_lock', place => 'p.c:9 (f)' } };
  my @members = (
    member(1, threads => [$thread->(1, 'DMI_mutex_lock', 5e9, '0xb'), $thread->(2, 'DMI_read', 7_250_000_000), $thread->(3, 'DMI_read', 1e6), $thread->(4, 'DMI_poll')], locks => [$lock->('0xa', 1)]),
    member(2, threads => [$thread->(1, "DMI_\x01\"", 1e9, '0xa')], locks => [$lock->('0xb', 1)]),
    member(3, threads => [$thread->(1, 'DMI_read')]),
    member(4, process_now => undef, silent => 1, threads => undef));
  my $text = DMI::Web::Metrics::text(all(@members));
  my @lines = $text =~ /^(dmi_(?:threads_waiting|longest_wait_seconds|deadlocks)\b.*)$/mg;
  my $of = sub { my ($uid) = @_; return 'process="' . ($uid - 1) . qq(",member="$uid",host="h$uid") };
  is_deeply(\@lines, [
    'dmi_threads_waiting{' . $of->(1) . ',call="DMI_mutex_lock"} 1', 'dmi_threads_waiting{' . $of->(1) . ',call="DMI_read"} 2',
    'dmi_threads_waiting{' . $of->(2) . ',call="DMI_?\""} 1',
    'dmi_longest_wait_seconds{' . $of->(1) . '} 7.250', 'dmi_longest_wait_seconds{' . $of->(2) . '} 1.000', 'dmi_longest_wait_seconds{' . $of->(3) . '} 0.000',
    'dmi_deadlocks 1'], 'waits: how many threads in each call, the longest, and a deadlock');
  $members[1]{locks} = [];
  like(DMI::Web::Metrics::text(all(@members)), qr/^dmi_deadlocks 0$/m, 'no deadlock');
  my $waiting = { thread => 1, number => 1, who => 'dmi', tid => 1, call => 'DMI_barrier', place => 'p.c:2 (g)', waits => 'barrier', ns => 5e9, addr => '0xa', size => 3, op => 'op' };
  my $never = { %{ all(member(1, threads => [$waiting], barriers => [{ barrier => '0xa', thread => 1 }])) }, objects => { 'barrier 0xa' => { arrived => 1, needed => 3, owner => 1 } } };
  like(DMI::Web::Metrics::text($never), qr/^dmi_deadlocks 1$/m, 'a barrier to which nobody is left who could come is one, too');
  is_deeply(DMI::Web::State::threads($never, 1)->{deadlocks}, [{ threads => [], why => 'nobody is left who could come to the barrier at 0xa: 1 of 3 have come, and all threads wait at barriers or for each other' }], 'also for the page');
}

done_testing();
