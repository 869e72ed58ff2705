#!/usr/bin/perl
# top.t - dmirun --top in a terminal (tmux): processes come, go, and fall silent; keys sort, choose and show
# threads; the window gets another size; and the terminal is as before however it ends.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMITerminal;

plan skip_all => 'tmux is not installed' if DMITerminal::missing();
plan skip_all => 'the Perl module Curses is not installed' if !eval { require Curses; 1 };
my $t = DMITest->new(timeout => 150);
my $dmirun = $t->build . '/bin/dmirun';
my $program = $t->compile('test/multi/cluster_dmi.c');
my $first = $t->start($program, name => 'first', opts => ['--dead-after', 0]);
$first->expect_event('opened');
my @others = map { my $process = $t->start($program, join => $first, name => "other $_"); $process->expect_event('opened'); $process } 1, 2;

# ---- Refused ----------------------------------------------------------------------------------

sub refused {
  my ($why, %opt) = @_;
  my $process = $t->spawn([$dmirun, '--top', @{ $opt{args} // ['127.0.0.1:' . $first->port] }], name => 'refused', %opt);
  $process->wait_exit(2);
  like($process->err, qr/\Admirun: $why\n\z/, "refused: $why");
}
refused('--top: stdin and stdout must be a terminal; --status prints once');
refused('--top shows all of that by itself: [^\n]*', args => ['--json']);
mkdir $t->dir . '/without' or die;
open my $file, '>', $t->dir . '/without/Curses.pm' or die;
print $file "die qq(not here\\n);\n";
close $file;
refused('--top needs the Perl module Curses \(Debian: libcurses-perl\)', env => { PERL5LIB => $t->dir . '/without' });

# ---- What it shows ----------------------------------------------------------------------------

my $terminal = DMITerminal->new($t, 140, 20);
my $show = sub { my ($asked) = @_; $terminal->run("stty -a > modes; $dmirun --top 127.0.0.1:" . $asked->port . '; echo "status $?"') };
my $row = sub { my ($process, $rest) = @_; return qr/^$process +\S+ +$rest/m };
$terminal->run('cd ' . $t->dir . '; echo before');
$show->($first);
$terminal->shows(qr/^program: \S+cluster_dmi \(asked at \S+:@{[$first->port]}\) *\n3 processes, \d+ cores?, \d+ threads?; pools: \S+ \S+ of 6\.0 GiB; /, 'which program, and all together');
# The terminal may be too narrow for the last one, if much is sent.
my $screen = $terminal->shows(qr/^process v  host +state +threads +waits +faults\/s +in\/s +out\/s +pool used +of/m, 'titles');
$terminal->shows($row->(0, qr/member, first +\d+ +\S+ .* \d+ s +\d+ *$/m), 'the first process');
$terminal->shows($row->($_, qr/member +\d+ +\S+ .* \d+ s +\d+ *$/m), "process $_") for 1, 2;
unlike($screen, qr/before/, 'nothing else is there');

my $fourth = $t->start($program, join => $first, name => 'fourth');
$terminal->shows($row->(3, 'member'), 'another one comes');
$fourth->signal('INT');
$fourth->wait_exit(0);
$terminal->shows(qr/^3 processes(?!.*^3 )/ms, 'and goes');

# ---- Keys -------------------------------------------------------------------------------------

$terminal->keys('r');
$terminal->shows(qr/^process \^ .*^2 .*^1 .*^0 /ms, 'r: the other way round');
$terminal->keys('>', 'r');
$terminal->shows(qr/^process  host v .*^0 .*^1 .*^2 /ms, '>: by the next column');
$terminal->keys('<', 'r', 'r');
$terminal->keys('Down', 'Enter');
$terminal->shows(qr/^process 1 \(\S+, pid @{[$others[0]->pid]}\) *$/m, 'the threads of the second one');
$terminal->keys('b');
$terminal->keys('Up', 'Up', 'Enter');
$terminal->shows(qr/^process 0 \(\S+, pid \d+\) *\n  DMI_main in DMI_poll at cluster_dmi\.c:\d+ \(DMI_main\), for .*\n    waits for a notice/m, 'those of the first one');
$terminal->resize(40, 12);
$terminal->shows(qr/^  DMI_main in DMI_poll at *\n {6}cluster_dmi\.c:\d+ \(DMI_main\)/m, 'long lines are folded');
$terminal->keys('m');
$terminal->shows(qr/^mapping +page size|^no mappings/m, 'the mappings, from there');
$terminal->keys('b', 'm');
$terminal->shows(qr/^mapping +page size|^no mappings/m, 'and from the processes');
$terminal->keys('b');

# Columns that a narrow window has no room for.
$terminal->resize(60, 20);
my $narrow = $terminal->shows(qr/^process v  host .*^q: end  enter: threads  m: mappings  left\/right: columns *\n<\/>: sort  r: reverse  up\/down: choose *\n?\z/ms, 'a narrow window has all keys');
unlike($narrow, qr/ pid/, 'but not all columns');
$terminal->keys(('Right') x 15);
$terminal->shows(qr/^process v  (?!host).*pid *$/m, 'right: up to the last one');
$terminal->keys(('Left') x 15);
$terminal->shows(qr/^process v  host /m, 'left: back to the first one');

# ---- Another size -----------------------------------------------------------------------------

# With a single column, what curses does for the last corner of a screen leaves it empty now and then.
$terminal->resize(1, 1);
for my $size ([30, 6], [2, 1], [200, 50], [100, 4], [140, 20]) {
  my ($width, $height) = @$size;
  $terminal->resize($width, $height);
  my $last = $width < 6 ? substr 'q: end', 0, $width : $width == 30 ? 'q: end  enter: threads'
    : 'q: end  enter: threads  m: mappings  left/right: columns  </>: sort  r: reverse  up/down: choose';
  $terminal->shows(qr/\A(?:[^\n]*\n){@{[$height - 1]}}\Q$last\E *\n?\z/, "a window of $width columns and $height lines");
}

# ---- Silent processes -------------------------------------------------------------------------

$others[0]->stop;
$terminal->shows($row->(1, 'SILENT'), 'a process that is stopped');
$others[0]->signal('CONT');
$terminal->shows($row->(1, 'member'), 'and goes on');
$first->stop;
$terminal->shows(qr/^no answer for \d+\.\d s: the process that is asked may be stopped/m, 'the process that is asked is stopped');
$terminal->keys('Down');    # keys do all the same
$first->signal('CONT');
$terminal->shows(qr/\A(?!.*no answer).*^0 /ms, 'and goes on');

# ---- However it ends --------------------------------------------------------------------------

# The screen has what was there before, and the terminal its modes.  What is typed before the shell asks
# for it is shown too early, and moves what comes next.
my $number = 0;
my $restored = sub {
  my ($status, $what) = @_;
  my $screen = $terminal->shows(qr/^status $status *\nready> *$/m, "$what: status $status");
  like($screen, qr/\A[^\n]*\n?[^\n]*before/, "$what: the screen is as before");
  $terminal->run('stty -a | cmp - modes && echo same modes ' . ++$number);
  $terminal->shows(qr/^same modes $number *$/m, "$what: and so is the terminal");
  $terminal->run('clear; echo before');
  $terminal->shows(qr/\A(?!.*status).*before/s);
};
# The two processes: the one that waits, and the one that draws.
my $pids = sub { return DMITerminal->pids('127.0.0.1:' . $first->port) };
my $up = sub { $terminal->shows(qr/^3 processes/m, 'it is there') };

$terminal->keys('q');
$restored->(0, 'q');
$show->($others[1]);
$up->();
$terminal->keys('C-c');
$restored->(130, 'Ctrl+C');
for my $case (['TERM', 0, 143], ['TERM', 1, 143], ['HUP', 0, 143], ['KILL', 1, 137]) {
  my ($signal, $which, $status) = @$case;
  $show->($first);
  $up->();
  kill $signal => ($pids->())[$which];
  $restored->($status, "SIG$signal to " . ($which ? 'the process that draws' : 'the one that waits'));
}
$show->($first);
$up->();
my ($waits, $draws) = $pids->();
my $end = DMITest::end_of($draws);
kill KILL => $waits;
ok($end->(20 * ($ENV{DMI_TEST_SLOW} || 1)), 'SIGKILL to the one that waits: the other one ends, too');
# What the shell wrote meanwhile (status 137) may have been on the other screen.
$terminal->run('clear; echo before; echo "status again"');
$restored->('again', 'then');

# The process that is asked leaves: another one is asked.
$show->($others[1]);
$up->();
$others[1]->signal('INT');
$others[1]->wait_exit(0);
$terminal->shows(qr/^program: \S+ \(asked at \S+:(?:@{[$first->port]}|@{[$others[0]->port]})\) *\n2 processes/m, 'another one is asked when that leaves');
$terminal->keys('q');
$restored->(0, 'q');

# The program ends.
$show->($first);
$terminal->shows(qr/^2 processes/m, 'it is there');
$first->signal('INT');
$others[0]->signal('INT');
$terminal->shows(qr/^dmirun: the program at \S+:\d+ has ended *$/m, 'the end of the program is said');
$restored->(0, 'the program ends');
$_->wait_exit(0) for $first, @others;
$show->($first);
$terminal->shows(qr/^dmi: no DMI program listens at/m, 'nobody is there');
$restored->(1, 'nobody to ask');
# The process that is asked is killed, and the program goes on.
{
  my $survives = $t->start($program, name => 'survives', opts => ['--survive']);
  my @more = map { my $process = $t->start($program, join => $survives, name => "more $_"); $process->expect_event('opened'); $process } 1, 2;
  $show->($more[0]);
  $up->();
  $more[0]->kill_now;
  $more[0]->wait_exit(signal => 'KILL');
  $terminal->shows(qr/\(asked at \S+:(?:@{[$survives->port]}|@{[$more[1]->port]})\) *\n2 processes/m, 'another one is asked when that is killed');
  $_->signal('INT') for $more[1], $survives;
  $terminal->shows(qr/^dmirun: the program at \S+:\d+ has ended *$/m, 'then it ends');
  $restored->(0, 'then');
  $_->wait_exit(0) for $more[1], $survives;
}
# Two mutexes crosswise are told of on the first screen, without a key; the program encrypts all.
{
  my $hangs = $t->start($t->compile('test/multi/see_dmi.c'), args => ['crosswise'], opts => ['--dead-after', 0, '--encrypt'], name => 'hangs');
  my $other = $t->start($t->compile('test/multi/see_dmi.c'), join => $hangs, name => 'other');
  $hangs->expect_out(qr/^begins \d+$/m);
  DMITest::write_key($t->dir . '/other-key');
  $terminal->run("$dmirun --top --key other-key 127.0.0.1:" . $hangs->port . '; echo "status $?"');
  $terminal->shows(qr/^dmi: [^\n]*key/m, 'another key: that is said');
  $restored->(1, 'another key');
  $show->($hangs);
  my $thread = qr/(?:DMI_main|thread \d+) of process \d \(/;
  $terminal->shows(qr/\A[^\n]*\n2 processes,[^\n]*\nDEADLOCK: $thread.* and $thread.* wait for each other/s, 'a deadlock');
  $terminal->shows($row->($_, qr/member.* +\d+ +1 lock +/), "for what threads of process $_ wait") for 0, 1;
  $terminal->keys('Enter');
  $terminal->shows(qr/^DEADLOCK: none of these threads can go on *$/m, 'and who waits for whom');
  $terminal->keys('q');
  $t->kill_together($hangs, $other);
}
# So is a barrier to which nobody is left who could come.
{
  my $hangs = $t->start($t->compile('test/multi/see_dmi.c'), args => ['few'], opts => ['--dead-after', 0], name => 'few');
  my $other = $t->start($t->compile('test/multi/see_dmi.c'), join => $hangs, name => 'few, other');
  $hangs->expect_out(qr/^begins \d+$/m);
  $terminal->run('clear');
  $show->($hangs);
  $terminal->shows(qr/\A[^\n]*\n2 processes,[^\n]*\nDEADLOCK: nobody is left who could come to the barrier at 0x\w+ .*: 2 of 3\s+have come, .*\(enter: why\) *\nprocess v/s, 'a barrier that is never reached');
  $terminal->keys('q');
  $t->kill_together($hangs, $other);
}
$terminal->close;
$t->done;
