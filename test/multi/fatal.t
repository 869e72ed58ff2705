#!/usr/bin/perl
# fatal.t - a process that ends by a signal says which thread it was, why, in which call of DMI, and
# from where; it ends by that signal all the same, and the program's own handlers count.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Handle;

my $t = DMITest->new(timeout => 100, wait => 30);
my $program = $t->compile('test/multi/fatal_dmi.c');
my $plain = $t->dir . '/fatal_plain';
{
  local $SIG{CHLD} = 'DEFAULT';
  system('strip', '--strip-debug', '-o', $plain, $program) == 0 or die "strip: $?\n";
}

# Sanitizers handle all of these signals but SIGABRT themselves.
my $sanitized = do {
  open my $file, '<:raw', $program or die "$program: $!\n";
  local $/;
  <$file> =~ /__(a|t)san_init/ ? $1 : '';
};
my $has_libdw = do {
  local $SIG{CHLD} = 'DEFAULT';
  `ldconfig -p 2>&1 || /sbin/ldconfig -p` =~ /\blibdw\.so\.1\b/;
};
my $names = $has_libdw && $sanitized ne 't';    # places by name

# What the process says of its end, after its own lines.
sub said {
  my ($process) = @_;
  my @lines = grep { !/^===/ } split /\n/, $process->err;
  return @lines;
}

