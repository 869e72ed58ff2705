# Member.pm - one process of the set: the connection to its agent, and how far it is.
#
#   waiting -> connecting -> connected -> starting -> listening -> joined -> opened
#      |           |             |           |            |           |        |
#      |           |             |           |            +-----------+--------+--> closed -> left
#      v           v             v           v                  (from each of these)
#      +-----------+-------------+-----------+---------------------------------> ended or failed
#
# waiting: for its turn to connect; connected: its agent has spoken, it is not started yet;
# starting: the agent was told to start it; listening: it has told its port.  From there on it is the
# process's own events (docs/events.md) that say how far it is, so steps may be missing, but it never
# goes back.  ended: the process has; failed: it never was one, or nobody knows what became of it.
#
# It must not decide anything: what happens when is Set.pm's.
package DMI::Member;

use strict;
use warnings;
use DMI::Frames;
use DMI::Loop;
use POSIX ();

my @states =
  qw(waiting connecting connected starting listening joined opened closed left ended failed);
my %rank = map { $states[$_] => $_ } 0 .. $#states;
my $patience = 5;       # seconds for a connection to end that has nothing left to do
my $kept = 16 << 10;    # bytes of what a way writes to stderr, for the reason

# name, line (NodeFile), way, loop, timeout; changed => called with the member after each change of
# state; keyless => called with the member and why its host does not have the key; output => called with the member, 'out' or 'err', bytes.
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
# Others may join the program by way of it.
sub is_door { return !$_[0]{asked} && $_[0]->rank >= $rank{listening} && $_[0]->rank <= $rank{opened} }
# Nothing of it is left here either.
sub is_gone { return $_[0]->is_final && !$_[0]{child} }
# What went wrong, or undef.
sub problem { return $_[0]{problem} }
# It has failed to join by way of its door.
sub was_refused { return $_[0]{door} && $_[0]{port} && $_[0]{never_joined} && defined $_[0]{problem} }

sub _enter {
  my ($self, $state) = @_;
  return if $rank{$state} <= $self->rank || $self->is_final;
  @$self{qw(state since)} = ($state, time);
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
    # Ctrl+C and Ctrl+Z on the terminal are for dmimw alone.
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
    closed => sub { $self->_let_go });
  $self->{watchdog} = $loop->after($self->{timeout}, sub { $self->_silent($self->{timeout}) })
    if $self->{way}->own_session;    # else somebody may be typing a password
  $self->_enter('connecting');
  return;
}

# Takes what the way says on stderr: mostly nothing, else why it does not work.
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

# Ends the connection: its end is then told by _disconnected.
sub _let_go {
  my ($self) = @_;
  $self->{frames}->close if $self->{frames};
  my $child = $self->{child} or return;
  $self->{let_go} //= $self->{loop}->after($patience, sub {
    CORE::kill(KILL => $child) if ($self->{child} // 0) == $child;
  });
  return;
}

# The connecting command has ended.  (Its streams need not have: an ssh that stays as a master for
# others keeps stderr.)
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

# ---- What the agent says -----------------------------------------------------------------------

my %on = (
  hello => sub {
    my ($self, $hello) = @_;
    $self->{hello} = $hello;
    # What was said until now is a login shell's, and no reason for anything later.
    1 while $self->_hear;
    $self->{said} = '';
    $self->_watch;
    $self->_enter('connected');
  },
  begun => sub { $_[0]{pid} = $_[1]{pid}; $_[0]{changed}->($_[0]) },
  event => sub { $_[0]->_happened($_[1]) },
  took => sub { $_[0]{unread} -= $_[1]{bytes}; $_[0]{fed}->() if $_[0]{fed} },
  keyless => sub { $_[0]{keyless}->($_[0], $_[1]{why}) unless $_[0]->is_final },
  failed => sub { $_[0]->fail($_[1]{why}) },
  ended => sub { $_[0]->_ended($_[1]{status}) },
);

