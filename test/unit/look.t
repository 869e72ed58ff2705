#!/usr/bin/perl
# look.t - what dmirun --threads makes of the answers of all processes: who holds a lock, who has not
# come to a barrier, which circles are deadlocks; and answers that make no sense do no harm.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Look;
use DMI::LookText;
use DMI::Waits;
use Test::More;

# A thread: its number, what it waits for, further fields.
sub thread {
  my ($number, $waits, %more) = @_;
  my %wait = $waits ? (waits => $waits, ns => 2.5e9, addr => '0x10', size => 16, hint => 1, role => 'none', op => "op$number") : ();
  return { thread => $number, number => $number, who => 'dmi', tid => 100 + $number, state => 'S',
    call => 'DMI_call', place => "p.c:$number (f)", %wait, %more };
}
sub held { my ($lock, $thread) = @_; return { lock => $lock, thread => $thread, op => "by$thread", call => 'DMI_mutex_lock', place => 'p.c:9 (f)' } }
sub member {
  my ($uid, %more) = @_;
  return { member => $uid, process => $uid - 1, host => "h$uid", threads => [], locks => [], barriers => [], %more };
}
sub circles {
  my (%all) = @_;
  my $waits = DMI::Waits->new({ objects => {}, %all });
  return join ' | ', map { join ' ', map { "$_->{member}.$_->{thread}" } @$_ } $waits->circles;
}

# ---- Which program ------------------------------------------------------------------------------

{
  my $named = sub {
    my ($told, @members) = @_;
    my %all = (members => \@members);
    DMI::Look::_name_program({ program => $told }, \%all);
    return DMI::LookText::heading(\%all);
  };
  my @members = (member(7), member(5, port => 7881, asked => 1), member(6));
  is($named->({ 5 => './p', 6 => './p 1 2' }, @members), "program: ./p (asked at h5:7881)\n", 'as the first process tells it');
  is($named->({ 5 => undef, 7 => "./\x{1b}p 1" }, @members), "program: ./?p 1 (asked at h5:7881)\n", 'else as another one does');
  is($named->({ 7 => 'p' }, member(7, asked => 1)), "program: p\n", 'a process that does not tell its port');
  is($named->({}, @members), '', 'nobody tells');
}

# ---- Sizes and times -----------------------------------------------------------------------------

for my $size ([0, '0 B'], [1023, '1023 B'], [1024, '1.0 KiB'], [99.9 * 1024, '99.9 KiB'], [99.97 * 1024, '100 KiB'], [1023.4 * 1024, '1023 KiB'], [1023.7 * 1024, '1.0 MiB'], [2000 * 2**40, '2000 TiB']) {
  is(DMI::LookText::bytes($size->[0]), $size->[1], "a size: $size->[0]");
}

for my $time ([0, '0 us'], [0.000999, '999 us'], [0.0009996, '1.0 ms'], [0.0123, '12.3 ms'], [0.0999, '99.9 ms'], [0.09996, '100 ms'], [0.9994, '999 ms'], [0.9996, '1.0 s'], [99.9, '99.9 s'], [99.97, '1 min'], [5999.9, '99 min'], [6000, '1 h']) {
  is(DMI::LookText::duration($time->[0]), $time->[1], "a time: $time->[0] s");
}

# ---- Locks -------------------------------------------------------------------------------------

my @crosswise = (
  member(1, threads => [thread(1, 'lock', addr => '0xb')], locks => [held('0xa', 1)]),
  member(2, threads => [thread(4, 'lock', addr => '0xa')], locks => [held('0xb', 4)]),
);
is(circles(members => \@crosswise), '1.1 2.4', 'two locks crosswise are a deadlock');
is(circles(members => [@crosswise[1, 0]]), '1.1 2.4', 'in whatever order the answers come');
my %let_go = ('lock 0xb' => { holder => { member => 1, op => 'another' } });
is(circles(members => \@crosswise, objects => \%let_go), '', 'not if the owner of the page says that another one holds it now');
is(circles(members => [member(1, threads => [thread(1, 'lock'), thread(2)], locks => [held('0x10', 2)])]),
  '', 'nor if the holder goes on');
is(circles(members => [member(1, threads => [thread(1, 'lock')], locks => [held('0x10', 1)])]), '1.1',
  'a thread that waits for itself');
