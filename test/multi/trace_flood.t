#!/usr/bin/perl
# trace_flood.t - dmirun --trace with many processes that do nothing but tiny calls, into a pipe that nobody
# reads: the program goes on, no process takes more memory for it, and what is left out is counted.
# Not in the small form: what it judges is memory, and sanitizers are too slow for a flood.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMITrace;
use Fcntl qw(O_RDONLY O_NONBLOCK);
use POSIX ();

my $t = DMITest->new(timeout => 280, wait => 100);
my $program = $t->compile('test/multi/trace_flood_dmi.c');
my ($processes, $first_calls, $calls) = $t->quick ? (4, 200, 8000) : $t->scale eq 'small' ? (4, 200, 5000) : (8, 200, 15000);

# Bytes in memory of a process.
sub memory {
  my ($pid) = @_;
  open my $file, '<', "/proc/$pid/status" or die "$pid: $!";
  my ($kib) = map { /^VmRSS:\s+(\d+) kB/ ? $1 : () } <$file>;
  return 1024 * $kib;
}

my $pipe = $t->dir . '/pipe';
POSIX::mkfifo($pipe, 0600) or die $!;
sysopen my $reader, $pipe, O_RDONLY | O_NONBLOCK or die $!;
pipe my $in, my $lines or die $!;
$lines->autoflush(1);
my $launcher = $t->spawn([$t->build . '/bin/dmirun', '-n', $processes, '-l', 0, '--trace', $pipe, $program, $processes],
  name => 'flood', stdin => $in);
close $in;
my ($main) = $launcher->expect_out(qr/begins (\d+)$/m);
my $told_to = 0;
# All were told to make calls, and have made them; returns their process numbers.
my $made = sub {
  my @made = $launcher->out =~ /added \d+ (\d+)$/mg;
  return @made == $told_to * ($processes - 1) ? @made : ();
};
my $add = sub { print $lines "$_[0]\n"; $told_to++ };

# Until the trace has the place of a call of each: then debug information is loaded everywhere.  A process
# records nothing before it is asked, so there are more calls until then.
my ($text, %placed) = ('');
sub take { my $count = sysread $reader, $text, 65536, length $text; return $count }
$t->wait_looking(sub {
  $add->($first_calls) if $made->() || !$told_to;
  my $more = 0;
  $more = 1 while take();
  %placed = map { $_ => 1 } grep { defined } $text =~ /"name":"DMI_fad"[^\n]*?"pid":(\d+)|"pid":(\d+)[^\n]*"name":"DMI_fad"/g if $more;
  return keys %placed == $processes - 1;
}, 'the trace has calls of all');
$t->wait_until(sub { $made->() }, 'all have made their first calls');
my @all = ($main, keys %{ { map { $_ => 1 } $made->() } });
is(scalar @all, $processes, "$processes processes");

# From here on nobody reads.
my %before = map { $_ => memory($_) } @all;
$add->($calls);
$t->wait_until(sub { $made->() }, 'all have made their calls: the program does not wait for its trace');
my %more = map { $_ => memory($_) - $before{$_} } @all;
my ($most) = sort { $b <=> $a } values %more;
SKIP: {
  open my $made, '<', $t->build . '/Makefile' or die $!;
  skip 'a sanitizer keeps what was freed', 1 if grep { /^DMI_SANITIZER = \S/ } <$made>;
  cmp_ok($most, '<', 4 << 20, "no process takes much more memory: $most bytes");
}
$add->(0);
$reader->blocking(1);
while (1) {
  my $count = take();
  last if defined $count ? !$count : !$!{EINTR};
}
$launcher->wait_exit(0);

# Each call of the flood is in the trace, or counted: with its messages, three records of each that was
# left out.
my $file = $t->dir . '/flood.json';
open my $out, '>:raw', $file or die $!;
print $out $text;
close $out or die $!;
my $events = DMITrace::read_trace($file);
is(scalar(grep { !/^[sf] |arrow/ } DMITrace::faults($events)), 0, 'the trace is valid');
my (%told, %lost);
my $all_calls = ($told_to - 2) * $first_calls + $calls;
for my $event (@$events) {
  $told{ $event->{pid} }++ if $event->{ph} eq 'X' && $event->{name} eq 'DMI_fad';
  $lost{ $event->{pid} } += $event->{args}{count} if $event->{ph} eq 'i' && $event->{name} eq 'events lost';
}
my @wrong = map { "$_: $told{$_} told, " . ($lost{$_} // 0) . ' lost' }
  grep { my $lost = $lost{$_} // 0; $told{$_} + $lost < $calls || $told{$_} + $lost / 6 > $all_calls } keys %told;
is(scalar keys %told, $processes - 1, 'the trace has calls of all processes but the first, which makes none');
is_deeply(\@wrong, [], 'all calls were written, or left out and counted');
cmp_ok(scalar(grep { $_ } values %lost), '>=', $processes - 1, 'each has left some out');
$t->done;
