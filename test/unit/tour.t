#!/usr/bin/perl
# tour.t - the tour in docs/architecture.md is correct: each file that it names exists in lib/, and
# each function stands in the file that is named after it.  (`f`, `g` (`core/x.c`): both are in
# core/x.c.)
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";

sub slurp {
  my ($name) = @_;
  open my $file, '<', $name or return;
  local $/;
  return scalar <$file>;
}

# Is this function defined there, be it as a macro or an inline one?
sub defines {
  my ($text, $name) = @_;
  return $text =~ /^(?!\s|return\b)[\w *]*[ *]\Q$name\E\([^;{}]*\) \{/m
    || $text =~ /^#define \Q$name\E\(/m;
}

# What is wrong with the ways of a page, by files that read($path) knows.
sub faults {
  my ($page, $read) = @_;
  my (@faults, $functions);
  for my $way ($page =~ /^## The way of (.*?)(?=^## |\z)/msg) {
    my ($title) = $way =~ /^(.*)/;
    my @pending;
    while ($way =~ /`([^`\n]+)`/g) {
      my $name = $1;
      if ($name =~ m{^\w+/\w+\.[ch]$}) {
        my $text = $read->("lib/$name");
        push @faults, "$title: no file $name" unless defined $text;
        for my $function (defined $text ? @pending : ()) {
          push @faults, "$title: no $function in $name" unless defines($text, $function);
          $functions++;
        }
        @pending = ();
      }
      elsif ($name =~ /^(?:DMI_[a-z]\w*|[a-z]\w*)$/) { push @pending, $name }
    }
    push @faults, "$title: no file is said for @pending" if @pending;
  }
  return ($functions // 0, @faults);
}

# ---- The check notices -------------------------------------------------------------------------

my %files = ('lib/core/a.c' => "static int one(int a,\n               int b) {\n}\nint two(void);\n");
my $read = sub { $files{ $_[0] } };
my $way = "## The way of a test\n1. `%s` (`%s`): does it.\n## Else\n`nothing`\n";
is_deeply([faults(sprintf($way, 'one', 'core/a.c'), $read)], [1], 'a way without fault');
is_deeply([faults(sprintf($way, 'two', 'core/a.c'), $read)],
  [1, 'a test: no two in core/a.c'], 'a function that is only declared is noticed');
is_deeply([faults(sprintf($way, 'one', 'core/b.c'), $read)], [0, 'a test: no file core/b.c'],
  'a file that is not there is noticed');
is_deeply([faults("## The way of a test\n`one` does it.\n", $read)],
  [0, 'a test: no file is said for one'], 'a function without a file is noticed');

# ---- The page ----------------------------------------------------------------------------------

my ($functions, @faults) =
  faults(slurp("$top/docs/architecture.md"), sub { slurp("$top/$_[0]") });
cmp_ok($functions, '>', 80, 'the tour names functions');
is(join("\n", @faults), '', 'all of them are where it says');
done_testing();
