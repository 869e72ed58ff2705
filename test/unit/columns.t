#!/usr/bin/perl
# columns.t - tables and long lines in windows of any width: nothing is lost, and no line is longer than the window
# if no cell beside the name of its row is.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Columns;
use DMI::LookText;
use Test::More;

# ---- Lines -------------------------------------------------------------------------------------

is(join('|', DMI::Columns::fold('  one two three', 9)), '  one two|    three', 'a long line goes on further to the right');
is(join('|', DMI::Columns::fold('one: 1, two: 2, three: 3', 14)), 'one: 1,|    two: 2,|    three: 3', 'but what a colon names stays with it');
is(join('|', DMI::Columns::fold('a' x 25, 12)), 'aaaaaaaaaaaa|    aaaaaaaa|    aaaaa', 'a long word is cut');
is(DMI::Columns::folded("one two three\n\nfour\n", 10), "one two\n    three\n\nfour\n", 'of a text each line, also an empty one');
is(DMI::Columns::folded("one two three\n"), "one two three\n", 'not where nobody knows the width');

is(join('|', DMI::Columns::fold('       xxx:  ', 8)), 'xxx:', 'spaces at the beginning give way to words');
is(join('|', DMI::Columns::fold('   xxxxxxxx yy', 8)), '   xxxxx|xxx yy', 'and no line has only spaces');
is((grep { my $width = $_; grep { $_ !~ /[^ ]/ || length > $width } map { my $indent = ' ' x $_; map { DMI::Columns::fold("$indent$_", $width) } 'xxx:  ', 'xxxxxxxxxxxxxxxxxx', 'x: y: z  ', 'xx yyyyyyy ' } 0 .. 24 } 1 .. 40),
  0, 'in windows of 1 to 40 columns, with 0 to 24 spaces before it');

# ---- Characters of two columns -----------------------------------------------------------------

