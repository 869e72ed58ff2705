#!/usr/bin/perl
# threads.t - DMI threads over three processes: results exact, also where the process left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 40);
my $program = $t->compile('test/multi/threads_dmi.c');

my $first = $t->start($program);
my $second = $t->start($program, join => $first);
$second->expect_err(qr/=== opened ===/);    # so that the third is the one that leaves
my $third = $t->start($program, join => $second);
$first->expect_out(qr/^leave now$/m);
$third->signal('INT');
$third->expect_err(qr/=== left ===/);
$first->expect_out(qr/^join now$/m);
my $fourth = $t->start($program, join => $second);
my ($checks, $failed) = $first->expect_out(qr/^verdict threads: (\d+) checks, (\d+) failed$/m);
is($failed, 0, 'no check failed');
cmp_ok($checks, '>', $t->scale eq 'small' ? 400 : 4000, "checks were made ($checks)");
$_->wait_exit(0) for $first, $second, $third, $fourth;
unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing')
  for $first, $second, $third, $fourth;
$t->done;
