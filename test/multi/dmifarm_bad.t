#!/usr/bin/perl
# dmifarm_bad.t - dmifarm when things go wrong: runners that are killed, workers that hang while they go, disks that
# are full, files that cannot be read, names that are taken, and `finish` that does not end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMIFarm;
use File::Path qw(make_path);

my $soak = DMITest::scale() eq 'soak';
my $t = DMITest->new(timeout => $soak ? 1200 : 240, wait => $soak ? 600 : 60);
my $farm = DMIFarm->new($t);

# A task that tells its process number and its runner's, and waits.
sub make_telling {
  my ($job, $name) = @_;
  $farm->make_waiting($job, $name);
  write_file("$job/tasks/$name", "echo \$\$ \$PPID > '$job/$name.pids'\n" . content("$job/tasks/$name"));
}

sub pids_of {
  my ($job, $name) = @_;
  return split ' ', content("$job/$name.pids");
}

# Whether a process has ended; somebody else may still have to wait for it.
sub has_ended {
  my ($pid) = @_;
  my $stat = content("/proc/$pid/stat");
  return !defined $stat || $stat =~ /\) [ZX] /;
}

# ---- Runners -----------------------------------------------------------------------------------

# One is killed: what it ran is run again, at the same worker, and nothing is left behind.
{
  my $job = $farm->job(z => "echo z\n");
  make_telling($job, 'one');
  my $master = $farm->run($job, opts => [-n => 1]);
  is($farm->meet($job, 'one'), 'a', 'the first version');
  kill KILL => (pids_of($job, 'one'))[1];
  is($farm->meet($job, 'one'), 'b', 'its runner is killed: another one begins');
  $farm->let_go($job, 'one', 'went on');
  $master->wait_exit(0);
  my %results = $farm->results($job);
  is($results{'one.a'}[3], 'lost with its runner', 'the table tells of it');
  is(content("$job/one.b/result"), "went on\n", 'the second one counts');
  $farm->nothing_left('a killed runner');
}

# A task that always kills it is given up.
{
  my $job = $farm->job(killer => "kill -KILL \$PPID; exec sleep 100000\n", other => "echo other\n");
  my $master = $farm->run($job, opts => [-n => 1]);
  $master->wait_exit(1);
  $master->expect_err(qr{^  killer: lost with its runner \(\S+/failed/killer\.j\)$}m);
  is(content("$job/failed/killer.j/status"), "lost with its runner\n", 'given up after ten times');
  ok(-e "$job/other.a/done", 'the other one is done');
  $farm->nothing_left('a task that kills its runner');
}

# ---- Workers -----------------------------------------------------------------------------------

# One that leaves, and hangs meanwhile: the others go on.
{
  my $job = $farm->job();
  make_telling($job, 'a');
  $farm->make_waiting($job, 'b');
  my $master = $farm->run($job, opts => [-n => 0]);
  my $leaver = $farm->worker($master, 'leaver');
  is($farm->meet($job, 'a'), 'a', 'the leaver has a task');
  my ($task, $runner) = pids_of($job, 'a');
  kill STOP => $runner;
  kill KILL => $task;    # so that it does not read what the next version waits for
  $leaver->signal('INT');
  my $stays = $farm->worker($master, 'stays');
  is($farm->meet($job, 'a'), 'b', 'another worker has it, while the leaver hangs');
  $farm->let_go($job, 'a', 'A');
  is($farm->meet($job, 'b'), 'a', 'and goes on');
  $farm->let_go($job, 'b', 'B');
  $master->expect_err(qr/^dmifarm: 2 of 2 tasks done/m);
  ok(-e "$job/done", 'the job is done before the leaver has gone');
  kill CONT => $runner;
  $_->wait_exit(0) for $master, $leaver, $stays;
  $farm->nothing_left('a leaver that hangs');
}

# ---- finish ------------------------------------------------------------------------------------

