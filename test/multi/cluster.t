#!/usr/bin/perl
# cluster.t - dmimw over ssh on four hosts, round after round: a program starts, grows, shrinks and
# ends, and nothing is left anywhere; also when a host, a cable or dmimw itself fails.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMICluster;
use Time::HiRes qw(time);

if (my $why = DMICluster::missing()) { plan(skip_all => $why) }
my $scale = $ENV{DMI_TEST_SCALE} // '';
my $rounds = $scale eq 'soak' ? 20 : $scale eq 'small' ? 1 : 3;
my $t = DMITest->new(timeout => 60 + 20 * $rounds);
my $dir = $t->dir;
my $dmimw = $t->build . '/bin/dmimw';
my $hello = $t->compile('test/multi/cluster_dmi.c');
my $cluster = DMICluster->new($t, hosts => 4);
my $number = 0;

sub nodes {
  my $path = "$dir/nodes." . ++$number;
  open my $file, '>', $path or die;
  print $file map { "$_\n" } @_;
  close $file or die;
  return $path;
}

# Starts a dmimw over the hosts given.
sub start {
  my ($lines, @args) = @_;
  return $t->spawn([$cluster->here($dmimw, '--ssh', $cluster->ssh, '--tag', '--env', 'ASAN_OPTIONS',
    '--env', 'TSAN_OPTIONS', '-f', nodes(@$lines), @args)], name => 'dmimw');
}

# Asks the dmimw that runs; returns what it printed.
sub ask {
  my ($status, @args) = @_;
  my $asker = $t->spawn([$cluster->here($dmimw, @args)], name => "ask $args[0]");
  $asker->wait_exit($status);
  return $asker->out;
}

# ---- Rounds ------------------------------------------------------------------------------------

my @times;
for my $round (1 .. $rounds) {
  my $from = time;
  my $mw = start([qw(h1 h2 h3)], $hello, 'one', 'two words');
  $mw->shows('err', map { "$_: === opened ===" } qw(h1 h2 h3));
  my $added = ask(0, '--add', 'h4 -s 64M');
  like($added, qr/^h4: listens on port \d+\n(?:h4: joined\n)?h4: opened\n\z/m, '--add h4');
  $mw->shows('out', 'h1: members: 0 1 2 3'); # before one of them asks to leave
  my $removed = ask(0, '--remove', 'h2');
  like($removed, qr/^h2: it has left\n\z/m, '--remove h2');
  my $status = ask(0, '--status');
  like($status, qr/^$_ +opened +\d+ +\d+ +20/m, "--status: $_") for qw(h1 h3 h4);
  like($status, qr/^h2 +ended /m, '--status: h2');
  my @programs = grep { /cluster_dmi/ && !/dmimw/ } $cluster->running;
  is(scalar @programs, 3, 'three processes run') or diag("@programs");
  $mw->signal('INT');
  $mw->wait_exit(0);
  is_deeply([$cluster->running], [], 'nothing is left');
  like($mw->out, qr/^h1: argument: one\nh1: argument: two words\n/m, 'the program has its arguments');
  push @times, time - $from;
}
@times = sort { $a <=> $b } @times;
diag(sprintf '%d rounds, %s: %.2f to %.2f s each', $rounds,
  $cluster->is_real ? 'four namespaces' : 'one sshd', @times[0, -1]);

# ---- The key --------------------------------------------------------------------------------------

# It reaches the processes of other hosts, which have no such file, and can be seen nowhere.
my $digits = join '', map { sprintf '%02x', int rand 256 } 1 .. 32;
{
  my $mask = umask 077;
  open my $file, '>', "$dir/own-key" or die;
  print $file "$digits\n";
  close $file or die;
  umask $mask;
}
my $mw = start([qw(h1 h2)], '--key', "$dir/own-key", $hello);
$mw->shows('err', 'h1: === initialized ===');
rename "$dir/own-key", "$dir/hidden-key" or die;
$mw->shows('err', map { "$_: === opened ===" } qw(h1 h2));
my @seen = grep { index(_all($_), $digits) >= 0 } map { m{(\d+)$} } glob '/proc/[0-9]*';
is_deeply(\@seen, [], 'the key is on no command line and in no environment');
my ($port) = ask(0, '--status') =~ /^h1 +opened +(\d+) /m;
my @join = ('-i', $cluster->address('h1'), '-p', $port, '-l', 0);
my $dmirun = $t->build . '/bin/dmirun';
my $joiner = $t->spawn([$cluster->here($dmirun, @join, '--key', "$dir/hidden-key", $hello)]);
$joiner->expect_err(qr/^=== opened ===\n/m);
my $stranger = $t->spawn([$cluster->here($dmirun, @join, $hello)]);
$stranger->wait_exit(1);
$mw->signal('INT');
$_->wait_exit(0) for $mw, $joiner;

sub _all {
  my ($pid) = @_;
  my $text = '';
  for my $name (qw(cmdline environ)) {
    open my $file, '<', "/proc/$pid/$name" or next;
    $text .= do { local $/; <$file> } // '';
  }
  return $text;
}

# ---- What fails --------------------------------------------------------------------------------

# Waits until what matches is gone from all hosts.
sub gone {
  my ($regex, $what) = @_;
  my $left = $cluster->wait_gone($regex, 30 * ($ENV{DMI_TEST_SLOW} || 1));
  $t->fail_now("$what: left: $left") if defined $left;
  return pass("$what: nothing of it is left");
}

sub pids_of {
  my ($regex) = @_;
  return map { /^\S+ (\d+) / ? $1 : () } grep { /$regex/ } $cluster->running;
}

