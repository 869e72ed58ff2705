#!/usr/bin/perl
# slurm.t - DMI programs under Slurm: a cluster of the test's own, and the scripts of
# examples/slurm/ as a user would submit them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMISlurm;

if (my $why = DMISlurm::missing()) { plan(skip_all => $why) }
my $t = DMITest->new(timeout => 90);
my $slurm = DMISlurm->new($t, nodes => 2);

my $job = $slurm->submit(['--ntasks=2', '--nodes=2', '--wrap', 'srun sh -c \'echo on $SLURMD_NODENAME\'']);
$job->expect(qr/^on n\d$/m) for 1 .. 2;
is($job->wait_end, 'COMPLETED', 'the job has run');
$slurm->stop;
$t->done;
