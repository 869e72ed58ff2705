#!/usr/bin/perl
# model.t - the protocol's model: the quick configurations, in a soak all of them.
# Takes long: each configuration is compiled and searched.
use strict;
use warnings;
use File::Basename qw(dirname);

for my $tool (qw(spin gcc)) {
  next if grep { -x "$_/$tool" } split /:/, $ENV{PATH};
  print "1..0 # SKIP $tool is not installed\n";
  exit 0;
}
my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my @command = (dirname(__FILE__) . '/run', $soak ? '--full' : '--quick');
open my $run, '-|', $^X, @command or die "run: $!\n";
my ($num, $bad) = (0, 0);
while (<$run>) {
  print "# $_";
  my ($name, $expected) = /^(\S+)\s+(pass|partial|fail\S*)\s+\S/ or next;
  $num++;
  my $ok = !/UNEXPECTED/;
  $bad++ if !$ok;
  printf "%sok %d - %s: %s\n", $ok ? '' : 'not ', $num, $name, $expected;
}
my $clean = close $run;
$num++;
printf "%sok %d - every configuration as expected\n", $clean ? '' : 'not ', $num;
print "1..$num\n";
exit($bad || !$clean ? 1 : 0);
