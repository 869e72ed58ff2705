# Member.pm - one process of the set, and its state.  It is reached through its agent (Link.pm).
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
my $patience = 5;       # seconds in which a process that is killed has to end
my $piece = 64 << 10;   # bytes of a program that are sent at once (--copy)

# name, line (NodeFile), way, loop; changed => called with the member after each change of
# state; lost => called with the member and the event of a member without which, as it says, the program
# goes on; stays => called with a member that was asked to leave some time ago, and says why it is still there (stays_for); missed => returns true if others of its program lose it, should it have ended; fatal => called with the text of an error that ends the program in all processes; keyless => called with the member and why its host does not have the key; output => called with the member, 'out' or 'err', bytes.
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
# True if nothing is left of it, nor of a connection that only it needs.
sub is_gone { my ($self) = @_; return $self->is_final && !($self->{link} && $self->{link}->holds($self->{number})) }
# Which member of which program it is: what others know it by.  undef: none, so far as is known.
sub identity { return $_[0]{identity} }
# True if its agent knows for certain that it has ended, and it had not ended with the program.
sub is_dead { return $_[0]{dead} && !$_[0]{finalized} }
# True if it has ended with its program, or has left it, in order.
sub is_finalized { return $_[0]{finalized} }
# What its agent has said of itself; undef: nothing yet.
sub hello { my ($self) = @_; return $self->{link} && $self->{link}->hello }
# A text that says what went wrong, or undef.
sub problem { return $_[0]{problem} }
# True if its host was not reached.
sub is_unreached { return $_[0]{unreached} }
# True if it has failed to join through the process that it was given (its door).
sub was_refused { return $_[0]{door} && $_[0]{port} && $_[0]{never_joined} && defined $_[0]{problem} }

sub _enter {
  my ($self, $state) = @_;
  return if $rank{$state} <= $self->rank || $self->is_final;
  @$self{qw(state since)} = ($state, time);
  delete $self->{stays_for};    # that was before
  $self->{joined} //= time if $state =~ /^(?:joined|opened|closed|left)\z/;
  $self->{changed}->($self);
  return;
}

# ---- The connection ----------------------------------------------------------------------------

# It is reached by this link from now on, which need not be connected yet.
sub connect {
  my ($self, $link) = @_;
  $self->{link} = $link;
  $self->{number} = $link->take($self);
  $self->_enter('connecting');
  $self->greeted if $link->hello && !$self->is_final;
  return;
}

# Its agent is there.
sub greeted { return $_[0]->_enter('connected') }

# The connection has ended.
sub disconnected {
  my ($self, $reason) = @_;
  return $self->{changed}->($self) if $self->is_final;
  my $lost = $self->is_running ? 'connection lost; its process is asked to leave there: ' : '';
  $self->{unreached} = !$self->is_running;
  return $self->fail("$lost$reason");
}

# More can be sent.
sub drained { my ($self) = @_; return $self->_send_more if $self->{sending} }

# ---- Messages of the agent ---------------------------------------------------------------------

my %on = (
  copy => sub { $_[0]->_send_program },
  begun => sub { $_[0]{pid} = $_[1]{pid}; $_[0]{changed}->($_[0]) },
  event => sub { $_[0]->_happened($_[1]) },
  took => sub { $_[0]{unread} -= $_[1]{bytes}; $_[0]{fed}->() if $_[0]{fed} },
  keyless => sub { $_[0]{keyless}->($_[0], $_[1]{why}) unless $_[0]->is_final },
  failed => sub { $_[0]->fail($_[1]{why}) },
  ended => sub { $_[0]{dead} = $_[1]{dead}; $_[0]->_ended($_[1]{status}) },
);

sub frame {
  my ($self, $word, $bytes) = @_;
  return $self->_wrote($word, $bytes) if $word eq 'out' || $word eq 'err';
  my $call = $on{$word} or return;    # unknown: a newer agent may send it
  return if $self->is_final;
  my $content = eval { DMI::Frames->content($bytes) };
  return $self->fail("its agent sent a wrong message: $word") unless ref $content eq 'HASH';
  $call->($self, $content);
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
  elsif ($name eq 'member_lost') { $self->{lost}->($self, $event) }
  elsif ($name eq 'stays') {
    $self->{stays_for} = $event->{why};
    $self->{stays}->($self);
  }
  elsif ($name eq 'finalized') { $self->{finalized} = 1 }
  elsif ($name eq 'stopping') { $self->{stops_with} = $event->{status} }
  elsif ($name eq 'error') { $self->_failed($event) }
  elsif ($name =~ /^(?:joined|opened|closed|left)\z/) {
    $self->_is($event) if $name eq 'joined' && defined $event->{program};
    $self->_enter($name);
  }
  $self->_wrote('err', '');
  return;
}

