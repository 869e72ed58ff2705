#!/usr/bin/perl
# restart.t - dmimw --restart: a process that was lost is started again, as a new one that joins.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMI::Set ();

my $t = DMITest->new(timeout => 100, wait => 40);
my $program = $t->compile('test/multi/lost_dmi.c');
my $dmimw = $t->build . '/bin/dmimw';
my $nodes = $t->dir . '/nodes';
open my $file, '>', $nodes or die;
print $file "localhost\nlocalhost\n";
close $file or die;

# The pid of that process of the set, as --status tells it.
sub pid_of {
  my ($set, $name) = @_;
  my $status = $t->spawn([$dmimw, '--status', '--set', $set], name => 'status');
  $status->wait_exit(0);
  my ($pid) = $status->out =~ /^\Q$name\E +joined +\d+ +(\d+) /m or die $status->out;
  return $pid;
}

for my $again (0, 1) {
  my $set = "restart-$$-$again";
  pipe my $reader, my $in or die;
  my $mw = $t->spawn([$dmimw, '-f', $nodes, '--tag', '--set', $set, $again ? '--restart' : (), $program],
    name => $again ? 'dmimw --restart' : 'dmimw', stdin => $reader);
  # It is never welcomed, so its loss does not end the program.
  for my $time (0 .. $again * 2) {
    $mw->expect_err(qr{^localhost/2: === joined ===$}m);
    kill KILL => pid_of($set, 'localhost/2');
    my $said = $mw->expect_err(qr{^(dmimw: .* was killed by .*)$}m);
    my $pause = 2 ** $time;    # although it had joined
    my $then = $again ? "; it is started again in $pause s" : '';
    like($said, qr{^dmimw: process \d+ \(localhost/2, pid \d+\) was killed by SIGKILL$then\z},
      'what it says');
  }
  if ($again) {
    $mw->expect_err(qr{^localhost/2: === joined ===$}m);
    is(pid_of($set, 'localhost/2') > 0, 1, 'it is there again');
  }
  close $_ for $reader, $in;    # DMI_main returns
  $mw->wait_exit($again ? 0 : 1);
}

# Seconds before the next start, by what the last one came to.
is(DMI::Set::_pause({ since => 100 }), 1, 'the first time');
is(DMI::Set::_pause({ since => 100, pause => 8 }), 16, 'it did not join');
is(DMI::Set::_pause({ since => 100, joined => 41, pause => 8 }), 16, 'it was a member for a short time');
is(DMI::Set::_pause({ since => 100, joined => 40, pause => 8 }), 1, 'it was a member for a minute');
is(DMI::Set::_pause({ since => 100, pause => 40 }), 60, 'the longest one');
$t->done;
