#!/usr/bin/perl
# mw.t - dmimw with processes on this host: what it accepts and refuses, who starts when and on which
# port, output, input, signals, --add and --remove, and its exit status.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Handle;
use IO::Socket::INET;
use POSIX ();
use Socket;

my $t = DMITest->new(timeout => 120);
my $dir = $t->dir;
my $dmimw = $t->build . '/bin/dmimw';
my $program = $t->compile('test/multi/cluster_dmi.c');
my $number = 0;

sub put {
  my ($name, $text, $mode) = @_;
  open my $file, '>', "$dir/$name" or die;
  print $file $text;
  close $file or die;
  chmod $mode, "$dir/$name" if $mode;
  return "$dir/$name";
}

sub nodes { return put('nodes.' . ++$number, join '', map { "$_\n" } @_) }

sub start {
  my ($lines, @args) = @_;
  my %opt = ref $args[-1] eq 'HASH' ? %{ pop @args } : ();
  return $t->spawn([$dmimw, '-f', nodes(@$lines), @args], name => 'dmimw', %opt);
}

# Runs it to its end; returns (status, stdout, stderr).
sub run {
  my ($status, @args) = @_;
  my $process = $t->spawn([$dmimw, @args], name => 'dmimw');
  $process->wait_exit($status);
  return ($process->out, $process->err);
}

# ---- Refused: one line, status 2, nothing is started ------------------------------------------

sub refused {
  my ($why, @args) = @_;
  my ($out, $err) = run(2, @args);
  like($err, qr/\Admimw: [^\n]*$why[^\n]*\n\z/, "refused: @args");
}

my $two = nodes('localhost # a comment', '', '  # only that', "localhost -l 0 -s '64M'");
refused('-m 2: only 1 lines', -m => 2, $program);
refused('no program given', '-f', $two);
refused("-f $dir/none: No such file", '-f', "$dir/none", $program);
refused('unknown option -x', '-x');
refused('unknown option --wrong', '--wrong');
refused('--log needs a value', '--log');
refused('-n 3: .* has only 2 hosts', '-f', $two, -n => 3, $program);
refused('-n 0: must be a number from 1', '-f', $two, -n => 0, $program);
refused('-m 3: only 2 lines', '-f', $two, -m => 3, $program);
refused('-m 2: only 1 lines', '-f', $two, -n => 1, -m => 2, $program);
refused('--require 3: only 2 lines', '-f', $two, '--require', 3, $program);
refused('--timeout 0', '-f', $two, '--timeout', 0, $program);
refused('--set a/b', '-f', $two, '--set', 'a/b', $program);
refused('--log /dev/null/x', '-f', $two, '--log', '/dev/null/x', $program);
refused('--env NOSUCHVARIABLE: not set', '-f', $two, '--env', 'NOSUCHVARIABLE', $program);
refused('no host in ', '-f', nodes('# nothing'), $program);
refused('line 2: a/b: not a host name', '-f', nodes('localhost', 'a/b'), $program);
refused('line 1: -oProxyCommand=x: not a host', '-f', nodes('-oProxyCommand=x'), $program);
refused('line 1: h:7880: the port .* -l 7880', '-f', nodes('h:7880'), $program);
refused('line 1: -l 65536: a port', '-f', nodes('h -l 65536'), $program);
refused('line 1: a quote is not closed', '-f', nodes("h -s '1G"), $program);
refused('-m 1: the line of the first process says -i', '-f', nodes('localhost -i h'), $program);
refused('go without a program', '--status', $program);
like((run(1, '--status'))[1], qr/\Admimw: no dmimw of yours runs on this host\n\z/, 'nobody to ask');
like((run(1, '--add', 'h', '--set', 'x'))[1], qr/\Admimw: no dmimw of yours with --set x/, 'nor by name');
my ($help) = run(0, '-h');
like($help, qr/  $_ /, "-h explains $_") for qw(-f -n -m -o --tag --log --require --set --add --remove
  --status --stop --copy --ssh --ask --bin --dir --env --timeout --grace -h -v);
like((run(0, '-v'))[0], qr/^dmimw \(DMI\) \d+\.\d+\.\d+$/, '-v');

# ---- Who starts, and where --------------------------------------------------------------------

