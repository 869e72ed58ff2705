# Events.pm - what dmitimeline reads: files of events (dmirun --events), made into processes with what
# they ran, and when.
#
#   my $events = DMI::Events->new;
#   $events->read($path) for @files;
#   $events->finish;
#
# Times are in seconds since the first event.  A process is a hash of
#   name, host          for people
#   marks               [time, text], ...: it came, left, was lost
#   seconds             how long it took part
#   spans               what it ran: {lane, name, begin, end, kind, ...}; kind is call or thread
#   waiting             [time, calls that wait for inputs, calls that could run], ..., at each change
package DMI::Events;

use strict;
use warnings;
use JSON::PP ();

my %marks = (joined => 'joined', closed => 'asked to leave', left => 'left', finalized => 'ended');

# A line as the library writes it: words and numbers, and texts without special characters.  All
# others are left to JSON::PP, which takes ten times as long.
sub _decode {
  my ($self, $line) = @_;
  my %event;
  if ($line =~ /\A\{(?:"\w+":(?:-?[\d.]+|"[^"\\\x80-\xff]*")(?:,(?=")|(?=\})))+\}\n\z/) {
    $event{$1} = $3 // $2 while $line =~ /"(\w+)":(?:(-?[\d.]+)|"([^"]*)")/g;
    return \%event;
  }
  return eval { $self->{json}->decode($line) };
}

sub new {
  my ($class) = @_;
  return bless { processes => {}, seen => 0, unread => 0, json => JSON::PP->new->utf8 }, $class;
}

