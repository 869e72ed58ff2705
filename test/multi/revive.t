#!/usr/bin/perl
# revive.t - pages that were lost with a process are usable again by DMI_revive, whoever calls it at the
# same time; nothing that was written since becomes zero.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 30);
my $program = $t->compile('test/multi/revive_dmi.c');
my $first = $t->start($program, name => 'first', opts => ['--survive']);
my @more = map { $t->start($program, name => "more$_", join => $first, opts => ['--survive']) } 1, 2;
$first->expect_out(qr/^kill$/m);
$t->wait_until(sub { grep { $_->out =~ /^written$/m } @more }, 'one of them has written all pages');
my ($victim) = grep { $_->out =~ /^written$/m } @more;
my ($other) = grep { $_ != $victim } @more;
$victim->kill_now;
$victim->wait_exit(signal => 'KILL');
$first->wait_exit(0);
$other->wait_exit(0);
like($first->out, qr{^verdict revive: \d+ checks, 0 failed$}m, 'the first one finds nothing wrong');
is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } $first, $other), '', 'nobody complains');
$t->done;