sub _frame {
  my ($self, $word, $bytes) = @_;
  $self->{heard} = DMI::Loop::now();
  return $self->_wrote($word, $bytes) if $word eq 'out' || $word eq 'err';
  return if $word eq 'beat';
  my $call = $on{$word} or return;    # a later agent may say more
  my $content = eval { DMI::Frames->content($bytes) };
  return $self->fail("its agent says what is no message: $word") unless ref $content eq 'HASH';
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

# The steps of its life; and what it says last when it fails.
sub _happened {
  my ($self, $event) = @_;
  my $name = $event->{event} // '';
  if ($name eq 'listening') {
    $self->{port} = $event->{port};
    $self->_enter('listening');
  }
  elsif ($name eq 'error') { $self->{last_words} = $event->{text} }
  elsif ($name =~ /^(?:joined|opened|closed|left)\z/) { $self->_enter($name) }
  $self->_wrote('err', '');
  return;
}

# Until it has joined, an error that it tells may be the reason why it never will: the line about it is
# held, to be told once, with its host.
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

# The line, for people, about the last error that was told.
sub _line {
  my ($self) = @_;
  return defined $self->{last_words} ? qr/[^\n]*: \Q$self->{last_words}\E[^\n]*\n?/ : qr/(?!)/;
}

sub _ended {
  my ($self, $status) = @_;
  my $held = delete $self->{held} // '';
  $self->{never_joined} = $self->rank < $rank{joined};
  my $line = $self->_line;
  if ($held =~ /\Admimw: ([^\n]*)\n\z/) { $self->{last_words} = $1 }    # its agent could not run it
  elsif ($held ne '' && $held !~ /\A$line\z/) { $self->{output}->($self, 'err', $held) }
  $self->{status} = $status;
  # Asked to leave before it was ready to hear it: that is a way to leave, too.
  $self->{status} = $status = 0 if $self->{asked} && $status == 2 && $self->rank < $rank{joined};
  if ($status != 0) {
    my $how = $status & 127 ? 'died of signal ' . ($status & 127)
      : 'ended with status ' . ($status >> 8);
    $self->{problem} = defined $self->{last_words} ? "$how: $self->{last_words}" : $how;
  }
  $self->_enter('ended');
  $self->_let_go;
  return;
}

# ---- What it can be told -----------------------------------------------------------------------

sub start {
  my ($self, %what) = @_;
  $self->{frames}->message('start', %what);
  $self->_enter('starting');
  return;
}

# What its host has asked for by `keyless`.
sub give_key { my ($self, $wrapped) = @_; return $self->{frames}->send('key', $wrapped) }

# Asks it to leave; again: lets it say what it waits for.
sub ask {
  my ($self) = @_;
  return if $self->is_final;
  if (!$self->is_running) {
    $self->fail(undef);
    return;
  }
  # One that was asked by others would not take our second request for a second one.
  return if $self->{asked} >= ($self->{asked_by_others} ? 1 : 2);
  $self->{asked_by_others} = 1 if !$self->{asked} && $self->rank >= $rank{closed};
  $self->{asked}++;
  # Not both the same: behind a batch system's signal the first request is to be no second one.
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

# No process will come of it.  undef: that is nobody's fault.
sub fail {
  my ($self, $why) = @_;
  return if $self->is_final;
  $self->{problem} = $why;
  my $state = $self->is_running || defined $why ? 'failed' : 'ended';
  $self->_let_go;
  # An agent ends by itself, and then what connects to it does.  Where there may be none yet, that is
  # not waited for long.
  if ((my $child = $self->{child}) && !$self->{hello}) {
    $self->{loop}->after(1, sub { CORE::kill(TERM => $child) if ($self->{child} // 0) == $child });
  }
  $self->_enter($state);
  return;
}

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

# Gives it bytes for its stdin; undef: the end.  `unread` of them are on the way.
sub feed {
  my ($self, $bytes) = @_;
  return if $self->is_final;
  return $self->{frames}->send('eof', '') unless defined $bytes;
  $self->{unread} += length $bytes;
  return $self->{frames}->send('in', $bytes);
}

# By what names others reach it.
sub addresses { my ($self) = @_; return $self->{way}->addresses($self->{line}, $self->{hello} // {}) }

1;
