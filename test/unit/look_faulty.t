#!/usr/bin/perl
# look_faulty.t - who looks at a program of which a member is faulty (it answers what makes no sense, too
# much, twice, in pieces without an end, or never) gets something to see, or a reason, within bounds.
#
# The program that asks, which only passes answers on, is played by this file.  What it says depends on a seed.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Json;
use JSON::PP ();

my %answer = (
  1 => sub { map { { member => $_, process => $_ - 1, state => 'member', host => "h$_", tag => "h$_/1", pid => 1, cores => 2, memory => 9, port => 7880, address => '::1', coordinator => JSON::PP::true } } 1 .. 3 },
  2 => sub { { pid => 1, program => './p 1', state => 'member', now => 1000, since => 900, cores => 2, threads => 3, bytes_in => 1, bytes_out => 2, faults => 3, faults_now => 4,
      pool => { map { $_ => 100 } qw(limit used peak copies spilled tables) }, connections => 2, shared => 1, losses => 0 } },
  3 => sub { { mapping => '0x10', page_size => 8, pages => 4, home => 1, owned => 2, copies => 1, faults => 3, call => 'DMI_mmap', place => 'p.c:1 (f)' } },
  4 => sub { map { { thread => $_, number => $_, who => 'dmi', tid => $_, state => 'S', cpu => 1, call => 'DMI_read', place => 'p.c:2 (f)', waits => ('page', 'lock', 'barrier', 'cond', 'thread')[$_], ns => 1e9, addr => '0x10',
        size => 8, op => '7', mapping => '0x10', page => 0, role => 'none', hint => 2, joins => { member => 2, number => 1 } } } 0 .. 4 },
  5 => sub { { lock => '0x10', thread => 1, op => '7', call => 'DMI_mutex_lock', place => 'p.c:3 (f)' } },
  6 => sub { { barrier => '0x10', thread => 2 } },
  (map { $_ => sub { { role => 'owner', hint => 2, acks => 1, holder => { member => 2, op => '7' }, arrived => 1, needed => 2, tickets => 1 }, { queued => 'read', member => 3, op => '7', place => 1 } } } 7 .. 10),
  11 => sub { { faults => 100 }, { mapping => '0x10', page => 1, faults => 50, surely => 40 } },
  12 => sub { { waits => 'page', num => 2, ns => 5, lengths => [1, 2] } },
  13 => sub { { member => 2, bytes_in => 1, bytes_out => 2, over => 'TCP' } },
  14 => sub { { profile => 'process', all => { faults => 1 }, rest => {}, gone => 0 }, { profile => 'place', call => 'DMI_read' } },
);

# ---- The program that asks ---------------------------------------------------------------------

my @nonsense = (undef, '', "a\e[2J\nb", 'x' x 3000, -1, 1e300, '0x', '0xffffffffffffffffff', 1 << 62, [], [[[]]], {}, { member => {} }, JSON::PP::false, 'owner', "\x{263a}");

# Some values are replaced by others, or missing.
sub spoil {
  my ($value, $odds) = @_;
  return $nonsense[rand @nonsense] if rand() < $odds;
  return $value if ref $value ne 'HASH';
  return { map { rand() < $odds ? () : ($_ => spoil($value->{$_}, $odds)) } sort keys %$value };
}

sub bytes { return join '', map { chr int rand 256 } 1 .. $_[0] }