# It has joined.
sub _is {
  my ($self, $event) = @_;
  $self->{identity} = { program => $event->{program}, member => $event->{member} };
  @$self{qw(dmi_id joined_pid)} = @$event{qw(id pid)};
  return;
}

# For people: "process 2 (node7/2, pid 4711)", or "node7/2" until it has joined.
sub called {
  my ($self) = @_;
  return defined $self->{dmi_id} ? "process $self->{dmi_id} ($self->{name}, pid $self->{joined_pid})" : $self->{name};
}

# What went wrong, for the line that tells its end; undef: nothing that its own lines have not told.  One that
# was a member has written its reason itself; what ends all processes, one of them tells for all.
sub news {
  my ($self) = @_;
  my $is_member = defined $self->{dmi_id} && defined $self->{how};
  return if $is_member && $self->{ends_program} && $self->{status} == 1 << 8;
  return $self->called . " $self->{how}" if $is_member;
  return "$self->{name} (pid $self->{pid}) $self->{problem}" if ($self->{status} // 0) & 127;
  return "$self->{line}{host}: $self->{problem}" if $self->is_unreached;
  return "$self->{name}: $self->{problem}";
}

# What it says last is why it ends, if it does.  A call of the program that fails is so only if nothing
# else went wrong: calls fail, too, because the program ends.
sub _failed {
  my ($self, $event) = @_;
  my $is_call = ($event->{subsystem} // '') eq 'call';
  return if $is_call && $self->{has_cause};
  $self->{has_cause} = !$is_call;
  $self->{last_words} = $event->{text};
  return if !$event->{all};
  $self->{ends_program} = 1;
  $self->{fatal}->($event->{text});
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

# True if it was a member, and ended neither by a signal nor with the program, nor because it had left.
sub _ended_itself {
  my ($self, $status) = @_;
  return !($status & 127) && !$self->{never_joined} && !$self->{finalized} && !defined $self->{stops_with}
    && $self->rank < $rank{left};
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
  # That the program ends with a status of its own (DMI_exit) is no failure.
  my $stopped = $self->{finalized} && defined $self->{stops_with} && $status == $self->{stops_with} << 8;
  my $itself = $self->_ended_itself($status);
  if ($status == 0 ? $itself && $self->{missed}->($self) : !$stopped) {
    my $how = DMI::Status::text($status);
    # A process cannot know that it is to be killed: what it said before was about something else.
    my $why = ($status & 127) == POSIX::SIGKILL ? undef : $self->{last_words};
    $how .= ', while the program ran: it has called exit or _exit' if !defined $why && $itself;
    @$self{qw(how problem)} = ($how, defined $why ? "$how: $why" : $how);
  }
  $self->_enter('ended');
  return $self->{link}->leave($self->{number}, 0);
}

# ---- Requests to it ----------------------------------------------------------------------------

sub start {
  my ($self, %what) = @_;
  $self->{program} = $what{copy}{path} if $what{copy};
  $self->{link}->tell($self->{number}, start => %what);
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
  while ($self->{sending} && !$self->is_final && $self->{link}->queued < $piece) {
    my $count = sysread $file, my ($bytes), $piece;
    return $self->fail("--copy $self->{program}: $!") unless defined $count;
    close delete $self->{sending} unless $count;
    $self->{link}->send($self->{number}, file => $bytes);
  }
  return;
}

# Sends the encrypted key that its host has asked for (`keyless`).
sub give_key { my ($self, $wrapped) = @_; return $self->{link}->send($self->{number}, key => $wrapped) }

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
  $self->{link}->send($self->{number}, signal => $self->{asked} == 1 ? 'TERM' : 'INT') unless $self->{asked_by_others};
  return;
}

sub kill {
  my ($self) = @_;
  return if $self->is_final;
  return $self->fail(undef) unless $self->is_running;
  $self->{link}->send($self->{number}, kill => '');
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
  my $started = $self->is_running;
  my $state = $started || defined $why ? 'failed' : 'ended';
  $self->_enter($state);
  $self->{link}->leave($self->{number}, $started) if $self->{link};
  return;
}

# Another process of its program has ended, for certain: $dead is that one's identity.
sub tell_dead { my ($self, $dead) = @_; return $self->{link}->tell($self->{number}, dead => %$dead) }

# Sends it bytes for its stdin; undef: the end.  `unread` counts those that it has not read yet.
sub feed {
  my ($self, $bytes) = @_;
  return if $self->is_final;
  return $self->{link}->send($self->{number}, eof => '') unless defined $bytes;
  $self->{unread} += length $bytes;
  return $self->{link}->send($self->{number}, in => $bytes);
}

# The names by which others reach it.
sub addresses { my ($self) = @_; return $self->{way}->addresses($self->{line}, $self->hello // {}) }

1;
