# Metrics.pm - what Prometheus gets of a running program: its text format.  Pure.
package DMI::Web::Metrics;

use strict;
use warnings;
use DMI::LookText ();
use DMI::Waits ();

our @parts = qw(process threads locks barriers);    # what it needs of DMI::Look

# Name, kind, what it is, and where it comes from in the line of PROCESS (docs/seeing.md).
my @rows = (
  [start_time_seconds => gauge => 'When the process began, in seconds since 1970.', 'since'],
  [cores => gauge => 'Processors of the process.', 'cores'],
  [threads => gauge => 'Threads of the process that run code of the program.', 'threads'],
  [pool_limit_bytes => gauge => 'Memory that the process lends to pages.', 'pool', 'limit'],
  [pool_used_bytes => gauge => 'What pages take of it.', 'pool', 'used'],
  [pool_peak_bytes => gauge => 'The most that pages have taken of it.', 'pool', 'peak'],
  [pool_copies_bytes => gauge => 'What copies of pages of others take of it.', 'pool', 'copies'],
  [pool_spilled_bytes => gauge => 'Bytes of pages in the file of --spill.', 'pool', 'spilled'],
  [pool_tables_bytes => gauge => 'Memory for what is known of pages.', 'pool', 'tables'],
  [received_bytes_total => counter => 'Bytes that came in on all connections of DMI.', 'bytes_in'],
  [sent_bytes_total => counter => 'Bytes that went out on all connections of DMI.', 'bytes_out'],
  [faults_total => counter => 'Requests to other processes for pages, or for something done at one.', 'faults'],
);

sub _escaped { return ($_[0] // '') =~ s/([\\"])/\\$1/gr =~ s/\n/\\n/gr =~ s/[^\x20-\x7e\\]/?/gr }

sub _labels {
  my ($member, %more) = @_;
  my @labels = map { [$_ => $member->{$_}] } grep { defined $member->{$_} } qw(process member host tag);
  push @labels, map { [$_ => $more{$_}] } sort keys %more;
  return '{' . join(',', map { qq($_->[0]=") . _escaped($_->[1]) . '"' } @labels) . '}';
}

sub _metric {
  my ($name, $kind, $help, @lines) = @_;
  return '' if !@lines;
  return join '', "# HELP dmi_$name $help\n", "# TYPE dmi_$name $kind\n", map { "dmi_$name$_->[0] $_->[1]\n" } @lines;
}

# For what threads wait now: how many in each call, how long, and whether any of them can go on.
sub _waits {
  my ($all) = @_;
  my $waits = DMI::Waits->new($all);
  my (@waiting, @longest);
  for my $member (grep { $_->{threads} } @{ $all->{members} }) {
    my ($longest, %in) = (0);
    for my $thread (grep { $_->{waits} } @{ $member->{threads} }) {
      my $ns = $thread->{ns} // 0;
      $in{ DMI::LookText::plain($thread->{call}) }++;
      $longest = $ns if $ns > $longest;
    }
    push @waiting, map { [_labels($member, call => $_), $in{$_}] } sort keys %in;
    push @longest, [_labels($member), sprintf '%.3f', $longest / 1e9];
  }
  return _metric(threads_waiting => gauge => 'Threads that wait in this call of DMI.', @waiting)
    . _metric(longest_wait_seconds => gauge => 'How long the thread waits that has waited longest, of those that wait now.', @longest)
    . _metric(deadlocks => gauge => 'Circles of threads of which each waits for the next one, and barriers to which nobody is left who could come. One that stays is a deadlock.', ['', scalar(() = $waits->deadlocks)]);
}

# The whole text, of DMI::Look->all(@parts).
sub text {
  my ($all) = @_;
  my @members = @{ $all->{members} };
  my $text = _metric(members => gauge => 'Processes that take part in the program.', ['', scalar @members]);
  $text .= _metric(answers => gauge => '1: the process has answered; 0: it is stopped, its DMI_function takes long, or its machine is silent.',
    map { [_labels($_), $_->{silent} ? 0 : 1] } @members);
  $text .= _metric(state_info => gauge => 'What a process is in the program (its state), and whether it is the coordinator.',
    map { [_labels($_, state => $_->{state}, coordinator => $_->{coordinator} ? 'yes' : 'no'), 1] } @members);
  for my $row (@rows) {
    my ($name, $kind, $help, @path) = @$row;
    my @lines;
    for my $member (@members) {
      my $value = $member->{process_now};
      $value = ref $value eq 'HASH' ? $value->{$_} : undef for @path;
      push @lines, [_labels($member), $value] if defined $value && $value =~ /^\d+\z/;
    }
    $text .= _metric($name, $kind, $help, @lines);
  }
  return $text . _waits($all);
}

1;
