# Member.pm - one process of the set: the connection to its agent, and its state.
#
#   waiting -> connecting -> connected -> starting -> listening -> joined -> opened
#      |           |             |           |            |           |        |
#      |           |             |           |            +-----------+--------+--> closed -> left
#      v           v             v           v                  (from each of these)
#      +-----------+-------------+-----------+---------------------------------> ended or failed
#
# waiting: it waits for its turn to connect; connected: its agent has said hello, it is not started
# yet; starting: the agent was told to start it; listening: it has reported its port.  From there on
# its own events (docs/events.md) decide the state, so a state may be left out, but it never goes
# back.  ended: the process has ended; failed: it was never started, or its end is unknown.
#
# It must not decide anything: Set.pm decides what happens when.
package DMI::Member;

use strict;
use warnings;
use DMI::Frames;
use DMI::Loop;
use DMI::Status;
use POSIX ();

my @states =
  qw(waiting connecting connected starting listening joined opened closed left ended failed);
my %rank = map { $states[$_] => $_ } 0 .. $#states;
my $patience = 5;       # seconds in which a connection that is not needed any more has to end
my $piece = 64 << 10;   # bytes of a program that are sent at once (--copy)
my $kept = 16 << 10;    # bytes of what a way writes to stderr, for the reason

# name, line (NodeFile), way, loop, timeout; changed => called with the member after each change of
# state; lost => called with the member and the uid of a member without which, as it says, the program
# goes on; keyless => called with the member and why its host does not have the key; output => called with the member, 'out' or 'err', bytes.
sub new {
  my ($class, %opt) = @_;
  return bless { state => 'waiting', since => time, said => '', asked => 0, unread => 0, %opt },
    $class;
}

sub name { return $_[0]{name} }
sub state { return $_[0]{state} }
sub rank { return $rank{ $_[0]{state} } }
sub is_final { return $_[0]->rank >= $rank{ended} }
sub is_running { return !$_[0]->is_final && $_[0]->rank >= $rank{starting} }
# True if others may join the program through this process.
sub is_door { return !$_[0]{asked} && $_[0]->rank >= $rank{listening} && $_[0]->rank <= $rank{opened} }
# True if its connection has ended, too.
sub is_gone { return $_[0]->is_final && !$_[0]{child} }
# Which member of which program it is: what others know it by.  undef: none, so far as is known.
sub identity { return $_[0]{identity} }
# True if its agent knows for certain that it has ended, and it had not ended with the program.
sub is_dead { return $_[0]{dead} && !$_[0]{finalized} }
# A text that says what went wrong, or undef.
sub problem { return $_[0]{problem} }
# True if it has failed to join through the process that it was given (its door).
sub was_refused { return $_[0]{door} && $_[0]{port} && $_[0]{never_joined} && defined $_[0]{problem} }

sub _enter {
  my ($self, $state) = @_;
  return if $rank{$state} <= $self->rank || $self->is_final;
  @$self{qw(state since)} = ($state, time);
  $self->{joined} //= time if $state =~ /^(?:joined|opened|closed|left)\z/;
  $self->{changed}->($self);
  return;
}

# ---- The connection ----------------------------------------------------------------------------