# A port that is free now; kept free of others while it is held.
my $given = IO::Socket::INET->new(Listen => 1, LocalAddr => '0.0.0.0', ReuseAddr => 1)->sockport;
my $mw = start(['localhost', "127.0.0.1 -l $given -s 64M", 'localhost', 'localhost', '127.0.0.1'],
  -n => 4, -m => 2, '--tag', '--log', "$dir/log", '--set', 'ports', $program, 'a b', '-n');
$mw->shows('err', map { "$_: === opened ===" } '127.0.0.1', 'localhost', 'localhost/2', 'localhost/3');
$mw->shows('out', '127.0.0.1: argument: a b', '127.0.0.1: argument: -n', '127.0.0.1: members: 0 1 2 3');
my ($first) = grep { /=== initialized/ } split /\n/, $mw->err;
is($first, '127.0.0.1: === initialized ===', '-m: that line starts the program, before all others');
my ($status) = run(0, '--status', '--set', 'ports');
my %port = $status =~ /^(\S+) +opened +(\d+) /mg;
is($port{'127.0.0.1'}, $given, 'the port of -l');
is(scalar keys %{ { reverse %port } }, 4, 'all ports differ') or diag($status);
like($status, qr/^ports: \Q$program\E a b -n, started 20.* by process @{[$mw->pid]}$/m, 'its head');

# What the node file has beyond -n keeps its options.
my ($out) = run(0, '--add', '127.0.0.1', '--add', 'localhost -s 1G');
like($out, qr{^127\.0\.0\.1/2: opened\nlocalhost/4: listens.*^localhost/4: opened$}ms, '--add twice');
($out) = run(0, '--remove', 'localhost/2');
like($out, qr{^localhost/2: it has left\n\z}m, '--remove of one of several');
unlike($out, qr{localhost/3|localhost:}, 'and of no other');
($out) = run(1, '--remove', 'localhost/2', '--remove', 'nosuch');
is($out, "no process there any more\nno process of that name\n", '--remove: no such process');
($out) = run(1, '--add', 'localhost -s 1');
like($out, qr/^localhost\/\d: ended with status 2: -s 1: must be at least 1M/m, '--add: why it failed');
($out) = run(1, '--add', 'a/b');
is($out, "a/b: not a host name or address\n", '--add: no host');
($out) = run(0, '--remove', 'localhost');
like($out, qr/^localhost: it has left$/m, '--remove of all at a host');
like($out, qr/^localhost\/$_: it has left$/m, 'all of them') for 3, 4;

# Only its user reaches it.
is((stat "$dir/dmi")[2] & 0777, 0700, 'the directory of sockets is private');
is((stat "$dir/dmi/ports.sock")[2] & 0777, 0600, 'so is the socket');
refused('--set ports: that name is in use', '-f', $two, '--set', 'ports', $program);
my $second = start(['localhost'], '--set', 'other', $program);
$second->shows('err', '=== opened ===');
like((run(1, '--status'))[1], qr/2 sets run on this host; say which one: --set other or --set ports\n/,
  'two sets: which one?');
