#!/usr/bin/perl
# end.t - how programs end: by themselves, process by process, by signals, and with which status.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use Fcntl qw(O_RDWR O_NOCTTY);

my $t = DMITest->new(timeout => 80, wait => 20);
my $program = $t->compile('test/multi/end_dmi.c');

# The lines that a process showed, shortened: "initialized joined opened finalized".
sub shown { return join ' ', $_[0]->err =~ /^=== (\w+) ===$/mg }

sub verdict_of {
  my ($process) = @_;
  is(scalar $process->expect_out(qr/^verdict end: \d+ checks, (\d+) failed$/m), 0,
    $process->name . ': no check failed');
}

{
  my $alone = $t->start($program, args => ['return', 0], name => 'alone');
  $alone->wait_exit(0);
  is(shown($alone), 'initialized joined opened finalized', 'DMI_main returned: all is over');
}

{
  my $first = $t->start($program, args => ['return', 2], name => 'first');
  my @joiners = map { $t->start($program, join => $first, name => "joiner $_") } 1 .. 2;
  $_->wait_exit(0) for $first, @joiners;
  is(shown($first), 'initialized joined opened finalized', 'the first one ends by itself');
  is(shown($_), 'initialized joined finalized', $_->name . ', never welcomed, ends with it')
    for @joiners;
}

{
  my $first = $t->start($program, args => ['first'], name => 'first');
  my $second = $t->start($program, join => $first, name => 'second');
  $first->expect_out(qr/^returning$/m);
  $second->expect_event('opened');
  $first->signal('INT');
  $second->expect_out(qr/^first one gone$/m);
  $first->wait_exit(0);
  is(shown($first), 'initialized joined opened closed left finalized',
    'the first one leaves first');
  ok($second->running, 'the program goes on without it');
  my $third = $t->start($program, join => $second, name => 'third');
  $third->expect_out(qr/^a thread goes on$/m);
  verdict_of($second);
  $_->wait_exit(0) for $second, $third;
  is(shown($_), 'initialized joined opened finalized', $_->name . ' ends by itself')
    for $second, $third;
}

for my $signal (qw(INT TERM HUP)) {
  my $last = $t->start($program, args => ['last'], name => "last $signal");
  $last->expect_out(qr/^waiting$/m);
  $last->signal($signal);
  $last->expect_out(qr/^dismissed$/m);
  verdict_of($last);
  $last->wait_exit(0);
  is(shown($last), 'initialized joined opened closed left finalized',
    "the last process, asked by SIG$signal");
}

{
  my $first = $t->start($program, args => ['early'], name => 'first');
  my $joiner = $t->start($program, join => $first, name => 'joiner');
  $first->expect_out(qr/^asked to join$/m);
  $joiner->expect_event('joined');
  $joiner->signal('INT');
  $joiner->wait_exit(0);
  is(shown($joiner), 'initialized joined closed left finalized', 'leaves without being welcomed');
  verdict_of($first);
  $first->wait_exit(0);
}

{
  my $first = $t->start($program, args => ['all', 3], name => 'first');
  my @others = map { $t->start($program, join => $first, name => "other $_") } 1 .. 3;
  $first->expect_out(qr/^all there$/m);
  $_->signal('INT') for $first, @others;
  $first->expect_out(qr/^dismissed myself$/m);
  verdict_of($first);
  $_->wait_exit(0) for $first, @others;
  is(shown($_), 'initialized joined opened closed left finalized', $_->name . ' was dismissed')
    for $first, @others;
}

# What follows ends processes by force.
if ($t->nodes) {
  $t->done;
  exit;
}

{
  my $first = $t->start($program, args => ['stuck'], name => 'first');
  my $stuck = $t->start($program, join => $first, name => 'stuck');
  $stuck->expect_out(qr/^stuck$/m);
  $stuck->signal('INT');
  $stuck->expect_event('closed');
  $first->expect_out(qr/^busy$/m);
  is(join("\n", grep { /^dmi:/ } $stuck->complaints), '', 'the first Ctrl+C: no message');
  $stuck->signal('TERM') for 1 .. 3;
  my ($why, $pid) = $stuck->expect_err(qr/^dmi: this process was asked to leave, and waits: (.*); a second Ctrl\+C \(kill -INT (\d+)\) writes .* to a file, kill -KILL \2 ends this process at once, and the whole program with it$/m);
  is($why, 'DMI_goodbye failed for this process, as DMI threads ran here (DMI_EBUSY; dmirun --threads shows those that do)', 'after some seconds it says what it waits for');
  is($pid, $stuck->pid, 'and whom another signal is for');
  is($stuck->expect_event('stays')->{why}, $why, 'an event tells it, too');
  $stuck->signal('INT');
  ($why) = $stuck->expect_err(qr/^dmi: (still here.*)$/m);
  like($why, qr{DMI_goodbye|thread}, 'the second Ctrl+C says what it waits for');
  is(() = $stuck->err =~ /^dmi: still here/mg, 1, 'SIGTERM behind the first signal does not count');
  is(() = $stuck->err =~ /asked to leave, and waits/g, 1, 'the line after some seconds came once');
  ok($stuck->running, 'it goes on waiting');
  $stuck->signal('INT');
  $stuck->wait_exit(130);
  like($stuck->err, qr/^dmi: ended by Ctrl\+C$/m, 'the third Ctrl+C ends it, and says so');
  $first->wait_exit(1);
  like($first->err, qr/^dmi: .*lost/mi, 'the other one says that it lost a process');
  unlike($_->err, qr/finalized/, $_->name . ': not finalized') for $first, $stuck;
}

