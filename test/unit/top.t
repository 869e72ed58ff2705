#!/usr/bin/perl
# top.t - what dmirun --top makes of answers and keys: rates, order, the chosen process, and lines that fit
# into any window, whatever a process has said.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::TopView;
use Test::More;

# A process: its number, seconds, bytes in and out, faults.
sub member {
  my ($process, $now, $in, $out, $faults, %more) = @_;
  return { member => $process + 10, process => $process, host => "h$process", state => 'member', cores => 2, process_now => {
    state => 'member', now => 1000 + $now, since => 1000, cores => 2, threads => 1, bytes_in => $in, bytes_out => $out, faults => $faults,
    pool => { limit => 1 << 30, used => 1 << 20, copies => 0, spilled => 0 } }, %more };
}
sub silent { my ($process) = @_; return { member => $process + 10, process => $process, host => "h$process", state => 'member', cores => 2, silent => 1 } }
sub all { return { members => [@_], mappings => [], objects => {} } }
sub shown { my ($view, $height, $width) = @_; return join "\n", map { $_->[0] =~ s/ +\z//r } $view->lines($height // 20, $width // 120) }
sub order { return join ' ', shown($_[0]) =~ /^(\d+) +h\d/mg }
sub style { my ($view, $regex) = @_; return join ' ', map { $_->[0] =~ $regex ? $_->[1] : () } $view->lines(20, 120) }

my $view = DMI::TopView->new;
like(shown($view), qr/^asking \.\.\.\n/, 'before the first answer');
is(join(' ', $view->parts), 'process threads locks barriers', 'at first threads are asked for, too: is there a deadlock?');

$view->take({ %{ all(member(0, 10, 0, 0, 0)) }, program => './p 1', asked_at => 'h0:7881' });
like(shown($view), qr/\Aprogram: \.\/p 1 \(asked at h0:7881\)\n1 process, /, 'which program it is comes first');
$view = DMI::TopView->new;

# A character that takes two columns is replaced by as many: columns stay straight.
$view->take(all({ %{ member(0, 10, 0, 0, 0) }, host => "\x{65e5}\x{672c}" }, { %{ member(1, 10, 0, 0, 0) }, host => 'abcdef' }));
like(shown($view), qr/^0 {10}\?{4} {4}member .*\n1 {10}abcdef {2}member /m, 'a host with a Japanese name');
$view = DMI::TopView->new;

# Rates are those since the answer before.
$view->take(all(member(0, 10, 1000, 0, 50), member(1, 10, 0, 20480, 0)));
like(shown($view), qr/^0 +h0 .* 5 +100 B +0 B +1\.0 MiB /m, 'at first those of the whole life');
$view->take(all(member(0, 12, 5000, 0, 56), member(1, 12, 0, 20480, 0)));
like(shown($view), qr/^0 +h0 .* 3 +2\.0 KiB +0 B +1\.0 MiB /m, 'then those since the last answer');
like(shown($view), qr/^1 +h1 .* 0 +0 B +0 B +1\.0 MiB /m, 'also when nothing happens');
is(join(' ', $view->parts), 'process', 'then no more than is shown is asked for');
$view->take(all(member(0, 12, 9000, 0, 56), member(1, 12, 0, 0, 0)));
like(shown($view), qr/^0 +h0 .* 3 +2\.0 KiB +0 B +1\.0 MiB /m, 'no time has passed: the same');

# For what threads wait.
{
  my $waits = sub { return { thread => $_[0], who => 'dmi', tid => $_[0], state => 'S', call => 'DMI_read', place => 'p.c:1 (f)', waits => $_[1], ns => 1e6, addr => '0x10', size => 8, op => 'x' } };
  my $shows = sub { my ($process, $what) = @_; return qr/^$process +h$process +\S+ +1 +\Q$what\E  /m };
  my $view = DMI::TopView->new;
  my @two = map { my $process = $_; sub { member($process, $_[0], 0, 0, 0, @_[1 .. $#_]) } } 0, 1;
  my @none = (locks => [], barriers => []);
  $view->take(all($two[0]->(10, threads => [map { $waits->($_, ('poll', 'poll', 'page', 'servers', 'servers', undef)[$_]) } 0 .. 5], @none), $two[1]->(10, threads => [$waits->(1, 'poll')], @none)));
  like(shown($view), $shows->(0, '2 servers'), 'what most threads wait for');
  like(shown($view), $shows->(1, '1 poll'), 'a wait for a notice only if there is no other');
  $view->take(all(map { $_->(11) } @two));
  like(shown($view), $shows->(0, '2 servers'), 'until threads are asked for again');
  $view->key('>') for 1 .. 4;
  like(shown($view), qr/ waits v /, 'by what they wait for');
  is(order($view), '0 1', 'the process with most of them first');
  $view->take(all($two[0]->(12, threads => [$waits->(1, undef)], @none), $two[1]->(12, threads => [$waits->(1, 'lock')], @none), member(2, 12, 0, 0, 0)));
  like(shown($view), $shows->(0, '-'), 'nothing any more');
  like(shown($view), $shows->(2, '?'), 'not known yet of one that has just come');
  is(order($view), '1 0 2', 'and the order is another one');
}
$view->take(all({ %{ silent(0) }, pid => 4711 }, member(1, 13, 0, 0, 0)));
like(shown($view), qr/^0 +h0 +SILENT(?: +\?){9} +2 +\? +4711$/m, 'but its pid, which others know');
$view->take(all(silent(0), member(1, 13, 0, 0, 0)));
like(shown($view), qr/^0 +h0 +SILENT(?: +\?){9} +2 +\? +\?$/m, 'nothing is known of one that is silent');
is(style($view, qr/SILENT/), 'chosen', 'it is chosen');
$view->key('down');
is(style($view, qr/SILENT/), 'alarm', 'or else stands out');
like(shown($view), qr/^2 processes \(1 silent\), 4 cores, 1 thread; pools: 1\.0 MiB of 1\.0 GiB; traffic 0 B\/s, 0 faults\/s$/m, 'the sum of what is known');

# Order.
my @three = (member(0, 10, 1, 0, 5), member(1, 10, 1, 0, 500), silent(2));
$view = DMI::TopView->new;
$view->take(all(@three));
is(order($view), '0 1 2', 'by number');
is($view->key('r'), 'draw', 'r');
is(order($view), '2 1 0', 'the other way round');
$view->key('r');
$view->key('<');
like(shown($view), qr{pid v$}m, 'to the left of the first column is the last one');
$view->key('<') for 1 .. 9;
like(shown($view), qr{threads +waits +faults/s v }m, 'and so on');
is(order($view), '1 0 2', 'numbers: the largest first, unknown ones last');
$view->key('>') for 1 .. 10;
is(order($view), '0 1 2', 'and back');
my @ten = map { member($_, 10, 0, 0, 0) } 0 .. 9;
$view->take(all(@ten[9, 2, 5]));
is(order($view), '2 5 9', 'processes may be others each time');

# The chosen process stays chosen wherever it is; when it is gone, the one in its place is.
my $chosen = sub { return style($view, qr/^\d+ +h/) =~ /chosen/ && join ' ', map { $_->[1] eq 'chosen' ? $_->[0] =~ /^(\d+)/ : () } $view->lines(20, 120) };
$view->take(all(@ten));
$view->key('home');
$view->key('down') for 1 .. 3;
is($chosen->(), 3, 'the fourth one');
$view->take(all(@ten[3 .. 9]));
is($chosen->(), 3, 'stays chosen');
$view->take(all(@ten[4 .. 9]));
is($chosen->(), 4, 'the one in its place') or diag shown($view);
$view->key('end');
is($chosen->(), 9, 'the last one');
$view->key('down');
is($chosen->(), 9, 'and no further');
$view->key('page_up');
is($chosen->(), 4, 'nor above the first');

# A list that is longer than the window.
$view->take(all(map { member($_, 10, 0, 0, 0) } 0 .. 99));
$view->key('end');
like(shown($view, 8), qr/\A[^\n]*\nprocess v[^\n]*\n95 .*\n.*\n.*\n.*\n99 [^\n]*\nq: end/, 'shows the end');
$view->key('home');
like(shown($view, 8), qr/\A[^\n]*\nprocess v[^\n]*\n0 .*\n.*\n.*\n.*\n4 [^\n]*\nq: end/, 'and the beginning');

# Threads of one process.
my %thread = (thread => 1, who => 'main', tid => 5, state => 'S', call => 'DMI_mutex_lock', place => 'p.c:7 (f)', waits => 'lock', ns => 3e9,
  addr => '0x10', size => 8, hint => 10, role => 'owner', op => 'x');
my @locks = (locks => [{ lock => '0x10', thread => 1, op => 'x', call => 'DMI_mutex_lock', place => 'p.c:5 (f)' }], barriers => []);
is($view->key('enter'), 'ask', 'Enter: other answers are needed');
is(join(' ', $view->parts), 'process threads locks barriers', 'these');
like(shown($view), qr/^asking \.\.\.$/m, 'until they come');
$view->take(all(member(0, 11, 0, 0, 0, threads => [{%thread}], @locks)));
like(shown($view), qr/^process 0 \(h0\)\n  DMI_main in DMI_mutex_lock at p\.c:7 \(f\), for 3\.0 s\n    waits for the lock at 0x10, held by/m, 'what they do');
is(style($view, qr/^DEADLOCK/), 'alarm', 'a deadlock stands out');
$view->key('b');
$view->take(all(member(0, 11, 0, 0, 0)));
like(shown($view), qr/\A[^\n]*\nDEADLOCK: DMI_main of process 0 \(h0\) waits for itself \(enter: why\)\nprocess v/,
  'also on the first screen, until threads are asked for again');
is(style($view, qr/^DEADLOCK/), 'alarm', 'and stands out there');
{
  my @more = map { my $addr = "0x$_"; ({ %thread, thread => $_, addr => $addr }, { lock => $addr, thread => $_, op => 'x' }) } 20 .. 24;
  my %in = (threads => [grep { $_->{tid} } @more], locks => [grep { $_->{lock} } @more], barriers => []);
  $view->take(all(member(0, 11, 0, 0, 0, %in)));
  is(() = shown($view) =~ /^DEADLOCK: .* waits for itself/mg, 2, 'many are not all shown');
  like(shown($view), qr/^DEADLOCK: 3 more$/m, 'but counted');
  like(shown($view, 4), qr/\A[^\n]*\nDEADLOCK[^\n]*\nDEADLOCK[^\n]*\nq: end/, 'a low window shows them first');
  $view->take(all(member(0, 11, 0, 0, 0, threads => [{ %thread, waits => undef }], locks => [], barriers => [])));
  unlike(shown($view), qr/DEADLOCK/, 'it is over');
  my $never = { %{ all(member(0, 11, 0, 0, 0, threads => [{ %thread, waits => 'barrier', size => 2 }], locks => [], barriers => [{ barrier => '0x10', thread => 1 }])) },
    objects => { 'barrier 0x10' => { arrived => 1, needed => 2, owner => 10 } } };
  $view->take($never);
  like(shown($view, 20, 200), qr/\A[^\n]*\nDEADLOCK: nobody is left who could come to the barrier at 0x10: 1 of 2 have come, and all threads wait at barriers or for each other \(enter: why\)\nprocess v/, 'a barrier that is never reached');
  is(style($view, qr/^DEADLOCK/), 'alarm', 'stands out, too');
}
$view->key('enter');
$view->take(all(member(0, 11, 0, 0, 0, threads => [{%thread}], @locks)));
like(shown($view, 20, 30), qr/^    waits for the lock at\n {8}0x10, held by/m, 'a long line goes on in the next one');
$view->take(all(member(1, 11, 0, 0, 0)));
like(shown($view), qr/^this process is no member any more/m, 'it has left');
$view->take(all(silent(0)));
like(shown($view), qr/^  gives no answer/m, 'it is silent');
is($view->key('r'), '', 'no other keys here');
like(shown($view), qr/\nq: end  b: back  m: mappings  up\/down: scroll\z/, 'but to the mappings');
is($view->key('m'), 'ask', 'which is a key here, too');
is(join(' ', $view->parts), 'process mappings hot', 'mappings');
is($view->key('m'), '', 'but not there');
is($view->key('b'), 'ask', 'and back');

# Mappings.
is($view->key('m'), 'ask', 'm');
is(join(' ', $view->parts), 'process mappings hot', 'mappings, and the pages that are asked for most often');
like(shown($view), qr/^asking \.\.\.$/m, 'until they come');
$view->take(all(silent(0)));
like(shown($view), qr/^process 0 \(h0\) gives no answer/m, 'of one that is silent they are not known');
unlike(shown($view), qr/no mappings/, 'which does not mean that there are none');
$view->take(all(member(0, 12, 0, 0, 0)));
like(shown($view), qr/^no mappings$/m, 'there are none');
like(shown($view, 20, 10), qr/\nq: end/, 'a narrow window shows how to end');
{
  my %mapping = (mapping => '0x100000000', page_size => 4096, pages => 9, call => 'DMI_mmap', place => 'program.c:7 (DMI_main)', of => { 10 => { owned => 9, copies => 0, faults => 0 } });
  $view->take({ %{ all(member(0, 13, 0, 0, 0)) }, mappings => [\%mapping], hottest => [{ mapping => '0x100000000', page => 3, rate => 70, by => [{ process => 0, rate => 70 }] }] });
  like(shown($view, 20, 60), qr/^mapping      page size  pages  owned by process\n0x100000000  4\.0 KiB    9      0: 9\n    made by            DMI_mmap at program\.c:7 \(DMI_main\)\n\nhottest pages /m,
    'in a narrow window the long columns of mappings come below');
  like(shown($view, 20, 60), qr/^page  of mapping   faults\/s  by process  owner\n3     0x100000000  70        0: 70       \?\n    mapping made by  DMI_mmap at program\.c:7 \(DMI_main\)$/m, 'and those of hot pages');
  like(shown($view, 20, 150), qr/^mapping +page size .* made by\n0x100000000 .* DMI_mmap at .*\n\nhottest .*\npage .* mapping made by\n3 .* DMI_mmap at/m, 'in a wide one they are columns');
}
$view->key('b');
is($view->key('q'), 'end', 'q');

# Narrow windows.
{
  my $view = DMI::TopView->new;
  my $titles = sub { my ($found) = grep { /^process/ } split /\n/, shown($view, 20, $_[0] // 60); return $found };
  $view->take(all(map { member($_, 10, 0, 0, 0) } 0, 1));
  like(shown($view, 20, 60), qr{^2 processes, .*\n {4}.*B/s, 0 faults/s\n}, 'the sums go on in a second line');
  like(shown($view, 3, 60), qr{^2 processes, .*\n(?!    )}, 'but not where there is no room for it');
  like($titles->(), qr/^process v  host  state +threads  waits  faults\/s /, 'at 60 columns the last columns are not there');
  unlike($titles->(), qr/pid/, 'of which this is one');
  is(join(' ', grep { $titles->($_) !~ / >$/ } 20 .. 100), '', 'but a mark');
  for my $line (qr/^process/, qr/^1 /) {
    my $cells = sub { my ($width) = @_; my ($found) = grep { /$line/ } split /\n/, shown($view, 20, $width); return split /  +/, $found =~ s/ +>\z//r };
    my @all = $cells->(200);
    is(join(' ', grep { my @shown = $cells->($_); "@shown" ne "@all[0 .. $#shown]" } 15 .. 130), '', 'no column is cut, however wide the window is');
  }
  is($view->key('right'), 'draw', 'to the right');
  like($titles->(), qr/^process v  state +threads  waits /, 'by one column; which process it is stays');
  $view->key('right') for 1 .. 50;
  like($titles->(), qr/^process v .* up +pid$/, 'up to the last one, behind which there is no mark');
  like(shown($view, 20, 60), qr/^1  .* 10 s +\?$/m, 'with what is in it');
  $view->key('left');
  unlike($titles->(), qr/pid$/, 'from there back at once');
  $view->key('left') for 1 .. 50;
  like($titles->(), qr/^process v  host  state +threads /, 'to the first one');
  $view->key('>') for 1 .. 9;
  like($titles->(), qr/^process  .*  of v(?: |$)/, 'the column by which is sorted is moved to');
  $view->key('<') for 1 .. 9;
  like($titles->(), qr/^process v /, 'and the first one is always there');
  $view->key('right') for 1 .. 4;
  $view->take(all(map { member($_, 11, 0, 0, 0) } 0, 1));
  like($titles->(), qr/^process v  pool used /, 'it stays where it is with the next answers');
  like($titles->(200), qr/^process v  host .* pid$/, 'a wide window shows all');
  my @all = ('q: end', 'enter: threads', 'm: mappings', 'left/right: columns', '</>: sort', 'r: reverse', 'up/down: choose');
  my $help = sub { my ($height, $width) = @_; return join '|', map { s/ +\z//r } map { $_->[1] eq 'head' && $_->[0] !~ /^pro/ ? $_->[0] : () } $view->lines($height, $width) };
  is($help->(20, 120), join('  ', @all), 'keys in one line');
  is($help->(20, 60), join('  ', @all[0 .. 3]) . '|' . join('  ', @all[4 .. 6]), 'in two at 60 columns');
  is($help->(9, 60), join('  ', @all[0 .. 3]), 'in a low window the most important ones, whole');
  is($help->(9, 30), join('  ', @all[0, 1]), 'also at 30');
  is($help->(9, 3), 'q:', 'what is narrower still shows what it can');
}

# Processors of one machine are counted once; a circle of threads of two and more.
{
  my $view = DMI::TopView->new;
  my %here = (host => 'here');
  $view->take(all(map({ member($_, 10, 0, 0, 0, %here, tag => "here/$_") } 0 .. 3), { %{ silent(4) }, cores => 6, host => 'there' }));
  like(shown($view), qr/^5 processes \(1 silent\), 8 cores, 4 threads;/, 'four processes on two processors, and one elsewhere');
  my $share = sub { my ($has) = @_; return map { my $one = member($_, 10, 0, 0, 0, %here); @{ $one->{process_now} }{qw(cores machine_cores)} = (1, $has); $one } 0 .. 3 };
  my $of = sub { my ($has) = @_; $view->take(all($share->($has))); return shown($view) };
  like($of->(2), qr/^4 processes, 2 cores,/, 'four with a share of two processors each');
  like($of->(64), qr/^4 processes, 4 cores,/, 'four that may use one of 64 each');
  my $crossed = sub { my ($process, $at, $holds, %more) = @_; return member($process, 10, 0, 0, 0, barriers => [],
      threads => [{ %thread, who => 'dmi', number => 3, addr => $at, op => "w$process" }], locks => [{ lock => $holds, thread => 1, op => "h$process" }], %more) };
  $view->take(all($crossed->(0, '0xb', '0xa'), $crossed->(1, '0xa', '0xb')));
  like(shown($view), qr/^DEADLOCK: thread 3 of process 0 \(h0\) and thread 3 of process 1 \(h1\) wait for each other \(enter: why\)$/m, 'two wait for each other');
  $view->take(all($crossed->(0, '0xb', '0xa'), $crossed->(1, '0xc', '0xb'), $crossed->(2, '0xa', '0xc')));
  like(shown($view, 20, 200), qr/^DEADLOCK: thread 3 of process 0 \(h0\), thread 3 of process 1 \(h1\) and thread 3 of process 2 \(h2\) wait for each other \(/m, 'and three');
}

# Nothing that a process says reaches the terminal as it is; no window is too small.
my $evil = "\e[2J\x{7}\x{9b}31m\x{4e00}";
for my $page ('', 'enter', 'm') {
  $view = DMI::TopView->new;
  my $bad = member(0, 10, 1, 1, 1, threads => [{ %thread, place => $evil }], @locks);
  @$bad{qw(host state)} = ($evil) x 2;
  $bad->{process_now}{state} = $evil;
  my %all = (%{ all($bad) }, mappings => [{ mapping => $evil, page_size => 8, pages => 1, of => { 10 => { owned => 1, copies => 0 } } }]);
  $view->take(\%all);
  $view->key($page) if $page;
  $view->take(\%all);
  my $good = 0;
  for my $height (0 .. 30) {
    for my $width (0 .. 3, 40, 500) {
      my @lines = $view->lines($height, $width);
      $good++ if @lines == ($width ? $height : 0) && !grep { length $_->[0] != $width || $_->[0] =~ /[^\x20-\x7e]/ } @lines;
    }
  }
  is($good, 31 * 6, 'plain text of the right size in each window' . ($page && ", $page"));
}
$view->silent(4);
is(style($view, qr/^no answer for 4\.0 s/), 'alarm', 'nothing comes');
$view->take(all());
like(shown($view), qr/^0 processes/, 'nobody');
done_testing();
