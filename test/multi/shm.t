#!/usr/bin/perl
# shm.t - processes of one host talk by shared memory, unless one of them has --no-shm; and dmirun
# --status says which it is.  Whatever a process writes into the memory, the other one ends with a line,
# and neither hangs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP ();
use Fcntl qw(O_WRONLY SEEK_SET);

my $t = DMITest->new(timeout => 110, wait => 60);
my $program = $t->compile('test/multi/see_dmi.c');
my $stream = $t->compile('test/multi/stopped_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
delete $ENV{DMI_NO_SHM};

# What the first process says of itself, as `dmirun --json` prints it.
sub look {
  my ($process, @options) = @_;
  my $look = $t->spawn([$dmirun, @options, '127.0.0.1:' . $process->port], name => 'look');
  $look->wait_exit(0);
  return $look->out;
}

# Two processes with these options of dmirun each: what they say of their connection.
sub over {
  my ($what, $wanted, $shared, @options) = @_;
  my $first = $t->start($program, args => ['barrier'], opts => ['--dead-after', 0, @{ $options[0] }], name => "$what 0");
  my $second = $t->start($program, join => $first, opts => $options[1], name => "$what 1");
  $second->expect_event('opened');
  $first->expect_out(qr/^begins (\d+)$/m);
  my $all = JSON::PP::decode_json(look($first, '--json'));
  for my $member (@{ $all->{members} }) {
    my @over = map { $_->{over} // () } @{ $member->{peers} };
    is("@over", $wanted, "$what: process $member->{process} says so");
    is("$member->{process_now}{shared} of $member->{process_now}{connections}", "$shared of 1", 'and counts them');
  }
  like(look($first, '--status'), qr{^1 .* $shared of 1 }m, 'people see it');
  $t->kill_together($first, $second);
  return;
}

over('shared', 'shared memory', 1, [], []);
over('joiner does not', 'TCP', 0, [], ['--no-shm']);
over('first does not', 'TCP', 0, ['--no-shm'], []);
over('sealed', 'shared memory', 1, ['--encrypt'], []);
over('neither', 'TCP', 0, ['--no-shm'], ['--no-shm']);

# ---- What no process would write ---------------------------------------------------------------

# The places of a link's memory in a process: what lib/net/ring.h says.
my ($half, $head, $shift, $tail) = (192, 0, 8, 64);    # a half for each direction

# Where the memory of its link is in a process.
sub memory_of {
  my ($process) = @_;
  open my $maps, '<', '/proc/' . $process->pid . '/maps' or die;
  no warnings 'portable';    # 64 bits
  my ($at) = map { /^([0-9a-f]+)-\S+ rw-s \S+ \S+ \d+ +\/memfd:dmi / ? hex $1 : () } <$maps>;
  return $at;
}

# While pages go to and fro between two processes, bytes from $make are written into the memory of their
# link again and again, until both have ended.  A line of one of them is like $line.
sub wrong {
  my ($what, $line, $make, @opts) = @_;
  my $first = $t->start($stream, args => ['stream'], opts => \@opts, name => "$what 0");
  my $second = $t->start($stream, join => $first, name => "$what 1");
  $first->expect_out(qr/^streaming$/m);
  my $at = memory_of($first);
  ok($at, "$what: there is memory of a link") or return;
  sysopen my $memory, '/proc/' . $first->pid . '/mem', O_WRONLY or die "mem: $!\n";
  $t->wait_looking(sub {
    for (1 .. 100) {
      for (my @pieces = $make->(); @pieces; ) {
        my ($place, $bytes) = splice @pieces, 0, 2;
        sysseek $memory, $at + $place, SEEK_SET;
        syswrite $memory, $bytes;    # not when it has ended
      }
    }
    return !grep { $_->running } $first, $second;
  }, "$what: both end");
  $_->wait_exit(1) for $first, $second;    # and all that they wrote is here
  my @lines = map { $_->err =~ /^dmi: lost process \d \(\S+\): (.*); this ends the program/mg } $first, $second;
  ok(scalar(grep { $_ =~ $line } @lines), "$what: one says so") or diag(join "\n", @lines);
  return;
}

my $no_process = qr/^(?:sending to|receiving from) it failed: it wrote into the shared memory what no process would$/;
wrong('heads', $no_process, sub { map { $_ * $half + $head => pack 'Q', 1 << 63 } 0, 1 });
wrong('tails', $no_process, sub { map { $_ * $half + $tail => pack 'Q', 1 << 40 } 0, 1 });
wrong('anything', $no_process, sub { 0 => join '', map { chr int rand 256 } 1 .. 2 * $half });
# Sealed, so that it is known what a wrong byte leads to.
wrong('places', qr/^what came from it was changed on the way$/, sub { map { $_ * $half + $shift => pack 'Q', int rand 1e9 } 0, 1 }, '--encrypt');
wrong('bytes', qr/^what came from it was changed on the way$/, sub { map { 4096 + 4096 * $_ + int(rand 4000) => 'wrong' } 0 .. 99 }, '--encrypt');
$t->done;
