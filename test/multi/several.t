#!/usr/bin/perl
# several.t - dmirun -n and --hosts: several processes by one command, each with its part of the
# processors; who gets which options, Ctrl+C, exit status, a process that dies, and dmirun itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMICluster;
use DMITest;
use FreePort qw(free_port);
use DMITerminal;
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use POSIX ();

my $t = DMITest->new(timeout => 120);
my $dir = $t->dir;
my ($dmirun, $dmimw) = map { $t->build . "/bin/$_" } qw(dmirun dmimw);
my $program = $t->compile('test/multi/cluster_dmi.c');

sub put {
  my ($name, $text) = @_;
  open my $file, '>', "$dir/$name" or die;
  print $file $text;
  close $file or die;
  chmod 0755, "$dir/$name";
  return "$dir/$name";
}

sub start {
  my (@args) = @_;
  my %opt = ref $args[-1] eq 'HASH' ? %{ pop @args } : ();
  return $t->spawn([$dmirun, @args], name => 'dmirun', %opt);
}

# Name => pid, as `dmimw --status` says.
sub pids {
  my $status = $t->spawn([$dmimw, '--status'], name => 'status');
  $status->wait_exit(0);
  return $status->out =~ /^(\S+) +\w+ +\d+ +(\d+) /mg;
}

# ---- Refused: one line, status 2, nothing is started ------------------------------------------

sub refused {
  my ($why, @args) = @_;
  my $process = start(@args);
  $process->wait_exit(2);
  like($process->err, qr/\Admirun: [^\n]*$why[^\n]*\n\z/, "refused: @args");
}

refused("-n $_: must be a number from 1", -n => $_, $program) for 0, 'x', -1;
refused('--hosts needs names of hosts', '--hosts', '', $program);
refused('--hosts a b: not a host name', '--hosts', 'a b', $program);
refused('--hosts : not a host name', '--hosts', 'a,,b', $program);
refused('--hosts -oProxyCommand=x: not a host', '--hosts', 'a,-oProxyCommand=x', $program);
refused('--tag: it is for several processes', '--tag', $program);
refused("$_->[0]: it is for one process", -n => 2, @$_, $program)
  for ['--check'], ['--with-parent'], ['--ready-fd', 5], ['--share', '1/2'];
refused("--share $_: which part, and of how many", '--share', $_, $program) for '2/1', '0/1', '1', '1/x', '1/1/1';
refused('-s 1: must be at least 1M', -n => 2, -s => 1, $program);
refused('no program given', -n => 2);
refused('/bin/true: not a DMI program', -n => 2, '/bin/true');
refused('5: processes that join \(-i\) have no arguments', -n => 2, -i => 'localhost', $program, 5);
refused('no key came', -n => 2, '--key-fd', 0, $program);

# ---- Who gets what ----------------------------------------------------------------------------

# Stands for a program: shows what it was given; the first one stays until two others have.
my $shows = put('shows', <<'END');
#!/bin/sh
exec 3<> fifo
echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
echo "share $DMI_SHARE/$DMI_SHARES port $DMI_LISTEN_PORT ox ${DMI_OX-none} pool ${DMI_POOL_BYTES-no} bound ${DMI_BIND_THREADS-no} joins ${DMI_JOIN_HOST-none} args: $*"
[ -z "$DMI_JOIN_HOST" ] || { echo >&3; exit 0; }
read line <&3
read line <&3
exit 7
END
POSIX::mkfifo("$dir/fifo", 0600) or die;
chdir $dir or die;
my $several = start(-n => 3, '--tag', -l => 7999, '--ox', 1200, -s => '64M', '--bind-threads', $shows, 'a b', '-n');
$several->wait_exit(7);
is_deeply([sort split /\n/, $several->out],
  ['localhost/2: share 2/3 port 0 ox none pool 67108864 bound 1 joins localhost args: ',
  'localhost/3: share 3/3 port 0 ox none pool 67108864 bound 1 joins localhost args: ',
  'localhost: share 1/3 port 7999 ox 1200 pool 67108864 bound 1 joins none args: a b -n'],
  'each has its part; port, clients and arguments are for the first one');
