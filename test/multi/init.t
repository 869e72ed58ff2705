#!/usr/bin/perl
# init.t - DMI_init runs once in each process, before anything else there.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/init_dmi.c');

my $first = $t->start($program, args => ['plum'], name => 'first', env => { INIT_WORD => 'apple' });
$first->expect_out(qr/^begun$/m);
my $ended = $t->start($program, join => $first, name => 'ended', env => { INIT_WORD => 'end' });
$ended->wait_exit(6);
is(scalar $ended->events('initialized'), 0, 'it has not begun to join');
my $second = $t->spawn([$t->build . '/bin/dmirun', -l => 0, -i => '127.0.0.1', -p => $first->port, $program, 'kiwi', 'fig'],
  name => 'second', env => { INIT_WORD => 'pear' });
$second->expect_out(qr/^thread of pear, 3$/m);    # it has its own arguments
$first->expect_out(qr/^thread of apple, 2$/m);
$first->expect_verdict('init', 6, $second);

# A program without DMI_init: nobody would read them.
my $without = $t->compile('test/multi/cluster_dmi.c');
my $refused = $t->spawn([$t->build . '/bin/dmirun', -l => 0, -i => '127.0.0.1', -p => 9, $without, 'kiwi'], name => 'refused');
$refused->wait_exit(2);
like($refused->err, qr/^dmi: kiwi: a process that joins \(dmirun -i\) has no arguments, as DMI_main does not run in it /m,
  'arguments of a process that joins are refused');
# A process that may not open all the files that it needs says so and ends; it does not begin DMI_main.
my $refused_files = 0;
for my $limit (8 .. 30) {
  my $short = $t->spawn(['sh', '-c', "ulimit -n $limit; exec \"\$0\" \"\$\@\"", $t->build . '/bin/dmirun', -l => 0, $program, 'plum'],
    name => "$limit files", env => { INIT_WORD => 'apple' });
  $t->wait_until(sub { return $short->out =~ /^begun$/m || $short->_ended }, "with $limit files it begins or ends");
  if (!defined $short->{status}) {
    $short->kill_now;
    $short->wait_exit(signal => 'KILL');
    last;
  }
  if ($short->err !~ /^=== initialized ===$/m) {    # Perl could not run dmirun
    $short->wait_exit($short->{status} >> 8);
    next;
  }
  $refused_files++;
  $short->wait_exit(1);
  like($short->err, qr/^dmi: [^\n]*\(ulimit -n[^\n]*\)/m, "$limit files: it says what is short");
  unlike($short->out, qr/^begun$/m, 'and does not begin');
}
cmp_ok($refused_files, '>', 0, 'there were too few files');
$t->done;
