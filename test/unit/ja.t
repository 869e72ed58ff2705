#!/usr/bin/perl
# ja.t - the Japanese texts (docs/ja) say what the English ones say, as far as a program can tell:
# the same programs, commands and names; links and names that exist; the words of the glossary.
#
# Each check is a function that returns the faults of texts; the first part shows that it finds them.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use utf8;
use Encode qw(decode encode);
use File::Basename qw(basename dirname);
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../../docs/lib";
use ManJapanese qw(breakable join_lines width);
use Pod::Checker;
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output todo_output);
my $top = "$FindBin::Bin/../..";
my $build = $ENV{DMI_BUILD_DIR} // '.';
my $dir = tempdir('dmi-ja-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $letter = qr/[\p{Han}\p{Hiragana}\p{Katakana}ー]/;

sub slurp {
  my ($path) = @_;
  open my $file, '<:raw', $path or die "$path: $!";
  local $/;
  return scalar <$file>;
}

sub text { return decode('UTF-8', slurp($_[0]), Encode::FB_CROAK) }

# ---- The checks --------------------------------------------------------------------------------

# Bytes that are not UTF-8, by line.
sub bad_bytes {
  my ($bytes) = @_;
  my @lines = split /\n/, $bytes, -1;
  return map { 'line ' . ($_ + 1) . ' is not UTF-8' }
    grep { my $line = $lines[$_]; !eval { decode('UTF-8', $line, Encode::FB_CROAK); 1 } } 0 .. $#lines;
}

# Blocks of code: fenced (```...```), or indented by four spaces.
sub fenced { return $_[0] =~ /^(```.*?^```)$/msg }
sub indented { return $_[0] =~ /((?:^ {4}.*\n(?:\n+(?= {4}))?)+)/mg }

sub without_comments { return $_[0] =~ s{ */\*.*?\*/}{}gr =~ s/[ ]+#.*//gr }

sub unequal {
  my ($what, $english, $japanese) = @_;
  my @faults;
  for my $i (0 .. ($#$english > $#$japanese ? $#$english : $#$japanese)) {
    my ($there, $here) = ($english->[$i], $japanese->[$i]);
    next if defined $there && defined $here && $there eq $here;
    push @faults, "$what " . ($i + 1) . ' differs: ' . (($there // $here) =~ s/\A(.*\n.*)[\s\S]*/$1/r);
    last;
  }
  return @faults;
}

# { chapter => { code => { `...` => 1 }, items => how many lines of lists, rows => of tables } }
sub chapters {
  my ($text) = @_;
  my %chapter;
  $text =~ s/^```.*?^```$//msg;
  for my $part (split /^(?=## \d)/m, $text) {
    my $number = $part =~ /^## (\d+)/ ? $1 : 0;
    my %code = map { s/\s+/ /gr => 1 } $part =~ /`([^`]+)`/g;
    $chapter{$number} = { code => \%code, items => scalar(() = $part =~ /^(?:-|\d+\.) /mg),
      rows => scalar(() = $part =~ /^\|/mg) };
  }
  return \%chapter;
}

# Code that a paragraph about a program (**NAME**) names and that the English one does not.
sub other_programs {
  my ($english, $japanese) = @_;
  my ($there, $here) = map {
    { map { my $text = s/\s+/ /gr; $text =~ /^\*\*(\w+)\*\*/ ? ($1 => $text) : () } split /\n\n/, $_ }
  } $english, $japanese;
  my @faults = map { "no such program: $_" } grep { !defined $there->{$_} } sort keys %$here;
  for my $name (grep { defined $there->{$_} } sort keys %$here) {
    push @faults, map { "$name: no `$_`" } grep { index($there->{$name}, "`$_`") < 0 } $here->{$name} =~ /`([^`]+)`/g;
  }
  return @faults;
}

# Where chapters differ in the code that they name, or in lists and tables.
sub other_chapters {
  my ($english, $japanese) = map { chapters($_) } @_;
  my @faults;
  for my $number (sort { $a <=> $b } keys %{ { %$english, %$japanese } }) {
    my ($there, $here) = map { $_->{$number} } $english, $japanese;
    if (!$there || !$here) { push @faults, "only one has chapter $number"; next }
    push @faults, map { "chapter $number lacks `$_`" } grep { !$here->{code}{$_} } sort keys %{ $there->{code} };
    push @faults, map { "chapter $number names `$_`" } grep { !$there->{code}{$_} } sort keys %{ $here->{code} };
    push @faults, map { "chapter $number has $here->{$_} $_, not $there->{$_}" }
      grep { $there->{$_} != $here->{$_} } qw(items rows);
  }
  return @faults;
}

# The anchors of headings, as web pages of repositories make them.
sub anchors {
  my ($text) = @_;
  return map { lc($_) =~ s/[^\w\- ]//gr =~ s/ /-/gr } $text =~ /^#+ (.*)$/mg;
}

# Links that lead nowhere; read($path) is a text beside this one, or undef.
sub dead_links {
  my ($text, $read) = @_;
  my @faults;
  while ($text =~ /\]\(([^)\s]+)\)/g) {
    my ($path, $anchor) = $1 =~ /^([^#]*)#?(.*)$/;
    next if $path =~ /^\w+:/;
    my $target = $path eq '' ? $text : $read->($path);
    if (!defined $target) { push @faults, "no file $path" }
    elsif ($anchor ne '' && !grep { $_ eq $anchor } anchors($target)) { push @faults, "no $path#$anchor" }
  }
  return @faults;
}

# Names of the API, and files of the tree, that do not exist.
sub unknown_names {
  my ($text, $known, $exists) = @_;
  my %seen;
  return (map { "no such name: $_" } grep { !$known->{$_} && !$seen{$_}++ } $text =~ /\b(DMI_\w*[^\W_])\b/ga),
    (map { "no such file: $_" } grep { !$exists->($_) } $text =~ m{`((?:examples|test|include|docs)/[\w./]+)`}g);
}

# Rows of the tables of a glossary: [English, ...].
sub rows {
  my ($text) = @_;
  return grep { @$_ && $_->[0] !~ /^(?:-+|word|英語)$/ }
    map { [map { s/^\s+|\s+$//gr } split /\|/, $_] } $text =~ /^\|(.*)\|$/mg;
}

# What is wrong with the glossary: words of the English one that it lacks, and words used twice.
sub bad_terms {
  my ($english, $terms) = @_;
  my %here = map { $_->[0] => $_->[1] } rows($terms);
  my %used;
  $used{$_->[1]}++ for rows($terms);
  return (map { "no word for: $_->[0]" } grep { !defined $here{ $_->[0] } } rows($english)),
    (map { "two words are: $_" } grep { $used{$_} > 1 } sort keys %used);
}

# Words that are used and should not be.
sub forbidden {
  my ($text, $terms) = @_;
  my @words = map { my $row = $_; map { [$_, $row->[1]] } split /、/, $row->[2] // '' } rows($terms);
  my @lines = split /\n/, $text;
  return map { my $line = $_; map { 'line ' . ($line + 1) . ": $_->[0], say $_->[1]" }
    grep { index($lines[$line], $_->[0]) >= 0 } @words } 0 .. $#lines;
}

# Signs that are not set as terms.md says, and bold text that a page would show with its asterisks.
sub bad_signs {
  my ($text) = @_;
  $text =~ s/^(?:```.*?^```|(?: {4}| (?! )).*?|=(?:encoding.*?|\w+))$//msg;
  $text =~ s/^=\w+ //mg;
  my @faults;
  for my $line (grep { $_ ne '' } split /\n/, $text) {
    push @faults, "a full-width letter or digit: $line" if $line =~ /[Ａ-Ｚａ-ｚ０-９]/;
    push @faults, "half-width kana: $line" if $line =~ /[｡-ﾟ]/;
    push @faults, "a comma or full stop of other texts: $line" if $line =~ /[，．]/;
    push @faults, "a half-width sign after a Japanese word: $line" if $line =~ /$letter[,.:;!?]/;
    push @faults, "a blank beside a Japanese word: $line" if $line =~ /$letter +[A-Za-z0-9`]|[A-Za-z0-9`] +$letter/;
    push @faults, "a blank at the end: $line" if $line =~ /\s$/;
    my @parts = split /\*\*/, $line =~ s/`[^`]*`/`code`/gr, -1;
    push @faults, "an open **: $line" if @parts % 2 == 0;
    for (my $i = 1; $i < $#parts; $i += 2) {
      push @faults, "** would be shown: $line"
        if $parts[$i] =~ /[^\w\s]$/ && $parts[$i + 1] =~ /^\w/ || $parts[$i - 1] =~ /\w$/ && $parts[$i] =~ /^[^\w\s]/;
    }
  }
  return @faults;
}

# What a formatter says of a page, and lines wider than a terminal of 80 columns.
sub bad_page {
  my ($path) = @_;
  my @said = `groff -man -Kutf8 -Tutf8 -ww -z $path 2>&1`;
  my $shown = decode('UTF-8', `groff -man -Kutf8 -Tutf8 -rLL=78n -P-cbou $path 2> /dev/null`);
  return @said, map { "too wide: $_" } grep { width($_) > 80 } split /\n/, $shown;
}

sub pod_faults {
  my ($path) = @_;
  open my $out, '>', \my $said or die "a string: $!";
  Pod::Checker->new(-warnings => 2)->parse_from_file($path, $out);
  return grep { /^\*\*\*/ } split /\n/, decode('UTF-8', $said // '');
}

# All faults are shown.
sub none {
  my ($faults, $what) = @_;
  is(join("\n", @$faults), '', $what);
}

# ---- They notice -------------------------------------------------------------------------------

sub notices {
  my ($what, $faults, $expected) = @_;
  is_deeply($faults, $expected, "noticed: $what");
}

notices('bytes that are not UTF-8', [bad_bytes("a\n\xe3\x81\n")], ['line 2 is not UTF-8']);
notices('nothing in good bytes', [bad_bytes(encode('UTF-8', "字\n"))], []);
my $english = "## 1. A\n`x` and `y\nz`\n- b\n```c\none\n```\n";
notices('nothing in the same', [other_chapters($english, "## 1. 甲\n- 乙`y z`と`x`\n")], []);
notices('other code, another list', [other_chapters($english, "## 1. 甲\n`x`、`w`\n")],
  ['chapter 1 lacks `y z`', 'chapter 1 names `w`', 'chapter 1 has 0 items, not 1']);
notices('a chapter too many', [other_chapters($english, "$english## 2. B\n")], ['only one has chapter 2']);
notices('another option, and a program that is gone', [other_programs("**a** does `x\ny`.\n\n**b**\n",
  "**a**は`x y`、`z`。\n\n**c**は\n")], ['no such program: c', 'a: no `z`']);
notices('another block', [unequal('block', [fenced($english)], [fenced($english =~ s/one/two/r)])],
  ["block 1 differs: ```c\none"]);
notices('a block too few', [unequal('block', [fenced($english)], [])], ["block 1 differs: ```c\none"]);
notices('a command, but no comment', [unequal('block',
  map { [map { without_comments($_) } indented($_)] } "a\n\n    x  # one\n    y\n", "b\n\n    x  # 一\n    z\n")],
  ["block 1 differs:     x\n    y"]);
my $read = sub { return $_[0] eq 'b.md' ? "# 表：その1\n" : undef };
notices('links that lead nowhere', [dead_links("[a](b.md) [b](c.md) [c](b.md#表その1) [d](b.md#表) [e](#f)\n", $read)],
  ['no file c.md', 'no b.md#表', 'no #f']);
notices('names that do not exist', [unknown_names('DMI_read、`examples/a.c`、DMI_reed', { DMI_read => 1 }, sub { 0 })],
  ['no such name: DMI_reed', 'no such file: examples/a.c']);
my $glossary = "| 英語 | 日本語 | 使わない語 |\n|---|---|---|\n| owner | 主 | 所有者、持ち主 |\n| heir | 主 | |\n";
notices('words of the glossary', [bad_terms("| word | meaning |\n| owner | x |\n| page | y |\n", $glossary)],
  ['no word for: page', 'two words are: 主']);
notices('a word that is not to be used', [forbidden("主は\n持ち主は\n", $glossary)], ['line 2: 持ち主, say 主']);
notices('nothing in good signs', [bad_signs("**太字**の字`code`、a。\n")], []);
notices('signs', [map { s/:.*//r } bad_signs("ＡＢ\nｶﾅ\n甲．\n甲,乙\n甲 A\nA 甲\n甲 \n**甲\n**甲。**乙\n甲**「乙」**\n")],
  ['a full-width letter or digit', 'half-width kana', 'a comma or full stop of other texts',
   'a half-width sign after a Japanese word', 'a blank beside a Japanese word', 'a blank beside a Japanese word',
   'a blank at the end', 'an open **', '** would be shown', '** would be shown']);
open my $bad, '>', "$dir/bad.pod" or die "bad.pod: $!";
print $bad "=head1 A\n\nB<a\n\n=over 4\n\n=itm b\n";
close $bad;
cmp_ok(scalar(() = pod_faults("$dir/bad.pod")), '>', 0, 'noticed: pod that is wrong');
is(decode('UTF-8', join_lines(encode('UTF-8', "字\n字\na\nb\n\n 字\n 字\n"))), "字字a\nb\n\n 字\n 字\n", 'lines are joined');
is(decode('UTF-8', breakable(encode('UTF-8', ".SH 説明\n（字）。DMIの\n.Vb 1\n字字\n.Ve\n"))),
  ".SH 説明\n（\\&字）。\\:DMI\\:の\n.Vb 1\n字字\n.Ve\n", 'lines may be broken where Japanese lines may');

# ---- The texts ---------------------------------------------------------------------------------

my @texts = sort glob "$top/docs/ja/*.md $top/docs/ja/*.pod";
cmp_ok(scalar @texts, '>=', 5, 'there are Japanese texts');
my (%is, @faults);
for my $path (@texts) {
  my @bad = bad_bytes(slurp($path));
  push @faults, map { basename($path) . ": $_" } @bad;
  $is{ basename($path) } = @bad ? '' : text($path);
}
none(\@faults, 'all lines are UTF-8');

# The faults of all texts (or of some), with the name of each in front.
sub all_faults {
  my ($check, @names) = @_;
  return [map { my $name = $_; map { "$name: $_" } $check->($is{$name}, $name) } @names ? @names : sort keys %is];
}

my $tutorial = text("$top/docs/tutorial.md");
none([unequal('block', map { [fenced($_)] } $tutorial, $is{'tutorial.md'})],
  'the tutorial has the programs and commands of the English one, in the same order');
none([other_chapters($tutorial, $is{'tutorial.md'})], 'and its chapters name the same');
none([other_programs(text("$top/docs/examples.md"), $is{'examples.md'})], 'examples.md names what the English one names');
none([unequal('block', map { [map { without_comments($_) } indented($_)] } text("$top/README.md"), $is{'README.md'})],
  'README.md has the programs and commands of the English one');
none([unequal('example', map { [map { without_comments($_) } text($_) =~ /^=head1 (?:EXAMPLE|例)\n(.*?)^\S/ms] }
  "$top/docs/dmi.7.pod", "$top/docs/ja/dmi.7.pod")], 'dmi(7) has the example of the English one');

my %known = map { $_ => 1 } map { text($_) =~ /\b(DMI_\w*[^\W_])\b/ga }
  glob "$top/include/*.h $top/lib/node/option_table.h $top/docs/*.md";
none(all_faults(sub { unknown_names($_[0], \%known, sub { -e "$top/$_[0]" }) }), 'all that is named exists');
none(all_faults(sub {
  dead_links($_[0], sub { my $path = "$top/docs/ja/$_[0]"; -f $path ? text($path) : undef });
}), 'all links lead somewhere');
my ($words) = text("$top/docs/architecture.md") =~ /^## Words\n(.*?)^## /ms;
cmp_ok(scalar rows($words // ''), '>', 40, 'the English glossary was found');
none([bad_terms($words, $is{'terms.md'})], 'terms.md has one word for each of its words');
my @prose = grep { $_ ne 'terms.md' } sort keys %is;
none(all_faults(sub { forbidden($_[0], $is{'terms.md'}) }, @prose), 'no other words are used');
none(all_faults(\&bad_signs), 'signs are set as terms.md says');

# ---- The man page ------------------------------------------------------------------------------

my $page = "$build/man/ja/man7/dmi.7";
none([pod_faults("$top/docs/ja/dmi.7.pod")], 'the pod of dmi(7) is right');
unless (ok(-s $page, 'the build made dmi(7)')) {
  done_testing();
  exit 1;
}
my $plain = sub { return text($_[0]) =~ s/\\(?:f.|[&:])//gr =~ s/\\-/-/gr };
my ($overview, $original) = map { $plain->($_) } $page, "$build/man/man7/dmi.7";
like($overview, qr/^\.SH "?名前"?\n(?:\.IX .*\n)*dmi - \S/m, 'programs can read its first section');
my ($here, $there) = map { { map { $_ => 1 } /\b(DMI_\w*[^\W_]|my_(?:malloc|free)|dmi[a-z]+(?=\(1\)))/ga } } $overview, $original;
cmp_ok(scalar keys %$there, '>', 200, 'names in the English page');
none([grep { !$here->{$_} } sort keys %$there], 'it has all names of the English one');
SKIP: {
  skip 'groff is not installed', 2 if system('groff --version > /dev/null 2>&1') != 0;
  none([bad_page($page)], 'groff has nothing to say about it, and 80 columns are enough');
  open my $file, '>:encoding(UTF-8)', "$dir/bad.7" or die "bad.7: $!";
  print $file ".TH a 7\n.SH 名前\n.nosuch\n" . '字' x 60 . "\n";
  close $file;
  cmp_ok(scalar(() = bad_page("$dir/bad.7")), '>=', 2, 'noticed: a wrong request, and a line that is too wide');
}
done_testing();
