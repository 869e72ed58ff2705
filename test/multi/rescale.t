#!/usr/bin/perl
# rescale.t - DMI_rescale: a team of threads is made anew when processes join, leave or are killed; what
# it computes is right, whatever happens.  Its own program, and the examples jacobi_dmi and cg_dmi.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 3600 : 170, wait => 100);
my $scale = $t->scale;
my $program = $t->compile('test/multi/rescale_dmi.c');
my @survive = ('--survive', '--dead-after', 20);

sub begin {
  my ($num, $name, $args, @opts) = @_;
  return $t->start_in_order($program, $num, name => $name, args => $args, opts => \@opts);
}

sub joins {
  my ($first, $num, $name) = @_;
  return map { $t->start($program, join => $first, name => "$name $_") } 1 .. $num;
}

# The program ends with this value; nothing was wrong in any process.
sub ends {
  my ($value, @all) = @_;
  like($all[0]->expect_out(qr/^value (.*)$/m), qr/^$value$/, $all[0]->name . ": DMI_rescale returns $value");
  $all[0]->expect_out(qr/^verdict rescale: \d+ checks, 0 failed$/m);
  for my $process (@all) {
    $process->wait_exit(0);
    unlike($process->out, qr/^FAIL/m, $process->name . ' complains of nothing');
  }
}

# Processes join and leave in the middle: the team has all sizes that were asked for.
{
  my @all = begin(3, 'changes', ['plain', 3, 2, 6, 10, 6]);
  $all[0]->expect_out(qr/^team 1: 6 threads from step 0, lost 0/m);
  push @all, joins($all[0], 2, 'joiner');
  $all[0]->expect_out(qr/^team \d+: 10 threads from step \d+, lost 0/m);
  $_->signal('INT') for @all[1, 2];
  $_->expect_event('left') for @all[1, 2];
  ends('7, errno -', @all);
}

# The process of DMI_main leaves the team; its DMI_rescale goes on.
{
  my @all = begin(2, 'main leaves', ['plain', 2, 2, 4, 2]);
  $all[0]->expect_out(qr/^team 1: 4 threads .*, rank 0 in 0$/m);
  $all[0]->signal('INT');
  $all[1]->expect_out(qr/^team 2: 2 threads .*, rank 0 in 1$/m);
  ends('7, errno -', @all);
}

# All are asked to leave: DMI_rescale says so, and the state is still there.
{
  my @all = begin(3, 'all leave', ['plain', 3, 1, 99]);
  $all[0]->expect_out(qr/^team 1: 3 threads/m);
  $_->signal('INT') for @all;
  ends('0, errno DMI_ELEAVING', @all);
}

# A joiner that leaves while it waits; two that are let in together.
{
  my @all = begin(2, 'judge', ['judge', 2, 1, 2, 4]);
  $all[0]->expect_out(qr/^team 1: 2 threads/m);
  my ($early) = joins($all[0], 1, 'early');
  $all[0]->expect_out(qr/^judge: 1 in, 0 out, 2$/m);
  $early->signal('INT');
  $early->wait_exit(0);
  push @all, joins($all[0], 2, 'joiner');
  $all[0]->expect_out(qr/^judge: 2 in, 0 out, 2$/m);
  $all[0]->expect_out(qr/^team 2: 4 threads/m);
  ends('7, errno -', @all);
}

# DMI_start_scale decides; DMI_rescale twice in one program; a team that begins anew by itself; a thread
# that returns early; calls that fail.
ends('7, errno -', begin(2, 'start', ['start', 2, 1, 2]));
ends('7, errno -', begin(2, 'again', ['again', 2, 2, 4]));
ends('8, errno -', begin(2, 'early', ['early', 2, 2, 4]));
ends('7, errno -', begin(1, 'wrong', ['wrong', 1, 1, 1]));
{
  my @all = begin(2, 'twice', ['twice', 2, 1, 2]);
  $all[0]->expect_out(qr/^value 7, errno -$/m);
  ends('7, errno -', @all);
}

