#!/usr/bin/perl
# files.t - files that options name, when they cannot be written: no such directory (the process does not
# start), a full disk, the limit of ulimit -f (a line, and the program goes on).  And what ulimit -f does to
# files of the program, and of what it starts.
use strict;
use warnings;
use Fcntl qw(O_RDWR O_NONBLOCK);
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;
use DMITest;

my $t = DMITest->new(timeout => 120);
my $program = $t->compile('test/multi/files_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
my $dir = $t->dir;

sub content {
  my ($path) = @_;
  open my $file, '<', $path or die "$path: $!";
  local $/;
  return scalar <$file> // '';
}

# A command that can make files of so many units of 512 bytes (sh).
sub limited {
  my ($units, @command) = @_;
  return ['/bin/sh', '-c', 'ulimit -f "$0" && exec "$@"', $units, @command];
}

sub lines {
  my ($process, $regex) = @_;
  return scalar grep { /$regex/ } split /\n/, $process->err;
}

# ---- Those that cannot be made -----------------------------------------------------------------

for my $option (qw(trace events profile contact)) {
  for ([none => "$dir/none/file", "there is no directory $dir/none"], [directory => $dir, 'Is a directory']) {
    my ($what, $path, $why) = @$_;
    next if $option eq 'contact' && $what eq 'directory';
    my $process = $t->start($program, opts => ["--$option", $path], name => "$option, $what");
    $process->wait_exit(2);
    is($process->err, "dmi: cannot write $path (--$option): $why\n", "--$option: it says why, and nothing else");
    is($process->out, '', 'the program has not begun');
  }
}
{
  my $process = $t->start($program, opts => ['--spill', "$dir/none"], name => 'spill, none');
  $process->wait_exit(2);
  is($process->err, "dmirun: --spill $dir/none: No such file or directory\n", '--spill: it says why');
}
{
  # What dmirun cannot see: nobody makes a file there.
  my $process = $t->start($program, opts => ['--spill', '/proc'], name => 'spill, proc');
  $process->wait_exit(2);
  like($process->err, qr{\A(?:dmi: cannot make a file in /proc \(dmirun --spill\)|dmirun: --spill /proc): .+\n\z}, '--spill: it says why');
}
{
  my $process = $t->start($program, name => 'variable', env => { DMI_DEAD_AFTER => 'x' });
  $process->wait_exit(2);
  like($process->err, qr{\Admi: DMI_DEAD_AFTER=x is not a number .*\n\z}, 'a variable: it says why');
}
for my $option (qw(trace events profile contact)) {
  my $all = $t->spawn([$dmirun, -n => 2, -l => 0, "--$option", "$dir/none/file", $program], name => "several, $option");
  $all->wait_exit(2);
  is(lines($all, qr{^(?:dmi: |dmirun: [^:]+: ended with status 2: )?cannot write $dir/none/file \(--$option\): there is no directory $dir/none}), 1, "--$option, with -n: it says so once");
}

# What is no file stays what it is.
{
  my $pipe = "$dir/pipe";
  system('mkfifo', $pipe) == 0 or die;
  sysopen my $reader, $pipe, O_RDWR | O_NONBLOCK or die "$pipe: $!";
  my $process = $t->start($program, opts => ['--contact', $pipe], name => 'contact, pipe');
  $process->expect_verdict('files', 0);
  ok(-p $pipe, 'a pipe is not replaced by a file');
  like(scalar <$reader> // '', qr/ \d+$/, 'it gets the line');
}

# ---- Those that cannot be written --------------------------------------------------------------

my %ends = (
  trace => 'the trace (--trace) ends there',
  events => 'what happens from now on is not in it (--events)',
  profile => 'the profile (--profile) of this process is not complete');

sub goes_on {
  my ($process, $option, $path, $why) = @_;
  $process->expect_verdict('files', 0);
  is(lines($process, qr/^dmi: /), 1, "--$option: one line");
  like($process->err, qr/^dmi: cannot write \Q$path\E: \Q$why; $ends{$option}\E$/m, 'it says what, why and what follows');
}

for my $option (sort keys %ends) {
  my $process = $t->start($program, opts => ["--$option", '/dev/full'], name => "$option, full");
  goes_on($process, $option, '/dev/full', 'No space left on device');
}

my $allowed = 'File too large (ulimit -f allows no more)';
for my $option (sort keys %ends) {
  my $path = "$dir/$option";
  my $process = $t->spawn(limited(1, $dmirun, -l => 0, "--$option", $path, $program), name => "$option, limit");
  goes_on($process, $option, $path, $allowed);
  is(-s $path, 512, 'as much as is allowed is there');
}

# Where a process may write no byte at all.
SKIP: {
  skip 'the thread sanitizer itself writes a file before the program begins', 1
    if DMIPython::variable($t->build, 'DMI_SANITIZER') =~ /thread/;

  {
    my $process = $t->spawn(limited(0, $dmirun, -l => 0, '--contact', "$dir/contact", $program), name => 'contact, limit');
    $process->expect_verdict('files', 0);
    like($process->err, qr{^dmi: cannot write $dir/contact \(--contact\): \Q$allowed\E$}m, '--contact: it says why');
    is_deeply([glob "$dir/contact*"], [], 'nothing is left');
  }

  # What looks at a program.
  {
    my $process = $t->spawn(limited(0, $dmirun, -l => 0, $program, 'wait'), name => 'dump, limit', env => { TMPDIR => $dir });
    $process->expect_err(qr/^=== opened ===$/m);
    my $look = $t->spawn(limited(0, $dmirun, '--dump', "$dir/dump", -i => '127.0.0.1', -p => $process->port), name => 'looks');
    $look->wait_exit(2);
    is($look->err, "dmirun: --dump $dir/dump: File too large\n", 'dmirun --dump: it says why');
    $process->signal('INT');
    $process->wait_exit(0);
  }

  # The second Ctrl+C: nobody answers the first one.
  {
    my $process = $t->spawn(limited(0, $dmirun, -l => 0, $program, 'stay'), name => 'second, limit', env => { TMPDIR => $dir });
    $process->expect_err(qr/^=== opened ===$/m);
    $process->signal('INT');
    $process->expect_err(qr/^=== closed ===$/m);
    $process->signal('INT');
    $process->expect_err(qr{^dmi: cannot write $dir/dmi-dump\.\S+: \Q$allowed\E$}m);
    ok($process->running, 'it goes on');
    $process->signal('KILL');
    $process->wait_exit(signal => 'KILL');
  }

  # Several processes.
  {
    my $out = "$dir/out";
    my $all = $t->spawn(['/bin/sh', '-c', 'ulimit -f 0 && exec "$@" > "$0"', $out, $dmirun, -n => 1, $program], name => 'output, limit');
    $all->wait_exit(1);
    is(lines($all, qr/^dmirun: cannot write the output of the processes: File too large; all are asked to leave$/), 1,
      'dmirun -n says why it ends the program');
  }
  {
    my $log = "$dir/log";
    mkdir $log or die;
    my $all = $t->spawn(limited(0, $t->build . '/bin/dmimw', '--log', $log, -n => 1, $program), name => 'log, limit');
    $all->expect_verdict('files', 0);
    is(lines($all, qr/^dmimw: --log: localhost: File too large; not all of what it writes is in its file$/), 1,
      'dmimw --log says so once');
  }
}

# What is printed, onto a full disk.
for my $command ([dmirun => '-h'], [dmirun => '-v'], [dmimw => '-h'], [dmimw => '-v'], [dmicc => '-h'], [dmicc => '--version'],
  [dmicc => '--dmi-show', 'x.c']) {
  my ($name, @args) = @$command;
  my $full = $t->spawn(['/bin/sh', '-c', 'exec "$@" > /dev/full', 'sh', $t->build . "/bin/$name", @args], name => "full, @$command");
  $full->wait_exit($name eq 'dmicc' ? 1 : 2);
  is($full->err, "$name: cannot write the output: No space left on device\n", "@$command: it says why");
}
{
  my $set = $t->spawn([$t->build . '/bin/dmimw', '--set', 'full', $program, 'wait'], name => 'set');
  $set->expect_err(qr/^=== opened ===$/m);
  my $full = $t->spawn(['/bin/sh', '-c', 'exec "$@" > /dev/full', 'sh', $t->build . '/bin/dmimw', '--status', '--set', 'full'], name => 'full, status');
  $full->wait_exit(1);
  is($full->err, "dmimw: cannot write the output: No space left on device\n", 'dmimw --status: it says why');
  $set->signal('INT');
  $set->wait_exit(0);
}
for my $name (qw(dmirun dmimw dmicc)) {
  my $help = $t->spawn([$t->build . "/bin/$name", '-h'], name => "$name -h");
  $help->wait_exit(0);
  is(join("\n", grep { length > 80 } split /\n/, $help->out), '', "$name -h: lines of 80 columns");
}

# ---- The program's own files -------------------------------------------------------------------

{
  my $process = $t->spawn(limited(4, $dmirun, -l => 0, $program, 'own', "$dir/own"), name => 'own');
  $process->expect_verdict('files', 1);
  is(lines($process, qr/^dmi: a write of the thread of DMI_main of process 0 has failed: its file is as large as ulimit -f allows$/),
    1, 'a file of the program: a line says so, once');
}
{
  my $process = $t->spawn(limited(4, $dmirun, -l => 0, $program, 'handler', "$dir/own"), name => 'handler', env => { FILES_HANDLER => 1 });
  $process->expect_verdict('files', 1);
  is(lines($process, qr/^dmi: /), 0, 'a handler of the program counts instead');
}
{
  my $process = $t->spawn(limited(4, $dmirun, -l => 0, $program, 'child', "$dir/own"), name => 'child');
  $process->expect_verdict('files', 1);
  is(lines($process, qr/^dmi: /), 0, 'what it starts, or forks, ends as ever');
}

$t->done;
