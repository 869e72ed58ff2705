#!/usr/bin/perl
# sharing.t - a page in which two processes write different bytes in turn is named as false sharing by dmirun
# --status, with these bytes; one in which they write the same bytes is not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120, wait => 60);
my $program = $t->compile('test/multi/sharing_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';

# What the status says, when it tells that both ask for page 0.
sub hot {
  my ($mode) = @_;
  pipe my $reader, my $writer or die;
  $writer->autoflush(1);
  my $first = $t->start($program, args => [$mode], name => "first, $mode", stdin => $reader);
  my $second = $t->start($program, join => $first, name => "second, $mode");
  my $base = sprintf '0x%x', $first->expect_out(qr/^begins (\d+)$/m);
  my $text = '';
  $t->wait_until(sub {
    my $look = $t->spawn([$dmirun, '--status', '127.0.0.1:' . $first->port], name => 'look');
    $look->wait_exit(0);
    $text = $look->out;
    return $text =~ /^0 +$base +\d+ +0: \d+, 1: \d+ /m;
  }, "$mode: both processes ask for the page again and again");
  print $writer "end\n";
  $_->wait_exit(0) for $first, $second;
  return ($text, $base);
}

my ($text, $base) = hot('apart');
like($text, qr/^page 0 of the mapping at $base: false sharing\? Process 0 writes bytes 0 to 7, process 1 writes bytes 8 to 15\. Put what each process uses into a page of its own$/m,
  'different bytes: who writes which');
is(() = $text =~ /false sharing/g, 1, 'and of no other page');
($text) = hot('same');
unlike($text, qr/false sharing/, 'the same bytes');
$t->done;
