#!/usr/bin/perl
# events.t - the table of events in docs/events.md is that of lib/base/event_table.h, row by row;
# each event is emitted somewhere, and no others are.  The checks themselves are tested with wrong
# rows.
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

my $string = qr/"((?:[^"\\]|\\.)*)"/;
my %type = (NUMBER => 'number', ADDRESS => 'address', TIME => 'time', TEXT => 'text');
my %seen = (NOT => '', LOG => 'log', SAY => 'always', LINE => '`===`');

# The rows of the header, as docs/events.md writes them; and how many it has.
sub rows_of {
  my ($header) = @_;
  my $code = $header =~ s/ *\\\n */ /gr;
  my @rows;
  while ($code =~ /\bEVENT\((\w+), (\w+), (\w+), $string, $string, $string,([^\n]*?)\)(?= EVENT|\s*$)/mg) {
    my ($name, $level, $shown, $meaning, $list) = ($1, $2, $3, $6, $7);
    my @fields;
    while ($list =~ /\b([A-Z]+)\((\w+), $string, $string\)/g) {
      my $what = join ', ', grep { $_ ne '' } $1 eq 'NUMBER' && $3 ne '' ? () : $type{$1}, $3;
      push @fields, "`$2`" . ($what eq 'number' ? '' : " ($what)") . ": $4";
    }
    push @rows, join ' | ', "`$name`", lc $level, $seen{$shown} // die("$shown of $name"), $meaning,
      join('; ', @fields);
  }
  my $count = () = $header =~ /^  EVENT\(/mg;
  return ($count, @rows);
}

my ($count, @code) = rows_of(slurp("$top/lib/base/event_table.h"));
cmp_ok($count, '>', 20, 'there are events');
is(scalar @code, $count, 'each row of lib/base/event_table.h is understood');

my ($table) = slurp("$top/docs/events.md") =~ /^\| event \| level .*\n\|[-|]+\n((?:\|.*\n)+)/m;
my @page = map { s/^\| //r =~ s/ ?\|$//r =~ s/\|  (?=\|)/|  /gr } split /\n/, $table // '';
is(join("\n", map { s/ +$//r } @page), join("\n", map { s/ +$//r } @code),
  'docs/events.md has the same rows');

# What the code emits: all that is in the table, and dmi_say for two of them; the outlet for one.
my %emitted = (error => 1, warning => 1, lost => 1);
for my $code (map { slurp($_) } glob "$top/lib/*/*.c") {
  $emitted{$1} = 1 while $code =~ /\bdmi_emit\([^,;]+, (\w+)[,)]/g;
}
is_deeply([sort keys %emitted], [sort map { /^`(\w+)`/ } @code], 'each is emitted somewhere');

# ---- The checks notice -------------------------------------------------------------------------

my $good = <<'END';
  EVENT(one, INFO, LOG, "net", "text", "Something.", \
    NUMBER(size, "bytes", "of it") \
    TEXT(why, "", "a reason")) \
  EVENT(two, DEBUG, NOT, "net", "", "Nothing.",)
END
my @expected = (2, '`one` | info | log | Something. | `size` (bytes): of it; `why` (text): a reason',
  '`two` | debug |  | Nothing. | ');
is_deeply([rows_of($good)], \@expected, 'rows are read');
my ($found, @rows) = rows_of($good =~ s/"Something\."/NONE/r);
isnt($found, scalar @rows, 'a row that is not understood is noticed');
done_testing();
