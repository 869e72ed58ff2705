#!/usr/bin/perl
# farm.t - examples/nqueens_dmi: known counts, by any number of processes that come and go, or are
# killed; examples/mandel_dmi: the same picture.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my %solutions = (
  1 => 1, 2 => 0, 3 => 0, 8 => 92, 9 => 352, 10 => 724, 11 => 2680, 12 => 14200, 13 => 73712,
  14 => 365596, 15 => 2279184, 16 => 14772512);

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 1800 : 110, wait => 300);
my $program = $t->build . '/examples/nqueens_dmi';
my $soak = $t->scale eq 'soak';
my $small = $t->scale eq 'small';

# The last line of the one that began, and good ends everywhere.
sub ends_right {
  my ($n, @all) = @_;
  my ($count) = $all[0]->expect_out(qr/^$n queens: (\d+) solutions/m);
  is($count, $solutions{$n}, "$n queens by " . @all);
  $_->wait_exit(0) for @all;
}

# Alone, and by several that begin together.
my @sizes = $soak ? (1 .. 3, 8 .. 16) : $small ? (1, 2, 8 .. 10) : (1 .. 3, 8 .. 13);
for my $n (@sizes) {
  my $processes = $solutions{$n} == 0 ? 1 : 1 + $n % 4;
  my $first = $t->start($program, args => [$n, $processes], name => "$n queens");
  ends_right($n, $first, map { $t->start($program, join => $first) } 2 .. $processes);
}

# A relay: each one works for a while, or hardly at all, and is asked to leave; nobody works until
# the next one joins; the last one does what is left.
{
  my $n = $soak ? 16 : $small ? 13 : 15;
  my $first = $t->start($program, args => [$n, 1, 4], name => 'relay 1');
  my ($runner, @all) = ($first, $first);
  $first->expect_out(qr/^welcome 0!/m);
  my $waits = 0;
  for my $leg (2 .. 5) {
    $runner->signal('INT') if $runner->running;
    # Where the machine is so busy that the work was done before the signal came, this proves less.
    my ($what) = $first->expect_out(qr/^(waiting|$n queens)/m);
    last if $what ne 'waiting';
    $waits++;
    last if $leg == 5;
    if ($runner != $first) {
      $runner->wait_exit(0);
      is(scalar $runner->events('left'), 1, $runner->name . ' is dismissed while there is work');
    }
    push @all, $runner = $t->start($program, join => $first, name => "relay $leg");
    $runner->expect_event('opened');
  }
  diag("only $waits of 4 were stopped in time") if $waits < 4;
  push @all, $t->start($program, join => $first, name => 'relay last') if $waits == 4;
  $t->wait_until(sub { !$first->running }, 'the work is done');
  my ($count) = $first->out =~ /^$n queens: (\d+) solutions/m;
  is($count, $solutions{$n}, "$n queens by a relay of " . @all);
  $_->wait_exit(0) for @all;
}

# Any number may come and go at once.
{
  my $n = $soak ? 16 : $small ? 11 : 14;
  my $first = $t->start($program, args => [$n, 4], name => 'crowd 1');
  my @others = map { $t->start($program, join => $first, name => "crowd $_") } 2 .. 4;
  $_->expect_event('opened') for @others;
  $_->signal('INT') for grep { $_->running } @others[0, 1];
  ends_right($n, $first, @others);
}

# One node among several in a process cannot be killed.
if (DMINodes::wanted) {
  $t->done;
  exit 0;
}

# Some are killed in the middle of their tasks: these are done by others, and each counts once.
my @survive = (opts => ['--survive', '--dead-after', 10]);
{
  my $n = $soak ? 16 : $small ? 14 : 15;
  my $first = $t->start($program, args => [$n, 4, 4], @survive, name => 'killed 1');
  my @others = map { $t->start($program, join => $first, name => "killed $_") } 2 .. 4;
  $first->expect_out(qr/^welcome 3!/m);
  $_->kill_now for @others[0, 1];
  my ($count) = $first->expect_out(qr/^$n queens: (\d+) solutions/m);
  is($count, $solutions{$n}, "$n queens, and two of four were killed");
  # A fast machine may have done all before they died.
  note(scalar(() = $first->out =~ /\blost \d!$/mg) . ' of them were known to be lost in time');
  $_->wait_exit(0) for $first, $others[2];
  $_->wait_exit(signal => 'KILL') for @others[0, 1];
}

# What a process reads, and where to write for it; when only the first is asked for, Enter is pressed.
sub enter {
  pipe my $reader, my $writer or die "no pipe: $!\n";
  $writer->autoflush(1);
  return ($reader, $writer) if wantarray;
  print $writer "\n";
  return $reader;
}

# A picture, byte for byte.  One is killed with what it has in hand.
SKIP: {
  my $mandel = $t->build . '/examples/mandel_dmi';
  skip('mandel_dmi is not built: no libpng', 1) unless -x $mandel;
  my @args = (args => [200, 200, 100, $small ? 40000 : 100000, 1]);
  my $picture = sub {
    open my $in, '<:raw', $t->dir . '/mandelbrot.png' or die "no picture: $!\n";
    local $/;
    return scalar <$in>;
  };
  chdir $t->dir or die;
  my $alone = $t->start($mandel, @args, name => 'alone', stdin => scalar enter());
  $alone->wait_exit(0);
  my $wanted = $picture->();
  cmp_ok(length $wanted, '>', 2500, 'there is something in the picture');    # a black one has 200 bytes
  unlink 'mandelbrot.png' or die;
  my ($enter, $press) = enter();
  my $first = $t->start($mandel, @args, @survive, name => 'mandel 1', stdin => $enter);
  my ($second, $third) = map { $t->start($mandel, join => $first, name => "mandel $_") } 2, 3;
  $_->expect_event('joined') for $second, $third;
  print $press "\n";    # now all begin at the same time
  $second->expect_out(qr/^(?:\d+ ){3}/m);    # it has done some, and has some in hand
  $second->kill_now;
  $first->expect_out(qr/\blost \d!$/m);
  $first->expect_out(qr/^wrote mandelbrot.png$/m);
  ok($picture->() eq $wanted, 'the picture is the same, byte for byte');
  $_->wait_exit(0) for $first, $third;
  $second->wait_exit(signal => 'KILL');
}
$t->done;