sub connect {
  my ($self) = @_;
  my @command = eval { $self->{way}->command($self->{line}) }
    or return $self->fail($@ =~ s/\n\z//r);
  my %pipe;
  for my $name (qw(in out err)) {
    pipe my $reader, my $writer or return $self->fail("no pipe: $!");
    $pipe{$name} = [$reader, $writer];
  }
  my $pid = fork;
  return $self->fail("no process: $!") unless defined $pid;
  if ($pid == 0) {
    $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE TERM HUP CONT);
    # Ctrl+C and Ctrl+Z on the terminal are for dmimw only.
    $SIG{$_} = $self->{way}->own_session ? 'DEFAULT' : 'IGNORE' for qw(INT QUIT TSTP);
    POSIX::setsid() if $self->{way}->own_session;
    POSIX::dup2(fileno $pipe{in}[0], 0);
    POSIX::dup2(fileno $pipe{out}[1], 1);
    POSIX::dup2(fileno $pipe{err}[1], 2);
    no warnings 'exec';
    exec { $command[0] } @command;
    syswrite STDERR, "cannot run $command[0]: $!\n";
    POSIX::_exit(127);
  }
  close $pipe{in}[0];
  close $pipe{$_}[1] for qw(out err);
  $self->{child} = $pid;
  $self->{said_from} = $pipe{err}[0];
  $self->{said_from}->blocking(0);
  my $loop = $self->{loop};
  $loop->reads($self->{said_from}, sub { $self->_hear });
  $loop->child($pid, sub { $self->_disconnected(@_) });
  $self->{frames} = DMI::Frames->new($loop, in => $pipe{out}[0], out => $pipe{in}[1],
    greeted => sub { },
    frame => sub { $self->_frame(@_) },
    drained => sub { $self->_send_more },
    closed => sub { $self->_let_go });
  $self->{watchdog} = $loop->after($self->{timeout}, sub { $self->_silent($self->{timeout}) })
    if $self->{way}->own_session;    # else the user may be typing a password
  $self->_enter('connecting');
  return;
}

# Reads the stderr of the connecting command: usually nothing, else the reason why it failed.
sub _hear {
  my ($self) = @_;
  my $handle = $self->{said_from} or return 0;
  my $count = sysread $handle, $self->{said}, 4096, length $self->{said};
  return 0 if !defined $count && ($!{EAGAIN} || $!{EINTR});
  if (length $self->{said} > $kept) { substr $self->{said}, 0, -$kept, '' }
  return 1 if $count;
  $self->{loop}->forget($handle);
  close delete $self->{said_from};
  return 0;
}

# Closes the connection; _disconnected is called when it has ended.
sub _let_go {
  my ($self) = @_;
  $self->{frames}->close if $self->{frames};
  my $child = $self->{child} or return;
  $self->{let_go} //= $self->{loop}->after($patience, sub {
    CORE::kill(KILL => $child) if ($self->{child} // 0) == $child;
  });
  return;
}

# The connecting command has ended.  (Its stderr may still be open: an ssh that stays as a master
# for other connections keeps it.)
sub _disconnected {
  my ($self, $status) = @_;
  delete $self->{child};
  $self->{loop}->cancel(delete $self->{let_go});
  $self->{loop}->cancel(delete $self->{watchdog});
  $self->{frames}->drain;
  1 while $self->_hear;
  if (my $handle = delete $self->{said_from}) {
    $self->{loop}->forget($handle);
    close $handle;
  }
  if (!$self->is_final) {
    my $text = $self->{said} =~ /\S/ || $self->{hello} ? $self->{said} : $self->{frames}->noise;
    my $reason = $self->{way}->reason($text, $status);
    $reason = $self->{silent} if defined $self->{silent};
    my $lost = $self->is_running ? 'connection lost; its process is asked to leave there: ' : '';
    $self->{frames}->close;
    $self->fail("$lost$reason");
  }
  else {
    $self->{frames}->close;
    $self->{changed}->($self);
  }
  return;
}

# ---- Messages of the agent ---------------------------------------------------------------------

my %on = (
  hello => sub {
    my ($self, $hello) = @_;
    $self->{hello} = $hello;
    # What came on stderr until now is from a login shell, and no reason for a later failure.
    1 while $self->_hear;
    $self->{said} = '';
    $self->_watch;
    $self->_enter('connected');
  },
  copy => sub { $_[0]->_send_program },
  begun => sub { $_[0]{pid} = $_[1]{pid}; $_[0]{changed}->($_[0]) },
  event => sub { $_[0]->_happened($_[1]) },
  took => sub { $_[0]{unread} -= $_[1]{bytes}; $_[0]{fed}->() if $_[0]{fed} },
  keyless => sub { $_[0]{keyless}->($_[0], $_[1]{why}) unless $_[0]->is_final },
  failed => sub { $_[0]->fail($_[1]{why}) },
  ended => sub { $_[0]{dead} = $_[1]{dead}; $_[0]->_ended($_[1]{status}) },
);

