# DMITrace.pm - reads traces (dmirun --trace, docs/trace.md) and says what is wrong with them.
package DMITrace;

use strict;
use warnings;
use DMI::Json;

# The events of a file; `open`: it may have no end, as its process was killed.
sub read_trace {
  my ($path, %opt) = @_;
  open my $file, '<:raw', $path or die "$path: $!\n";
  local $/;
  my $text = <$file>;
  if ($opt{open} && $text !~ /\n\]\n\z/) {
    # The last line may be a part of one.
    $text =~ s/,?\n[^\n]*\z// if $text !~ /\n([^\n]*)\z/ || !eval { DMI::Json::decode($1) };
    $text .= "\n]\n";
  }
  my $events = DMI::Json::decode($text);
  die "no list\n" if ref $events ne 'ARRAY';
  return [grep { $_->{name} ne 'trace_of' } @$events];
}

sub _track { my ($event) = @_; return "$event->{pid}/$event->{tid}" }

# What each kind of event must have.
my %must = (
  M => { args => 'HASH' },
  X => { ts => 'number', dur => 'size', cat => 'text', args => 'HASH' },
  B => { ts => 'number', cat => 'text', args => 'HASH' },
  E => { ts => 'number', cat => 'text', args => 'HASH' },
  s => { ts => 'number', cat => 'text', id => 'text' },
  f => { ts => 'number', cat => 'text', id => 'text', bp => 'text' },
  i => { ts => 'number', s => 'text', args => 'HASH' },
  C => { ts => 'number', args => 'HASH' },
);
my %is = (
  number => sub { !ref $_[0] && $_[0] =~ /^-?\d+(?:\.\d+)?\z/ },
  size => sub { !ref $_[0] && $_[0] =~ /^\d+(?:\.\d+)?\z/ },
  text => sub { !ref $_[0] && $_[0] ne '' },
  HASH => sub { ref $_[0] eq 'HASH' },
);

