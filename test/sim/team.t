#!/usr/bin/perl
# team.t - the simulator of teams finds nothing wrong with the product's ports and tables, and
# everything wrong with broken ones.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use SimTest qw(ok run finish);

SimTest::use_program('team_sim');
my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($small, $soak) = ($scale eq 'small', $scale eq 'soak');

my $seeds = $soak ? '1-10000' : $small ? '1001-1020' : '1001-1200';
my ($text, $good) = run(0, '--seeds', $seeds);
ok($good, "seeds $seeds keep every rule", $text);
my %done = $text =~ /, (\w+) (\d+)/g;
for my $what (qw(receives offers resets leaves losses joins epochs released lost small ahead resizes moves cut)) {
  ok(($done{$what} // 0) > 0, "they have some: $what", $text);
}
my ($once) = run(0, '--seeds 7-9');
my ($again) = run(0, '--seeds 7-9');
ok($once eq $again, 'the same seeds, the same runs');

# Each rule of docs/teams.md that a port or a table can leave out.
for my $name (qw(NO_ORDER NO_POSTED NO_LANES NO_WINDOW NO_CREDIT CUT NO_EPOCH NO_AHEAD NO_GONE
  NO_RELEASE NO_EMPTY NO_DRAIN NO_WAIT NO_HOLE NO_FAIL NO_REASON NO_STEPS))
{
  ($text, $good) = run(0, "--break $name --seeds 1-40");
  ok($good && $text =~ /^without $name: run \d+: /, "without $name something breaks", $text);
}
finish();
