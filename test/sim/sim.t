#!/usr/bin/perl
# sim.t - the simulator finds nothing wrong with the core, and everything wrong with broken ones.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use SimTest qw(ok skip run finish);

SimTest::use_program('sim');
my $small = ($ENV{DMI_TEST_SCALE} // '') eq 'small';

my $seeds = $small ? '2001-2005' : '2001-2040';
my ($text, $good) = run(0, '--seeds', $seeds);
ok($good, "seeds $seeds keep every rule", $text);

($text, $good) = run(0, '--pagers', '--seeds', $seeds);
ok($good, "seeds $seeds with real pagers keep every rule", $text);

($text, $good) = run(0, '--crashes', '--seeds', $seeds);
ok($good, "seeds $seeds with losses keep every rule", $text);

my ($once) = run(0, '--seeds 7-9 --hash --quiet');
my ($again) = run(0, '--seeds 7-9 --hash --quiet');
my ($other) = run(0, '--seeds 10-12 --hash --quiet');
ok($once =~ /^hash [0-9a-f]{16}$/m && $once eq $again, 'the same seeds, the same histories');
ok($once ne $other, 'other seeds, other histories');

# Each rule of docs/protocol.md that a core can leave out, and in how many runs that must show.  Where
# it shows late: a run in which it did when this was written; that one is tried first.
my @rules = (
  [RELEASE => 40], [ACK_WAIT => 20], [INVALIDATE => 20], [FLOOR => 100], [POISON => 1000],
  [PUTS => 100], [GAP => 100], [FORWARD => 20], [COPYSET => 20], [STALE => 5000],
  [TAILS => 20], [TAKE => 20], [LIST => 20], [LOOK => 20], [MOVE => 20], [TOLD => 200],
  [DROP => 400], [LEAVER => 200], [REOFFER => 20], [STALL => 20], [BEHIND => 400],
  [REFUSE => 200], [RESERVE => 20], [RETURN => 20], [SPILL => 20],
  [EARLY => 4000, 1602], [DELEGATE => 2000, 178], [AFTER => 40], [DELEGATED => 200], [DATA => 300, 249], [DECIDE => 20], [DIRECT => 40],
  [HOME_END => 20], [HOME_LIST => 20], [HOME_RECORD => 20], [HOME_PAGES => 100], [HOME_DONE => 6000, 5074],
  [HOME_OWNED => 40], [HOME_COPY => 20], [HOME_DEFER => 20], [HOME_REPLAY => 20], [HOME_NEVER => 20],
  [HOME_LOOKUP => 40], [HOME_REFUSED => 100], [HOME_HEIR => 20], [HOME_KILL => 100],
);
# The same for what real pagers must do (docs/replacement.md).
my @pager_rules = (
  [PAGER_STALLED => 20], [PAGER_SETTLE => 20], [PAGER_PATIENCE => 2000, 552], [PAGER_FOREVER => 2000, 892],
  [PAGER_COPIES => 20], [PAGER_LEAVING => 20], [PAGER_OPEN => 20], [PAGER_FULL => 40],
  [PAGER_STEP => 300], [PAGER_WATCH => 4000, 3011], [PAGER_SPILLED => 60], [PAGER_PROMISE => 20],
  [PAGER_OTHERS => 40], [PAGER_ITSELF => 20], [PAGER_BEFORE => 20], [CAPACITY_OWED => 80], [CAPACITY_REFUSED => 20],
  [CAPACITY_GIVE_UP => 40], [CAPACITY_GONE => 40], [CAPACITY_KNOWN => 20], [CAPACITY_DEFER => 20],
  [CAPACITY_WHOLE => 20],
);
# And for the recovery from losses (docs/crashes-pages.md).
my @crash_rules = (
  [CRASH_FREEZE => 300, 42], [CRASH_CUT => 20], [CRASH_GRANT => 20], [CRASH_BACK => 40],
  [CRASH_EXACT => 3000, 966], [CRASH_FLOORKEPT => 200], [CRASH_DROPEARLY => 20], [CRASH_DOUBT => 60],
  [CRASH_REVIVE => 20],
  [CRASH_TELLERS => 20],
);
# The small form, which is for sanitizers, tries one of each kind: what is caught does not depend on the build.
for my $rule (@rules, @pager_rules, @crash_rules) {
  my ($name, $runs, $first) = @$rule;
  if ($small && $name !~ /^(?:RELEASE|PAGER_STALLED|CRASH_CUT)$/) {
    skip("without $name", 'the full form tries it');
    next;
  }
  ($text, $good) = defined $first ? run(1, "--break $name --seed $first --ops 5000") : ();
  ($text, $good) = run(1, "--break $name --seeds 1-$runs --ops 5000") if !$good;
  my ($seed) = $text =~ /^caught by seed (\d+)/;
  my ($why) = $text =~ /^(.*(?:seed \d+:|signal|bug:).*)$/m;
  ok($good && $seed, "without $name something breaks within $runs runs",
    $seed ? "seed $seed: " . ($why // '') : $text);
  next unless $name eq 'RELEASE' && $seed;
  my ($replay) = run(1, "--break $name --seed $seed --ops 5000");
  s/^caught.*\n// for $text, $replay;
  ok($text eq $replay, 'a bad seed shows the same again', $replay);
}
finish();
