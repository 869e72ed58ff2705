# Started.pm - one process that an agent (Agent.pm) starts: its program, key and command, its output, input
# and events, what it is told, and its end.
#
# It must not wait, or know of other processes of the agent.
package DMI::Started;

use strict;
use warnings;
use DMI::Become;
use DMI::Copy;
use DMI::Key;
use DMI::Munge;
use Fcntl qw(F_SETFD);
use File::Path ();
use File::Spec ();
use MIME::Base64 ();
use POSIX ();
use Socket qw(:DEFAULT :addrinfo);

my $default_port = 7880;
my $chunk = 64 << 10;
my $passed_on = qr/"event":"(?:listening|joined|opened|closed|stays|left|finalized|stopping|member_lost|error)"/;
my $most_in_pipe = 1 << 20;     # bytes: the limit of the kernel, unless root has changed it

# number => of the process, 0 if the agent has one only; mark => a word for DMI_AGENTS, by which what the
# process has started is known; loop, version, become (DMI::Become); grace => seconds that it has for leaving when dmimw is lost;
# say => called with a frame's word and bytes; tell => with its word and content;
# full => true while dmimw does not read; adopts => true if what processes leave behind comes to the agent;
# left => returns the pids of what it has left; dir => from which directories count; over => called when nothing of it is left.
sub new {
  my ($class, %opt) = @_;
  return bless {
    asked => 0,         # the process was asked to leave
    streams => {},      # out and err of the process, while they are open
    input => '',        # for the process: what it has not read yet
    taken => 0,         # bytes of its output
    words => '',        # for the control descriptor of the process: what is not written yet
    %opt,
  }, $class;
}

# ---- Messages of dmimw -------------------------------------------------------------------------

my %on = (
  start => sub { $_[0]->_prepare(DMI::Frames->content($_[1])) },
  file => sub { $_[0]->_copied($_[1]) },
  key => sub { $_[0]->_unwrap_key($_[1]) },
  signal => sub { $_[0]->_signal($_[1]) },
  kill => sub { $_[0]->_kill },
  in => sub { $_[0]->_input($_[1]) },
  dead => sub { $_[0]->_tell_dead(DMI::Frames->content($_[1])) },
  eof => sub { $_[0]{input_ends} = 1; $_[0]->_feed },
  drop => sub { $_[0]->lose },
);

# What dmimw says about this process.  A word that is unknown is skipped: a newer dmimw may send it.
sub take {
  my ($self, $word, $bytes) = @_;
  my $call = $on{$word} or return;
  $call->($self, $bytes);
  return;
}

# True if there is, or was, a process.
sub has_begun { return defined $_[0]{pid} }
sub pid { return $_[0]{pid} }
sub number { return $_[0]{number} }
sub mark { return $_[0]{mark} }
sub has_ended { return defined $_[0]{status} }

# Nobody wants it any more: it shall leave in order.
sub lose {
  my ($self) = @_;
  return if $self->{lost}++;
  return $self->_fail(undef) unless $self->{pid};
  $self->ask('TERM');
  $self->_end_input;
  $self->{killing} = $self->{loop}->after($self->{grace}, sub { $self->_kill });
  return $self->look_at_queue;
}

# ---- Starting ----------------------------------------------------------------------------------

sub _fail {
  my ($self, $why) = @_;
  $self->{tell}->('failed', why => $why);
  $self->_finish;
  return;
}

sub _prepare {
  my ($self, $want) = @_;
  return if $self->{want};
  $self->{want} = $want;
  return $self->_fail("DMI $self->{version} is installed there, but $want->{version} here")
    if $want->{version} ne $self->{version};
  my $dir = File::Spec->rel2abs($want->{dir}, $self->{dir});
  File::Path::make_path($dir, { error => \my $errors }) if $want->{copy};
  return $self->_fail("no directory $want->{dir} there: $!") unless chdir $dir;
  if ($want->{copy}) {
    $self->{copy} = DMI::Copy->new($want->{copy});
    return $self->{tell}->('copy') unless $self->{copy}->is_there;
  }
  return $self->_look_for_key;
}