# A worker leaves while it runs; Ctrl+C stops it, with what it has started; later it runs again.
{
  my $job = $farm->job();
  $farm->make_waiting($job, $_) for qw(one finish);
  rename "$job/tasks/finish", "$job/finish" or die $!;
  write_file("$job/finish", "sleep 100000 & echo \$! > '$job/child'\n" . content("$job/finish"));
  my $master = $farm->run($job);
  my $worker = $farm->worker($master, 'worker');
  $worker->expect_event('opened');
  $farm->meet($job, 'one');
  $farm->let_go($job, 'one', 1);
  $farm->meet($job, 'finish');
  my $child = content("$job/child") + 0;
  $worker->signal('INT');
  $worker->wait_exit(0);
  ok(!has_ended($child), 'finish still runs when a worker has left');
  $master->signal('INT');
  $master->wait_exit(1);
  $master->expect_err(qr{/finish: signal 15 }m);
  ok(has_ended($child), 'Ctrl+C has stopped it');
  my $again = $farm->run($job, name => 'again');
  $farm->meet($job, 'finish');
  $farm->let_go($job, 'finish', 'at last');
  $again->wait_exit(0);
  like($again->out, qr/^at last$/m, 'and it runs again');
  kill KILL => content("$job/child") + 0;
}

# ---- Names that are taken ----------------------------------------------------------------------

# What the user has put beside the results stays, whatever its name and contents; letters that are taken are left out.
{
  my $job = $farm->job(t => "echo t\n", x => "echo x\n");
  make_path("$job/t.a", "$job/t.empty");
  write_file("$job/t.a/mine", "mine\n");
  write_file("$job/x.a", "a file\n");
  $farm->run($job)->wait_exit(0);
  is_deeply([$farm->versions($job)], [qw(t.b x.b)], 'the next letters are taken');
  system('cp', '-r', "$job/t.b", "$job/t.backup") == 0 or die 'cp';
  system('cp', '-r', "$job/t.b", "$job/t.a/copy") == 0 or die 'cp';
  unlink "$job/done", "$job/x.b/done" or die $!;
  $farm->run($job, name => 'again')->wait_exit(0);
  is(content("$job/x.c/result"), "x\n", 'what has no `done` any more is run again');
  ok(!-e "$job/x.b", 'and its directory goes');
  is(content("$job/t.a/mine"), "mine\n", 'a directory of the user\'s stays');
  is(content("$job/t.backup/result"), "t\n", 'a copy of a result stays');
  ok(-d "$job/t.empty", 'an empty directory stays');
  is(content("$job/x.a"), "a file\n", 'a file stays');
  my %results = $farm->results($job);
  is_deeply([sort keys %results], [qw(t.b x.b x.c)], 'the table has what was run');
}

# ---- What cannot be read -----------------------------------------------------------------------

{
  my $job = $farm->job(good => "echo good\n");
  symlink "$job/nowhere", "$job/tasks/bad" or die $!;
  my $task = $farm->run($job, name => 'task');
  $task->wait_exit(2);
  $task->expect_err(qr{^dmifarm: \S+/tasks/bad: No such file or directory$}m);
  unlink "$job/tasks/bad" or die $!;
  make_path("$job/data/good");
  my $data = $farm->run($job, name => 'data');
  $data->wait_exit(2);
  $data->expect_err(qr{^dmifarm: \S+/data/good: not a file$}m);
  rmdir "$job/data/good" or die $!;
  symlink 'loop', "$job/bin/loop" or die $!;
  my $bin = $farm->run($job, name => 'bin');
  $bin->wait_exit(2);
  $bin->expect_err(qr{^dmifarm: \S+/bin/loop: Too many levels}m);
  ok(!glob("$job/good.*"), 'nothing was run');
}

# ---- Full disks --------------------------------------------------------------------------------

# A small file system at $path, which only this command sees.
sub on_small_disk {
  my ($path, $size, @command) = @_;
  return ('unshare', '-rm', 'sh', '-c', 'mount -t tmpfs -o size=$1 small "$2" && shift 2 && exec "$@"', 'sh', $size,
    $path, @command);
}

