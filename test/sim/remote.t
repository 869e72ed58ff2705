#!/usr/bin/perl
# remote.t - the simulator of remote functions finds nothing wrong with the product's pools and
# books, and everything wrong with broken ones.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use SimTest qw(ok skip run finish);

SimTest::use_program('remote_sim');
my $scale = $ENV{DMI_TEST_SCALE} // '';
my ($small, $soak) = ($scale eq 'small', $scale eq 'soak');

my $seeds = $soak ? '1-1000' : $small ? '2001-2020' : '2001-2200';
my ($text, $good) = run(0, '--seeds', $seeds);
ok($good, "seeds $seeds keep every rule", $text);
my %done = $text =~ /(joins|leaves|losses|stolen|done again|wants|told by clients|failed|nested clients|closed early),? (\d+)/g;
$done{$2} = $1 while $text =~ /(\d+) (wants|told by clients|failed)/g;
for my $what ('joins', 'leaves', 'losses', 'stolen', 'done again', 'wants', 'told by clients',
  'failed', 'nested clients', 'closed early')
{
  ok(($done{$what} // 0) > 0, "they have some: $what", $text);
}
my ($once) = run(0, '--seeds 7-9');
my ($again) = run(0, '--seeds 7-9');
ok($once eq $again, 'the same seeds, the same runs');

# Each rule of docs/remote.md that a pool or a book can leave out, and in how many runs that must show.
# (POOL_GEN and POOL_KEEP are rarer, POOL_POISON the client makes good: remote_pool_test has them.)
my @rules = (
  [POOL_EARLY => 20], [POOL_LATE => 20], [POOL_AHEAD => 60], [POOL_LIMIT => 40], [POOL_WAITS => 200],
  [POOL_REFUSE => 60], [POOL_UNFIRED => 20], [POOL_TOLD => 20],
  [POOL_RETIRE => 200], [POOL_STALE => 4000],
  [BOOK_NEEDS => 20], [BOOK_DROP => 20], [BOOK_WANT => 20], [BOOK_TELL => 60],
  [BOOK_REPLACE => 20], [BOOK_ADDR => 20], [BOOK_LINEAGE => 20], [BOOK_DEEP => 20],
  [BOOK_SPARE => 20], [BOOK_GEN => 1000], [BOOK_CLOSED => 20], [BOOK_STEAL => 20],
  [BOOK_POISON => 40], [BOOK_FATAL => 200],
);
for my $rule (@rules) {
  my ($name, $runs) = @$rule;
  if ($runs > ($soak ? 20_000 : $small ? 200 : 1000)) {
    skip("without $name", 'takes too long here');
    next;
  }
  ($text, $good) = run(0, "--break $name --seeds 1-$runs");
  ok($good && $text =~ /^without $name: run \d+: /, "without $name something breaks", $text);
}
finish();