$second->signal('TERM');
$second->wait_exit(0);
is((run(1, '--remove', 'nosuch'))[0], "no process of that name\n", 'one set: that one');
# No directory that somebody else could have made, or can look into: then it is in the home.
my $home = "$dir/" . 'long' x 50;
mkdir $_ or die "$_: $!" for $home, "$dir/open", "$dir/private";
chmod 0755, $home, "$dir/open";
chmod 0700, "$dir/private";
symlink "$dir/private", "$dir/link" or die;
mkdir "$dir/taken", 0700 or die;
symlink "$dir/private", "$dir/taken/dmi" or die;
for my $runtime (undef, '', 'relative', "$dir/nothing/there", "$dir/open", "$dir/link", "$dir/taken",
    $> == 0 ? "$dir/foreign" : ()) {
  local $ENV{HOME} = $home;
  local $ENV{XDG_RUNTIME_DIR} = $runtime;
  delete $ENV{XDG_RUNTIME_DIR} unless defined $runtime;
  if (($runtime // '') =~ /foreign/) {
    mkdir $runtime, 0700 or die;
    chown 65534, 65534, $runtime or die;
  }
  my $what = 'XDG_RUNTIME_DIR ' . (defined $runtime ? $runtime =~ s{.*/}{}r : 'not set');
  my $third = start(['localhost'], '--set', 'third', $program);
  $third->shows('err', '=== opened ===');
  my ($socket) = glob "$home/.dmi/run/*/third.sock";
  ok($socket, "$what: the socket is in the home") or diag(`find $dir -name third.sock`);
  is(join(' ', map { sprintf '%o', (lstat)[2] & 0777 } $socket =~ m{^((.*)/.*)/}), '700 700',
    "$what: in a private directory");
  like((run(0, '--status', '--set', 'third'))[0], qr/^localhost +opened/m, "$what: it is found");
  $third->signal('INT');
  $third->wait_exit(0);
  ok(!-e $socket, "$what: the socket is gone");
}
is_deeply([glob "$dir/private/*"], [], 'links are not followed');
# Somebody who asks and goes away, and somebody who speaks nonsense, do no harm.
for my $words ('', "{\n", "[]\n", "{\"op\":\"x\"}\n", 'x' x 100_000) {
  socket my $socket, AF_UNIX, SOCK_STREAM, 0 or die;
  connect $socket, pack_sockaddr_un("$dir/dmi/ports.sock") or die;
  $socket->autoflush(1);
  print $socket $words;
}
like((run(0, '--status'))[0], qr/^127\.0\.0\.1\/2 +opened/m, 'it still answers');
$mw->signal('INT');
$mw->expect_err(qr/^dmimw: asking 2 processes to leave\n/m);
$mw->wait_exit(0);    # that one --add has failed is not a failure of the program
ok(!-e "$dir/dmi/ports.sock", 'its socket is gone');

# --log: a file for each process, with both streams and no tags.
my $log = do { open my $file, '<', "$dir/log/127.0.0.1.log" or die; local $/; <$file> };
like($log, qr/^argument: a b\n/m, '--log: stdout');
like($log, qr/^=== initialized ===\n(?:.*\n)*=== finalized ===\n/m, '--log: stderr');
ok(-s "$dir/log/localhost.$_.log", "--log: localhost.$_.log") for 2, 3;
is((stat "$dir/log/127.0.0.1.log")[2] & 07777, 0600, '--log: for nobody else');

# -f -: the list is what comes on stdin, and then nothing is left of that for the program.
my $listed = put('listed', "# list\nlocalhost\nlocalhost -s 64M\n");
open my $list, '<', $listed or die;
$mw = $t->spawn([$dmimw, '-f', '-', '--tag', $program], name => 'dmimw', stdin => $list);
$mw->shows('err', map { "$_: === opened ===" } 'localhost', 'localhost/2');
$mw->signal('INT');
$mw->wait_exit(0);
refused('standard input: no host in it', '-f', '-', $program);    # which is empty
put('listed', "localhost\na/b\n");
open $list, '<', $listed or die;
$mw = $t->spawn([$dmimw, '-f', '-', $program], name => 'dmimw', stdin => $list);
$mw->wait_exit(2);
like($mw->err, qr{\Admimw: standard input, line 2: a/b: not a host name[^\n]*\n\z}, 'a wrong line');

# ---- Input, output, environment ---------------------------------------------------------------

my $chatter = put('chatter', <<'END', 0755);
#!/usr/bin/perl
# Stands for a program: says that it listens, and then shows what it gets.
open my $events, '>&=', $ENV{DMI_EVENT_FD};
syswrite $events, qq({"event":"listening","port":1}\n);
exit 0 if defined $ENV{DMI_JOIN_HOST};
$| = 1;
print "half a line";
syswrite $events, qq({"event":"joined"}\n{"event":"opened"}\n);
print "$ENV{DMI_TEST_MW} $ENV{HANDED_ON} ", $ENV{KEPT_HERE} // 'unset', $ENV{DMI_SURVIVE} ? ' survives' : '', "\n";
while (<STDIN>) { print "got: $_" }
print "x" x 3_000_000, "\nlast";
exit 7;
END
pipe my $input, my $typed or die;
local @ENV{qw(DMI_TEST_MW HANDED_ON KEPT_HERE)} = ('dmi', 'on', 'here');
$mw = start(['localhost'], '--env', 'HANDED_ON', '--survive', '--tag', $chatter, { stdin => $input });
$typed->autoflush(1);
$mw->shows('out', 'localhost: half a linedmi on here survives');
print $typed "one\n";
$mw->shows('out', 'localhost: got: one');
print $typed 'two' x 50_000;
close $typed;
close $input;
$mw->wait_exit(7);
ok($mw->out eq "localhost: half a linedmi on here survives\nlocalhost: got: one\nlocalhost: got: "
  . 'two' x 50_000 . 'x' x 3_000_000 . "\nlocalhost: last\n", 'all of input and output, in whole lines')
  or diag(length $mw->out);

# Without a node file: this machine; --stop ends it, and says when.
{
  my $stopped = $t->spawn([$dmimw, -n => 2, $program, 'x'], name => 'dmimw');
  $stopped->shows('out', 'argument: x', 'members: 0 1');
  my ($out) = run(0, '--stop');
  like($out, qr{^localhost: it has left$}m, '--stop: who leaves');
  like($out, qr{^localhost/2: it has left$}m, 'all do');
  like($out, qr{^cluster_dmi-\d+ has ended\n\z}m, 'and the set has ended');
  $stopped->wait_exit(0);
  like((run(1, '--stop'))[1], qr/no dmimw of yours runs/, '--stop: nobody there');
}

# And without -n: one process.
{
  my $one = $t->spawn([$dmimw, '--set', 'one', $program, 'y'], name => 'dmimw');
  $one->shows('out', 'argument: y', 'members: 0');
  is(join(' ', (run(0, '--status', '--set', 'one'))[0] =~ /^(\S+) +opened /mg), 'localhost', 'with neither -f nor -n there is one process, on this machine');
  run(0, '--stop', '--set', 'one');
  $one->wait_exit(0);
}

# A reader that goes away: at the next line, the same as Ctrl+C.
$mw = $t->spawn(['/bin/sh', '-c', "{ $dmimw -f $two --tag $program 2>$dir/err; echo \$? >$dir/status; }"
  . ' | { read line; exec 0<&-; echo "$line"; }'], name => 'piped');
$mw->expect_out(qr/^localhost: members: 0\n/);
my $asker = $t->spawn([$dmimw, '--add', 'localhost'], name => 'asker');
$mw->wait_exit(0);
$t->wait_until(sub { !$asker->running }, 'the asker ends');
$asker->{judged} = 1;    # whether it was in time does not matter
is(do { open my $file, '<', "$dir/status" or die; <$file> }, "1\n", 'nobody reads: it ends, with status 1');
like(do { open my $file, '<', "$dir/err" or die; local $/; <$file> },
  qr/^localhost: === finalized ===/m, 'in order');

# ---- Signals ----------------------------------------------------------------------------------

$mw = start(['localhost', 'localhost'], $program);
$mw->expect_err(qr/=== opened ===(?s:.*)=== opened ===/);
$mw->signal('HUP');
$mw->wait_exit(0);
like($mw->err, qr/^dmimw: asking 2 processes to leave\n/m, 'SIGHUP asks to leave');

# --stop waits for one that does not leave, and asks it once; a Ctrl+C ends only the waiting.
{
  my $slow = put('slow', <<'END', 0755);
#!/bin/sh
trap 'echo asked' INT TERM
echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
echo there
read line < fifo || read line < fifo || read line < fifo
END
  POSIX::mkfifo("$dir/fifo", 0600) or die;
  my $stays = start(['localhost'], '--dir', $dir, $slow);
  $stays->expect_out(qr/there\n/);
  my @stops = map { $t->spawn([$dmimw, '--stop'], name => "stop $_") } 1, 2;
  $stays->expect_out(qr/asked\n/);
  $_->expect_out(qr/^slow-\d+: all processes are asked to leave\n/) for @stops;
  ok($_->running, 'it waits') for @stops;
  $stops[0]->signal('INT', dies => 1);
  $stops[0]->wait_exit(signal => 'INT');
  open my $fifo, '>', "$dir/fifo" or die;
  print $fifo "\n";
  close $fifo;
  $stops[1]->wait_exit(0);
  like($stops[1]->out, qr/has ended\n\z/, 'until it has ended');
  is(scalar(() = $stays->out =~ /asked/g), 1, 'it was asked once');
  $stays->wait_exit(0);
  unlink "$dir/fifo" or die;
}

# A program that dismisses nobody: who asked is told what is waited for, and nobody is asked a second time by
# the --stop behind a --remove, since that would be a question.
{
  my $lasts = $t->compile('test/multi/end_dmi.c');
  pipe my $never, my $writer or die;
  local $ENV{TMPDIR} = $dir;
  my $stays = start(['127.0.0.1', 'localhost'], $lasts, 'lost', 0, { stdin => $never });
  $stays->expect_err(qr/=== joined ===(?s:.*)=== joined ===/);
  my $remove = $t->spawn([$dmimw, '--remove', '127.0.0.1'], name => 'remove');
  my $dismissed = qr/the program has not dismissed this process yet \(DMI_goodbye\)/;
  my $waits = qr/127\.0\.0\.1: asked to leave, and waiting: $dismissed/;
  $remove->expect_out(qr/\A127\.0\.0\.1: closed\n$waits; DMI_main runs there \(dmimw --stop asks all processes to leave\); Ctrl\+C ends only this command, the request stays\n/);
  $stays->expect_err(qr/^dmimw: $waits\n/m);
  $remove->signal('INT', dies => 1);
  $remove->wait_exit(signal => 'INT');
  my $stop = $t->spawn([$dmimw, '--stop'], name => 'stop');
  $stop->expect_out(qr/\Aend_dmi-\d+: all processes are asked to leave\n$waits\n/);
  $stays->expect_err(qr/^dmimw: localhost: asked to leave, and waiting: .*DMI_welcome.*; Ctrl\+C \(kill -INT @{[$stays->pid]}\) writes what they are doing into a file, one more ends them at once\n/m);
  unlike($stays->err, qr/still here|^dmi: this process/m, 'the processes themselves say nothing');
  is(() = $stays->err =~ /$waits/g, 1, 'and it is said once of each');
  $stays->signal('INT');
  $stays->expect_err(qr/^dmimw: still there: /m);
  $stays->signal('INT');
  $stays->wait_exit(130);
  $stop->wait_exit(0);
}

# One that does not leave, and has a child.
my $stubborn = put('stubborn', <<'END', 0755);
#!/bin/sh
trap 'echo asked' INT TERM
echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
sleep 1000 & echo "child $! of $$ there"
wait; wait; wait; wait; wait
END
$mw = start(['localhost'], $stubborn);
my ($child, $parent) = $mw->expect_out(qr/child (\d+) of (\d+) there\n/);
my @ends = map { DMITest::end_of($_) } $parent, $child;
$mw->signal('INT');
$mw->expect_out(qr/asked\n/);
$mw->expect_err(qr/^dmimw: asking 1 process to leave\n\z/);
$mw->signal($_) for 'TERM', 'INT';    # SIGTERM asks once
$mw->expect_err(qr/^dmimw: still there: localhost \(listening for \d+ s\); the next Ctrl\+C ends them at once\n/);
$mw->expect_out(qr/asked\n/);
$mw->signal('INT');
$mw->expect_err(qr/^dmimw: ending all processes at once\n/);
$mw->wait_exit(130);
ok($_->(5), 'the process and its child are gone') for @ends;

# The same one, when dmimw is killed: after the time of grace.
$mw = start(['localhost'], '--grace', 1, $stubborn);
($child, $parent) = $mw->expect_out(qr/child (\d+) of (\d+) there\n/);
my $end = DMITest::end_of($parent);
$mw->signal('KILL');
$mw->wait_exit(signal => 'KILL');
ok($end->(20), '--grace: what does not leave is killed');

# What the process has started goes with it, also what has hidden in a session of its own; what that
# writes without end holds nothing up.
my $hides = put('hides', <<'END', 0755);
#!/usr/bin/perl
# Has a child that leaves it, as a daemon does, and writes for ever.
use POSIX;
open my $events, '>&=', $ENV{DMI_EVENT_FD};
syswrite $events, qq({"event":"listening","port":1}\n);
close $events;
$| = 1;
pipe my $reader, my $writer;
if (fork == 0) {
  POSIX::setsid();
  exit if fork;
  $SIG{$_} = 'IGNORE' for qw(INT TERM HUP PIPE);
  print $writer "$$\n";
  close $writer;
  close $reader;
  while (1) { print STDERR "noise\n" x 1000 }
}
close $writer;
print "hidden: ", scalar <$reader>;
if ($ARGV[0]) { sleep 1000 }
END
for my $way ('it ends by itself', 'it dies of a signal') {
  my $stays = $way ne 'it ends by itself';
  $mw = start(['localhost'], $hides, $stays ? 1 : ());
  my ($hidden) = $mw->expect_out(qr/hidden: (\d+)\n/);
  my $ends = DMITest::end_of($hidden);
  $mw->signal('INT') if $stays;
  $mw->wait_exit($stays ? 128 + 15 : 0);
  ok($ends->(0), "$way: what it has left behind is gone");
}

# The agent is killed: a program that lets nobody go is killed as well, whatever it does.
my $hermit = $t->compile('test/multi/hermit_dmi.c');
for my $how ('deaf', 'ignoring', 'dismissed', 'stopped') {
  $mw = start(['localhost'], '--grace', 1, $hermit, $how);
  my ($hermit_pid) = $mw->expect_out(qr/process (\d+)\n/);
  my $ends = DMITest::end_of($hermit_pid);
  $mw->expect_out(qr/deaf by now\n/) if $how eq 'ignoring';
  if ($how eq 'dismissed') {
    $mw->signal('INT');
    $mw->expect_err(qr/=== left ===/);
  }
  kill STOP => $hermit_pid if $how eq 'stopped';
  my $stat = do { open my $file, '<', "/proc/$hermit_pid/stat" or die; <$file> };
  kill KILL => $stat =~ /\) \S (\d+) /;
  $mw->wait_exit(1);
  ok($ends->(20), "a program that is $how ends after its agent was killed");
}

