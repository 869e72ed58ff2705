# DMITest.pm - for tests with several real processes.
#
# Every wait is for a condition (text, a port, an end), by select, and has a deadline; the whole
# test has a hard deadline, too.  A wait that fails shows the logs of all processes and ends the
# test. No process outlives the test.
#
#   use FindBin;
#   use lib "$FindBin::Bin/lib";
#   use DMITest;
#
#   my $t = DMITest->new(timeout => 60);
#   my $program = $t->compile('test/multi/hello.c');
#   my $first = $t->start($program, args => [2]);
#   my $second = $t->start($program, join => $first, opts => [-s => '64M']);
#   $second->expect_event('opened');
#   my ($id) = $first->expect_out(qr/hello from (\d+)/);
#   is($id, 1, 'the second one is greeted');
#   $second->signal('INT');
#   $second->wait_exit(0);
#   $first->wait_exit(0);
#   $t->done;
#
# With DMI_TEST_NODES=memory they are nodes of one process: DMINodes.pm.
#
# The test fails when a process unexpectedly dies of a signal, ends with a status other than 0, or
# still runs at the end, or when a sanitizer reports anything in any output.  Text that a program
# prints into a pipe arrives when the C library flushes it: test programs call setvbuf or fflush.
package DMITest;

use strict;
use warnings;
use Cwd qw(abs_path);
use DMINodes;
use Exporter qw(import);
use Fcntl qw(:flock);
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use JSON::PP ();
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(stat time);

# A test script gets Test::More along with this.
our @EXPORT = @Test::More::EXPORT;

our $SANITIZER_SPOKE =
  qr/ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|LeakSanitizer/;

my $top = abs_path(dirname(__FILE__) . '/../../..');
my $slow = $ENV{DMI_TEST_SLOW} || 1;    # factor for all deadlines, for sanitizers and busy machines
my $current;                            # the one DMITest of this script

# ---- The test ----------------------------------------------------------------------------------

