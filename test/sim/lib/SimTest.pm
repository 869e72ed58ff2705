# SimTest.pm - for scripts that run one of the simulators, and look at what it prints.
#
#   SimTest::use_program('node_sim');
#   my ($text, $good) = run(0, '--seeds', '1-10');
#   ok($good, 'seeds 1-10 keep every rule', $text);
#   finish();
package SimTest;

use strict;
use warnings;
use Exporter qw(import);

our @EXPORT_OK = qw(ok skip run finish);

my $sim;
my ($num, $bad) = (0, 0);

sub use_program { $sim = ($ENV{DMI_BUILD_DIR} // '.') . "/test/sim/$_[0]" }

sub ok {
  my ($good, $name, @notes) = @_;
  $num++;
  $bad++ if !$good;
  printf "%sok %d - %s\n", $good ? '' : 'not ', $num, $name;
  print map { "# $_\n" } grep { $_ ne '' } map { split /\n/ } @notes;
  return;
}

sub skip {
  my ($name, $why) = @_;
  $num++;
  print "ok $num - $name # SKIP $why\n";
  return;
}

# What the command prints, and whether its exit status is `wanted`.
sub run {
  my ($wanted, @args) = @_;
  my $text = `$sim @args 2>&1`;
  return ($text, $? == $wanted << 8);
}

sub finish {
  print "1..$num\n";
  exit($bad ? 1 : 0);
}

1;
