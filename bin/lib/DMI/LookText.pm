# LookText.pm - what can be seen of a running program, as text for people.  Pure: DMI::Waits has the
# meaning, this the words.  `width`: columns of the window, for which long lines and tables are laid out; undef: each
# line stays whole.
package DMI::LookText;

use strict;
use warnings;
use DMI::Columns ();
use DMI::Waits ();

my $MOST_NAMED = 10;    # threads in a list of those that may be meant
my $NO_ANSWER = 'gives no answer: it is stopped, its DMI_function takes long, or its machine is silent';
my $UNLIMITED = 1e12;    # pages: that of the allocator has all addresses that there are

# Text of other machines, without control characters.
sub plain { return ($_[0] // '') =~ s/[^\x20-\x7e\x{a0}-\x{10ffff}]/?/gr }

# The same for all that is printed: whatever a faulty process has said.
sub clean { return $_[0] =~ s/[^\n\x20-\x7e\x{a0}-\x{10ffff}]/?/gr }

# As DMI::Waits says it, and the title of a column of such.
sub host_title { return (grep { defined $_->{tag} } @_) ? 'host, tag' : 'host' }
sub host { return plain(DMI::Waits::host($_[0])) }

sub pid { return plain($_[0]{pid} // '?') }

# "process 1 (host, tag, pid 4711)"
sub named {
  my ($member) = @_;
  return 'process ' . plain($member->{process}) . ' (' . host($member) . (defined $member->{pid} ? ', pid ' . pid($member) : '') . ')';
}

# What is shown decides, which is rounded: no "1024 KiB", no "1000 ms".
sub bytes {
  my ($count) = @_;
  for my $unit (qw(B KiB MiB GiB TiB)) {
    my $shown = sprintf $unit eq 'B' ? '%.0f' : '%.1f', $count;
    $shown = sprintf '%.0f', $count if $shown >= 100;
    return "$shown $unit" if $shown < 1024 || $unit eq 'TiB';
    $count /= 1024;
  }
}

sub duration {
  my ($seconds) = @_;
  for my $scale ([1e6, 0, 1000, 'us'], [1e3, 1, 100, 'ms'], [1e3, 0, 1000, 'ms'], [1, 1, 100, 's']) {
    my ($times, $digits, $below, $unit) = @$scale;
    my $shown = sprintf '%.*f', $digits, $seconds * $times;
    return "$shown $unit" if $shown < $below;
  }
  return sprintf '%d min', $seconds / 60 if $seconds < 6000;
  return sprintf '%d h', $seconds / 3600;
}

# How long a process is there, which is known in whole seconds.
sub age { my ($seconds) = @_; return $seconds < 100 ? sprintf '%d s', $seconds : duration($seconds) }

# The processors of all machines: processes of one machine may use the same ones, or each its share of them.  So of
# a machine it is the sum over its processes, but no more than it has.
sub cores {
  my (@members) = @_;
  my (%may, %most);
  for my $member (@members) {
    my ($host, $cores) = ($member->{host} // '', $member->{cores} // 0);
    my $has = $member->{machine_cores} // ($member->{process_now} // {})->{machine_cores} // $cores;
    $may{$host} += $cores;
    $most{$host} = $has if $has >= ($most{$host} // 0);
  }
  my $sum = 0;
  $sum += $may{$_} < $most{$_} ? $may{$_} : $most{$_} for keys %may;
  return $sum;
}

# Which program this is; '' if none of its processes says it.
sub heading {
  my ($all) = @_;
  return '' if !defined $all->{program};
  return 'program: ' . plain($all->{program}) . (defined $all->{asked_at} ? ' (asked at ' . plain($all->{asked_at}) . ')' : '') . "\n";
}

# ---- dmirun --status ---------------------------------------------------------------------------

# All processes in one line.  `row`: of each, `used` and the like.
sub sums {
  my ($of, @rows) = @_;
  my $number = sub { my ($count, $one, $more) = @_; return "$count " . ($count == 1 ? $one : $more) };
  my $sum = sub { my ($name) = @_; my $sum = 0; $sum += $_->{$name} // 0 for @rows; return $sum };
  my $silent = grep { $_->{silent} } @rows;
  my $text = join ', ', $number->(scalar @rows, 'process', 'processes') . ($silent ? " ($silent silent)" : ''), $number->(cores(@rows), 'core', 'cores'), $number->($sum->('threads'), 'thread', 'threads');
  return "$text; pools: " . bytes($sum->('used')) . ' of ' . bytes($sum->('limit')) . '; '
    . join ', ', ($of->{traffic} ? 'traffic ' . bytes($sum->('in')) . '/s' : ()), sprintf '%.0f faults/s', $sum->('faults');
}

sub _sums_of {
  my (@members) = @_;
  return sums({}, map { my $now = $_->{process_now} // {}; { silent => $_->{silent}, host => $_->{host}, cores => $now->{cores} // $_->{cores}, machine_cores => $now->{machine_cores},
    threads => $now->{threads}, faults => $now->{faults_now}, map { $_ => ($now->{pool} // {})->{$_} } qw(used limit) } } @members);
}

# `deadlocks`: of deadlock_lines.
sub status {
  my ($all, $width, @deadlocks) = @_;
  my (@rows, @silent, @stay);
  for my $member (@{ $all->{members} }) {
    my $self = $member->{process_now};
    push @stay, "process $member->{process} is to leave: " . plain($self->{stays}) . "\n" if $self && defined $self->{stays};
    my $state = $member->{silent} && !$self ? 'SILENT' : $member->{state};
    $state .= ', first' if $member->{coordinator} && @{ $all->{members} } > 1;
    push @silent, $member if $member->{silent};
    my @row = ($member->{process}, host($member), $state);
    if ($self) {
      my $pool = $self->{pool};
      push @row, pid($member), age($self->{now} - $self->{since}), @$self{qw(cores threads)},
        (map { bytes($_) } @$pool{qw(used limit copies spilled)}),
        defined $self->{shared} ? "$self->{shared} of $self->{connections}" : '?', bytes($self->{bytes_in}), bytes($self->{bytes_out}), $self->{faults}, sprintf '%.0f', $self->{faults_now} // 0;
    }
    else {
      push @row, pid($member), '?', $member->{cores}, ('?') x 9;
    }
    push @rows, \@row;
  }
  my @columns = ((map { [$_] } 'process', host_title(@{ $all->{members} }), qw(state pid up cores threads)), ['pool used', 'part'], ['of'], ['copies'], ['spilled'], ['by shm', 'part'], map { [$_] } qw(in out faults faults/s));
  my $sums = join '', map { "$_\n" } @rows ? (_sums_of(@{ $all->{members} }), @deadlocks, '') : ();
  return clean(DMI::Columns::folded($sums, $width) . DMI::Columns::fitted($width, \@columns, @rows) . DMI::Columns::folded(join('', @stay), $width) . mappings($all, $width) . hottest($all, $width)
      . DMI::Columns::folded(silent($all, @silent), $width));
}

sub mappings {
  my ($all, $width) = @_;
  my %name = map { $_->{member} => $_->{process} } @{ $all->{members} };
  my @rows;
  for my $mapping (@{ $all->{mappings} }) {
    my @who = sort { $a <=> $b } keys %{ $mapping->{of} };
    my ($owned, $copies, $faults) = map {
      my $what = $_;
      join ', ', map { ($name{$_} // '?') . ": $mapping->{of}{$_}{$what}" } grep { $mapping->{of}{$_}{$what} } @who;
    } qw(owned copies faults);
    # The home owns pages that nobody has touched; it has no records of them.
    push @rows, [plain($mapping->{mapping}), bytes($mapping->{page_size}), $mapping->{pages} < $UNLIMITED ? $mapping->{pages} : 'no limit', map { $_ || '-' } $owned, $copies, $faults, made($mapping)]
      unless $mapping->{allocator} && !$owned && !$copies && !$faults;
  }
  my @columns = (['mapping'], ['page size'], ['pages'], map { [$_, 'long'] } 'owned by process', 'copies in process', 'faults of process', 'made by');
  return @rows ? "\n" . DMI::Columns::fitted($width, \@columns, @rows) : '';
}

# The call that has made a mapping, "DMI_mmap at prog.c:42 (DMI_main)"; '' if the process that has called it
# is not there any more, or gives no answer.
sub made {
  my ($mapping) = @_;
  return 'DMI_malloc' if $mapping->{allocator};
  return defined $mapping->{call} ? call($mapping) : '';
}

sub _apart {
  my ($one, $other) = @_;
  return !$one || !$other || $one->[1] < $other->[0] || $other->[1] < $one->[0];
}

# In words what processes touch in a hot page, if no process needs the bytes that another one writes there; else ''.
# Only what they asked for is known.
sub false_sharing {
  my ($page) = @_;
  my $touched = $page->{touched};
  my @who = sort { $a <=> $b } keys %$touched;
  return '' if @who < 2 || !grep { $_->{wrote} } values %$touched;
  for my $writer (@who) {
    for my $other (grep { $_ != $writer } @who) {
      return '' if grep { !_apart($touched->{$writer}{wrote}, $touched->{$other}{$_}) } qw(wrote read);
    }
  }
  my @parts = map {
    my $process = $_;
    map { my ($what, $bytes) = ($_, $touched->{$process}{$_}); $bytes ? plain("process $process ") . ($what eq 'wrote' ? 'writes' : 'reads') . " bytes $bytes->[0] to $bytes->[1]" : () } qw(wrote read)
  } @who;
  return '' if @parts < 2;    # of the others nothing is told
  splice @parts, $MOST_NAMED, @parts, '...' if @parts > $MOST_NAMED;
  return 'false sharing? ' . ucfirst(join(', ', @parts)) . '. Put what each process uses into a page of its own';
}

# "3, 5 to 8, 10"
sub _ranges {
  my @ranges;
  for my $number (sort { $a <=> $b } @_) {
    if (@ranges && $number == $ranges[-1][1] + 1) { $ranges[-1][1] = $number }
    else { push @ranges, [$number, $number] }
  }
  return join ', ', map { my ($from, $to) = @$_; $from == $to ? $from : $to == $from + 1 ? "$from, $to" : "$from to $to" } @ranges;
}

# A line for each set of hot pages of one mapping that look like false sharing in the same way.
sub sharing {
  my ($all) = @_;
  my (%pages, @texts);
  for my $page (@{ $all->{hottest} // [] }) {
    my $text = false_sharing($page) or next;
    $text = ' of the mapping at ' . plain($page->{mapping}) . ": $text";
    push @texts, $text if !$pages{$text};
    push @{ $pages{$text} }, $page->{page};
  }
  return map { (@{ $pages{$_} } == 1 ? 'page ' : 'pages ') . plain(_ranges(@{ $pages{$_} })) . $_ } @texts;
}

sub hottest {
  my ($all, $width) = @_;
  my @hottest = @{ $all->{hottest} // [] } or return '';
  my %there = map { $_->{mapping} => $_ } @{ $all->{mappings} };
  my $name = sub { my ($mapping) = @_; return plain($mapping) . ($there{$mapping} ? '' : ' (not there any more)') };
  my @columns = (['page'], ['of mapping'], ['faults/s'], ['by process', 'long'], ['owner'], ['mapping made by', 'long']);
  my @rows = map { [plain($_->{page}), $name->($_->{mapping}), sprintf('%.0f', $_->{rate}), asked_by($_), owner_of($all, $_), made($there{ $_->{mapping} } // {}) || '-'] } @hottest;
  return "\nhottest pages (others ask for them most often now)\n" . DMI::Columns::fitted($width, \@columns, @rows) . DMI::Columns::folded(join('', map { "\n$_\n" } sharing($all)), $width);
}

# Which processes ask for a hot page, how often a second: "0: 300, 1: 20".
sub asked_by { my ($page) = @_; return join ', ', map { sprintf '%s: %.0f', plain($_->{process}), $_->{rate} } @{ $page->{by} } }

# Which process had a hot page when it was asked; `moving`: none, as the page was on its way.
sub owner_of {
  my ($all, $page) = @_;
  my $object = $all->{objects}{ 'page ' . ($page->{addr} // '') } // {};
  my ($owner) = grep { $_->{member} == ($object->{owner} // 0) } @{ $all->{members} };
  return '?' if !$owner;
  return $object->{silent} ? "$owner->{process}, SILENT" : ($object->{role} // '') eq 'owner' ? $owner->{process} : 'moving';
}

sub silent {
  my ($all, @silent) = @_;
  return join '', map { "\n" . named($_) . " $NO_ANSWER\n" } @silent;
}

# ---- dmirun --threads --------------------------------------------------------------------------

# "DMI_read at prog.c:42 (DMI_main)"
sub call {
  my ($of) = @_;
  return defined $of->{call} ? plain($of->{call}) . ' at ' . plain($of->{place}) : 'no call of DMI yet';
}

sub address {
  my ($thread) = @_;
  my $text = plain($thread->{addr});
  $text .= " (page $thread->{page} of the mapping at " . plain($thread->{mapping}) . ')' if defined $thread->{page};
  return $text;
}

# Of which process an answer is waited for, and whether that answers.
sub owner {
  my ($waits, $thread) = @_;
  my $object = $waits->object($thread);
  my $uid = $object->{owner} // $thread->{hint} or return 'a process that is not known';
  my $text = $waits->process_name($uid);
  return "$text, which gives no answer" if $object->{silent} || ($waits->{member}{$uid} && $waits->{member}{$uid}{silent});
  return $text;
}

sub lock_text {
  my ($waits, $thread) = @_;
  my $held = $waits->holder($thread);
  my $place = $waits->place($thread);
  my $by = !$held ? 'held by nobody that can be seen; its page is of ' . owner($waits, $thread)
    : !$held->{key} ? 'held by a thread of ' . $waits->process_name($held->{member})
    : 'held by ' . ($waits->{thread}{ $held->{key} } ? $waits->thread_name($waits->{thread}{ $held->{key} })
    : 'a thread that has ended, of ' . $waits->process_name($held->{member})) . ', taken by ' . call($held);
  return 'for the lock at ' . address($thread) . ", $by" . ($place ? "; number $place in line" : '');
}

# The threads that could come somewhere, as they do not wait in DMI.
sub elsewhere {
  my ($waits) = @_;
  my @threads = grep { !$_->{waits} && ($_->{who} ne 'other' || defined $_->{call}) } $waits->threads;
  return 'all threads wait in DMI' if !@threads;
  my $more = @threads - $MOST_NAMED;
  splice @threads, $MOST_NAMED if $more > 0;
  return 'threads that do not wait in DMI:' . join('', map { "\n      " . $waits->thread_name($_) . ': ' . doing($_) } @threads)
    . ($more > 0 ? "\n      and $more more" : '');
}

sub barrier_text {
  my ($waits, $thread) = @_;
  my $object = $waits->object($thread);
  my @missing = $waits->missing($thread);
  my @silent = grep { $_->{silent} } $waits->members;
  my $left = $waits->left($thread);
  # Threads that have gone on meanwhile make a count that does not fit the list.
  # After a moment it is no such count: then some of those that are missing are not known.
  my $fits = defined $left && (!@missing || @silent || $left == @missing || ($left > @missing && $thread->{ns} >= $DMI::Waits::MOMENT));
  my $arrived = $fits ? "$object->{arrived} of $object->{needed} have come" : "for $thread->{size} threads";
  my $text = 'at the barrier at ' . address($thread) . ", $arrived";
  return "$text; the barrier is of " . owner($waits, $thread) if $object->{silent};
  my @who = map { $waits->thread_name($_) . ': ' . doing($_) } @missing;
  # Threads of processes that give no answer are not known.
  push @who, map { 'perhaps threads of ' . plain($waits->process_name($_->{member})) . ', which gives no answer' } @silent
    if !defined $left || $left > @missing;
  push @who, 'and ' . ($left - @missing) . ' more, which ' . ($left - @missing == 1 ? 'has' : 'have') . ' not used this barrier yet, or ' . ($left - @missing == 1 ? 'has' : 'have') . ' ended'
    if $fits && @missing && !@silent && $left > @missing;
  return "$text; still missing:" . join '', map { "\n      $_" } @who if @who;
  # Answers are not of one moment: threads that run from one barrier to the next are between two of them.
  return "$text; none that is missing can be seen: the threads may be going from one barrier to the next (look again)" if $thread->{ns} < $DMI::Waits::MOMENT;
  my ($who, $have) = !$fits || $left < 1 ? ('those that are missing', 'have') : $left == 1 ? ('the missing one', 'has') : ("the $left that are missing", 'have');
  return "$text; $who $have not used this barrier before, or $have ended; " . elsewhere($waits);
}

# "rank 2 of process 1 (host)"
sub rank {
  my ($waits, $thread) = @_;
  return 'any rank' if !defined $thread->{rank};
  return "rank $thread->{rank}" . ($thread->{of} ? ' of ' . $waits->process_name($thread->{of}) : '');
}

sub count_text {
  my ($thread, $what) = @_;
  return "$what: $thread->{there} of $thread->{wanted}";
}

my %counted = (
  message => sub { return 'for a message of ' . rank(@_) },
  taken => sub { return 'until ' . rank(@_) . ' has taken a message' },
  ranks => sub { return "for other ranks of its team (it is rank $_[1]{rank})" },
  value => sub { return $_[1]{op} ? 'for the end of a remote function' : 'until calls of remote functions have ended' },
  servers => sub { return 'for processes that run remote functions, ' . count_text($_[1], 'there are') },
  tasks => sub { return 'for tasks of a farm, ' . count_text($_[1], 'done') },
  scale => sub { return "for the $_[1]{wanted} threads of DMI_rescale" },
);

my %simple = (
  status => 'for the end of a call that it has begun with a status',
  coordinator => 'for an answer of the process that orders joins and leaves',
  process => 'for an answer of the process of a thread',
  poll => 'for a notice (a process joins or leaves)',
  suspend => 'until another thread wakes it',
);

sub wait_text {
  my ($waits, $thread) = @_;
  my $what = $thread->{waits};
  return lock_text($waits, $thread) if $what eq 'lock';
  return barrier_text($waits, $thread) if $what eq 'barrier';
  return 'for a signal of the condition at ' . address($thread) if $what eq 'cond';
  return 'until the bytes at ' . address($thread) . ' change' if $what eq 'watch';
  if ($what eq 'thread') {
    my $other = $waits->by_number(@{ $thread->{joins} }{qw(member number)});
    return 'for thread ' . $thread->{joins}{number} . ' of ' . $waits->process_name($thread->{joins}{member})
      . ($other ? ': ' . doing($other) : '');
  }
  return $counted{$what}->($waits, $thread) if $counted{$what};
  return $simple{$what} // 'for something' if $what ne 'page';
  return 'for pages of several addresses' if !defined $thread->{addr};
  return "for $thread->{size} bytes at " . address($thread) . ', ' . page_text($waits, $thread);
}

# Where the page is for which a thread waits.  The owner was asked after the thread: meanwhile the page may have come,
# or gone on.  An access to several pages has no operation of its own; of these the first one is known.
sub page_text {
  my ($waits, $thread) = @_;
  my $object = $waits->object($thread);
  my $copies = $object->{acks} // 0;
  my $until = $copies ? ", which waits until $copies other " . ($copies == 1 ? 'process has given up its copy' : 'processes have given up their copies') : '';
  my $several = !defined $thread->{op};
  my $which = $several ? 'the first page of them ' : '';
  my $is = $several ? 'is owned by ' : 'owned by ';
  return ($several ? "${which}is" : 'which is') . ' on its way from one process to another' if ($object->{role} // 'owner') ne 'owner' && !$object->{silent};
  return $which . $is . owner($waits, $thread) . $until if ($object->{owner} // $thread->{hint} // 0) != $thread->{member};
  my $own = $waits->process_name($thread->{member});
  return "$which$is$own itself$until" if $copies;
  return "$which$is$own itself: it waits for others" if $several;
  return "which has come to $own meanwhile" if ($thread->{role} // '') ne 'owner' || $thread->{ns} < $DMI::Waits::MOMENT;
  return "owned by $own itself, which waits for memory, or until the loss of a process is dealt with";
}

# What a thread does that does not wait in DMI.
sub runs { my ($thread) = @_; return ($thread->{state} // '') eq 'R' ? 'computes' : 'outside of DMI' }

# In a few words.
sub doing {
  my ($thread) = @_;
  my $where = call($thread);
  return "in $where, for " . duration($thread->{ns} / 1e9) if $thread->{waits};
  my $runs = runs($thread);
  return defined $thread->{call} ? "$runs; last call (but for hits): $where" : "$runs; $where";
}

sub threads {
  my ($all, $width) = @_;
  my $waits = DMI::Waits->new($all);
  return DMI::Columns::folded(clean(join("\n", map { process($waits, $_) } $waits->members) . deadlocks($waits)), $width);
}

# Who is missing at a barrier is told for the first one that waits there.
sub wait_once {
  my ($waits, $thread) = @_;
  return wait_text($waits, $thread) if $thread->{waits} ne 'barrier';
  my $first = $waits->{first_at}{ $thread->{addr} } //= $thread;
  return wait_text($waits, $thread) if $first == $thread;
  return 'at the barrier at ' . address($thread) . ', as does ' . $waits->thread_name($first);
}

# Why a process in such a state has none.
my %NO_THREADS = (witness => ': it is a witness', joined => ': the program has not welcomed it yet (DMI_welcome)');

# One process: what its threads do, and the locks that they hold.
sub process {
  my ($waits, $member) = @_;
  my $text = named($member) . "\n";
  return "$text  $NO_ANSWER\n" if $member->{silent};
  my $any;
  for my $thread ($waits->threads($member->{member})) {
    next if $thread->{who} eq 'other' && !defined $thread->{call};
    my $cpu = defined $thread->{cpu} ? " (processor $thread->{cpu})" : '';
    $text .= '  ' . DMI::Waits::short_name($thread) . ' ' . doing($thread) . "$cpu\n";
    $text .= '    waits ' . wait_once($waits, $thread) . "\n" if $thread->{waits};
    $any = 1;
  }
  $text .= '  no threads' . ($NO_THREADS{ $member->{state} // '' } // '') . "\n" if !$any;
  for my $held (@{ $member->{locks} // [] }) {
    my $by = $waits->{thread}{"$member->{member} $held->{thread}"};
    $text .= '  the lock at ' . plain($held->{lock}) . ' is held by ' . ($by ? DMI::Waits::short_name($by) : 'a thread that has ended')
      . ', taken by ' . call($held) . "\n";
  }
  return $text;
}

sub deadlocks {
  my ($waits) = @_;
  my $text = '';
  for my $deadlock ($waits->deadlocks) {
    $text .= "\nDEADLOCK: " . verdict($waits, $deadlock) . "\n";
    $text .= "  $_\n" for in_circle($waits, $deadlock);
  }
  return $text;
}

# What is wrong.
sub verdict {
  my ($waits, $deadlock) = @_;
  my $at = $deadlock->{barrier} // return 'none of these threads can go on';
  my $object = $waits->object($at);
  return 'nobody is left who could come to the barrier at ' . address($at)
    . ": $object->{arrived} of $object->{needed} have come, and all threads wait at barriers or for each other";
}

# The threads of a circle, each with that for which it waits.
sub in_circle {
  my ($waits, $deadlock) = @_;
  return map { $waits->thread_name($_) . ', in ' . call($_) . ', waits ' . wait_text($waits, $_) } @{ $deadlock->{circle} // [] };
}

# A line for each deadlock, of not more than some.  `more`: how to see why.
sub deadlock_lines {
  my ($waits, $more) = @_;
  my @lines = map {
    my ($last, @others) = reverse map { $waits->thread_name($_) } @{ $_->{circle} // [] };
    'DEADLOCK: ' . (!defined $last ? verdict($waits, $_) : @others ? join(', ', reverse @others) . " and $last wait for each other" : "$last waits for itself") . " ($more: why)"
  } $waits->deadlocks;
  splice @lines, 2, @lines, 'DEADLOCK: ' . (@lines - 2) . ' more' if @lines > 3;
  return @lines;
}

1;
