# Link.pm - the connection to an agent (Agent.pm), of one process of the set or of several.
#
#   waiting -> connecting -> ready (its agent has said hello) -> over (the command that connects has ended)
#
# A process belongs to it from `take` on, until nothing is left of it there: until then it is not gone
# (DMI::Member).  When none is left, the connection is closed.
#
# It must not decide anything: Set.pm decides what happens when.
package DMI::Link;

use strict;
use warnings;
use DMI::Frames;
use DMI::Loop;
use POSIX ();

my $patience = 5;       # seconds in which a connection that is not needed any more has to end
my $kept = 16 << 10;    # bytes of what a way writes to stderr, for the reason

# way; line (NodeFile): of its first process; loop; timeout; over => called when it is over.
sub new {
  my ($class, %opt) = @_;
  return bless { said => '', members => {}, numbers => 0, %opt }, $class;
}

sub is_waiting { return !$_[0]{begun} }
sub is_connecting { my ($self) = @_; return $self->{begun} && !$self->{hello} && !$self->{is_over} }
sub is_over { return $_[0]{is_over} }
sub hello { return $_[0]{hello} }
sub way { return $_[0]{way} }
sub line { return $_[0]{line} }

# How many processes an agent of this way may have.
sub _most { return $_[0]{way}->processes }

# True if one more process may use it.
sub has_room {
  my ($self) = @_;
  return !$self->{let_go} && !$self->{is_over} && keys %{ $self->{members} } < $self->_most;
}

# One more process; returns its number here.
sub take {
  my ($self, $member) = @_;
  my $number = $self->_most > 1 ? ++$self->{numbers} : 0;
  $self->{members}{$number} = $member;
  return $number;
}

# True if something may be left of this process.
sub holds { my ($self, $number) = @_; return exists $self->{members}{$number} }

# ---- The connection ----------------------------------------------------------------------------

# Returns why not, or undef.
sub connect {
  my ($self) = @_;
  $self->{begun} = 1;
  my @command = eval { $self->{way}->command($self->{line}) } or return $self->_never($@ =~ s/\n\z//r);
  my %pipe;
  for my $name (qw(in out err)) {
    pipe my $reader, my $writer or return $self->_never("no pipe: $!");
    $pipe{$name} = [$reader, $writer];
  }
  my $pid = fork;
  return $self->_never("no process: $!") unless defined $pid;
  $self->_become(\@command, \%pipe) if $pid == 0;
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
    drained => sub { $_->drained for values %{ $self->{members} } },
    closed => sub { $self->_let_go });
  $self->{watchdog} = $loop->after($self->{timeout}, sub { $self->_silent($self->{timeout}) })
    if $self->{way}->own_session;    # else the user may be typing a password
  return;
}

# In the child: becomes the command.
sub _become {
  my ($self, $command, $pipe) = @_;
  $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE TERM HUP CONT);
  # Ctrl+C and Ctrl+Z on the terminal are for dmimw only.
  $SIG{$_} = $self->{way}->own_session ? 'DEFAULT' : 'IGNORE' for qw(INT QUIT TSTP);
  POSIX::setsid() if $self->{way}->own_session;
  POSIX::dup2(fileno $pipe->{in}[0], 0);
  POSIX::dup2(fileno $pipe->{out}[1], 1);
  POSIX::dup2(fileno $pipe->{err}[1], 2);
  no warnings 'exec';
  exec { $command->[0] } @$command;
  syswrite STDERR, "cannot run $command->[0]: $!\n";
  POSIX::_exit(127);
}