# A number that may be somebody else's by now gets no signal.
my $kill = 'BEGIN { *CORE::GLOBAL::kill = sub { print "kill @_\n" } } use DMI::Loop; use DMI::Started;'
  . 'my $process = bless { pid => 4711, loop => DMI::Loop->new }, "DMI::Started";';
for my $case (['', "kill KILL -4711\n"], ['$process->{status} = 0;', '']) {
  my $command = $t->spawn([$^X, '-I' . $t->top . '/bin/lib', '-e', "$kill $case->[0] \$process->_kill"]);
  $command->wait_exit(0);
  is($command->out, $case->[1], $case->[1] ? 'the group is killed' : 'but not after its end');
}

# A process that dies by a signal, and one that fails.
$mw = start(['localhost'], put('dies', "#!/bin/sh\nkill -SEGV \$\$\n", 0755));
$mw->wait_exit(128 + 11);
like($mw->err, qr/^dmimw: localhost \(pid \d+\) was killed by SIGSEGV\n\z/, 'died of a signal');
$mw = start(['localhost', 'localhost -s 7', 'localhost'], '--require', 3, $program);
$mw->wait_exit(1);
like($mw->err, qr{^dmimw: localhost/2: ended with status 2: -s 7: must be}m, 'one failed');
like($mw->err, qr/^dmimw: 2 of the 3 processes that --require asks for are left/m, '--require');

