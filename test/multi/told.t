#!/usr/bin/perl
# told.t - dmirun --on-error: each call that fails has its line, with thread, place and reason; none else has.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/told_dmi.c');
my $plain = $t->dir . '/told_dmi';
if (!$t->nodes) {
  local $SIG{CHLD} = 'DEFAULT';
  system('strip', '--strip-debug', '-o', $plain, $program) == 0 or die "strip: $?\n";
}

# The lines of a process that are about calls.
sub lines {
  my ($process) = @_;
  return grep { /^dmi: / } split /\n/, $process->err;
}

# [line, function, text] of the calls that must have one.
sub wanted {
  my ($process) = @_;
  return $process->out =~ /^want (\d+) (\w+) (.*)$/mg;
}

# The thread that must be named: DMI_thread runs in one that DMI_create has made.
sub who {
  my ($function) = @_;
  return $function eq 'DMI_thread' ? qr/thread \d+ of process 0/ : qr/the thread of DMI_main of process 0/;
}

# Each of the lines beside what it must say; `place` makes a pattern of line and function.
sub compare {
  my ($process, $what, $place) = @_;
  my @lines = lines($process);
  my @wanted = wanted($process);
  my $bad = 0;
  is(scalar @lines, @wanted / 3 + 1, "$what: a line for each call that fails, and for no other one");
  like(pop @lines // '', qr/^dmi: DMI_function, in (?:the )?thread [^:]+ of process 0: .* DMI_rank failed with DMI_EINFUNC: /, "$what: inside DMI_function");
  for my $line (@lines) {
    my ($number, $function, $text) = splice @wanted, 0, 3;
    my ($who, $at) = (who($function), $place->($number, $function));
    $text =~ s/told_dmi/[.]so/ if $t->nodes;
    next if $line =~ /^dmi: $who: $at: DMI_\w+\b.* failed with DMI_E[A-Z]+, as .*$/ && $line =~ /$text/
      || $line =~ /^dmi: $who: $at: DMI_\w+\b.* failed with DMI_E[A-Z]+: ./ && $line =~ /$text/;
    $bad++;
    diag("$what: wanted $who: $at: $text\n   got $line");
  }
  is($bad, 0, "$what: each line says where and why");
  return;
}

# One process with these options; it ends by itself.
sub run {
  my ($name, $file, %options) = @_;
  my $process = $t->start($file, name => $name, %options);
  $process->expect_verdict('told', 50);
  return $process;
}

my $silent = run('silent', $program);
is(join("\n", lines($silent)), '', 'nothing is printed if nobody asks for it');

# DMI_error_reason tells what the line ends with, and the same when no line is printed.
sub reasons {
  my ($process) = @_;
  return $process->out =~ /^(reason [1-9]\d* .*)$/mg;
}

# With libdw: the line, or (a call over several) one next to it.
my $has_libdw = do {
  local $SIG{CHLD} = 'DEFAULT';
  `ldconfig -p 2>&1 || /sbin/ldconfig -p` =~ /\blibdw\.so\.1\b/;
};
my $by_file = sub {
  my ($number, $function) = @_;
  my $near = join '|', $number - 3 .. $number + 3;
  return qr/told_dmi\.c:(?:$near) \($function\b[^)]*\)/;
};
# Without debug information: what addr2line takes.
my $by_offset = sub {
  my ($number, $function) = @_;
  return qr/\S*told_dmi\S*\+0x[0-9a-f]+(?: in $function)? \((?:compile with -g|install libdw1) for the lines\)/;
};
# The file of a node's module is gone when it runs, and with it what is known of its places.
my $by_module = qr/\S+\+0x[0-9a-f]+.*?/;
compare(run('print', $program, opts => ['--on-error', 'print']), 'print',
  $t->nodes ? sub { $by_module } : $has_libdw ? $by_file : $by_offset);
my $printed = run('reasons', $program, opts => ['--on-error', 'print']);
my @reasons = reasons($printed);
cmp_ok(scalar @reasons, '>', 40, scalar(@reasons) . ' reasons are told when asked for');
# Nodes have files of their own.
my $of_any_node = sub { return [map { s/\bout\.n\d+\.so\b/out.so/r } @_] };
is_deeply($of_any_node->(reasons($silent)), $of_any_node->(@reasons), 'they are the same without --on-error');
my %lines = map { $_ => 1 } map { / failed with DMI_\w+: (.*)$/ } lines($printed);
is(join("\n", grep { !$lines{s/^reason \d+ //r} } @reasons), '', 'and are what the lines end with');
is(join(' ', $silent->out =~ /^reason 0 (.*)$/mg), join(' ', ('the global address is in no mapping, or nothing that is taken begins there') x 2),
  'of a call with a status that fails later: the sentence of its error');
if ($t->nodes) {
  $t->done;
  exit;
}
compare(run('environment', $plain, env => { DMI_ON_ERROR => 'print' }), 'without -g', $by_offset);

# What addr2line makes of it is the place.
my $offset_run = run('offset', $plain, opts => ['--on-error', 'print']);
SKIP: {
  local $SIG{CHLD} = 'DEFAULT';
  skip 'no addr2line', 1 unless `addr2line --version 2>&1` =~ /GNU/;
  my ($offset) = (lines($offset_run))[0] =~ /\+(0x[0-9a-f]+)/;
  my ($function) = (wanted($offset_run))[1];
  like(scalar `addr2line -f -e '$plain' $offset`, qr/^$function$/m, 'addr2line finds the function');
}

for my $which ('call', 'wait') {
  my $process = $t->start($program, name => "abort: $which", args => [$which],
    opts => ['--on-error', 'abort']);
  $process->wait_exit(signal => 'ABRT');
  my ($first, @trace) = lines($process);
  like($first, qr/ failed with DMI_EADDR/, "abort: $which: the line");
  my $end = shift @trace;
  like($end // '', qr/^dmi: SIGABRT ends .*: DMI_\w+\(.*\) failed with DMI_EADDR \(dmirun --on-error abort\)$/, 'and that this is the end, and why');
  is(scalar(grep { /failed with/ } @trace), 0, 'one line');
  unlike($process->out, qr/still here/, 'and no further');
}
$t->done;
