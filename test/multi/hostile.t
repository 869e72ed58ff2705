#!/usr/bin/perl
# hostile.t - strangers talk nonsense to a computing program, and knock on its door by thousands: it
# goes on, with the right results, lets friends in, and keeps neither memory nor descriptors for the
# others.
#
# The same program runs beside it undisturbed, on the same machine at the same time, so that what the
# attackers themselves cost is not counted.  How much slower the attacked one is, is printed; the
# soak form, for a quiet machine, fails when something but a flood makes it more than 1.3 times.  (How
# long a lap takes in a flood depends on what is left of the machine beside the flood.)  Of a flood it
# asks how much time of a processor each connection costs, which does not depend on that.
# Takes long: many attacks, one after the other.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IPC::Open2;
use POSIX ();
use Time::HiRes qw(time);

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $soak = $scale eq 'soak';
my $factor = $scale eq 'small' ? 1 : $soak ? 20 : 5;
my $t = DMITest->new(timeout => 60 * ($soak ? 30 : 2), wait => 30);
my $program = $t->compile('test/multi/hostile_dmi.c');
my $tool = $t->build . '/test/multi/attack';
-x $tool or $t->fail_now("$tool is built (make check-programs)");

srand($ENV{DMI_TEST_SEED} // 1);
sub bytes { return join '', map { chr int rand 256 } 1 .. $_[0] }

# Floods, each twice: from one address and from many.  A number of others join during each.
my @floods = map { my $kind = $_; map { [$kind, $_] } 1, 5000 }
  qw(close silent garbage wrong replay replays);
@floods = (@floods) x 2 if $soak;
my ($rate, $flood_seconds, $joiners) = (5000, $soak ? (10, 4) : (0, 1));
my $begun = 6000;    # before one joins: more than a backlog takes
($rate, $begun) = (300, 300) if $scale eq 'small';

# A usual soft limit of open files; the programs raise it to the hard one.
system('prlimit', '--nofile=1024:', '--pid', $$) == 0 or $t->fail_now('prlimit runs');

my ($first, $second, $calm, $calm2);
for my $pair ([\$first, \$second, ''], [\$calm, \$calm2, 'calm ']) {
  my ($one, $two, $name) = @$pair;
  my @args = (20 * ($soak ? 5 : $factor), @floods * $joiners);
  $$one = $t->start($program, args => \@args, name => "${name}first");
  $$two = $t->start($program, join => $$one, name => "${name}second");
}
my @victims = ($first, $second);

# ---- Looking at the victims ------------------------------------------------------------------

sub descriptors { return scalar(() = glob "/proc/$_[0]{pid}/fd/*") }

sub open_files {    # the soft and the hard limit
  open my $file, '<', "/proc/$_[0]{pid}/limits" or die;
  return (map { /^Max open files\s+(\S+)\s+(\S+)/ ? ($1, $2) : () } <$file>);
}

sub resident {    # KiB
  open my $file, '<', "/proc/$_[0]{pid}/status" or die;
  return (map { /^VmRSS:\s*(\d+)/ ? $1 : () } <$file>)[0];
}

# Seconds of a processor that both processes of a program have used.
my $ticks = POSIX::sysconf(POSIX::_SC_CLK_TCK());

sub cpu_of {
  my $sum = 0;
  for my $process (@_) {
    open my $file, '<', "/proc/$process->{pid}/stat" or die;
    my @fields = split ' ', <$file> =~ s/.*\)//sr;
    $sum += $fields[11] + $fields[12];
  }
  return $sum / $ticks;
}

sub laps_of {
  my ($process) = @_;
  return scalar(() = $process->out =~ /^lap \d+:/mg);
}

# Waits until both programs have done some laps more.
sub laps {
  my ($num) = @_;
  my %wanted = map { $_ => $num + laps_of($_) } $first, $calm;
  $t->wait_until(sub {
    $t->fail_now('the program goes on') if grep { !$_->running } $first, $second, $calm, $calm2;
    return !grep { laps_of($_) < $wanted{$_} } $first, $calm;
  }, "$num more laps");
  return;
}

# ---- Attacks -----------------------------------------------------------------------------------

