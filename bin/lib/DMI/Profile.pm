# Profile.pm - shows what dmirun --profile FILE has recorded: which lines of the program wait for which
# pages, how often and how long.  The file has lines of JSON (docs/seeing.md) of several processes.
package DMI::Profile;

use strict;
use warnings;
use DMI::Columns ();
use DMI::Json ();
use DMI::LookText ();

my $LINES = 40;    # that are shown
my $PAGES = 3;     # of each

# DMI::Profile->new(@lines): of the program that has written last.  Lines that are none are left out.
sub new {
  my ($class, @lines) = @_;
  my $self = bless { process => {}, place => {}, unread => 0 }, $class;
  my @read = grep { $_ } map { $self->_read($_) } @lines;
  my $program = @read ? $read[-1]{program} : '';
  $self->_add($_) for grep { $_->{program} eq $program } @read;
  return $self;
}

sub _read {
  my ($self, $line) = @_;
  my $hash = eval { DMI::Json::decode($line) };
  return $hash if ref $hash eq 'HASH' && defined $hash->{profile} && defined $hash->{program}
    && ref($hash->{profile} eq 'process' ? $hash->{all} : $hash->{cost}) eq 'HASH';
  $self->{unread}++;
  return;
}

sub _add_cost {
  my ($to, $cost) = @_;
  $to->{$_} = ($to->{$_} // 0) + ($cost->{$_} // 0) for qw(faults waits ns);
  $to->{longest} = $cost->{longest} if ($to->{longest} // 0) < ($cost->{longest} // 0);
  return $to;
}

# Places of several processes are one: they run the same program.
sub _add {
  my ($self, $line) = @_;
  return $self->{process}{ $line->{member} } = $line if $line->{profile} eq 'process';
  my $key = join ' ', map { $_ // '' } @$line{qw(mapping call place)};
  my $place = $self->{place}{$key} //= { map({ $_ => $line->{$_} } qw(call place mapping page_size)), cost => {}, pages => {} };
  _add_cost($place->{cost}, $line->{cost});
  $place->{waits}{$_} = 1 for @{ $line->{waits} // [] };
  for my $page (@{ $line->{pages} // [] }) {
    $place->{pages}{ $page->{page} }{$_} += $page->{$_} // 0 for qw(surely ns);
  }
  return;
}

sub processes { return scalar keys %{ $_[0]{process} } }
sub unread { return $_[0]{unread} }

# The places: who has waited longest is the first, and of those who have not who has asked most.
sub places {
  my ($self) = @_;
  my %place = %{ $self->{place} };
  return map { $place{$_} }
    sort { $place{$b}{cost}{ns} <=> $place{$a}{cost}{ns} || $place{$b}{cost}{faults} <=> $place{$a}{cost}{faults} || $a cmp $b } keys %place;
}

# A place that only waits for the end of threads: they work meanwhile, so this is no time that could be saved there.
sub _joins { my ($place) = @_; return !defined $place->{mapping} && join(' ', keys %{ $place->{waits} // {} }) eq 'thread' }

# What all processes have cost: all, and (gone) the part of which the places were given up.
sub sums {
  my ($self) = @_;
  my ($all, $rest) = ({}, {});
  for my $process (values %{ $self->{process} }) {
    _add_cost($all, $process->{all});
    _add_cost($rest, $process->{rest}) if $process->{gone};
  }
  return ($all, $rest);
}

# ---- Text --------------------------------------------------------------------------------------

sub duration { my ($ns) = @_; return DMI::LookText::duration($ns / 1e9) }

# "3: 90 %, 17: 5 %", of its faults.
sub pages {
  my ($place) = @_;
  my $faults = $place->{cost}{faults} or return '';
  my %of = %{ $place->{pages} };
  my @pages = sort { $of{$b}{surely} <=> $of{$a}{surely} || $a <=> $b } grep { $of{$_}{surely} * 100 >= $faults } keys %of;
  my $more = @pages > $PAGES ? ' ...' : '';
  splice @pages, $PAGES if @pages > $PAGES;
  return join(', ', map { sprintf '%s: %.0f %%', $_, 100 * $of{$_}{surely} / $faults } @pages) . $more;
}

sub row {
  my ($place, $all) = @_;
  my $cost = $place->{cost};
  my $call = defined $place->{call} ? "$place->{call} at $place->{place}" : 'threads of DMI';
  my @waits = sort keys %{ $place->{waits} // {} };
  my $what = defined $place->{mapping} ? join ', ', (grep { $_ ne 'page' } @waits), "pages of $place->{mapping}" : join ' ', @waits;
  return [duration($cost->{ns}), $all->{ns} ? sprintf('%.0f %%', 100 * $cost->{ns} / $all->{ns}) : '-', @$cost{qw(waits faults)},
    duration($cost->{longest} // 0), $call, $what, defined $place->{page_size} ? DMI::LookText::bytes($place->{page_size}) : '', pages($place)];
}

my @columns = ((map { [$_] } qw(waited), 'of all', qw(waits faults longest)), ['call', 'long'], ['for', 'long'], ['page size'], ['which pages', 'long']);

# `width`: as of DMI::LookText.
sub text {
  my ($self, $width) = @_;
  my ($all, $rest) = $self->sums;
  my (@places, @joins);
  push @{ _joins($_) ? \@joins : \@places }, $_ for $self->places;
  my $joined = {};
  _add_cost($joined, $_->{cost}) for @joins;
  $all = { %$all, map { $_ => $all->{$_} - ($joined->{$_} // 0) } qw(faults waits ns) };
  my $hidden = @places > $LINES ? @places - $LINES : 0;
  splice @places, $LINES if $hidden;
  my $processes = $self->processes;
  my $text = sprintf "%d process%s: threads have waited %s in all, in %s waits, and have asked for pages %s times\n\n", $processes,
    $processes == 1 ? '' : 'es', duration($all->{ns}), @$all{qw(waits faults)};
  $text = DMI::Columns::folded($text, $width) . DMI::Columns::fitted($width, \@columns, map { row($_, $all) } @places);
  $text .= "\nand $hidden places more\n" if $hidden;
  $text .= DMI::Columns::folded("\nbeside that: waits for the end of threads, which work meanwhile\n", $width) . DMI::Columns::fitted($width, \@columns, map { row($_, {}) } @joins) if @joins;
  $text .= sprintf "\nand places for which there was no room: %s, %s waits, %s faults\n", duration($rest->{ns}), @$rest{qw(waits faults)} if %$rest;
  return DMI::LookText::clean($text);
}

# What dmirun --profile FILE prints.  Dies if there is nothing.
sub show {
  my ($path, $width) = @_;
  open my $file, '<', $path or die "--profile $path: $! (dmirun --profile FILE ./prog makes it)\n";
  my $self = __PACKAGE__->new(<$file>);
  die "--profile $path: no profile is in it" . ($self->unread ? '' : ': processes write theirs when they end, which none has done yet, or they were killed (dmirun --json shows those of a program that runs)') . "\n" if !$self->processes;
  return $self->text($width);
}

1;
