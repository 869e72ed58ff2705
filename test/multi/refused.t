#!/usr/bin/perl
# refused.t - two processes of which neither can see the other's end, as they are in pid namespaces of
# their own: the one with DMI_main is killed, and the other goes on only with dmirun --trust-refused.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my @apart = qw(unshare -p -f --kill-child=KILL);
if (system("@apart true 2>/dev/null") != 0) { plan(skip_all => 'no pid namespaces here') }

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/recover_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
my $after = ($ENV{DMI_TEST_SLOW} // 1) > 1 ? 5 : 2;    # --dead-after

# Both, when DMI_main is ready, and what keeps the stdin of the first one open.
sub begin {
  my ($what, @opts) = @_;
  unshift @opts, '--survive', '--dead-after', $after unless $what eq 'alone';
  pipe my $reader, my $in or die;
  my @run = (@apart, $dmirun, -l => 0);
  my $first = $t->spawn([@run, @opts, $program, 'count', 2], name => "$what first", stdin => $reader);
  my $second = $t->spawn([@run, -i => 'localhost', -p => $first->port, $program], name => "$what second");
  $first->expect_out(qr/^ready$/m);
  return ($first, $second, $in);
}

{
  my ($first, $second, $in) = begin('trusts', '--trust-refused');
  $first->kill_now;
  $second->expect_out(qr/^recovered from the loss of 0: 41$/m);
  $second->expect_verdict('recover', 2);
  $second->wait_exit(0);
}

{
  my ($first, $second, $in) = begin('doubts');
  $first->kill_now;
  $second->expect_err(qr/this process ends, as it cannot reach enough of the others.*--witness.*--trust-refused/);
  $second->wait_exit(1);
}

# Without --survive it has no effect, and the first process says so, once.
{
  my ($first, $second, $in) = begin('alone', '--trust-refused');
  my $line = qr/^dmi: --trust-refused does not count: .*start it with --survive, too$/m;
  $first->expect_err($line);
  close $in;
  $_->wait_exit(0) for $first, $second;
  is(scalar(() = $first->err =~ /$line/g), 1, 'it says so once');
}
$t->done;
