# Picture.pm - the SVG of dmitimeline: for each process a lane for each worker and thread, with a bar
# for each call and thread, and above them how many calls wait.
#
#   print DMI::Picture::svg($events);      # a DMI::Events
package DMI::Picture;

use strict;
use warnings;

my ($LEFT, $WIDTH, $LANE, $HEAD, $CHART, $GAP, $TOP) = (16, 1200, 14, 18, 28, 14, 56);
my $NARROW = 0.4;    # px; bars that are closer than this become one
my @COLOURS = map { "#$_" } qw(4477aa ee6677 228833 ccbb44 66ccee aa3377 44bb99 bbcc33 99ddff);
my ($ON_INPUTS, $ON_WORKER) = ('#cccccc', '#ffccaa');

sub _text {
  my ($text) = @_;
  my %name = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;');
  $text =~ s/([&<>"])/$name{$1}/g;
  $text =~ s/[^\x20-\x7e\x{a0}-\x{d7ff}]/?/g;
  return $text;
}

sub _time {
  my ($seconds) = @_;
  return sprintf '%.0f us', $seconds * 1e6 if $seconds < 0.001;
  return sprintf '%.3g ms', $seconds * 1e3 if $seconds < 1;
  return sprintf '%.4g s', $seconds;
}

# What the bar of a span is called, and is coloured by.
sub _kind { my ($span) = @_; return $span->{kind} eq 'thread' ? 'threads' : $span->{name} }

# {name => {colour, calls, seconds}} of what was run; the most expensive first in @order.
sub _functions {
  my ($events) = @_;
  my (%functions, $next);
  for my $span (map { @{ $_->{spans} } } $events->processes) {
    my $function = $functions{ _kind($span) } //= { calls => 0, seconds => 0 };
    $function->{calls}++;
    $function->{seconds} += $span->{end} - $span->{begin};
  }
  my @order = sort { $functions{$b}{seconds} <=> $functions{$a}{seconds} || $a cmp $b } keys %functions;
  $functions{$_}{colour} = $_ eq 'threads' ? '#bbbbbb' : $COLOURS[$next++ % @COLOURS] for @order;
  return (\%functions, @order);
}

sub _title {
  my ($span) = @_;
  my $text = $span->{name} . (defined $span->{number} ? " #$span->{number}" : '');
  my @parts = ('ran ' . _time($span->{end} - $span->{begin}) . ($span->{open} ? ', not to its end' : ''));
  if (defined $span->{queued}) {
    my $complete = $span->{complete} // $span->{begin};
    unshift @parts, 'waited for inputs ' . _time($complete - $span->{queued}), 'for a worker ' . _time($span->{begin} - $complete);
  }
  push @parts, 'failed' if $span->{failed};
  return "$text: at " . _time($span->{begin}) . ', ' . join ', ', @parts;
}

# The bars of a lane; neighbours too narrow to be seen become one.
sub _bars {
  my ($scale, $functions, $y, @spans) = @_;
  my (@bars, $last);
  for my $span (sort { $a->{begin} <=> $b->{begin} } @spans) {
    my ($x, $end) = ($span->{begin} * $scale, $span->{end} * $scale);
    my $narrow = $end - $x < $NARROW;
    if ($narrow && $last && $last->{narrow} && $x - $last->{end} < $NARROW && $end - $last->{x} < 2) {
      $last->{end} = $end if $end > $last->{end};
      $last->{num}++;
    } else {
      push @bars, $last = { x => $x, end => $end, narrow => $narrow, num => 1, span => $span };
    }
  }
  return map {
    my $title = $_->{num} == 1 ? _title($_->{span}) : "$_->{num} short calls, such as " . _title($_->{span});
    my $width = $_->{end} - $_->{x};
    sprintf '<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"%s><title>%s</title></rect>',
      $LEFT + $_->{x}, $y + 1, $width < 0.2 ? 0.2 : $width, $LANE - 2, $functions->{ _kind($_->{span}) }{colour},
      $_->{span}{failed} ? ' stroke="#cc0000"' : '', _text($title);
  } @bars;
}

# How many calls wait: for inputs (grey), and above these for a worker (orange).
sub _chart {
  my ($scale, $y, @changes) = @_;
  my $most = 1;
  for (@changes) { $most = $_->[1] + $_->[2] if $_->[1] + $_->[2] > $most }
  my @svg;
  for my $layer ([2, $ON_WORKER], [1, $ON_INPUTS]) {
    my ($sum, $colour) = @$layer;
    my ($path, $x, $height) = ("M$LEFT " . ($y + $CHART), $LEFT, 0);
    my $peak = 0;
    for (@changes) {
      my $to = int(($LEFT + $_->[0] * $scale) * 2) / 2;
      if ($to != $x) {
        $path .= sprintf 'V%.1fH%.1f', $y + $CHART - $peak * $CHART / $most, $to;
        ($x, $peak) = ($to, $height);
      }
      $height = $_->[1] + ($sum == 2 ? $_->[2] : 0);
      $peak = $height if $height > $peak;
    }
    $path .= sprintf 'V%.1fV%.1fZ', $y + $CHART - $height * $CHART / $most, $y + $CHART;
    push @svg, qq{<path d="$path" fill="$colour"/>};
  }
  push @svg, sprintf '<text x="%d" y="%d" class="s">%d at most</text>', $LEFT + $WIDTH + 4, $y + 10, $most;
  return @svg;
}

sub _busy {
  my ($process) = @_;
  my $seconds = $process->{seconds};
  my $sum = 0;
  $sum += $_->{end} - $_->{begin} for grep { $_->{kind} eq 'call' } @{ $process->{spans} };
  my %workers = map { $_->{lane} => 1 } grep { $_->{kind} eq 'call' } @{ $process->{spans} };
  return %workers && $seconds > 0 ? sprintf(', workers busy %.0f %%', 100 * $sum / $seconds / keys %workers) : '';
}

sub _process {
  my ($process, $scale, $functions, $y) = @_;
  my @svg = sprintf '<text x="%d" y="%d" class="h">%s</text>', $LEFT, $y + 12,
    _text($process->{name} . _busy($process));
  $y += $HEAD;
  if (@{ $process->{waiting} }) {
    push @svg, _chart($scale, $y, @{ $process->{waiting} });
    $y += $CHART + 2;
  }
  my $top = $y;
  my @lanes;
  push @{ $lanes[$_->{lane}] }, $_ for @{ $process->{spans} };
  for my $lane (@lanes) {
    push @svg, sprintf '<rect x="%d" y="%d" width="%d" height="%d" fill="#f4f4f4"/>', $LEFT, $y + 1, $WIDTH, $LANE - 2;
    push @svg, _bars($scale, $functions, $y, @{ $lane // [] });
    $y += $LANE;
  }
  for my $mark (@{ $process->{marks} }) {
    my $x = $LEFT + $mark->[0] * $scale;
    push @svg, sprintf '<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s"><title>%s at %s</title></line>',
      $x, $x, $top - 3, $y + 3, $mark->[1] eq 'lost' ? '#cc0000' : '#333333', _text($mark->[1]), _time($mark->[0]);
    push @svg, sprintf '<text x="%.1f" y="%d" class="s">%s</text>', $x + 2, $y + 9, _text($mark->[1])
      if $mark->[1] ne 'ended';
  }
  return ($y + $GAP, @svg);
}

# A line for each tenth of the width or so, at round times.
sub _axis {
  my ($scale, $seconds, $bottom) = @_;
  return if $seconds <= 0;
  my $step;
  for my $times (1, 2, 5, 10, 20, 50, 100) {
    $step = $times * 10**(int(log($seconds / 100) / log(10)) - 1);
    last if $seconds / $step <= 12;
  }
  return map {
    my $x = $LEFT + $_ * $step * $scale;
    sprintf('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#dddddd"/><text x="%.1f" y="%d" class="s">%s</text>',
      $x, $x, $TOP - 8, $bottom, $x + 2, $TOP - 10, $_ ? _time($_ * $step) : 0);
  } 0 .. int($seconds / $step);
}

sub svg {
  my ($events) = @_;
  my $seconds = $events->seconds;
  my $scale = $seconds > 0 ? $WIDTH / $seconds : 0;
  my ($functions, @order) = _functions($events);
  my ($y, @svg) = ($TOP);
  for my $process ($events->processes) {
    my @more;
    ($y, @more) = _process($process, $scale, $functions, $y);
    push @svg, @more;
  }
  my @entries = map {
    my $function = $functions->{$_};
    [$function->{colour}, sprintf '%s: %d, %s', $_, $function->{calls}, _time($function->{seconds})];
  } @order;
  push @entries, [$ON_INPUTS, 'waiting for inputs'], [$ON_WORKER, 'waiting for a worker']
    if grep { @{ $_->{waiting} } } $events->processes;
  my ($x, @legend) = ($LEFT);
  for my $entry (@entries) {
    my ($colour, $text) = @$entry;
    push @legend, sprintf '<rect x="%d" y="10" width="10" height="10" fill="%s"/><text x="%d" y="19">%s</text>',
      $x, $colour, $x + 14, _text($text);
    $x += 30 + 7 * length $text;
  }
  my $width = $LEFT + $WIDTH + 90;
  $width = $x if $x > $width;
  return join "\n",
    qq{<svg xmlns="http://www.w3.org/2000/svg" width="$width" height="$y" font-family="sans-serif" font-size="12">},
    '<style>.h{font-weight:bold}.s{font-size:10px;fill:#666666}</style>',
    qq{<rect width="$width" height="$y" fill="#ffffff"/>}, @legend, _axis($scale, $seconds, $y - $GAP), @svg, "</svg>\n";
}

1;
