# TopView.pm - what dmirun --top shows, as lines of text, and what its keys do.  Pure: DMI::Top has the
# terminal, DMI::Look the answers.
#
#   my $view = DMI::TopView->new;
#   $view->take($all);                    # of DMI::Look->all($view->parts)
#   my $way = $view->key('down');         # 'end', 'ask' (other answers are needed), 'draw' or ''
#   my @lines = $view->lines($height, $width);    # [text, style], style: plain, head, chosen, alarm
package DMI::TopView;

use strict;
use warnings;
use DMI::Columns ();
use DMI::LookText ();
use DMI::Waits ();

# The columns: title, what is shown, what it is sorted by (largest first if a number that grows).  A narrow
# window shows the first one, and those from `left` on: so what changes comes before what stays.
my $text = sub { my ($name) = @_; return sub { DMI::LookText::plain($_[0]{$name}) } };
my $size = sub { my ($name) = @_; return sub { defined $_[0]{$name} ? DMI::LookText::bytes($_[0]{$name}) : '?' } };
my $count = sub { my ($name) = @_; return sub { defined $_[0]{$name} ? sprintf '%.0f', $_[0]{$name} : '?' } };
# For what most threads of a process wait: "3 barrier".
my $waits = sub { return sub { return !$_[0]{waits_for} ? '?' : $_[0]{waits} ? DMI::LookText::plain("$_[0]{waits} $_[0]{waits_for}") : '-' } };
my @columns = (
  ['process', $count->('process'), sub { $_[0]{process} }],
  [sub { DMI::LookText::host_title(@{ $_[0]{rows} }) }, \&DMI::LookText::host, sub { $_[0]{host} }],
  ['state', $text->('state'), sub { $_[0]{state} }],
  map({ my ($title, $name, $how) = @$_; [$title, $how->($name), sub { -($_[0]{$name} // -1) }] }
    ['threads', 'threads', $count], ['waits', 'waits', $waits], ['faults/s', 'faults', $count], ['in/s', 'in', $size], ['out/s', 'out', $size],
    ['pool used', 'used', $size], ['of', 'limit', $size], ['copies', 'copies', $size], ['spilled', 'spilled', $size], ['cores', 'cores', $count]),
  ['up', sub { defined $_[0]{life} ? DMI::LookText::age($_[0]{life}) : '?' }, sub { -($_[0]{life} // -1) }],
  ['pid', \&DMI::LookText::pid, sub { $_[0]{pid} // 0 }],
);
# Of so many questions for the table one is also for threads and locks, which take more to find: the first.
my $each_for_deadlocks = 5;
# What keys do in each page, the most important first: one or two lines of the window have them.
my %help = (
  processes => ['q: end', 'enter: threads', 'm: mappings', 'left/right: columns', '</>: sort', 'r: reverse', 'up/down: choose'],
  threads => ['q: end', 'b: back', 'm: mappings', 'up/down: scroll'],
  mappings => ['q: end', 'b: back', 'up/down: scroll'],
);
my $HELP_TWO = 10;    # lines of a window in which two may be of the help

sub new {
  my ($class) = @_;
  return bless { page => 'processes', sort => 0, reverse => 0, row => 0, top => 0, left => 1, rows => [], seen => {}, waits => {}, taken => 0, deadlocks => [] }, $class;
}

# What to ask for.
sub parts {
  my ($self) = @_;
  return ('process', 'mappings', 'hot') if $self->{page} eq 'mappings';
  return 'process' if $self->{page} eq 'processes' && $self->{taken} % $each_for_deadlocks;
  return qw(process threads locks barriers);
}

# ---- Answers -----------------------------------------------------------------------------------

sub take {
  my ($self, $all) = @_;
  $self->{all} = $all;
  delete @$self{qw(silence turned)};
  my %seen;
  # Until threads are asked for again, what was found is shown.
  $self->{waits} = { map { ($_->{member} => $_->{threads} ? _most($_->{threads}) : $self->{waits}{ $_->{member} }) } @{ $all->{members} } };
  my @rows = map { $self->_row($_, \%seen) } @{ $all->{members} };
  $self->{seen} = \%seen;
  $self->{rows} = \@rows;
  $self->{taken}++;
  $self->{deadlocks} = [DMI::LookText::deadlock_lines(DMI::Waits->new($all), 'enter')] if grep { $_->{threads} } @{ $all->{members} };
  $self->_sort;
  return;
}

# For what most of these threads wait: { waits => how many, waits_for => what }.  One that waits for a notice, as
# DMI_main does in most programs, is told of only if no other waits.
sub _most {
  my ($threads) = @_;
  my %num;
  $num{ $_->{waits} }++ for grep { defined $_->{waits} } @$threads;
  my ($most) = sort { ($a eq 'poll') <=> ($b eq 'poll') || $num{$b} <=> $num{$a} || $a cmp $b } keys %num;
  return { waits => defined $most ? $num{$most} : 0, waits_for => $most // 'nothing' };
}

# Nothing has come for so many seconds.
sub silent { my ($self, $seconds) = @_; $self->{silence} = $seconds; return }

# Rates are those since the answer before, at first since the process began.
sub _row {
  my ($self, $member, $seen) = @_;
  my $now = $member->{process_now};
  my %row = (uid => $member->{member}, map { $_ => $member->{$_} } qw(process host tag pid cores silent));
  $row{state} = $member->{silent} && !$now ? 'SILENT' : $member->{state};
  $row{state} .= ', first' if $member->{coordinator} && @{ $self->{all}{members} } > 1;
  return \%row unless $now && ref $now->{pool};
  %row = (%row, %{ $self->{waits}{ $member->{member} } // {} });
  $row{life} = $now->{now} - $now->{since};
  $row{$_} = $now->{$_} for qw(cores machine_cores threads);
  $row{$_} = $now->{pool}{$_} for qw(used limit copies spilled);
  my $was = $self->{seen}{ $member->{member} };
  my $seconds = $was ? $now->{now} - $was->{now} : $row{life};
  if ($was && $seconds <= 0) { @row{qw(in out faults)} = @{ $was->{rates} } }
  elsif ($seconds > 0) {
    my $rate = sub { my $more = $now->{ $_[0] } - ($was ? $was->{ $_[0] } : 0); return $more > 0 ? $more / $seconds : 0 };
    @row{qw(in out faults)} = map { $rate->($_) } qw(bytes_in bytes_out faults);
  }
  $seen->{ $member->{member} } = { rates => [@row{qw(in out faults)}], map { $_ => $now->{$_} } qw(now bytes_in bytes_out faults) };
  return \%row;
}

sub _sort {
  my ($self) = @_;
  my $by = $columns[$self->{sort}][2];
  my @rows = sort {
    my ($x, $y) = ($by->($a), $by->($b));
    ($x =~ /^-?[\d.]+(?:e[-+]?\d+)?\z/ && $y =~ /^-?[\d.]+(?:e[-+]?\d+)?\z/ ? $x <=> $y : $x cmp $y) || $a->{process} <=> $b->{process}
  } @{ $self->{rows} };
  @rows = reverse @rows if $self->{reverse};
  $self->{rows} = \@rows;
  # The process that was chosen stays so, wherever it is now.
  my ($row) = grep { $rows[$_]{uid} == ($self->{chosen} // $rows[0]{uid}) } 0 .. $#rows;
  $self->_choose($row // $self->{row}) if defined $row || $self->{page} ne 'threads';
  return;
}

sub _choose {
  my ($self, $row) = @_;
  my $last = $#{ $self->{rows} };
  $row = $last if $row > $last;
  $row = 0 if $row < 0;
  $self->{row} = $row;
  $self->{chosen} = $self->{rows}[$row]{uid} if $last >= 0;
  return;
}

# ---- Keys --------------------------------------------------------------------------------------

my %moves = (up => -1, k => -1, down => 1, j => 1, page_up => -10, page_down => 10, home => -1e9, end => 1e9);

sub key {
  my ($self, $key) = @_;
  return 'end' if $key eq 'q';
  if (my $move = $moves{$key}) {
    if ($self->{page} eq 'processes') { $self->_choose($self->{row} + $move) }
    else { $self->{top} += $move }    # `lines` knows where the end is
    return 'draw';
  }
  return $self->_page('processes') if $key =~ /^(?:b|escape|backspace)\z/ && $self->{page} ne 'processes';
  return $self->_page('mappings') if $key eq 'm' && $self->{page} ne 'mappings';
  return '' if $self->{page} ne 'processes';
  return $self->_page('threads') if $key eq 'enter' && defined $self->{chosen};
  if ($key =~ /^(?:left|right)\z/) {
    $self->{left} += $key eq 'left' ? -1 : 1;    # `lines` knows where the end is
    return 'draw';
  }
  if ($key eq 'r') { $self->{reverse} = !$self->{reverse} }
  elsif ($key =~ /^[<>]\z/) {
    $self->{sort} = ($self->{sort} + ($key eq '>' ? 1 : -1)) % @columns;
    $self->{show} = $self->{sort};    # it is to be seen
  }
  else { return '' }
  $self->_sort;
  return 'draw';
}

sub _page {
  my ($self, $page) = @_;
  $self->{page} = $page;
  $self->{top} = 0;
  $self->{turned} = 1;    # until there are answers for it
  return 'ask';
}

# ---- Lines -------------------------------------------------------------------------------------

# Not more than fit on the screen.
sub lines {
  my ($self, $height, $width) = @_;
  return () if $height < 1 || $width < 1;
  my @head = $self->_head;
  my @lines = map { my $style = $_->[1]; map { [$_, $style] } DMI::Columns::fold($_->[0], $width) } @head;
  @lines = @head if @lines > $height / 2;    # rather cut than nothing else
  my @help = _help($self->{page}, $width, $height < $HELP_TWO ? 1 : 2);
  my $room = $height - @lines - @help;
  push @lines, $self->{page} eq 'processes' ? $self->_table($room, $width) : $self->_text($room, $width) if $room > 0;
  push @lines, ['', 'plain'] while @lines < $height - @help;
  splice @lines, $height - @help;
  push @lines, map { [$_, 'head'] } @help;
  return map { [_fit($_->[0], $width), $_->[1]] } @lines;
}

# What keys do, in so many lines at most: what does not fit is left out, and nothing is cut.
sub _help {
  my ($page, $width, $most) = @_;
  my ($line, @items) = @{ $help{$page} };
  my @lines = ($line);
  for my $item (@items) {
    if (length("$lines[-1]  $item") <= $width) { $lines[-1] .= "  $item" }
    elsif (@lines == $most || length $item > $width) { last }
    else { push @lines, $item }
  }
  return @lines;
}

# Any text, of other machines as well, in so many columns.
sub _fit {
  my ($line, $width) = @_;
  return sprintf '%-*s', $width, substr $line =~ s/([^\x20-\x7e])/'?' x DMI::Columns::wide($1)/ger, 0, $width;
}

sub _head {
  my ($self) = @_;
  return ['asking ...', 'plain'] if !$self->{all};
  my @rows = @{ $self->{rows} };
  my $line = DMI::LookText::sums({ traffic => 1 }, @rows);
  my @deadlocks = $self->{page} eq 'processes' ? map { [$_, 'alarm'] } @{ $self->{deadlocks} } : ();
  my $program = DMI::LookText::heading($self->{all}) =~ s/\n//r;
  my @sums = ($program ne '' ? [$program, 'plain'] : (), [$line, 'plain']);
  return (@sums, ['no answer for ' . DMI::LookText::duration($self->{silence}) . ': the process that is asked may be stopped, or busy', 'alarm'], @deadlocks)
    if defined $self->{silence};
  return (@sums, @deadlocks);
}

# From which column on those are shown that are not always: as asked for, but not further than needed to see the
# last one; and so that the column of `show` is there.
sub _left {
  my ($self, $width, @wide) = @_;
  my $fits = sub { my ($from, $to) = @_; return _fits($width, \@wide, 0, $from .. $to) };
  my $most = $#wide;
  $most-- while $most > 1 && $fits->($most - 1, $#wide);
  my $left = $self->{left};
  my $show = delete $self->{show};
  if ($show) {
    $left = $show if $left > $show;
    $left++ while $left < $show && !$fits->($left, $show);
  }
  $left = $most if $left > $most;
  return $left < 1 ? 1 : $left;
}

# Is there room for these columns, and for the mark if there are more?
sub _fits { my ($width, $wide, @at) = @_; return DMI::Columns::needs($wide, @at) + ($at[-1] < $#$wide ? 2 : 0) <= $width }

# The columns that fit into the window, whole; if not even one does, that one.
sub _shown {
  my ($width, $left, @wide) = @_;
  my @shown = (0);
  for my $at ($left .. $#wide) {
    last if !_fits($width, \@wide, @shown, $at);
    push @shown, $at;
  }
  return @shown > 1 ? @shown : (0, $left);
}

# The part of a list that shows the chosen line.
sub _table {
  my ($self, $room, $width) = @_;
  return () if !$self->{all};
  my $mark = $self->{reverse} ? '^' : 'v';
  my @titles = map { (ref $columns[$_][0] ? $columns[$_][0]->($self) : $columns[$_][0]) . ($_ == $self->{sort} ? " $mark" : '') } 0 .. $#columns;
  my @cells = (\@titles, map { my $row = $_; [map { $_->[1]->($row) } @columns] } @{ $self->{rows} });
  my @wide = DMI::Columns::widths(@cells);
  $self->{left} = $self->_left($width, @wide);
  my @at = _shown($width, $self->{left}, @wide);
  my ($head, @lines) = split /\n/, DMI::Columns::table(map { [@$_[@at]] } @cells);
  $head = sprintf '%-*s >', DMI::Columns::needs(\@wide, @at), $head if $at[-1] < $#columns;    # there are more
  my $shown = $room - 1;
  $self->{top} = $self->{row} if $self->{top} > $self->{row};
  $self->{top} = $self->{row} - $shown + 1 if $self->{row} >= $self->{top} + $shown;
  $self->{top} = 0 if $self->{top} < 0;
  my @styled = map { [$lines[$_], $_ == $self->{row} ? 'chosen' : $self->{rows}[$_]{state} =~ /^SILENT/ ? 'alarm' : 'plain'] } 0 .. $#lines;
  my $end = $self->{top} + $shown - 1;
  return ([$head, 'head'], @styled[$self->{top} .. ($end > $#styled ? $#styled : $end)]);
}

# Text that can be scrolled: the threads of the chosen process, or the mappings.
sub _text {
  my ($self, $room, $width) = @_;
  my @lines;
  if ($self->{page} eq 'mappings') { @lines = $self->_mappings($width) }
  else { @lines = $self->_threads }
  my @folded = map { my $style = $_->[1]; map { [$_, $style] } DMI::Columns::fold($_->[0], $width) } @lines;
  my $most = @folded - $room;
  $self->{top} = $most if $self->{top} > $most;
  $self->{top} = 0 if $self->{top} < 0;
  my $end = $self->{top} + $room - 1;
  return @folded[$self->{top} .. ($end > $#folded ? $#folded : $end)];
}

sub _mappings {
  my ($self, $width) = @_;
  my $all = $self->{all};
  return ['asking ...', 'plain'] if !$all || $self->{turned};
  my $silent = DMI::LookText::silent($all, grep { $_->{silent} } @{ $all->{members} });
  my $known = DMI::LookText::mappings($all, $width) . DMI::LookText::hottest($all, $width) || ($silent ? '' : 'no mappings');
  return (map({ [$_, 'plain'] } split /\n/, $known =~ s/^\n//r), map { [$_, 'alarm'] } grep { $_ ne '' } split /\n/, $silent);
}

sub _threads {
  my ($self) = @_;
  my $waits = DMI::Waits->new($self->{all});
  my ($member) = grep { $_->{member} == $self->{chosen} } $waits->members;
  return ['this process is no member any more', 'alarm'] if !$member;
  return ['asking ...', 'plain'] if !$member->{threads} && !$member->{silent};
  my @deadlocks = split /\n/, DMI::LookText::deadlocks($waits);
  shift @deadlocks;    # an empty line
  return (map({ [$_, 'alarm'] } @deadlocks), map { [$_, 'plain'] } split /\n/, DMI::LookText::process($waits, $member));
}

1;
