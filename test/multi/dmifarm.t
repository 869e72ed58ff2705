#!/usr/bin/perl
# dmifarm.t - dmifarm: jobs of all kinds, workers that come, go and die, a master that is killed, and
# what a user gets wrong.
#
# Tasks that are to be met while they run wait in a named pipe (FIFO) until the test opens it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMIFarm;
use File::Path qw(make_path);

my $t = DMITest->new(timeout => 240, wait => 60);
my $farm = DMIFarm->new($t);

# ---- All kinds of tasks ------------------------------------------------------------------------

{
  my $job = $farm->job(
    lines => "echo one\necho two\n",
    silent => "env | grep ^DMI_\ntrue\n",
    noisy => "echo hello; echo oops >&2\n",
    'with space' => "echo \"\$DMIFARM_TASK\"\n",
    "new\nline" => "echo \"\$DMIFARM_TASK\"\n",
    '-n' => "echo minus\n",
    'input' => "wc -c; cat data | wc -c\n",
    'calls' => "mine 7\n",
    'large' => "head -c 5000000 /dev/zero; head -c 5000 /dev/zero >&2\n",
    'long' => "#!/bin/sh\n: " . ('x' x 3_000_000) . "\necho long\n");
  chmod 0755, "$job/tasks/long";
  write_file("$job/data/input", 'y' x 2_500_000);
  write_file("$job/bin/mine", "#!/bin/sh\necho mine \$1\n", 0755);
  write_file("$job/finish", "cat lines.a/result > finished; echo the end\n");
  my $master = $farm->run($job);
  $master->wait_exit(0);
  is(content("$job/lines.a/result"), "one\ntwo\n", 'lines for sh');
  is(content("$job/silent.a/result"), '', 'a task that prints nothing');
  is(content("$job/noisy.a/stderr"), "oops\n", 'what it prints to stderr');
  is(content("$job/with space.a/result"), "with space\n", 'a space in the name');
  is(content("$job/new\nline.a/result"), "new\nline\n", 'a newline in the name');
  is(content("$job/-n.a/result"), "minus\n", 'a dash in front of the name');
  is(content("$job/input.a/result"), "2500000\n2500000\n", 'input');
  is(content("$job/calls.a/result"), "mine 7\n", 'a program of bin');
  is(-s "$job/large.a/result", 5_000_000, 'a large result');
  is(-s "$job/large.a/stderr", 5_000, 'and stderr');
  is(content("$job/long.a/result"), "long\n", 'a large program');
  is(content("$job/finished"), "one\ntwo\n", 'finish has run');
  like($master->out, qr/^the end$/m, 'and has printed');
  my %results = $farm->results($job);
  is(scalar keys %results, 10, 'a line for each task');
  is($results{'new\nline.a'}[3], 'done', 'with names that fit in one line');
  is(scalar(() = content("$job/timeline.svg") =~ /<title>/g), 10, 'a bar for each in the picture');
  $farm->nothing_left('all kinds');
  my $again = $farm->run($job);
  $again->wait_exit(0);
  $again->expect_err(qr/is done \(to add tasks/);
  unlike($again->out, qr/the end/, 'finish does not run again');
}

# ---- Tasks that fail ---------------------------------------------------------------------------

{
  my $job = $farm->job(
    good => "echo good\n",
    bad => "echo some; echo why >&2; exit 3\n",
    shot => "kill -KILL \$\$\n",
    endless => "sleep 100000 & wait\n",
    unstarted => "#!/nowhere/at/all\n");
  chmod 0755, "$job/tasks/unstarted";
  write_file("$job/finish", "echo never\n");
  my $master = $farm->run($job, opts => ['--retries', 1, '--timeout', 1]);
  $master->wait_exit(1);
  is_deeply([$farm->versions($job)], ['good.a'], 'the others are done');
  my %results = $farm->results($job);
  is_deeply([map { $results{"$_.a"}[3] } qw(good bad shot endless)],
    ['done', 'exit status 3', 'signal 9 (Killed)', 'time limit'], 'how they ended');
  is_deeply([sort grep { /\.[b-z]\z/ } keys %results], [qw(bad.b endless.b shot.b unstarted.b)], 'each was tried twice');
  is(content("$job/failed/bad.b/stdout"), "some\n", 'what it printed');
  is(content("$job/failed/bad.b/stderr"), "why\n", 'also to stderr');
  is(content("$job/failed/bad.b/status"), "exit status 3\n", 'how it ended');
  like($master->err, qr{^  bad: exit status 3 \(\Q$job\E/failed/bad\.b\)$}m, 'the table says why, and where');
  like($master->err, qr{^  shot: signal 9 \(Killed\) \(\Q$job\E/failed/shot\.b\)$}m, 'a signal');
  like($master->err, qr{^  endless: time limit \(\Q$job\E/failed/endless\.b\)$}m, 'the time limit');
  like($master->err, qr/^  unstarted: (?:not started: No such file or directory \(the program of its #! line\?\)|exit status 127)/m,
    'a program that is not there (in builds with the thread sanitizer posix_spawn does not tell why)');
  like($master->err, qr/^dmifarm: when they are mended, call dmifarm run \S+ again/m, 'and how to go on');
  ok(!-e "$job/done", 'the job is not done');
  write_file("$job/good.txt", 'mine');
  make_path("$job/bad.old/mine");
  unlike($master->out, qr/never/, 'finish does not run');

  write_file("$job/tasks/$_", "echo $_\n") for qw(bad shot endless unstarted);
  $farm->run($job, name => 'again')->wait_exit(0);
  is_deeply([$farm->versions($job)], [qw(bad.c endless.c good.a shot.c unstarted.c)], 'mended, they are done, under new letters');
  ok(-e "$job/done" && !-e "$job/failed", 'and the job is');
  ok(-e "$job/good.txt" && -e "$job/bad.old/mine", "files of the user's with such names are still there");
}

# ---- Workers -----------------------------------------------------------------------------------

# One leaves, one is killed: their tasks are run elsewhere, each result is there once.
{
  my $job = $farm->job();
  $farm->make_waiting($job, $_) for qw(a b c);
  my $master = $farm->run($job, opts => [-n => 0]);
  my $leaver = $farm->worker($master, 'leaver');
  is($farm->meet($job, 'a'), 'a', 'the first task');
  my $victim = $farm->worker($master, 'victim');
  is($farm->meet($job, 'b'), 'a', 'the second one, at another worker');
  $leaver->signal('INT');
  $leaver->wait_exit(0);
  my $stays = $farm->worker($master, 'stays');
  is($farm->meet($job, 'a'), 'b', 'what a leaver ran is run elsewhere');
  $victim->kill_now;
  $victim->wait_exit(signal => 'KILL');
  $master->expect_err(qr/ is lost; what it ran is run again$/m);
  $farm->let_go($job, 'a', 'A');
  is($farm->meet($job, 'b'), 'b', 'and what a lost one ran');
  $farm->let_go($job, 'b', 'B');
  is($farm->meet($job, 'c'), 'a', 'the third');
  $farm->let_go($job, 'c', 'C');
  $_->wait_exit(0) for $master, $stays;
  is_deeply([$farm->versions($job)], [qw(a.b b.b c.a)], 'each result is there once');
  is(content("$job/$_/result"), uc(substr $_, 0, 1) . "\n", "the result of $_") for qw(a.b b.b c.a);
  my %results = $farm->results($job);
  is($results{'a.a'}[3], 'returned', 'the leaver has returned it');
  is($results{'b.a'}[3], 'lost', 'the killed one has lost it');
  $farm->nothing_left('workers');
}

# Workers that dmimw starts, by a node file; nobody else runs tasks.
{
  my $job = $farm->job();
  $farm->make_waiting($job, $_) for qw(a b);
  write_file("$job/nodes", "localhost -l 0\n" x 2);
  my $master = $farm->run($job, opts => [-n => 0, -f => "$job/nodes"]);
  is($farm->meet($job, $_), 'a', "$_ runs") for qw(a b);
  $farm->let_go($job, $_, $_) for qw(a b);
  $master->wait_exit(0);
  is(content("$job/$_.a/result"), "$_\n", "the result of $_") for qw(a b);
  $farm->nothing_left('a node file');
  my $without = $farm->run($farm->job(one => "true\n"), opts => [-n => 0, -f => "$job/none"]);
  $without->wait_exit(1);
  $without->expect_err(qr{^dmifarm: -f \S+/none: No such file or directory$}m);
}

# A worker that does not get on: a second version begins, wins, and the first is stopped.
{
  my $job = $farm->job(quick => "true\n", slow => "[ \$DMIFARM_VERSION = a ] && exec sleep 100000; echo b\n");
  my $master = $farm->run($job, opts => [-n => 0]);
  my @workers = map { $farm->worker($master, "worker $_") } 1, 2;
  $_->wait_exit(0) for $master, @workers;
  is(content("$job/slow.b/result"), "b\n", 'the copy counts');
  my %results = $farm->results($job);
  is($results{'slow.a'}[3] // 'stopped', 'stopped', 'the first one was stopped');
  $farm->nothing_left('copies');
}

# ---- The master --------------------------------------------------------------------------------

# It is killed, and started again: what is done is not run again.  Meanwhile a second one is refused.
{
  my $job = $farm->job(last => "exit 1\n");
  write_file("$job/tasks/$_", "echo $_ >> '$job/ran'; echo $_\n") for 'a' .. 'e';
  $farm->run($job, opts => ['--retries', 0])->wait_exit(1);
  $farm->make_waiting($job, 'last');
  my $master = $farm->run($job, name => 'killed');
  is($farm->meet($job, 'last'), 'b', 'only the last one is run again');
  my $second = $farm->run($job, name => 'second');
  $second->wait_exit(2);
  $second->expect_err(qr/another dmifarm runs this job: process \d+ at \S+$/m);
  ok(-e "$job/.dmifarm/contact", 'and leaves the contact file of the first one');
  $master->kill_now;
  $master->wait_exit(signal => 'KILL');
  my $again = $farm->run($job, name => 'again');
  is($farm->meet($job, 'last'), 'c', 'and again, under a new letter');
  $farm->let_go($job, 'last', 'at last');
  $again->wait_exit(0);
  is(join(' ', sort split /\n/, content("$job/ran")), 'a b c d e', 'each other task was run once');
  is_deeply([$farm->versions($job)], [qw(a.a b.a c.a d.a e.a last.c)], 'each result is there once');
  is(content("$job/last.c/result"), "at last\n", 'the result of the last one');
  ok(-e "$job/done", 'the job is done');
}

# Its workers end, and say what to do.
{
  my $job = $farm->job();
  $farm->make_waiting($job, 'one');
  my $master = $farm->run($job, name => 'lost master', opts => [-n => 0]);
  my $worker = $farm->worker($master, 'without a master');
  $farm->meet($job, 'one');
  $master->kill_now;
  $master->wait_exit(signal => 'KILL');
  $worker->wait_exit(1);
  $worker->expect_err(qr/^dmifarm: the process that ran `dmifarm run` is lost: .*`dmifarm run JOB`, started again, goes on/m);
  $farm->nothing_left('a worker without a master');
}

# Ctrl+C stops the job; it goes on later.
{
  my $job = $farm->job();
  $farm->make_waiting($job, 'one');
  my $master = $farm->run($job);
  $farm->meet($job, 'one');
  my $worker = $farm->worker($master, 'worker');
  $worker->expect_event('opened');
  $master->signal('INT');
  $master->wait_exit(1);
  $worker->wait_exit(1);
  $master->expect_err(qr/stopped; dmifarm run .* goes on$/m);
  my $again = $farm->run($job, name => 'again');
  $farm->meet($job, 'one');
  $farm->let_go($job, 'one', 'went on');
  $again->wait_exit(0);
  is(content("$job/one.b/result"), "went on\n", 'a job that was stopped goes on');
  $farm->nothing_left('Ctrl+C');
}

# ---- As users type it --------------------------------------------------------------------------

# All others have options of dmirun. Here the port is the usual one, so it has a network of its own.
if (system('unshare -n ip link set lo up 2>/dev/null') == 0) {
  my $job = $farm->job(usual => "echo usual\n");
  local $ENV{DMI_LAUNCHED} = 1;    # as in a program that dmirun has started, and that starts a farm
  my $master = $t->spawn(['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', $farm->program, 'run', $job],
    name => 'usual');
  $master->wait_exit(0);
  is(content("$job/usual.a/result"), "usual\n", 'without options');
}

# ---- What a user gets wrong --------------------------------------------------------------------

sub refused {
  my ($why, @args) = @_;
  my $process = $t->spawn([$farm->program, @args], name => 'refused');
  $process->wait_exit(2);
  like($process->err, qr/^dmifarm: [^\n]*$why/m, "refused: @args");
}
refused('which job', 'run');
refused('frob: unknown command', 'frob');
refused('No such file', 'run', $t->dir . '/none');
refused('not a job: it has no directory `tasks`', 'run', $t->dir);
refused('-n x: a whole number', 'run', $t->dir, '-nx');
refused('unknown option --copy', 'run', $t->dir, '--copy');
refused('-n x: a whole number', 'run', $t->dir, '-n', 'x');
refused('--timeout needs a number', 'run', $t->dir, '--timeout');
refused('must contain \{begin\} and \{end\}', 'make', $t->dir . '/m', '--split', 'queen 8', 10, 2);
refused('3 tasks cannot share 2 numbers', 'make', $t->dir . '/m', '--split', '{begin}{end}', 2, 3);
{
  my $job = $farm->job();
  my $empty = $farm->run($job, name => 'empty');
  $empty->wait_exit(2);
  $empty->expect_err(qr/there is no task$/m);
  make_path("$job/tasks/directory");
  my $directory = $farm->run($job, name => 'directory');
  $directory->wait_exit(2);
  $directory->expect_err(qr{tasks/directory: not a file$}m);
}

{
  my $help = $t->spawn([$farm->program, 'run', '-h'], name => 'help');
  $help->wait_exit(0);
  like($help->out, qr/^usage: dmifarm run JOB/, 'dmifarm run -h');
  my $job = $farm->job(one => "echo 1\n");
  my $glued = $farm->run($job, name => 'glued', opts => ['-n1']);
  $glued->wait_exit(0);
  $glued->expect_err(qr/; \d+\.\d{3} s$/m);
}

# Launchers work without being installed, without a PATH.
{
  local $ENV{PATH} = '/usr/bin:/bin';
  my $beside = $t->spawn([$t->build . '/bin/dmirun', 'dmifarm', '-v'], name => 'beside');
  $beside->wait_exit(0);
  like($beside->out, qr/^dmifarm \(DMI\) /, 'dmirun finds dmifarm beside itself');
}

# ---- dmifarm make ------------------------------------------------------------------------------

{
  my $job = $t->dir . '/made';
  $t->spawn([$farm->program, 'make', $job, '--split', 'echo {begin}:{end}', 10, 3], name => 'make')->wait_exit(0);
  is(join('', map { content("$job/tasks/task.$_") } 0 .. 2), "echo 0:4\necho 4:7\necho 7:10\n",
    'three tasks share ten numbers');
  refused('File exists; remove', 'make', $job, '--split', 'echo {begin}:{end}', 10, 3);
}

$t->done;
