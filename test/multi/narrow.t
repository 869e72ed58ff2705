#!/usr/bin/perl
# narrow.t - dmirun --status, --threads and --profile in terminals (tmux) of several widths: no line goes beyond the
# edge; where they do not print to a terminal each line stays whole.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMITerminal;

plan skip_all => 'tmux is not installed' if DMITerminal::missing();
my $t = DMITest->new(timeout => 120);
my $dmirun = $t->build . '/bin/dmirun';
my $program = $t->compile('test/multi/see_dmi.c');
my $first = $t->start($program, args => ['crosswise'], opts => ['--dead-after', 0], name => 'first');
my $second = $t->start($program, join => $first, name => 'second');
$first->expect_out(qr/^begins \d+$/m);
my $at = '127.0.0.1:' . $first->port;

my $profile = $t->dir . '/prof';
open my $file, '>', $profile or die "$profile: $!";
print $file qq({"profile":"process","program":"1","member":1,"all":{"faults":5,"waits":5,"ns":5000000},"gone":0,"rest":{}}\n),
  qq({"profile":"place","program":"1","member":1,"call":"DMI_local_barrier_allreduce","place":"program.c:177 (iterate, inlined in work at program.c:201, in DMI_scaleunit at program.c:217)","mapping":"0x100000000","page_size":4096,"pages":[{"page":3,"surely":5}],"cost":{"faults":5,"waits":5,"ns":5000000}}\n);
close $file or die "$profile: $!";

# Until both threads wait, and each of the three has all that it can have.
my $look = sub { my $look = $t->spawn([$dmirun, @_, $at], name => 'look'); $look->wait_exit(0); return $look->out };
$t->wait_until(sub { $look->('--threads') =~ /^DEADLOCK/m && $look->('--status') =~ /^hottest/m }, 'a deadlock');

my %terminal = map { $_ => DMITerminal->new($t, $_, 120) } 60, 80, 200;
$_->run('unset DMI_EVENT_FD') for values %terminal;
my $number = 0;

# What a command shows at this width: the screen, with lines that go beyond the edge as they are.
sub shown {
  my ($width, $command) = @_;
  $number++;
  $terminal{$width}->run("clear; $command; echo end $number");
  $terminal{$width}->shows(qr/^end $number *$/m, "at $width columns: $command");
  return $terminal{$width}->whole;
}

for my $case (['status', "--status $at", qr/^process  by shm  in .*^mapping .*^    made by  +DMI_mmap at/ms], ['threads', "--threads $at", qr/^DEADLOCK: .*number\s+1\s+in\s+line/ms],
  ['profile', "--profile $profile", qr/^waited .*^    call  .*DMI_local_barrier_allreduce/ms]) {
  my ($name, $options, $wants) = @$case;
  for my $width (60, 80) {
    my $screen = shown($width, "$dmirun $options");
    like($screen, $wants, "$name: all is there");
    is(join('|', grep { length > $width } split /\n/, $screen), '', 'and no line goes beyond the edge');
  }
  like(shown(80, "$dmirun $options | cat"), qr/^(?:process  host  .* by shm .*|    waits for the lock .* number 1 in line|5\.0 ms .* 3: 100 %)$/m, "$name: lines stay whole in a pipe");
}
like(shown(200, "$dmirun --status $at"), qr/^process  host  .* by shm  .*\n0 .*\n1 .*\n\nmapping +page size .* made by\n/m, 'a wide terminal has one table for processes, and one for mappings');
like(shown(200, "COLUMNS=70 $dmirun --status $at"), qr/^process  by shm  /m, 'COLUMNS in the environment counts more than the terminal');

$t->kill_together($first, $second);
$_->close for values %terminal;
$t->done;
