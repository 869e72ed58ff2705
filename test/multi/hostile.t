#!/usr/bin/perl
# hostile.t - strangers talk nonsense to a computing program: it goes on, with the right results,
# and keeps neither memory nor descriptors for them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(time);

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $factor = { small => 1, soak => 20 }->{$scale} // 5;
my $t = DMITest->new(timeout => 60 * ($scale eq 'soak' ? 20 : 1), wait => 30);
my $program = $t->compile('test/multi/hostile_dmi.c');

srand($ENV{DMI_TEST_SEED} // 1);
sub bytes { return join '', map { chr int rand 256 } 1 .. $_[0] }

# The HELLO of a joiner of this very program, from one that joins us instead: what it says of
# itself (wire version, build) is what the program under test will accept.
sub true_hello {
  my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
  my $joiner = $t->start($program, name => 'lured',
    opts => [-i => '127.0.0.1', -p => $listener->sockport]);
  $listener->timeout($t->{wait});
  my $socket = $listener->accept or $t->fail_now('the lured joiner connects');
  my $hello = '';
  1 while length $hello < 128
    && sysread $socket, $hello, 128 - length $hello, length $hello;
  close $socket;
  $joiner->wait_exit(1);
  return $hello;
}

my $hello = true_hello();
is(length $hello, 128, 'HELLO of this program and build');
like($hello, qr/^DMI1\x01/s, 'begins as docs/wire.md says');

my $first = $t->start($program, args => [100 * $factor], name => 'first');
my $second = $t->start($program, join => $first, name => 'second');
my @victims = ($first, $second);

# ---- Looking at the victims ------------------------------------------------------------------

sub descriptors { return scalar(() = glob "/proc/$_[0]{pid}/fd/*") }

sub resident {    # KiB
  open my $file, '<', "/proc/$_[0]{pid}/status" or die;
  return (map { /^VmRSS:\s*(\d+)/ ? $1 : () } <$file>)[0];
}

my @laps;
sub laps {
  my ($num) = @_;
  my $wanted = @laps + $num;
  $t->wait_until(sub {
    @laps = $first->out =~ /^lap \d+: (\d+) ms$/mg;
    $t->fail_now('the program goes on') unless $first->running && $second->running;
    return @laps >= $wanted;
  }, "$num more laps");
  return;
}

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[@sorted / 2] }

# ---- Attacks -----------------------------------------------------------------------------------

sub connection {
  my ($victim) = @_;
  return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $victim->port,
    Timeout => $t->{wait});
}

# Sends these texts and goes away: politely, or with a reset.
sub talk {
  my ($victim, @texts) = @_;
  my $socket = connection($victim) or return 0;
  syswrite $socket, $_ for @texts;
  setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if rand() < 0.5;
  close $socket;
  return 1;
}

# The handshake of a stranger; the socket, and what the other said.
sub handshake {
  my ($victim, $mine) = @_;
  my $socket = connection($victim) or return;
  syswrite $socket, $mine;
  my $answer = '';
  my $until = time + $t->{wait};
  vec(my $bits = '', fileno $socket, 1) = 1;
  while (length $answer < 128 && select my $ready = $bits, undef, undef, $until - time) {
    sysread $socket, $answer, 512, length $answer or last;
  }
  return ($socket, $answer);
}

sub header {    # docs/wire.md: type, flags, kind, tag, origin, error, list_len; body_len, ...
  my (%field) = @_;
  return pack 'C4 L<3 Q<8', map { $field{$_} // 0 } qw(type flags kind tag origin error list body
    map page op off len version zero);
}
is(length header(), 80, 'a header is as long as docs/wire.md says');

# HELLO with a byte, a number or a name changed.
sub changed {
  my ($at, $bytes) = @_;
  my $copy = $hello;
  substr($copy, $at, length $bytes) = $bytes;
  return $copy;
}

