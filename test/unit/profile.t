#!/usr/bin/perl
# profile.t - what dmirun --profile FILE shows: places of several processes are one, the most expensive
# first; only the last program of a file; lines that are none do no harm.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Profile;
use JSON::PP ();
use Test::More;

sub cost { my ($faults, $waits, $ns, $longest) = @_; return { faults => $faults, waits => $waits, ns => $ns, longest => $longest // $ns } }
sub line { return JSON::PP->new->canonical->encode({ program => 'new', @_ }) . "\n" }
sub process { my ($member, $all, %more) = @_; return line(profile => 'process', member => $member, all => $all, gone => 0, rest => cost(0, 0, 0), %more) }
sub place {
  my ($member, $number, $cost, @pages) = @_;
  return line(profile => 'place', member => $member, call => 'DMI_read', place => "p.c:$number (f)", mapping => '0x10', page_size => 4096,
    cost => $cost, waits => ['page'], pages => [map { { page => $_->[0], faults => $_->[1] + 1, surely => $_->[1], ns => 0 } } @pages]);
}

my @lines = (
  line(program => 'old', profile => 'process', member => 9, all => cost(1, 1, 9e9), gone => 0),
  process(1, cost(100, 60, 4e9)), place(1, 7, cost(40, 30, 1e9), [3, 30], [4, 5]), place(1, 8, cost(60, 30, 1e9), [5, 60]),
  process(2, cost(300, 10, 1e9)), place(2, 7, cost(300, 10, 3e9, 2e6), [3, 250]),
);
my $profile = DMI::Profile->new(@lines);
is($profile->processes, 2, 'the processes of the last program');
is(join(' ', map { "$_->{place} $_->{cost}{ns} $_->{cost}{faults}" } $profile->places), 'p.c:7 (f) 4000000000 340 p.c:8 (f) 1000000000 60',
  'a place of both is one, and the most expensive is the first');
my $text = $profile->text;
like($text, qr/^2 processes: threads have waited 5\.0 s in all, in 70 waits, and have asked for pages 400 times$/m, 'sums');
like($text, qr/^4\.0 s +80 % +40 +340 +1\.0 s +DMI_read at p\.c:7 \(f\) +pages of 0x10 +4\.0 KiB +3: 82 %, 4: 1 %$/m, 'a line of the first place');
unlike($text, qr/no room|places more/, 'all is shown');

$text = DMI::Profile->new(process(1, cost(5, 5, 5e6), gone => 2, rest => cost(1, 2, 3e6)),
  line(profile => 'place', member => 1, call => 'DMI_team_recv', place => "x\e[2J:1", cost => cost(0, 3, 2e6), waits => ['message']),
  line(profile => 'place', member => 1, cost => cost(4, 0, 0), waits => []))->text;
like($text, qr/^2\.0 ms +40 % +3 +0 +2\.0 ms +DMI_team_recv at x\?\[2J:1 +message$/m, 'a wait for no page, without control characters');
like($text, qr/^0 us +0 % +0 +4 +0 us +threads of DMI$/m, 'threads of the library');
like($text, qr/^and places for which there was no room: 3\.0 ms, 2 waits, 1 faults$/m, 'what is not there is told');
$text = DMI::Profile->new(process(1, cost(1, 1, 1)), map { place(1, $_, cost(1, 1, 1)) } 1 .. 50)->text;
like($text, qr/^and 10 places more$/m, 'a long list is cut');

# The wait of the main thread for the others is none that costs time.
$text = DMI::Profile->new(process(1, cost(3, 5, 10e9)), line(profile => 'place', member => 1, call => 'DMI_join', place => 'p.c:5 (DMI_main)', cost => cost(0, 2, 8e9, 5e9), waits => ['thread']),
  place(1, 7, cost(3, 3, 2e9)))->text;
like(DMI::Profile->new(process(1, cost(3, 1, 2e9)), line(profile => 'place', member => 1, call => 'DMI_local_barrier_sync', place => 'p.c:9 (work)', mapping => '0x1000', page_size => 64, cost => cost(3, 1, 2e9),
  waits => ['page', 'barrier'], pages => []))->text, qr/^2\.0 s [^\n]*DMI_local_barrier_sync at p\.c:9 \(work\) +barrier, pages of 0x1000 /m, 'a barrier is named beside the pages that it needs');
like($text, qr/^1 process: threads have waited 2\.0 s in all, in 3 waits, and have asked for pages 3 times$/m, 'sums without waits for the end of threads');
like($text, qr/\n\nwaited [^\n]*\n2\.0 s +100 % [^\n]*DMI_read at p\.c:7 [^\n]*\n\nbeside that: waits for the end of threads, which work meanwhile\nwaited [^\n]*\n8\.0 s +- +2 +0 +5\.0 s +DMI_join at p\.c:5 \(DMI_main\) +thread *\n\z/, 'which stand at the end');

my @warnings;
local $SIG{__WARN__} = sub { push @warnings, @_ };
my $bad = DMI::Profile->new("{\n", "[]\n", "{\"profile\":\"place\"}\n", @lines, 'cut');
is($bad->unread, 4, 'lines that are none are counted');
is($bad->processes, 2, 'and left out');
is("@warnings", '', 'no warnings');
ok(!eval { DMI::Profile::show("$FindBin::Bin/no such file"); 1 }, 'no file');
like($@, qr/No such file.*makes it/, 'is told');
ok(!eval { DMI::Profile::show($0); 1 } && $@ =~ /no profile is in it$/, 'and one that has none');
done_testing();