$several = start('--hosts', 'localhost,127.0.0.1', -n => 3, '--tag', $shows);
$several->wait_exit(7);
is_deeply([sort map { /^(\S+): share (\S+) / ? "$1 $2" : () } split /\n/, $several->out],
  ['127.0.0.1 /', 'localhost 1/2', 'localhost/2 2/2'], '--hosts: in turn; who is alone has no part');

# What starts the program, and its name, are for all of them; arguments are for the first one.  But scripts of Python
# have theirs everywhere.
my $python = put('python3', "#!/bin/sh\nexec '$shows' \"\$@\"\n");
put('script', "#!/usr/bin/env python3\n");
for my $case ([['/usr/bin/env', 'A=1', $shows, 'a'], 'a', ''], [[$python, '-u', 'prog.py', 'a'], '-u prog.py a', '-u prog.py a'],
  [['/usr/bin/env', $python, 'prog.py', 'a'], 'prog.py a', 'prog.py a'], [['/bin/sh', '-c', "exec $shows a"], 'a', 'a']) {
  my ($command, $first, $joins) = @$case;
  $several = start(-n => 3, @$command);
  $several->wait_exit(7);
  is_deeply([sort $several->out =~ /joins (\S+ args: .*)\n/g], ["localhost args: $joins", "localhost args: $joins", "none args: $first"], "@$command");
}
{
  local $ENV{PATH} = "$dir:$ENV{PATH}";    # the script is run by the python3 that stands there
  $several = start(-n => 3, "$dir/script", 'a');
  $several->wait_exit(7);
  is_deeply([sort $several->out =~ /joins (\S+ args: \S+ a)\n/g], [map { "$_ args: $dir/script a" } 'localhost', 'localhost', 'none'], 'a script of Python, by its first line');
}

# The others cannot join: a line says that the first one is alone.
my $alone = put('alone', <<'END');
#!/bin/sh
[ -z "$DMI_JOIN_HOST" ] || exit 3
echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
trap 'exit 0' INT TERM
read line < never
END
POSIX::mkfifo("$dir/never", 0600) or die;
$several = start(-n => 3, $alone);
$several->expect_err(qr/^dmirun: none of the other processes has joined, and the first one runs on alone: Ctrl\+C asks it to leave\n/m);
$several->signal('INT');
$several->wait_exit(1);

# What a process leaves behind goes with it, though others of the same agent run on; what does not say whose
# it was goes with the last one.
my $leaves = put('leaves', <<'END');
#!/usr/bin/perl
# Leaves daemons behind, as a program would that hides something; the first process stays until it reads a line.
use POSIX;
open my $events, '>&=', $ENV{DMI_EVENT_FD};
syswrite $events, qq({"event":"listening","port":1}\n);
close $events;
my $who = $ENV{DMI_JOIN_HOST} ? 'second' : 'first';
$| = 1;
for my $how ('', ' without a sign') {
  if (fork == 0) {
    POSIX::setsid();
    exit if fork;
    print "$who$how $$\n";
    %ENV = () if $how;
    exec '/bin/sleep', 1000;
  }
  wait;
}
<STDIN> if $who eq 'first';
END
pipe my $line, my $typed or die;
$several = start(-n => 2, $leaves, { stdin => $line });
# They write in any order.
$t->wait_until(sub { 4 == (() = $several->out =~ /^(?:first|second)(?: without a sign)? \d+$/mg) }, 'both have left two behind');
my %left = map { my $who = $_; $who => DMITest::end_of($several->out =~ /^$who (\d+)$/m) }
  map { ($_, "$_ without a sign") } qw(first second);
ok($left{second}->(30), 'what the second process has left behind is gone');
ok(!$left{$_}->(0), "$_: still there") for 'first', 'first without a sign', 'second without a sign';
close $_ for $line, $typed;
$several->wait_exit(0);
ok($left{$_}->(0), "$_: gone") for sort keys %left;