# The first of these lines is this, the program's line is among the next ones.
sub explains {
  my ($process, $signal, $text, $what) = @_;
  my @said = said($process);
  shift @said while @said && $said[0] !~ /^dmi: SIG/;    # what assert() says, or --on-error
  my ($first, @trace) = @said;
  like($first // '', qr/^dmi: SIG$signal ends $text$/, "$what: why");
  my ($line, $function) = $process->out =~ /^line (\d+) (\w+)$/m;
  return 1 if !defined $line;
  return ok((grep { / came here from / } @trace) && (grep { /^\S+fatal_dmi\S*\(.*\)\[0x/ } @trace), "$what: from where")
    if !$names;
  like((grep { /^dmi:   / } @trace)[0], qr/^dmi:   fatal_dmi\.c:/, "$what: no functions of abort() above the program's") if $signal eq 'ABRT';
  my $near = join '|', $line + 1, $line + 2;
  like((grep { /^dmi:   / } @trace)[-1], qr/^dmi:   fatal_dmi\.c:\d+ \(DMI_(?:main|thread|function)\)$/, "$what: nothing below the program's first function")
    if $first =~ /thread of DMI_main|thread \d|DMI_function/ && $first !~ /is used up/;
  return like(join("\n", @trace), qr/^dmi:   fatal_dmi\.c:(?:$near) \($function\)$/m, "$what: from where");
}

my $main = qr/the thread of DMI_main of process 0/;
my @ways = $sanitized ? () : (
  [null => SEGV => qr/$main: there is nothing at address 0x0: a pointer is NULL/],
  [text => SEGV => qr/$main: the memory at address 0x[0-9a-f]+ may not be (?:written|used in this way)/],
  [global => SEGV => qr/$main: (0x[0-9a-f]+) is a global address, no pointer: .* \(page 1 of the mapping at 0x100000000\)/],
  [inside => SEGV => qr/$main: there is nothing at address 0x10: a pointer is NULL/],
  [nowhere => SEGV => qr/$main: a function was called at 0x10, where there is none/],
  [stack => SEGV => qr/$main: the stack of the thread is used up: .*/],
  [division => FPE => qr/$main: an integer was divided by zero/],
  [instruction => ILL => qr/$main: there is no such instruction/],
  [file => BUS => qr/$main: the memory at address 0x[0-9a-f]+ cannot be had: .*/]);
push @ways, [abort => ABRT => qr/$main: abort\(\) was called/],
  [asserts => ABRT => qr/$main: fatal_dmi\.c:\d+: asserts: Assertion `zero == 1 && "no zero"' failed/],
  [fails => ABRT => qr/$main: DMI_write\(0x5, 8 bytes\) failed with DMI_EADDR \(dmirun --on-error abort\)/, '--on-error', 'abort'],
  [fails_later => ABRT => qr/$main: DMI_read\(0x[0-9a-f]+, 8 bytes\) failed with DMI_ERANGE \(dmirun --on-error abort\)/, '--on-error', 'abort'],
  [sorts => ABRT => qr/$main: abort\(\) was called/],
  $sanitized ? () : [frees => ABRT => qr/$main: free\(\): double free detected in tcache 2/],
  [plain => ABRT => qr/thread fatal_dmi\S* of process 0: abort\(\) was called/];
for my $way (@ways) {
  my ($name, $signal, $text, @opts) = @$way;
  my $process = $t->start($program, args => [$name], name => $name, opts => \@opts);
  $process->wait_exit(signal => $signal);
  explains($process, $signal, $text, $name);
}

# What has said the places is not waited for like a child of the program.
{
  my $process = $t->start($program, args => ['unwaited'], name => 'unwaited');
  $process->wait_exit(signal => 'ABRT');
  explains($process, ABRT => qr/$main: abort\(\) was called/, 'unwaited');
  unlike($process->err, qr/^dmi: it came here from/m, 'unwaited: the places are said once') if $names;
}

# Another thread held a lock when the places were to be looked up: they are said all the same.
if ($names && !$sanitized) {
  my $process = $t->start($program, args => ['locked'], name => 'locked');
  $process->wait_exit(signal => 'ABRT');
  explains($process, ABRT => qr/$main: abort\(\) was called/, 'locked');
}

# In which call of DMI it was.
for my $process (grep { $_->name =~ /^(?:null|inside)$/ } @{ $t->{processes} }) {
  my $place = $names ? qr/fatal_dmi\.c:\d+ \(inside\)/ : qr/.*/;
  my @calls = grep { /^dmi: it is in / } said($process);
  $process->name eq 'null' ? is("@calls", '', 'null: it was in no call of DMI')
    : like("@calls", qr/^dmi: it is in DMI_read, called at $place$/, 'inside: in which call of DMI');
}

# In other threads, and of another process: that one is named there, too.
for my $who ([abort => 1, qr/thread 1 of process 1/], [asserts => 1, qr/thread 1 of process 1/],
  [fails => 1, qr/thread 1 of process 1/, '--on-error', 'abort'], [asks => 0, qr/DMI_function, in .* of process 0/],
  $sanitized ? () : [stack => 1, qr/thread 1 of process 1/]) {
  my ($way, $ends, $text, @opts) = @$who;
  my @all = ($t->start($program, args => [$way, 1], name => "$way 0"));
  push @all, $t->start($program, join => $all[0], name => "$way 1", opts => \@opts);
  my ($lost, $other) = @all[$ends, 1 - $ends];
  my $signal = $way eq 'stack' ? 'SEGV' : 'ABRT';
  $lost->wait_exit(signal => $signal);
  explains($lost, $signal => qr/$text: .*/, "$way, of two");
  $other->wait_exit(1);
  my ($thread) = "$text" =~ /(DMI_function|thread 1)/;
  my $pid = $lost->pid;
  my $place = !$names ? '' : $way eq 'stack' ? 'at fatal_dmi\.c:\d+ \(deep\)' : 'at fatal_dmi\.c:\d+ \((?:aborts|asserts|fails|DMI_function)\)';
  my $why = { abort => 'abort\(\) was called', asserts => 'fatal_dmi\.c:\d+: asserts: Assertion `zero == 1 && "no zero"\' failed',
    fails => 'DMI_write\(0x5, 8 bytes\) failed with DMI_EADDR \(dmirun --on-error abort\)' }->{$way} // '.+';
  like($other->err, qr/^dmi: lost process $ends \(\S+\): killed by SIG$signal \($why\) in $thread.* of pid $pid(?:, $place)?; this ends the program/m,
    "$way, of two: the other one says who is lost, by which signal, and where");
}

# Without debug information there are addresses, for addr2line.
{
  my $process = $t->start($plain, args => ['abort'], name => 'without -g');
  $process->wait_exit(signal => 'ABRT');
  like($process->err, $names ? qr/^dmi:   \S*fatal_plain\+0x[0-9a-f]+ in aborts$/m : qr/fatal_plain\(.*\)\[0x/,
    'without -g: addresses');
}

# The program's own handler, and processes that it makes.
if (!$sanitized) {
  my $handled = $t->start($program, args => ['handled'], name => 'handled');
  $handled->wait_exit(7);
  like($handled->out, qr/^own handler$/m, "the program's handler was called");
  is(join("\n", said($handled)), '', 'and nothing else was said');
}
my $forks = $t->start($program, args => ['forks'], name => 'forks');
$forks->expect_verdict('fatal', 1);
is(join("\n", said($forks)), '', 'a child of the program is not told about');

# A signal from outside.  Nobody reads what it writes, and its pipe is full: it ends nevertheless.
{
  pipe my $reader, my $writer or die "pipe: $!\n";
  my $shell = 'open STDERR, ">&", shift or die; exec @ARGV';
  fcntl $writer, 2, 0 or die "fcntl: $!\n";    # F_SETFD: kept by exec
  my $process = $t->spawn([$^X, '-e', $shell, fileno $writer, $t->build . '/bin/dmirun', -l => 0, $program, 'waits'],
    name => 'unread');
  $process->expect_out(qr/^waiting$/m);
  $writer->blocking(0);
  1 while syswrite $writer, 'x' x 4096;
  1 while syswrite $writer, 'x';
  $writer->blocking(1);
  $process->signal('ABRT', dies => 1);
  $process->wait_exit(signal => 'ABRT');
}
$t->done;
