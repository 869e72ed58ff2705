# Columns.pm - text in columns, and long lines, for windows of any width.  Pure.
package DMI::Columns;

use strict;
use warnings;

my $GAP = 2;       # spaces between two columns
my $INDENT = 4;    # of what goes on in another line

# How many columns of a terminal a text takes: of Chinese, Japanese and Korean most characters take two; an accent
# is above another character.
sub wide {
  my ($text) = @_;
  return length $text if $text !~ /[^\x00-\x{2ff}]/;
  my $shown = $text =~ s/[\p{Mn}\p{Me}]//gr;
  my $double = () = $shown =~ /[\p{EastAsianWidth=Wide}\p{EastAsianWidth=Fullwidth}]/g;
  return $double + length $shown;
}

# How many characters fit in so many columns; at least one.
sub _room {
  my ($text, $width) = @_;
  my ($room, $used) = (0, 0);
  for my $character ($text =~ /./gs) {
    $used += wide($character);
    last if $used > $width;
    $room++;
  }
  return $room || 1;
}

sub _padded { my ($text, $width) = @_; return $text . ' ' x ($width - wide($text)) }

# How wide each column has to be.
sub widths {
  my (@rows) = @_;
  my @wide;
  for my $row (@rows) {
    for my $i (0 .. $#$row) {
      my $wide = wide($row->[$i]);
      $wide[$i] = $wide if $wide > ($wide[$i] // 0);
    }
  }
  return @wide;
}

# Columns, each as wide as it must be.
sub table {
  my (@rows) = @_;
  my @wide = widths(@rows);
  return join '', map {
    my $row = $_;
    join(' ' x $GAP, map { _padded($row->[$_], $wide[$_]) } 0 .. $#$row) =~ s/ +\z/\n/r =~ s/([^\n])\z/$1\n/r
  } @rows;
}

# A long line goes on in the next one, further to the right.
sub fold {
  my ($line, $width) = @_;
  my ($indent) = $line =~ /^( *)/;
  return _fold($line, $width, length($indent) + $INDENT);
}

sub _fold {
  my ($line, $width, $by) = @_;
  return $line if wide($line) <= $width;
  my ($indent) = map { ' ' x $_ } grep { $_ < $width / 2 } $by, 2 * $INDENT, $INDENT, 0;
  my @lines;
  $line =~ s/ +\z//;
  $line =~ s/^ +/$indent/ if $line =~ /^( +)/ && length $1 >= $width / 2;    # there would be hardly room for words
  while (wide($line) > $width) {
    my $room = _room($line, $width);
    my $part = substr $line, 0, $room + 1;
    # What is cut off takes more than the indent that comes in its place, and no line has only spaces.
    my ($least) = sort { $b <=> $a } map { length } $indent, $line =~ /^( *)/;
    # Not behind a colon, which names what follows ("3: 17").
    my @cuts = grep { $_ > 0 && wide(substr $part, 0, $_) > $least } $part =~ /^.*[^: ] / ? $+[0] - 1 : 0, rindex($part, ' ');
    my $cut = $cuts[0] // $room;
    push @lines, substr($line, 0, $cut, '') =~ s/ +\z//r;
    $line =~ s/^ +//;
    return @lines if $line eq '';
    $line = $indent . $line;
  }
  return (@lines, $line);
}

# The same of each line of a text, which ends with one; without a width nothing changes.
sub folded {
  my ($text, $width) = @_;
  return $text if !defined $width;
  return join '', map { "$_\n" } map { fold($_, $width) } $text =~ /^(.*)\n/mg;
}

# ---- Tables in windows that are too narrow for them ---------------------------------------------

# A table of which no line is longer than `width` (undef: any), if the first column beside any other one is not.
# `columns`: each [title, how]; the first one names the row.  `how`: long - where there is no room this column goes to
# lines of its own, below the row, the widest one first; part - such columns, up to the next one that says so, belong
# together.  What is still too wide is shown in several tables, one below the other, of which each begins with the
# first column.
sub fitted {
  my ($width, $columns, @rows) = @_;
  my @titles = map { $_->[0] } @$columns;
  my @wide = widths(\@titles, @rows);
  my @stay = 0 .. $#titles;
  return table(\@titles, @rows) if !defined $width;
  my %below;
  for my $long (sort { $wide[$b] <=> $wide[$a] || $a <=> $b } grep { ($columns->[$_][1] // '') eq 'long' } 1 .. $#titles) {
    last if needs(\@wide, @stay) <= $width;
    $below{$long} = 1;
    @stay = grep { $_ != $long } @stay;
  }
  my @below = sort { $a <=> $b } keys %below;
  my @tables = _parts($width, $columns, \@wide, @stay);
  my $first = _with_below($width, [map { [@$_[@{ $tables[0] }]] } \@titles, @rows], [@titles[@below]], [map { [@$_[@below]] } @rows]);
  return join "\n", $first, map { my $part = $_; table(map { [@$_[@$part]] } \@titles, @rows) } @tables[1 .. $#tables];
}

# How wide these columns are together.
sub needs {
  my ($wide, @columns) = @_;
  my $needs = -$GAP;
  $needs += $GAP + $wide->[$_] for @columns;
  return $needs;
}

# Which columns are in which table.
sub _parts {
  my ($width, $columns, $wide, $first, @others) = @_;
  my @parts;
  for my $at (@others) {
    if (!@parts || ($columns->[$at][1] // '') eq 'part') { push @parts, [$at] }
    else { push @{ $parts[-1] }, $at }
  }
  my @tables = [$first];
  my $fits = sub { return needs($wide, @{ $tables[-1] }, @_) <= $width };
  for my $part (@parts) {
    push @tables, [$first] if @{ $tables[-1] } > 1 && !$fits->(@$part);
    for my $at (@$part) {
      push @tables, [$first] if @{ $tables[-1] } > 1 && !$fits->($at);
      push @{ $tables[-1] }, $at;
    }
  }
  return @tables;
}

# A table, and below each of its rows a line for each of other cells that is not empty.
sub _with_below {
  my ($width, $rows, $titles, $cells) = @_;
  my ($head, @lines) = split /\n/, table(@$rows);
  my ($wide) = sort { $b <=> $a } 0, map { wide($_) } @$titles;
  my $text = "$head\n";
  for my $row (0 .. $#lines) {
    $text .= "$lines[$row]\n";
    for my $at (grep { $cells->[$row][$_] !~ /^-?\z/ } 0 .. $#$titles) {
      my $line = ' ' x $INDENT . _padded($titles->[$at], $wide) . ' ' x $GAP . $cells->[$row][$at];
      $text .= join '', map { "$_\n" } _fold($line, $width, $INDENT + $wide + $GAP);
    }
  }
  return $text;
}

1;