my $program_id;    # anybody may learn it: it is in HELLO_OK
my %attack = (
  'garbage' => sub { talk($_[0], bytes(1 + int rand 300)) },
  'a lot of garbage' => sub { talk($_[0], map { bytes(20_000) } 1 .. 5) },
  'nothing' => sub { talk($_[0]) },
  'another protocol' => sub { talk($_[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
  'half a HELLO' => sub { talk($_[0], substr $hello, 0, int rand 128) },
  'another wire version' => sub { talk($_[0], changed(6, pack 'S<', 2 + int rand 60000)) },
  'another build' => sub { talk($_[0], changed(8, bytes(16))) },
  'another program' => sub { talk($_[0], changed(24, bytes(16))) },
  'a member number' => sub { talk($_[0], changed(40, pack 'L<', 1 + int rand 2**31)) },
  'a number of this program' => sub {
    my $copy = changed(24, $program_id);
    # Of members, of those who come next, and of nobody ever.
    my @numbers = (1 + int rand 2, 3 + int rand 20, 1000 + int rand 2**30);
    substr($copy, 40, 4) = pack 'L<', $numbers[rand 3];
    talk($_[0], $copy);
  },
  'an impossible number' => sub { talk($_[0], changed(40, pack 'L<', 2**31 + int rand 2**31)) },
  'a HELLO with a changed byte' => sub { talk($_[0], changed(int rand 128, bytes(1))) },
  'an answer for a question' => sub { talk($_[0], changed(4, chr(2 + int rand 2))) },
  'a name without end' => sub { talk($_[0], changed(48, "\e]0;x\a" . 'n' x 58)) },
  'HELLO, then garbage' => sub { talk($_[0], $hello, bytes(500)) },
  'HELLO, then half a header' => sub { talk($_[0], $hello, substr header(type => 32), 0, 40) },
);

# After a proper handshake: messages that are none, too long, or not a stranger's to send.
my %message = (
  'no such message' => header(type => 200),
  'a page request' => header(type => 1, map => 1 << 32, len => 8),
  'an invalidation' => header(type => 11, map => 1 << 32, version => 1 << 60),
  'a view' => header(type => 52, body => 100) . 'v' x 100,
  'a member\'s end' => header(type => 62),
  'a page of 2^62 bytes' => header(type => 7, body => 1 << 62),
  'a JOIN of 2^40 bytes' => header(type => 32, body => 1 << 40) . 'j' x 1000,
  'a JOIN with a list' => header(type => 32, list => 0xffffffff),
  'a JOIN of garbage' => header(type => 32, body => 400) . bytes(400),
  'a JOIN of zeros' => header(type => 32, body => 64_000) . "\0" x 64_000,
  'an empty JOIN' => header(type => 32),
  'half a JOIN' => header(type => 32, body => 400) . bytes(100),
  'a field that must be zero' => header(type => 32, zero => 1),
  'STOP at once' => header(type => 31),
);

# ---- The test ----------------------------------------------------------------------------------

laps(5);
my @quiet = @laps;
for my $victim (@victims) {
  my ($socket, $answer) = handshake($victim, $hello);
  like($answer // '', qr/^DMI1\x02/s, $victim->name . ': the true HELLO is answered by HELLO_OK');
  $program_id = substr $answer, 24, 16;
}
laps(2);    # connections of the handshakes are gone
my %before = map { $_ => [descriptors($_), resident($_)] } @victims;

sub attacked {
  my ($name, $code, $times) = @_;
  my $done = 0;
  for (1 .. $times) {
    for my $victim (@victims) { $done++ if $code->($victim) }
  }
  laps(1);
  is($done, $times * @victims, "$name: $done times, and the program goes on");
}

attacked($_, $attack{$_}, 10 * $factor) for sort keys %attack;
for my $name (sort keys %message) {
  attacked($name, sub {
    my ($socket, $answer) = handshake($_[0], $hello) or return 0;
    syswrite $socket, $message{$name};
    close $socket;
    return $answer =~ /^DMI1/;
  }, 3 * $factor);
}

# Thousands of connections one after another, and hundreds at once that stay silent.
attacked('connections', sub { talk($_[0]) }, 200 * $factor);
my @silent = map { connection($victims[$_ % 2]) } 1 .. 60 * $factor;
laps(2);
is(scalar(grep { defined } @silent), 60 * $factor, 'many at once that say nothing');
ok($t->start($program, join => $second, name => 'honest')->running, 'a true joiner beside them');
$t->{processes}[-1]->expect_err(qr/=== joined ===/);
close $_ for grep { defined } @silent;
laps(3);

my $honest = $t->{processes}[-1];
for my $victim (@victims) {
  my ($descriptors, $resident) = @{ $before{$victim} };
  # One connection for the joiner; those of strangers are closed within the time they are given.
  $t->wait_until(sub { descriptors($victim) <= $descriptors + 2 }, $victim->name
      . ": descriptors are as many as before ($descriptors)");
  pass($victim->name . ': no descriptor is lost');
  my $grown = resident($victim) - $resident;
  SKIP: {
    skip 'a sanitizer keeps what was freed', 1 if $scale eq 'small';
    cmp_ok($grown, '<', 8192, $victim->name . ": $grown KiB more");
  }
}
my @loud = @laps[@quiet .. $#laps];
note(sprintf 'laps: %d ms before, %d ms under attack (medians of %d and %d)', median(@quiet),
  median(@loud), scalar @quiet, scalar @loud);
# Not slower by seconds, as if the daemon had waited for one of them.  Other work on the machine may
# slow it down by a lot.
cmp_ok(median(@loud), '<', 50 * median(@quiet) + 2000, 'nobody made the program wait');

$first->signal('INT');
is(scalar $first->expect_out(qr/^verdict hostile: \d+ checks, (\d+) failed$/m), 0,
  'every lap had the right result');
$_->wait_exit(0) for @victims, $honest;
$t->done;
