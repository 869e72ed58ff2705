#!/usr/bin/perl
# timeline.t - dmirun --events, and the pictures that dmitimeline makes of such files.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP qw(decode_json encode_json);

my $t = DMITest->new(timeout => 120);
my $dir = $t->dir;
my $dmitimeline = $t->build . '/bin/dmitimeline';

sub content {
  my ($path) = @_;
  open my $file, '<:raw', $path or return '';
  local $/;
  return scalar <$file>;
}

sub put {
  my ($name, $text) = @_;
  open my $file, '>:raw', "$dir/$name" or die $!;
  print $file $text;
  close $file or die $!;
  return "$dir/$name";
}

# Runs it to its end; returns (stdout, stderr).
sub draw {
  my ($status, @args) = @_;
  my $process = $t->spawn([$dmitimeline, @args], name => 'dmitimeline');
  $process->wait_exit($status);
  return ($process->out, $process->err);
}

# Each element that is opened is closed, and nothing is outside of <svg>.
sub is_well_formed {
  my ($svg, $what) = @_;
  my (@open, $wrong);
  my $rest = $svg;
  $rest =~ s/\A<svg\b/<svg/ or $wrong = 'no <svg> at the beginning';
  while (!$wrong && $rest =~ s{\A[^<&]*(?:&(?:amp|lt|gt|quot);[^<&]*)*<(/?)(\w+)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>}{}) {
    my ($end, $name, $empty) = ($1, $2, $4);
    if ($end) { (pop @open // '') eq $name or $wrong = "</$name>" }
    elsif (!$empty) { push @open, $name }
  }
  $wrong //= "<@open> is not closed" if @open;
  $wrong //= 'behind it: ' . substr $rest, 0, 80 if $rest =~ /\S/;
  is($wrong, undef, "$what: well formed");
}

# ---- A program ---------------------------------------------------------------------------------

{
  my $program = $t->build . '/examples/nqueens_dmi';
  my $first = $t->start($program, args => [10, 2], name => 'first', opts => ['--events', "$dir/events"]);
  my $second = $t->start($program, name => 'second', join => $first, opts => ['--events', "$dir/events"]);
  $_->wait_exit(0) for $first, $second;
  my @events = map { decode_json($_) } split /\n/, content("$dir/events");
  my %pids = map { $_->{pid} => 1 } @events;
  is(scalar keys %pids, 2, 'both processes have written to the file');
  my %of = map { $_->{event} => 1 } @events;
  ok($of{$_}, "with $_") for qw(listening joined opened thread_begun thread_ended finalized);
  my ($svg) = draw(0, "$dir/events");
  is_well_formed($svg, 'its picture');
  like($svg, qr/>process $_ \(\S+\)</, "process $_ has its lanes") for 0, 1;
  like($svg, qr/<title>thread \d+: at .*, ran /, 'with threads');
}

# ---- Calls of remote functions -----------------------------------------------------------------

# Events of one process, with the least that they need.
sub events {
  my @lines;
  while (my ($time, $event, $more) = splice @_, 0, 3) {
    push @lines, encode_json({ time => $time, pid => 7, process => 0, event => $event, %$more });
  }
  return map { "$_\n" } @lines;
}

{
  my @call = (client => 1, function => 'a<b>&"c"');
  my $file = put('calls', join '', events(
      10,   listening     => { host => 'here' },
      10.1, call_queued   => { @call, call => 1 },
      10.1, call_queued   => { @call, call => 2 },
      10.1, call_queued   => { @call, call => 3 },
      10.3, call_complete => { @call, call => 1 },
      10.4, call_fired    => { @call, call => 1, worker => 0 },
      10.5, call_complete => { @call, call => 2 },
      10.5, call_returned => { @call, call => 3 },
      10.6, call_fired    => { @call, call => 2, worker => 1 },
      10.9, call_done     => { @call, call => 1, worker => 0, us => 500000, failed => 0 },
      11,   call_done     => { @call, call => 2, worker => 1, us => 400000, failed => 1 }));
  my ($svg, $err) = draw(0, $file);
  is_well_formed($svg, 'names with special characters');
  is($err, '', 'nothing to complain about');
  like($svg, qr{<title>a&lt;b&gt;&amp;&quot;c&quot; #1: at 400 ms, waited for inputs 200 ms, for a worker 100 ms, ran 500 ms</title>}, 'a call');
  like($svg, qr{stroke="#cc0000"><title>[^<]* #2: [^<]*, failed</title>}, 'one that failed');
  like($svg, qr{>a&lt;b&gt;&amp;&quot;c&quot;: 2, 900 ms<}, 'the sum');
  like($svg, qr{>3 at most<}, 'three waited');
  like($svg, qr{>process 0 \(here\), workers busy 45 %<}, 'how busy the workers were');
  my ($x1, $w1) = $svg =~ /<rect x="([\d.]+)" [^>]*width="([\d.]+)"[^>]*><title>\S+ #1:/;
  cmp_ok(abs($x1 - (16 + 0.4 * 1200)), '<', 0.1, 'where its bar begins');
  cmp_ok(abs($w1 - 0.5 * 1200), '<', 0.1, 'and how long it is');
}

# A million short calls: the picture stays small.  (Fewer here; the width says how many bars there can be.)
{
  my ($time, @lines) = (1000);
  for my $call (1 .. 20000) {
    push @lines, $time, call_fired => { client => 1, call => $call, worker => 0, function => 'f' };
    push @lines, $time + 0.00001, call_done => { client => 1, call => $call, worker => 0, function => 'f', failed => 0 };
    $time += 0.00002;
  }
  my ($svg) = draw(0, put('many', join '', events(@lines)));
  is_well_formed($svg, 'many calls');
  cmp_ok(scalar(() = $svg =~ /<title>/g), '<', 3000, 'bars that cannot be seen are drawn as one');
  like($svg, qr/>f: 20000, /, 'all are counted');
}

# ---- What users get wrong ----------------------------------------------------------------------

for (
  [qr/no file given/],
  [qr{$dir/none: No such file}, "$dir/none"],
  [qr/is a directory/, $dir],
  [qr/no events in/, put('empty', '')],
  [qr/unknown option --wrong/, '--wrong'],
  [qr/-o needs/, '-o'],
  [qr{$dir/no/where: No such file}, '-o', "$dir/no/where", "$dir/calls"],
) {
  my ($why, @args) = @$_;
  my ($out, $err) = draw(2, @args);
  like($err, qr/^dmitimeline: [^\n]*$why[^\n]*\n\z/m, "refused: @args");
}
{
  my (undef, $err) = draw(0, '-o', "$dir/picture.svg", put('odd', "nonsense\n[1]\n{\"time\":\"x\"}\n" . content("$dir/calls")));
  like($err, qr/^dmitimeline: 3 lines are no events \(cut off\?\)$/m, 'lines that are no events are counted');
  is_well_formed(content("$dir/picture.svg"), 'the rest');
}

$t->done;
