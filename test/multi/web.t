#!/usr/bin/perl
# web.t - dmirun --web: what its page shows in a browser of a program whose processes come, are stopped,
# leave and are killed; of a deadlock; of a program that ends.  And that nothing is asked while
# nobody looks.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMIWeb;
use Fcntl qw(F_SETFD);
use IO::Socket::INET ();
use WebClient;

if (my $why = DMIWeb::no_browser()) { plan(skip_all => $why) }
my $t = DMITest->new(timeout => 240, wait => 60);
my $dmirun = $t->build . '/bin/dmirun';
my $browser = Browser->new(dir => $t->dir, seconds => 20 * ($ENV{DMI_TEST_SLOW} || 1), width => 1400, height => 1250);

# The row of a process, and what is in a cell of it.
sub cell { my ($process, $at) = @_; return "document.querySelector('#members tr[data-process=\"$process\"]').cells[$at].textContent" }
sub shows {
  my ($expression, $what) = @_;
  ok(eval { $browser->wait_for($expression) }, $what) or $t->fail_now("$what: $@\n" . $browser->value('document.body.innerText'));
}
sub logged { my ($text) = @_; shows("document.getElementById('log').textContent.includes('$text')", "the page tells: $text") }

# ---- Processes come and go ---------------------------------------------------------------------

my $program = $t->compile('test/multi/web_dmi.c');
pipe my $in, my $rounds or die;
$rounds->autoflush(1);
# It is stopped below, until the browser shows that: it must not be lost meanwhile.
my $patience = 20 * ($ENV{DMI_TEST_SLOW} || 1);
my $first = $t->start($program, name => 'first', stdin => $in, opts => ['--web', 0, '--survive', '--dead-after', $patience]);
close $in;
my $place = DMIWeb::place($first);
$first->expect_out(qr/^in 0$/m);

$browser->open($place->{url});
shows("document.querySelectorAll('#members tbody tr').length === 1", 'the page shows the first process');
shows(cell(0, 2) . " === 'member'", 'as a member');
shows("document.title.startsWith('web_dmi') && /web_dmi/.test(document.getElementById('program').textContent) && document.getElementById('asked').textContent.endsWith(':" . $first->port . "')",
  'which program it is, and where it was asked');
shows(cell(0, 0) . " === '0 \\u00b7 first'", 'and as the first one');
my $second = $t->start($program, name => 'second', join => $first);
$second->expect_event('opened');
shows(cell(1, 2) . " === 'member'", 'a process that joins appears');
shows(cell($_->[0], 3) . " === '" . $_->[1]->pid . "'", "with its pid: process $_->[0]") for [0, $first], [1, $second];
logged('has joined');
my $third = $t->start($program, name => 'third', join => $first);
$third->expect_event('opened');
shows("document.getElementById('count').textContent === '3'", 'there are three');

# Threads: each waits for a round.
my $line = do {
  open my $source, '<', $t->top . '/test/multi/web_dmi.c' or die $!;
  my $number;
  while (<$source>) { $number = $. if m{line: waits} }
  "web_dmi.c:$number";
};
shows("[...document.querySelectorAll('#threads tbody tr')].filter((row) => row.cells[3].textContent.includes('DMI_watch at $line') && /^until the bytes at 0x[0-9a-f]+ .*change/.test(row.cells[4].textContent)).length === 3",
  'the threads of all wait in DMI_watch, at its line');
shows("[...document.querySelectorAll('#threads tbody tr')].some((row) => row.cells[0].textContent === 'DMI_main of process 0' && row.cells[1].textContent === 'poll')", 'and DMI_main for a notice');
shows("document.querySelectorAll('#mappings tbody tr').length >= 1", 'there is a mapping');
shows("[...document.querySelectorAll('#mappings tbody tr')].every(({ cells: [, , , , , , made] }) => made.textContent.length > 20 && made.scrollWidth <= made.clientWidth)",
  'the call that has made it is not cut');
shows("[...document.querySelectorAll('#mappings .owners i')].every((part) => [...document.querySelectorAll('#owners span')].some((of) => part.title.startsWith(of.textContent + ':') && getComputedStyle(of, '::before').backgroundColor === getComputedStyle(part).backgroundColor))"
    . " && document.querySelectorAll('#owners span').length >= 1", 'a legend says whose its pages are, by their colour');
shows("getComputedStyle(document.querySelector('#members tr[data-process=\"0\"] .colour')).backgroundColor === getComputedStyle(document.querySelector('#owners span'), '::before').backgroundColor",
  'which is beside the process, too');
