# Session.pm - runs the processes of one DMI program on this machine, for the demo and the
# benchmarks.
#
#   my $session = Session->new(builddir => $dir);
#   my $first  = $session->start('first', [$program, @arguments]);
#   my $second = $session->start('second', [$program], join => $first);
#   $session->await('the second process to be admitted', sub { $second->told('opened') });
#   $second->leave;
#   $session->await_end($second);
#
# Nothing here sleeps or polls: await reads what the processes write, and tests its condition again
# after each piece of it.  If a process fails, time is over, or all processes have ended before the
# condition holds, the session ends with a message that says what was awaited, and everything that
# each process wrote.  Ports are chosen by the system.  Processes that still run are killed when the
# session ends, however it ends.
package Session;

use strict;
use warnings;

use Cwd         ();
use Fcntl       qw(F_SETFD);
use File::Temp  ();
use IO::Select  ();
use JSON::PP    ();
use POSIX       ();
use Time::HiRes ();

my %running;    # pid => 1, over all sessions

# A normal exit runs END blocks, a signal without a handler does not.
for my $signal (qw(INT TERM HUP)) {
  $SIG{$signal} = sub { exit 1 };
}
my $owner = $$;

END {
  # waitpid below would otherwise replace the status this program ends with.
  local $?;
  if ($$ == $owner) {
    for my $pid (keys %running) {
      kill 'KILL', -$pid;
      waitpid $pid, 0;
    }
  }
}

# builddir: where bin/dmirun is.  timeout: seconds that one await may take.
sub new {
  my ($class, %options) = @_;
  my $dir     = Cwd::abs_path($options{builddir});
  my $dmirun  = defined $dir ? "$dir/bin/dmirun" : "$options{builddir}/bin/dmirun";
  my $session = bless {
    dmirun    => $dmirun,
    timeout   => $options{timeout} // 120,
    dir       => File::Temp::tempdir(CLEANUP => 1),
    processes => [],
  }, $class;
  # A key of its own, made by the first process, so that nothing is left in the user's home
  # directory.
  $session->{home} = "$session->{dir}/home";
  mkdir $session->{home} or die "$session->{home}: $!\n";
  die "$dmirun: not there; is $options{builddir} the build directory, and was make run?\n"
    if !-x $dmirun;
  return $session;
}

# A directory that is removed at the end of this program.
sub dir { return $_[0]{dir} }

# Starts `dmirun COMMAND`.  join => a process: joins its program.  cwd, env => {...}: as they say.
# core => number: runs on that processor core only.  opts => [...]: more options of dmirun.
# dies => 1: how it ends does not matter.
sub start {
  my ($session, $name, $command, %options) = @_;
  my @join =
    $options{join} ? ('-i', '127.0.0.1', '-p', $session->port($options{join})) : ();
  pipe my $out, my $out_end or die "pipe: $!\n";
  pipe my $err, my $err_end or die "pipe: $!\n";
  pipe my $events, my $events_end or die "pipe: $!\n";

  my $time = Time::HiRes::time();
  my $pid  = fork // die "fork: $!\n";
  if ($pid == 0) {
    # A group of its own: one kill ends the launcher and all it has started, and Ctrl+C on the
    # terminal reaches only this program.
    setpgrp 0, 0;
    my $fail = sub { print {$err_end} "$_[0]: $!\n"; $err_end->flush; POSIX::_exit(127) };
    chdir $options{cwd} or $fail->($options{cwd}) if defined $options{cwd};
    $ENV{DMI_EVENT_FD} = fileno $events_end;
    fcntl $events_end, F_SETFD, 0;
    $ENV{HOME} = $session->{home};
    delete @ENV{qw(DMI_KEY_FILE DMI_KEY_FD DMI_ENCRYPT DMI_BIND)};
    %ENV = (%ENV, %{ $options{env} || {} });
    open STDIN, '<', '/dev/null' or $fail->('/dev/null');
    POSIX::dup2(fileno $out_end, 1);
    POSIX::dup2(fileno $err_end, 2);
    my @bind = defined $options{core} ? ('taskset', '-c', $options{core}) : ();
    my @all  = (@bind, $session->{dmirun}, '-l', 0, @join, @{ $options{opts} || [] }, @$command);
    no warnings 'exec';
    exec { $all[0] } @all;
    $fail->($all[0]);
  }
  setpgrp $pid, $pid;    # parent and child both do this; the second one may fail
  $running{$pid} = 1;
  close $out_end;
  close $err_end;
  close $events_end;
  my $process = bless {
    name      => $name,
    dies      => $options{dies},
    pid       => $pid,
    started   => $time,
    out       => '',
    err       => '',
    events    => '',     # lines of JSON: docs/events.md
    told      => {},     # name of an event => the first event of that name, with {read}: when it was read
    scanned   => 0,      # bytes of events that are in told
    handles   => { out => $out, err => $err, events => $events },
  }, 'Session::Process';
  push @{ $session->{processes} }, $process;
  return $process;
}

