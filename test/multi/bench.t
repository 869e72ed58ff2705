#!/usr/bin/perl
# bench.t - the programs of test/bench compile, and each runs at its smallest size and prints figures; and
# its scripts, which take long, are correct Perl.
#
# What the figures are, nobody looks at here.  Those written for MPI are left out where there is no Open MPI.
# Not in the small form: no sanitizer's library is to be measured.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../bench";
use DMITest;
use Mpi ();

my $t = DMITest->new(timeout => 180, wait => 60);
my $dir = $t->build . '/test/bench';
$ENV{BENCH_BATCHES} = 1;

# A target of the Makefile.
sub build {
  my ($target) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  my $said = qx{make -j2 -C @{[$t->build]} $target 2>&1};
  is($?, 0, "make $target") or $t->fail_now($said);
}

my $FIGURE = qr/^\w+ [\d.e+-]+ (?:ns|us|ms|s|x|pages|MB\/s|\/s|MiB)\b/m;

# Processes of a program, each named by $name, of which the first is given the arguments.
sub start {
  my ($name, $num, @args) = @_;
  my @all;
  push @all, $t->start("$dir/$name", name => "$name $_", @all ? (join => $all[0]) : (args => \@args)) for 1 .. $num;
  return @all;
}

sub ends_with {
  my ($figure, @all) = @_;
  $_->wait_exit(0) for @all;
  like($all[0]->out, $figure, $all[0]->name . ' prints a figure');
}

# ---- Scripts -----------------------------------------------------------------------------------

sub is_perl {
  my ($path) = @_;
  open my $file, '<', $path or $t->fail_now("$path: $!");
  return (<$file> // '') =~ /^#!.*perl/;
}

for my $script (grep { -f && is_perl($_) } glob "$FindBin::Bin/../bench/*") {
  local $SIG{CHLD} = 'DEFAULT';
  my $said = qx{perl -wc $script 2>&1};
  is($?, 0, "$script is correct Perl") or $t->fail_now($said);
}

build('bench-build');

# ---- Alone -------------------------------------------------------------------------------------

for (['raw_barrier'], ['raw_echo'], ['raw_memcpy'], ['raw_sealed'], ['raw_star', 2, 1], ['raw_stream'], ['seen_cost']) {
  my ($name, @args) = @$_;
  ends_with($FIGURE, $t->spawn(["$dir/$name", @args], name => $name));
}
ends_with(qr/^apart .*\ntogether .*\nfree .* us = /m, $t->spawn(["$dir/net_echo", 1], name => 'net_echo'));
$_->wait_exit(0) for start('bench_seen_dmi', 1, 1);    # callgrind counts its instructions

# ---- Processes that all end by themselves ------------------------------------------------------

ends_with($FIGURE, start('bench_group_dmi',  2));
ends_with($FIGURE, start('bench_many_dmi',   2, 8, 2));
ends_with($FIGURE, start('bench_ops_dmi',    2));
ends_with($FIGURE, start('bench_remote_dmi', 1, 1));
ends_with($FIGURE, start('bench_sync_dmi',   2, 2));
ends_with($FIGURE, start('bench_team_dmi',   2, 2, 2));
ends_with($FIGURE, start('bench_tree_dmi',   2, 2));
ends_with($FIGURE, start('bench_wide_dmi',   2, 2, 0, 1));
SKIP: {
  skip 'there is no C++ compiler', 1 if !-x "$dir/bench_cxx_dmi";
  $_->wait_exit(0) for start('bench_cxx_dmi', 1, 1);
}

# ---- Processes that come and go ----------------------------------------------------------------

{
  my ($first) = start('bench_join_dmi', 1, 1);
  my $second = $t->start("$dir/bench_join_dmi", name => 'bench_join_dmi 2', join => $first);
  $second->expect_event('opened');
  for ($second, $first) {
    $_->signal('INT');
    $_->wait_exit(0);
  }
}
{
  my ($first, $leaver) = start('bench_leave_dmi', 2);
  $leaver->expect_event('opened');
  my $reader = $t->start("$dir/bench_leave_dmi", name => 'bench_leave_dmi reader', join => $first);
  $reader->expect_out(qr/^ready$/m);
  $leaver->signal('INT');
  ends_with($FIGURE, $first, $leaver, $reader);
}
{
  my @all = start('bench_rescale_dmi', 2, 2, 1);
  $all[0]->expect_out(qr/^check_rescale_8 /m);
  $all[1]->signal('INT');
  ends_with(qr/^rescale /m, @all);
}
{
  my $first = $t->start("$dir/bench_crash_dmi", name => 'bench_crash_dmi 1', args => [2, 1], opts => ['--survive']);
  $first->expect_event('opened');
  my $victim = $t->start("$dir/bench_crash_dmi", name => 'bench_crash_dmi 2', join => $first);
  $victim->wait_exit(signal => 'KILL');
  ends_with($FIGURE, $first);
}

# ---- MPI ---------------------------------------------------------------------------------------

SKIP: {
  my @programs = (
    ['ops', $FIGURE, 'one-sided'], ['ops', $FIGURE, 'together'], ['team', $FIGURE, 'ranks'],
    ['lu', qr/^residual /m, 100, 10], ['jacobi', qr/^checksum /m, 16, 2],
    (map { [$_, qr/SUCCESSFUL/, 'S'] } qw(cg is ep)));
  skip 'no Open MPI (test/bench/setup installs it): programs for it are not compiled', 1 + @programs
    if system('command -v mpicc mpirun > /dev/null') != 0;
  build('bench-build-mpi');
  local $SIG{CHLD} = 'DEFAULT';
  for (@programs) {
    my ($name, $figure, @args) = @$_;
    my $text = eval { Mpi->new("$dir/mpi_$name")->run('tcp', \@args, 2) } // $@;
    like($text, $figure, "mpi_$name @args");
  }
}
$t->done;
