#!/usr/bin/perl
# symbols.t - what libdmi shows to the programs linked with it.
# Not in the small form: what it tests is the shared library, which is not built with sanitizers.
#
# The shared library exports what dmi_api.h, dmi_ext.h, dmi_farm.h, dmi_remote.h and dmi_team.h declare and dmi_start: all of it, and nothing else.  In
# the static one hidden symbols can be linked against, so all of its names must have our prefixes.
use strict;
use warnings;
use FindBin;
use Test::More;

my $build = $ENV{DMI_BUILD_DIR} // '.';
my $header = join '', map {
  open my $file, '<', "$FindBin::Bin/../../include/$_" or die "$_: $!";
  local $/;
  <$file>;
} qw(dmi_api.h dmi_ext.h dmi_farm.h dmi_remote.h dmi_team.h);

# Names of functions and variables that a file defines for others.
sub defined_in {
  my ($nm, $file) = @_;
  my %names;
  for (`$nm --defined-only $file`) {
    # A: the name of a version, not a symbol.
    my ($type, $name) = /^[0-9a-f]+ ([B-Z]) (\S+?)(?:@.*)?$/ or next;
    # Sanitizers add their own.
    $names{$name} = 1 unless $name =~ /^__|^_(?:init|fini|end|edata)$|\.(?:asan|tsan|ubsan)/;
  }
  return sort keys %names;
}

my @exported = defined_in('nm -D', "$build/.libs/libdmi.so");
ok(scalar @exported, 'libdmi.so exports something');
# Comments may show calls of the user's own functions; what the program defines is not the library's.
my $code = $header =~ s{/\*.*?\*/}{}gsr =~ s/^\s*#.*//mgr;
my %declared = map { $_ => 1 } $code =~ /\b(DMI_[a-z_]+|my_[a-z]+)\(/g;
ok(delete @declared{qw(DMI_main DMI_thread DMI_function DMI_recover DMI_init DMI_farm_task
  DMI_scaleunit DMI_start_scale DMI_judge_rescale)}, 'dmi_api.h names what a program defines');
is_deeply([@exported], [sort keys %declared, 'dmi_start'],
  'libdmi.so exports what the headers declare, and dmi_start');
like(scalar `readelf -d $build/.libs/libdmi.so`, qr/SONAME.*\[libdmi\.so\.\d+\]/, 'it has a soname');
is_deeply([grep { !/\@\@DMI_\d+$/ } map { /^[0-9a-f]+ T (\S+)/ } `nm -D --defined-only $build/.libs/libdmi.so`],
  [], 'each of its functions has a version');

# The Debian package says the same versions.
my ($changelog, $symbols) = map {
  open my $file, '<', "$FindBin::Bin/../../debian/$_" or die "$_: $!";
  local $/;
  <$file>;
} qw(changelog libdmi0.symbols);
my ($version) = $header =~ /^#define DMI_VERSION "(.*)"/m;
like($changelog, qr/\Admi \(\Q$version\E[)-]/, "debian/changelog begins with $version");
my ($soname) = `readelf -d $build/.libs/libdmi.so` =~ /SONAME.*\[libdmi\.so\.(\d+)\]/;
like($symbols, qr/\Alibdmi\.so\.$soname libdmi$soname .*\n \(symver\)DMI_$soname /,
  "the package of the library has its soname's number, $soname");

my @static = defined_in('nm -g', "$build/.libs/libdmi.a");
ok(scalar(grep { $_ eq 'dmi_start' } @static), 'libdmi.a has dmi_start');
is_deeply([grep { !/^(?:dmi_|DMI_|my_malloc$|my_free$)/ } @static], [],
  'libdmi.a defines no name that a program might want for itself');

done_testing();
