#!/usr/bin/perl
# manual.t - the complete programs of the DMI manual, compiled unchanged, do what it says.
#
# They are not part of this source tree: the test looks for them in ../shared/manual-programs
# beside it, or where DMI_MANUAL_PROGRAMS says, and is skipped where they are not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $dir = $ENV{DMI_MANUAL_PROGRAMS} // "$FindBin::Bin/../../../shared/manual-programs";
plan(skip_all => "the manual's programs are not in $dir") unless -d $dir;

my $t = DMITest->new(timeout => 110, wait => 40);
my $small = $t->scale eq 'small';

# What manual_watch.c is linked around.
my @watch = map { "-Wl,--wrap=$_" }
  qw(DMI_munmap DMI_local_barrier_allreduce DMI_cond_broadcast);

# Compiles manualNN.c; with watch => 1 together with manual_watch.c, else by itself.
sub program {
  my ($number, %opt) = @_;
  my @flags = @{ $opt{flags} // [] };
  return $t->compile("$dir/manual$number.c", flags => \@flags) unless $opt{watch};
  return $t->compile("$dir/manual$number.c",
    flags => [@flags, @watch], with => ['test/multi/manual_watch.c']);
}

# Runs a program that wants `processes` and, when its work is done, one request to leave from each.
# All ask in the middle of the work: it must not matter.  Returns the processes.
sub run {
  my ($program, $title, $processes, @args) = @_;
  my $first = $t->start($program, args => [$processes, @args], name => $title);
  my @all = ($first, map { $t->start($program, join => $first, name => "$title, $_") }
    2 .. $processes);
  $_->expect_event('opened') for @all;
  $_->signal('INT') for @all;
  $_->wait_exit(0) for @all;
  return @all;
}

# The sums of what manual_watch.c counted in all processes.
sub watched {
  my @sums = (0, 0, 0);
  for my $process (@_) {
    my @counts = $process->out =~ /^watch: (\d+) barriers, (\d+) wrong, (\d+) broadcasts$/m
      or $t->problem($process->name . ' did not say what it counted');
    $sums[$_] += $counts[$_] for 0 .. $#counts;
  }
  return @sums;
}

# Processes and threads per process.
my @shapes = $small ? ([3, 2]) : ([1, 1], [1, 4], [2, 2], [3, 2], [4, 1], [4, 4]);

# 1: a product of two matrices of ones: all elements of C are n.
{
  my $program = program('01', watch => 1);
  for my $shape (@shapes) {
    my ($processes, $threads) = @$shape;
    my $n = 48;
    my @all = run($program, "matrix @$shape", $processes, $threads, $n);
    my $squares = $n * $n;
    like($all[0]->out, qr/^unmapped: $squares from $n to $n$/m, "matrix @$shape: C is right");
    is((watched(@all))[0], 2 * $processes * $threads, "matrix @$shape: two barriers each");
    is((watched(@all))[1], 0, "matrix @$shape: nobody came through alone");
  }
}

# 2: who joins is welcomed, who leaves is dismissed, until the first one leaves.
{
  my $program = program('02');
  for my $processes (1 .. 4) {
    my $first = $t->start($program, name => "welcome $processes");
    my @others = map { $t->start($program, join => $first) } 2 .. $processes;
    $_->expect_event('opened') for $first, @others;
    my $stays = @others > 1 ? pop @others : undef;    # it ends with the program
    for my $process (@others, $first) {
      $process->signal('INT');
      $process->expect_event('left');
      $process->wait_exit(0);
    }
    if ($stays) {
      $stays->wait_exit(0);
      is(scalar $stays->events('left'), 0, 'the one that did not ask ends with the program');
    }
    my @welcomes = $first->out =~ /welcome (\d+)!/g;
    my @goodbyes = $first->out =~ /goodbye (\d+)!/g;
    is("@{[sort @welcomes]}", "@{[0 .. $processes - 1]}", "all $processes were welcomed");
    is(scalar @goodbyes, @others + 1, 'all who asked were dismissed');
    is($goodbyes[-1], 0, 'the first one last');
  }
}

# 3: threads start where a process joins and stop when it leaves; the others go on.
SKIP: {
  chomp(my $cores = `getconf _NPROCESSORS_ONLN`);
  skip 'manual03 is written for 8 cores at most', 1 if $cores > 8;
  my $program = program('03');
  # Its threads sleep for a second at a time.
  for my $processes ($t->scale eq 'soak' ? (1 .. 4) : 3) {
    my $first = $t->start($program, name => "threads $processes");
    my @others = map { $t->start($program, join => $first) } 2 .. $processes;
    $_->expect_event('opened') for $first, @others;
    # All but the last leave one by one, then one more comes, then the rest goes.
    for my $process (@others) {
      $process->signal('INT');
      $process->expect_event('left');
      $process->wait_exit(0);
      ok($first->running, 'the program goes on');
    }
    my $late = $t->start($program, join => $first, name => 'late');
    $late->expect_event('opened');
    for my $process ($late, $first) {
      $process->signal('INT');
      $process->wait_exit(0);
    }
    for my $process ($first, @others, $late) {
      my %ranks = map { my $state = $_; $state => join ' ', sort $process->out =~ /^$state! (\d+)$/mg }
        qw(started finished);
      isnt($ranks{started}, '', $process->name . ': threads ran');
      is($ranks{finished}, $ranks{started}, $process->name . ': all of them were told to stop');
      my %runs;
      $runs{$_}++ for $process->out =~ /^running! (\d+)$/mg;
      is(join(' ', grep { index(" $ranks{started} ", " $_ ") < 0 } keys %runs), '',
        $process->name . ': nobody else ran there');
    }
    my @welcomes = $first->out =~ /^welcome (\d+)!$/mg;
    my @goodbyes = $first->out =~ /^goodbye (\d+)!$/mg;
    is("@{[sort @goodbyes]}", "@{[sort @welcomes]}", 'all who came went');
    is(scalar @welcomes, $processes + 1, 'all came');
  }
}

# 4: a counter under a mutex.
{
  my $program = program('04');
  for my $shape (@shapes) {
    my ($processes, $threads) = @$shape;
    my $count = $small ? 20 : 100;
    my @all = run($program, "counter @$shape", $processes, $threads, $count);
    my $total = $processes * $threads * $count;
    like($all[0]->out, qr/^total : $total$/m, "counter @$shape: nothing is lost");
  }
}

# 5: 20 barriers by a mutex and a condition.
{
  my $program = program('05', watch => 1);
  for my $shape (@shapes) {
    my ($processes, $threads) = @$shape;
    my @all = run($program, "condition @$shape", $processes, $threads);
    is((watched(@all))[2], 20, "condition @$shape: one broadcast for each of 20 barriers");
  }
}

# 6: 20 barriers of the API.  Its barrier_t is a slip of the manual's for DMI_barrier_t.
{
  my $program = program('06', watch => 1, flags => ['-Dbarrier_t=DMI_barrier_t']);
  for my $shape (@shapes) {
    my ($processes, $threads) = @$shape;
    my @all = run($program, "barrier @$shape", $processes, $threads);
    is((watched(@all))[0], 20 * $processes * $threads, "barrier @$shape: 20 each");
    is((watched(@all))[1], 0, "barrier @$shape: nobody came through alone");
  }
}
$t->done;
