#!/usr/bin/perl
# crash.t - the simulator of who goes on after a loss finds nothing wrong with the product's core, and
# everything wrong with broken ones.
use strict;
use warnings;
use Test::More;

my $sim = ($ENV{DMI_BUILD_DIR} // '.') . '/test/sim/crash_sim';
my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($small, $soak) = ($scale eq 'small', $scale eq 'soak');

sub run {
  my (@args) = @_;
  my $text = `$sim @args 2>&1`;
  return ($text, $?);
}

my $seeds = $small ? '1-60' : $soak ? '1-20000' : '1-200';
my ($text, $status) = run('--seeds', $seeds);
is($status, 0, "seeds $seeds keep every rule") or diag($text);
my %done = $text =~
  /(killed|stopped|cuts|broken links|joins|leaves|handovers|crash views|frozen|survivors|witnesses) (\d+)/g;
cmp_ok($done{$_}, '>', 0, "they have some: $_") for sort keys %done;
is(scalar keys %done, 11, 'all that is counted was found');

# Leaders are deposed behind a change, and who goes on in their place dies as it decides.
my $deposed = $small ? '1-60' : $soak ? '1-6000' : '1-200';
($text, $status) = run('--depose', '--seeds', $deposed);
is($status, 0, "leaders that are deposed, seeds $deposed") or diag($text);
($text, $status) = run('--depose', '--break', 'BY_NUMBER', '--seeds', $deposed);
ok($status >> 8 == 1 && $text =~ /^seed \d+: two histories/m, 'without BY_NUMBER something breaks')
  or diag($text);

my ($again) = run('--seeds', '7');
is((run('--seeds', '7'))[0], $again, 'the same seed, the same run');

# The same with the product's membership on top: views taken, states told, recovery, calls and notices.
my $member_sim = $sim =~ s/crash_sim$/member_sim/r;
$text = `$member_sim --seeds @{[$small ? '1-50' : $soak ? '1-6000' : '1-110']} 2>&1`;
is($?, 0, 'with membership, too') or diag($text);
my %with = $text =~ /(killed|joins|leaves|handovers|crash views|removed|losses told|witnesses) (\d+)/g;
cmp_ok($with{$_}, '>', 0, "they have some: $_") for sort keys %with;
is(scalar keys %with, 8, 'all that is counted was found');

# Processes name things, and the process of DMI_main is lost.
$text = `$member_sim --roots --seeds @{[$small ? '17-50' : $soak ? '1-600' : '17-80']} 2>&1`;
is($?, 0, 'with roots, too') or diag($text);
cmp_ok($text =~ /$_ (\d+)/ ? $1 : 0, '>', 0, "they have some: $_") for 'roots', 'DMI_recover';

# Processes make notes, which coordinators lose, and callers of DMI_poll.
$text = `$member_sim --notes --seeds @{[$small ? '1-40' : $soak ? '1-1000' : '1-80']} 2>&1`;
is($?, 0, 'with DMI_notify, too') or diag($text);
cmp_ok($text =~ /^notes (\d+)/m ? $1 : 0, '>', 1000, 'there are many');

# They call DMI_exit, some at the same time.
$text = `$member_sim --exit --seeds @{[$small ? '1-40' : $soak ? '1-1000' : '1-80']} 2>&1`;
is($?, 0, 'with DMI_exit, too') or diag($text);
cmp_ok($text =~ /^DMI_exit (\d+)/m ? $1 : 0, '>', 15, 'most do');

# Programs that call DMI_survive when others have joined, of which some are killed just then.
$text = `$member_sim --late --seeds @{[$small ? '1-40' : $soak ? '1-1300' : '1-150']} 2>&1`;
is($?, 0, 'with DMI_survive, too') or diag($text);
cmp_ok($text =~ /DMI_survive (\d+)/ ? $1 : 0, '>', $small ? 20 : 100, 'they call it');

# Each rule that can be left out, in how many runs that must show.
my @rules = (
  [NO_WAIT => 100], [LEFT => 200], [NO_ADOPT => 1000], [NO_LEASE => 600], [NO_BALLOT => 4000], [NEWEST_VIEW_ONLY => 4000],
);
for my $rule (@rules) {
  my ($name, $runs) = @$rule;
SKIP: {
    skip "without $name: takes too long here", 1 if $runs > ($soak ? 100_000 : $small ? 100 : 600);
    ($text, $status) = run('--break', $name, '--seeds', "1-$runs");
    ok($status >> 8 == 1 && $text =~ /^seed \d+: (.*)/m, "without $name something breaks within $runs runs")
      or diag($text);
    note("$name: $1") if $text =~ /^(seed \d+: .*)/m;
  }
}
done_testing();
