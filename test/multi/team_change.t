#!/usr/bin/perl
# team_change.t - processes with ranks of a team are asked to leave and stay until their ranks have
# left; a hole is filled by a joiner; a team becomes larger and smaller with its processes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/team_change_dmi.c');
my @all = (undef, $t->start($program));
push @all, $t->start($program, join => $all[1]);

# Process $number leaves when it is told to; it stays while it has a rank.
sub leaves {
  my ($number) = @_;
  $all[1]->expect_out(qr/^leave $number$/m);
  $all[$number]->signal('INT');
  return if $number == 1;
  $all[$number]->expect_event('left');
  $all[$number]->wait_exit(0);
}

sub joins {
  my ($number) = @_;
  $all[1]->expect_out(qr/^join $number$/m);
  $all[$number] = $t->start($program, join => $all[1], name => "joiner $number");
}

leaves(2);
joins(3);
joins(4);
leaves(4);
leaves(3);
leaves(1);
$all[1]->expect_verdict('team_change', 100);
unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for @all[2 .. 4];
$t->done;
