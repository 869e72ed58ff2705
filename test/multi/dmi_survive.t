#!/usr/bin/perl
# dmi_survive.t - a program that was started without --survive calls DMI_survive when others have joined
# already: a worker is killed, and it goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Handle;

my $t = DMITest->new(timeout => 120, wait => 40);
my $program = $t->compile('test/multi/dmi_survive_dmi.c');

# So many processes; with `early` the others have joined before it is called.
for my $case ([3, 1], [3, 0]) {
  my ($num, $early) = @$case;
  pipe my $reader, my $in or die;
  $in->autoflush(1);
  my $first = $t->start($program, args => [$num], stdin => $reader, name => "first of $num");
  print $in "go\n" unless $early;
  my @others = map { $t->start($program, join => $first, name => "other $_") } 2 .. $num;
  $_->expect_event('joined') for @others;
  print $in "go\n" if $early;
  $first->expect_out(qr/^ready$/m);
  $others[0]->kill_now;
  my ($lost) = $others[0]->events('joined');
  for my $p ($first, $others[1]) {
    $p->expect_err(qr/^dmi: process \d \(\S+\) is lost; 3 pages are lost with it; the program goes on with 2 processes$/m);
    is(($p->events('member_lost'))[0]{pages}, 3, $p->name . ' says how many pages');
    is(($p->events('member_lost'))[0]{member}, $lost->{member}, $p->name . ' says who');
  }
  close $in;
  $first->expect_verdict('survive', 5);
  $_->wait_exit(0) for $first, $others[1];
}

# Too late; and without it a loss still ends the program.
my $first = $t->start($program, name => 'late');
my $second = $t->start($program, join => $first, name => 'welcomed');
$first->expect_verdict('late', 1);
$_->wait_exit(0) for $first, $second;
$t->done;
