#!/usr/bin/perl
# states.t - the tables of states in the documentation are those of the code.
#
# The handover: rows | from | to | of docs/protocol.md, R8, against may[] of lib/core/handover.c.
# Not in the small form: what it tests is a text.
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

# "FROM TO" of each row whose first two cells are names in capitals, in the part below this heading.
sub told {
  my ($page, $heading) = @_;
  my ($part) = $page =~ /^\Q$heading\E(.*?)^###? /ms or return [];
  return [sort map { "$_->[0] $_->[1]" } pairs($part)];
}

sub pairs {
  my ($part) = @_;
  my @pairs;
  push @pairs, [$1, $2] while $part =~ /^\| ([A-Z_]+) \| ([A-Z_]+) \|/mg;
  return @pairs;
}

# The same of the rows [PREFIX_FROM] = TO(A) | TO(B), of the array may[].
sub coded {
  my ($code, $prefix) = @_;
  my ($table) = $code =~ /^static const \w+ may\[.*?\] = \{(.*?)^\};/ms or return [];
  my @pairs;
  while ($table =~ /\[\Q$prefix\E(\w+)\] = ([^,]+),/g) {
    my ($from, $to) = ($1, $2);
    push @pairs, "$from $1" while $to =~ /TO\((\w+)\)/g;
  }
  return [sort @pairs];
}

# ---- The comparison notices ---------------------------------------------------------------------

my $page = "### R8. x\n| A | B | when |\n| B | C_D | |\n### R9\n| C | A | |\n";
my $code = "static const int may[3] = {\n    [X_A] = TO(B),\n    [X_B] = TO(C_D),\n};\n";
is_deeply(told($page, '### R8.'), ['A B', 'B C_D'], 'rows of the page');
is_deeply(coded($code, 'X_'), ['A B', 'B C_D'], 'rows of the code');
isnt("@{ coded($code =~ s/TO\(B\)/TO(B) | TO(A)/r, 'X_') }", "@{ told($page, '### R8.') }",
  'one more move in the code is noticed');
isnt("@{ told($page =~ s/\| B \| C_D \| \|\n//r, '### R8.') }", "@{ coded($code, 'X_') }",
  'a row that is missing in the page is noticed');

# ---- The handover -------------------------------------------------------------------------------

my $handover = coded(slurp("$top/lib/core/handover.c"), 'DMI_HANDOVER_');
cmp_ok(scalar @$handover, '>=', 9, 'the handover has a table');
is_deeply(told(slurp("$top/docs/protocol.md"), '### R8.'), $handover,
  'docs/protocol.md and lib/core/handover.c have the same moves');
done_testing();