my ($japanese, $fullwidth, $accent) = ("\x{65e5}\x{672c}\x{8a9e}", "\x{ff21}", "e\x{301}");
is(join(' ', map { DMI::Columns::wide($_) } '', 'abc', "\x{e4}", $japanese, $fullwidth, $accent, "\x{304b}\x{3099}", "\x{ff76}", "a$japanese"), '0 3 1 6 2 1 2 1 7', 'how wide characters are');
is(join('|', DMI::Columns::fold("$japanese $japanese", 12)), "$japanese|    $japanese", 'a line of them is folded where the window ends');
is(join('|', DMI::Columns::fold("$japanese $japanese", 13)), "$japanese $japanese", 'but not before');
is(join('|', DMI::Columns::fold($japanese x 3, 9)), join('|', substr($japanese x 3, 0, 4), map { "    $_" } substr($japanese x 3, 4, 2), substr($japanese x 3, 6, 2), substr $japanese x 3, 8), 'no character is cut');
is(join('|', DMI::Columns::fold($japanese, 1)), join('|', split //, $japanese), 'one is in each line at least');
is(DMI::Columns::table(['a', 'b', 'c'], [$japanese, 'x', $fullwidth], ['aaaaaaa', $accent, 'z']), "a        b  c\n$japanese   x  $fullwidth\naaaaaaa  $accent  z\n", 'columns are straight');
is(DMI::Columns::fitted(18, [['k'], [$japanese, 'long'], ['t', 'long']], [1, $japanese, 'x' x 15]), "k  $japanese\n1  $japanese\n    t  xxxxxxxxxxx\n       xxxx\n", 'a title of such');
{
  my $heading = DMI::LookText::heading({ program => '/home/' . $japanese x 8 . '/program', asked_at => 'node1:7880' });
  is(join('|', grep { length($_) + (() = /[$japanese]/g) > 40 } split /\n/, DMI::Columns::folded($heading, 40)), '', 'a program with a Japanese path, in a window of 40 columns');
}

# ---- Tables ------------------------------------------------------------------------------------

my @columns = (['key'], ['a'], ['b', 'part'], ['c'], ['text', 'long'], ['more text', 'long']);
my @rows = (['1', 'aaaa', 'bbb', 'ccccc', 'x' x 8, 'one two three'], ['2', 'a', 'b', 'c', '-', 'four']);
my $of = sub { my ($width) = @_; return DMI::Columns::fitted($width, \@columns, @rows) };
my $whole = $of->(undef);
like($whole, qr/\Akey  a     b    c      text      more text\n1    aaaa  bbb  ccccc  xxxxxxxx  one two three\n2    a     b    c      -         four\n\z/, 'a table without a width');
is($of->(length((split /\n/, $whole)[1])), $whole, 'the same where it fits');
is($of->(40), <<'END', 'else the widest text goes below each row');
key  a     b    c      text
1    aaaa  bbb  ccccc  xxxxxxxx
    more text  one two three
2    a     b    c      -
    more text  four
END
is($of->(23), <<'END', 'then the other one, if there is something in it; and it is folded');
key  a     b    c
1    aaaa  bbb  ccccc
    text       xxxxxxxx
    more text  one two
        three
2    a     b    c
    more text  four
END
is($of->(20), <<'END', 'then there are two tables');
key  a
1    aaaa
    text
        xxxxxxxx
    more text  one
        two three
2    a
    more text  four

key  b    c
1    bbb  ccccc
2    b    c
END
like($of->(11), qr/^key  b\n1    bbb\n2    b\n\nkey  c\n1    ccccc\n2    c\n\z/m, 'or three: columns that belong together are parted, too');
is(DMI::Columns::fitted(3, [['key'], ['a']], ['1', 'xxxx']), "key  a\n1    xxxx\n", 'a column that is wider than the window is there');
is(DMI::Columns::fitted(3, [['key']]), "key\n", 'a table of one column without rows');

# Many tables: each cell is there once, in lines that fit.
srand 5;
my $wrong = 0;
for my $turn (1 .. 200) {
  my @many = map { ["t$_", ('', 'long', 'part')[$_ && rand 3]] } 0 .. rand 9;
  my @lines = map { my $row = $_; [map { "$row.$_." . ('x' x rand 9) . '.' } 0 .. $#many] } 0 .. rand 4;
  my $width = 40 + int rand 60;
  my $text = DMI::Columns::fitted($width, \@many, @lines);
  $wrong++ if grep { length > $width } split /\n/, $text;
  for my $row (@lines) {
    $wrong++ if grep { 1 != (() = $text =~ /\Q$_\E/g) } @$row[1 .. $#$row];
  }
}
is($wrong, 0, 'in windows of 40 to 99 columns no line is too long, and no cell is missing or there twice');

# ---- The views ---------------------------------------------------------------------------------

my @members = map { { member => $_, process => $_ - 1, host => "node$_.example.org", tag => "node$_/1", state => 'member', pid => 40000 + $_, cores => 8, coordinator => $_ == 1,
    threads => [{ thread => 1, number => 1, who => 'dmi', tid => 7, state => 'S', call => 'DMI_read', place => 'program.c:17 (inner, inlined in outer at program.c:31)', waits => 'page', ns => 2e9, addr => '0x100000010',
        size => 8, op => '1', mapping => '0x100000000', page => 0, role => 'none', hint => 1 }], locks => [], barriers => [],
    process_now => { state => 'member', now => 90, since => 10, cores => 8, threads => 2, bytes_in => 1e9, bytes_out => 2e9, faults => 7e5, faults_now => 900, connections => 3, shared => 1,
      pool => { limit => 2**31, used => 2**30, copies => 2**20, spilled => 0 } } } } 1 .. 8;
my %all = (members => \@members, objects => {}, program => './program 100', asked_at => 'node1.example.org:7880',
  mappings => [{ mapping => '0x100000000', page_size => 4096, pages => 65536, call => 'DMI_mmap', place => 'program.c:9 (DMI_main)', of => { map { $_ => { owned => 8192, copies => 3, faults => 1e5 } } 1 .. 8 } }],
  hottest => [{ mapping => '0x100000000', page => 3, rate => 800, by => [map { { process => $_, rate => 100 } } 0 .. 7], touched => { 0 => { wrote => [0, 7] }, 1 => { wrote => [8, 15] } } }]);
for my $view ([status => \&DMI::LookText::status], [threads => \&DMI::LookText::threads]) {
  my ($name, $text) = @$view;
  my $long = $text->(\%all);
  cmp_ok((sort { $b <=> $a } map { length } split /\n/, $long)[0], '>', 120, "$name: lines are long where nobody knows the width");
  for my $width (60, 80, 100, 150) {
    my $short = $text->(\%all, $width);
    is(join("\n", grep { length > $width } split /\n/, $short), '', "$name: none is longer than $width columns there");
    my %there = map { $_ => 1 } split ' ', $short;
    is(join(' ', grep { !$there{$_} } split ' ', $long), '', "$name: but each word is there");
  }
}
my $status = DMI::LookText::status(\%all, 80);
like($status, qr/\A8 processes, 64 cores, 16 threads; pools: 8\.0 GiB of 16\.0 GiB; 7200\s+faults\/s\n\nprocess  host, tag /, 'first all together');
like($status, qr/^process  pool used  of       copies   spilled\n0        1\.0 GiB    2\.0 GiB  1\.0 MiB  0 B\n/m, 'memory in a table of its own');
like(DMI::LookText::status(\%all, 70), qr/^process  threads  pool used  of .*\n0        2        1\.0 GiB  /m, 'a column for which there is no room in the first table comes in the second one');
like($status, qr/^process  by shm  in       out      faults  faults\/s\n0        1 of 3  954 MiB  1\.9 GiB  700000  900\n/m, 'traffic in the third one');
done_testing();
