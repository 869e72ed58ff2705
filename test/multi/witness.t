#!/usr/bin/perl
# witness.t - two processes, and a witness that votes with whoever is left (dmirun --witness): either of the
# two is killed, or cut off, and the other goes on.
# Mostly waits: until somebody is missed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMICluster;

my $t = DMITest->new(timeout => 240, wait => 60);
my $program = $t->compile('test/multi/recover_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
my $after = ($ENV{DMI_TEST_SLOW} // 1) > 1 ? 5 : 2;    # --dead-after
my @survive = ('--survive', '--dead-after', $after);

# ---- Options -----------------------------------------------------------------------------------

sub refused {
  my ($why, @args) = @_;
  my $process = $t->spawn([$dmirun, @args], name => 'refused');
  $process->wait_exit(2);
  like($process->err, qr/\Admirun: [^\n]*$why[^\n]*\n\z/, "refused: @args");
}
refused('--witness needs -i', '--witness');
refused('a witness \(--witness\) runs no program', '--witness', '-i', 'localhost', $program);

# ---- Processes ---------------------------------------------------------------------------------

# The two, and the witness, when DMI_main is ready: each by what `on` puts before its command.
sub begin {
  my ($what, @on) = @_;
  pipe my $reader, my $in or die;
  my @to = ref $on[-1] eq 'HASH' ? @{ (pop @on)->{join} } : ('localhost');
  my $first = $t->spawn([@{ $on[0] }, $dmirun, -l => 0, @survive, $program, 'count', 2],
    name => "$what first", stdin => $reader);
  my @join = (-l => 0, -i => $to[0], -p => $first->port);
  my $witness = $t->spawn([@{ $on[2] }, $dmirun, @join, '--witness'], name => "$what witness");
  $witness->expect_event('joined');
  $witness->expect_err(qr{^dmi: this is a witness for \S*/recover_dmi \(process 0 on \S+\): .*and runs no threads$}m);
  my $second = $t->spawn([@{ $on[1] }, $dmirun, @join, $program], name => "$what second");
  $first->expect_out(qr/^ready$/m);
  # it votes: the view with the second one as a voter has been taken
  $t->wait_until(sub { ($first->events('opened') && $second->events('opened')) }, 'both are welcomed');
  return ($first, $second, $witness, $in);
}

# In pid namespaces of their own nobody sees the end of another.
my @apart = qw(unshare -p -f --kill-child=KILL);
if (system("@apart true 2>/dev/null") != 0) { pass('needs pid namespaces, which are not to be had here') }
else {
  my ($first, $second, $witness, $in) = begin('first killed', ([@apart]) x 3);
  $first->kill_now;
  $second->expect_out(qr/^recovered from the loss of 0: 41$/m);
  $second->wait_exit(0);
  $witness->wait_exit(0);
  is(scalar $witness->events('opened'), 0, 'a witness is not welcomed');

  ($first, $second, $witness, $in) = begin('second killed', ([@apart]) x 3);
  $second->kill_now;
  $first->expect_err(qr/^dmi: process \d \(\S+\) is lost; .*the program goes on with 1 process$/m);
  close $in;
  $first->wait_exit(0);
  $witness->wait_exit(0);
}

# It leaves by Ctrl+C, and nobody has to dismiss it.
{
  my ($first, $second, $witness, $in) = begin('leaves', [], [], []);
  $witness->signal('INT');
  $witness->wait_exit(0);
  like($witness->err, qr/^=== left ===$/m, 'it leaves in order');
  close $in;
  $_->wait_exit(0) for $first, $second;
  is(scalar $first->events('member_lost'), 0, 'nobody is lost');
}

# dmimw starts one, too.
{
  my $nodes = $t->dir . '/nodes';
  open my $file, '>', $nodes or die;
  print $file "localhost\nlocalhost\n";
  close $file;
  pipe my $reader, my $in or die;
  my $mw = $t->spawn([$t->build . '/bin/dmimw', '-f', $nodes, '--tag', '--survive', '--witness', '127.0.0.1', $program, 'count', 2],
    name => 'dmimw', stdin => $reader);
  $mw->expect_err(qr/^127\.0\.0\.1: === joined ===$/m);
  $mw->expect_out(qr/^localhost: ready$/m);
  close $in;
  $mw->wait_exit(0);
  unlike($mw->err, qr/^127\.0\.0\.1: === opened ===$/m, 'dmimw --witness starts a witness');
}

# ---- Cut off -----------------------------------------------------------------------------------

if (my $why = DMICluster::missing()) { note($why); $t->done; exit }
my $cluster = DMICluster->with_networks($t, hosts => 3);
for my $who (0, 1) {
  my ($first, $second, $witness, $in) = begin("$who cut off", (map { [$cluster->on($_)] } qw(h1 h2 h3)),
    { join => [$cluster->address('h1')] });
  my ($lost, $left) = $who == 0 ? ($first, $second) : ($second, $first);
  my $host = $who == 0 ? 'h1' : 'h2';
  my @ways = map { my $other = $_; $other eq $host ? () : ([$host, $other], [$other, $host]) } $cluster->names;
  $cluster->cut_way(@$_) for @ways;
  $left->expect_err(qr/^dmi: process \d \(\S+\) is lost; .*the program goes on with 1 process$/m);
  $lost->expect_err(qr/^dmi: .*(?:this process ends|have lost this process)/m);
  $lost->wait_exit(1);
  $left->expect_out(qr/^recovered from the loss of 0: 41$/m) if $who == 0;
  close $in;
  $left->wait_exit(0);
  $witness->wait_exit(0);
  $cluster->mend_way(@$_) for @ways;
}
$cluster->stop;
$t->done;