my @ring = map { member($_, threads => [thread(1, 'lock', addr => "0x$_")], locks => [held('0x' . ($_ % 5 + 1), 1)]) } 1 .. 5;
is(circles(members => \@ring), '1.1 5.1 4.1 3.1 2.1', 'a ring of five');
is(circles(members => [@ring[0 .. 3]]), '', 'of which one is silent');

# ---- Barriers and joins ------------------------------------------------------------------------

my %user = (barriers => [map { { barrier => '0x10', thread => $_ } } 1 .. 3]);
my $at = sub { thread($_[0], 'barrier', size => 3) };
my $never = member(1, %user, threads => [$at->(1), $at->(2), thread(3, 'lock', addr => '0xc')], locks => [held('0xc', 1)]);
is(circles(members => [$never], objects => { 'barrier 0x10' => { arrived => 2, needed => 3 } }), '1.1 1.3',
  'who holds a lock at a barrier that another one needs to come there');
is(circles(members => [$never], objects => { 'barrier 0x10' => { arrived => 2, needed => 4 } }), '',
  'not if others may come in its place');
is(circles(members => [member(1, threads => [thread(1, 'thread', joins => { member => 1, number => 2 }),
    thread(2, 'thread', joins => { member => 1, number => 1 })])]), '1.1 1.2', 'two that join each other');
is(circles(members => [member(1, threads => [thread(1, 'process'),
    thread(2, 'thread', joins => { member => 1, number => 1 })])]), '', 'not who wakes the other');

my $text = DMI::LookText::threads({ members => [$never], objects => { 'barrier 0x10' => { arrived => 2, needed => 3, owner => 1 } } });
like($text, qr/^  thread 1 in DMI_call at p\.c:1 \(f\), for 2\.5 s\n    waits at the barrier at 0x10, 2 of 3 have come; still missing:\n      thread 3 of process 0 \(h1\): in DMI_call at p\.c:3 \(f\), for 2\.5 s$/m,
  'who has not come is told');
my $nobody = sub { return DMI::LookText::threads({ members => [member(1, barriers => [{ barrier => '0x10', thread => 1 }], threads => [$at->(1), @_])],
  objects => { 'barrier 0x10' => { arrived => 1, needed => 2, owner => 1 } } }) };
like($nobody->(thread(2), thread(3, undef, state => 'R'), thread(4, 'lock'), thread(5, undef, who => 'other', call => undef)),
  qr/, 1 of 2 have come; the missing one has not used this barrier before, or has ended; threads that do not wait in DMI:\n      thread 2 of process 0 \(h1\): outside of DMI; last .*\n      thread 3 of process 0 \(h1\): computes; last [^\n]*\n  thread 2 /,
  'nobody is left who uses it: those that could begin to do so');
like($nobody->(), qr/; all threads wait in DMI$/m, 'there are none');
like(DMI::LookText::threads({ members => [member(1, threads => [$at->(1)])], objects => { 'barrier 0x10' => { arrived => 1, needed => 3, owner => 1 } } }),
  qr/, 1 of 3 have come; the 2 that are missing have not used this barrier before, or have ended; all /, 'or of several');
# Some that are missing have used the barrier, others have not: another process has not come to it yet.
my $some = sub { return DMI::LookText::threads({ members => [member(1, barriers => [map { { barrier => '0x10', thread => $_ } } 1, 2], threads => [$at->(1), @_])],
  objects => { 'barrier 0x10' => { arrived => 1, needed => 3, owner => 1 } } }) };
like($some->(thread(2)), qr/, 1 of 3 have come; still missing:\n      thread 2 of process 0 \(h1\): outside[^\n]*\n      and 1 more, which has not used this barrier yet, or has ended$/m,
  'those that are missing and not known are counted');