# A program that is over before others could join is no failure; one that refuses them is.
my $brief = put('brief', <<'END', 0755);
#!/bin/sh
# The first process: ends when the second one has failed to join.  The second: is refused.
if [ -z "$DMI_JOIN_HOST" ]; then
  echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
  read line < fifo
  exit 0
fi
echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
echo '=== initialized ===' >&2
echo '{"event":"error","text":"it is not there"}' > /dev/fd/$DMI_EVENT_FD
echo 'dmi: it is not there' >&2
[ -n "$DMI_TEST_END" ] && echo > fifo
exit 1
END
POSIX::mkfifo("$dir/fifo", 0600) or die;
$mw = start(['localhost', 'localhost'], '--dir', $dir, '--env', 'DMI_TEST_END=1', $brief);
$mw->wait_exit(0);
is($mw->err, "=== initialized ===\ndmimw: localhost/2: came too late, localhost has left\n", 'too late');
$mw = start(['localhost', 'localhost'], '--dir', $dir, $brief);
$mw->expect_err(qr/^dmimw: localhost\/2: ended with status 1: it is not there\n/m);
open my $fifo, '>', "$dir/fifo" or die;
close $fifo;
$mw->wait_exit(1);

# Stopped by Ctrl+Z, dmimw can say nothing; the process runs on.
my $silence = ($ENV{DMI_TEST_SLOW} // 1) > 1 ? 4 : 1;    # a busy machine must not be taken for a silent one
$mw = start(['localhost'], '--timeout', $silence, $program);
$mw->expect_err(qr/=== opened ===/);
my ($pid) = (run(0, '--status'))[0] =~ /^localhost +opened +\d+ +(\d+)/m;
$end = DMITest::end_of($pid);
$mw->signal('TSTP');
waitpid $mw->pid, POSIX::WUNTRACED;
ok(!$end->(2 * $silence), 'while dmimw is stopped, its process goes on');
$mw->signal('CONT');
like((run(0, '--status'))[0], qr/^localhost +opened/m, 'and so does dmimw then');
$mw->signal('INT');
$mw->wait_exit(0);
$t->done;