print $rounds "go\n" for 1 .. 20;
$_->expect_out(qr/^round \d+$/m) for $second, $third;
{
  open my $source, '<', $t->top . '/test/multi/web_dmi.c' or die $!;
  my $made;
  while (<$source>) { $made = $. if m{line: made} }
  # Pages are hot while they are asked for.
  my $hot = "[...document.querySelectorAll('#hot tbody tr')].some((row) => /^\\d+\$/.test(row.cells[0].textContent) && Number(row.cells[2].textContent) > 0 && /^[012]\$/.test(row.cells[4].textContent) && row.cells[5].textContent.startsWith('DMI_mmap at web_dmi.c:$made '))";
  $t->wait_until(sub { print $rounds "go\n"; return $browser->value("document.querySelector('#often').hidden ? false : $hot") }, 'hot pages, with their owner, and the line that has made their mapping');
}
shows("dmi.known.members.members.some((member) => member.faults > 0)", 'their requests are counted');
shows("dmi.known.members.members.every(({ process, fault }) => (fault === undefined ? '\\u2013' : fault.toFixed(fault < 10 && fault > 0 ? 1 : 0) + '/s') === document.querySelector(`#members tr[data-process=\"\${process}\"]`).cells[11].textContent)", 'and how many a second is shown');
shows("dmi.threads >= 3", 'threads are told again and again');
shows("document.querySelectorAll('#flows tbody tr').length === 3 && [...document.querySelectorAll('#flows tbody tr')].every((row, at) => [1, 2, 3].every((to) => row.cells[to].textContent === '' ? to === at + 1 : /^[0-9.]+ \\w+\\/s\$/.test(row.cells[to].textContent)))",
  'what each process sends to each other one');
$browser->value("document.querySelector('#members tr[data-process=\"1\"]').click()");
shows("document.getElementById('which').textContent === 'of process 1' && [...document.querySelectorAll('#threads tbody tr')].every((row) => row.cells[0].textContent.endsWith(' of process 1'))", 'a click shows the threads of one process');
$browser->value("document.getElementById('everyone').click()");
shows("document.querySelectorAll('#threads tbody tr').length === 4", 'and another one those of all');
DMIWeb::screenshot($t, $browser, 'web-light');
$browser->dark(1);
DMIWeb::screenshot($t, $browser, 'web-dark');
$browser->dark(0);

# Stopped, and goes on; killed; leaves.
$third->stop;
shows(cell(2, 2) . " === 'silent' && " . cell(2, 3) . " === '" . $third->pid . "'", 'a process that was stopped is silent; its pid is there, too');
logged('gives no answer');
$third->signal('CONT');
shows(cell(2, 2) . " === 'member'", 'and is not when it goes on');
$first->stop;    # which is asked for all
shows("/^nothing new for/.test(document.getElementById('fresh').textContent)", 'the page does not call itself live when nothing comes');
$first->signal('CONT');
shows("/^live/.test(document.getElementById('fresh').textContent)", 'but when something comes again');
$third->kill_now;
$third->wait_exit(signal => 'KILL');
shows("document.querySelectorAll('#members tbody tr').length === 2", 'one that was killed disappears');
logged('process 2');
logged('is lost');
# What its canvas says is written there.
$browser->value("(() => { const pen = document.querySelector('#timeline canvas').getContext('2d'), fill = pen.fillText; dmi.said = new Set(); pen.fillText = (text, ...more) => { dmi.said.add(text); fill.call(pen, text, ...more); }; })()");
shows("['0', '1', '2'].every((process) => [...dmi.said].some((text) => text.startsWith(process + ' \\u00b7 ')))", 'the timeline still names it');
shows("![...dmi.said].some((text) => text.startsWith('?'))", 'as it was');

# ---- One that is started for a program that runs, and goes on when the process leaves that it asks -----