# The port on which a process listens.
sub port {
  my ($session, $process) = @_;
  return $session->await("$process->{name} to listen", sub { $process->told('listening') })->{port};
}

# Reads what processes write until $condition->() is true, and returns that.
sub await {
  my ($session, $what, $condition) = @_;
  my $deadline = Time::HiRes::time() + $session->{timeout};
  while (1) {
    if (my $value = $condition->()) { return $value }
    for my $process (@{ $session->{processes} }) {
      next if !defined $process->{status} || $process->{status} == 0 || $process->{dies};
      $session->fail("$process->{name} ended with " . $process->ending
          . ", while waiting for $what");
    }
    my @open = map { values %{ $_->{handles} } } @{ $session->{processes} };
    $session->fail("all processes have ended, while waiting for $what") if !@open;
    my $left  = $deadline - Time::HiRes::time();
    my @ready = $left > 0 ? IO::Select->new(@open)->can_read($left) : ();
    $session->fail("gave up after $session->{timeout} s of waiting for $what")
      if !@ready && $left <= 0;
    my %ready = map { $_ => 1 } @ready;
    for my $process (@{ $session->{processes} }) {
      for my $stream (keys %{ $process->{handles} }) {
        my $handle = $process->{handles}{$stream};
        $session->_receive($process, $stream, $handle) if $ready{$handle};
      }
    }
  }
}

# Waits until a process has ended, with status 0.
sub await_end {
  my ($session, $process) = @_;
  $session->await("$process->{name} to end", sub { $process->ended });
  $session->fail("$process->{name} ended with " . $process->ending) if $process->{status} != 0;
  return;
}

# Runs a command twice, the second time as one that joins, each on a core of its own if there are two, to
# the end.  Returns both processes.
sub run_two {
  my ($session, $command) = @_;
  chomp(my $cores = qx{getconf _NPROCESSORS_ONLN});
  my $first = $session->start('first', $command, core => 0);
  my $second = $session->start('second', $command, join => $first, core => $cores > 1 ? 1 : 0);
  $session->await_end($_) for $first, $second;
  return ($first, $second);
}

sub fail {
  my ($session, $message) = @_;
  my $text = "$message\n";
  for my $process (@{ $session->{processes} }) {
    for my $stream (qw(out err)) {
      next if $process->{$stream} eq '';
      my $written = substr $process->{$stream}, -4000;
      $written =~ s/\n?\z/\n/;
      $written =~ s/^/  | /mg;
      $text .= "$process->{name}, std$stream:\n$written";
    }
  }
  die $text;
}

sub _receive {
  my ($session, $process, $stream, $handle) = @_;
  my $begin = length $process->{$stream};
  my $n     = sysread $handle, $process->{$stream}, 65536, $begin;
  return if !defined $n && $!{EINTR};
  if ($n) {
    my $now = Time::HiRes::time();
    return if $stream ne 'events';
    while ((my $end = index $process->{events}, "\n", $process->{scanned}) >= 0) {
      my $line = substr $process->{events}, $process->{scanned}, $end - $process->{scanned};
      my $event = JSON::PP::decode_json($line);
      $process->{told}{ $event->{event} } //= { %$event, read => $now };
      $process->{scanned} = $end + 1;
    }
    return;
  }
  close $handle;
  delete $process->{handles}{$stream};
  return if %{ $process->{handles} };

  # All streams are closed, so it should end; if it does not, that is an error.
  my $ended = eval {
    local $SIG{ALRM} = sub { die "alarm\n" };
    alarm 30;
    my $pid = waitpid $process->{pid}, 0;
    alarm 0;
    $pid == $process->{pid};
  };
  if (!$ended) {
    alarm 0;
    $session->fail("$process->{name} has closed its output but does not end");
  }
  $process->{status} = $?;
  delete $running{ $process->{pid} };
  return;
}

package Session::Process;

# Everything it has written to stdout so far.
sub out { return $_[0]{out} }

# The first event of this name, if it has happened.
sub told {
  my ($process, $name) = @_;
  return $process->{told}{$name};
}

# All events of this name so far.
sub all_told {
  my ($process, $name) = @_;
  return grep { $_->{event} eq $name } map { JSON::PP::decode_json($_) }
    $process->{events} =~ /^(.*)\n/mg;
}

# Seconds from the start of the launcher until that event was read here.
sub seconds_to {
  my ($process, $name) = @_;
  return $process->{told}{$name}{read} - $process->{started};
}

# What Ctrl+C does.
sub leave {
  my ($process) = @_;
  kill 'INT', $process->{pid} if !$process->ended;
  return;
}

sub ended { return defined $_[0]{status} }

sub ending {
  my ($process) = @_;
  my $status = $process->{status};
  return $status & 127 ? 'signal ' . ($status & 127) : 'exit status ' . ($status >> 8);
}

1;