sub play {
  my ($mode, $seed) = @_;
  srand $seed;
  local $| = 1;
  binmode STDOUT;
  my $number = 0;
  while (my $line = <STDIN>) {
    my ($what) = split ' ', $line;
    $number++;
    sleep 1 while $mode eq 'never' && $number > 1;
    exit 1 if $mode eq 'ends' && $number > 3;
    my @lines = $answer{$what}->();
    # The list of the members is that of the process that is asked, which may be the faulty one.
    my $odds = $mode ne 'nonsense' ? 0 : $what == 1 ? 0.03 : 0.1;
    my $text = join '', map { DMI::Json::encode(spoil($_, $odds) // {}) . "\n" } @lines;
    $text = bytes(rand 2000) if $mode eq 'bytes' && $what > 1;
    $text = '[' x 16384 if $mode eq 'deep' && $what > 1;
    my $next = $mode eq 'endless' && $what > 1 ? $number + 1 : $mode eq 'nonsense' && rand() < 0.05 ? 1 + int rand 1 << 31 : 0;
    my $how = $mode eq 'nonsense' && rand() < 0.05 ? int rand 12 : 0;
    my $times = $mode eq 'twice' ? 2 : 1;
    print "$number $how $next ", length $text, "\n", $text for 1 .. $times;
    print $number + 1000, ' 0 0 2', "\n{}" if $mode eq 'twice';
  }
  exit 0;
}
play(@ARGV) if @ARGV;

# ---- Who looks ---------------------------------------------------------------------------------

require DMI::Look;
require DMI::LookText;
require DMI::TopView;
require DMI::Waits;
require DMI::Web::Metrics;
require DMI::Web::State;
require Test::More;
Test::More->import;

# All views of what it answers: the last of these that was made, or why not.
sub looks {
  my ($mode, $seed) = @_;
  my ($step, $bad) = ('look', '');
  local $SIG{ALRM} = sub { die "it hangs\n" };
  local $SIG{__WARN__} = sub { $bad .= "$mode $seed, $step: warning: $_[0]" };
  alarm 30;
  my $wait = sub {
    vec(my $bits = '', fileno $_[0], 1) = 1;
    die "no answer\n" if !select $bits, undef, undef, $mode eq 'never' ? 0.2 : 20;
  };
  my $look = DMI::Look->new(command => [$^X, __FILE__, $mode, $seed], wait => $wait, ended => sub { die "ended\n" });
  my $all;
  my $good = eval {
    $all = $look->all(qw(process mappings hot threads locks barriers waits peers profile));
    $step = 'status';
    my $text = DMI::LookText::status($all);
    $step = 'threads';
    $text .= DMI::LookText::threads($all);
    die "control characters\n" if $text =~ /[^\n\x20-\x7e\x{a0}-\x{10ffff}]/;
    $step = 'json';
    JSON::PP->new->canonical->pretty->encode($all);
    $step = 'top';
    my $view = DMI::TopView->new;
    $view->take($all) for 1 .. 2;
    for my $key ('', 'enter', 'm', 'right', 't') {
      $view->key($key);
      $view->lines(30, 100);
    }
    $step = 'metrics';
    $text = DMI::Web::Metrics::text($all);
    /^(?:#|dmi_\w+(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})? [-+.e\d]+$)/ or die "a line of metrics: $_\n" for split /\n/, $text;
    $step = 'page';
    DMI::Json::encode(DMI::Web::State::members($all, 1));
    DMI::Json::encode(DMI::Web::State::threads($all, 1));
    $step = 'all';
    1;
  };
  my $why = $good ? 'all' : "$step: $@";
  alarm 0;
  kill KILL => $look->pid;
  waitpid $look->pid, 0;
  return ("$why\n$bad" =~ s/\n+\z//r, $all, $look);
}

is((looks('well', 1))[0], 'all', 'a program that is well');
is((looks('bytes', 1))[0], 'all', 'answers that are no text');
is((looks('deep', 1))[0], 'all', 'lists in lists');
is((looks('twice', 1))[0], 'all', 'answers to what was not asked');
is((looks('never', 1))[0], 'look: no answer', 'no answer');
is((looks('ends', 1))[0], 'look: ended', 'it ends');
{
  my ($why, $all, $look) = looks('endless', 1);
  is($why, 'all', 'answers without an end');
  is(join(' ', map { $_->{silent} ? 1 : 0 } @{ $all->{members} }), '1 1 1', 'whose members count as silent');
  cmp_ok($look->{number}, '<', 20_000, 'after a while');
}
my @bad;
for my $seed (1 .. (($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 2000 : 30)) {
  my ($why) = looks('nonsense', $seed);
  push @bad, "seed $seed: $why" if $why ne 'all';
}
is(join("\n", @bad), '', 'members that talk nonsense');
done_testing();
