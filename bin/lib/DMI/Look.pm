# Look.pm - asks the processes of a running program what they are doing (docs/seeing.md).  One process
# of the program is asked, by a program of DMI's own that knows how (lib/node/viewer.c); it passes
# questions on to the others.
package DMI::Look;

use strict;
use warnings;
use DMI::Answer ();
use DMI::Json ();
use JSON::PP ();
use POSIX ();

# enum dmi_see_what of lib/msg/msg.h
my %what = (members => 1, process => 2, mappings => 3, threads => 4, locks => 5, barriers => 6,
  page => 7, lock => 8, barrier => 9, cond => 10, hot => 11, waits => 12, peers => 13, profile => 14);
my $AT_ONCE = 8;      # questions without an answer: WINDOW of lib/node/see.c
my $PATIENCE = 15;    # seconds in which something must come of the process that is asked
my $PIECES = 4096;    # most of an answer: a faulty member may never come to its end
my $HOTTEST = 10;     # pages that are told of
my $HOPS = 8;         # members that are asked for the owner of a page, one after the other

# command => [...]: what to start.  err => a handle for what it has to say (default: our stderr).  wait =>
# called with a handle, returns as soon as that can be read, and may die (default: dies when nothing
# comes).  ended => called when that program has ended, dies (default: we end, too).
sub new {
  my ($class, %opt) = @_;
  pipe my $in, my $questions or die "no pipe: $!\n";
  pipe my $answers, my $out or die "no pipe: $!\n";
  my $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    # A key that comes on stdin (--key-fd 0) must not be taken for the questions.
    $ENV{DMI_KEY_FD} = POSIX::dup(0) if ($ENV{DMI_KEY_FD} // '') eq '0';
    open STDIN, '<&', $in or POSIX::_exit(126);
    open STDOUT, '>&', $out or POSIX::_exit(126);
    if ($opt{err}) { open STDERR, '>&', $opt{err} or POSIX::_exit(126) }
    close $_ for $questions, $answers, $in, $out;
    no warnings 'exec';
    exec { $opt{command}[0] } @{ $opt{command} };
    print STDERR "dmirun: cannot run $opt{command}[0]: $!\n";
    POSIX::_exit(127);
  }
  close $_ for $in, $out;
  return bless { pid => $pid, questions => $questions, answers => $answers, buffer => '', number => 0,
    waiting => {}, later => [], silent => {}, program => {}, wait => $opt{wait} // \&_wait, ended => $opt{ended} // sub { exit 1 } }, $class;
}

# Asks a member (0: the one that we are connected with); `then` gets its lines, as hashes, or undef if
# it gives no answer.
sub ask {
  my ($self, $what, $of, $addr, $then) = @_;
  $self->_piece({ what => $what, of => $of, addr => $addr, at => 0, then => $then, lines => [] });
}

sub _piece {
  my ($self, $question) = @_;
  push @{ $self->{later} }, $question;
  $self->_send;
}

sub _send {
  my ($self) = @_;
  while (@{ $self->{later} } && keys %{ $self->{waiting} } < $AT_ONCE) {
    my $question = shift @{ $self->{later} };
    if ($self->{silent}{ $question->{of} }) {
      $question->{then}->(undef);
      next;
    }
    $self->{waiting}{ ++$self->{number} } = $question;
    my $line = join(' ', $what{ $question->{what} }, $question->{of}, $question->{at},
      $question->{addr} // 0) . "\n";
    syswrite $self->{questions}, $line;
  }
}

# Until all questions are answered.  Dies if the process that is asked ends, or does not answer.
sub run {
  my ($self) = @_;
  while (keys %{ $self->{waiting} }) {
    if ($self->_take) {
      $self->_send;
      next;
    }
    $self->{wait}->($self->{answers});
    my $count = sysread $self->{answers}, $self->{buffer}, 65536, length $self->{buffer};
    $self->_ended if !$count;
  }
}

# Takes an answer out of what has come; false: none is complete.
sub _take {
  my ($self) = @_;
  return 0 unless $self->{buffer} =~ /\A(\d+) (\d+) (\d+) (\d+)\n/ && length($self->{buffer}) - $+[0] >= $4;
  my ($number, $how, $next, $length, $begin) = ($1, $2, $3, $4, $+[0]);
  my $text = substr $self->{buffer}, $begin, $length;
  substr $self->{buffer}, 0, $begin + $length, '';
  $self->{farewell} = { left => $how, status => $next } if !$number;
  $self->_answered(delete $self->{waiting}{$number}, $how, $next, $text);
  return 1;
}

sub _wait {
  my ($handle) = @_;
  vec(my $bits = '', fileno $handle, 1) = 1;
  die "the process that was asked has not answered for $PATIENCE s: it may be stopped, or busy\n"
    if !select $bits, undef, undef, $PATIENCE;
}

sub pid { return $_[0]{pid} }

# How the process that was asked has ended in order: { left => it has left the program, which goes on; status => of
# the program }.  undef: it has not said so.  To be asked when that process has ended.
sub farewell {
  my ($self) = @_;
  while (!$self->{farewell}) {
    next if $self->_take;
    vec(my $bits = '', fileno $self->{answers}, 1) = 1;
    last if !select($bits, undef, undef, $PATIENCE) || !sysread $self->{answers}, $self->{buffer}, 65536, length $self->{buffer};
  }
  return $self->{farewell};
}

# The other program has said why.
sub _ended {
  my ($self) = @_;
  $self->finish;
  $self->{ended}->();
}

sub _answered {
  my ($self, $question, $how, $next, $text) = @_;
  return if !$question;
  if ($how) {
    $self->{silent}{ $question->{of} } = 1 if $how == 1;
    return $question->{then}->(undef);
  }
  for my $line (split /\n/, $text) {
    my $hash = eval { DMI::Json::decode($line) };
    my $taken = DMI::Answer::taken($question->{what}, $hash, !@{ $question->{lines} }) // next;
    push @{ $question->{lines} }, $taken;
  }
  if ($next eq '0') {
    # Of a process that tells nothing of itself, nothing is known.
    my $told = $question->{what} ne 'process' || @{ $question->{lines} };
    return $question->{then}->($told ? $question->{lines} : undef);
  }
  if (++$question->{pieces} == $PIECES) {
    $self->{silent}{ $question->{of} } = 1;
    return $question->{then}->(undef);
  }
  $question->{at} = $next;
  $self->_piece($question);
}

sub finish {
  my ($self) = @_;
  close $_ for @$self{qw(questions answers)};
  waitpid $self->{pid}, 0;
}

# ---- All of it ---------------------------------------------------------------------------------

# { members => [...], mappings => [...], objects => { "lock 0x..." => ... }, program => 'prog args', asked_at => 'host:port' },
# see docs/seeing.md.
# `parts`: which lists each member is asked for.
sub all {
  my ($self, @parts) = @_;
  my %all = (members => [], mappings => [], objects => {}, time => time);
  $self->{silent} = {};    # a silent process of an earlier look may answer now
  my %there;
  $self->ask(members => 0, 0, sub { $all{members} = [grep { !$there{ $_->{member} }++ } @{ $_[0] // [] }] });
  $self->run;
  # The first question is answered at once, so a silent process is known before it is asked for what
  # may take long.
  my ($now) = grep { $_ eq 'process' } @parts;
  for my $part ('process', grep { $_ ne 'process' } @parts) {
    for my $member (@{ $all{members} }) {
      $self->ask($part => $member->{member}, 0, sub {
        my ($lines) = @_;
        return $member->{silent} = JSON::PP::true if !$lines;
        if ($part eq 'process') {    # who else has told of its state knows less than itself
          $self->{program}{ $member->{member} } = $lines->[0]{program};
          $member->{state} = $lines->[0]{state};
        }
        if ($part eq 'hot') { ($member->{hot_of}, @{ $member->{hot} }) = @$lines }
        elsif ($part ne 'process') { $member->{$part} = $lines }
        elsif ($now) { $member->{process_now} = $lines->[0] }
      });
    }
    $self->run if $part eq 'process';
  }
  _name_program($self, \%all);
  $self->run;
  $all{mappings} = _mappings($all{members});
  $self->_objects(\%all);
  $all{hottest} = [hot_pages(\%all)];
  $self->_hot_pages(\%all);
  return \%all;
}

# What program this is, and where it was asked: who looks may have meant another one.  Those that join know no
# arguments.
sub _name_program {
  my ($self, $all) = @_;
  my @told = grep { defined } map { $self->{program}{ $_->{member} } } sort { $a->{process} <=> $b->{process} } @{ $all->{members} };
  $all->{program} = $told[0] if @told;
  my ($asked) = grep { $_->{asked} && defined $_->{port} } @{ $all->{members} } or return;
  $all->{asked_at} = ($asked->{host} =~ /:/ ? "[$asked->{host}]" : $asked->{host}) . ":$asked->{port}";
  return;
}

# The mappings of all, with who has how many pages.  A long one comes in several lines.
sub _mappings {
  my ($members) = @_;
  my %all;
  for my $member (@$members) {
    for my $line (@{ $member->{mappings} // [] }) {
      my $mapping = $all{ $line->{mapping} } //= { map { exists $line->{$_} ? ($_ => $line->{$_}) : () }
          qw(mapping page_size pages home allocator) };
      # Only the process that has made it knows by which call.
      @$mapping{qw(call place)} = @$line{qw(call place)} if !defined $mapping->{call} && 2 == grep { defined } @$line{qw(call place)};
      my $has = $mapping->{of}{ $member->{member} } //= { owned => 0, copies => 0, faults => 0 };
      $has->{$_} += $line->{$_} for qw(owned copies);
      $has->{faults} += $line->{faults} // 0;
    }
  }
  return [map { $all{$_} } sort { length $a <=> length $b || $a cmp $b } keys %all];
}

# Asks the owners about what threads wait for.  An owner is found by following hints, as requests do.  For threads
# that wait for the same page it is asked once: a page that moves would be told to be in two places.
sub _objects {
  my ($self, $all) = @_;
  my (%asked, %addr);
  for my $member (@{ $all->{members} }) {
    for my $thread (grep { defined $_->{addr} } @{ $member->{threads} // [] }) {
      my $kind = $what{ $thread->{waits} } ? $thread->{waits} : 'page';
      my $page = $kind eq 'page' && 2 == grep({ defined } @$thread{qw(mapping page)}) ? "$thread->{mapping} $thread->{page}" : $thread->{addr};
      my $key = "$kind $thread->{addr}";
      $addr{$key} = $thread->{addr};
      my $object = $all->{objects}{$key} //= $asked{"$kind $page"} //= { kind => $kind, addr => $thread->{addr} };
      next if $object->{asked}++;
      my $owner = ($thread->{role} // '') eq 'owner' ? $member->{member} : $thread->{hint};
      $self->_follow($object, $owner || $member->{member}, $HOPS);
    }
  }
  $self->run;
  # Now that all is answered each of them has its own address.
  $all->{objects}{$_} = { %{ $all->{objects}{$_} }, addr => $addr{$_} } for keys %addr;
  return;
}

# How often a second each process asks others for a page, now: a part of all its faults, of which the last
# thousands were looked at.  The hottest pages, each with `mapping`, `page`, `rate`, `by`: processes with their
# rates, and `touched`: which bytes each of them wrote and read; if the mapping is there still, also the `addr` of
# the page, and its `home`.  Pure.
sub hot_pages {
  my ($all) = @_;
  my (%page, %there);
  $there{ $_->{mapping} } = $_ for @{ $all->{mappings} };
  for my $member (@{ $all->{members} }) {
    my ($lately, $now) = (($member->{hot_of} // {})->{faults}, ($member->{process_now} // {})->{faults_now});
    next if !$lately || !$now;
    for my $hot (@{ $member->{hot} // [] }) {
      my $rate = $hot->{surely} / $lately * $now;
      next if $rate < 0.5;
      my $page = $page{"$hot->{mapping} $hot->{page}"} //= { mapping => $hot->{mapping}, page => $hot->{page}, rate => 0, by => [], touched => {} };
      $page->{rate} += $rate;
      push @{ $page->{by} }, { process => $member->{process}, rate => $rate };
      $page->{touched}{ $member->{process} } = { map { _bytes($_, $hot->{$_}) } qw(wrote read) };
    }
  }
  my @hottest = sort { $b->{rate} <=> $a->{rate} || $a->{page} <=> $b->{page} } values %page;
  splice @hottest, $HOTTEST if @hottest > $HOTTEST;
  for my $page (grep { $there{ $_->{mapping} } } @hottest) {
    no warnings qw(portable numeric);    # addresses have 63 bits
    my $mapping = $there{ $page->{mapping} };
    $page->{addr} = sprintf '0x%x', hex($page->{mapping}) + $page->{page} * $mapping->{page_size};
    $page->{home} = $mapping->{home};
  }
  return @hottest;
}

# (wrote => [first, last]): bytes of a page that a process has touched; nothing if that is not told.
sub _bytes {
  my ($what, $bytes) = @_;
  return () if ref $bytes ne 'ARRAY' || grep { !/^\d+\z/ } @$bytes[0, 1];
  return ($what => [$bytes->[0], $bytes->[1] - 1]);
}

# Asks the owners of the pages that are asked for most often.
sub _hot_pages {
  my ($self, $all) = @_;
  for my $page (grep { defined $_->{addr} } @{ $all->{hottest} }) {
    my $object = $all->{objects}{"page $page->{addr}"} //= { kind => 'page', addr => $page->{addr} };
    $self->_follow($object, $page->{home}, $HOPS) if !$object->{asked}++;
  }
  $self->run;
}

sub _follow {
  my ($self, $object, $uid, $hops) = @_;
  $object->{owner} = $uid;
  no warnings 'portable';    # addresses have 63 bits
  $self->ask($object->{kind} => $uid, hex $object->{addr}, sub {
    my ($lines) = @_;
    return $object->{silent} = JSON::PP::true if !$lines;
    my ($head, @queue) = @$lines;
    return delete $object->{owner} if !$head;
    if (($head->{role} // '') ne 'owner' && $head->{hint} && $head->{hint} != $uid && $hops) {
      return $self->_follow($object, $head->{hint}, $hops - 1);
    }
    $object->{$_} = $head->{$_} for grep { exists $head->{$_} } qw(role holder arrived needed acks);
    $object->{queue} = \@queue;
  });
}

1;
