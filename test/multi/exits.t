#!/usr/bin/perl
# exits.t - threads that end by pthread_exit or pthread_cancel, and processes that end by exit, quick_exit,
# _exit or a third Ctrl+C while the program runs: what counts as returned, and what all are told of the rest.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 120);
my $program = $t->compile('test/multi/exits_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';

sub begin {
  my ($what, %opt) = @_;
  return $t->start($program, args => [$what], name => $what, %opt);
}

sub lines {
  my ($process, $regex) = @_;
  return scalar grep { /$regex/ } split /\n/, $process->err;
}

# ---- Threads -----------------------------------------------------------------------------------

{
  my $first = begin('threads');
  my $second = $t->start($program, join => $first, name => 'second');
  $first->expect_out(qr/^leave now$/m);
  $second->signal('INT');
  $first->expect_verdict('exits', 40, $second);
  is(scalar $_->events('thread_begun'), scalar $_->events('thread_ended'), $_->name . ': all threads have ended')
    for $first, $second;
  is(join("\n", grep { /^dmi: / } $_->complaints), '', $_->name . ': nothing to say') for $first, $second;
}

{
  my $main = begin('main');
  $main->expect_out(qr/^DMI_main ends$/m);
  $main->wait_exit(0);
  $main->shows('out', 'a thread goes on', 'handlers of atexit run') if $main->running;
  like($main->out, qr/^a thread goes on$/m, 'the program ends when its threads have');
  like($main->out, qr/^handlers of atexit run$/m, 'the process ends in order');
  is(scalar $main->events('finalized'), 1, 'and so does the program');
}

# ---- What has to return ------------------------------------------------------------------------

for (['function', 'DMI_function'], ['own', 'DMI_function'], ['remote', 'a remote function'], ['task', 'a task of a farm'],
  ['event', 'the event function of a farm'], ['scale', 'DMI_scaleunit'], ['init', 'DMI_init']) {
  my ($what, $name) = @$_;
  my $process = begin($what);
  $process->wait_exit(1);
  is(lines($process, qr/^dmi: \Q$name\E was left by pthread_exit or pthread_cancel \(.*\), so the process cannot go on: let it return$/),
    1, "$name: it says what is wrong");
}

# The page is at the second process.  Each knows why it ends.
{
  my $first = begin('far');
  my $second = $t->start($program, join => $first, name => 'far, second');
  $_->wait_exit(1) for $first, $second;
  my ($ends, $hears) = grep { lines($_, qr/DMI_function was left by .*let it return$/) } $first, $second;
  ok($ends, 'the one whose thread has ended says so');
  ($hears) = grep { $_ != $ends } $first, $second;
  like($hears->err, qr/^dmi: lost process \d \(\S+\): DMI_function was left by pthread_exit or pthread_cancel, in .* of pid \d+; this ends/m,
    'the other one knows why');
}

# ---- Ends of processes -------------------------------------------------------------------------

for (['exit', 3, 'exit(3) was called while the program ran', 'exit'], ['quick', 4, 'quick_exit() was called while the program ran', 'quick_exit']) {
  my ($what, $status, $why, $call) = @$_;
  my $first = begin($what);
  my $second = $t->start($program, join => $first, name => "$what, second");
  $second->wait_exit($status);
  my $pid = $second->pid;
  $first->wait_exit(1);
  like($first->err, qr/^dmi: lost process 1 \(\S+\): \Q$why\E, in thread 1 of pid $pid; this ends/m, 'the others know why');
  is($second->err =~ s/^===.*\n//mgr,
    "dmi: thread 1 of process 1 has called $call: for the other processes this one is lost; DMI_exit ends the program in order\n",
    'it says what to call');
}

# Nobody but who has started it knows.
{
  my $all = $t->spawn([$dmirun, -n => 2, -l => 0, '--tag', $program, '_exit'], name => '_exit');
  $all->wait_exit(1);
  is(lines($all, qr/^dmirun: [^:]*localhost\/2\b.* ended with status 5, while the program ran: it has called exit or _exit$/), 1,
    'dmirun says so');
}

# A status of 0 is no good end, either, if others need the process; it is no failure of a program that goes on.
for (['exit0', qr/; exit\(0\) was called while the program ran, in thread 1 of pid \d+/], ['_exit0', qr//]) {
  my ($what, $why) = @$_;
  my $all = $t->spawn([$dmirun, -n => 2, -l => 0, '--survive', $program, $what], name => $what);
  $all->wait_exit(0);
  like($all->out, qr/^it is lost$/m, "$what: the program goes on");
  is(lines($all, qr{^dmi: process 1 \(\S+ localhost/2\) is lost$why; the program goes on with 1 process$}), 1, 'which the others say once');
  is(lines($all, qr{^dmirun: process 1 \(localhost/2, pid \d+\) ended with status 0, while the program ran: it has called exit or _exit$}), 1,
    'and dmirun, how it has ended');
  is(lines($all, qr/^dmi(?:run)?: (?!process 1 |thread 1 )/), 0, 'and nothing else is said');
}
{
  my $all = $t->spawn([$dmirun, -n => 1, -l => 0, $program, 'alone'], name => 'alone');
  $all->wait_exit(0);
  is(lines($all, qr/^dmi/), 0, 'who is alone may end so');
}

# The third Ctrl+C.
{
  my $first = begin('wait');
  my $second = $t->start($program, join => $first, name => 'third, second');
  $second->expect_out(qr/^waits$/m);
  $second->signal('INT');
  $second->expect_err(qr/^=== closed ===$/m);
  $second->signal('INT');
  $second->expect_err(qr/^dmi: still here: /m);
  $second->signal('INT');
  $second->wait_exit(130);
  $first->wait_exit(1);
  my $pid = $second->pid;
  like($first->err, qr/^dmi: lost process 1 \(\S+\): ended at once by a third Ctrl\+C \(SIGINT\) to pid $pid; this ends/m, 'the others know why');
}

$t->done;
