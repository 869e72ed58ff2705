#!/usr/bin/perl
# layers.t - what a file of lib/ may include, and which module a name belongs to.
#
# It follows the table "Layers" of docs/architecture.md: a file includes headers of its own folder
# and of those that its folder's row names.  No circle of #includes, no private header (*_int.h)
# used outside of its folder, each struct tag defined in one place, and each prefix (the word after
# dmi_) of functions for others used in one folder.  The checks themselves are tested with small
# trees that break each rule.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";

sub slurp {
  my ($name) = @_;
  open my $file, '<', $name or die "$name: $!";
  local $/;
  return scalar <$file>;
}

# folder => { folders it may include from }, by the rows | `lib/NAME` | may include | ... |
sub allowed_by {
  my ($page) = @_;
  my %allowed;
  while ($page =~ m{^\| `lib/(\w+)` \|([^|]*)\|}mg) {
    my ($folder, $list) = ($1, $2);
    $allowed{$folder} = { map { $_ => 1 } $folder, $list =~ /(\w+)/g };
  }
  return \%allowed;
}

# Everything that is wrong with the tree below $lib.
sub faults {
  my ($lib, $allowed) = @_;
  my (@faults, %includes, %tags, %prefixes);
  for my $path (sort glob "$lib/*/*.[ch]") {
    my ($name, $folder) = $path =~ m{\Q$lib\E/((\w+)/[^/]+)$};
    my $text = slurp($path);
    push @faults, "lib/$folder has no row" unless $allowed->{$folder};
    while ($text =~ /^#include "((\w+)\/[^"]+)"/mg) {
      my ($header, $from) = ($1, $2);
      push @{ $includes{$name} }, $header;
      push @faults, "$name includes $header" unless $allowed->{$folder}{$from};
      push @faults, "$name includes the private $header"
        if $from ne $folder && $header =~ /_int\.h$/;
    }
    my $code = $text =~ s{/\*.*?\*/}{}gsr;
    push @{ $tags{$1} }, $name while $code =~ /^(?:typedef )?(?:struct|enum|union) (dmi_\w+) \{/mg;
    while ($code =~ /^(?!static|typedef)(?:\w+[ *]+)+dmi_([a-z0-9]+)\w*\([^;]*?\) \{/mg) {
      $prefixes{$1}{$folder} = 1;
    }
  }
  for my $prefix (sort keys %prefixes) {
    my @folders = sort keys %{ $prefixes{$prefix} };
    push @faults, "dmi_${prefix}_ is of @folders" if @folders > 1;
  }
  for my $tag (sort keys %tags) {
    push @faults, "$tag is defined in @{ $tags{$tag} }" if @{ $tags{$tag} } > 1;
  }
  # Circles of headers: depth first.
  my (%state, $visit);
  $visit = sub {
    my ($name, @way) = @_;
    if (($state{$name} // '') eq 'open') {
      push @faults, 'circle: ' . join ' -> ', @way, $name;
      return;
    }
    return if $state{$name};
    $state{$name} = 'open';
    $visit->($_, @way, $name) for @{ $includes{$name} // [] };
    $state{$name} = 'done';
  };
  $visit->($_) for sort keys %includes;
  return @faults;
}

# ---- The checks notice -------------------------------------------------------------------------

sub faults_of {
  my (%files) = @_;
  my $lib = tempdir(CLEANUP => 1);
  for my $name (keys %files) {
    make_path(dirname("$lib/$name"));
    open my $file, '>', "$lib/$name" or die $!;
    print $file $files{$name};
    close $file;
  }
  return [faults($lib, allowed_by("| `lib/low` | | x |\n| `lib/high` | low | x |\n"))];
}

my $good = "#include \"low/a.h\"\nstruct dmi_b {\n};\n";
is_deeply(faults_of('low/a.h' => "struct dmi_a {\n};\n", 'high/b.h' => $good), [], 'a tree without fault');
is_deeply(faults_of('low/a.h' => "#include \"high/b.h\"\n", 'high/b.h' => "\n"),
  ['low/a.h includes high/b.h'], 'an include from above is noticed');
is_deeply(faults_of('low/a_int.h' => "\n", 'high/b.c' => "#include \"low/a_int.h\"\n"),
  ['high/b.c includes the private low/a_int.h'], 'a private header is noticed');
is_deeply(faults_of('low/a.h' => "#include \"low/b.h\"\n", 'low/b.h' => "#include \"low/a.h\"\n"),
  ['circle: low/a.h -> low/b.h -> low/a.h'], 'a circle is noticed');
is_deeply(faults_of('low/a.h' => "struct dmi_a {\n", 'high/b.c' => "struct dmi_a {\n"),
  ['dmi_a is defined in high/b.c low/a.h'], 'a tag of two structs is noticed');
is_deeply(
  faults_of(
    'low/a.c' => "int dmi_a_get(void) {\n}\nstatic int dmi_b_own(int b) {\n",
    'high/b.c' => "struct dmi_b *dmi_a_put(int a,\n    int b) {\n}\nvoid dmi_b_get(void) {\n}\n"
  ),
  ['dmi_a_ is of high low'],
  'a prefix of two folders is noticed'
);
is_deeply(faults_of('new/a.h' => "\n"), ['lib/new has no row'], 'a folder without a row is noticed');

# ---- The tree ----------------------------------------------------------------------------------

my $allowed = allowed_by(slurp("$top/docs/architecture.md"));
cmp_ok(scalar keys %$allowed, '>=', 7, 'docs/architecture.md has its table of layers');
is(join("\n", faults("$top/lib", $allowed)), '', 'lib/ is as docs/architecture.md says');
done_testing();
