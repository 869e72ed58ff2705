#!/usr/bin/perl
# dmifarm_queens.t - n queens by dmifarm (examples/farm/queen.c), n = 8 to 15 by 100 tasks, while workers join,
# leave and are killed, and the master, too: the solutions are right, each result is there once, and nothing is
# left behind.
#
#   dmifarm_queens.t [seed]     soak: also n = 16 and 17, and 500 tasks
#
# Some of the tasks are gates: they say that they are there, and wait.  At each gate one of these things happens,
# in an order that the seed gives.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMIFarm;
use IO::Handle;
use List::Util qw(min shuffle);
use POSIX qw(mkfifo);

my $soak = DMITest::scale() eq 'soak';
my $small = DMITest::scale() eq 'small';
my $seed = shift // time;
srand $seed;
diag("seed $seed") if $soak;

my $t = DMITest->new(timeout => $soak ? 1800 : 240, wait => $soak ? 600 : 60);
my $farm = DMIFarm->new($t);

# The numbers of solutions, and of parts, for n queens.
my %solutions = (8 => 92, 9 => 352, 10 => 724, 11 => 2680, 12 => 14200, 13 => 73712, 14 => 365596,
  15 => 2279184, 16 => 14772512, 17 => 95815104);
my %parts = (8 => 172, 9 => 401, 10 => 700, 11 => 1337, 12 => 2040, 13 => 3432, 14 => 4816, 15 => 7432,
  16 => 9844, 17 => 14272);

my $queen = $t->dir . '/queen';
$t->spawn(['cc', '-O2', $t->top . '/examples/farm/queen.c', -o => $queen], name => 'cc')->wait_exit(0);

# One job, and all who work on it.
sub begin {
  my ($n, $tasks) = @_;
  my $self = bless { n => $n, job => $farm->job, tasks => $tasks, names => 0 };
  my $job = $self->{job};
  my $count = $t->spawn([$queen, $n], name => "queen $n");
  $count->wait_exit(0);
  is($count->out, "$parts{$n}\n", "$n queens have $parts{$n} parts");
  system('cp', $queen, "$job/bin") == 0 or die 'cp';
  my $split = "queen $n {begin}:{end}";
  $t->spawn([$farm->program, 'make', $job, '--split', $split, $parts{$n}, $tasks], name => 'make')->wait_exit(0);
  write_file("$job/finish", "cat task.*[a-z]/result | awk '{n += \$1} END {print \"solutions\", n}'\n");

  # Gates tell through `here`, and wait for a line through `go`; the test holds both open.
  mkfifo("$job/$_", 0600) or die "no FIFO: $!" for qw(here go);
  $self->{here} = $t->spawn(['sh', '-c', "exec cat <> '$job/here'"], name => 'gates');
  open $self->{go}, '+<', "$job/go" or die "go: $!";
  $self->{go}->autoflush(1);
  $self->{gates} = [map { int($tasks * $_ / 5) } 1 .. 4];
  for my $gate (@{ $self->{gates} }) {
    my $task = "$job/tasks/task.$gate";
    write_file($task, "echo gate $gate > '$job/here'; read line < '$job/go'; " . content($task));
  }
  $self->{master} = $self->master;
  $self->{workers} = [map { $self->worker } 1, 2];
  return $self;
}

sub name { my ($self, $what) = @_; return "$what " . ++$self->{names} }
sub master { my ($self) = @_; return $farm->run($self->{job}, opts => [-n => 1], name => $self->name('master')) }
sub worker { my ($self) = @_; return $farm->worker($self->{master}, $self->name('worker')) }

# Until a worker is there.
sub wait_for {
  my ($self, $worker) = @_;
  $worker->expect_event('opened') unless $worker->{opened}++;
}

# Takes the worker that has been there for longest, when it can be asked to leave.
sub take {
  my ($self) = @_;
  my $worker = shift @{ $self->{workers} };
  $self->wait_for($worker);
  push @{ $self->{workers} }, $self->worker;
  return $worker;
}

my %happens = (
  leave => sub {
    my $worker = $_[0]->take;
    $worker->signal('INT');
    $worker->wait_exit(0);
  },
  kill => sub {
    my $worker = $_[0]->take;
    $worker->kill_now;
    $worker->wait_exit(signal => 'KILL');
  },
  join => sub { push @{ $_[0]{workers} }, $_[0]->worker },
  master => sub {
    my ($self) = @_;
    $self->wait_for($_) for @{ $self->{workers} };
    $self->{master}->kill_now;
    $self->{master}->wait_exit(signal => 'KILL');
    $_->wait_exit(1) for @{ $self->{workers} };    # without their master they end
    $self->{master} = $self->master;
    $self->{workers} = [map { $self->worker } 1, 2];
  },
);

sub play {
  my ($n, $tasks) = @_;
  my $self = begin($n, $tasks);
  my @things = shuffle(sort keys %happens);
  for my $gate (@{ $self->{gates} }) {
    my $thing = shift @things;
    note("$n queens, gate $gate: $thing");
    # Gates may come in another order: a task that is fetched ahead waits for one that runs.
    $t->wait_until(sub { $self->{here}->out =~ /^gate $gate$/m }, "gate $gate");
    $happens{$thing}->($self);
    # Who comes too late cannot join any more.
    $self->wait_for($_) for @{ $self->{workers} };
    print { $self->{go} } "go\n";
  }
  # Each gate whose worker was taken away came again, and reads a line then.
  print { $self->{go} } "go\n" x 20;
  $_->wait_exit(0) for $self->{master}, @{ $self->{workers} };
  is(($self->{master}->out =~ /^solutions (\d+)$/m)[0], $solutions{$n}, "$n queens: $solutions{$n} solutions");
  my @versions = $farm->versions($self->{job});
  is(scalar @versions, $tasks, "$n queens: $tasks results");
  my %task = map { s/\.[a-z]+\z//r => 1 } @versions;
  is(scalar keys %task, $tasks, "$n queens: each of another task");
  my $directories = () = grep { -d } glob "$self->{job}/task.*";
  is($directories, $tasks, "$n queens: no other directory");
  $self->{here}->signal('TERM');
  $self->{here}->wait_exit(signal => 'TERM');
  $farm->nothing_left("$n queens");
}

play($_, 100) for $small ? (8, 12) : 8 .. 15;
if ($soak) {
  play($_, 100) for 16, 17;
  play($_, min(500, $parts{$_})) for 8 .. 17;
}
$t->done;