# dmimw dies: all leave, in order.
$mw = start([qw(h1 h2 h3 h4)], '--log', "$dir/killed", $hello);
$mw->shows('err', map { "$_: === opened ===" } qw(h1 h2 h3 h4));
$mw->signal('KILL');
$mw->wait_exit(signal => 'KILL');
gone(qr/./, 'kill -9 of dmimw');

# A connection dies: that process leaves, the others go on.
$mw = start([qw(h1 h2 h3)], $hello);
$mw->shows('err', map { "$_: === opened ===" } qw(h1 h2 h3));
my ($ssh) = pids_of(qr/ ssh -F .* h3 exec/);
kill KILL => $ssh;
$mw->expect_err(qr/^dmimw: h3: connection lost; its process is asked to leave there: ssh was killed by SIGKILL\n/m);
gone(qr/^h3 .*cluster_dmi/, 'a lost connection') if $cluster->is_real;
$mw->expect_out(qr/^h1: members: 0 1\n/m);
like(ask(0, '--status'), qr/^h3 +failed .*connection lost/m, '--status tells it');
like(ask(1, '--remove', 'h3'), qr/^no process there any more\n/, 'it cannot be removed again');
like(ask(0, '--add', 'h3'), qr/^h3: opened\n/m, 'but the host can be added again');
# An agent dies: likewise.
my ($agent) = grep { defined } map { /^h2 (\d+) \S*perl\S* .*--agent/ ? $1 : () } $cluster->running;
if ($cluster->is_real) {
  kill KILL => $agent;
  $mw->expect_err(qr/^dmimw: h2: connection lost/m);
  gone(qr/^h2 .*cluster_dmi/, 'a lost agent');
}
$mw->signal('TERM');
$mw->wait_exit(1);
is_deeply([$cluster->running], [], 'nothing is left');

# Hosts that cannot be reached, or where something is missing: a line each, and the rest goes on.
$mw = start(['h1', 'nowhere.invalid', 'h2 -s 1', "h3\n#", 'h4 --wrong'], '--dir', $dir, $hello);
$mw->shows('err', map { "$_: === opened ===" } qw(h1 h3));
$mw->expect_err(qr/(?s)^(?=.*^dmimw: nowhere\.invalid: ssh: Could not resolve hostname.*\n)(?=.*^dmimw: h2: ended with status 2: -s 1: must be at least 1M.*\n)(?=.*^dmimw: h4: ended with status 2: unknown option --wrong.*\n)/m);
unlike($mw->err, qr/^h[24]: dmirun/m, 'what is told in such a line is not told twice');
$mw->signal('INT');
$mw->wait_exit(1);

# --require: too few.
$mw = start([qw(h1 nowhere.invalid h2)], '--require', 3, $hello);
$mw->expect_err(qr/^dmimw: 2 of the 3 processes that --require asks for are left: all are asked to leave\n/m);
$mw->wait_exit(1);

# The first process fails: nobody joins.
$mw = start([qw(h1 h2 h3)], "$dir/nosuch");
$mw->wait_exit(2);
like($mw->err, qr{^dmimw: h1: ended with status 2: $dir/nosuch: no such program\n}m, 'the reason');
like($mw->err, qr/^dmimw: not started, there is no process to join: h2, h3\n/m, 'the others');
gone(qr/./, 'a program that does not start');    # an agent may just have been starting

# No directory there; no DMI there; a login that is not allowed; a shell that chatters.
for my $case (
    [['--dir', '/nosuch'], qr/h1: no directory \/nosuch there: No such file/],
    [['--bin', '/nosuch'], qr{h1: .*/nosuch/dmimw.*not found \(is DMI installed there\? --bin}],
    [['--ssh', $cluster->ssh . ' -o PubkeyAuthentication=no'], qr/h1: .*Permission denied.*ssh-add/],
    [['--ssh', $cluster->ssh . " -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"],
      qr/h1: Host key verification failed.*connect once by hand/]) {
  my ($args, $said) = @$case;
  $mw = start(['h1'], @$args, $hello);
  $mw->wait_exit(1);
  like($mw->err, qr/^dmimw: $said.*\n\z/m, "@$args: one line");
}
open my $script, '>', "$dir/chatty" or die;
print $script "#!/bin/sh\necho Welcome; printf 'out 5\\nno newline'; echo moan >&2\nexec @{[$cluster->ssh]} \"\$@\"\n";
close $script;
chmod 0755, "$dir/chatty";
$mw = start(['h1'], '--ssh', "$dir/chatty", $hello);
$mw->shows('err', 'h1: === opened ===');
unlike($mw->out . $mw->err, qr/Welcome|newline|moan/, 'what a login shell prints is not the program\'s');
$mw->signal('INT');
$mw->wait_exit(0);

# A cable is cut: both sides notice, the process there ends, and three Ctrl+C end the rest.
if ($cluster->is_real && $t->scale ne 'small') {
  $mw = start([qw(h1 h2 h3)], '--timeout', 4, '--grace', 1, $hello);
  $mw->shows('err', map { "$_: === opened ===" } qw(h1 h2 h3));
  $cluster->cut('h3');
  $mw->expect_err(qr/^dmimw: h3: connection lost; its process is asked to leave there: silent for \d+ s \(--timeout\)\n/m);
  gone(qr/^h3 /, 'a cable is cut');
  $mw->signal('INT');
  $mw->expect_err(qr/^dmimw: asking 2 processes to leave\n/m);
  $mw->signal('INT');
  $mw->expect_err(qr/^dmimw: still there: |^h\d: dmi: /m);
  $mw->signal('INT');
  $mw->wait_exit(130);
  gone(qr/./, 'the third Ctrl+C');
  $cluster->mend('h3');
}

$cluster->stop;
$t->done;
