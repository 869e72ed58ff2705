#!/usr/bin/perl
# badinput.t - wrong calls get DMI_FALSE and the right DMI_errno; wrong starts get one clear line.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Socket::INET;

my $t = DMITest->new(timeout => 80, wait => 40);
my $program = $t->compile('test/multi/badinput_dmi.c');

# ---- Calls -------------------------------------------------------------------------------------

my $first = $t->start($program);
my @others = map { $t->start($program, join => $first) } 2 .. 3;
$first->expect_out(qr/^join now$/m);
my $fourth = $t->start($program, join => $first);
$first->expect_out(qr/^leave now$/m);
$fourth->signal('INT');
$first->expect_out(qr/^the fourth left/m);
$fourth->wait_exit(0);
my ($checks, $failed) = $first->expect_out(qr/^verdict badinput: (\d+) checks, (\d+) failed$/m);
is($failed, 0, 'every wrong call is refused, and for the right reason');
cmp_ok($checks, '>', 1500, "checks were made ($checks)");
$_->wait_exit(0) for $first, @others;
unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for $first, @others, $fourth;
# A node's end is not that of its OS process, and how that is started is not its business.
if ($t->nodes) {
  $t->done;
  exit;
}
like($first->out, qr/^after the end: DMI_EINACTIVE$/m, 'calls after the end: DMI_EINACTIVE');

# ---- Starts ------------------------------------------------------------------------------------

# dmirun with these options: not 0, and one line that matches all of these.  What cannot be joined
# names where it was looked for, and the options to change.
sub refused {
  my ($name, $opts, @texts) = @_;
  my $process = $t->start($program, opts => $opts, name => $name);
  $t->wait_until(sub { !$process->running }, "$name: ends");
  $process->wait_exit(1);
  is($process->out, '', "$name: nothing on stdout");
  my @lines = grep { !/^=== initialized ===$/ } split /\n/, $process->err;
  is(scalar @lines, 1, "$name: one line") or diag($process->err);
  like($lines[0] // '', $_, "$name: says $_") for @texts;
}

# A port where nobody listens: bound, so that nobody else gets it, but not listening.
my $dead = IO::Socket::INET->new(Proto => 'tcp', LocalAddr => '127.0.0.1', ReuseAddr => 0) or die;
my $port = $dead->sockport;
refused('dead port', [-i => '127.0.0.1', -p => $port], qr/127\.0\.0\.1 port $port/, qr/-p|-i/);
refused('unknown host', [-i => 'no-such-host.invalid', -p => $port],
  qr/no-such-host\.invalid/, qr/-i/);
SKIP: {
  # Bound again, so that no other test that runs beside this one listens there.
  my $ended = IO::Socket::INET->new(Proto => 'tcp', LocalAddr => '127.0.0.1', ReuseAddr => 1,
    LocalPort => $first->port) or skip 'somebody else has its port already', 1;
  refused('ended program', [-i => '127.0.0.1', -p => $first->port],
    qr/127\.0\.0\.1 port ${\$first->port}/, qr/-p|-i/);
}

my $listener = IO::Socket::INET->new(Proto => 'tcp', Listen => 1) or die;
my $taken = $listener->sockport;
refused('port in use', [-l => $taken], qr/$taken/, qr/-l/);

# What listens there is no DMI program.
sub stranger {
  my ($name, $behave, @texts) = @_;
  my $pid = fork // die;
  if (!$pid) {
    while (my $client = $listener->accept) {
      $behave->($client);
      close $client;
    }
    POSIX::_exit(0);
  }
  refused($name, [-i => '127.0.0.1', -p => $taken], qr/port $taken/, qr/-i HOST and -p PORT/,
    @texts);
  kill KILL => $pid;
  waitpid $pid, 0;
}
stranger('answers something else', sub {
  my ($client) = @_;
  print $client "HTTP/1.0 400 Bad\r\n\r\n";
  $client->flush;
  1 while sysread $client, my $bytes, 512;    # closing before all is read could lose the answer
}, qr/does not speak DMI/);
stranger('closes at once', sub { }, qr/closed the connection at once/);
stranger('closes after all was read', sub { sysread $_[0], my $bytes, 512 },
  qr/closed the connection at once/);

# Another program: it goes on unharmed, and says whom it refused.
my $other = $t->compile('test/multi/end_dmi.c');
my $running = $t->start($other, args => ['wait']);
$running->expect_out(qr/^waiting$/m);
refused('another program', [-i => '127.0.0.1', -p => $running->port],
  qr/this process runs '[^']*badinput_dmi' \(build \w+\), but 127\.0\.0\.1 port ${\$running->port} /,
  qr/runs '[^']*end_dmi' \(build \w+\): .*same executable/);
$running->expect_err(qr/this process runs '[^']*end_dmi'.*, but 127\.0\.0\.1 .*badinput_dmi'/);

# Programs of the same name are told apart by their build ids, or by their bytes where the linker was
# told to make none.
sub copied {
  my ($from, $dir, @command) = @_;
  my $copy = $t->dir . "/$dir/end_dmi";
  mkdir $t->dir . "/$dir" or die;
  local $SIG{CHLD} = 'DEFAULT';
  system(@command, $from, @command > 1 ? '-o' : (), $copy) == 0 or die;
  return $copy;
}
sub refused_build {
  my ($name, $copy, $first) = @_;
  my $process = $t->start($copy, join => $first, name => $name);
  $process->wait_exit(1);
  my @builds = $process->err =~ /\(build (\w+)\)/g;
  is(scalar @builds, 2, "$name: both are named");
  isnt($builds[0], $builds[1], "$name: they differ");
}
refused_build('another build',
  copied($t->compile('test/multi/end_dmi.c', flags => ['-O0']), 'other', 'cp'), $running);
# Without its debug information it is the same program.
my $three = $t->compile('test/multi/advertise_dmi.c');
my $first = $t->start($three);
$first->expect_event('opened');
my @stripped = map {
  $t->start(copied($three, "stripped$_", 'strip', '-g'), join => $first, name => "stripped $_")
} 1, 2;
$first->expect_out(qr/verdict advertise: \d+ checks, 0 failed/);
$_->wait_exit(0) for $first, @stripped;

my $bare = $t->compile('test/multi/end_dmi.c', flags => ['-Wl,--build-id=none']);
my $bare_running = $t->start($bare, args => ['wait']);
$bare_running->expect_out(qr/^waiting$/m);
my $longer = copied($bare, 'longer', 'cp');
open my $file, '>>', $longer or die;
print $file "\0";
close $file or die;
refused_build('no build id, one byte more', $longer, $bare_running);

for ($running, $bare_running) {
  $_->signal('INT');
  $_->wait_exit(0);
}
$t->done;
