#!/usr/bin/perl
# symbols.t - what libdmi shows to the programs linked with it.
#
# The shared library exports what dmi_api.h declares and dmi_start, nothing else.  In the static one
# hidden symbols can be linked against, so all of its names must have our prefixes.
use strict;
use warnings;
use FindBin;
use Test::More;

my $build = $ENV{DMI_BUILD_DIR} // '.';
my $header = do {
  open my $file, '<', "$FindBin::Bin/../../include/dmi_api.h" or die "dmi_api.h: $!";
  local $/;
  <$file>;
};

# Names of functions and variables that a file defines for others.
sub defined_in {
  my ($nm, $file) = @_;
  my %names;
  for (`$nm --defined-only $file`) {
    my ($type, $name) = /^[0-9a-f]+ ([A-Z]) (\S+?)(?:@.*)?$/ or next;
    # Sanitizers add their own.
    $names{$name} = 1 unless $name =~ /^__|^_(?:init|fini|end|edata)$|\.(?:asan|tsan|ubsan)/;
  }
  return sort keys %names;
}

my @exported = defined_in('nm -D', "$build/.libs/libdmi.so");
ok(scalar @exported, 'libdmi.so exports something');
my %declared = map { $_ => 1 } $header =~ /\b(DMI_[a-z_]+|my_[a-z]+)\(/g;
ok($declared{DMI_mmap} && $declared{my_malloc}, 'dmi_api.h was understood');
is_deeply([grep { !$declared{$_} && $_ ne 'dmi_start' } @exported], [],
  'libdmi.so exports nothing that dmi_api.h does not declare');

my @static = defined_in('nm -g', "$build/.libs/libdmi.a");
ok(scalar(grep { $_ eq 'dmi_start' } @static), 'libdmi.a has dmi_start');
is_deeply([grep { !/^(?:dmi_|DMI_|my_malloc$|my_free$)/ } @static], [],
  'libdmi.a defines no name that a program might want for itself');

done_testing();
