#!/usr/bin/perl
# advertise.t - dmirun --advertise: others dial the address that a process names, and see it in
# DMI_nodes; and DMI_LOG, by which that is seen here: levels, the form of a line, nothing without it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/advertise_dmi.c');

# All of 127.0.0.0/8 is this machine, so each process can have an address of its own.  Returns the
# processes, ended.
sub three {
  my ($log, @advertise) = @_;
  my @processes;
  for my $i (0 .. 2) {
    push @processes, $t->start($program, name => "$i, log " . ($log // 'unset'),
      env => { DMI_LOG => $log },
      opts => [$advertise[$i] ? ('--advertise', $advertise[$i]) : ()],
      $i ? (join => $processes[0]) : ());
    $processes[$i]->expect_event('opened');
  }
  $processes[0]->expect_out(qr/verdict advertise: \d+ checks, 0 failed/);
  $_->wait_exit(0) for @processes;
  return @processes;
}

my ($first, $second, $third) = three('debug', map { "127.0.0.1$_" } 1, 2, 3);
is_deeply([$first->out =~ /^node (.*)$/mg], [map { "$_ 127.0.0.1" . ($_ + 1) } 0, 1, 2],
  'DMI_nodes knows each by the address that it names');
# The second and the third join the first at 127.0.0.1, as they were told.  Who of them dials whom is
# open.
my %at = map { $_->port => $_ == $second ? '127.0.0.12' : '127.0.0.13' } $second, $third;
my @dialled = map { [/debug net: connecting to (\S+) port (\d+)$/mg] } map { $_->err } $second, $third;
my @between = grep { !/ @{[$first->port]}$/ } map { my @d = @$_; map { "$d[2 * $_] $d[2 * $_ + 1]" } 0 .. @d / 2 - 1 } @dialled;
ok(scalar @between, 'the second and the third have connected');
is_deeply([grep { my ($host, $port) = split; $at{$port} ne $host } @between], [],
  "by the address that the other names: @between");

($first, $second, $third) = three('info', '127.0.0.11', '127.0.0.12');
like($first->out, qr/^node 2 (?!127)\S+$/m, 'who names none is known by its host name');
my $log = join '', map { $_->err } $first, $second, $third;

# Each line of the log has the form; there is one for each thing.
my @lines = grep { !/^===/ } split /\n/, $log;
my $form = qr{^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?:-|\d+)/[\w.-]+ (?:error|warn|info) \w+: \S.*$};
is_deeply([grep { !/$form/ } @lines], [], 'every line has the form');
like($first->err, qr{ -/127\.0\.0\.11 info start: \S+ listens on port \d+; }, 'start, by nobody yet');
like($second->err, qr{ 1/127\.0\.0\.12 info member: joined as member 2$}m, 'joined, as dmi_id 1');
like($first->err, qr{ 0/\S+ info member: member 3 is there: dmi_id 2 }, 'a view names who is new');
unlike($log, qr/ debug /, 'info shows no debug');

# A program that ends has closed its connections; one that is left, too.  Neither lost any.
my $closed = qr{info net: closed the connection with 127\.0\.0\.\d+ port \d+: };
unlike($log, qr/ info net: lost |unexpectedly/, 'a normal end loses nothing');
for my $process ($first, $second, $third) {
  my @ends = grep { /the connection with/ } split /\n/, $process->err;
  ok(scalar @ends, $process->name . ' says that it closed its connections');
  is_deeply([grep { !/$closed(?:this process ends|both sides have closed it)$/ } @ends], [], 'and why');
}
my $leaving = $t->compile('test/multi/cluster_dmi.c');
my @two = map { $t->start($leaving, env => { DMI_LOG => 'info' }, name => $_) } 'stays';
push @two, $t->start($leaving, env => { DMI_LOG => 'info' }, name => 'leaves', join => $two[0]);
$two[1]->expect_event('opened');
$two[1]->signal('INT');
$two[1]->wait_exit(0);
$two[0]->expect_err(qr/${closed}it has left$/m);
like($two[0]->err, qr/ info member: member 2 has left; its homes go to member 1$/m,
  'who stays says who has left, in order');
$two[0]->signal('INT');
$two[0]->wait_exit(0);
unlike(join('', map { $_->err } @two), qr/ info net: lost /, 'an orderly leave loses nothing');

my @lost = $t->start($leaving, env => { DMI_LOG => 'info' }, name => 'finds out');
push @lost, $t->start($leaving, name => 'is killed', join => $lost[0]);
$lost[0]->expect_out(qr/^members: 0 1$/m);    # the coordinator knows that it is welcome
$lost[1]->signal('KILL');
$lost[0]->expect_err(qr/ info net: lost the connection with 127\.0\.0\.1 port \d+: \S.*$/m);
$lost[0]->wait_exit(1);
$lost[1]->wait_exit(signal => 'KILL');

my @debug = three('debug');
like($debug[2]->err, qr{ 2/\S+ debug thread: thread 1 begins, created by member 1$}m, 'debug: threads');
like($debug[2]->err, qr{ debug net: connecting to 127\.0\.0\.1 port \d+$}m, 'and attempts');

for my $level (undef, 'off', 'error') {
  my @quiet = three($level);
  is_deeply([grep { !/^===/ } map { split /\n/, $_->err } @quiet], [],
    ($level // 'unset') . ': nothing');
}

my $wrong = $t->start($program, env => { DMI_LOG => 'loud' }, name => 'wrong level');
$wrong->expect_err(qr/\Admi: DMI_LOG=loud is not one of off, error, warn, info, debug$/m);
$wrong->wait_exit(2);
$wrong = $t->start($program, opts => ['--advertise', 'no.such.host.invalid'], name => 'wrong name');
$wrong->expect_err(qr/\Admi: cannot find host 'no\.such\.host\.invalid': .*--advertise/m);
$wrong->wait_exit(1);
$wrong = $t->start($program, opts => ['--advertise', 'fe80::1%lo'], name => 'link-local');
$wrong->expect_err(qr/\Admi: --advertise fe80::1%lo: that is a link-local address.*fd00::/m);
$wrong->wait_exit(1);
# What the user must see anyway is a line of the log when that is on.
$wrong = $t->start($program, opts => ['--advertise', 'no.such.host.invalid'],
  env => { DMI_LOG => 'error' }, name => 'wrong name, logged');
$wrong->expect_err(qr{^\S+Z -/- error start: cannot find host 'no\.such\.host\.invalid': }m);
$wrong->wait_exit(1);
unlike($wrong->err, qr/^dmi:/m, 'and not said twice');
$t->done;
