#!/usr/bin/perl
# trace.t - dmirun --trace: the trace of a program whose processes join, leave and are killed is valid
# and complete, and fits the schema that is installed; clocks that differ are aligned; a slow disk costs
# events, and not the program.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMITrace;
use Fcntl qw(O_RDONLY O_NONBLOCK);
use Errno ();
use POSIX ();

my $t = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/trace_dmi.c');
my $survives = ['--survive', '--dead-after', 30];

# ---- The checks notice -------------------------------------------------------------------------

sub slice {
  my ($pid, $ts, $dur, %more) = @_;
  return { ph => 'X', pid => $pid, tid => 1, name => 'n', cat => 'call', ts => $ts, dur => $dur, args => {}, %more };
}
sub end_of {
  my ($ph, $pid, $ts, $id) = @_;
  return { ph => $ph, pid => $pid, tid => 1, name => 'message', cat => 'message', ts => $ts, id => $id, $ph eq 'f' ? (bp => 'e') : () };
}

# Two processes, and two messages.
sub small {
  my @names = map { my $pid = $_;
    map { { ph => 'M', pid => $pid, tid => $_->[1], name => $_->[0], args => { labels => 'pid 7, clock +-10 us' } } }
      ['process_name', 0], ['process_labels', 0], ['thread_name', 1] } 1, 2;
  return (@names, slice(1, 5, 90), slice(1, 10, 2, cat => 'message', args => { to => 2 }), end_of('s', 1, 10, '0xa'),
    slice(2, 5, 1), slice(2, 30, 2, cat => 'message', args => { from => 1 }), end_of('f', 2, 30, '0xa'),
    slice(1, 7000, 2, cat => 'message', args => { to => 2 }), end_of('s', 1, 7000, '0xb'),
    slice(2, 7030, 2, cat => 'message', args => { from => 1 }), end_of('f', 2, 7030, '0xb'), slice(2, 9000, 1), slice(1, 9000, 1));
}
sub changed {
  my ($change) = @_;
  my @events = small();
  $change->(\@events);
  return [DMITrace::faults(\@events)];
}
is_deeply(changed(sub { }), [], 'a small trace without fault');
like(changed(sub { splice @{ $_[0] }, 0, 1 })->[0], qr/process 1 has no name/, 'a process without name is noticed');
like(changed(sub { splice @{ $_[0] }, 2, 1 })->[0], qr{thread 1/1 has no name}, 'and a thread');
like(changed(sub { delete $_[0][6]{dur} })->[0], qr/shape: X dur/, 'a slice without end');
like(changed(sub { push @{ $_[0] }, slice(1, 50, 60) })->[0], qr{1/1: n at 50 ends behind n}, 'slices that overlap');
like(changed(sub { $_[0][8]{ts} = 12.5 })->[0], qr/s 0xa is in no slice/, 'an arrow beside its slice');
like(changed(sub { $_[0][$_]{ts} = -20 for 10, 11 })->[0], qr/ends 30\.0 us before it begins/, 'one that goes back in time');
like(changed(sub { $_[0][$_]{ts} = 5000 for 7, 8; splice @{ $_[0] }, 11, 1 })->[0], qr/s 0xa .* has no end/, 'one without end');
like(changed(sub { $_[0][$_]{ts} = 7500 for 10, 11; splice @{ $_[0] }, 8, 1 })->[0], qr/f 0xa .* has no beginning/, 'or beginning');
is_deeply(changed(sub { $_[0][$_]{ts} = 5000 for 10, 11; splice @{ $_[0] }, 8, 1 }), [], 'but not if all that came before has none, either');
is_deeply(changed(sub { splice @{ $_[0] }, 15, 1 }), [], 'or all that was sent later has no end');

# ---- A program that changes --------------------------------------------------------------------