# A host that cannot be reached is named once, and each host is.
{
  mkdir "$dir/ways" or die;
  put('ways/ssh', "#!/bin/sh\necho \"ssh: no way to \$4\" >&2\nexit 255\n");
  local $ENV{PATH} = "$dir/ways:$ENV{PATH}";
  $several = start(-n => 6, '--hosts', 'localhost,nowhere.invalid,other.invalid', $program);
  $several->expect_out(qr/^members: 0 1$/m);
  $t->wait_until(sub {
    my $status = $t->spawn([$dmimw, '--status'], name => 'status');
    $status->wait_exit(0);
    return 4 == (() = $status->out =~ m{^\w+\.invalid(?:/2)? +failed .* no way to}mg);
  }, 'all four have failed');
  $several->signal('INT');
  $several->wait_exit(1);
  is(join('', sort $several->err =~ /^dmirun: .*\n/mg),
    join('', map { "dmirun: $_\n" } 'asking 2 processes to leave', map { "$_: ssh: no way to $_" } 'nowhere.invalid', 'other.invalid'),
    'a host that is not reached: one line');
}

# ---- A program --------------------------------------------------------------------------------

open my $key, '<', $t->key_file or die;
delete local $ENV{DMI_KEY_FILE};
my $mw = start(-n => 3, '--tag', '--key-fd', 0, $program, { stdin => $key });
$mw->shows('err', map { "$_: === opened ===" } 'localhost', 'localhost/2', 'localhost/3');
$mw->shows('out', 'localhost: members: 0 1 2');
my %pid = pids();
is(join(' ', sort keys %pid), 'localhost localhost/2 localhost/3', 'dmimw --status knows them');
$ENV{DMI_KEY_FILE} = $t->key_file;
my @ends = map { DMITest::end_of($_) } values %pid;
$mw->signal('INT');
$mw->expect_err(qr/^dmirun: asking 3 processes to leave\n/m);
$mw->wait_exit(0);
ok($_->(5), 'gone') for @ends;

# The port is not free (-l 7880+ is the default): a line says where the program is, and how to look at it.
{
  my $taken = IO::Socket::INET->new(LocalPort => 0, Listen => 1) or die "$!\n";
  my $wanted = $taken->sockport;
  $mw = start(-n => 2, -l => "$wanted+", $program, 'x');
  my ($port, $at) = $mw->expect_err(qr/^dmi: port $wanted is not free on this machine: this program is at port (\d+), and dmirun --status (\S+) \(or --threads, --top \.\.\.\) shows it\n/m);
  isnt($port, $wanted, 'another port');
  like($at, qr/:$port\z/, 'that one');
  $mw->expect_out(qr/^members: 0 1$/m);
  is(scalar(() = $mw->err =~ /is not free/g), 1, 'one line, of the first process');
  my $status = $t->spawn([$dmirun, '--status', $at], name => 'status');
  $status->wait_exit(0);
  like($status->out, qr/\Aprogram: \Q$program\E x \(asked at \S+:$port\)\n/, 'there it is');
  $mw->signal('INT');
  $mw->wait_exit(0);
}

