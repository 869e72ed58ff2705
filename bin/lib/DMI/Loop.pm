# Loop.pm - waits for everything at once: descriptors, timers, signals, ends of children.
#
# dmimw waits nowhere else, and never sleeps.  Only modules that come with Perl are used, since the
# agent runs on every host of a cluster.
#
#   my $loop = DMI::Loop->new;
#   $loop->reads($handle, sub { ... });    # when there is something to read; undef: no more
#   $loop->writes($handle, sub { ... });   # when it can be written
#   my $timer = $loop->after(5, sub { ... });    # once; $loop->cancel($timer)
#   $loop->signal(INT => sub { ... });
#   $loop->child($pid, sub { my ($wait_status) = @_; ... });
#   $loop->orphans(sub { ... });           # called after the end of orphans that became our children
#   $loop->run;                            # until $loop->stop
package DMI::Loop;

use strict;
use warnings;
use IO::Handle ();
use IO::Poll qw(POLLIN POLLOUT POLLERR POLLHUP POLLNVAL);
use POSIX qw(:sys_wait_h);
use Time::HiRes ();

# Seconds, of a clock that is never set.
sub now { return Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) }

sub new {
  my ($class) = @_;
  my $self = bless {
    poll => IO::Poll->new,
    reads => {},       # descriptor => [handle, what to call]
    writes => {},
    timers => {},      # number => [when, what to call]
    next_timer => 1,
    signals => {},     # name => what to call
    came => [],        # names of signals that came and were not yet looked at
    children => {},    # pid => what to call
  }, $class;
  # A signal writes to a pipe, so that none is missed between a look and the next wait.
  pipe my $reader, my $writer or die "no pipe: $!\n";
  $_->blocking(0) for $reader, $writer;
  @$self{qw(wake_reader wake_writer)} = ($reader, $writer);
  $self->reads($reader, sub { 1 while sysread $reader, my $bytes, 512 });
  $self->signal(CHLD => sub { $self->_reap });
  return $self;
}

sub reads { return _watch('reads', @_) }
sub writes { return _watch('writes', @_) }

sub _watch {
  my ($which, $self, $handle, $call) = @_;
  my $fd = fileno $handle;
  die "DMI::Loop: a closed handle\n" unless defined $fd;
  if ($call) { $self->{$which}{$fd} = [$handle, $call] }
  else { delete $self->{$which}{$fd} }
  my $mask = ($self->{reads}{$fd} ? POLLIN : 0) | ($self->{writes}{$fd} ? POLLOUT : 0);
  if ($mask) { $self->{poll}->mask($handle => $mask) }
  else { $self->{poll}->remove($handle) }
  return;
}

# To be called before a watched handle is closed.
sub forget {
  my ($self, $handle) = @_;
  return unless defined fileno $handle;
  $self->reads($handle);
  $self->writes($handle);
  return;
}

# Forgets and closes it.
sub close {
  my ($self, $handle) = @_;
  $self->forget($handle);
  CORE::close $handle;
  return;
}

sub after {
  my ($self, $seconds, $call) = @_;
  my $number = $self->{next_timer}++;
  $self->{timers}{$number} = [now() + $seconds, $call];
  return $number;
}

sub cancel {
  my ($self, $timer) = @_;
  delete $self->{timers}{$timer} if defined $timer;
  return;
}

sub signal {
  my ($self, $name, $call) = @_;
  $self->{signals}{$name} = $call;
  $SIG{$name} = sub {
    push @{ $self->{came} }, $name;
    syswrite $self->{wake_writer}, 'x';
  };
  return;
}

sub child {
  my ($self, $pid, $call) = @_;
  $self->{children}{$pid} = $call;
  push @{ $self->{came} }, 'CHLD';    # it may have ended already
  syswrite $self->{wake_writer}, 'x';
  return;
}

sub orphans {
  my ($self, $call) = @_;
  $self->{orphans} = $call;
  return;
}

sub _reap {
  my ($self) = @_;
  if ($self->{orphans}) {
    while ((my $pid = waitpid -1, WNOHANG) > 0) {
      my $status = $?;
      my $call = delete $self->{children}{$pid};
      $call->($status) if $call;
    }
    return $self->{orphans}->();
  }
  for my $pid (keys %{ $self->{children} }) {
    next unless waitpid($pid, WNOHANG) == $pid;
    my $status = $?;
    (delete $self->{children}{$pid})->($status);
  }
  return;
}

sub stop { $_[0]{stopped} = 1 }

sub run {
  my ($self) = @_;
  $self->_turn until $self->{stopped};
  return;
}

sub _turn {
  my ($self) = @_;
  my $now = now();
  my ($next) = sort { $a <=> $b } map { $_->[0] } values %{ $self->{timers} };
  my $wait = @{ $self->{came} } ? 0 : defined $next ? ($next > $now ? $next - $now : 0) : -1;
  my $ready = $self->{poll}->poll($wait);
  $self->_signals;
  $self->_descriptors if $ready > 0;
  $now = now();
  for my $number (sort { $a <=> $b } keys %{ $self->{timers} }) {
    my $timer = $self->{timers}{$number} or next;
    next if $timer->[0] > $now;
    delete $self->{timers}{$number};
    $timer->[1]->();
  }
  return;
}

sub _signals {
  my ($self) = @_;
  while (defined(my $name = shift @{ $self->{came} })) { $self->{signals}{$name}->() }
  return;
}

sub _descriptors {
  my ($self) = @_;
  my $poll = $self->{poll};
  # A function that is called may end the watch of another handle: so each is looked up again.
  for my $entry ([reads => POLLIN | POLLHUP | POLLERR | POLLNVAL],
      [writes => POLLOUT | POLLHUP | POLLERR | POLLNVAL]) {
    my ($which, $mask) = @$entry;
    for my $fd (keys %{ $self->{$which} }) {
      my $watch = $self->{$which}{$fd} or next;
      $watch->[1]->() if $poll->events($watch->[0]) & $mask;
    }
  }
  return;
}

1;