# The program comes in pieces; no more: that was all.
sub _copied {
  my ($self, $bytes) = @_;
  my $copy = $self->{copy} or return;
  if (!eval { $bytes ne '' ? $copy->take($bytes) : $copy->finish; 1 }) {
    delete $self->{copy};
    return $self->_fail($@ =~ s/\n\z//r);
  }
  return if $bytes ne '';
  delete $self->{copy};
  return $self->_look_for_key;
}

sub _look_for_key {
  my ($self) = @_;
  my $want = $self->{want};
  return $self->_find_key($want) if $want->{key_mark};
  $want->{key} = MIME::Base64::decode_base64($want->{key}) if defined $want->{key};
  return $self->_start($want);
}

# dmimw did not send the key, since others could read it on its way.  Takes it from a file here; if
# that fails, dmimw has to send it encrypted by munge.
sub _find_key {
  my ($self, $want) = @_;
  my $key = eval { DMI::Key->find($want->{key_file}) };
  my $why = defined $key ? 'the key file there has another key' : $@ =~ s/\n\z//r;
  return $self->{tell}->('keyless', why => $why) unless _is_wanted($want, $key);
  $want->{key} = $key;
  return $self->_start($want);
}

sub _unwrap_key {
  my ($self, $wrapped) = @_;
  my $want = $self->{want};
  return if !$want || $self->{pid} || $self->{finished};
  $want->{key} = eval { DMI::Munge->unwrap($wrapped) };
  return $self->_fail('the key is not there, and munge does not bring it: ' . $@ =~ s/\n\z//r)
    unless defined $want->{key};
  return $self->_fail('munge brings another key') unless _is_wanted($want, $want->{key});
  return $self->_start($want);
}

sub _is_wanted {
  my ($want, $key) = @_;
  return defined $key && DMI::Key->mark($key, $want->{key_nonce}) eq $want->{key_mark};
}

sub _start {
  my ($self, $want) = @_;
  my %pipe;
  for my $name (qw(in out err events control), defined $want->{key} ? 'key' : ()) {
    pipe my $reader, my $writer or return $self->_fail("no pipe there: $!");
    $pipe{$name} = [$reader, $writer];
  }
  my ($wrong, @command) = $self->_command($want, \%pipe);
  return $self->_fail($wrong) if $wrong;
  if ($pipe{key}) {
    # A key is short: it fits into the pipe.
    syswrite $pipe{key}[1], delete $want->{key};
    close $pipe{key}[1];
  }
  my $pid = fork;
  return $self->_fail("no process there: $!") unless defined $pid;
  $self->_become(\@command, $want, \%pipe) if $pid == 0;
  POSIX::setpgid($pid, $pid);    # parent and child both do this; the second one may fail
  $self->{pid} = $pid;
  close $pipe{$_}[0] for qw(in control);
  close $pipe{$_}[1] for qw(out err events);
  close $pipe{key}[0] if $pipe{key};
  $self->{stdin} = $pipe{in}[1];
  $self->{control} = $pipe{control}[1];
  $_->blocking(0) for @$self{qw(stdin control)};
  $self->_end_input unless $want->{stdin};
  $self->_stream($_, $pipe{$_}[0]) for qw(out err);
  $self->_await_events($pipe{events}[0]);
  $self->{loop}->child($pid, sub { $self->_ended(@_) });
  $self->{tell}->('begun', pid => $pid);
  return;
}

# Returns ('' or what is wrong, the arguments of dmirun).
sub _command {
  my ($self, $want, $pipe) = @_;
  my @command = ('--with-parent', '--grace', $self->{grace});
  push @command, '--key-fd', fileno $pipe->{key}[0] if $pipe->{key};
  push @command, '-l', "$default_port+" if $want->{port} eq 'default';
  push @command, '-l', 0 if $want->{port} eq 'any';
  if (my $join = $want->{join}) {
    my ($host) = grep { _resolves($_) } @{ $join->{hosts} };
    return "this host does not know the name " . join(' or ', @{ $join->{hosts} })
      . " of the host to join" unless defined $host;
    push @command, '-i', $host, '-p', $join->{port};
  }
  return ('', @command, @{ $want->{options} }, @{ $want->{program} });
}

sub _resolves {
  my ($name) = @_;
  my ($error) = getaddrinfo($name, '', { socktype => SOCK_STREAM });
  return !$error;
}

# In the child: becomes the process.
sub _become {
  my ($self, $command, $want, $pipe) = @_;
  $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP PIPE CHLD);
  POSIX::setpgid(0, 0);
  POSIX::dup2(fileno $pipe->{in}[0], 0);
  POSIX::dup2(fileno $pipe->{out}[1], 1);
  POSIX::dup2(fileno $pipe->{err}[1], 2);
  fcntl $_, F_SETFD, 0 for $pipe->{events}[1], $pipe->{control}[0], $pipe->{key} ? $pipe->{key}[0] : ();
  %ENV = (%ENV, %{ $want->{env} // {} }, DMI_EVENT_FD => fileno $pipe->{events}[1],
    DMI_CONTROL_FD => fileno $pipe->{control}[0], DMI_AGENTS => join ' ', $ENV{DMI_AGENTS} // (), $self->{mark});
  return $self->{become}->process(@$command);
}

sub _await_events {
  my ($self, $handle) = @_;
  $handle->blocking(0);
  @$self{qw(events part)} = ($handle, '');
  $self->{loop}->reads($handle, sub { $self->_take_events });
  return;
}

# Passes on the events of the process (docs/events.md) that dmimw needs: those about the process
# itself. It also reports all the others'.
sub _take_events {
  my ($self) = @_;
  my $handle = $self->{events} or return;
  my $count;
  while ($count = sysread $handle, $self->{part}, $chunk, length $self->{part}) {
    while ($self->{part} =~ s/\A([^\n]*)\n//) {
      my $line = $1;
      $self->{joined_as} = $1 if $line =~ /"pid":(\d+),"event":"joined"/;
      $self->{say}->('event', $line) if !$self->{lost} && $line =~ $passed_on;
    }
  }
  return if !defined $count && ($!{EAGAIN} || $!{EINTR});
  return $self->_close('events');
}

# ---- While it runs -----------------------------------------------------------------------------

sub _stream {
  my ($self, $name, $handle) = @_;
  $handle->blocking(0);
  $self->{streams}{$name} = $handle;
  $self->look_at_queue;
  return;
}

# Reads the output of the process only while dmimw reads what the agent sends.  When dmimw is lost,
# output is dropped, so that the process can go on to its end.
sub look_at_queue {
  my ($self) = @_;
  my $full = !$self->{lost} && $self->{full}->();
  for my $name (keys %{ $self->{streams} }) {
    $self->{loop}->reads($self->{streams}{$name}, $full ? undef : sub { $self->_take($name) });
  }
  return;
}

# True when there was something to read.
sub _take {
  my ($self, $name) = @_;
  $self->_take_events;    # an event goes before the line that the process writes about it
  my $handle = $self->{streams}{$name} or return 0;
  my $count = sysread $handle, my ($bytes), $chunk;
  return 0 if !defined $count && ($!{EAGAIN} || $!{EINTR});
  if (!$count) {
    delete $self->{streams}{$name};
    $self->{loop}->close($handle);
    return 0;
  }
  $self->{taken} += $count;
  $self->{say}->($name, $bytes) unless $self->{lost};
  return 1;
}

sub _input {
  my ($self, $bytes) = @_;
  $self->{input} .= $bytes;
  return $self->_feed;
}

# Writes to the stdin of the process, and tells dmimw how much it has read.
sub _feed {
  my ($self) = @_;
  my $stdin = $self->{stdin};
  if (!$stdin) {    # the process has closed its stdin: input counts as read, and is dropped
    $self->{tell}->('took', bytes => length $self->{input}) if $self->{input} ne '';
    $self->{input} = '';
    return;
  }
  if ($self->{input} ne '') {
    my $count = syswrite $stdin, $self->{input};
    if (defined $count) {
      substr $self->{input}, 0, $count, '';
      $self->{tell}->('took', bytes => $count);
    }
    elsif (!$!{EAGAIN} && !$!{EINTR}) {
      $self->_end_input;
      return $self->_feed;
    }
  }
  $self->{loop}->writes($stdin, $self->{input} eq '' ? undef : sub { $self->_feed });
  $self->_end_input if $self->{input} eq '' && $self->{input_ends};
  return;
}

sub _end_input { my ($self) = @_; return $self->_close('stdin') }
sub _end_words { my ($self) = @_; return $self->_close('control') }

# Closes its end of one of the pipes, if it is open.
sub _close {
  my ($self, $name) = @_;
  my $handle = delete $self->{$name} or return;
  return $self->{loop}->close($handle);
}

# Tells the process that another one, which dmimw had started, has ended: that is certain, since its
# agent has waited for it (docs/crashes.md, "What a quorum is").
sub _tell_dead {
  my ($self, $dead) = @_;
  return unless ($dead->{program} // '') =~ /\A[0-9a-f]{32}\z/ && ($dead->{member} // '') =~ /\A[1-9]\d*\z/;
  $self->{words} .= "dead $dead->{program} $dead->{member}\n";
  return $self->_feed_words;
}

sub _feed_words {
  my ($self) = @_;
  my $control = $self->{control} or return;
  my $count = $self->{words} eq '' ? 0 : syswrite $control, $self->{words};
  if (defined $count) { substr $self->{words}, 0, $count, '' }
  elsif (!$!{EAGAIN} && !$!{EINTR}) { return $self->_end_words }
  return $self->{loop}->writes($control, $self->{words} eq '' ? undef : sub { $self->_feed_words });
}

# ---- Its end -----------------------------------------------------------------------------------

# Sends the first request to leave; a second signal would do more than that.
sub ask {
  my ($self, $signal) = @_;
  return if !$self->{pid} || $self->{asked}++;
  return $self->_signal($signal);
}

sub _signal {
  my ($self, $signal) = @_;
  return if $signal !~ /^(?:INT|TERM)$/ || $self->{finished};
  return $self->_fail(undef) unless $self->{pid};    # not started yet: it waits for its key
  $self->{asked}++;
  kill $signal, $self->{pid} unless defined $self->{status};
  return;
}

# Kills the process and its group.  _sweep kills what else it has started, when it has ended.
sub _kill {
  my ($self) = @_;
  return $self->_fail(undef) unless $self->{pid};
  # When it has ended, another process may have its pid.
  kill KILL => -$self->{pid} unless defined $self->{status};
  return;
}

sub _ended {
  my ($self, $status) = @_;
  $self->{status} = $status;
  return if $self->{adopts};    # what it had started is a child of the agent by now: `sweep` follows
  kill KILL => -$self->{pid};    # processes that it started and did not wait for
  return $self->_told;
}

# Kills what the process has started and not waited for: these are children of the agent by now, and
# so are their children when they have died.  Called after the end of each; done when none is left
# that the agent may kill.  They have a second to end by themselves, as what serves the page of --web
# does, which tells browsers first.
sub sweep {
  my ($self) = @_;
  return if !defined $self->{status} || $self->{finished};
  my @left = $self->{left}->();
  if (@left && !$self->{sweeps}) {
    $self->{soon} //= $self->{loop}->after(1, sub { $self->{sweeps} = 1; $self->sweep });
    return;
  }
  return if grep { kill KILL => $_ } @left;
  $self->{loop}->cancel(delete $self->{soon});
  delete $self->{sweeps};
  return $self->_told;
}

# Reports the end of the process, after all its events and output.
sub _told {
  my ($self) = @_;
  my $status = $self->{status};
  $self->_take_events;
  # Not more than the pipe can hold: another process may have the other end, and write on.
  for my $name (qw(out err)) {
    my $until = $self->{taken} + $most_in_pipe;
    1 while $self->{taken} < $until && $self->_take($name);
  }
  for my $name (keys %{ $self->{streams} }) {
    $self->{loop}->close(delete $self->{streams}{$name});
  }
  $self->_end_input;
  $self->_end_words;
  $self->{tell}->('ended', status => $status, dead => $self->_is_dead ? 1 : 0);
  $self->_finish;
  return;
}

# Whether the process that was a member has ended, for certain: it is the one that the agent has waited
# for (and no wrapper of it), or nothing that was started is left.
sub _is_dead {
  my ($self) = @_;
  return ($self->{joined_as} // 0) == $self->{pid} || ($self->{adopts} && !$self->{left}->());
}

sub _finish {
  my ($self) = @_;
  return if $self->{finished}++;
  $self->{loop}->cancel(delete $self->{killing});
  return $self->{over}->();
}

1;
