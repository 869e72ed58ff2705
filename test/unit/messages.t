#!/usr/bin/perl
# messages.t - the table of messages in docs/wire.md is that of lib/msg/table.h, row by row; and each
# message of membership has its row in docs/membership.md.
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
  return "2^$shift";
}

my (@code, @names);
while ($header =~ /^  X\((DMI_\w+), +(\d+), "(\w+)", +DMI_CLASS_(\w+), +(\d+), (\w+), +(\w+), +DMI_WIRE_(\w+)\)/mg) {
  my ($number, $name, $class, $element, $list, $body, $from) = ($2, $3, $4, $5, $6, $7, $8);
  push @names, $name if $class eq 'MEMBER';
  push @code, join ' | ', $number, $name, lc $class, $element || '', $element ? size_text($list) : '',
    size_text($body), $from eq 'MEMBER' ? 'members' : 'anybody';
}
my $rows = () = $header =~ /^  X\(/mg;
is(scalar @code, $rows, 'each row of lib/msg/table.h is understood');

my ($table) = slurp('docs/wire.md') =~ /^\| number \| message \|.*\n\|[-|]+\n((?:\|.*\n)+)/m;
my @page = map { s/^\| //r =~ s/ \|$//r =~ s/\|  (?=\|)/|  /gr } split /\n/, $table // '';
is(join("\n", @page), join("\n", @code), 'docs/wire.md has the same rows');

my ($member) = slurp('docs/membership.md') =~ /^\| message \| from .*\n\|[-|]+\n((?:\|.*\n)+)/m;
my %told = map { $_ => 1 } map { /^\| ([A-Z_, ]+) \|/ ? split(/, /, $1) : () } split /\n/, $member // '';
is(join(' ', grep { !$told{$_} } @names), '', 'docs/membership.md tells of each message of its class');
done_testing();
