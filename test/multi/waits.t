#!/usr/bin/perl
# waits.t - dmirun --threads says for what threads wait in teams, remote functions, farms and
# DMI_rescale; and many that wait for one lock are all told, each once, in their order.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP ();

my $t = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/waits_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';

# The line of the program with this mark.
my %line;
{
  open my $source, '<', $t->top . '/test/multi/waits_dmi.c' or die $!;
  while (<$source>) { $line{$1} = "waits_dmi.c:$." if m{/\* line: (.*?) \*/} }
}

sub look {
  my ($process, @options) = @_;
  my $look = $t->spawn([$dmirun, @options, '127.0.0.1:' . $process->port], name => 'look');
  $look->wait_exit(0);
  return $look->out;
}

sub begin {
  my ($mode, $processes) = @_;
  my @all = $t->start($program, args => [$mode], opts => ['--dead-after', 0], name => "$mode 0");
  push @all, $t->start($program, join => $all[0], name => "$mode 1") if $processes > 1;
  $all[0]->expect_out(qr/^begins$/m);
  return @all;
}

# What DMI_main does in this mode, and for what it is said to wait.
sub says {
  my ($mode, $processes, $call, $mark, $waits) = @_;
  my @all = begin($mode, $processes);
  my $out = '';
  my $wanted = qr/^  DMI_main in $call at $line{$mark} \(\w+[^)]*\), for [\d.]+ m?s.*\n    waits $waits$/m;
  $t->wait_until(sub { ($out = look($all[0], '--threads')) =~ $wanted }, "$mode is told");
  like($out, $wanted, "$mode: what DMI_main waits for");
  $t->kill_together(@all);
}

says('message', 2, 'DMI_team_recv', 'message', qr/for a message of rank 1 of process 1 \(\S+\)/);
says('ranks', 2, 'DMI_team_reset', 'ranks', qr/for other ranks of its team \(it is rank 0\)/);
says('value', 1, 'DMI_data_read', 'value', qr/for the end of a remote function/);
says('servers', 1, 'DMI_client_open', 'servers', qr/for processes that run remote functions, there are: 1 of 3/);
says('tasks', 1, 'DMI_farm_run', 'tasks', qr/for tasks of a farm, done: [12] of 5/);
says('phase', 1, 'DMI_rescale', 'scale', qr/for the 2 threads of DMI_rescale/);

# A hundred threads wait for a lock: their list, and the queue, come in several pieces.
{
  my ($first) = begin('queue', 1);
  $first->expect_out(qr/^queued$/m);
  my ($all, $lock) = ({}, {});
  $t->wait_until(sub {
    $all = eval { JSON::PP::decode_json(look($first, '--json')) } // {};
    ($lock) = grep { $_->{kind} eq 'lock' } values %{ $all->{objects} // {} };
    return $lock && @{ $lock->{queue} // [] } >= 100;
  }, 'all threads are in the queue');
  my @queue = @{ $lock->{queue} };
  is(join(' ', map { $_->{place} // 'none' } @queue), join(' ', 1 .. 100), 'each place in the queue comes once, in order');
  is(scalar(grep { $_->{queued} eq 'lock' && $_->{member} == $all->{members}[0]{member} } @queue), 100, 'all of them wait for the lock');
  is($lock->{holder}{member}, $all->{members}[0]{member}, 'the holder is known');
  my @threads = @{ $all->{members}[0]{threads} };
  my %number = map { $_->{thread} => 1 } @threads;
  is(scalar(grep { ($_->{waits} // '') eq 'lock' } @threads), 100, 'all threads are listed');
  is(scalar(keys %number), scalar(@threads), 'each once');
  is(join(' ', sort { $b <=> $a } keys %number), join(' ', map { $_->{thread} } @threads), 'downwards');
  my $out = look($first, '--threads');
  like($out, qr/number 100 in line$/m, 'the last one knows its place');
  like($out, qr/is held by DMI_main, taken by DMI_mutex_lock at $line{holds} /, 'and who holds the lock');
  $t->kill_together($first);
}

$t->done;