# A terminal that is closed: SIGHUP, and every write to it fails from then on (EIO).  Each of the two
# leaves as when asked by Ctrl+C; that is told by events, as nothing else can be.
{
  my ($unlock, $number_of, $own) = (0x40045431, 0x80045430, 0x540e);  # TIOCSPTLCK, TIOCGPTN, TIOCSCTTY
  sysopen my $terminal, '/dev/ptmx', O_RDWR | O_NOCTTY or die "/dev/ptmx: $!\n";
  my $number = pack 'i', 0;
  ioctl $terminal, $unlock, $number or die "TIOCSPTLCK: $!\n";
  ioctl $terminal, $number_of, $number or die "TIOCGPTN: $!\n";
  my $in_it = 'use POSIX; my ($name, $own) = splice @ARGV, 0, 2; POSIX::setsid();'
    . 'open STDIN, "+<", $name or die; ioctl STDIN, $own, 0 or die;'
    . 'open $_, ">&", \*STDIN or die for \*STDOUT, \*STDERR; exec @ARGV';
  my $inside = $t->spawn([$^X, '-e', $in_it, '/dev/pts/' . unpack('i', $number), $own,
      $t->build . '/bin/dmirun', -l => 0, $program, 'wait'], name => 'in a terminal');
  $inside->expect_event('opened');
  my $shown = '';
  1 while $shown !~ /^waiting\r?$/m && sysread $terminal, $shown, 4096, length $shown;
  like($shown, qr/^waiting\r?$/m, 'its output is in the terminal');
  close $terminal;
  $inside->expect_event('closed');
  $inside->expect_event('left');
  $inside->wait_exit(0);
  is($inside->out . $inside->err, '', 'and nowhere else');
}

# One that was never welcomed may be ended without harm, and says so.  Started with SIGHUP ignored, as
# by nohup, it does not hear that one: the first Ctrl+C is its first signal.
{
  my $first = $t->start($program, args => ['unwelcome'], name => 'first');
  my $joiner = $t->start($program, join => $first, name => 'not welcomed', ignore => ['HUP']);
  $joiner->expect_event('joined');
  $joiner->signal('HUP');
  $joiner->signal('INT');
  $joiner->expect_event('closed');
  $joiner->signal('INT');
  my ($why) = $joiner->expect_err(qr/^dmi: (still here.*)$/m);
  like($why, qr/not welcomed yet .* the next Ctrl\+C ends only this process/, 'what a third Ctrl+C would do');
  $first->expect_out(qr/^not answered$/m);    # else the request to leave may end with the process
  $joiner->signal('INT');
  $joiner->wait_exit(130);
  my $next = $t->start($program, join => $first, name => 'next');
  $_->wait_exit(0) for $first, $next;
  is(shown($_), 'initialized joined ' . ($_ == $first ? 'opened ' : '') . 'finalized',
    $_->name . ': the program went on')
    for $first, $next;
}

# A process that is lost ends the program: each of the others says which, and that this is the end.
for my $victim (0 .. 2) {
  pipe my $never, my $writer or die;
  my @all = $t->start($program, args => ['lost', 2], name => "first of $victim", stdin => $never);
  for my $number (1, 2) {
    push @all, $t->start($program, join => $all[0], name => "other $number of $victim");
    $all[$number]->expect_out(qr/^stuck$/m);    # so it has the id $number
  }
  $all[$victim]->signal('KILL');
  $all[$victim]->wait_exit(signal => 'KILL');
  for my $other (grep { $_ != $victim } 0 .. 2) {
    $all[$other]->wait_exit(1);
    my @lines = grep { !/^===/ } split /\n/, $all[$other]->err;
    is(scalar @lines, 1, $all[$other]->name . ': one line');
    like($lines[0], qr/^dmi: lost process $victim \(\S+\): .*; this ends the program in all/,
      $all[$other]->name . ': says who was lost, and what follows');
  }
}

for my $status (0, 3) {
  my $process = $t->start($program, args => ['exit', $status], name => "exit $status");
  $process->wait_exit($status);
}
$t->done;