sub _frame {
  my ($self, $word, $bytes) = @_;
  $self->{heard} = DMI::Loop::now();
  return $self->_wrote($word, $bytes) if $word eq 'out' || $word eq 'err';
  return if $word eq 'beat';
  my $call = $on{$word} or return;    # unknown: a newer agent may send it
  my $content = eval { DMI::Frames->content($bytes) };
  return $self->fail("its agent sent a wrong message: $word") unless ref $content eq 'HASH';
  $call->($self, $content);
  return;
}

sub _silent {
  my ($self, $seconds) = @_;
  $self->{silent} = sprintf 'silent for %d s (--timeout)', $seconds;
  CORE::kill(KILL => $self->{child}) if $self->{child};
  return;
}

sub _watch {
  my ($self) = @_;
  $self->{loop}->cancel($self->{watchdog});
  $self->{heard} = DMI::Loop::now();
  my $look;
  $look = sub {
    return if $self->is_final || !$self->{child};
    my $silent = DMI::Loop::now() - $self->{heard};
    return $self->_silent($silent) if $silent >= $self->{timeout} && !$self->{frames}->paused;
    $self->{frames}->send('beat', '');
    $self->{watchdog} = $self->{loop}->after($self->{timeout} / 4, $look);
  };
  $self->{watchdog} = $self->{loop}->after($self->{timeout} / 4, $look);
  return;
}

# Takes an event of the process: a new state, or an error.
sub _happened {
  my ($self, $event) = @_;
  my $name = $event->{event} // '';
  if ($name eq 'listening') {
    $self->{port} = $event->{port};
    $self->_enter('listening');
  }
  elsif ($name eq 'member_lost') { $self->{lost}->($self, $event->{member}) }
  elsif ($name eq 'finalized') { $self->{finalized} = 1 }
  elsif ($name eq 'error') { $self->{last_words} = $event->{text} }
  elsif ($name =~ /^(?:joined|opened|closed|left)\z/) {
    $self->{identity} = { program => $event->{program}, member => $event->{member} }
      if $name eq 'joined' && defined $event->{program};
    $self->_enter($name);
  }
  $self->_wrote('err', '');
  return;
}

