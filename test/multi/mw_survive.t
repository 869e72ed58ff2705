#!/usr/bin/perl
# mw_survive.t - processes that dmimw has started are killed, and the program goes on: it is no failure of
# the set, and who is alone on another host hears from dmimw that the other has ended.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMICluster;

my $t = DMITest->new(timeout => 180, wait => 60);
my $dir = $t->dir;
my $dmimw = $t->build . '/bin/dmimw';
my $program = $t->compile('test/multi/recover_dmi.c');
my $without = $t->compile('test/multi/recover_dmi.c', flags => ['-DNO_RECOVER']);
my ($number, @where) = (0);    # the command that runs something where dmimw runs

# dmimw with processes on these hosts, when DMI_main is ready; its stdin stays open.
sub begin {
  my ($hosts, $of, @opts) = @_;
  my $path = "$dir/nodes." . ++$number;
  open my $file, '>', $path or die;
  print $file map { "$_\n" } @$hosts;
  close $file or die;
  pipe my $reader, my $in or die;
  my $mw = $t->spawn([@where, $dmimw, '-f', $path, '--tag', @opts, ref $of ? @$of : ($of, 'count'), scalar @$hosts],
    name => "dmimw $number", stdin => $reader);
  $mw->expect_out(qr/: ready$/m);
  return ($mw, $in);
}

sub pid_of {
  my ($name) = @_;
  my $asker = $t->spawn([@where, $dmimw, '--status'], name => 'status');
  $asker->wait_exit(0);
  my ($pid) = $asker->out =~ /^\Q$name\E +opened +\d+ +(\d+)/m or die $asker->out;
  return $pid;
}

# Stops it until it is lost; returns its pid.
sub stop_one {
  my ($mw, $name) = @_;
  my $pid = pid_of($name);
  kill STOP => $pid;
  $mw->expect_err(qr/^localhost\S*: dmi: process \d+ \(\S+, \Q$name\E\) is lost; nothing was heard of it/m);
  return $pid;
}

# Kills the process of this name.
sub kill_one {
  my ($mw, $name, @how) = @_;
  my $pid = pid_of($name);
  @how ? $how[0]->($pid) : kill(KILL => $pid);
  $mw->expect_err(qr/^dmimw: process \d+ \(\Q$name\E, pid $pid\) was killed by SIGKILL$/m);
}

# ---- On one host -------------------------------------------------------------------------------

# DMI_main's process; DMI_recover completes the program.
{
  my ($mw, $in) = begin([('localhost') x 2], $program, '--survive');
  kill_one($mw, 'localhost');
  $mw->expect_out(qr{^localhost/2: recovered from the loss of 0: 41$}m);
  $mw->wait_exit(0);
  like($mw->err, qr{^localhost/2: dmi: process 0 \(\S+, localhost\) is lost; .*the program goes on with 1 process$}m, 'a line tells of it');
}

# DMI_recover ends it with a status of its own: that of dmimw, and no failure.
{
  my ($mw, $in) = begin([('localhost') x 2], [$program, 'exit'], '--survive');
  kill_one($mw, 'localhost');
  $mw->wait_exit(7);
  unlike($mw->err, qr/^dmimw: .*ended with status/m, 'and nothing is said of that');
}

# A worker; the program ends when its input does.
{
  my ($mw, $in) = begin([('localhost') x 3], $program, '--survive');
  kill_one($mw, 'localhost/2');
  # Its loss may be known before its end is.
  $t->wait_until(sub { $mw->err =~ m{^\S+: dmi: process \d \(\S+, localhost/2\) is lost; }m }, 'its loss is told');
  close $in;
  $mw->wait_exit(0);
}

# One that is stopped does not hear that it was lost, and ends no sooner than it goes on, or is killed.
{
  my ($mw, $in) = begin([('localhost') x 3], $program, '--survive');
  my $stopped = stop_one($mw, 'localhost/2');
  close $in;
  $mw->expect_err(qr/^dmimw: the program has ended without localhost\/2, which it lost: if it does not end \(stopped\?\) it is killed within \d+ s \(--grace\)$/m);
  kill CONT => $stopped;
  $mw->wait_exit(0);
  unlike($mw->err, qr/^dmimw: localhost\S*: the others lost it/m, 'it went on in time');
  ($mw, $in) = begin([('localhost') x 3], $program, '--survive', '--grace', 1);
  $stopped = stop_one($mw, 'localhost/2');
  $mw->expect_err(qr/^dmimw: localhost\/2: the others lost it 1 s ago \(--grace\), and it has not ended \(was it stopped\?\): it is killed$/m);
  $mw->expect_err(qr/^dmimw: process \d+ \(localhost\/2, pid $stopped\) was killed by SIGKILL$/m);
  close $in;
  $mw->wait_exit(0);
}

# Those that the program does not survive are failures.
{
  my ($mw, $in) = begin([('localhost') x 2], $program);
  kill_one($mw, 'localhost');
  $mw->wait_exit(128 + 9);
  ($mw, $in) = begin([('localhost') x 2], $without, '--survive');
  kill_one($mw, 'localhost');
  $mw->wait_exit(128 + 9);
}

# ---- On two hosts ------------------------------------------------------------------------------

# The worker has no majority, and cannot see the end of the other: dmimw's word decides.
if (my $why = DMICluster::missing()) { note($why) }
else {
  my $cluster = DMICluster->new($t, hosts => 2);
  @where = $cluster->here;
  my $kill = sub {
    my ($pid) = @_;
    my ($line) = grep { /^h1 \d+ \S*recover_dmi/ } $cluster->running or die join "\n", $cluster->running;
    kill KILL => $line =~ /^h1 (\d+)/;
  };
  if ($cluster->is_real) {
    my ($mw, $in) = begin([qw(h1 h2)], $program, '--ssh', $cluster->ssh, '--survive');
    kill_one($mw, 'h1', $kill);
    $mw->expect_out(qr/^h2: recovered from the loss of 0: 41$/m);
    $mw->wait_exit(0);
    is_deeply([$cluster->running], [], 'nothing is left');
  }
  $cluster->stop;
}
$t->done;
