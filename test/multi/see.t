#!/usr/bin/perl
# see.t - programs that hang are explained by one command, dmirun --threads: two mutexes locked
# crosswise, a barrier that a thread never reaches, a read of a page whose owner is stopped.  And
# --status, --json, --dump; who may ask, and what it costs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;
use DMITest;
use JSON::PP ();
use Sys::Hostname qw(hostname);

my $t = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/see_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';

# The line of the program with this mark.
my %line;
{
  open my $source, '<', $t->top . '/test/multi/see_dmi.c' or die $!;
  while (<$source>) { $line{$1} = "see_dmi.c:$." if m{/\* line: (.*?) \*/} }
}

# What dmirun with these options prints about the program of that process: stdout and stderr.
sub look_ends {
  my ($status, $process, @options) = @_;
  my $look = $t->spawn([$dmirun, @options, '127.0.0.1:' . $process->port], name => 'look');
  $look->wait_exit($status);
  return ($look->out, $look->err);
}
sub look { return look_ends(0, @_) }

# The same, again and again until it shows this.
sub look_until {
  my ($process, $regex, @options) = @_;
  my $out = '';
  $t->wait_until(sub {
    ($out) = look($process, @options);
    return $out =~ $regex;
  }, "dmirun @options shows $regex");
  return $out;
}

sub begin {
  my ($mode, %opt) = @_;
  my $first = $t->start($program, args => [$mode], opts => ['--dead-after', 0], name => "$mode 0", %opt);
  my $second = $t->start($program, join => $first, name => "$mode 1");
  $second->expect_event('opened');
  my $base = $first->expect_out(qr/^begins (\d+)$/m);
  return ($first, $second, $base);
}

my $place = sub { my ($call, $mark, $function) = @_; return qr/$call at $line{$mark} \($function\b[^)]*\)/ };

# Two mutexes crosswise.  Each process can be asked.
{
  my ($first, $second) = begin('crosswise');
  for my $asked ($first, $second) {
    my $out = look_until($asked, qr/DEADLOCK/, '--threads');
    my ($deadlock) = $out =~ /^DEADLOCK: none of these threads can go on\n(.*)/ms;
    my $waits = $place->('DMI_mutex_lock', 'crosswise', 'crosswise');
    my $taken = $place->('DMI_mutex_lock', 'holds', 'crosswise');
    my $main = qr/DMI_main of process 0 \(\S+\)/;
    my $thread = qr/thread 1 of process 1 \(\S+\)/;
    like($deadlock, qr/^  $main, in $waits, waits for the lock at 0x\w+ \(page 0 .*?\), held by $thread, taken by $taken; number 1 in line$/m,
      'DMI_main waits for the other thread');
    like($deadlock, qr/^  $thread, in $waits, waits for the lock at 0x\w+ .*?, held by $main, taken by $taken; number 1 in line$/m,
      'which waits for DMI_main');
    is(scalar(() = $out =~ /DEADLOCK/g), 1, 'there is one deadlock');
    like((look($asked, '--status'))[0], qr/^2 processes, .*\nDEADLOCK: $main and $thread wait for each other \(dmirun --threads: why\)\n\nprocess /m, 'of which --status tells, too');
  }
  look($second, '--dump', $t->dir . '/deadlock');
  open my $dump, '<', $t->dir . '/deadlock' or die;
  is(scalar(grep { /^DEADLOCK/ } <$dump>), 1, 'and in what --dump writes');
  $t->kill_together($first, $second);
}

# A barrier for more threads than there are.
{
  my ($first, $second) = begin('few');
  my $out = look_until($second, qr/DEADLOCK/, '--threads');
  my $verdict = qr/^DEADLOCK: nobody is left who could come to the barrier at (0x\w+) [^\n]*: 2 of 3 have come, and all threads wait at barriers or for each other/m;
  like($out, qr/$verdict$/m, 'nobody is left who could come');
  my ($status) = look($first, '--status');
  like($status, qr/^2 processes, .*\n$verdict \(dmirun --threads: why\)\n\nprocess /m, 'of which --status tells, too');
  my ($barrier) = $status =~ $verdict;
  my $json = JSON::PP::decode_json((look($second, '--json'))[0]);
  is_deeply($json->{deadlocks}, [{ barrier => $barrier, arrived => 2, needed => 3 }], 'and --json');
  look($second, '--dump', $t->dir . '/unreachable');
  open my $dump, '<', $t->dir . '/unreachable' or die;
  is(scalar(grep { /^DEADLOCK/ } <$dump>), 1, 'and --dump, once');
  like($out, qr/, 2 of 3 have come; the missing one has not used this barrier before, or has ended; all threads wait in DMI$/m, 'and at the thread itself');
  $t->kill_together($first, $second);
}

