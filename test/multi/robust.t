#!/usr/bin/perl
# robust.t - a process is killed that holds a mutex, waits for a condition and at a barrier: others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 30);
my $program = $t->compile('test/multi/robust_dmi.c');
my $first = $t->start($program, name => 'first', opts => ['--survive']);
my @more = map { $t->start($program, name => "more$_", join => $first, opts => ['--survive']) } 1, 2;
$first->expect_out(qr/^kill$/m);
$t->wait_until(sub { grep { $_->out =~ /^held$/m } @more }, 'one of them holds the mutex');
my ($victim) = grep { $_->out =~ /^held$/m } @more;
my ($other) = grep { $_ != $victim } @more;
$other->expect_out(qr/^waits$/m);
$victim->kill_now;
$victim->wait_exit(signal => 'KILL');
$first->wait_exit(0);
$other->wait_exit(0);
like($first->out, qr{^verdict robust: \d+ checks, 0 failed$}m, 'the first one finds nothing wrong');
is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } $first, $other), '', 'nobody complains');
$t->done;