# The program's identity: the first bytes of the build id, a note in the executable.
my $build = do {
  open my $file, '<:raw', $program or die "$program: $!";
  local $/;
  <$file> =~ /\x04\0\0\0.\0\0\0\x03\0\0\0GNU\0(.{16})/s ? unpack 'H*', $1 : die 'no build id';
};

my %tool;    # by victim: handles to and from

for my $victim (@victims) {
  my $pid = open2(my $from, my $to, $tool, $victim->port, $t->key_file, $build);
  $tool{$victim} = { from => $from, to => $to, pid => $pid };
}

sub request {
  my ($victim, $command) = @_;
  print { $tool{$victim}{to} } "$command\n";
  $tool{$victim}{to}->flush;
  return;
}

sub reply {
  my ($victim, $command) = @_;
  my $from = $tool{$victim}{from};
  my $answer = <$from> // $t->fail_now("attack $command");
  chomp $answer;
  return $answer;
}

sub ask { request(@_); return reply(@_) }

sub hex_of { return $_[0] eq '' ? '-' : unpack 'H*', $_[0] }

# So many connections that say this; how many came about.
sub raw { my ($victim, $text, $count) = @_; return ask($victim, "raw $count " . hex_of($text)) }

# The whole handshake of one that has the key, with bytes of HELLO changed; then this text.
sub talk {
  my ($victim, $at, $change, $text) = @_;
  return ask($victim, join ' ', 'talk', $at, hex_of($change), hex_of($text // ''));
}

sub header {    # docs/wire.md, "A message": own => what is the message's own, 32 bytes
  my (%field) = @_;
  my $own = $field{own} // '';
  return pack 'C2 S< L< Q<2 a32 L<2 Q<2', (map { $field{$_} // 0 } qw(type one flags origin map page)),
    $own, map { $field{$_} // 0 } qw(list zero body fill);
}
{
  open my $file, '<', $t->top . '/lib/msg/wire.h' or die;
  local $/;
  my ($size) = <$file> =~ /^#define DMI_WIRE_HEADER (\d+)/m;
  is(length header(), $size, 'a header is as long as the wire has it');
}

# Without the key: what is said on a connection.
my $version = sub { return pack 'a4 C C S<', 'DMI1', 1, 0, $_[0] };
my $wire = do {
  open my $file, '<', $t->top . '/lib/msg/table.h' or die;
  local $/;
  <$file> =~ /^#define DMI_WIRE_VERSION (\d+)/m ? $1 : die;
};
my %outside = (
  'garbage' => sub { bytes(1 + int rand 300) },
  'a lot of garbage' => sub { bytes(30_000) },
  'nothing' => sub { '' },
  'another protocol' => sub { "GET / HTTP/1.1\r\nHost: x\r\n\r\n" },
  'half a CALL' => sub { substr $version->($wire) . bytes(72), 0, int rand 80 },
  'a CALL of nobody' => sub { $version->($wire) . bytes(72) },
  'another wire version' => sub { $version->(2 + int rand 60000) . bytes(72) },
  'an answer for a question' => sub { "DMI1\2\0" . bytes(74) },
  'a HELLO in the clear' => sub { "DMI1\4\0" . pack('S<', $wire) . bytes(120) },
);

# With the key: HELLO is not what it should be.
my $program_id = pack 'H*', ask($first, 'program');
my %inside = (
  'another build' => sub { (8, bytes(16)) },
  'another program' => sub { (24, bytes(16)) },
  'a member number' => sub { (40, pack 'L<', 1 + int rand 2**31) },
  'a number of this program' => sub {
    # Of members, of those who come next, and of nobody ever.
    my @numbers = (1 + int rand 2, 3 + int rand 20, 1000 + int rand 2**30);
    (24, $program_id . pack 'L<', $numbers[rand 3]);
  },
  'an impossible number' => sub { (40, pack 'L<', 2**31 + int rand 2**31) },
  'a HELLO with a changed byte' => sub { (int rand 128, bytes(1)) },
  'another kind' => sub { (4, chr(1 + int rand 3)) },
  'a name without end' => sub { (48, "\e]0;x\a" . 'n' x 58) },
);

# After a proper handshake: messages that are none, too long, or not a stranger's to send.
my %message = (
  'no such message' => header(type => 200),
  'a page request' => header(type => 1, map => 1 << 32, own => pack 'Q<2', 0, 8),
  'an invalidation' => header(type => 11, map => 1 << 32, own => pack 'Q<4', (1 << 60) x 4),
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
  'another field that must be zero' => header(type => 32, fill => 1),
  'STOP at once' => header(type => 31),
  'garbage' => bytes(500),
  'half a header' => substr(header(type => 32), 0, 40),
);

# ---- The test ----------------------------------------------------------------------------------

laps(5);
is(talk($_, 0, ''), 5, $_->name . ': a true HELLO is answered by HELLO_OK') for @victims;
laps(2);    # connections of the handshakes are gone
my %before = map { $_ => [descriptors($_), resident($_)] } @victims;

my @ratios;

# How much longer a lap takes than in the program beside it, since [laps of both]; undef: a few laps
# say nothing.
sub ratio_since {
  my ($attacked, $quiet) = map { laps_of($_) - shift @{ $_[0] } } $first, $calm;
  return if $attacked + $quiet < 20;
  push @ratios, my $ratio = $quiet / $attacked;
  return $ratio;
}

# Processes join both programs, by their first and second processes in turn, while one of them is
# flooded: a thread of each reads what the two others have.  Then they leave.
my $joined = 0;
sub join_both {
  my ($what) = @_;
  $joined++;
  my $began = time;
  my @names = ("joiner$joined", "calm joiner$joined");
  my @new = map { $t->start($program, join => $_, name => shift @names) }
    $joined % 2 ? ($first, $calm) : ($second, $calm2);
  my %took;
  $t->wait_until(sub {
    $t->fail_now("$what: no program ends") if grep { !$_->running } $first, $second;
    $t->fail_now("$what: nobody is refused") if grep { !$_->running } @new;
    for ($first, $calm) { $took{$_} //= time - $began if $_->out =~ /^friend $joined has/m }
    return 2 == keys %took;
  }, "$what: one more has joined and worked");
  $_->signal('INT') for @new;
  $_->wait_exit(0) for @new;
  my $more = $took{$first} - $took{$calm};
  pass(sprintf '%s: one more has joined and worked; it took %.2f s longer', $what, $more);
  cmp_ok($more, '<=', 1, "$what: that took not much longer") if $soak;
}

sub flooded {
  my ($kind, $sources) = @_;
  my $what = "a flood ($kind) from " . ($sources == 1 ? 'one address' : "$sources addresses");
  request($_, "flood $kind $rate $sources $begun") for @victims;
  reply($_, 'flood') for @victims;
  my ($began, @laps) = (time, map { laps_of($_) } $first, $calm);
  my @cpu = (cpu_of($first, $second), cpu_of($calm, $calm2));
  join_both($what) for 1 .. $joiners;
  do { laps(1) } while time < $began + $flood_seconds;
  my ($attacked, $quiet) = (laps_of($first) - $laps[0], laps_of($calm) - $laps[1]);
  my $ratio = ratio_since(\@laps);
  # What the victims used more than their laps cost in the other program.
  my $cpu = cpu_of($first, $second) - $cpu[0] - $attacked / $quiet * (cpu_of($calm, $calm2) - $cpu[1]);
  my $connections = 0;
  for my $victim (@victims) {
    my ($begun, $came, $failed, $ms) = split ' ', ask($victim, 'stop');
    cmp_ok($came, '>', 0, sprintf '%s: %s got %d connections a second, and %d in all came about',
      $what, $victim->name, 1000 * $begun / $ms, $came);
    $connections += $came;
  }
  return unless defined $ratio;
  my $each = 1e6 * $cpu / $connections;
  pass(sprintf '%s: %.2f x the time of the one beside it; each connection costs %.0f us of a processor', $what, $ratio, $each);
  cmp_ok($each, '<=', 100, "$what: microseconds for each connection") if $soak;
}

# Runs an attack on each victim, several times; and, in the soak form, until it can be measured.
sub attacked {
  my ($name, $code, $times, $each) = @_;
  my ($done, $rounds) = (0, 0);
  my ($began, @laps) = (time, map { laps_of($_) } $first, $calm);
  do {
    for (1 .. $times) {
      for my $victim (@victims) { $done += $code->($victim) }
    }
    $rounds++;
    laps(1);
  } while ($soak && time < $began + 5);
  my $ratio = ratio_since(\@laps);
  is($done, $rounds * $times * @victims * ($each // 1),
    "$name: $done times, and the program goes on"
      . (defined $ratio ? sprintf '; %.2f x the time of the one beside it', $ratio : ''));
  # Who has the key may do anything to the program; what that costs it is only told.
  return if $name =~ /^(?:with the key|as a friend):/ || !$soak || !defined $ratio;
  cmp_ok($ratio, '<=', 1.3, "$name: time against the one beside it");
}

for my $victim (@victims) {
  my ($soft, $hard) = open_files($victim);
  is($soft, $hard, $victim->name . ': it may open as many files as the system allows');
}
flooded(@$_) for @floods;

my $many = 10 * $factor;
for my $name (sort keys %outside) {
  attacked($name, sub { raw($_[0], $outside{$name}->(), 1) }, $many);
}
attacked('another key', sub { ask($_[0], "wrong $many") }, 1, $many);
attacked('a replay', sub { ask($_[0], "replay $many") }, 1, $many);
for my $name (sort keys %inside) {
  attacked("with the key: $name", sub { talk($_[0], $inside{$name}->()) =~ /^[035]$/ }, $many);
}
for my $name (sort keys %message) {
  attacked("as a friend: $name", sub { talk($_[0], 0, '', $message{$name}) == 5 }, 3 * $factor);
}

# Half-open ones.  Friends get in all the while.
my @friends;
sub friend {
  my $friend = $t->start($program, join => $_[0], name => 'friend' . (1 + @friends));
  $friend->expect_event('joined');
  push @friends, $friend;
}

my $call = $version->($wire) . bytes(72);
my $held = 400;
for my $victim (@victims) { ask($victim, "hold $held -") }
friend($first);
attacked('half-open ones', sub { raw($_[0], '', 100) }, 1, 100);
for my $victim (@victims) { ask($victim, "hold $held " . hex_of(substr $call, 0, 40)) }
friend($second);
laps(2);

for my $victim (@victims) {
  my ($descriptors, $resident) = @{ $before{$victim} };
  # At most 256 have not proved the key, however many there are.
  cmp_ok(descriptors($victim), '<=', $descriptors + 256 + 8, $victim->name . ': few are kept');
  ask($victim, 'drop');
}
laps(3);
for my $victim (@victims) {
  my ($descriptors, $resident) = @{ $before{$victim} };
  # For each friend a connection, one for pulses, and its process; those of strangers are closed within
  # the time they are given.
  $t->wait_until(sub { descriptors($victim) <= $descriptors + 1 + 3 * @friends }, $victim->name
      . ": descriptors are as many as before ($descriptors)");
  pass($victim->name . ': no descriptor is lost');
  my $grown = resident($victim) - $resident;
  SKIP: {
    skip 'a sanitizer keeps what was freed', 1 if $scale eq 'small';
    cmp_ok($grown, '<', 8192, $victim->name . ": $grown KiB more");
  }
}
my @sorted = sort { $a <=> $b } @ratios;
note(sprintf 'time against the program beside it: median %.2f, most %.2f', $sorted[@sorted / 2],
  $sorted[-1]) if @sorted;

# A flood fills no log: some lines, and how many more there were.
my $lines = () = $first->err =~ /^dmi: /mg;
cmp_ok($lines, '<', 60 + 10 * (time - $^T), "$lines lines in the log");
$first->expect_err(
  qr/^dmi: \(\d+ more lines about connections from outside are left out\)$/m);

for my $victim (@victims) {
  close $tool{$victim}{to};
  waitpid $tool{$victim}{pid}, 0;
}
for my $leader ($first, $calm) {
  $leader->signal('INT');
  is(scalar $leader->expect_out(qr/^verdict hostile: \d+ checks, (\d+) failed$/m), 0,
    'every lap had the right result');
}
$_->wait_exit(0) for @victims, $calm, $calm2, @friends;
$t->done;