# A barrier that one thread never reaches.
{
  my ($first, $second) = begin('barrier');
  my $out = look_until($first, qr/2 of 3 have come/, '--threads');
  my $meets = $place->('DMI_local_barrier_sync', 'meets', 'meet');
  my $never = $place->('DMI_suspend', 'never comes', 'meet');
  like($out, qr/^  DMI_main in $meets, for [\d.]+ m?s.*\n    waits at the barrier at 0x\w+ .*, 2 of 3 have come; still missing:\n      thread 2 of process 1 \(\S+\): in $never, for [\d.]+ m?s$/m,
    'who has not come is named, with what it does');
  unlike($out, qr/DEADLOCK/, 'a thread that others may wake is no deadlock');
  $first->signal('INT');
  $first->expect_event('closed');
  $first->signal('INT');
  my $kept = $first->expect_err(qr/^dmi: what its threads are doing is in (\S+);/m);
  open my $dump, '<', $kept or die "$kept: $!";
  my $told = join '', <$dump>;
  like($told, qr/^DMI_main \(\d+\): in $meets, for [\d.]+ s; waits for: barrier 0x\w+ \(page 0 of the mapping at 0x\w+, asked of process [01] \(\S+\)\)$/m,
    'the second Ctrl+C writes what threads are doing');
  my $all = $first->expect_err(qr/^dmi: what all processes are doing is in (\S+)$/m);
  open my $dump_all, '<', $all or die "$all: $!";
  $told = join '', <$dump_all>;
  like($told, qr/^process 0 .*^process 1 /ms, '... and then what all processes are doing');
  like($told, qr/^  DMI_main in $meets, for .*still missing:\n      thread 2 of process 1 /ms, '... and who is missing');
  $t->kill_together($first, $second);
}

