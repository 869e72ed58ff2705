#!/usr/bin/perl
# tasks.t - DMI_farm_run (dmi_farm.h): each task is done, and its result there, by processes that come
# and go, are killed, or fail; wrong arguments; DMI_exit.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

# One of the results is too large for any memory: a sanitizer fails as malloc does.
$ENV{$_} = join ':', 'allocator_may_return_null=1', $ENV{$_} // () for qw(ASAN_OPTIONS TSAN_OPTIONS);
my $t = DMITest->new(timeout => 110, wait => 60);
my $program = $t->compile('test/multi/tasks_dmi.c');

sub begin {
  my ($what, $num, %opt) = @_;
  my @all = $t->start($program, args => [$what, $num], name => "$what 1", %opt);
  push @all, $t->start($program, join => $all[0], name => "$what $_") for 2 .. $num;
  return @all;
}

# What they check, and at least so many times.
for ([calls => 1, 20], [short => 3, 2000], [mixed => 2, 1000], [fails => 2, 2000], [large => 3, 80]) {
  my ($what, $num, $least) = @$_;
  my @all = begin($what, $num);
  $all[0]->expect_verdict($what, $least, @all[1 .. $#all]);
  like($all[0]->out, qr/^note 123$/m, 'a note of the program itself is passed on') if $what eq 'short';
}

# A task calls DMI_exit.
{
  my @all = begin('exit', 2);
  $all[0]->expect_out(qr/^verdict exit: \d+ checks, 0 failed$/m);
  $_->wait_exit(5) for @all;
}

# Opens the gate at which tasks wait.
sub gate {
  pipe my $reader, my $writer or die "no pipe: $!\n";
  $writer->autoflush(1);
  return ($reader, $writer);
}

# A process leaves while it has tasks, and another one comes meanwhile.
{
  my ($stdin, $open) = gate();
  my ($first, $second) = begin('long', 2, stdin => $stdin);
  $_->expect_out(qr/(?:^task \d+ begins\n){3}/m) for $first, $second;
  $second->signal('INT');
  my $third = $t->start($program, join => $first, name => 'long 3');
  $third->expect_out(qr/^task \d+ begins$/m);
  print $open "\n";
  $first->expect_out(qr/^goodbye 1!$/m);
  $first->expect_verdict('long', 13, $third);
  $second->wait_exit(0);
}

# It says for how many processes it waits before it begins, and once when nobody does tasks any more,
# although notices come meanwhile.
{
  my ($stdin, $say) = gate();
  my $first = $t->start($program, args => ['idle', 3], name => 'idle 1', stdin => $stdin);
  $first->expect_out(qr/^waiting to begin: 1 of 3 processes are there$/m);
  my $second = $t->start($program, join => $first, name => 'idle 2');
  $first->expect_out(qr/^waiting to begin: 2 of 3 processes are there$/m);
  my $third = $t->start($program, join => $first, name => 'idle 3');
  my @all = ($first, $second, $third);
  $_->expect_out(qr/(?:^task \d+ begins\n){3}/m) for @all;
  $_->signal('INT') for @all;
  print $say "left\n";
  $first->expect_out(qr/^note 1$/m);    # behind their notices
  print $say "open\n";
  $first->expect_out(qr/^waiting for a process to join$/m);
  like($first->out, qr/^\Q$_\E$/m, $_)
    for 'no tasks in 0 any more (it stays until the end)', 'goodbye 1!', 'goodbye 2!';
  for (1 .. 2) {
    print $say "note\n";
    $first->expect_out(qr/^note 1$/m);
  }
  my $last = $t->start($program, join => $first, name => 'idle 4');
  $last->expect_out(qr/^task \d+ begins$/m);
  print $say "end\n";
  $first->expect_verdict('idle', 13, $last);
  $_->wait_exit(0) for $second, $third;
  is(() = $first->out =~ /^waiting for a process to join$/mg, 1, 'it says once that it waits');
  is(() = $first->out =~ /^waiting to begin/mg, 2, 'and for each number before');
}

# One of three does not answer when the farm begins: the others work.
if (!DMITest::nodes()) {
  my ($stdin, $say) = gate();
  my $first = $t->start($program, args => ['stopped'], name => 'stopped 1', stdin => $stdin);
  my ($second) = my @others = map { $t->start($program, join => $first, name => "stopped $_") } 2, 3;
  $first->expect_out(qr/^three are there$/m);
  $second->stop;
  print $say "\n";
  $_->expect_out(qr/(?:^task \d+ begins\n){3}/m) for $first, $others[1];
  unlike($second->out, qr/^task/m, 'the stopped one has no task');
  $second->signal('CONT');
  $second->expect_out(qr/(?:^task \d+ begins\n){3}/m);
  print $say "\n";
  $first->expect_verdict('stopped', 13, @others);
}

# One asks to leave before the farm begins, without having been welcomed; so it is not one of the two
# that are waited for.
{
  my $first = $t->start($program, args => ['closed'], name => 'closed 1');
  my $second = $t->start($program, join => $first, name => 'closed 2');
  $second->expect_err(qr/joined/);
  $second->signal('INT');
  $first->expect_out(qr/^it wants to leave$/m);
  my $third = $t->start($program, join => $first, name => 'closed 3');
  $first->expect_verdict('closed', 1000, $third);
  $second->wait_exit(0);
}

# Two are killed before the farm begins.
if (!DMITest::nodes()) {
  my @survive = (opts => ['--survive', '--dead-after', 20]);
  my $first = $t->start($program, args => ['lost'], name => 'lost 1', @survive);
  my @killed = map { $t->start($program, join => $first, name => "lost $_", @survive) } 2, 3;
  $first->expect_out(qr/^three are there$/m);
  $_->kill_now for @killed;
  $_->wait_exit(signal => 'KILL') for @killed;
  $first->expect_out(qr/^two are lost$/m);
  my $last = $t->start($program, join => $first, name => 'lost 4', @survive);
  $first->expect_verdict('lost', 1000, $last);
}

# One is killed: its tasks, and results of which only it had the bytes, are done again.
if (!DMITest::nodes()) {
  my ($stdin, $open) = gate();
  my @survive = (opts => ['--survive', '--dead-after', 20]);
  my ($first, $second, $third) = begin('long', 3, stdin => $stdin, @survive);
  $_->expect_out(qr/(?:^task \d+ begins\n){3}/m) for $first, $second, $third;    # it has a result
  $second->kill_now;
  $first->expect_out(qr/^lost \d!$/m);
  print $open "\n";
  $first->expect_verdict('long', 13, $third);
  $second->wait_exit(signal => 'KILL');
  my %begun;
  $begun{$_}++ for map { $_->out =~ /^task (\d+) begins$/mg } $first, $second, $third;
  is(scalar keys %begun, 80, 'each task was begun');
  cmp_ok(scalar(grep { $_ > 1 } values %begun), '>', 0, 'those of the killed one twice');
}
$t->done;
