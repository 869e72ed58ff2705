#!/usr/bin/perl
# valgrind.t - memcheck finds nothing wrong with two processes that read, write, compute in place,
# allocate and end: no value is used that nobody set, which the sanitizers of the other builds do not see.
#
# Skipped where valgrind is not installed, and in builds with sanitizers, which it cannot run.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my ($valgrind) = grep { -x } map { "$_/valgrind" } split /:/, $ENV{PATH} // '';
plan(skip_all => 'valgrind is not installed: apt-get install valgrind') unless $valgrind;
my $t = DMITest->new(timeout => 100, wait => 80);
my $program = $t->compile('test/multi/valgrind_dmi.c');
if (sanitized($program)) {
  $t->{done} = 1;
  plan(skip_all => 'valgrind cannot run programs with a sanitizer in them');
}

sub sanitized {
  open my $file, '<:raw', $_[0] or die "$_[0]: $!\n";
  local $/;
  return <$file> =~ /__(?:asan|tsan)_init/;
}

# What processes of the program say about memory is in their stderr.
my @memcheck = ($valgrind, '--error-exitcode=9', '--leak-check=full', '--errors-for-leak-kinds=definite',
  '--show-leak-kinds=definite', '--num-callers=20', '--quiet');
sub start {
  my ($name, %opt) = @_;
  my @join = $opt{join} ? (-i => '127.0.0.1', -p => $opt{join}->port) : ();
  return $t->spawn(["$t->{build}/bin/dmirun", @join, -l => 0, @memcheck, $program], name => $name);
}
my $first = start('first');
my $second = start('second', join => $first);
$first->expect_verdict('valgrind', 20, $second);
is(join('', map { grep { /^==\d+==/ } split /^/, $_->err } $first, $second), '', 'memcheck says nothing');
$t->done;