sub trace_of {
  my ($path, %opt) = @_;
  my $events = eval { DMITrace::read_trace($path, %opt) };
  ok($events, "$path is JSON") or diag($@);
  return $events // [];
}
sub faults_are_none {
  my ($events, $what, %opt) = @_;
  my @faults = DMITrace::faults($events, %opt);
  is(scalar @faults, 0, "$what: the trace has no faults") or diag(map { "$_\n" } @faults[0 .. ($#faults < 20 ? $#faults : 20)]);
}
my @files;    # that have an end
sub marks { my ($events, $name) = @_; return grep { $_->{ph} eq 'i' && $_->{name} eq $name } @$events }
sub lost { my ($events) = @_; my $sum = 0; $sum += $_->{args}{count} for marks($events, 'events lost'); return $sum }
sub named { my ($events) = @_; return map { $_->{pid} => $_->{args}{name} } grep { $_->{name} eq 'process_name' } @$events }

{
  my $file = $t->dir . '/changing.json';
  my $first = $t->start($program, args => [4, 1, 1], opts => [@$survives, '--trace', $file], name => 'first');
  my $second = $t->start($program, join => $first, name => 'second');
  my $third = $t->start($program, join => $second, name => 'third');
  $_->expect_out(qr/^works/m) for $first, $second, $third;
  my $fourth = $t->start($program, join => $second, name => 'fourth');
  $fourth->expect_out(qr/^works/m);
  $third->signal('INT');
  $third->expect_event('left');
  $third->wait_exit(0);
  # What it has sent is there: wait until its events are in the file.
  $t->wait_looking(sub { open my $now, '<', $file or return 0; local $/; return <$now> =~ /"name":"process 3 / }, 'events of the fourth');
  $t->wait_looking(sub { return grep { $_->{pid} == 4 && $_->{name} eq 'DMI_watch' } DMITrace::long_waits(eval { DMITrace::read_trace($file, open => 1) } // []) },
    'and that it waits');
  $fourth->kill_now;
  $fourth->wait_exit(signal => 'KILL');
  $first->expect_out(qr/^over/m);
  $_->wait_exit(0) for $first, $second;

  push @files, $file;
  my $events = trace_of($file);
  my %name = named($events);
  is(scalar keys %name, 4, 'the trace has four processes');
  my ($left, $killed) = map { my $id = $_; grep { $name{$_} =~ /^process $id / } keys %name } 2, 3;
  is(lost($events), 0, 'no events were lost');
  faults_are_none($events, 'join, leave, kill', open => { $killed => 1 });
  is(scalar(grep { $_->{args}{process} } marks($events, 'member_lost')), 2, 'both that are left tell of the loss');
  ok(scalar(grep { $_->{args}{member} == $left } marks($events, 'member_gone'), marks($events, 'member_left')), 'and of who has left');
  ok(scalar(grep { $_->{pid} == $left } marks($events, $_)), "the leaver itself: $_") for qw(closed dismissed left);
  my %calls;
  push @{ $calls{ $_->{name} } }, $_ for DMITrace::long_waits($events), grep { $_->{ph} eq 'X' && $_->{cat} eq 'call' } @$events;
  my ($lock) = grep { $_->{args}{waits} eq 'lock' } @{ $calls{DMI_mutex_lock} // [] };
  ok($lock, 'a wait for the mutex is a slice');
  like($lock->{args}{addr}, qr/^0x/, 'with its address');
  is($lock->{args}{mapping}, $lock->{args}{addr}, 'its mapping') ;
  like($lock->{args}{place}, qr/^trace_dmi\.c:\d+ \(/, 'and its line') if ($lock->{args}{place} // '') !~ /libdw/;
  ok(scalar(grep { $_->{args}{waits} eq 'page' } @{ $calls{DMI_write} // [] }), 'and so is a wait for a page');
  my @threads = grep { $_->{args}{waits} eq 'thread' } @{ $calls{DMI_join} // [] };
  ok(scalar @threads, 'and for the end of a thread');
  is(scalar(grep { defined $_->{args}{addr} || defined $_->{args}{size} } @threads), 0, 'which has no address');
  # When a write has ended its page is here: whom it has asked is in its messages.
  my @writes = grep { $_->{ph} eq 'X' && $_->{cat} eq 'call' && $_->{name} eq 'DMI_write' && $_->{args}{waits} eq 'page' && $_->{args}{owner} } @$events;
  my @own = grep { $_->{ph} eq 'X' && $_->{name} eq 'send OWN' } @$events;
  my ($right, @wrong) = (0);
  for my $write (@writes) {
    push @wrong, $write if $write->{args}{owner} == $write->{pid};
    my ($send) = grep { $_->{pid} == $write->{pid} && $_->{tid} == $write->{tid} && $_->{args}{page} == $write->{args}{page}
      && $_->{args}{mapping} eq $write->{args}{mapping} && $_->{ts} >= $write->{ts} && $_->{ts} <= $write->{ts} + $write->{dur} } @own;
    next if !$send;
    $send->{args}{to} == $write->{args}{owner} ? $right++ : push @wrong, $write;
  }
  cmp_ok($right, '>', 0, "a write names whom it has asked ($right of " . @writes . ')');
  is(join(', ', map { "$_->{pid}: $_->{args}{owner} at $_->{ts}" } @wrong), '', 'and not itself');
  ok(scalar(grep { $_->{args}{waits} eq 'poll' } @{ $calls{DMI_poll} // [] }), 'and for a notice');
  my ($watch) = grep { $_->{pid} == $killed } @{ $calls{DMI_watch} };
  ok($watch->{unfinished} && !$watch->{open}, 'the wait of the killed one did not end, but with it');
  my @unfinished = grep { ($_->{unfinished} || $_->{open}) && $_->{pid} != $killed } DMITrace::long_waits($events);
  is(join(', ', map { "$_->{name} in $name{$_->{pid}} at $_->{ts}" } @unfinished), '', 'all others did');
  my %sent;
  $sent{ $_->{name} }++ for grep { $_->{ph} eq 'X' && $_->{cat} eq 'message' } @$events;
  ok($sent{"send $_"} && $sent{"receive $_"}, "$_ is sent and received") for qw(GRANT OWN ATOMIC DONE);
  my %threads;
  $threads{ $_->{args}{name} } = 1 for grep { $_->{name} eq 'thread_name' } @$events;
  ok($threads{$_}, "there is $_") for 'DMI_main', 'dmi-daemon';
  ok(scalar(grep { $_->{ph} eq 'C' && $_->{args}{own} } @$events), 'the pool is a counter');
}

# ---- Calls that do not end ---------------------------------------------------------------------

# Two mutexes crosswise: the waits are in the file, with call and place, while they go on.
my $hangs = $t->compile('test/multi/see_dmi.c');
sub hang {
  my ($name) = @_;
  my $file = $t->dir . "/$name.json";
  my $first = $t->start($hangs, args => ['crosswise'], opts => [@$survives, '--trace', $file], name => "$name 0");
  my $second = $t->start($hangs, join => $first, name => "$name 1");
  my @waits;
  $t->wait_looking(sub {
    @waits = DMITrace::long_waits(eval { DMITrace::read_trace($file, open => 1) } // []);
    return 2 == grep { $_->{name} eq 'DMI_mutex_lock' } @waits;
  }, 'both waits are in the file');
  return ($first, $second, $file);
}
sub locks_of { return grep { $_->{name} eq 'DMI_mutex_lock' && $_->{args}{waits} eq 'lock' } DMITrace::long_waits($_[0]) }

# The process that writes is killed: they have begun, and no end.
{
  my ($first, $second, $file) = hang('hangs');
  $t->kill_together($first, $second);
  my $events = trace_of($file, open => 1);
  my @locks = locks_of($events);
  is(scalar @locks, 2, 'both waits are there');
  isnt($locks[0]{pid}, $locks[1]{pid}, 'of two processes');
  is(scalar(grep { $_->{open} } @locks), 2, 'and have no end');
  for my $lock (@locks) {
    like($lock->{args}{place}, qr/^see_dmi\.c:\d+ \(/, 'with the line') if ($lock->{args}{place} // '') !~ /libdw/;
    like($lock->{args}{mapping}, qr/^0x/, 'and the mapping');
  }
}

# A witness that comes later sees them, too; it ends in order, and so do they in its trace.
{
  my $first = $t->start($hangs, args => ['crosswise'], opts => $survives, name => 'seen 0');
  my $second = $t->start($hangs, join => $first, name => 'seen 1');
  $first->expect_out(qr/^begins/m);
  my $file = $t->dir . '/seen.json';
  my $witness = $t->spawn([$t->build . '/bin/dmirun', '--witness', -i => '127.0.0.1', -p => $first->port, -l => 0, '--trace', $file],
    name => 'witness');
  $t->wait_looking(sub { return 2 == locks_of(eval { DMITrace::read_trace($file, open => 1) } // []) }, 'both waits are in the file of a witness');
  $witness->signal('INT');
  $witness->wait_exit(0);
  push @files, $file;
  my @locks = locks_of(trace_of($file));
  is(scalar @locks, 2, 'both waits are there');
  is(scalar(grep { $_->{unfinished} } @locks), 2, 'and say that they have not ended');
  cmp_ok($_->{ts}, '>=', 0, 'nothing is before the trace') for @locks;
  cmp_ok($_->{dur}, '>', 0, 'and how long they lasted') for @locks;
  $t->kill_together($first, $second);
}

# ---- Clocks ------------------------------------------------------------------------------------

SKIP: {
  system("unshare --time --fork --monotonic 5000 true 2>/dev/null") == 0 or skip 'no time namespaces (root, Linux 5.6, util-linux 2.38)', 5;
  my $file = $t->dir . '/clocks.json';
  my $first = $t->start($program, args => [2, 1, 0], opts => [@$survives, '--trace', $file], name => 'first');
  my $second = $t->spawn(['unshare', '--time', '--fork', '--kill-child', '--monotonic', 5000, $t->build . '/bin/dmirun', -i => '127.0.0.1',
    -p => $first->port, -l => 0, $program], name => 'ahead');
  $second->expect_out(qr/^works/m);
  $first->expect_out(qr/^works/m);
  $first->signal('INT');
  $_->wait_exit(0) for $first, $second;
  push @files, $file;
  my $events = trace_of($file);
  is(lost($events), 0, 'no events were lost');
  faults_are_none($events, 'clocks that differ');
  my ($other) = grep { $_ != 1 } keys %{ DMITrace::errors($events) };
  my $error = DMITrace::errors($events)->{$other};
  cmp_ok($error, '>', 0, "the other clock was measured: +-$error us");
  my @late = grep { ($_->{ts} // 0) > 1e9 } @$events;
  is(scalar @late, 0, 'no event is where that clock is');
}

# ---- A witness ---------------------------------------------------------------------------------

# It joins a program that runs, writes its trace for a while, and leaves.
{
  my $file = $t->dir . '/witness.json';
  my $first = $t->start($program, args => [1, 1, 0], opts => $survives, name => 'first');
  $first->expect_out(qr/^works/m);
  my $witness = $t->spawn([$t->build . '/bin/dmirun', '--witness', -i => '127.0.0.1', -p => $first->port, -l => 0, '--trace', $file],
    name => 'witness');
  $t->wait_looking(sub { open my $now, '<', $file or return 0; local $/; return <$now> =~ /"name":"process 0 / }, 'the witness hears of the first');
  $witness->signal('INT');
  $witness->wait_exit(0);
  $first->signal('INT');
  $first->wait_exit(0);
  my $events = trace_of($file);
  my %name = named($events);
  is(scalar keys %name, 2, 'a witness writes the trace of a program that runs');
}

# ---- Files that cannot be written (others: files.t) ----------------------------------------------

# A reader that does not read: the program goes on, and events are left out: more of them come than
# there is room for in rings, on the way and in the pipe.
{
  my $pipe = $t->dir . '/pipe';
  POSIX::mkfifo($pipe, 0600) or die $!;
  sysopen my $reader, $pipe, O_RDONLY | O_NONBLOCK or die $!;
  my $first = $t->start($program, args => [3, 1, 0, 600], opts => ['--trace', $pipe], name => 'slow disk');
  my $second = $t->start($program, join => $first, name => 'second');
  my $third = $t->start($program, join => $first, name => 'third');
  $_->expect_out(qr/^has worked/m) for $first, $second, $third;
  $third->signal('INT');
  $first->expect_out(qr/^over/m);
  pass('the program does not wait for its trace');
  my $text = '';
  $reader->blocking(1);
  while (1) {
    my $count = sysread $reader, $text, 65536, length $text;
    last if defined $count ? !$count : !$!{EINTR};
  }
  $_->wait_exit(0) for $first, $second, $third;
  my $file = $t->dir . '/slow.json';
  open my $out, '>:raw', $file or die $!;
  print $out $text;
  close $out or die $!;
  push @files, $file;
  my $events = trace_of($file);
  cmp_ok(lost($events), '>', 0, 'events were left out, and the trace says how many: ' . lost($events));
  is(scalar(grep { !/^[sf] |arrow/ } DMITrace::faults($events)), 0, 'the trace of a slow disk is valid');
}

# Its own number may come after the first view: it asks the others only, and ends when these have told all.
for my $turn (1 .. 4) {
  my $file = $t->dir . "/end$turn.json";
  my $first = $t->start($program, args => [2, 1, 0], opts => [@$survives, '--trace', $file], name => 'ends', env => { DMI_LOG => 'info' });
  my $second = $t->start($program, join => $first, name => 'second');
  $_->expect_out(qr/^works/m) for $first, $second;
  $first->signal('INT');
  $_->wait_exit(0) for $first, $second;
  unlike($first->err, qr/without the last events of process 0 /, 'it does not wait for itself');
}

# The process that writes is killed: what it has written can be read.
{
  my $file = $t->dir . '/killed.json';
  my $first = $t->start($program, args => [1, 1, 0], opts => ['--trace', $file], name => 'killed');
  $first->expect_out(qr/^works/m);
  $t->wait_looking(sub { open my $now, '<', $file or return 0; local $/; return <$now> =~ /"opened"/ }, 'it has opened, says the file');
  $first->kill_now;
  $first->wait_exit(signal => 'KILL');
  my $events = trace_of($file, open => 1);
  cmp_ok(scalar @$events, '>', 5, 'of a killed process there is what it had written');
}

# ---- The schema --------------------------------------------------------------------------------

# What Python's jsonschema says of files, by name.
my ($python) = grep { -x && system("$_ -c 'import jsonschema' 2>/dev/null") == 0 } '/usr/bin/python3', map { "$_/python3" } split /:/, $ENV{PATH};
sub misfits {
  my $top = $t->top;
  my @said = `$python '$top/test/multi/fits_schema.py' '$top/docs/trace.schema.json' @_ 2>&1`;
  is($? >> 8, @said ? 1 : 0, 'its status says whether something is wrong');
  my %of;
  for (@said) { /^([^:]+): (.*)$/ and push @{ $of{$1} }, $2 }
  return %of;
}

# An event of each kind, changed: what is said of that.
my @damages = (
  ['a kind that there is not', 'X', sub { $_[0]{ph} = 'Y' }, qr/^1\.ph: /],
  ['no process', 'X', sub { delete $_[0]{pid} }, qr/^1: 'pid' is a required/],
  ['a thread that is no number', 'X', sub { $_[0]{tid} = 'main' }, qr/^1\.tid: 'main' is not of type/],
  ['a name that is empty', 'X', sub { $_[0]{name} = '' }, qr/^1\.name: '' /],
  ['a slice without length', 'X', sub { delete $_[0]{dur} }, qr/^1: 'dur' is a required/],
  ['a slice whose length is 0', 'X', sub { $_[0]{dur} = 0 }, qr/^1\.dur: 0 /],
  ['a time that is a text', 'X', sub { $_[0]{ts} = 'now' }, qr/^1\.ts: 'now' is not of type 'number'/],
  ['arguments that are a list', 'X', sub { $_[0]{args} = [] }, qr/^1\.args: \[\] is not of type 'object'/],
  ['a field that there is not', 'X', sub { $_[0]{duration} = 1 }, qr/^1: Additional properties .*'duration'/],
  ['a wait that does not say for what', 'B', sub { delete $_[0]{args}{waits} }, qr/^1\.args: 'waits' is a required/],
  ['a wait with a length', 'B', sub { $_[0]{dur} = 1 }, qr/^1: Additional properties .*'dur'/],
  ['an end without time', 'E', sub { delete $_[0]{ts} }, qr/^1: 'ts' is a required/],
  ['an arrow without number', 's', sub { delete $_[0]{id} }, qr/^1: 'id' is a required/],
  ['an arrow of another category', 's', sub { $_[0]{cat} = 'call' }, qr/^1\.cat: /],
  ['an arrow that ends beside its slice', 'f', sub { delete $_[0]{bp} }, qr/^1: 'bp' is a required/],
  ['a counter of nothing', 'C', sub { $_[0]{args} = {} }, qr/^1\.args: \{\} /],
  ['a counter of a text', 'C', sub { $_[0]{args}{own} = 'much' }, qr/^1\.args\.own: 'much' is not of type 'number'/],
  ['a mark of everything', 'i', sub { $_[0]{s} = 'all' }, qr/^1\.s: 'all' /],
  ['a mark without process or thread', 'i', sub { delete $_[0]{s} }, qr/^1: 's' is a required/],
  ['a name of nobody', 'M', sub { $_[0]{name} = 'town_name' }, qr/^1\.name: 'town_name' /],
  ['a name that is none', 'M', sub { $_[0]{args} = { name => undef } }, qr/^1\.args\.name: None is not of type 'string'/],
);

SKIP: {
  skip 'no Python with jsonschema (Debian: python3-jsonschema)', 4 + @damages if !$python;
  my %wrong = misfits(@files);
  is_deeply(\%wrong, {}, 'each whole trace fits the schema: ' . @files) or diag(explain(\%wrong));
  my ($events, %sample) = DMITrace::read_trace($files[0]);
  $sample{ $_->{ph} } //= $_ for @$events;
  is(join(' ', sort keys %sample), 'B C E M X f i s', 'the first one has each kind of events');
  my @damaged;
  for my $damage (@damages) {
    my ($what, $kind, $change) = @$damage;
    my $event = DMI::Json::decode(DMI::Json::encode($sample{$kind}));
    $change->($event);
    push @damaged, $t->dir . '/damaged' . @damaged;
    open my $out, '>', $damaged[-1] or die $!;
    print $out DMI::Json::encode([$sample{M}, $event]);
    close $out or die $!;
  }
  my %said = misfits(@damaged);
  like(join("\n", @{ $said{ $damaged[$_] } // [] }), qr/$damages[$_][3]/m, "noticed: $damages[$_][0]") for 0 .. $#damages;
}

$t->done;
