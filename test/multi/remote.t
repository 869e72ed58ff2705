#!/usr/bin/perl
# remote.t - remote functions (dmi_remote.h): what a client can do and do wrong, by one process and
# several, that join, leave and are killed meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use POSIX ();

my $soak = ($ENV{DMI_TEST_SCALE} // '') eq 'soak';
my $t = DMITest->new(timeout => $soak ? 1800 : 180, wait => 60);
my $less = $t->scale eq 'small' ? 10 : 1;    # so many times fewer calls
my $program = $t->compile('test/multi/remote_dmi.c');

# Starts so many, of which the first is given $what and a number; all end well.  `awaits`: a file for which it goes on.
sub begin {
  my ($what, $num, $number, %opt) = @_;
  my $awaits = delete $opt{awaits};
  my $first = $t->start($program, args => [$what, $num, $number, $awaits // ()], name => "$what of $num", %opt);
  return $first, map { $t->start($program, join => $first, name => "$what $_ of $num", %opt) } 2 .. $num;
}

sub ends_well {
  my ($first, @others) = @_;
  $first->expect_out(qr/^good$/m);
  $_->wait_exit(0) for $first, @others;
  unlike($first->out, qr/wrong|FAILED/, $first->name . ': all is right');
}

for my $num (1 .. 3) {
  ends_well(begin('basic', $num, 0));
  ends_well(begin('places', $num, 0));
}

# ---- What goes wrong ---------------------------------------------------------------------------

{
  my ($first) = begin('outputs', 1, 0);
  $first->expect_out(qr/^sum 110$/m);
  $first->expect_out(qr/^bytes x x$/m);
  ends_well($first);
}
{
  my ($first) = begin('badinput', 1, 0);
  ends_well($first);
  my $good = () = $first->out =~ /: as it should be$/mg;
  is($good, 36, 'each wrong call has its error');
}
for my $num (1, 2) {
  my @all = begin('failing', $num, 0);
  ends_well(@all);
  my @told = $all[0]->out =~ /^(\w+ on .*)$/mg;
  is_deeply(\@told, [
    ('three on a host: three is too many') x 2,
    'asks on a host: the function asks for argument 2, counted from 0, but the call has 2',
    'asks on a host: argument 0, counted from 0, is a value, not an input',
    'asks on a host: argument 0, counted from 0, is a value of 4 bytes, not of 8'],
    "failures are told ($num)");
  like($all[0]->out, qr/^before: 2$/m, 'what was made before the failure is there');
}
if (!$t->nodes) { # which know each other's functions
  my @all = begin('unknown', 2, 0);
  ends_well(@all);
  like($all[0]->out, qr/^mine_\d+ on a host: this process has no remote function of that name$/m,
    'a function that one process does not know');
}
{
  my ($first) = begin('memory', 1, 0);
  ends_well($first);
  like($first->out, qr/the call needs \d+ MiB for its inputs and outputs/, 'a call that fits nowhere');
}
{
  my ($first) = begin('unclosed', 1, 0);
  ends_well($first);
  like($first->err, qr/a client of remote functions was not closed/, 'who does not close is told');
}
for my $num (1, 2) {
  my @all = begin('unread', $num, 0);
  ends_well(@all);
  like($all[0]->err, qr/2 calls .* have failed, and nobody has read why; the first: three on \S+: three is too many/,
    'failures that nobody has read are told');
  @all = begin('failing', $num, 0);
  ends_well(@all);
  unlike($all[0]->err, qr/nobody has read why/, 'but not others');
}
{
  my $waits = $t->start($program, args => ['basic', 2, 0], name => 'waits');
  $waits->expect_err(qr/DMI_client_open waits for 1 process more to join: 1 of 2 is there/);
  my $late = $t->start($program, join => $waits, name => 'waits late');
  ends_well($waits, $late);
}
# A process that ends while a function runs is cut off: no node of a process survives that.
for my $num ($t->nodes ? () : (1, 2)) {
  my @all = begin('ending', $num, 0);
  ends_well(@all);
}

# ---- What takes longer -------------------------------------------------------------------------

for my $num (1, 2) {
  my ($first, @others) = begin('nested', $num, $soak ? 16 : 12);
  my ($waited) = $first->expect_out(qr/^fib_wait (\d+)$/m);
  is($waited, $soak ? 987 : 144, 'functions that wait for statuses');
  my ($fib) = $first->expect_out(qr/^fib (\d+)$/m);
  is($fib, $soak ? 987 : 144, 'functions that call functions');
  my ($threads) = $first->expect_out(qr/^threads (\d+)$/m);
  # In the order in which they come, there would be one for each call that has calls of its own.
  cmp_ok($threads, '<', 100, 'the newest calls run first while others wait for them')
    if $num == 1 && !$soak && `nproc` <= 8;
  ends_well($first, @others);
}
# 600 KiB live at a time, of 400 MiB; the pools have 16 MiB.
ends_well(begin('freed', $_, $soak ? 20_000 : 2000 / $less, opts => [-s => '16M'])) for 1, 2;
ends_well(begin('large', $_, $soak ? 2000 : 100 / $less)) for 1 .. 3;
ends_well(begin('empties', $_, $soak ? 1_000_000 : 50_000 / $less)) for 1, 2;

# Calls and values are freed: memory does not grow with the number of calls.
if (!$t->nodes) {
  my $calls = $soak ? 1_000_000 : 200_000 / $less;
  my $many  = $t->compile('test/bench/bench_many_dmi.c');
  my $first = $t->start($many, args => [$calls, 2], name => 'many', opts => [-s => '16M']);
  my $second = $t->start($many, join => $first, name => 'many second', opts => [-s => '16M']);
  $first->expect_out(qr/^sum $calls$/m);
  $_->wait_exit(0) for $first, $second;
  my @grown = $first->out =~ /^many_peak_\d .* ([\d.]+) in most eighths$/mg;
  is(@grown, 2, 'both processes tell of their memory');
  diag($first->out) if $soak;
  # What is kept of each call, 10 bytes or more, would be seen in most eighths of them.  A sanitizer keeps freed memory for a while.
  open my $config, '<', $t->build . '/config.log' or die "config.log: $!\n";
  my $sanitized = grep { /^  \$.*--enable-sanitizer/ } <$config>;
  cmp_ok($_, '<', 10 * $calls / 8 / 2**20, "$_ MiB more in most eighths of $calls calls") for $sanitized ? () : @grown;
}

# ---- Who comes and goes ------------------------------------------------------------------------

my $steps = $soak ? 300 : 40;
# Processes may start and end slowly, so calls go on until all has been done.
my $done = $t->dir . '/done';
sub begin_chains {
  my ($num, @opt) = @_;
  unlink $done;
  return begin('chains', $num, $steps, awaits => $done, @opt);
}
sub done { open my $file, '>', $done or die "$done: $!\n" }
{
  my ($first) = begin_chains(1);
  $first->expect_out(qr/^begun$/m);
  my @late = map { $t->start($program, join => $first, name => "chains late $_") } 1, 2;
  $_->expect_event('opened') for @late;
  done();
  ends_well($first, @late);
}
{
  my ($first, @others) = begin_chains(3);
  $first->expect_out(qr/^begun$/m);
  $others[0]->signal('INT');
  $others[0]->wait_exit(0);
  my $late = $t->start($program, join => $first, name => 'chains late');
  $late->expect_event('opened');
  $others[1]->signal('INT');
  $others[1]->wait_exit(0);
  done();
  ends_well($first, $late);
}
{
  my ($first, @others) = begin_chains(2);
  $first->expect_out(qr/^begun$/m);
  $first->signal('INT');    # stays until its client is closed
  $first->expect_event('closed');
  done();
  ends_well($first, @others);
  $first->expect_event('dismissed');
}

# ---- Several clients, and leaves that meet calls -----------------------------------------------

ends_well(begin('elsewhere', 2, 5));
{
  my ($first) = begin('second', 1, 0);
  $first->expect_out(qr/^begun$/m);
  my $late = $t->start($program, join => $first, name => 'second late');
  ends_well($first, $late);
}
# A function that runs opens clients while its process is asked to leave.
{
  my ($first, $leaver) = begin('opening', 2, 1000);
  $leaver->expect_out(qr/^inside$/m);
  $leaver->signal('INT');
  $leaver->wait_exit(0);
  ends_well($first);
}
# The leave waits for the function, and is refused then, as a thread began.
if (!$t->nodes) {
  pipe my $reader, my $writer or die "no pipe: $!\n";
  my ($first, $leaver) = begin('refused', 2, 1000, stdin => $reader);
  $leaver->expect_out(qr/^inside$/m);
  $leaver->signal('INT');
  $leaver->expect_event('closed');
  syswrite $writer, "on\n";
  ends_well($first, $leaver);
}

# One node among several in a process cannot be killed.
if (!$t->nodes) {
  my @survive = (opts => ['--survive', '--dead-after', 10]);
  for my $kills (1, 2) {
    my ($first, @others) = begin_chains(4, @survive);
    $first->expect_out(qr/^begun$/m);
    $_->kill_now for @others[0 .. $kills - 1];
    $_->wait_exit(signal => 'KILL') for @others[0 .. $kills - 1];
    done();
    ends_well($first, @others[$kills .. $#others]);
  }
  my $first = $t->start($program, args => ['misfit', 2, 0], name => 'misfit',
    opts => [@{$survive[1]}, -s => '32M']);
  my $large = $t->start($program, join => $first, name => 'misfit large',
    opts => [@{$survive[1]}, -s => '256M']);
  $first->expect_out(qr/^begun$/m);
  $large->expect_out(qr/^fired$/m);
  $large->kill_now;
  $large->wait_exit(signal => 'KILL');
  ends_well($first);

  # A function that ends its process is named there, and not run for ever.
  my $named = qr/^dmi: remote function crashes \(call \d+ of client \S+\) ends this process: (.+)$/m;
  for my $exits (0, 1) {
    my ($first, @others) = begin('crashing', 4, $exits, @survive);
    $_->wait_exit($exits ? 3 : (signal => 'ABRT')) for @others;
    for my $other (@others) {
      is(($other->err =~ $named)[0], $exits ? 'it has called exit()' : 'SIGABRT', "$other->{name} names it");
    }
    ends_well($first);
    like($first->out, qr/^crashes on no host: 3 processes were lost with it \(call \d+\)/m, 'and the client');
    like($first->out, qr/^others: 1000$/m, 'other calls are done');
  }
  my ($ends, $crashed) = begin('crashing', 2, 0);
  $crashed->wait_exit(signal => 'ABRT');
  like($crashed->err, $named, 'the same without --survive');
  $ends->wait_exit(1);
  ($ends, $crashed) = begin('crashing', 2, 2);
  $crashed->wait_exit(signal => 'KILL');
  $ends->wait_exit(1);
  like($ends->err, qr/^dmi: process 1 was lost with calls for this one, of remote functions: (?:.*, )?crashes \(1\)/m,
    'one that dies without a word: the client names what it had');
}

{
  my ($first) = begin('async', 1, 0, opts => ['--on-error', 'print']);
  ends_well($first);
  like($first->err, qr/DMI_data_read, begun there, failed with DMI_EREMOTE, .* three: three is too many$/m,
    'a read that fails behind its call tells why');
}

# ---- What the compiler finds -------------------------------------------------------------------

# A call with these arguments, compiled where all warnings are errors.
sub compiles {
  my ($arguments) = @_;
  my $dir = $t->dir;
  open my $file, '>', "$dir/call.c" or die;
  print $file <<"END";
#include "dmi_remote.h"
DMI_REMOTE(f) { (void)call; }
void DMI_main(int argc, char **argv) {
  DMI_client_t *client;
  DMI_data_t d = {{0, 0}};
  int number = argc + !argv;
  DMI_client_open(&client, NULL);
  DMI_call(client, f$arguments);
  DMI_call_on(client, number, f$arguments);
  DMI_data_drop(client, d);
}
END
  close $file or die;
  my @command = ($t->build . '/bin/dmicc', qw(-Wall -Wextra -Werror -c), "$dir/call.c", -o => "$dir/call.o");
  local $SIG{CHLD} = 'DEFAULT';
  my $pid = fork // die;
  if (!$pid) {
    open STDERR, '>', "$dir/call.err";
    exec @command or POSIX::_exit(127);
  }
  waitpid $pid, 0;
  return $? == 0;
}
ok(compiles($_), "good: f$_") for '', ', DMI_IN(d)', ', DMI_OUT(&d, 4), DMI_INOUT(&d), DMI_VALUE(number), DMI_BYTES(&number, 4)';
ok(!compiles($_), "wrong: f$_") for ', d', ', &d', ', number', ', 2.5', ', DMI_OUT(&number, 4)', ', DMI_INOUT(d)', ', DMI_IN(&d)';

$t->done;
