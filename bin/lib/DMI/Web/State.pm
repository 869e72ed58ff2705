# State.pm - what can be seen of a running program, as its page gets it (docs/web.md, "Events").  Pure:
# DMI::Look has gathered it, DMI::Waits has its meaning, DMI::LookText the words.
package DMI::Web::State;

use strict;
use warnings;
use DMI::LookText ();
use DMI::Waits ();

my @pool = qw(limit used peak copies spilled tables);
my @counts = qw(cores threads bytes_in bytes_out faults);

sub _number { return defined $_[0] ? 0 + $_[0] : undef }

sub _member {
  my ($member) = @_;
  my $now = $member->{process_now};
  my %member = (
    member => 0 + $member->{member},
    process => 0 + $member->{process},
    host => DMI::LookText::host($member),
    state => $member->{silent} ? 'silent' : DMI::LookText::plain($member->{state}),
    pid => _number($member->{pid}),
    cores => _number($member->{cores}),
    first => $member->{coordinator} ? 1 : 0,
  );
  return \%member if !$now;
  $member{since} = _number($now->{since});
  $member{now} = _number($now->{now});
  $member{$_} = _number($now->{$_}) for @counts;
  $member{pool} = { map { $_ => _number($now->{pool}{$_}) } @pool };
  return \%member;
}

# Members and their counters.  `seconds`: until this is told again; `losses`: members that were lost, so
# far as is known.
sub members {
  my ($all, $seconds) = @_;
  my ($losses) = sort { $b <=> $a } 0, map { ($_->{process_now} // {})->{losses} // 0 } @{ $all->{members} };
  return { time => 0 + $all->{time}, seconds => 0 + sprintf('%.1f', $seconds), losses => 0 + $losses,
    map({ defined $all->{$_} ? ($_ => DMI::LookText::plain($all->{$_})) : () } qw(program asked_at)),
    cores => 0 + DMI::LookText::cores(@{ $all->{members} }), members => [map { _member($_) } @{ $all->{members} }] };
}

# In one word what a thread does, for the timeline.
sub _state {
  my ($thread) = @_;
  return DMI::LookText::plain($thread->{waits}) if $thread->{waits};
  return ($thread->{state} // '') eq 'R' ? 'computes' : 'outside';
}

sub _thread {
  my ($waits, $thread) = @_;
  my %thread = (
    thread => $thread->{key},
    member => 0 + $thread->{member},
    name => DMI::Waits::short_name($thread),
    state => _state($thread),
    call => DMI::LookText::plain($thread->{call}),
    place => DMI::LookText::plain($thread->{place}),
  );
  $thread{cpu} = 0 + $thread->{cpu} if defined $thread->{cpu};
  if ($thread->{waits}) {
    $thread{ns} = 0 + ($thread->{ns} // 0);
    $thread{waits} = DMI::LookText::wait_once($waits, $thread);    # who is missing at a barrier: once
  }
  return \%thread;
}

sub _mapping {
  my ($mapping) = @_;
  my %of = map {
    my $of = $mapping->{of}{$_};
    $_ => { map { $_ => 0 + $of->{$_} } grep { defined $of->{$_} } qw(owned copies faults) }
  } keys %{ $mapping->{of} };
  return { mapping => DMI::LookText::plain($mapping->{mapping}), page_size => _number($mapping->{page_size}),
    pages => _number($mapping->{pages}), home => _number($mapping->{home}), allocator => $mapping->{allocator} ? 1 : 0, made => DMI::LookText::made($mapping), of => \%of };
}

# A page that others ask for often.
sub _hot {
  my ($all, $hot) = @_;
  return { mapping => DMI::LookText::plain($hot->{mapping}), page => DMI::LookText::plain($hot->{page}),
    rate => 0 + sprintf('%.1f', $hot->{rate}), by => DMI::LookText::asked_by($hot),
    owner => DMI::LookText::plain(DMI::LookText::owner_of($all, $hot)) };
}

# What a process has sent to each other one.
sub _traffic {
  my ($member) = @_;
  return { member => 0 + $member->{member}, out => { map { $_->{member} => 0 + $_->{bytes_out} } @{ $member->{peers} } } };
}

# Threads, deadlocks, mappings, hot pages, and traffic, if that was asked for.
sub threads {
  my ($all, $seconds) = @_;
  my $waits = DMI::Waits->new($all);
  my @threads = grep { $_->{who} ne 'other' || defined $_->{call} } $waits->threads;
  return {
    time => 0 + $all->{time},
    seconds => 0 + sprintf('%.1f', $seconds),
    threads => [map { _thread($waits, $_) } @threads],
    deadlocks => [map { _deadlock($waits, $_) } $waits->deadlocks],
    mappings => [map { _mapping($_) } @{ $all->{mappings} }],
    hot => [map { _hot($all, $_) } @{ $all->{hottest} // [] }],
    sharing => [DMI::LookText::sharing($all)],
    traffic => [map { _traffic($_) } grep { $_->{peers} } @{ $all->{members} }],
  };
}

# Texts of several lines stay so.
sub _deadlock {
  my ($waits, $deadlock) = @_;
  return { why => DMI::LookText::clean(DMI::LookText::verdict($waits, $deadlock)),
    threads => [map { DMI::LookText::clean($_) } DMI::LookText::in_circle($waits, $deadlock)] };
}

1;