# DMITest->new(timeout => seconds of the whole test, wait => seconds of one wait)
sub new {
  my ($class, %opt) = @_;
  die "DMITest: one per script\n" if $current;
  my $self = bless {
    started => time,
    timeout => ($opt{timeout} // 60) * $slow,
    wait => ($opt{wait} // 30) * $slow,
    processes => [],
    problems => [],
    log => [],     # [seconds, process name, 'out', 'err', 'evt' or '', line]
    dir => tempdir('dmi-test-XXXXXX', TMPDIR => 1, CLEANUP => 1),
    build => _build_dir(),
  }, $class;
  pipe $self->{wake_reader}, $self->{wake_writer} or die "DMITest: no pipe: $!\n";
  $_->blocking(0) for @$self{qw(wake_reader wake_writer)};
  # Sanitizers check the bytes of a message after sendmsg has returned.  By then the peer may have
  # received them and answered, and the thread may have used or freed its buffer again.
  for my $options (qw(ASAN_OPTIONS TSAN_OPTIONS)) {
    $ENV{$options} = join ':', 'intercept_send=0', $ENV{$options} // ();
  }
  # So that only this test's dmimw is found: other sets may be noted in either.
  $ENV{XDG_RUNTIME_DIR} = $self->{dir};
  $ENV{HOME} = tempdir('dmi-home-XXXXXX', TMPDIR => 1, CLEANUP => 1);
  $ENV{TMPDIR} = $self->{dir};    # for what processes leave there at a second Ctrl+C
  # A key of its own: the test neither uses nor changes the user's home directory.
  $ENV{DMI_KEY_FILE} = $self->{key_file} = "$self->{dir}/key";
  write_key($self->{key_file});
  delete @ENV{qw(DMI_KEY_FD DMI_ENCRYPT DMI_BIND)};
  $SIG{CHLD} = sub { syswrite $self->{wake_writer}, 'x' };
  $SIG{PIPE} = 'IGNORE';
  $SIG{ALRM} = sub { $self->fail_now("the test is over within $self->{timeout} s") };
  for my $signal (qw(INT TERM HUP)) {
    $SIG{$signal} = sub { $self->fail_now("the test was not interrupted (SIG$signal)") };
  }
  Time::HiRes::alarm($self->{timeout});
  return $current = $self;
}

# Makes a key file.
sub write_key {
  my ($name) = @_;
  open my $random, '<', '/dev/urandom' or die "/dev/urandom: $!\n";
  read($random, my $bytes, 32) == 32 or die "/dev/urandom: $!\n";
  my $mask = umask 077;
  open my $file, '>', $name or die "$name: $!\n";
  print $file unpack('H*', $bytes), "\n";
  close $file or die "$name: $!\n";
  umask $mask;
}

sub key_file { return $_[0]{key_file} }       # the key of the programs of this test
sub top { return $top }                       # the source tree
sub build { return $_[0]{build} }             # the build directory
sub dir { return $_[0]{dir} }                 # a directory of this test, removed at its end
sub scale { return $ENV{DMI_TEST_SCALE} // '' }    # small, '' or soak: how much to do

# True if these are nodes of one process, which can be asked to leave, but not killed or stopped.
sub nodes { return DMINodes::wanted() }

# To do the least that still shows it: many scripts run so, one after the other, under each sanitizer.
sub quick { return DMINodes::wanted() && scale() ne 'soak' }

sub _build_dir {
  for my $dir ($ENV{DMI_BUILD_DIR}, '.', "$top/build") {
    return abs_path($dir) if defined $dir && -x "$dir/bin/dmicc";
  }
  die "DMITest: no build found; set DMI_BUILD_DIR to the build directory\n";
}

# Compiles a C file (path from the top of the source tree) with dmicc; returns the program's path.
# flags => [...] go to dmicc; with => [...] are further C files.  Compiles again only when something
# is newer: a source, the library, or a header beside a source.
sub compile {
  my ($self, $source, %opt) = @_;
  return DMINodes::module($self, $source) if DMINodes::wanted;
  my @flags = @{ $opt{flags} // [] };
  my ($path, @with) = map { m{^/} ? $_ : "$top/$_" } $source, @{ $opt{with} // [] };
  # A file outside of the source tree may have the same name as another one.
  my $tag = join '', ($path =~ m{^\Q$top\E/} ? () : dirname($path)), @flags;
  $tag =~ s/[^\w.-]/_/g;
  my $dir = "$self->{build}/test/multi/programs";
  make_path($dir);
  my $program = "$dir/" . basename($path, '.c') . $tag;
  my @inputs = ($path, @with, (map { glob dirname($_) . '/*.h' } $path, @with),
    "$top/include/dmi_api.h",
    map { "$self->{build}/$_" } qw(bin/dmicc dmi_start.o .libs/libdmi.a), grep { -e "$self->{build}/$_" } ".libs/libdmiox.a");
  # Other tests may need it, too, at the same time: one compiles it, and none replaces what another one runs.
  open my $lock, '>', "$program.lock" or die "DMITest: $program.lock: $!\n";
  flock $lock, LOCK_EX or die "DMITest: $program.lock: $!\n";
  if (-e $program) {
    my $made = (stat $program)[9];
    return $program unless grep { ((stat $_)[9] // 'inf') > $made } @inputs;
  }
  my ($temporary, $messages) = ("$program.$$", "$self->{dir}/compile");
  my @command =
    ("$self->{build}/bin/dmicc", '-g', '-O1', '-Wall', @flags, $path, @with, '-o', $temporary);
  my $status = do {
    local $SIG{CHLD} = 'DEFAULT';
    my $pid = fork // die "DMITest: no process: $!\n";
    if ($pid == 0) {
      open STDOUT, '>', $messages and open STDERR, '>&', \*STDOUT and exec @command;
      POSIX::_exit(127);
    }
    waitpid $pid, 0;
    $?;
  };
  $self->_wake;
  if ($status != 0) {
    open my $file, '<', $messages;
    diag(<$file>) if $file;
    $self->fail_now("$source compiles");
  }
  rename $temporary, $program or die "DMITest: $program: $!\n";
  return $program;
}

# Starts a process of a DMI program with dmirun, listening on a port that the system chooses.
#   args => [...]      the program's arguments, if it joins nobody
#   opts => [...]      more options of dmirun
# With DMI_TEST_ENCRYPT in the environment all programs encrypt.
#   join => process    join the program of that one (waits until its port is known)
#   name => 'text'     in logs and test names; default p1, p2, ...
#   env => { ... }     more environment; undef removes
#   stdin => handle    default /dev/null
#   ignore => [...]    signals that are ignored there from the start
sub start {
  my ($self, $program, %opt) = @_;
  return DMINodes::start($self, $program, %opt) if DMINodes::wanted;
  my @command = ("$self->{build}/bin/dmirun");
  push @command, -i => '127.0.0.1', -p => $opt{join}->port if $opt{join};
  push @command, -l => 0 unless grep { /^-l/ } @{ $opt{opts} // [] };
  push @command, '--encrypt' if $ENV{DMI_TEST_ENCRYPT} && !$opt{join};
  push @command, @{ $opt{opts} // [] }, $program;
  push @command, @{ $opt{args} // [] } unless $opt{join};    # DMI_main does not run there
  return $self->spawn(\@command, %opt);
}

# Processes of a program, $num of them, which ask to join one after the other.  Options as for start; `name` is
# put before their numbers.
sub start_in_order {
  my ($self, $program, $num, %opt) = @_;
  my $name = delete $opt{name};
  my @all;
  for my $number (1 .. $num) {
    my @name = defined $name ? (name => "$name $number") : ();
    push @all, $self->start($program, %opt, @name, @all ? (join => $all[0]) : ());
    $all[-1]->expect_event('joined') if $number > 1;
  }
  return @all;
}

# Three processes of a program that says `leave now`, so that the third is asked to leave, and then
# `join now`, so that a fourth joins.  Options as for start; `name` comes before `first` to `fourth`.
# Returns the four.
sub start_changing {
  my ($self, $program, %opt) = @_;
  my $add = sub {
    my ($number, @join) = @_;
    my $name = join ' ', $opt{name} // (), $number;
    return $self->start($program, %opt, name => $name, @join);
  };
  my $first = $add->('first');
  my $second = $add->('second', join => $first);
  $second->expect_event('opened');    # so that the third is the one that leaves
  my $third = $add->('third', join => $second);
  $first->expect_out(qr/^leave now$/m);
  $third->signal('INT');
  $first->expect_out(qr/^join now$/m);
  return ($first, $second, $third, $add->('fourth', join => $second));
}

# Starts any command; name and env as in start.
sub spawn {
  my ($self, $command, %opt) = @_;
  my $number = @{ $self->{processes} } + 1;
  my $process = DMITest::Process->_new(
    $self, $command,
    name => $opt{name} // "p$number",
    env => $opt{env} // {},
    stdin => $opt{stdin},
    ignore => $opt{ignore} // []);
  push @{ $self->{processes} }, $process;
  return $process;
}

# The end of every test: checks that all processes have ended as they should, and says so to prove.
sub done {
  my ($self) = @_;
  DMINodes::finish($self) if !grep { $_ != ($self->{nodes}{process} // 0) } $self->_running;
  for my $process ($self->_running) {
    $self->problem("$process->{name} still runs at the end of the test");
  }
  $self->_kill_all;
  $_->_judge_end for @{ $self->{processes} };
  my @problems = @{ $self->{problems} };
  ok(!@problems, 'every process ended as it should, and no sanitizer spoke')
    or diag(map { "$_\n" } @problems);
  $self->show_logs if @problems;
  $self->{done} = 1;
  Time::HiRes::alarm(0);
  done_testing();
}

# Notes a problem that makes the test fail at its end, and goes on.
sub problem {
  my ($self, $text) = @_;
  push @{ $self->{problems} }, $text;
}

# Ends the test as failed: condition `what` was not met.
sub fail_now {
  my ($self, $what) = @_;
  $SIG{$_} = 'IGNORE' for qw(ALRM INT TERM HUP);
  Time::HiRes::alarm(0);
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  fail($what);
  $self->_show_stacks;
  $self->_drain;
  $self->_kill_all;
  $self->show_logs;
  $self->{done} = 1;
  exit 1;
}

# What all processes wrote, in order of arrival.
sub show_logs {
  my ($self) = @_;
  return if $self->{shown}++;
  diag(map { "$_\n" } @{ $self->{problems} }) if @{ $self->{problems} };
  diag('---- what the processes wrote ----');
  $_->_flush_log for @{ $self->{processes} };
  for my $entry (sort { $a->[0] <=> $b->[0] } @{ $self->{log} }) {
    diag(sprintf '%8.3f %-8s %3s| %s', @$entry);
  }
  diag('----');
}

# Kills processes at once: none of them notices first that another one is lost, and ends because of that.
sub kill_together {
  my ($self, @processes) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  $_->stop for @processes;
  $_->signal('KILL') for @processes;
  $_->wait_exit(signal => 'KILL') for @processes;
}

# Waits until `condition` returns true; the test fails if that takes longer than `seconds`.
sub wait_until {
  my ($self, $condition, $what, $seconds) = @_;
  my $deadline = time + ($seconds // $self->{wait});
  while (1) {
    my @result = $condition->();
    return $result[0] if @result && $result[0];
    my $left = $deadline - time;
    $self->fail_now($what . sprintf ' (not within %g s)', $seconds // $self->{wait}) if $left <= 0;
    $self->_pump($left);
  }
}

my $pidfd_open = 434;    # the number of that system call, the same on all processors

# The same for what nothing tells of: this looks often, and seldom more than once.
sub wait_looking {
  my ($self, $condition, $what) = @_;
  $self->wait_until(sub {
    return 1 if $condition->();
    select undef, undef, undef, 0.01;
    $self->_wake;
    return 0;
  }, $what);
  pass($what);
  return;
}

# A descriptor that becomes readable when the process ends; undef: the kernel has none.
sub pidfd {
  my ($pid) = @_;
  my $fd = syscall $pidfd_open, $pid + 0, 0;
  return if $fd < 0;
  open my $end, '<&=', $fd or die "DMITest: no pidfd: $!\n";
  return $end;
}

# For waiting for a process that need not be a child: end_of(pid), called while it lives, returns a
# function; called with a number of seconds, this waits, and returns true if the process has ended.
sub end_of {
  my ($pid) = @_;
  my $end = pidfd($pid) or return sub { 1 };
  return sub {
    my $deadline = time + $_[0];
    while (1) {
      vec(my $bits = '', fileno $end, 1) = 1;
      my $left = $deadline - time;
      my $found = select $bits, undef, undef, $left > 0 ? $left : 0;
      return $found > 0 if $found >= 0 || $left <= 0;    # else a signal
    }
  };
}

sub _log {
  my ($self, $process, $stream, $line) = @_;
  $line = substr($line, 0, 1000) . '...' if length $line > 1000;
  push @{ $self->{log} }, [time - $self->{started}, $process->{name}, $stream, $line];
}

sub _running { return grep { !defined $_->{status} } @{ $_[0]{processes} } }

sub _wake { syswrite $_[0]{wake_writer}, 'x' }

# Waits at most `seconds` for output or the end of any process, and reads all output that is there.
sub _pump {
  my ($self, $seconds) = @_;
  my $bits = '';
  my @streams = grep { $_->{handle} } map { @{ $_->{streams} } } @{ $self->{processes} };
  vec($bits, fileno $_->{handle}, 1) = 1 for @streams;
  vec($bits, fileno $self->{wake_reader}, 1) = 1;
  # SIGCHLD is not enough: if it comes just before select, it is handled only after it.
  vec($bits, fileno $_->{end}, 1) = 1 for grep { $_->{end} } $self->_running;
  my $ready = select my $got = $bits, undef, undef, $seconds;
  return if $ready <= 0;    # nothing, or a signal: the caller checks again
  if (vec $got, fileno $self->{wake_reader}, 1) {
    1 while sysread $self->{wake_reader}, my $bytes, 512;
  }
  $_->{process}->_read($_) for grep { vec $got, fileno $_->{handle}, 1 } @streams;
  $_->_reap for $self->_running;
}

# Takes the output that is there already.
sub _drain {
  my ($self) = @_;
  for my $process (@{ $self->{processes} }) {
    for my $stream (@{ $process->{streams} }) {
      1 while $stream->{handle} && $process->_read($stream);
    }
  }
}

sub _kill_all {
  my ($self) = @_;
  for my $process ($self->_running) {
    $process->{killed_by_harness} = 1;
    $process->{status} = $process->_kill;
  }
  $self->_drain;
}

# Shows the stacks of all processes that still run, if a debugger is installed.
sub _show_stacks {
  my ($self) = @_;
  my ($gdb) = grep { -x } map { "$_/gdb" } split /:/, $ENV{PATH} // '';
  return unless $gdb;
  local $SIG{CHLD} = 'DEFAULT';
  for my $process ($self->_running) {
    my $command = "timeout 20 $gdb -p $process->{pid} -batch -ex 'thread apply all bt 20'";
    my $stacks = `$command 2>/dev/null`;
    diag("stacks of $process->{name}:\n$stacks");
  }
}

END {
  if ($current && !$current->{done}) {
    my $status = $?;
    Time::HiRes::alarm(0);
    $current->_kill_all;
    $current->show_logs;
    diag('DMITest: the script ended without $t->done');
    $? = $status || 1;
  }
  elsif ($current && !Test::More->builder->is_passing) {
    my $status = $?;
    $current->show_logs;
    $? = $status || 1;
  }
}

# ---- One process -------------------------------------------------------------------------------

package DMITest::Process;

use strict;
use warnings;
use Fcntl qw(F_SETFD);
use IO::Handle;
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(time);

sub _new {
  my ($class, $test, $command, %opt) = @_;
  pipe my $out_reader, my $out_writer or die "DMITest: no pipe: $!\n";
  pipe my $err_reader, my $err_writer or die "DMITest: no pipe: $!\n";
  pipe my $event_reader, my $event_writer or die "DMITest: no pipe: $!\n";
  my $self = bless { test => $test, %opt }, $class;
  $self->{pid} = fork // die "DMITest: no process: $!\n";
  if ($self->{pid} == 0) {
    $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE ALRM INT TERM HUP);
    $SIG{$_} = 'IGNORE' for @{ $opt{ignore} };
    $ENV{DMI_EVENT_FD} = fileno $event_writer;
    fcntl $event_writer, F_SETFD, 0;
    for my $name (keys %{ $opt{env} }) {
      if (defined $opt{env}{$name}) { $ENV{$name} = $opt{env}{$name} }
      else { delete $ENV{$name} }
    }
    my ($how, $from) = $opt{stdin} ? ('<&', $opt{stdin}) : ('<', '/dev/null');
    open STDIN, $how, $from or POSIX::_exit(126);
    open STDOUT, '>&', $out_writer or POSIX::_exit(126);
    open STDERR, '>&', $err_writer or POSIX::_exit(126);
    no warnings 'exec';
    exec { $command->[0] } @$command;
    print STDERR "cannot run $command->[0]: $!\n";
    POSIX::_exit(127);
  }
  $self->{end} = DMITest::pidfd($self->{pid});
  close $_ for $out_writer, $err_writer, $event_writer;
  $_->blocking(0) for $out_reader, $err_reader, $event_reader;
  # `text` is all that came, `logged` how much of it is in the log, `seen` where expect goes on.
  $self->{out} = { name => 'out', handle => $out_reader };
  $self->{err} = { name => 'err', handle => $err_reader };
  $self->{evt} = { name => 'evt', handle => $event_reader };    # lines of JSON, docs/events.md
  $self->{streams} = [@$self{qw(out err evt)}];
  %$_ = (%$_, process => $self, text => '', logged => 0, seen => 0) for @{ $self->{streams} };
  $self->_note("started: @$command");
  return $self;
}

sub name { return $_[0]{name} }
sub pid { return $_[0]{pid} }
sub out { return $_[0]{out}{text} }    # all of its stdout so far, without waiting
sub err { return $_[0]{err}{text} }    # all of its stderr so far

# All events of this name that it has reported so far, as hashes; without a name: all events.
sub events {
  my ($self, $name) = @_;
  my @lines = $self->{evt}{text} =~ /^(.*)\n/mg;
  @lines = grep { /"event":"\Q$name\E"/ } @lines if defined $name;
  return map { JSON::PP::decode_json($_) } @lines;
}

# Waits for the next event of this name, after the one of that name that was waited for before, and
# returns it.  One passed test.  Fails at once when the process cannot report any more events.
sub expect_event {
  my ($self, $name, $seconds) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  my $what = "$self->{name}: $name";
  my $found = $self->_await_event($name, $self->{expected}{$name}++, $what, $seconds);
  pass($what);
  return $found;
}

sub _await_event {
  my ($self, $name, $number, $what, $seconds) = @_;
  my $found;
  $self->{test}->wait_until(sub {
    return 1 if $found = ($self->events($name))[$number];
    $self->{test}->fail_now("$what (it has ended)") unless $self->{evt}{handle};
    return 0;
  }, $what, $seconds);
  return $found;
}

# Waits until stdout (stderr) matches, from where the last expect on it ended.  Returns what the
# parentheses of the expression caught, or the whole match without them.  One passed test each.
# Fails at once when the stream has ended without it.
sub expect_out { return _expect('out', @_) }
sub expect_err { return _expect('err', @_) }

sub _expect {
  my ($which, $self, $regex, $seconds) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 2;
  my ($test, $stream) = ($self->{test}, $self->{$which});
  my $what = "$self->{name}: std$which shows /$regex/";
  my ($end, @caught);
  my $find = sub {
    my $rest = substr $stream->{text}, $stream->{seen};
    if ($rest =~ $regex) {
      my @groups = $#+ ? (1 .. $#+) : (0);
      @caught = map { defined $-[$_] ? substr $rest, $-[$_], $+[$_] - $-[$_] : undef } @groups;
      return $end = $stream->{seen} + $+[0] || '0 but true';
    }
    $test->fail_now("$what (it has ended)") unless $stream->{handle};
    return 0;
  };
  $test->wait_until($find, $what, $seconds);
  # A match that ends with the text, inside of a line, may be incomplete ("port 12" of 1234): wait a
  # moment for the rest of the line.
  my $until = time + 2;
  while ($end == length $stream->{text} && $stream->{text} !~ /\n\z/ && $stream->{handle}
      && time < $until) {
    $test->_pump($until - time);
    $find->();
  }
  $stream->{seen} = $end;
  pass($what);
  return wantarray ? @caught : $caught[0];
}

# Waits until `stream` (out or err) has each of these whole lines, in any order.
sub shows {
  my ($self, $stream, @lines) = @_;
  my $t = $self->{test};
  for my $line (@lines) {
    $t->wait_until(sub {
      return 1 if $self->$stream =~ /^\Q$line\E$/m;
      $t->fail_now("$line (it has ended)") unless $self->running;
      return 0;
    }, "shows: $line");
  }
  return;
}

# Waits for the last line of a program of multi.h: no check failed, and more than `least` were made.
# It and @others then end by themselves, without errors.
sub expect_verdict {
  my ($self, $name, $least, @others) = @_;
  my ($checks, $failed) = $self->expect_out(qr/^verdict $name: (\d+) checks, (\d+) failed$/m);
  is($failed, 0, "$self->{name}: no check failed");
  cmp_ok($checks, '>', $least, "$self->{name}: checks were made ($checks)");
  $_->wait_exit(0) for $self, @others;
  unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for $self, @others;
}

# The lines on stderr, but for those of its life and the one about a leave that takes long.
sub complaints {
  my ($self) = @_;
  return grep { !/^(?:=== \w+ ===$|dmi: this process was asked to leave, and waits: )/ } split /\n/, $self->err;
}

# Waits until the process is initialized (listens); one passed test the first time.
sub ready {
  my ($self) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  my $what = "$self->{name} is initialized";
  return if $self->{ready};
  $self->_await_event('initialized', 0, $what);
  $self->{ready} = 1;
  pass($what);
}

# The port it listens on; waits until it is known.
sub port {
  my ($self) = @_;
  return $self->{port} if defined $self->{port};
  return $self->{port} = $self->_await_event('listening', 0, "$self->{name} tells its port")->{port};
}

sub running {
  my ($self) = @_;
  $self->_reap;
  return !defined $self->{status};
}

# Sends a signal ('INT', 'TERM', ...).  With dies => 1, or KILL, the process may die of it.
sub signal {
  my ($self, $name, %opt) = @_;
  $self->_reap;
  $self->{test}->fail_now("$self->{name} lives to get SIG$name") if defined $self->{status};
  $self->{may_die_of}{$name} = 1 if $opt{dies} || $name eq 'KILL';
  delete $self->{stopped} if $name eq 'CONT';
  $self->_note("SIG$name sent");
  kill $name => $self->{pid};
}

# Stops the process: when this returns, all its threads have stopped, until SIGCONT.
sub stop {
  my ($self) = @_;
  return if $self->{stopped};
  $self->signal('STOP');
  waitpid $self->{pid}, WUNTRACED;
  my $status = $?;
  return $self->{stopped} = 1 if waitpid($self->{pid}, WNOHANG) == 0;    # it is still there
  $self->{status} = $status;
  $self->{test}->fail_now("$self->{name} stops, but it " . $self->_how_ended);
}

# kill -9, at the end of the script; returns its status.
sub _kill {
  my ($self) = @_;
  kill KILL => $self->{pid};
  waitpid $self->{pid}, 0;
  return $?;
}

# kill -9 of a process that may just have ended by itself.
sub kill_now {
  my ($self) = @_;
  $self->{may_die_of}{KILL} = 1;
  $self->_note('SIGKILL sent');
  kill KILL => $self->{pid} unless defined $self->{status};
}

# Waits for its end.  wait_exit(3): with that status (default 0).  wait_exit(signal => 'KILL'): by
# that signal.  seconds => n: not the usual deadline.  One test, passed or failed.
sub wait_exit {
  my $self = shift;
  my $expected = @_ % 2 ? shift : 0;
  my %opt = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  my $wanted = defined $opt{signal} ? "dies of SIG$opt{signal}" : "ends with status $expected";
  $self->{test}->wait_until(sub { $self->_ended }, "$self->{name} $wanted", $opt{seconds});
  my $how = $self->_how_ended;
  $self->{judged} = 1;
  $wanted =~ s/^dies of/died of/;
  $wanted =~ s/^ends with/ended with/;
  return ok($how eq $wanted, "$self->{name} $wanted") || do { diag("it $how"); 0 };
}

# True if it has ended, and all its output was read.  (Its streams may still be open: a child of its
# own may have them.)
sub _ended {
  my ($self) = @_;
  $self->_reap;
  return 0 unless defined $self->{status};
  for my $stream (@{ $self->{streams} }) { 1 while $stream->{handle} && $self->_read($stream) }
  return 1;
}

sub _how_ended {
  my ($self) = @_;
  my $status = $self->{status};
  if (my $signal = $status & 127) {
    require Config;
    return 'died of SIG' . (split ' ', $Config::Config{sig_name})[$signal];
  }
  return 'ended with status ' . ($status >> 8);
}

# At the end of the test: if no wait_exit has checked how it ended, it must have ended well.
sub _judge_end {
  my ($self) = @_;
  $self->_flush_log;
  return if $self->{judged} || $self->{killed_by_harness};
  my $how = $self->_how_ended;
  return if $how eq 'ended with status 0';
  return if $how =~ /^died of SIG(\w+)/ && $self->{may_die_of}{$1};
  $self->{test}->problem("$self->{name} $how");
}

sub _reap {
  my ($self) = @_;
  return if defined $self->{status} || waitpid($self->{pid}, WNOHANG) == 0;
  $self->{status} = $?;
  $self->_note($self->_how_ended);
}

sub _note { $_[0]{test}->_log($_[0], '', $_[1]) }

# Reads what has arrived on a stream; true if there was something.
sub _read {
  my ($self, $stream) = @_;
  my $count = sysread $stream->{handle}, $stream->{text}, 65536, length $stream->{text};
  return $self->_took($stream, $count);
}

# Handles the result of a read: so many bytes; undef: an error.
sub _took {
  my ($self, $stream, $count) = @_;
  if (!defined $count) {
    return 0 if $!{EAGAIN} || $!{EINTR};
    $count = 0;
  }
  if ($count == 0) {
    close delete $stream->{handle};
    return 0;
  }
  my $end;
  while (($end = index $stream->{text}, "\n", $stream->{logged}) >= 0) {
    $self->_log_line($stream, $end);
    $stream->{logged} = $end + 1;
  }
  return 1;
}

sub _log_line {
  my ($self, $stream, $end) = @_;
  my $line = substr $stream->{text}, $stream->{logged}, $end - $stream->{logged};
  $self->{test}->_log($self, $stream->{name}, $line);
  $self->{test}->problem("$self->{name}: $line") if $line =~ $DMITest::SANITIZER_SPOKE;
}

# A last line without its newline.
sub _flush_log {
  my ($self) = @_;
  for my $stream (@{ $self->{streams} }) {
    my $end = length $stream->{text};
    next if $end <= $stream->{logged};
    $self->_log_line($stream, $end);
    $stream->{logged} = $end;
  }
}

1;
