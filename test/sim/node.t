#!/usr/bin/perl
# node.t - the simulator of whole nodes finds nothing wrong with the product's core, and everything
# wrong with broken ones.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use SimTest qw(ok skip run finish);

SimTest::use_program('node_sim');
my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($small, $soak) = ($scale eq 'small', $scale eq 'soak');

my $seeds = $small ? '2001-2004' : '2001-2020';
my ($text, $good) = run(0, '--seeds', $seeds);
ok($good, "seeds $seeds keep every rule", $text);
my %done = $text =~ /(joins|leaves|lost|stopped for long|handovers of the role|unmapped|spilled) (\d+)/g;
for my $what (sort keys %done) {
  ok($done{$what} > 0, "they have some: $what $done{$what}");
}

# Short programs: half of what happens in one is its beginning and its end.
my $short = $small ? '1-200' : '1-2000';
($text, $good) = run(0, '--seeds', $short, '--ops 200');
ok($good, "short programs, seeds $short, keep every rule", $text);

# What longer programs show is in docs/simulation.md, "Losses of whole nodes".
my $crashes = $small ? '1-100' : '1-250';
($text, $good) = run(0, '--crashes --ops 2000 --seeds', $crashes);
ok($good, "programs that lose processes, seeds $crashes, keep every rule", $text);
ok($text =~ /^losses: (\d+)/m && $1 > ($small ? 200 : 500), 'processes are lost', $text);
# These keep every rule, so what the first of them notices is the broken one.  (CRASH_BACK is noticed
# once in some hundred runs: sim.t tries it.)
# The small form, which is for sanitizers, tries one of each kind: what is caught does not depend on
# the build.
my @crash_rules = qw(CRASH_GRANT CRASH_DOUBT CRASH_FREEZE CRASH_CUT CRASH_REVIVE CRASH_TELLERS
  CRASH_DROPEARLY HOME_HEIR HOME_PAGES MEMBER_BUSY MEMBER_VOTE);
for my $name ($small ? $crash_rules[0] : @crash_rules) {
  ($text, $good) = run(1, "--crashes --ops 2000 --seeds 1-1500 --break $name");
  ok($good && $text =~ /^caught by seed/m, "without $name something breaks, with losses", $text);
}

my $agreed = $small ? '1-20' : '1-60';
($text, $good) = run(0, '--agree --ops 2000 --seeds', $agreed);
ok($good, "programs that agree on who goes on, seeds $agreed, keep every rule", $text);
ok($text =~ /removed while they lived (\d+)/ && $1 > 0, 'living processes are removed', $text);
for my $name ('AGREE_NO_WAIT', $small ? () : ('AGREE_LEFT', 'MEMBER_LEASE')) {
  my $agree = $name =~ /^AGREE/ ? '' : '--agree ';
  ($text, $good) = run(1, "$agree--ops 2000 --seeds 1-200 --break $name");
  ok($good && $text =~ /^caught by seed/m, "without $name something breaks", $text);
}

my ($once) = run(0, '--seeds 7-9 --hash --quiet --ops 3000');
my ($again) = run(0, '--seeds 7-9 --hash --quiet --ops 3000');
my ($other) = run(0, '--seeds 10-12 --hash --quiet --ops 3000');
ok($once =~ /^hash [0-9a-f]{16}$/m && $once eq $again, 'the same seeds, the same histories');
ok($once ne $other, 'other seeds, other histories');

# Each rule that a core can leave out, in how many runs that must show, and of how many operations.  Where
# it shows late: a run in which it did when this was written; that one is tried first.
my @rules = (
  [RELEASE => 100], [ACK_WAIT => 100], [INVALIDATE => 100], [FLOOR => 100], [POISON => 100],
  [PUTS => 100], [GAP => 100], [FORWARD => 100], [COPYSET => 100], [TAILS => 100], [TAKE => 100],
  [LIST => 100], [LOOK => 100], [MOVE => 100], [TOLD => 300], [DROP => 100], [RESERVE => 100],
  [RETURN => 100], [SPILL => 100], [DELEGATE => 1500, 5000, 296], [AFTER => 400], [DELEGATED => 600],
  [DECIDE => 100], [DIRECT => 600], [STALE => 2000, 5000, 97], [LEAVER => 900], [DATA => 400],
  [MEMBER_TAKEN => 100], [MEMBER_HEIR => 200], [MEMBER_DEFER => 100], [MEMBER_POLLS => 100],
  [MEMBER_FLUSHED => 100], [MEMBER_OPENED => 100], [MEMBER_UID => 100], [MEMBER_UNMAP => 100],
  [MEMBER_ADOPT => 100], [MEMBER_FORGOT => 100], [MEMBER_LEFT => 100], [MEMBER_AWAITS => 100],
  [MEMBER_LAST_REQUEST => 100], [MEMBER_BUSY => 5000, 30], [MEMBER_ROLE => 100], [MEMBER_LOST => 100],
  [MEMBER_RETRY => 300, 5000, 174], [MEMBER_RETRIED => 600, 5000, 264], [STALL => 100], [REFUSE => 100],
  [CAPACITY_REFUSED => 100], [CAPACITY_GIVE_UP => 100], [CAPACITY_GONE => 100],
  [CAPACITY_WHOLE => 100], [HOME_END => 100], [HOME_RECORD => 100],
  [HOME_OWNED => 100], [HOME_COPY => 100], [HOME_DEFER => 100],
  [HOME_REPLAY => 100], [HOME_NEVER => 100], [HOME_LOOKUP => 100], [HOME_REFUSED => 100],
  [HOME_HEIR => 100], [HOME_KILL => 100], [PAGER_STALLED => 100], [PAGER_SETTLE => 100],
  [PAGER_OPEN => 400], [PAGER_FULL => 400], [PAGER_SPILLED => 300, 5000, 69], [PAGER_PROMISE => 100],
  [PAGER_COPIES => 100], [PAGER_LEAVING => 100], [PAGER_OTHERS => 100], [PAGER_ITSELF => 100],
  [PAGER_BEFORE => 100],
  [PACK_ORDER => 100], [PACK_LOST => 100], [PACK_BEFORE => 100],
  [CAPACITY_OWED => 100], [CAPACITY_KNOWN => 100], [CAPACITY_DEFER => 100],
);
for my $rule (@rules) {
  my ($name, $runs, $ops, $first) = @$rule;
  $ops //= 5000;
  my $long = $runs * $ops > ($soak ? 20_000_000 : 2_500_000);
  if ($long || ($small && $name !~ /^(?:RELEASE|MEMBER_TAKEN|PACK_ORDER)$/)) {
    skip("without $name", $long ? 'takes too long here' : 'the full form tries it');
    next;
  }
  ($text, $good) = defined $first ? run(1, "--break $name --seed $first --ops $ops") : ();
  ($text, $good) = run(1, "--break $name --seeds 1-$runs --ops $ops") if !$good;
  my ($seed) = $text =~ /^caught by seed (\d+)/;
  my ($why) = $text =~ /^(.*(?:seed \d+:|signal|bug:).*)$/m;
  ok($good && $seed, "without $name something breaks within $runs runs",
    $seed ? "seed $seed: " . ($why // '') : $text);
  next unless $name eq 'RELEASE' && $seed;
  my ($replay) = run(1, "--break $name --seed $seed --ops $ops");
  s/^caught.*\n// for $text, $replay;
  ok($text eq $replay, 'a bad seed shows the same again', $replay);
}
finish();