# Until it has joined, an error that it reports may be the reason why it cannot join.  The line
# about it is kept back, so that it is shown once, with its host.
sub _wrote {
  my ($self, $stream, $bytes) = @_;
  return $self->{output}->($self, $stream, $bytes) if $stream ne 'err';
  my $rank = $self->rank;
  if ($rank < $rank{joined}) {
    $self->{held} .= $bytes;
    return if $rank < $rank{listening} && length $self->{held} < 8192;
    my $line = $self->_line;
    $self->{held} =~ s/\A(.*?)((?:^$line)?)\z/$2/ms or return;
    $bytes = $1;
  }
  else { $bytes = (delete $self->{held} // '') . $bytes }
  return if $bytes eq '';
  return $self->{output}->($self, $stream, $bytes);
}

# The line for the user about the last error that it reported.
sub _line {
  my ($self) = @_;
  return defined $self->{last_words} ? qr/[^\n]*: \Q$self->{last_words}\E[^\n]*\n?/ : qr/(?!)/;
}

sub _ended {
  my ($self, $status) = @_;
  my $held = delete $self->{held} // '';
  $self->{never_joined} = $self->rank < $rank{joined};
  my $line = $self->_line;
  if ($held =~ /\Admimw: ([^\n]*)\n\z/) { $self->{last_words} = $1 }    # written by the agent, which could not run it
  elsif ($held ne '' && $held !~ /\A$line\z/) { $self->{output}->($self, 'err', $held) }
  $self->{status} = $status;
  # It was asked to leave before it could handle the signal, and ended: that counts as leaving.
  $self->{status} = $status = 0 if $self->{asked} && $status == 2 && $self->rank < $rank{joined};
  if ($status != 0) {
    my $how = DMI::Status::text($status);
    $self->{problem} = defined $self->{last_words} ? "$how: $self->{last_words}" : $how;
  }
  $self->_enter('ended');
  $self->_let_go;
  return;
}

# ---- Requests to it ----------------------------------------------------------------------------

sub start {
  my ($self, %what) = @_;
  $self->{program} = $what{copy}{path} if $what{copy};
  $self->{frames}->message('start', %what);
  $self->_enter('starting');
  return;
}

# Its host has no such program, or another one: sends it, no faster than it is taken there.
sub _send_program {
  my ($self) = @_;
  my $path = $self->{program} // return $self->fail('its agent wants a program that it was not offered');
  open $self->{sending}, '<:raw', $path or return $self->fail("--copy $path: $!");
  return $self->_send_more;
}

sub _send_more {
  my ($self) = @_;
  my $file = $self->{sending};
  return if !$file || $self->{sends_more};
  local $self->{sends_more} = 1;    # `send` calls this again
  while ($self->{sending} && !$self->is_final && $self->{frames}->queued < $piece) {
    my $count = sysread $file, my ($bytes), $piece;
    return $self->fail("--copy $self->{program}: $!") unless defined $count;
    close delete $self->{sending} unless $count;
    $self->{frames}->send('file', $bytes);
  }
  return;
}

# Sends the encrypted key that its host has asked for (`keyless`).
sub give_key { my ($self, $wrapped) = @_; return $self->{frames}->send('key', $wrapped) }

# Asks it to leave; the second time, makes it say what it waits for.
sub ask {
  my ($self) = @_;
  return if $self->is_final;
  if (!$self->is_running) {
    $self->fail(undef);
    return;
  }
  # If others have asked it before, our first request is its second one already.
  return if $self->{asked} >= ($self->{asked_by_others} ? 1 : 2);
  $self->{asked_by_others} = 1 if !$self->{asked} && $self->rank >= $rank{closed};
  $self->{asked}++;
  # First SIGTERM, then SIGINT: if a batch system has sent a signal before, a SIGTERM does not count
  # as the second request.
  $self->{frames}->send('signal', $self->{asked} == 1 ? 'TERM' : 'INT') unless $self->{asked_by_others};
  return;
}

sub kill {
  my ($self) = @_;
  return if $self->is_final;
  return $self->fail(undef) unless $self->is_running;
  $self->{frames}->send('kill', '');
  $self->{loop}->after($patience, sub {
    $self->fail('it could not be told to end; its agent will end it') unless $self->is_final;
  });
  return;
}

# It will not become a process; `why` is undef if that is no error.
sub fail {
  my ($self, $why) = @_;
  return if $self->is_final;
  $self->{problem} = $why;
  my $state = $self->is_running || defined $why ? 'failed' : 'ended';
  $self->_let_go;
  # An agent ends by itself, and its connection with it.  If there is no agent yet, this does not
  # wait long.
  if ((my $child = $self->{child}) && !$self->{hello}) {
    $self->{loop}->after(1, sub { CORE::kill(TERM => $child) if ($self->{child} // 0) == $child });
  }
  $self->_enter($state);
  return;
}

# Another process of its program has ended, for certain: $dead is that one's identity.
sub tell_dead { my ($self, $dead) = @_; return $self->{frames}->message('dead', %$dead) }

sub hold { my ($self) = @_; $self->{frames}->send('hold', '') if $self->{hello} && !$self->is_final }

sub beat {
  my ($self) = @_;
  return unless $self->{hello} && !$self->is_final;
  $self->{heard} = DMI::Loop::now();
  $self->{frames}->send('beat', '');
}

sub pause {
  my ($self, $on) = @_;
  return unless $self->{frames};
  $self->{heard} = DMI::Loop::now();
  $self->{frames}->pause($on);
  return;
}

# Sends it bytes for its stdin; undef: the end.  `unread` counts those that it has not read yet.
sub feed {
  my ($self, $bytes) = @_;
  return if $self->is_final;
  return $self->{frames}->send('eof', '') unless defined $bytes;
  $self->{unread} += length $bytes;
  return $self->{frames}->send('in', $bytes);
}

# The names by which others reach it.
sub addresses { my ($self) = @_; return $self->{way}->addresses($self->{line}, $self->{hello} // {}) }

1;