{
  my $beside = $t->spawn([$dmirun, '--web', 0, -i => '127.0.0.1', -p => $second->port], name => 'beside');
  my $other = DMIWeb::place($beside);
  isnt($other->{token}, $place->{token}, 'each has a token of its own');
  my $events = WebClient->listen(@$other{qw(port token)});
  my ($name, $data) = $events->event;
  like($data, qr/"process":0/, 'and shows the same program');
  is((WebClient->request($other->{port}, GET => "/events?token=$place->{token}"))[0], 403, 'not to who has the token of another one');
  $second->signal('INT');
  $second->wait_exit(0);
  ($name, $data) = $events->event until $name eq 'members' && $data =~ /"members":\[/ && 1 == (() = $data =~ /"member":\d/g);
  pass('when the process that it asks leaves, it asks another one');
  $beside->signal('TERM', dies => 1);
  $beside->wait_exit(signal => 'TERM');
  ok(eval { 1 while $events->event; 1 }, 'when it ends, so do its pages');
}

shows("document.querySelectorAll('#members tbody tr').length === 1", 'and so does one that leaves');
logged('process 1');
logged('has left');

# ---- The end -------------------------------------------------------------------------------------

close $rounds;
$first->wait_exit(0);
shows("document.getElementById('trouble').textContent === 'the program has ended'", 'the page says that the program has ended');
shows("document.getElementById('fresh').textContent === 'ended'", 'and does not go on asking');
my $red = "getComputedStyle(document.body.appendChild(Object.assign(document.createElement('i'), { style: 'color: var(--bad)' }))).color";
is($browser->value("['trouble', 'fresh'].filter((id) => getComputedStyle(document.getElementById(id)).color === $red).length"), 0, 'an orderly end is not red');
is($browser->value("document.body.innerText.split('has ended').length - 1"), 1, 'and is told once');
DMIWeb::screenshot($t, $browser, 'web-ended');
$t->wait_looking(sub { !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $place->{port}) }, 'its server ends with the program');

# ---- Nothing is asked while nobody looks ---------------------------------------------------------

{
  pipe my $reader, my $writer or die;
  my $alone = $t->start($program, name => 'unseen', stdin => $reader, opts => ['--web', 0]);
  my $at = DMIWeb::place($alone);
  $alone->expect_out(qr/^in 0$/m);
  is((WebClient->request($at->{port}, GET => "/?token=$at->{token}"))[0], 200, 'the page alone asks nothing');
  my $page = WebClient->listen(@$at{qw(port token)});
  $page->event for 1 .. 2;
  $alone->expect_event('stranger_connected');
  close $page->{socket};
  my $gone = $alone->expect_event('connection_closed');
  is($gone->{why}, 'both sides have closed it', 'which ends with the page');
  close $writer;
  $alone->wait_exit(0);
  is(scalar(() = $alone->events('stranger_connected')), 1, 'that was the only one: nothing was asked before');
}