sub _shape {
  my ($event) = @_;
  my $must = $must{ $event->{ph} // '' } or return 'no such kind: ' . ($event->{ph} // 'none');
  my %all = (%$must, pid => 'number', tid => 'number', name => 'text');
  for my $field (sort keys %all) {
    return "$event->{ph} $field" if !defined $event->{$field} || !$is{ $all{$field} }->($event->{$field});
  }
  return;
}

# Slices of a track lie in each other, or behind each other.
sub _nesting {
  my (@slices) = @_;
  my (@open, @faults);
  for my $slice (sort { $a->{ts} <=> $b->{ts} || $b->{dur} <=> $a->{dur} } @slices) {
    my $end = $slice->{ts} + $slice->{dur};
    pop @open while @open && $open[-1][0] <= $slice->{ts};
    push @faults, "$slice->{name} at $slice->{ts} ends behind $open[-1][1]" if @open && $end > $open[-1][0] + 0.0015;
    push @open, [$end, $slice->{name}];
  }
  return @faults;
}

# Waits of at least half a second are written in two parts: as slices, each with what its end says
# in `unfinished`, and `open` if it has no end.
sub long_waits {
  my ($events) = @_;
  my (@waits, %open);
  for my $event (grep { ($_->{ph} // '') =~ /^[BE]\z/ && !defined _shape($_) } @$events) {
    my $track = _track($event);
    if ($event->{ph} eq 'B') { push @waits, $open{$track} = { %$event, dur => 0, open => 1 } }
    elsif (my $wait = delete $open{$track}) {
      @$wait{qw(dur unfinished open)} = ($event->{ts} - $wait->{ts}, $event->{args}{unfinished}, 0);
      $wait->{other} = $event->{name} if $event->{name} ne $wait->{name};
    }
    else { push @waits, { %$event, dur => 0, other => 'nothing' } }
  }
  return @waits;
}

# Microseconds by which the clock of each process may be off, by its label.
sub errors {
  my ($events) = @_;
  return { map { $_->{pid} => ($_->{args}{labels} =~ /clock \+-(\d+) us/ ? $1 : 'inf') }
      grep { $_->{name} eq 'process_labels' } @$events };
}

# Everything that is wrong, as sentences.  `open` => { pid => 1 }: processes of which a part may be
# missing (lost ones), so that arrows from them or to them may have one end only.
sub faults {
  my ($events, %opt) = @_;
  my (%process, %thread, %slices, %first, %ends, @faults);
  my $errors = errors($events);
  for my $event (@$events) {
    my $wrong = _shape($event);
    push(@faults, "shape: $wrong"), next if defined $wrong;
    $process{ $event->{pid} } = 1 if $event->{name} eq 'process_name';
    $thread{ _track($event) } = 1 if $event->{name} eq 'thread_name';
    next if $event->{ph} eq 'M';
    $first{ $event->{pid} } = $event->{ts} if !defined $first{ $event->{pid} } || $event->{ts} < $first{ $event->{pid} };
    push @{ $slices{ _track($event) } }, $event if $event->{ph} eq 'X';
    push @{ $ends{ $event->{id} } }, $event if $event->{ph} =~ /^[sf]\z/;
  }
  for my $event (grep { !defined _shape($_) } @$events) {
    push @faults, "process $event->{pid} has no name" if !$process{ $event->{pid} }++;
    push @faults, 'thread ' . _track($event) . ' has no name' if $event->{tid} && !$thread{ _track($event) }++;
  }
  for my $wait (long_waits($events)) {
    push @{ $slices{ _track($wait) } }, $wait if !$wait->{open};
    push @faults, _track($wait) . ": $wait->{name} at $wait->{ts} ends with $wait->{other}" if defined $wait->{other};
  }
  push @faults, map { my $track = $_; map { "$track: $_" } _nesting(@{ $slices{$track} }) } sort keys %slices;

  # Each end of an arrow is in a slice, which says who is at the other end.
  my (%slice, @begun, @ended);
  for my $track (keys %slices) { $slice{"$track $_->{ts}"} = $_ for grep { $_->{cat} eq 'message' } @{ $slices{$track} } }
  my $arrows = 0;
  my %way;    # from one process to another: when the first arrow that has both ends arrives, and when the last one begins
  for my $id (sort keys %ends) {
    my @left;
    for my $end (sort { $a->{ts} <=> $b->{ts} || $b->{ph} cmp $a->{ph} } @{ $ends{$id} }) {
      my $in = $slice{ _track($end) . " $end->{ts}" };
      push(@faults, "$end->{ph} $id is in no slice"), next if !$in;
      my $other = $in->{args}{ $end->{ph} eq 's' ? 'to' : 'from' };
      push @left, { %$end, other => $other };
    }
    # The same number may be used again later.
    my @open = grep { $_->{ph} eq 's' } @left;
    for my $end (grep { $_->{ph} eq 'f' } @left) {
      my ($at) = grep { $open[$_]{pid} == $end->{other} } 0 .. $#open;
      push(@ended, $end), next if !defined $at;
      my ($begin) = splice @open, $at, 1;
      $arrows++;
      my $way = $way{"$begin->{pid} $end->{pid}"} //= [$end->{ts}, $begin->{ts}];
      $way->[0] = $end->{ts} if $end->{ts} < $way->[0];
      $way->[1] = $begin->{ts} if $begin->{ts} > $way->[1];
      my $slack = $errors->{ $begin->{pid} } + $errors->{ $end->{pid} } + 1;
      push @faults, sprintf 'arrow %s ends %.1f us before it begins (clocks: %.1f us)', $id, $begin->{ts} - $end->{ts}, $slack
        if $end->{ts} < $begin->{ts} - $slack;
    }
    push @begun, @open;
  }

  # One end is missing if the process there was not traced yet, or had ended.  Messages come in their order: one that was sent
  # before, or comes behind, shows that it was traced.
  for my $end (grep { !$opt{open}{ $_->{other} } } @ended) {
    my $way = $way{"$end->{other} $end->{pid}"};
    push @faults, "f $end->{id} at $end->{ts} in $end->{pid} from $end->{other} has no beginning"
      if $way && $end->{ts} > $way->[0] && $end->{ts} > $first{ $end->{other} } + 1000;
  }
  for my $begin (grep { !$opt{open}{ $_->{other} } } @begun) {
    my $way = $way{"$begin->{pid} $begin->{other}"};
    push @faults, "s $begin->{id} at $begin->{ts} in $begin->{pid} to $begin->{other} has no end"
      if $way && $begin->{ts} < $way->[1] && $begin->{ts} > $first{ $begin->{other} } + 1000;
  }
  push @faults, 'there are no arrows' if !$arrows;
  return @faults;
}

1;