unlike($some->(thread(2)), qr/DEADLOCK/, 'one that computes may come');
# Nobody can come any more.
my $verdict = qr/^DEADLOCK: nobody is left who could come to the barrier at 0x10: 1 of 2 have come, and all threads wait at barriers or for each other\n\z/m;
my $joins = sub { return thread(9, 'thread', joins => { member => 1, number => $_[0] }) };
like($nobody->(), $verdict, 'one thread at a barrier for two is a deadlock');
like($nobody->($joins->(1), thread(5, undef, who => 'other', call => undef)), $verdict, 'so it is if another one waits for its end');
{
  my %all = (members => [member(1, barriers => [{ barrier => '0x10', thread => 1 }], threads => [$at->(1)]), @crosswise[1], member(3, threads => [thread(1, 'lock', addr => '0xb')], locks => [held('0xa', 1)])],
    objects => { 'barrier 0x10' => { arrived => 1, needed => 2, owner => 1 } });
  my $waits = DMI::Waits->new(\%all);
  is_deeply([$waits->verdicts], [{ circle => [{ member => 2, thread => 4 }, { member => 3, thread => 1 }] }, { barrier => '0x10', arrived => 1, needed => 2 }], 'the verdict for programs: circles and barriers');
  my @lines = DMI::LookText::deadlock_lines($waits, 'how');
  is_deeply(\@lines, ['DEADLOCK: thread 4 of process 1 (h2) and thread 1 of process 2 (h3) wait for each other (how: why)',
    'DEADLOCK: nobody is left who could come to the barrier at 0x10: 1 of 2 have come, and all threads wait at barriers or for each other (how: why)'], 'in a line each');
  like(DMI::LookText::status({ members => [member(1, cores => 2, state => 'member')], mappings => [] }, undef, @lines), qr/\A1 process, .*\n\Q$lines[0]\E\n\Q$lines[1]\E\n\nprocess /, 'which --status has below its sums');
}
unlike($nobody->(@$_), qr/DEADLOCK/, 'but not beside ' . ($_->[0]{waits} // 'one that computes'))
  for [thread(2)], [$joins->(7)], [thread(2, 'poll')], [thread(2, 'page')], [thread(2, 'lock')], [thread(2, 'suspend')];
unlike(DMI::LookText::threads({ members => [member(1, threads => [thread(1, 'barrier', size => 2, ns => 1e6)])], objects => { 'barrier 0x10' => { arrived => 1, needed => 2, owner => 1 } } }),
  qr/DEADLOCK/, 'nor after a moment');
like(DMI::LookText::threads({ members => [member(1, threads => [thread(5, undef, who => 'other', call => undef)]), member(2, threads => [thread(1)])], objects => {} }),
  qr/^process 0 \(h1\)\n  no threads\n\nprocess 1 \(h2\)\n  thread 1 [^\n]*\n\z/, 'a process that has no threads');
my $passing = sub { return DMI::LookText::threads({ members => [@_, member(1, barriers => [map { { barrier => '0x10', thread => $_ } } 1 .. 2], threads => [map { thread($_, 'barrier', size => 3, ns => 1e6) } 1 .. 2])],
  objects => { 'barrier 0x10' => { arrived => 2, needed => 3, owner => 1 } } }) };
like($passing->(), qr/waits at the barrier at 0x10, 2 of 3 have come; none that is missing can be seen: the threads may be going from one barrier to the next \(look again\)$/m,
  'no wait of a moment is said to be for ever');
like($passing->({ member => 2, process => 1, host => 'h2', silent => 1 }), qr/, 2 of 3 have come; still missing:\n      perhaps threads of process 1 \(h2\), which gives no answer$/m,
  'those of a silent process may be missing');
like(DMI::LookText::threads({ members => [member(1, %user, threads => [$at->(1), thread(3)]), { member => 2, process => 1, host => 'h2', silent => 1 }],
  objects => { 'barrier 0x10' => { arrived => 1, needed => 3, owner => 1 } } }),
  qr/1 of 3 have come; still missing:\n      thread 3 of process 0 \(h1\): [^\n]*\n      perhaps threads of process 1 \(h2\), which/, 'beside others');
unlike(DMI::LookText::threads({ members => [$never, { member => 2, process => 1, host => 'h2', silent => 1 }], objects => { 'barrier 0x10' => { arrived => 2, needed => 3, owner => 1 } } }),
  qr/perhaps/, 'but not if all that are missing are known');
like($nobody->(map { thread($_) } 2 .. 15), qr/thread 11 of [^\n]*\n      and 4 more\n/, 'or many');
like($text, qr/^  thread 2 in .*\n    waits at the barrier at 0x10, as does thread 1 of process 0 \(h1\)$/m, 'once for each barrier');
like($text, qr/^  the lock at 0xc is held by thread 1, taken by DMI_mutex_lock at p\.c:9 \(f\)$/m, 'and who holds locks');

# ---- Pages -------------------------------------------------------------------------------------

my $reads = member(1, threads => [thread(1, 'page', page => 3, mapping => '0x0')]);
my $silent = { member => 2, process => 1, host => 'h2', silent => 1 };
my %page = ('page 0x10' => { owner => 2, silent => 1 });
$text = DMI::LookText::threads({ members => [$reads, $silent], objects => \%page });
like($text, qr/waits for 16 bytes at 0x10 \(page 3 of the mapping at 0x0\), owned by process 1 \(h2\), which gives no answer$/m,
  'an owner that gives no answer');
like($text, qr/^process 1 \(h2\)\n  gives no answer/m, 'is named');

# A page of its own process; what more is known of the thread, and of the page.
sub own_page {
  my ($thread, %page) = @_;
  return DMI::LookText::threads({ members => [member(1, threads => [thread(1, 'page', role => 'owner', %$thread)]), member(2)], objects => { 'page 0x10' => { owner => 1, role => 'owner', %page } } });
}
like(own_page({}), qr/waits for 16 bytes at 0x10, owned by process 0 \(h1\) itself, which waits for memory, or until the loss of a process is dealt with$/m, 'the own process');
like(own_page({}, acks => 1), qr/0x10, owned by process 0 \(h1\) itself, which waits until 1 other process has given up its copy$/m, 'which waits for a copy');
like(own_page({}, acks => 2), qr/0x10, owned by process 0 \(h1\) itself, which waits until 2 other processes have given up their copies$/m, 'or several');
like(own_page({ role => 'pending' }), qr/0x10, which has come to process 0 \(h1\) meanwhile$/m, 'a page that was not there when the thread was looked at');
like(own_page({ ns => 1e6 }), qr/0x10, which has come to process 0 \(h1\) meanwhile$/m, 'or for which it has waited for a moment only');
like(own_page({}, owner => 2, role => 'pending'), qr/0x10, which is on its way from one process to another$/m, 'a page that nobody has');
like(own_page({ op => undef }), qr/0x10, the first page of them is owned by process 0 \(h1\) itself: it waits for others$/m, 'of several pages the first one is not waited for if it is here');
like(own_page({ op => undef }, owner => 2), qr/0x10, the first page of them is owned by process 1 \(h2\)$/m, 'or it is');
like(own_page({ op => undef }, role => 'none'), qr/0x10, the first page of them is on its way from one process to another$/m, 'or is not anywhere');
$text = DMI::LookText::threads({ members => [member(1, threads => [thread(1, 'page')]), member(2)], objects => { 'page 0x10' => { owner => 2, acks => 1 } } });
like($text, qr/0x10, owned by process 1 \(h2\), which waits until 1 other process has given up its copy$/m, 'an owner that does');

# Two that wait for the same page: it is asked for once, and is not said to be in two places.
{
  my @asked;
  my $look = bless {}, 'DMI::Look';
  no warnings qw(redefine once);
  local *DMI::Look::ask = sub { my (undef, $what, $of, $addr, $then) = @_; push @asked, sprintf '%s 0x%x of %d', $what, $addr, $of; $then->([{ role => 'owner', hint => $of }]) };
  local *DMI::Look::run = sub { };
  my $waiting = sub { my ($uid, $addr, $page, $hint) = @_; return member($uid, threads => [thread(1, 'page', addr => $addr, mapping => '0x10', page => $page, role => 'pending', hint => $hint)]) };
  my %all = (members => [$waiting->(1, '0x10', 0, 2), $waiting->(2, '0x18', 0, 1), $waiting->(3, '0x20', 1, 2)], objects => {});
  $look->_objects(\%all);
  is("@asked", 'page 0x10 of 2 page 0x20 of 2', 'the owner of a page is asked once, of another page again');
  is_deeply({ map { $_ => "$all{objects}{$_}{kind} $all{objects}{$_}{addr}" } keys %{ $all{objects} } }, { map { ($_) x 2 } 'page 0x10', 'page 0x18', 'page 0x20' }, 'each object has its own address');
  is(join(' ', map { $all{objects}{"page $_"}{owner} . $all{objects}{"page $_"}{role} } qw(0x10 0x18)), '2owner 2owner', 'and all that was answered');
  $text = DMI::LookText::threads(\%all);
  like($text, qr/at 0x10 \(page 0 of the mapping at 0x10\), owned by process 1 \(h2\)$/m, 'one waits for the other process');
  like($text, qr/at 0x18 \(page 0 of the mapping at 0x10\), which has come to process 1 \(h2\) meanwhile$/m, 'which has the page');
}

# ---- Other waits -------------------------------------------------------------------------------

# What is said of such a wait.
sub said {
  my ($waits, %more) = @_;
  my $wait = { %{ thread(1, $waits) }, %more };
  delete @$wait{qw(addr size hint role)};
  my ($told) = DMI::LookText::threads({ members => [member(1, threads => [$wait]), member(2)], objects => {} }) =~ /^    waits (.*)$/m;
  return $told;
}
is(said('message', of => 2, rank => 3), 'for a message of rank 3 of process 1 (h2)', 'a message of a rank');
is(said('message'), 'for a message of any rank', 'of any rank');
is(said('taken', of => 1, rank => 0), 'until rank 0 of process 0 (h1) has taken a message', 'one that is not taken');
is(said('ranks', rank => 2), 'for other ranks of its team (it is rank 2)', 'other ranks');
is(said('value', op => '17'), 'for the end of a remote function', 'a value');
is(said('servers', there => 1, wanted => 3), 'for processes that run remote functions, there are: 1 of 3', 'servers');
is(said('tasks', there => 10, wanted => 64), 'for tasks of a farm, done: 10 of 64', 'tasks');
is(said('scale', wanted => 4), 'for the 4 threads of DMI_rescale', 'a phase of DMI_rescale');
is(said('status'), 'for the end of a call that it has begun with a status', 'a status');
is(said('coordinator'), 'for an answer of the process that orders joins and leaves', 'the coordinator');
is(said('process'), 'for an answer of the process of a thread', 'a process');
is(said('poll'), 'for a notice (a process joins or leaves)', 'a notice');
is(said('suspend'), 'until another thread wakes it', 'DMI_suspend');
is(said('something'), 'for something', 'what a later version may say');
is(said('thread', joins => { member => 2, number => 7 }), 'for thread 7 of process 1 (h2)', 'the end of a thread');
$text = DMI::LookText::threads({ objects => {}, members => [
  member(1, threads => [thread(1, 'thread', joins => { member => 2, number => 7 }), thread(2, 'cond', page => 0, mapping => '0x0'), thread(3, 'watch')]),
  member(2, threads => [thread(7, 'lock')])] });
like($text, qr/^    waits for thread 7 of process 1 \(h2\): in DMI_call at p\.c:7 \(f\), for 2\.5 s$/m, 'and what that one does');
like($text, qr/^    waits for a signal of the condition at 0x10 \(page 0 of the mapping at 0x0\)$/m, 'a condition');
like($text, qr/^    waits until the bytes at 0x10 change$/m, 'a watch');

# ---- Hot pages ---------------------------------------------------------------------------------

# So many faults a second, of which 1000 were looked at.
sub faulting {
  my ($uid, $now, %page) = @_;
  return member($uid, process_now => { map({ $_ => 0 } qw(now since cores threads bytes_in bytes_out faults)), state => 'member',
      pool => { map { $_ => 0 } qw(used limit copies spilled) }, faults_now => $now },
    hot_of => { faults => 1000 }, hot => [map { { mapping => '0x10', page => $_, faults => $page{$_}, surely => $page{$_} - 10 } } sort keys %page]);
}
# As DMI::Look puts it together.
sub with_hottest { my (%all) = @_; return { %all, hottest => [DMI::Look::hot_pages(\%all)] } }
my @faulting = (faulting(1, 500, 3 => 610, 4 => 20), faulting(2, 100, 3 => 210), faulting(3, 0, 5 => 900), member(4, cores => 1, state => "member"));
$text = DMI::LookText::status(with_hottest(members => \@faulting, mappings => []));
like($text, qr/^3 +0x10 \(not there any more\) +320 +0: 300, 1: 20 +\? +-\n4 +0x10 \(not there any more\) +5 +0: 5 +\? +-$/m, 'the hottest page first, with who asks for it');
like(DMI::LookText::status(with_hottest(members => \@faulting, mappings => [{ mapping => '0x10', page_size => 1, pages => 9, of => {} }])), qr/^3 +0x10 +320 +0: 300, 1: 20 +\? +-$/m, 'of a mapping that is there');
unlike($text, qr/^5 +0x10/m, 'not one that is not asked for any more');
my $made = { mapping => '0x10', page_size => 1, pages => 9, of => {}, call => 'DMI_mmap', place => "p.c:7 (\x1bf)" };
$text = DMI::LookText::status(with_hottest(members => \@faulting, mappings => [$made]));
like($text, qr/^3 +0x10 +320 +0: 300, 1: 20 +\? +DMI_mmap at p\.c:7 \(\?f\)$/m, 'with the call that has made it, without control characters');
like($text, qr/^0x10 +1 B +9 +- +- +- +DMI_mmap at p\.c:7 \(\?f\)$/m, 'and so the mapping');
my $pages = with_hottest(members => \@faulting, mappings => [{ mapping => '0x10', page_size => 256, pages => 9, home => 2, of => {} }]);
is_deeply([map { "$_->{addr} of $_->{home}" } DMI::Look::hot_pages($pages)], ['0x310 of 2', '0x410 of 2'], 'the address of a page, and whom to ask for its owner');
$pages->{objects} = { 'page 0x310' => { owner => 2, role => 'owner' }, 'page 0x410' => { owner => 4, silent => 1 } };
like(DMI::LookText::status($pages), qr/^3 .* +1 +-\n4 .* +3, SILENT +-$/m, 'which process owns it');
$pages->{objects} = { 'page 0x310' => { owner => 2, role => 'none' } };
like(DMI::LookText::status($pages), qr/^3 .* +moving +-\n4 .* +\? +-$/m, 'none that owns it, or that is known');

# Who touches which bytes of them.
{
  my $shares = sub {
    my (@touched) = @_;
    my $uid = 0;
    my @members = map { my $of = $_; my $member = faulting(++$uid, 500, 3 => 600); %{ $member->{hot}[0] } = (%{ $member->{hot}[0] }, %$of); $member } @touched;
    return DMI::LookText::status(with_hottest(members => \@members, mappings => [])) =~ /^page 3 of the mapping at 0x10: false sharing\? (.*)\. Put what each process uses into a page of its own$/m ? $1 : '';
  };
  is($shares->({ wrote => [0, 8] }, { wrote => [8, 16] }), 'Process 0 writes bytes 0 to 7, process 1 writes bytes 8 to 15', 'false sharing: two write different bytes');
  is($shares->({ wrote => [0, 9] }, { wrote => [8, 16] }), '', 'a byte that both write: none');
  is($shares->({ wrote => [0, 8], read => [0, 16] }, { wrote => [8, 16] }), '', 'one that another one reads: none');
  is($shares->({ wrote => [0, 8], read => [0, 4] }, { read => [8, 16] }, { read => [8, 20] }),
    'Process 0 writes bytes 0 to 7, process 0 reads bytes 0 to 3, process 1 reads bytes 8 to 15, process 2 reads bytes 8 to 19', 'who only reads may read what others read');
  is($shares->({ read => [0, 8] }, { read => [8, 16] }), '', 'nobody writes: none');
  is($shares->({ wrote => [0, 8] }), '', 'one process alone');
  my @two = map { my $uid = $_; my $member = faulting($uid, 500, 3 => 400, 12 => 300, 4 => 200); @$_{'wrote'} = [8 * $uid, 8 * $uid + 8] for @{ $member->{hot} }; $member->{hot}[2]{wrote}[1]++ if $uid == 2; $member } 1, 2;
  is_deeply([DMI::LookText::sharing(with_hottest(members => \@two, mappings => []))], [map { "$_. Put what each process uses into a page of its own" }
      'pages 3, 12 of the mapping at 0x10: false sharing? Process 0 writes bytes 8 to 15, process 1 writes bytes 16 to 23', 'page 4 of the mapping at 0x10: false sharing? Process 0 writes bytes 8 to 15, process 1 writes bytes 16 to 24'],
    'pages of which the same is to be said are named together');
  @two = map { my $uid = $_; my $member = faulting($uid, 500, map { $_ => 90 } 9, 3, 5, 4, 11, 12); @$_{'wrote'} = [8 * $uid, 8 * $uid + 8] for @{ $member->{hot} }; $member } 1, 2;
  like((DMI::LookText::sharing(with_hottest(members => \@two, mappings => [])))[0], qr/^pages 3 to 5, 9, 11, 12 of the mapping/, 'those that follow each other as a range');
  is($shares->({ wrote => [0, 8] }, {}), '', 'of the other one nothing is told');
  is($shares->({ wrote => [0, 8] }, { wrote => ['x', {}] }), '', 'what is no number does not count');
}
{
  my $line = sub { return DMI::Answer::taken('mappings', { mapping => '0x10', page_size => 1, pages => 9, home => 1, owned => 1, copies => 0, @_ }, 0) };
  my ($merged) = @{ DMI::Look::_mappings([{ member => 1, mappings => [$line->(), $line->()] },
    { member => 2, mappings => [$line->(call => 'DMI_mmap', place => 'x' x 5000), $line->()] }, { member => 3, mappings => [$line->(call => 'DMI_other', place => 'y')] }]) };
  is_deeply([$merged->{call}, length $merged->{place}, $merged->{of}{2}{owned}], ['DMI_mmap', 400, 2], 'who has made it tells so; what is too long is cut off');
  ($merged) = @{ DMI::Look::_mappings([{ member => 1, mappings => [$line->(call => { a => 1 }, place => [2]), $line->(call => 'DMI_mmap')] }]) };
  ok(!defined $merged->{call}, 'what is no text does not count');
}
$text = DMI::LookText::status(with_hottest(members => [@faulting[2, 3]], mappings => [{ mapping => '0x10', page_size => 1, pages => 2,
    of => { 3 => { owned => 0, copies => 1, faults => 7 } } }]));
unlike($text, qr/hottest/, 'nobody asks for any');
like($text, qr/^0x10 +1 B +2 +- +2: 1 +2: 7 +-$/m, 'a mapping with its faults');
like(DMI::LookText::mappings({ members => [member(1)], mappings => [{ mapping => '0x10', page_size => 4096, pages => 2**48, allocator => 1, of => { 1 => { owned => 3, copies => 0 } } }] }),
  qr/^0x10 +4\.0 KiB +no limit +0: 3 +- +- +DMI_malloc$/m, 'that of the allocator');

# ---- Nonsense ----------------------------------------------------------------------------------

my @warnings;
local $SIG{__WARN__} = sub { push @warnings, @_ };
$text = DMI::LookText::threads({ members => [member(1, host => "a\e[2Jb", threads => [thread(1, undef, place => "x\ny", call => "c\nDEADLOCK", number => "1\e[2J")])], objects => {} });
unlike($text, qr/\e|^DEADLOCK/m, 'no control characters of others reach the terminal');
is(DMI::LookText::bytes(1536), '1.5 KiB', 'bytes');
is(join(', ', map { DMI::LookText::duration($_) } 6000, 99.9, 1, 0.9994, 0.0123, 0.001, 0.00012), '1 h, 99.9 s, 1.0 s, 999 ms, 12.3 ms, 1.0 ms, 120 us', 'times');
is(join(', ', map { DMI::LookText::age($_) } 0, 7, 99, 100, 7200), '0 s, 7 s, 99 s, 1 min, 2 h', 'ages');
$text = DMI::LookText::status({ members => [member(1, cores => 2, state => 'member'), { %$silent, cores => 4, state => 'member' }], mappings => [] });
like($text, qr/^1 +h2 +SILENT +\? +\? +4/m, 'the status of one that is silent');
$text = DMI::LookText::status({ members => [{ %$silent, cores => 4, state => 'member', pid => 4711, tag => 'h2/1' }], mappings => [] });
like($text, qr{^1 +h2, h2/1 +SILENT +4711 +\? +4.*^process 1 \(h2, h2/1, pid 4711\) gives no answer}ms, 'its pid and tag, as far as they are known');
is("@warnings", '', 'no warnings');
done_testing();