# A read of a page whose owner is stopped.
{
  pipe my $reader, my $writer or die;
  $writer->autoflush(1);
  my ($first, $second, $base) = begin('read', stdin => $reader);
  $second->expect_out(qr/^written$/m);

  # First while all is well.
  my ($status) = look($first, '--status');
  my ($gone) = $first->expect_event('connection_closed');
  is($gone->{why}, 'both sides have closed it', 'nothing stays of who has looked');
  my $program = sub { my ($asked) = @_; return '\S*see_dmi\S* read \(asked at ' . quotemeta(hostname()) . ':' . $asked->port . '\)' };
  my $behind = $t->spawn([$dmirun, '--status', '127.0.0.1', -p => $first->port], name => 'behind');
  $behind->wait_exit(0);
  like($behind->out, qr/\Aprogram: @{[$program->($first)]}\n/, 'the port may be behind the host, too');
  like($status, qr/\Aprogram: @{[$program->($first)]}\n\n2 processes, .*\n\nprocess +host /, 'which program it is, and where it was asked');
  like((look($second, '--threads'))[0], qr/\Aprogram: @{[$program->($second)]}\n\nprocess 0 /, 'also when another process is asked, and by --threads');
  my @rows = $status =~ /^(\d+ +\S+ +member.*)$/mg;
  is(scalar @rows, 2, 'the status has both processes');
  like($rows[0], qr/^0 +\S+ +member, first +\d+ +\d+ s +/, 'the first one');
  like($rows[1], qr/^1 +\S+ +member +\d+ +\d+ s +\d+ +\d+ /, 'the second one');
  my $hex = sprintf '0x%x', $base;
  like($status, qr/^$hex +4\.0 KiB +4 +(?:\S.*)?1: 1/m, 'and the page of the second one');
  my ($json) = look($second, '--json');
  my $all = eval { JSON::PP::decode_json($json) } // {};
  is(scalar @{ $all->{members} // [] }, 2, 'and so has the JSON');
  is($all->{members}[1]{process_now}{pid}, $second->pid, 'with what each has told');
  like("$all->{program} (asked at $all->{asked_at})", qr/\A@{[$program->($second)]}\z/, 'and which program it is');
  my $file = $t->dir . '/dump';
  my ($nothing) = look($first, '--dump', $file);
  is($nothing, '', '--dump prints nothing');
  open my $dump, '<', $file or die "$file: $!";
  my $dumped = join '', <$dump>;
  like($dumped, qr/\Aprogram: .*^process +host .*^process 0 .*^process 1 /ms, 'but writes status and threads');
  # A full disk.  --json is longer than what is written at once.
  my $address = '127.0.0.1:' . $first->port;
  for my $view (qw(status threads json)) {
    my $full = $t->spawn(['/bin/sh', '-c', 'exec "$@" > /dev/full', 'sh', $dmirun, "--$view", $address], name => "full $view");
    $full->wait_exit(2);
    is($full->err, "dmirun: cannot write the output: No space left on device\n", "--$view to a full disk");
  }
  my $limited = sub {
    my ($path) = @_;
    my $dumps = $t->spawn(['/bin/sh', '-c', 'ulimit -f 0 && exec "$@"', 'sh', $dmirun, '--dump', $path, $address], name => 'limit');
    $dumps->wait_exit(2);
    return $dumps->err;
  };
  my $none = $t->dir . '/no-dump';
  SKIP: {
    skip 'the thread sanitizer itself writes a file before the program begins', 5
      if DMIPython::variable($t->build, 'DMI_SANITIZER') =~ /thread/;
    is($limited->($none), "dmirun: --dump $none: File too large\n", '--dump when no file may grow');
    ok(!-e $none, 'leaves no empty file');
    $limited->($file);
    ok(-e $file, 'but one that was there');
  }

  $second->stop;
  print $writer "go\n";
  my $out = look_until($first, qr/DMI_main in DMI_read/, '--threads');
  my $reads = $place->('DMI_read', 'reads', 'DMI_main');
  like($out, qr/^  DMI_main in $reads, for [\d.]+ m?s.*\n    waits for 8 bytes at $hex \(page 0 of the mapping at $hex\), owned by process 1 \(\S+\), which gives no answer$/m,
    'the owner is named as silent');
  my $pid = $second->pid;
  like($out, qr/^process 1 \(\S+, pid $pid\)\n  gives no answer: it is stopped/m, 'and where its threads would be');
  my $name = qr/process 1 \(\S+\)/;
  $first->expect_err(qr/^dmi: waiting for process 1 \(\S+, pid $pid\) since/m);
  $first->expect_err(qr/^dmi: DMI_main has been in $reads for [\d.]+ s, and waits for page 0 of the mapping at $hex, of $name$/m);
  my ($silent) = look($first, '--status');
  like($silent, qr/^1 +\S+ +SILENT +$pid .*^process 1 \(\S+, pid $pid\) gives no answer/ms, 'the status says so, too');
  $second->signal('CONT');
  $_->wait_exit(0) for $first, $second;
}

# Who may ask.
{
  pipe my $reader, my $writer or die;
  my ($first, $second) = begin('read', stdin => $reader);
  my $other = $t->dir . '/other-key';
  DMITest::write_key($other);
  my (undef, $err) = look_ends(1, $first, '--status', '--key', $other);
  like($err, qr/^dmi: .*key/m, 'without the key nothing is told');
  my $dump = $t->dir . '/dump-without-key';
  for my $view (['--threads'], ['--json'], ['--dump', $dump], ['--status', '--encrypt']) {
    my ($out, $why) = look_ends(1, $first, @$view, '--key', $other);
    like($out . $why, qr/\Admi: [^\n]*key[^\n]*\n\z/, "nor by @$view");
  }
  ok(!-e $dump, 'and no file is made');
  close $writer;
  $_->wait_exit(0) for $first, $second;
  my (undef, $gone) = look_ends(1, $first, '--status');
  my $port = $first->port;
  is($gone, "dmi: no DMI program listens at 127.0.0.1 port $port: check host and port: 127.0.0.1:$port was asked\n",
    'a program that has ended is no more to be seen');
}

# A program that encrypts is looked at in the same way.
{
  pipe my $reader, my $writer or die;
  my ($first, $second) = begin('read', stdin => $reader, opts => ['--encrypt']);
  my $dump = $t->dir . '/dump-encrypted';
  like((look($first, '--status'))[0], qr/^1 +\S+ +member +\d+ /m, '--status of a program with --encrypt');
  like((look($second, '--threads', '--encrypt'))[0], qr/^process 0 .*^process 1 /ms, '--threads of it');
  look($first, '--dump', $dump);
  cmp_ok(-s $dump, '>', 100, '--dump of it');
  close $writer;
  $_->wait_exit(0) for $first, $second;
}

# What viewers cost that ask too much, never read, or are many.  They are the program behind dmirun.
{
  pipe my $reader, my $writer or die;
  my ($first, $second) = begin('read', stdin => $reader);
  my $view = sub {
    my ($name) = @_;
    pipe my $in, my $questions or die;
    $questions->autoflush(1);
    my $process = $t->spawn([$t->build . '/bin/dmi-witness'], name => $name, stdin => $in,
      env => { DMI_SEE => 1, DMI_JOIN_HOST => '127.0.0.1', DMI_JOIN_PORT => $first->port, DMI_LISTEN_PORT => 0 });
    close $in;
    return ($process, $questions);
  };
  my ($greedy, $questions) = $view->('greedy');
  print $questions "4 0 0 0\n" x 100;
  $greedy->expect_err(qr/^dmi: ./m);
  $greedy->wait_exit(1);

  # One that never reads, and does not even see the end.
  my ($deaf, $more) = $view->('deaf');
  print $more "1 0 0 0\n";
  $deaf->expect_out(qr/^1 0 0 \d+$/m);
  print $more "4 0 0 0\n" x 8;
  $deaf->stop;
  like((look($first, '--threads'))[0], qr/DMI_main/, 'others look all the same');

  # One that never reads, and says that it has: what is queued for it tells.
  {
    my $tool = $t->build . '/test/multi/attack';
    -x $tool or $t->fail_now("$tool is built (make check-programs)");
    # The program's identity: the first bytes of the build id, a note in the executable.
    open my $file, '<:raw', $program or die "$program: $!";
    my ($build) = do { local $/; <$file> } =~ /\x04\0\0\0.\0\0\0\x03\0\0\0GNU\0(.{16})/s ? unpack 'H*', $1 : die 'no build id';
    pipe my $in, my $lies or die;
    $lies->autoflush(1);
    my $liar = $t->spawn([$tool, $first->port, $t->key_file, $build], name => 'liar', stdin => $in);
    print $lies "look 300000 0\n";
    cmp_ok($liar->expect_out(qr/^(\d+)$/m), '<', 300_000, 'one that does not read is closed, whatever it says');
    # What it says of answers that nobody has given yet is not true.
    $second->stop;
    print $lies "look 300000 2\n";
    cmp_ok($liar->expect_out(qr/^(\d+)$/m), '<', 300_000, 'nor are questions passed on without bound');
    $second->signal('CONT');
    close $lies;
    $liar->wait_exit(0);
  }

  # 16 more: the one that has asked last longest ago has to go.
  my @many = map { [$view->("viewer $_")] } 1 .. 16;
  for (@many) {
    my ($process, $ask) = @$_;
    print $ask "2 0 0 0\n";
    $process->expect_out(qr/^1 0 0 \d+$/m);
  }
  $deaf->signal('CONT');
  $deaf->expect_err(qr/^dmi: /m);
  $deaf->wait_exit(1);
  print { $_->[1] } "2 0 0 0\n" for @many;
  $_->[0]->expect_out(qr/^2 0 0 \d+$/m) for @many;
  close $_->[1] for @many;
  $_->[0]->wait_exit(0) for @many;

  # Any question gets an answer, and does no harm: random numbers, some of them near to what there is.
  my ($asks, $any) = $view->('any');
  srand 1;
  my $random = sub { return ($_[0][rand @{ $_[0] }] + int rand 3) };
  my $seen = 0;
  for my $number (1 .. ($t->scale eq 'soak' ? 100_000 : 500)) {
    print $any join(' ', 1 + int rand 14, $random->([0, 1, 2, 3, 1 << 31]) % (1 << 32),
      map { $random->($_) } [0, 0, 0, 1, 64, 1 << 32, (1 << 62) + 5, 1 << 63], [0, 1 << 32, (1 << 32) + 4095, 1 << 62, 1 << 63]), "\n";
    $t->wait_until(sub { $asks->out =~ /^$number (\d) \d+ (\d+)\n/m && length($asks->out) - $+[0] >= $2 }, "answer $number");
    $asks->out =~ /^$number \d+ \d+ (\d+)\n/m;
    $seen++ if $1 <= 16384 && !grep { !ref eval { JSON::PP::decode_json($_) } } split /\n/, substr $asks->out, $+[0], $1;
    substr $asks->{out}{text}, 0, length $asks->out, '';
    $asks->{out}{logged} = $asks->{out}{seen} = 0;
  }
  is($seen, $t->scale eq 'soak' ? 100_000 : 500, 'each random question got lines of JSON, not too many');
  close $any;
  $asks->wait_exit(0);

  # What only members may ask, and what nobody may.
  my ($kinds, $ask) = $view->('kinds');
  print $ask "15 0 0 0\n16 0 0 0\n";
  $kinds->expect_out(qr/^1 2 0 0$/m);
  $kinds->expect_out(qr/^2 2 0 0$/m);
  print $ask "17 0 0 0\n";
  $kinds->expect_err(qr/^dmi: 127\.0\.0\.1 port @{[$first->port]} was asked, and is lost: it closed the connection unexpectedly$/m);
  $kinds->wait_exit(1);
  ($kinds, $ask) = $view->('kind 0');
  print $ask "0 0 0 0\n";
  $kinds->expect_err(qr/^dmi: ./m);
  $kinds->wait_exit(1);

  my ($wrong, $rubbish) = $view->('rubbish');
  print $rubbish "status\n";
  $wrong->expect_err(qr/no question/);
  $wrong->wait_exit(1);
  close $writer;
  $_->wait_exit(0) for $first, $second;
}

# Compiled anew while it runs: the file that has its lines is gone.
{
  my $copy = $t->dir . '/replaced';
  my $put = sub { unlink $copy; return system('cp', $program, $copy) == 0 };
  $put->() or die;
  pipe my $reader, my $writer or die;
  my $first = $t->start($copy, args => ['read'], opts => ['--dead-after', 0], name => 'replaced 0', stdin => $reader);
  my $second = $t->start($copy, join => $first, name => 'replaced 1');
  $first->expect_out(qr/^begins/m);
  $put->() or die;
  like(look_until($first, qr/DMI_join/, '--threads'), qr/DMI_join at \S*replaced\S*\+0x[0-9a-f]+.* \(no lines, as the program's file was replaced after it began\)/, 'why there are no lines');
  $t->kill_together($first, $second);
}

# Whom to ask is not written as it should be.
for my $case (['localhost:abc', "'abc' is no port, which is a number from 1 to 65535"], ['localhost:65536', "'65536' is no port, which is a number from 1 to 65535"],
  ['8701', 'a host is missing; did you mean localhost:8701?']) {
  my ($whom, $why) = @$case;
  my $look = $t->spawn([$dmirun, '--status', $whom], name => 'whom');
  $look->wait_exit(2);
  is($look->err, "dmirun: $whom: $why\n", "--status $whom");
}

# One that the program has not welcomed.
{
  pipe my $reader, my $writer or die;
  my $first = $t->start($program, args => ['never'], opts => ['--dead-after', 0], name => 'never 0', stdin => $reader);
  my $second = $t->start($program, join => $first, name => 'never 1');
  $second->expect_event('joined');
  like((look($first, '--threads'))[0], qr/^process 1 \(.*\n  no threads: the program has not welcomed it yet \(DMI_welcome\)$/m, 'which process has not been welcomed');
  my ($out) = look($first, '--status');
  like($out, qr/^0 +\S+ +member, first /m, 'the state of the first process');
  like($out, qr/^1 +\S+ +joined /m, 'and of one that was not welcomed');
  print $writer "end\n";
  close $writer;
  $_->wait_exit(0) for $first, $second;
}

$t->done;