my $mounts = system('unshare -rm mount -t tmpfs small /mnt 2>/dev/null') == 0;
SKIP: {
  skip 'no file system can be mounted', 7 unless $mounts;

  # At a worker: what it cannot store fails there, and is run elsewhere.
  my $job = $farm->job(large => "head -c 5000000 /dev/zero\n");
  my $tmp = $t->dir . '/small';
  make_path($tmp);
  my $master = $farm->run($job, opts => [-n => 0, '--retries' => 1_000_000]);
  my @worker = ('taskset', -c => 0, $t->build . '/bin/dmirun', -i => '127.0.0.1', -p => $master->port, -l => 0, $farm->program);
  my $small = $t->spawn([on_small_disk($tmp, '1m', 'env', "TMPDIR=$tmp", @worker)], name => 'small');
  $master->expect_err(qr{large.a failed at \S+ its worker's disk: No space left}m);
  my $roomy = $farm->worker($master, 'roomy');
  $_->wait_exit(0) for $master, $small, $roomy;
  is(-s (glob "$job/large.*/result")[0], 5_000_000, 'a result that did not fit at one worker came from another one');

  # At the master: the job stops, and says why; with room it goes on.
  my $dir = $t->dir . '/full';
  make_path($dir);
  my $script = join "\n", "mkdir -p $dir/tasks; cd $dir",
    'echo "echo small" > tasks/a; echo "head -c 5000000 /dev/zero" > tasks/b; echo "echo small" > tasks/c',
    "'" . $farm->program . "' run $dir -n 1 -- -l 0; echo status \$?",
    'cat a.a/result; [ -e b.a/done ] || echo "no b"; mount -o remount,size=20m small .',
    "'" . $farm->program . "' run $dir -n 1 -- -l 0; echo status \$?", 'cat a.a/result c.*/result; wc -c < `echo b.*/result`; ls';
  my $full = $t->spawn([on_small_disk($dir, '2m', 'sh', '-c', $script)], name => 'full');
  $full->wait_exit(0);
  like($full->err, qr{^dmifarm: \S*\Q$dir\E/\S.*: No space left on device$}m, 'a full disk is told');
  like($full->out, qr/^status 1\nsmall\nno b\nstatus 0\nsmall\nsmall\n5000000\n/m, 'with room the job goes on');
  like($full->out, qr/^done$/m, 'and is done');
  $farm->nothing_left('full disks');
}

# A task that mounts something in its directory: what is in there stays.
SKIP: {
  skip 'no file system can be mounted', 3 unless $mounts;
  my ($mine, $tmp) = map { $t->dir . "/$_" } qw(mine tmp_of_mount);
  make_path($mine, $tmp);
  my $job = $farm->job(mounts => "mkdir m && mount -t tmpfs small m && echo mine > m/file && echo mounted\n",
    other => "echo other\n");
  my $script = "TMPDIR=$tmp '" . $farm->program . "' run $job -n 1 -- -l 0 && cat $tmp/*/*/cwd/m/file";
  my $inside = $t->spawn(['unshare', '-rm', 'sh', '-c', $script], name => 'mounts');
  $inside->wait_exit(0);
  is(content("$job/mounts.a/result"), "mounted\n", 'a task mounts something');
  like($inside->out, qr/^mine$/m, 'and what is there is not removed with its directory');
}

# ---- A result that is larger than memory (soak) ------------------------------------------------

if ($soak) {
  my $size = 4 * 1024**3 + 12345;
  my $job = $farm->job(huge => "head -c $size /dev/zero\n");
  my $master = $farm->run($job, opts => [-n => 0]);
  my $worker = $farm->worker($master, 'worker');
  $_->wait_exit(0) for $master, $worker;
  is(-s "$job/huge.a/result", $size, 'a result of 4 GiB');
  unlink "$job/huge.a/result";
}

$t->done;