# It was not even begun.
sub _never {
  my ($self, $why) = @_;
  $self->{is_over} = 1;
  my @members = values %{ $self->{members} };
  $self->{members} = {};
  $_->fail($why) for @members;
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
  $self->{loop}->close(delete $self->{said_from});
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

# This process has ended, or will not become one; started: something of it may be left.  Its agent may have
# others; without any it ends by itself, and its connection with it.  If there is no agent yet, this does not
# wait long.
sub leave {
  my ($self, $number, $started) = @_;
  return unless $self->holds($number);
  return if ($self->{ending} // -1) == $number;    # its agent says so: `_frame` goes on
  if ($self->{hello} && $self->_most > 1) {
    return $started ? $self->{frames}->send('drop', '', $number) : $self->_gone($number);
  }
  return if grep { !$_->is_final } values %{ $self->{members} };
  $self->_let_go;
  if ((my $child = $self->{child}) && !$self->{hello}) {
    $self->{loop}->after(1, sub { CORE::kill(TERM => $child) if ($self->{child} // 0) == $child });
  }
  return;
}

# Nothing is left of this process, though there may be others.
sub _gone {
  my ($self, $number) = @_;
  my $member = delete $self->{members}{$number} or return;
  $member->{changed}->($member);
  return if %{ $self->{members} };
  return $self->_let_go;
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
  if (my $handle = delete $self->{said_from}) { $self->{loop}->close($handle) }
  $self->{frames}->close;
  $self->{is_over} = 1;
  my @members = values %{ $self->{members} };
  $self->{members} = {};
  my $reason = $self->_reason($status);
  $_->disconnected($reason) for @members;
  return $self->{over}->();
}

sub _reason {
  my ($self, $status) = @_;
  return $self->{silent} if defined $self->{silent};
  my $text = $self->{said} =~ /\S/ || $self->{hello} ? $self->{said} : $self->{frames}->noise;
  return $self->{way}->reason($text, $status);
}

# ---- Messages of the agent ---------------------------------------------------------------------

sub _frame {
  my ($self, $word, $bytes, $number) = @_;
  $self->{heard} = DMI::Loop::now();
  return if $word eq 'beat';
  return $self->_greeted($bytes) if $word eq 'hello';
  my $member = $self->{members}{$number} or return;
  return $member->frame($word, $bytes) if $number == 0 || $word !~ /^(?:ended|failed)\z/;
  {
    local $self->{ending} = $number;
    $member->frame($word, $bytes);
  }
  return $self->_gone($number);
}

sub _greeted {
  my ($self, $bytes) = @_;
  my $hello = eval { DMI::Frames->content($bytes) };
  my @members = values %{ $self->{members} };
  if (ref $hello ne 'HASH') {
    $_->fail('its agent sent a wrong message: hello') for @members;
    return;
  }
  $self->{hello} = $hello;
  # What came on stderr until now is from a login shell, and no reason for a later failure.
  1 while $self->_hear;
  $self->{said} = '';
  $self->_watch;
  for my $number (keys %{ $self->{members} }) {
    my $member = $self->{members}{$number} or next;
    if ($member->is_final) { $self->leave($number, 0) }
    else { $member->greeted }
  }
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
    return if $self->{let_go} || !$self->{child};
    my $silent = DMI::Loop::now() - $self->{heard};
    return $self->_silent($silent) if $silent >= $self->{timeout} && !$self->{frames}->paused;
    $self->{frames}->send('beat', '');
    $self->{watchdog} = $self->{loop}->after($self->{timeout} / 4, $look);
  };
  $self->{watchdog} = $self->{loop}->after($self->{timeout} / 4, $look);
  return;
}

# ---- Messages to it ------------------------------------------------------------------------------

sub send { my ($self, $number, $word, $bytes) = @_; return $self->{frames}->send($word, $bytes, $number) }
sub tell { my ($self, @what) = @_; return $self->{frames}->tell(@what) }
sub queued { return $_[0]{frames}->queued }

# dmimw is about to be stopped: its agent shall not expect messages.
sub hold { my ($self) = @_; $self->{frames}->send('hold', '') if $self->{hello} && !$self->{is_over} }

sub beat {
  my ($self) = @_;
  return unless $self->{hello} && !$self->{is_over};
  $self->{heard} = DMI::Loop::now();
  $self->{frames}->send('beat', '');
}

# Reads no more for a while.
sub pause {
  my ($self, $on) = @_;
  return unless $self->{frames};
  $self->{heard} = DMI::Loop::now();
  $self->{frames}->pause($on);
  return;
}

1;