# DMI_exit by a thread of the team.
{
  my @all = begin(2, 'exit', ['exit', 2, 2, 4]);
  $all[0]->expect_out(qr/^value 0, errno DMI_EEND$/m);
  $_->wait_exit(6) for @all;
  unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for @all;
}

# The program has no DMI_scaleunit.
{
  my $none = $t->start($t->compile('test/multi/rescale_none_dmi.c'), name => 'none');
  $none->expect_out(qr/^DMI_ENOFUNC$/m);
  $none->wait_exit(0);
  unlike($none->err, qr/DMI_rescale/, 'nothing is printed');
}

# Processes are killed: the others go on from what was stored.
if (!$t->nodes) {
  my @all = begin(4, 'killed', ['plain', 4, 2, 8, 6, 8, 4], @survive);
  $all[0]->expect_out(qr/^team 1: 8 threads/m);
  my $victim = splice @all, 2, 1;
  $victim->kill_now;
  $victim->wait_exit(signal => 'KILL');
  $all[0]->expect_out(qr/^team \d+: 6 threads from step \d+, lost 1/m);
  push @all, joins($all[0], 1, 'joiner');
  $all[0]->expect_out(qr/^team \d+: 8 threads/m);
  # One leaves while another one is killed.
  my ($leaver, $next) = splice @all, 1, 2;
  $leaver->signal('INT');
  $next->kill_now;
  $next->wait_exit(signal => 'KILL');
  $leaver->wait_exit(0);
  ends('7, errno -', @all);

  # One of the threads that live comes to a barrier only after the loss: it does not wait for those
  # that have given up.
  @all = begin(3, 'late', ['late', 3, 1, 2], @survive);
  $all[0]->expect_out(qr/^late$/m);
  my $last = pop @all;
  $last->kill_now;
  $last->wait_exit(signal => 'KILL');
  $all[0]->expect_out(qr/^team \d+: 2 threads from step 0, lost 1/m);
  ends('7, errno -', @all);

  # DMI_main's process has left the team, and the only one in it is killed: nobody is left who could
  # make a note.
  @all = begin(2, 'none left', ['plain', 2, 1, 99], @survive);
  $all[0]->expect_out(qr/^team 1: 2 threads/m);
  $all[0]->signal('INT');
  $all[1]->expect_out(qr/^team 2: 1 threads/m);
  $all[1]->kill_now;
  $all[1]->wait_exit(signal => 'KILL');
  ends('0, errno DMI_ELEAVING', $all[0]);
}

# An example, begun by 3 processes; 2 join and 2 leave in the middle.  Returns what the first one wrote.
sub changed {
  my ($name, $what, $threads, @args) = @_;
  my $example = $t->build . "/examples/${name}_dmi";
  my @all = $t->start_in_order($example, 3, args => [@args, 3, $threads], name => $name);
  my $line = sub { qr/^$_[0] threads begin after $what (\d+)$/m };
  $all[0]->expect_out($line->(3 * $threads));
  push @all, map { $t->start($example, join => $all[0], name => "$name joiner $_") } 1, 2;
  my ($joined) = $all[0]->expect_out($line->(5 * $threads));
  $_->signal('INT') for @all[1, 2];
  my ($left) = $all[0]->expect_out($line->(3 * $threads));
  cmp_ok($left, '>=', $joined, "$name: $what $joined, two have joined; $left, two have left");
  $_->expect_event('left') for @all[1, 2];
  $_->wait_exit(0) for @all;
  return $all[0]->out;
}

# The same results as those of a fixed team: jacobi to the last bit, cg as its verification demands.
if (!$t->nodes) {
  my @work = { small => [12, 20000], soak => [24, 60000] }->{$scale} // [16, 30000];
  for my $round (1 .. ($scale eq 'soak' ? 20 : 1)) {
    like(changed('jacobi', 'iteration', 2, @{ $work[0] }), qr/^correct$/m, "jacobi $round: correct");
    next if $scale eq 'small';    # with a sanitizer its smallest class takes a minute
    like(changed('cg', 'step', 1, 'A'), qr/VERIFICATION SUCCESSFUL$/m, "cg $round: verified");
  }
}
$t->done;
