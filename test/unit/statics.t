#!/usr/bin/perl
# statics.t - no variable outside of struct dmi_process belongs to a node: the variables of the OS
# process, and those of threads, are in the files that docs/architecture.md names for that ("What is
# of the instance, what of the OS process").
#
# It looks at .data, .bss, .tdata and .tbss of the object files.  A file that has a variable and is
# not named is an error, and so is one that is named and has none.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $build = $ENV{DMI_BUILD_DIR} // '.';
`objdump --version 2>&1` or plan skip_all => 'no objdump (binutils)';

# file (folder/name) => { process => [variables], thread => [...] }, by what objdump -t prints for it.
sub variables {
  my ($table) = @_;
  my %found;
  for (split /\n/, $table) {
    # Sections of a sanitizer, and constants with addresses in them, are none.
    my ($section, $name) = /^[0-9a-f]+ .{7} (\.t?(?:data|bss)\S*)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$/
      or next;
    next if $section =~ /rel\.ro|asan/ || $name =~ /^(?:\.|__)/;
    push @{ $found{ $section =~ /^\.t/ ? 'thread' : 'process' } }, $name =~ s/\.\d+$//r;
  }
  return \%found;
}

# What is wrong: %$has as above for each file, %$named{process, thread}{file}.
sub faults {
  my ($has, $named) = @_;
  my @faults;
  for my $kind (qw(process thread)) {
    for my $file (sort keys %$has) {
      my $names = $has->{$file}{$kind} or next;
      push @faults, "$file has @$names of the $kind" if !$named->{$kind}{$file};
    }
    push @faults, map { "$_ has nothing of the $kind" } grep { !$has->{$_}{$kind} } sort keys %{ $named->{$kind} };
  }
  return @faults;
}

# ---- The checks notice -------------------------------------------------------------------------

my $bss = "0000000000000008 l     O .bss\t0000000000000008 total\n";
my $tls = "0000000000000000 g       .tbss\t0000000000000008 .hidden dmi_mine.1\n";
my $constant = "0000000000000000 l     O .data.rel.ro.local\t0000000000000028 names\n"
  . "0000000000000000 l    d  .bss\t0000000000000000 .bss\n0000000000000000 l     O .rodata\t04 x\n";
is_deeply(variables($bss . $tls . $constant), { process => ['total'], thread => ['dmi_mine'] },
  'variables are told from constants');
is_deeply([faults({ 'a/b' => variables($bss) }, {})], ['a/b has total of the process'], 'one is noticed');
is_deeply([faults({ 'a/b' => variables($tls) }, { process => { 'a/b' => 1 } })],
  ['a/b has nothing of the process', 'a/b has dmi_mine of the thread'], 'one of a thread is noticed');
is_deeply([faults({ 'a/b' => variables($bss) }, { process => { 'a/b' => 1 } })], [], 'one that is named');

# ---- The library -------------------------------------------------------------------------------

open my $page, '<', "$top/docs/architecture.md" or die $!;
my $text = join '', <$page>;
my ($section) = $text =~ /^## What is of the instance.*?\n(.*?)^## /ms or die 'no such section';
my ($process, $thread) = split /^Of a thread are/m, $section;
# What a build may do without: the order of locks in debug builds.
my %named = (process => {}, thread => {});
$named{process}{$_} = 1 for $process =~ m{`(\w+/\w+)`}g;
$named{thread}{$_} = 1 for $thread =~ m{`(\w+/\w+)`}g;
my %has;
for my $source (glob "$top/lib/*/*.c") {
  my ($file) = $source =~ m{(\w+/\w+)\.c$};
  next if !-e "$build/lib/$file.o";
  $has{$file} = variables(scalar `objdump -t $build/lib/$file.o`);
}
cmp_ok(scalar keys %has, '>', 100, 'the object files are there');
delete $named{thread}{'base/lock'} if !$has{'base/lock'}{thread};    # not in builds without --enable-debug
is(join("\n", faults(\%has, \%named)), '', 'variables are where docs/architecture.md says');
done_testing();
