#!/usr/bin/perl
# tour.t - the first tour through the code (docs/architecture.md, "The way of ...") names functions
# that there are.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";

sub slurp {
  my ($name) = @_;
  open my $file, '<', $name or die "$name: $!";
  local $/;
  return scalar <$file>;
}

# Names in `...` of the sections "The way of", that look like functions.
sub named {
  my ($page) = @_;
  my %names;
  for my $part ($page =~ /^## The way of(.*?)(?=^## |\z)/msg) {
    $names{$_} = 1 for grep { /_/ } $part =~ /`([a-z][a-z0-9_]*)`/g;
  }
  return sort keys %names;
}

# Those that the code does not define.
sub missing {
  my ($code, @names) = @_;
  return grep { $code !~ /^(?!\s)[^;=\n]*\b\Q$_\E\([^;]*?\) \{/m } @names;
}

my $page = "## The way of x\n`a_b`, then `dmi_c`; `word`\n## Other\n`d_e`\n";
is_deeply([named($page)], ['a_b', 'dmi_c'], 'names of the tour');
is_deeply([missing("static int a_b(int x,\n    int y) {\n}\nint dmi_c(void);\n", named($page))],
  ['dmi_c'], 'one that is not defined is noticed');

my $code = join '', map { slurp($_) } glob "$top/lib/*/*.[ch]";
my @names = named(slurp("$top/docs/architecture.md"));
cmp_ok(scalar @names, '>', 30, 'the tour names functions');
is_deeply([missing($code, @names)], [], 'there are all of them');
done_testing();
