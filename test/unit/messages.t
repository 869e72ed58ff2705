#!/usr/bin/perl
# messages.t - the table of messages in docs/wire.md is that of lib/msg/table.h, row by row, with the
# fields that lib/msg/msg.h gives each; and each message of membership has its row in
# docs/membership.md.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";

sub slurp {
  my ($name) = @_;
  open my $file, '<', "$top/$name" or die "$name: $!";
  local $/;
  return scalar <$file>;
}

my $header = slurp('lib/msg/table.h');

# "(uint64_t)64 << 20" -> 64 MiB
sub size_text {
  my ($name) = @_;
  return $name eq '0' ? '' : $name if $name =~ /^\d+$/;
  my ($value) = $header =~ /#define $name \((\(uint64_t\)[^)]*)\)/ or die "$name has no value";
  return '0' if $value eq '(uint64_t)0';
  my ($factor, $shift) = $value =~ /^\(uint64_t\)(\d+) << (\d+)$/ or die "$name: $value";
  return "$factor KiB" if $shift == 10;
  return "$factor MiB" if $shift == 20;
  return $factor << $shift if $shift < 10;
  return "2^$shift";
}

# What each message carries: member of struct dmi_msg => its fields, from first byte to last; each of
# 8 bytes, or of 4 in pairs, as the struct has no padding.
my $structs = slurp('lib/msg/msg.h') =~ s{/\*.*?\*/}{}gsr;
my %size = (uint64_t => 8, int64_t => 8, uint32_t => 4, int32_t => 4);
$size{"dmi_${_}_t"} = 8 for qw(version fetch op);
my (%fields, @padded);
while ($structs =~ /^    struct (dmi_msg_\w+) (\w+);/mg) {
  my ($struct, $member) = ($1, $2);
  my ($body, $cut) = $structs =~ /^struct $struct \{\n(.*?)^\}( DMI_MSG_CUT)?;/ms or die "$struct is not defined";
  my ($at, @list) = (0);
  while ($body =~ /^\s*(\w+) (\w+);/mg) {
    my $bytes = $size{$1} // die "$struct: $1";
    push @padded, "$struct.$2" if $at % $bytes;
    $at += $bytes;
    push @list, $bytes == 8 ? $2 : "$2 (4)";
  }
  push @padded, $struct if $at % 8 != ($cut ? 4 : 0) || $at > 32;
  $fields{$member} = join ', ', @list;
}
is("@padded", '', 'what messages carry has no padding and fits');

my (@code, @names, %used);
my $rows_text = $header =~ s/ *\\\n */ /gr;
my @stray; # the rows of each set, whose handlers are of one type, are for one receiver
while ($rows_text =~ /^#define DMI_MSGS_(\w+)\(X\) (.*)/mg) {
  my ($name, $of) = ($1, $2);
  while ($of =~ /X\(DMI_\w+, +\d+, +"(\w+)", +dmi_\w+, +DMI_CLASS_(\w+), +DMI_\w+, +DMI_(\w+)/g) {
    my $is = $2 eq 'MEMBER' && $3 eq 'COORD' ? 'COORD' : $2;
    push @stray, "$1 is $is in $name" if $is ne $name;
  }
}
is("@stray", '', 'each message is in the set of those who handle it');
while (
  $rows_text =~ /X\((DMI_\w+), +(\d+), +"(\w+)", +(dmi_\w+), +DMI_CLASS_(\w+), +DMI_(\w+), +DMI_(\w+), +(?:SAYS\((\w+)\)|NOTHING), +(0|DMI_F_[\w |]+?), +(\d+), +(\w+), +(\w+), +DMI_WIRE_(\w+), +(?:0|DMI_[A-Z_ |]+)\)/g
) {
  my ($number, $name, $handler, $class, $sender, $receiver, $own, $flags, $element, $list, $body, $from) =
    ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);
  push @names, $name if $class eq 'MEMBER';
  $used{ $own // '' } = 1;
  $code[$number] = join ' | ', $number, $name, lc $class,
    lc("$sender, $receiver") =~ s/anyone/any/gr,
    $own ? $fields{$own} // "$own?" : '', $flags eq '0' ? '' : $flags =~ s/DMI_F_//gr =~ s/ \|/,/gr,
    $element || '', $element ? size_text($list) : '', size_text($body),
    $from eq 'MEMBER' ? 'members' : 'anybody';
}
@code = grep { defined } @code;
my $rows = () = $header =~ /^  X\(/mg;
is(scalar @code, $rows, 'each row of lib/msg/table.h is understood');
is(join(' ', grep { !$used{$_} } sort keys %fields), '', 'each struct of lib/msg/msg.h is used by a message');

my ($table) = slurp('docs/wire.md') =~ /^\| number \| message \|.*\n\|[-|]+\n((?:\|.*\n)+)/m;
my @page = map { s/^\| //r =~ s/ \|$//r =~ s/\|  (?=\|)/|  /gr } split /\n/, $table // '';
is(join("\n", @page), join("\n", @code), 'docs/wire.md has the same rows');

my ($member) = slurp('docs/membership.md') =~ /^\| message \| from .*\n\|[-|]+\n((?:\|.*\n)+)/m;
my %told = map { $_ => 1 } map { /^\| ([A-Z_, ]+) \|/ ? split(/, /, $1) : () } split /\n/, $member // '';
is(join(' ', grep { !$told{$_} } @names), '', 'docs/membership.md tells of each message of its class');
done_testing();