# One of them dies: a line of DMI tells of it, and one of dmirun; no other one repeats it.
sub begin {
  my (@opts) = @_;
  $mw = start(-n => 3, @opts, $program);
  $mw->expect_err(qr/(?s:=== opened ===.*){3}/);
  $mw->expect_out(qr/^(?:localhost: )?members: 0 1 2$/m);
  %pid = pids();
  @ends = map { DMITest::end_of($_) } values %pid;
}
# What is said, but for joins and leaves, also slow ones, sorted: dmi: comes before dmirun:, without tags.
sub said { return join "\n", sort grep { !/=== \w+ ===$|port 7880 is not free|: asked to leave, and waiting: / } split /\n/, $_[0]->err =~ s/^localhost\S*: //mgr }
my $ends = qr/this ends the program in all processes, as what that one held is gone \(dmirun --survive lets a program go on without it\)/;
for my $tag (0, 1) {
  begin($tag ? '--tag' : ());
  kill KILL => $pid{'localhost/2'};
  $mw->wait_exit(1);
  like(said($mw), qr{\Admi: lost process ([12]) \(\S+, localhost/2\): [^;\n]*; $ends\ndmirun: process \1 \(localhost/2, pid $pid{'localhost/2'}\) was killed by SIGKILL\z}, 'SIGKILL' . ($tag ? ', with --tag' : ''));
  ok($_->(5), 'gone') for @ends;
}
{
  my $fatal = $t->compile('test/multi/fatal_dmi.c');
  for my $way (['exits', qr//, qr/exit\(3\) was called while the program ran, in thread 1 of pid \d+/, 'ended with status 3, while the program ran: it has called exit or _exit'],
    ['abort', qr/dmi:   [^\n]*\n(?:dmi: [^\n]*\n|\S+fatal_dmi\S*\n)*?/, qr/killed by SIGABRT \(abort\(\) was called\) in thread 1 of pid \d+[^\n;]*/, 'was killed by SIGABRT']) {
    my ($name, $trace, $why, $how) = @$way;
    $mw = start(-n => 2, $fatal, $name, 1);
    $mw->wait_exit(1);
    my $said = join "\n", sort grep { /^(?:dmi: lost |dmirun: )/ } split /\n/, said($mw);
    like($said, qr{\Admi: lost process 1 \(\S+, localhost/2\): (?:$why); $ends\ndmirun: process 1 \(localhost/2, pid \d+\) $how\z}, $name);
  }
}

# With --survive it is no failure: the exit status is that of the program.
begin('--survive', '--dead-after', 20);
kill KILL => $pid{'localhost/2'};
$t->wait_until(sub { said($mw) =~ /is lost.*was killed/s }, 'its loss and its end are told');
$mw->expect_out(qr/^members: 0 [12]$/m);
$mw->signal('INT');
$mw->wait_exit(0);
like(said($mw), qr{\Admi: process ([12]) \(\S+, localhost/2\) is lost; the program goes on with 2 processes\ndmirun: asking 2 processes to leave\ndmirun: process \1 \(localhost/2, pid $pid{'localhost/2'}\) was killed by SIGKILL\z}, '--survive: one line of each, too');

# But not without DMI_main, as there is no DMI_recover.
begin('--survive', '--dead-after', 20);
kill KILL => $pid{localhost};
$mw->wait_exit(128 + 9);
like(said($mw), qr{\Admi: process 0 \(\S+, localhost\) is lost, and DMI_main with it; the program defines no DMI_recover, so it ends\ndmirun: process 0 \(localhost, pid $pid{localhost}\) was killed by SIGKILL\z}, 'DMI_main is lost: all end, and one says so');

# DMI_exit is no failure of those that end with its status.
{
  my $exits = $t->compile('test/multi/exit_dmi.c');
  $mw = start(-n => 3, $exits, 'waits', 3);
  $mw->wait_exit(7);
  is(said($mw), '', 'DMI_exit: its status, and nothing else');
}

# They hang: the second Ctrl+C names one file with what all of them do; the third one ends them.
{
  my $hangs = $t->compile('test/multi/see_dmi.c');
  my $kept = "$dir/kept";
  mkdir $kept or die;
  local $ENV{TMPDIR} = $kept;
  my $port = free_port();
  $mw = start(-n => 2, -l => $port, '--grace', 1, $hangs, 'barrier');
  $mw->expect_out(qr/^begins \d+\n/m);
  $t->wait_until(sub {
    my $look = $t->spawn([$dmirun, '--threads', "127.0.0.1:$port"], name => 'look');
    $look->wait_exit(0);
    return $look->out =~ /2 of 3 have come/;
  }, 'two threads wait at the barrier');
  # The name in front of the lines of a process leads to its row.
  my $all = $t->spawn([$dmirun, '--json', "127.0.0.1:$port"], name => 'json');
  $all->wait_exit(0);
  my @members = @{ decode_json($all->out)->{members} };
  is_deeply({ map { $_->{tag} => $_->{process_now}{pid} } @members }, { pids() }, '--json: names as dmimw --status has them');
  my ($second) = grep { $_->{tag} eq 'localhost/2' } @members;
  my $status = $t->spawn([$dmirun, '--status', "127.0.0.1:$port"], name => 'status');
  $status->wait_exit(0);
  like($status->out, qr{^$second->{process} +\S+, localhost/2 }m, '--status, too');
  $mw->signal('INT');
  $mw->expect_err(qr/^dmirun: asking 2 processes to leave\n(?s:.*=== closed ===.*){2}/m);
  $mw->expect_err(qr/^dmirun: still there: localhost \(\w+ for \d+ s\), localhost\/2 \(\w+ for \d+ s\); Ctrl\+C \(kill -INT @{[$mw->pid]}\) writes what they are doing into a file, one more ends them at once\n/m);
  my $before = length $mw->err;
  $mw->signal('INT');
  my $line = qr/dmirun: what all of them are doing is in (\S+)\n/;
  my ($path) = $mw->expect_err($line);
  like(substr($mw->err, $before), qr/\Admirun: still there: localhost \(\w+ for \d+ s\), localhost\/2 \(\w+ for \d+ s\); the next Ctrl\+C ends them at once\n$line\z/,
    'the second Ctrl+C: two lines of all');
  is_deeply([glob "$kept/*"], [$path], 'and one file');
  is((stat $path)[2] & 0777, 0600, 'which others cannot read');
  open my $file, '<', $path or die "$path: $!";
  my $dump = join '', <$file>;
  like($dump, qr/^process $_ is to leave: the program has not dismissed this process yet \(DMI_goodbye\)$/m, "it says what $_ waits for") for 0, 1;
  like($dump, qr/^  DMI_main in DMI_local_barrier_sync .*2 of 3 have come; still missing:\n      thread 2 of process 1 \(\S+, localhost\/2\)/ms, 'and what the threads do');
  $mw->signal('INT');
  $mw->expect_err(qr/^dmirun: ending all processes at once\n/m);
  $mw->wait_exit(130);
}

# With --survive the others go on; and when dmirun itself is killed, all leave.
$mw = start(-n => 3, '--survive', $program);
$mw->expect_err(qr/(?s:=== opened ===.*){3}/);
%pid = pids();
@ends = map { DMITest::end_of($_) } values %pid;
kill KILL => $pid{'localhost/2'};
$mw->expect_err(qr{^dmirun: process \d \(localhost/2, pid \d+\) was killed by SIGKILL\n}m);
$mw->signal('KILL');
$mw->wait_exit(signal => 'KILL');
ok($_->(30 * ($ENV{DMI_TEST_SLOW} || 1)), 'no process is left behind') for @ends;

# In a terminal: Ctrl+C asks all of them once, and they read what is typed.
SKIP: {
  skip('tmux is not installed', 1) if DMITerminal::missing();
  my $terminal = DMITerminal->new($t, 100, 30);
  $terminal->run("$dmirun -n 2 --tag $program; echo \"status \$?\"");
  $terminal->shows(qr/^localhost: members: 0 1 *$/m, 'two members');
  $terminal->keys('C-c');
  my $screen = $terminal->shows(qr/^status 0 *$/m, 'Ctrl+C: all of them leave');
  is(scalar(() = $screen =~ /=== finalized ===/g), 2, 'each in order');
  $terminal->close;
}

# Others join them, and they join others.
my $first = $t->start($program, name => 'first');
$first->expect_event('opened');
$mw = start(-n => 2, -i => '127.0.0.1', -p => $first->port, $program);
$first->expect_out(qr/^members: 0 1 2$/m);
$mw->signal('TERM');
$mw->wait_exit(0);
$first->signal('INT');
$first->wait_exit(0);

# Other hosts, by whatever `ssh` is.
SKIP: {
  my $why = DMICluster::missing();
  skip($why, 1) if $why;
  my $cluster = DMICluster->new($t, hosts => 2);
  mkdir "$dir/bin" or die;
  put('bin/ssh', "#!/bin/sh\nPATH='$ENV{PATH}' exec " . $cluster->ssh . ' "$@"' . "\n");
  my $far = $t->spawn([$cluster->here('env', "PATH=$dir/bin:$ENV{PATH}", $dmirun, '--hosts', 'h1,h2', -n => 3, '--tag', $program, 'x')], name => 'far');
  $far->shows('err', map { "$_: === opened ===" } 'h1', 'h2', 'h1/2');
  $far->shows('out', 'h1: argument: x', 'h1: members: 0 1 2');
  $far->signal('INT');
  $far->wait_exit(0);
  is_deeply([$cluster->running], [], 'nothing is left');
  $cluster->stop;
}
$t->done;
