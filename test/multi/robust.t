#!/usr/bin/perl
# robust.t - processes are killed that hold a mutex, wait for a condition and at a barrier, or own the page
# of those that do, or all of the allocator: others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 240, wait => 60);
my @survive = (opts => ['--survive', '--dead-after', 10]);

# A program of so many processes, the first one with these arguments.
sub start {
  my ($program, $num, @args) = @_;
  my $first = $t->start($program, name => 'first', args => \@args, @survive);
  return ($first, map { $t->start($program, name => "more$_", join => $first, @survive) } 2 .. $num);
}

# The process that says this line.
sub who {
  my ($line, @all) = @_;
  my $found;
  $t->wait_until(sub { ($found) = grep { $_->out =~ /^$line$/m } @all; $found }, "one of them says: $line");
  return $found;
}

sub killed { my ($p) = @_; $p->kill_now; $p->wait_exit(signal => 'KILL') }

# All but those that were killed end, and nobody complains.
sub ends {
  my ($name, @all) = @_;
  $_->wait_exit(0) for @all;
  like($all[0]->out, qr{^verdict $name: \d+ checks, 0 failed$}m, 'nothing is wrong');
  is(join('', map { $_->out =~ /^(FAIL.*\n)/mg } @all), '', 'nobody complains');
}

sub but { my ($all, @killed) = @_; my %killed = map { $_ => 1 } @killed; return grep { !$killed{$_} } @$all }

# The owner of the page lives.
{
  my @all = start($t->compile('test/multi/robust_dmi.c'), 3);
  $all[0]->expect_out(qr/^kill$/m);
  my $victim = who('held', @all);
  my ($other) = but([@all[1, 2]], $victim);
  $other->expect_out(qr/^waits$/m);
  killed($victim);
  ends('robust', but(\@all, $victim));
}

# The owner of the page is killed: with another one, or that one while the others recover.
my $orphans = $t->compile('test/multi/orphans_dmi.c');
for my $case (['copy', 0], ['copy', 1], ['none', 0], ['none', 1]) {
  my ($copy, $later) = @$case;
  my @all = start($orphans, 4, $copy);
  $all[0]->expect_out(qr/^kill$/m);
  my @victims = (who('owner', @all), who('held', @all));
  my @living = but(\@all, @victims);
  my $before = $all[0]->events('view');
  $victims[0]->kill_now;
  $t->wait_until(sub { $all[0]->events('view') > $before }, 'a view without the first') if $later;
  killed($victims[1]);
  $victims[0]->wait_exit(signal => 'KILL');
  ends('orphans', @living);
}

# The owner of all pages of the allocator is killed.
{
  my ($first, @more) = start($orphans, 3, 'malloc');
  $_->expect_out(qr/^ready$/m) for @more;
  killed($first);
  ends('orphans', @more);
}
$t->done;
