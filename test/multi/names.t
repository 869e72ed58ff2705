#!/usr/bin/perl
# names.t - the system knows what each thread is for: its name, in a process with DMI_main and in
# another one.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/names_dmi.c');
my ($own) = substr((split m{/}, $program)[-1], 0, 15);
my $first = $t->start($program);
my $second = $t->start($program, join => $first);
$first->expect_verdict('names', 1, $second);

# Threads that a sanitizer made have no name of ours.
sub names {
  my ($process) = @_;
  my ($names) = $process->out =~ /^process \d+, (.*)$/m;
  return [grep { /^dmi-/ } split /, /, $names // ''];
}
sub main_name {
  return ($_[0]->out =~ /^main (.*)$/m)[0];
}
my @threads = map { "dmi-thread $_" } 1 .. 3;
for my $process ($first, $second) {
  is_deeply(names($process), ['dmi-daemon', 'dmi-pager', 'dmi-pulse', @threads], 'each of our threads has its name');
  is(main_name($process), $own, 'the main thread, and so the process, has the name of the program');
}
$t->done;