# Dies with a sentence if the file cannot be read.  Lines that are no events are counted.
sub read {
  my ($self, $path) = @_;
  open my $file, '<', $path or die "$path: $!\n";
  -d $file and die "$path: is a directory\n";
  while (my $line = <$file>) {
    my $event = $self->_decode($line);
    if (ref $event eq 'HASH' && ($event->{time} // '') =~ /^\d+(?:\.\d+)?$/ && defined $event->{event}) {
      $self->_note($event, $path);
    } else {
      $self->{unread}++;
    }
  }
  return;
}

# The events of a process are in order; those of several processes of one file are not.  A process
# number of the system is used again, and is another one on another machine.
sub _note {
  my ($self, $event, $path) = @_;
  my $key = "$path " . ($event->{pid} // '');
  my $process = $self->{processes}{$key};
  if (!$process || $event->{event} eq 'listening' && $process->{host}) {
    $self->{processes}{"$key old" . $self->{seen}} = $process if $process;
    $process = $self->{processes}{$key} =
      { order => ++$self->{seen}, pid => $event->{pid}, calls => {}, marks => [], spans => [], waiting => [], inputs => 0, ready => 0 };
  }
  my $time = $event->{time};
  $self->{first} = $time if !defined $self->{first} || $time < $self->{first};
  $self->{last} = $time if !defined $self->{last} || $time > $self->{last};
  $process->{id} = $event->{process} if defined $event->{process};
  my $kind = $event->{event};
  if (my $take = $self->can("_on_$kind")) {
    $take->($self, $process, $event);
  } elsif ($marks{$kind}) {
    push @{ $process->{marks} }, [$time, $marks{$kind}];
  }
  $process->{until} = $time;
  return;
}

sub _on_listening { my ($self, $process, $event) = @_; $process->{host} = $event->{host}; return }

sub _on_lost { my ($self, $process, $event) = @_; $process->{left_out} += $event->{count} // 0; return }

sub _on_member_lost {
  my ($self, $process, $event) = @_;
  $self->{lost}{ $event->{id} } //= $event->{time} if defined $event->{id};
  return;
}

# ---- Threads -----------------------------------------------------------------------------------

sub _on_thread_begun { my ($self, $process, $event) = @_; $process->{threads}{ $event->{thread} } = $event->{time}; return }

sub _on_thread_ended {
  my ($self, $process, $event) = @_;
  my $begin = delete $process->{threads}{ $event->{thread} } // return;
  push @{ $process->{spans} }, { kind => 'thread', name => "thread $event->{thread}", begin => $begin, end => $event->{time} };
  return;
}

# ---- Calls of remote functions -----------------------------------------------------------------

sub _call {
  my ($process, $event) = @_;
  return $process->{calls}{ ($event->{client} // '') . ' ' . ($event->{call} // '') } //= {};
}

sub _changes {
  my ($process, $time, $inputs, $ready) = @_;
  $process->{inputs} += $inputs;
  $process->{ready} += $ready;
  push @{ $process->{waiting} }, [$time, $process->{inputs}, $process->{ready}];
  return;
}

sub _on_call_queued {
  my ($self, $process, $event) = @_;
  my $call = _call($process, $event);
  @$call{qw(queued name)} = ($event->{time}, $event->{function});
  _changes($process, $event->{time}, 1, 0);
  return;
}

sub _on_call_complete {
  my ($self, $process, $event) = @_;
  my $call = _call($process, $event);
  return if !$call->{queued} || $call->{complete};
  $call->{complete} = $event->{time};
  _changes($process, $event->{time}, -1, 1);
  return;
}

# It does not wait here any more.
sub _goes {
  my ($process, $call, $time) = @_;
  return if !$call->{queued} || $call->{fired};
  _changes($process, $time, $call->{complete} ? (0, -1) : (-1, 0));
  return;
}

sub _on_call_fired {
  my ($self, $process, $event) = @_;
  my $call = _call($process, $event);
  _goes($process, $call, $event->{time});
  $call->{fired} = $event->{time};
  $call->{name} //= $event->{function};
  $call->{worker} = $event->{worker};
  return;
}

sub _on_call_returned {
  my ($self, $process, $event) = @_;
  _goes($process, _call($process, $event), $event->{time});
  delete $process->{calls}{"$event->{client} $event->{call}"};
  return;
}

sub _on_call_done {
  my ($self, $process, $event) = @_;
  my $call = _call($process, $event);
  delete $process->{calls}{"$event->{client} $event->{call}"};
  return unless $call->{fired};
  push @{ $process->{spans} }, {
    kind => 'call', name => $call->{name} // '?', number => $event->{call}, begin => $call->{fired}, end => $event->{time},
    lane => $call->{worker}, failed => $event->{failed}, queued => $call->{queued}, complete => $call->{complete},
  };
  return;
}

# ---- The end -----------------------------------------------------------------------------------

# A lane for each worker, and for threads that run at the same time.
sub _lanes {
  my ($process) = @_;
  my @free;
  my $workers = 0;
  for my $span (@{ $process->{spans} }) { $workers = $span->{lane} + 1 if defined $span->{lane} && $span->{lane} >= $workers }
  for my $span (sort { $a->{begin} <=> $b->{begin} } grep { !defined $_->{lane} } @{ $process->{spans} }) {
    my ($lane) = grep { ($free[$_] // 0) <= $span->{begin} } 0 .. @free;
    $free[$lane] = $span->{end};
    $span->{lane} = $workers + $lane;
  }
  return $workers + @free;
}

# What had not ended when its process did is shown up to there.
sub _unfinished {
  my ($self, $process) = @_;
  my $until = $process->{until};
  for my $thread (keys %{ $process->{threads} // {} }) {
    push @{ $process->{spans} }, { kind => 'thread', name => "thread $thread", begin => $process->{threads}{$thread}, end => $until, open => 1 };
  }
  for my $call (grep { $_->{fired} } values %{ $process->{calls} }) {
    push @{ $process->{spans} }, {
      kind => 'call', name => $call->{name} // '?', begin => $call->{fired}, end => $until, open => 1,
      lane => $call->{worker}, queued => $call->{queued}, complete => $call->{complete},
    };
  }
  return;
}

sub finish {
  my ($self) = @_;
  my @all = sort { ($a->{id} // 1e9) <=> ($b->{id} // 1e9) || $a->{order} <=> $b->{order} } values %{ $self->{processes} };
  my $zero = $self->{first} // 0;
  for my $process (@all) {
    $self->_unfinished($process);
    $process->{lanes} = _lanes($process);
    $process->{name} = (defined $process->{id} ? "process $process->{id}" : "pid $process->{pid}")
      . (defined $process->{host} ? " ($process->{host})" : '');
    my $lost = defined $process->{id} ? $self->{lost}{ $process->{id} } : undef;
    push @{ $process->{marks} }, [$lost, 'lost'] if defined $lost;
    $_->[0] -= $zero for @{ $process->{marks} }, @{ $process->{waiting} };
    my ($came) = map { $_->[1] eq 'joined' ? $_->[0] : () } @{ $process->{marks} };
    my ($went) = map { $_->[1] =~ /^(?:left|lost|ended)$/ ? $_->[0] : () } sort { $a->[0] <=> $b->[0] } @{ $process->{marks} };
    $process->{seconds} = ($went // $process->{until} - $zero) - ($came // 0);
    for my $span (@{ $process->{spans} }) {
      defined $span->{$_} and $span->{$_} -= $zero for qw(begin end queued complete);
    }
  }
  $self->{list} = \@all;
  return;
}

sub processes { return @{ $_[0]{list} } }
sub seconds { my ($self) = @_; return ($self->{last} // 0) - ($self->{first} // 0) }
sub unread { return $_[0]{unread} }

# Events that a process could not write.
sub left_out { my $sum = 0; $sum += $_->{left_out} // 0 for $_[0]->processes; return $sum }

1;
