#!/usr/bin/perl
# init.t - DMI_init runs once in each process, before anything else there.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/init_dmi.c');

# With arguments of its own.
sub join_with {
  my ($first, $name, @args) = @_;
  return $t->spawn([$t->build . '/bin/dmirun', -i => '127.0.0.1', -p => $first->port, -l => 0, $program, @args],
    name => $name);
}

my $first = $t->start($program, args => ['apple'], name => 'first');
$first->expect_out(qr/^begun$/m);
my $ended = join_with($first, 'ended', 'plum', 'end');
$ended->wait_exit(6);
is(scalar $ended->events('initialized'), 0, 'it has not begun to join');
my $second = join_with($first, 'second', 'pear');
$second->expect_out(qr/^thread of pear$/m);
$first->expect_out(qr/^thread of apple$/m);
$first->expect_verdict('init', 4, $second);
$t->done;
