# Waits.pm - who waits for whom in a running program: what DMI::Look has gathered, with its meaning.
# Pure.
package DMI::Waits;

use strict;
use warnings;

our $MOMENT = 1e9;    # ns of a wait that may be over before the last answer comes

# DMI::Waits->new($all), of DMI::Look->all.
sub new {
  my ($class, $all) = @_;
  my $self = bless { all => $all, thread => {}, held => {}, users => {}, member => {} }, $class;
  for my $member (@{ $all->{members} }) {
    my $uid = $member->{member};
    $self->{member}{$uid} = $member;
    $self->{thread}{"$uid $_->{thread}"} = { %$_, member => $uid, key => "$uid $_->{thread}" }
      for @{ $member->{threads} // [] };
    $self->{held}{ $_->{lock} } = { %$_, key => "$uid $_->{thread}", member => $uid }
      for @{ $member->{locks} // [] };
    $self->{users}{ $_->{barrier} }{"$uid $_->{thread}"} = 1 for @{ $member->{barriers} // [] };
  }
  return $self;
}

sub members { return @{ $_[0]{all}{members} } }

# The threads of a member, in the order of their numbers; without one: all.
sub threads {
  my ($self, $uid) = @_;
  return sort { $a->{member} <=> $b->{member} || $a->{thread} <=> $b->{thread} }
    grep { !defined $uid || $_->{member} == $uid } values %{ $self->{thread} };
}

sub object {
  my ($self, $thread) = @_;
  return $self->{all}{objects}{"$thread->{waits} $thread->{addr}"}
    // $self->{all}{objects}{"page $thread->{addr}"} // {};
}

# ---- Names -------------------------------------------------------------------------------------

# The machine of a process, and what its launcher calls it (the tag of what it prints).
sub host { my ($member) = @_; return join ', ', grep { defined } @$member{qw(host tag)} }

sub process_name {
  my ($self, $uid) = @_;
  my $member = $self->{member}{$uid} or return "a process that is no member (any more)";
  return "process $member->{process} (" . host($member) . ')';
}

sub short_name {
  my ($thread) = @_;
  return 'DMI_main' if $thread->{who} eq 'main';
  return "thread $thread->{number}" if defined $thread->{number};
  return "another thread (tid $thread->{tid})";    # it runs remote functions, or is the program's own
}

sub thread_name {
  my ($self, $thread) = @_;
  return short_name($thread) . ' of ' . $self->process_name($thread->{member});
}

# The thread with this number of DMI in a process; undef: not known.
sub by_number {
  my ($self, $uid, $number) = @_;
  return (grep { ($_->{number} // 0) == $number } $self->threads($uid))[0];
}

# ---- Locks -------------------------------------------------------------------------------------

# Who holds the lock for which this thread waits: a note of it, or at least { member }; undef.
sub holder {
  my ($self, $thread) = @_;
  my $object = $self->object($thread);
  my $held = $self->{held}{ $thread->{addr} };
  # Which operation has taken it is known at the owner; a note without it is of a moment before.
  my $by = $object->{holder};
  return $held if $held && (!$by || ($by->{member} == $held->{member} && $by->{op} eq $held->{op}));
  return $by ? { member => $by->{member} } : undef;
}

# Its place in line, from 1; undef: not known.
sub place {
  my ($self, $thread) = @_;
  my ($place) = grep { $_->{member} == $thread->{member} && $_->{op} eq ($thread->{op} // '') }
    @{ $self->object($thread)->{queue} // [] };
  return $place && $place->{place};
}

# ---- Barriers ----------------------------------------------------------------------------------

# The threads that use the barrier at which this one waits, and have not come.
sub missing {
  my ($self, $thread) = @_;
  my $users = $self->{users}{ $thread->{addr} } // {};
  return grep { $_ && !(($_->{waits} // '') eq 'barrier' && $_->{addr} eq $thread->{addr}) }
    map { $self->{thread}{$_} } sort keys %$users;
}

# How many threads must still come to the barrier at which this one waits; undef: not known.
sub left {
  my ($self, $thread) = @_;
  my $object = $self->object($thread);
  return defined $object->{arrived} ? $object->{needed} - $object->{arrived} : undef;
}

# Threads that wait at barriers to which nobody is left who could come, one of each barrier.  That is
# known only if all threads have waited for a moment or longer, at barriers, for locks of each
# other or for the end of each other.
sub unreachable {
  my ($self) = @_;
  my %first;
  return () if grep { $_->{silent} } $self->members;
  for my $thread ($self->threads) {
    my $waits = $thread->{waits} // '';
    next if !$waits && $thread->{who} eq 'other' && !defined $thread->{call};    # it does nothing with DMI
    return () if !$waits || $thread->{ns} < $MOMENT;
    if ($waits eq 'barrier') {
      my $left = $self->left($thread);
      return () if !defined $left || $left < 1;
      $first{ $thread->{addr} } //= $thread if $left > $self->missing($thread);    # else it may be in a circle
    } elsif (!$self->needs($thread)) {
      return ();
    }
  }
  return map { $first{$_} } sort keys %first;
}

# ---- Deadlocks ---------------------------------------------------------------------------------

# The threads without which this one cannot go on.
sub needs {
  my ($self, $thread) = @_;
  my $waits = $thread->{waits} // '';
  if ($waits eq 'lock') {
    my $held = $self->holder($thread);
    # One that was not among the threads of a moment before is not known; asking must not make it one.
    my $other = $held && $held->{key} && $self->{thread}{ $held->{key} };
    return $other || ();
  }
  return grep { $_ } $self->by_number(@{ $thread->{joins} }{qw(member number)}) if $thread->{joins};
  return () if $waits ne 'barrier';
  # All that are missing are needed only if no others could come in their place.
  my @missing = $self->missing($thread);
  my $object = $self->object($thread);
  my $needed = ($object->{needed} // $thread->{size}) - ($object->{arrived} // 0);
  return @missing == $needed ? @missing : ();
}

# Circles of threads of which each needs the next one; each circle once.
sub circles {
  my ($self) = @_;
  my (@circles, %done);
  for my $first ($self->threads) {
    my (@way, %at);
    my $visit;
    $visit = sub {
      my ($thread) = @_;
      my $key = $thread->{key};
      if (defined $at{$key}) {
        push @circles, [@way[$at{$key} .. $#way]];
        return;
      }
      return if $done{$key};
      $at{$key} = @way;
      push @way, $thread;
      $visit->($_) for $self->needs($thread);
      pop @way;
      delete $at{$key};
      $done{$key} = 1;
    };
    $visit->($first);
  }
  return @circles;
}

# The verdict, for all views: { circle => [threads] }, or { barrier => a thread that waits there for ever }.
sub deadlocks {
  my ($self) = @_;
  return (map({ { circle => $_ } } $self->circles), map { { barrier => $_ } } $self->unreachable);
}

# The same as numbers, for programs.
sub verdicts {
  my ($self) = @_;
  return map {
    my $at = $_->{barrier};
    my $object = $at && $self->object($at);
    $at ? { barrier => $at->{addr}, map { $_ => $object->{$_} } qw(arrived needed) }
      : { circle => [map { { member => $_->{member}, thread => $_->{thread} } } @{ $_->{circle} }] };
  } $self->deadlocks;
}

1;
