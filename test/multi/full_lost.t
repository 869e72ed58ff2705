#!/usr/bin/perl
# full_lost.t - a process is killed when the other one has no memory left: its pool is full, and so is the
# disk of its --spill.  What that one has written stays as it was, and so do the pages that it has copies of.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 60);
my $program = $t->compile('test/multi/full_lost_dmi.c');
my ($pool, $disk, @args) = $t->scale eq 'soak' ? ('16M', '12m', 32, 16) : ('4M', '3m', 8, 16);

# A disk that only the process sees, and that goes with it.
my $dir = $t->dir . '/disk';
mkdir $dir or die "$dir: $!";
my $mount = 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"';
my @in_it = ('unshare', '-m', 'sh', '-c', $mount, $disk, $dir);
my $can = !DMINodes::wanted && $> == 0 && system("@in_it[0 .. 3] '$mount' $disk $dir true 2> /dev/null") == 0;

SKIP: {
  skip 'a small disk takes root, its capabilities, and a process of its own', 1 unless $can;
  my $first = $t->spawn([@in_it, $t->build . '/bin/dmirun', '--survive', '--dead-after', 10, -l => 0, -s => $pool,
    '--spill', $dir, $program, @args], name => 'first');
  my $second = $t->start($program, name => 'second', join => $first, opts => [-s => ($args[0] + 1) . 'M']);
  $first->expect_out(qr/^full$/m);
  $second->kill_now;
  $second->wait_exit(signal => 'KILL');
  $first->wait_exit(0);
  like($first->out, qr/^verdict full_lost: \d+ checks, 0 failed$/m, 'nothing is wrong');
  like($first->err, qr/^dmi: cannot write to the file for spilled pages .*: No space left on device$/m,
    'the disk was full');
  my ($kept) = $first->out =~ /^kept (\d+) of/m;
  cmp_ok($kept, '>', 0, "$kept pages of the second one were kept");
}
$t->done;