# What a process has open besides stdin, stdout and stderr.
sub open_in { my ($pid) = @_; return map { readlink($_) // '' } grep { !m{/[012]\z} } glob "/proc/$pid/fd/*" }

# The process that listens on a port.
sub listener {
  my ($port) = @_;
  open my $table, '<', '/proc/net/tcp' or die $!;
  my $end = sprintf ':%04X', $port;
  my ($inode) = map { /^ *\d+: \w+$end \w+:0000 0A (?:\S+ +){5}(\d+) / ? $1 : () } <$table>;
  for my $pid (map { m{(\d+)} } glob '/proc/[0-9]*') {
    return $pid if grep { $_ eq "socket:[$inode]" } open_in($pid);
  }
  die "nobody listens on port $port\n";
}

# ---- With a key from a descriptor ----------------------------------------------------------------

{
  pipe my $reader, my $writer or die;
  pipe my $key, my $key_to or die;
  pipe my $told, my $port_to or die;
  fcntl $port_to, F_SETFD, 0;
  syswrite $key_to, '0123456789abcdef' x 4 . "\n";
  close $key_to;
  fcntl $key, F_SETFD, 0;
  my $keyed = $t->spawn([$dmirun, '--key-fd', fileno $key, '--ready-fd', fileno $port_to, -l => 0, '--web', 0, $program], name => 'with a key', stdin => $reader);
  close $_ for $reader, $key, $port_to;
  my $at = DMIWeb::place($keyed);
  my $events = WebClient->listen(@$at{qw(port token)});
  my ($name, $data) = ('', '');
  ($name, $data) = $events->event until $data =~ /"process":0,/;
  pass('with --key-fd the program is shown');
  is(join(' ', grep { /^pipe/ } open_in(listener($at->{port}))), '', 'its server has neither the key nor what others read');
  like(scalar(do { local $/; readline $told }), qr/^\d+\n\z/, 'and who wants to know the port sees its end while the program runs');
  close $writer;
  $keyed->wait_exit(0);
  ($name, $data) = $events->event until $data =~ /"ended"/;
  pass('and its page is told its end');
  $t->wait_looking(sub { !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $at->{port}) }, 'and its server ends with it');
}

# ---- Beside several processes -------------------------------------------------------------------

{
  pipe my $reader, my $writer or die;
  my $set = $t->spawn([$dmirun, -n => 2, -l => 0, '--web', 0, $program], name => 'set', stdin => $reader);
  close $reader;
  my $at = DMIWeb::place($set);
  my $events = WebClient->listen(@$at{qw(port token)});
  my ($name, $data) = ('', '');
  ($name, $data) = $events->event until $data =~ /"process":1,/;
  pass('with -n there is one page, of all');
  is(scalar(() = $set->err =~ /the page is at/g), 1, 'beside the first process');
  close $writer;
  $set->wait_exit(0);
  # The agent, which kills what is left, leaves the page time to say so.
  ok(eval { ($name, $data) = $events->event until $data =~ /"ended":/; 1 }, 'and it tells that the program has ended');
}

# ---- A deadlock ----------------------------------------------------------------------------------

{
  my ($at, @both) = DMIWeb::hang($t, 'crosswise');
  $browser->open($at->{url});
  my $waits = 'in DMI_mutex_lock at see_dmi.c:\d+ \(crosswise\b[^)]*\), waits for the lock at 0x[0-9a-f]+';
  shows("/Deadlock: none of these threads can go on.*DMI_main of process 0 [^\\n]*$waits.*\\nthread 1 of process 1 [^\\n]*$waits/s.test(document.querySelector('#deadlock.on').textContent)",
    'a deadlock is named, with both threads and their lines');
  my $lock = "(() => { if (!dmi.drawn) return false; const { all, high, x, ratio, css } = dmi.drawn, pen = document.querySelector('#timeline canvas').getContext('2d'), probe = document.createElement('i');"
    . " document.body.append(probe); probe.style.color = css.getPropertyValue('--lock'); const colour = getComputedStyle(probe).color; probe.remove();"
    . " const now = x(dmi.known.threads.at); return all.length === 2 && all.every((entry, row) => entry.runs.at(-1).state === 'lock'"
    . " && 'rgb(' + [...pen.getImageData(Math.round((now - 1) * ratio), Math.round((row * high + high / 2) * ratio), 1, 1).data].slice(0, 3).join(', ') + ')' === colour); })()";
  $t->wait_looking(sub { return $browser->value($lock) }, 'the timeline has the colour of a lock for both');
  is($browser->value('dmi.drawn.span'), 20, 'the timeline of a young page is short');
  DMIWeb::screenshot($t, $browser, 'web-deadlock');
  $t->kill_together(@both);
  shows("document.getElementById('fresh').textContent === 'ended'", 'the end of a program that was killed is seen, too');
  shows("/^the process was lost: it was killed, /.test(document.querySelector('#trouble.on').textContent) && getComputedStyle(document.getElementById('trouble')).color === $red", 'in red');
  is($browser->value("document.body.innerText.split('lost').length - 1"), 1, 'and once');
  DMIWeb::screenshot($t, $browser, 'web-killed');
}

# A barrier to which nobody is left who could come.
{
  my ($at, @both) = DMIWeb::hang($t, 'few');
  $browser->open($at->{url});
  shows("/^Deadlock: nobody is left who could come to the barrier at 0x[0-9a-f]+ .*: 2 of 3 have come, and all threads wait at barriers or for each other\$/.test(document.querySelector('#deadlock.on').textContent)",
    'a barrier that is never reached is named as a deadlock');
  DMIWeb::screenshot($t, $browser, 'web-barrier');
  $t->kill_together(@both);
}

# ---- What it is not ------------------------------------------------------------------------------

sub refused {
  my ($line, @options) = @_;
  my $process = $t->spawn([$dmirun, @options], name => "@options");
  $process->expect_err($line);
  $process->wait_exit(2);
}
refused(qr/^dmirun: --web 80x: an address and a port are needed/m, '--web', '80x', $program);
refused(qr/\Admirun: -l 8701 and --web 8701: both name port 8701; give the page another one \(--web 0: any\)\n\z/, @$_, -l => 8701, '--web', 8701, $program) for [], [-n => 2];
refused(qr/^dmirun: --web without a program shows one that runs: -i HOST/m, '--web', 0);
my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
refused(qr/^dmirun: --web \d+: the port is in use on this machine: choose another \(0: any free one\)$/m, '--web', $taken->sockport, $program);
my $nobody = $t->spawn([$dmirun, '--web', 0, -i => '127.0.0.1', -p => $taken->sockport], name => 'nobody there');
close $taken;
$nobody->expect_err(qr/^dmi: /m);
$nobody->wait_exit(1);

$browser->close_now;
$t->done;
