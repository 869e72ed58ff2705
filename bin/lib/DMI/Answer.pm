# Answer.pm - what is taken of a member's answer (docs/seeing.md): a faulty one may say anything.  A field of
# the wrong kind is dropped, and so is a line without those that it must have; fields that nobody here knows stay.
# Pure.
package DMI::Answer;

use strict;
use warnings;
use JSON::PP ();

my $LONGEST = 400;    # characters of a text: DMI_WHERE_SIZE of lib/base/where.h

# A number that was looked at as a text would be written as one (--json): so a copy is looked at.
my $number = sub { my ($copy) = @_; return !ref $copy && $copy =~ /\A[0-9]{1,19}(?:\.[0-9]{1,9})?\z/ ? 0 + $copy : undef };
my $whole = sub { my ($copy) = @_; return !ref $copy && $copy =~ /\A-?[0-9]{1,10}\z/ ? 0 + $copy : undef };
my $hex = sub { return !ref $_[0] && $_[0] =~ /\A0x[0-9a-f]{1,16}\z/ ? $_[0] : undef };
my $text = sub { my ($copy) = @_; return ref $copy ? undef : length $copy > $LONGEST ? substr $copy, 0, $LONGEST : $_[0] };
my $bool = sub { return JSON::PP::is_bool($_[0]) || ref $_[0] eq 'JSON::XS::Boolean' ? $_[0] : undef };

# A hash with all of these.
sub _with {
  my ($kind, @names) = @_;
  return sub {
    my ($hash) = @_;
    return if ref $hash ne 'HASH';
    my %taken = map { ($_ => defined $hash->{$_} ? $kind->($hash->{$_}) : undef) } @names;
    return (grep { !defined } values %taken) ? undef : \%taken;
  };
}

my %kind = (
  (map { $_ => $number } qw(member pid cores machine_cores memory port now since threads bytes_in bytes_out faults faults_now connections shared losses page_size pages
    home owned copies thread number tid cpu ns size page hint of rank there wanted acks arrived needed tickets surely num)),
  process => $whole,
  (map { $_ => $hex } qw(mapping addr lock barrier)),
  (map { $_ => $text } qw(state host address tag program stays who call place waits op role queued over)),
  (map { $_ => $bool } qw(coordinator asked allocator)),
  pool => _with($number, qw(limit used peak copies spilled tables)),
  joins => _with($number, qw(member number)),
  holder => sub { return ref $_[0] eq 'HASH' && _with($number, 'member')->($_[0]) && _with($text, 'op')->($_[0]) ? { member => $_[0]{member}, op => $_[0]{op} } : undef },
);

# What a line must have; of some kinds the first one is of its own.
my @at = ([qw(role)], [qw(queued member op)]);
my %at = map { $_ => 1 } qw(page lock barrier cond);
my %must = (
  members => [[qw(member process state host cores)]],
  process => [[qw(state now since cores threads bytes_in bytes_out faults pool)]],
  mappings => [[qw(mapping page_size pages home owned copies)]],
  threads => [[qw(thread who tid)]],
  locks => [[qw(lock thread op)]],
  barriers => [[qw(barrier thread)]],
  hot => [[qw(faults)], [qw(mapping page faults surely)]],
  waits => [[qw(waits num ns)]],
  peers => [[qw(member bytes_in bytes_out)]],
  (map { $_ => \@at } keys %at),
);

# What is told only with these.
my %with = (shared => ['connections'], arrived => ['needed']);
my %waits_with = ((map { $_ => ['addr'] } qw(lock barrier cond watch)), thread => ['joins'], ranks => ['rank'], (map { $_ => [qw(there wanted)] } qw(servers tasks)), scale => ['wanted']);

# `line`: decoded; `first`: it is the first one of its answer.  undef: it is dropped.
sub taken {
  my ($what, $line, $first) = @_;
  return if ref $line ne 'HASH';
  my %taken;
  for my $name (keys %$line) {
    my $value = $kind{$name} ? defined $line->{$name} ? $kind{$name}->($line->{$name}) : undef : $line->{$name};
    $taken{$name} = $value if defined $value;
  }
  my $lacks = sub { return grep { !defined $taken{$_} } @_ };
  for my $name (grep { defined $taken{$_} } qw(shared arrived)) {
    delete $taken{$name} if $lacks->(@{ $with{$name} });
  }
  if ($what eq 'threads') {
    delete $taken{addr} if $lacks->('size');
    delete $taken{waits} if defined $taken{waits} && $lacks->('ns', @{ $waits_with{ $taken{waits} } // [] });
    delete @taken{qw(addr joins)} if !defined $taken{waits};
  }
  my $must = $must{$what} // [[]];
  return (grep { !defined $taken{$_} } @{ $must->[$first ? 0 : -1] }) ? undef : \%taken;
}

1;
