#!/usr/bin/perl
# remote_examples.t - examples/lu_dmi, cholesky_dmi, stencil_dmi, kmeans_dmi: right results, the same to
# the last bit whether one process computes or several, which come and go meanwhile, or are killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my $t = DMITest->new(timeout => $soak ? 3600 : 230, wait => 100);
my $small = $t->scale eq 'small';

# What is printed when the result is right, and arguments of growing size, up to the number of
# processes; and what is printed when the program is at work.
my $residual = qr/^scaled residual [\d.]+: good$/m;
my @sizes = map { [$_, $_ / 30] } $soak ? 1020 : (300, 480, 780, 1200, 1800, 2700);
my %examples = (
  lu_dmi       => [$residual, @sizes],
  cholesky_dmi => [$residual, @sizes],
  stencil_dmi  => [qr/^checksum [0-9a-f]{16}: good$/m, ['stencil', 4, $small ? 500 : 1000, 1000, 100]],
  kmeans_dmi   => [qr/^\d+ iterations: .*\n(?:\d+ points at(?: \d+){8}\n){16}checksum/m,
    map { [$_ * 1000, 8, 16, 1000, 40] } $small ? 20 : (50, 100, 200)],
);
my $at_work = qr/^(?:all calls are issued|begins with sum)/m;
my %size;    # what is used of these

# The first process; it begins when so many are there.
sub begin {
  my ($example, $processes, %more) = @_;
  return $t->start($t->build . "/examples/$example", args => [@{ $size{$example} }, $processes], %more);
}

sub more {
  my ($example, $first, $name) = @_;
  return $t->start($t->build . "/examples/$example", join => $first, name => "$example $name");
}

# What it has computed; its result is right.
sub checksum {
  my ($example, $first, @others) = @_;
  my ($sum) = $first->expect_out(qr/^checksum ([0-9a-f]{16})/m);
  $_->wait_exit(0) for $first, @others;
  like($first->out, $examples{$example}[0], "$first->{name}: the result is right");
  return $sum;
}

# The same by one process, with work of 0.4 s, so that others may come and go meanwhile.
sub compute_alone {
  my ($example) = @_;
  my ($right, @sizes) = @{ $examples{$example} };
  while (1) {
    $size{$example} = shift @sizes;
    my $first = begin($example, 1, name => "$example alone");
    my $sum = checksum($example, $first);
    my ($seconds) = $first->out =~ /: ([\d.]+) s,/ or $t->fail_now("$example says how long it took");
    return $sum if $seconds >= 0.4 || !@sizes;
  }
}

# Those that have been let in.  Who came too late, as all was done, shows nothing.
sub let_in {
  my @all = @_;
  my @in;
  for my $process (@all) {
    $t->wait_until(sub { $process->events('opened') || !$process->running }, "$process->{name} is let in");
    if ($process->events('opened')) { push @in, $process }
    else {
      diag("$process->{name} came too late");
      $process->wait_exit(1);
    }
  }
  return @in;
}

my %sum;
for my $example (sort keys %examples) {
  $sum{$example} = compute_alone($example);

  my $first = begin($example, 2, name => "$example 1 of 2");
  my $second = more($example, $first, '2 of 2');
  is(checksum($example, $first, $second), $sum{$example}, "$example: the same by two processes");

  # Two come, and the one that was there, and one of these, leave.
  $first = begin($example, 2, name => "$example 1 of crowd");
  $second = more($example, $first, '2 of crowd');
  $first->expect_out($at_work);
  my @others = ($second, let_in(map { more($example, $first, "$_ of crowd") } 3, 4));
  my @leave = grep { $_->running } @others[0, $#others];
  $_->signal('INT') for @leave;
  $_->wait_exit(0) for @leave;
  diag("$example was done before two had left") if $first->out =~ /^checksum/m;
  is(checksum($example, $first, @others), $sum{$example}, "$example: the same while processes come and go");
}

# One node among several in a process cannot be killed.
if (DMITest::nodes()) {
  $t->done;
  exit 0;
}

# One is killed: what only it had is computed again.
my @survive = (opts => ['--survive', '--dead-after', 10]);
for my $example (sort keys %examples) {
  for my $round (1 .. ($soak ? 100 : 1)) {
    my $first = begin($example, 3, @survive, name => "$example survivor $round");
    my ($second, $third) = map { more($example, $first, "$_ of 3") } 2, 3;
    $first->expect_out($at_work);
    $second->kill_now;
    is(checksum($example, $first, $third), $sum{$example}, "$example: the same when one was killed");
    $second->wait_exit(signal => 'KILL');
  }
}
$t->done;
