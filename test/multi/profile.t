#!/usr/bin/perl
# profile.t - a page that is asked for all the time is found, with who asks for it and from which line
# of the program: in dmirun --status and --json while the program runs, and in the file of --profile
# when it has ended, with exact counts.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP ();

my $t = DMITest->new(timeout => 120, wait => 60);
my $program = $t->compile('test/multi/profile_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
my $file = $t->dir . '/profile';

# The line of the program with this mark.
my %line;
{
  open my $source, '<', $t->top . '/test/multi/profile_dmi.c' or die $!;
  while (<$source>) { $line{$1} = qr/^profile_dmi\.c:$. \(\w+[^)]*\)$/ if m{/\* line: (.*?) \*/} }
}

sub run {
  my ($status, @args) = @_;
  my $look = $t->spawn([$dmirun, @args], name => 'look');
  $look->wait_exit($status);
  return $look->out . $look->err;
}

sub begin {
  my (@opts) = @_;
  pipe my $reader, my $writer or die;
  $writer->autoflush(1);
  my $first = $t->start($program, opts => [@opts], name => 'first', stdin => $reader);
  my $second = $t->start($program, opts => [@opts], join => $first, name => 'second');
  my $base = $first->expect_out(qr/^begins (\d+)$/m);
  return ($first, $second, sprintf('0x%x', $base), $writer);
}

# Ends the program; how often the hot page was read.
sub finish {
  my ($first, $second, $base, $writer) = @_;
  print $writer "end\n";
  my $turns = $second->expect_out(qr/^turns (\d+)$/m);
  $_->wait_exit(0) for $first, $second;
  return 50 * $turns;
}

# An old profile in the file goes.
{
  open my $old, '>', $file or die $!;
  print $old "old\n";
}
my @all = begin('--profile', $file);
my ($first, $second, $base) = @all;
my $at = '127.0.0.1:' . $first->port;

# While it runs.
my $status = '';
$t->wait_until(sub { $status = run(0, '--status', $at); $status =~ /^hottest/m }, 'the status tells of hot pages');
my $made = 'DMI_mmap at ' . $line{made} =~ s/^\(\?\^:\^(.*)\$\)\z/$1/r;
like($status, qr/^hottest pages .*\npage .*\n3 +$base +\d+ +1: \d+ +(?:[01?]|moving) +$made$/m, 'the hottest one, with the process that asks for it, the owner, and the line that has made its mapping');
like($status, qr/^1 .* (\d+) +[1-9]\d*$/m, 'and so many faults a second');
like($status, qr/^$base +4\.0 KiB +8 .* 1: \d+ +$made$/m, 'and the faults of the mapping, with that line');
like(run(0, '--status', '127.0.0.1:' . $second->port), qr/^$base +4\.0 KiB +8 .* +$made$/m, 'which the other process tells, too');

my $json = eval { JSON::PP::decode_json(run(0, '--json', $at)) } // {};
my ($one, $two) = @{ $json->{members} // [] };
my ($hot) = @{ $two->{hot} // [] };
is("$hot->{mapping} $hot->{page}", "$base 3", 'so does the JSON');
my ($mapping) = grep { $_->{mapping} eq $base } @{ $json->{mappings} // [] };
like("$mapping->{call} at $mapping->{place}", qr/^$made$/, 'with the call and place of the mapping');
cmp_ok($hot->{surely}, '>', 0.8 * $two->{hot_of}{faults}, 'most of the last faults');
my ($waits) = grep { $_->{waits} eq 'page' } @{ $two->{waits} // [] };
cmp_ok($waits->{num}, '>', 0, 'its waits are counted');
my $sum = 0;
$sum += $_ for @{ $waits->{lengths} };
is($sum, $waits->{num}, 'each has a length');
my ($with) = grep { $_->{member} == $one->{member} } @{ $two->{peers} // [] };
cmp_ok($with->{bytes_in}, '>', 8 * $hot->{surely}, 'and the bytes that came from the other process');
my ($places) = grep { ($_->{place} // '') =~ $line{hot} } @{ $two->{profile} // [] };
cmp_ok($places->{cost}{faults}, '>', 0, 'and the line of the program');

# When it has ended.
my $reads = finish(@all);
open my $profile, '<', $file or die "$file: $!";
my @lines = map { JSON::PP::decode_json($_) } <$profile>;
is(scalar(grep { $_->{profile} eq 'process' } @lines), 2, 'both processes have written to the file, and nothing else is in it');
my ($found) = sort { $b->{cost}{faults} <=> $a->{cost}{faults} } grep { $_->{profile} eq 'place' } @lines;
like($found->{place}, $line{hot}, 'the place with most faults is that of the hot page');
is("$found->{call} $found->{mapping} $found->{page_size} $found->{process}", "DMI_read $base 4096 1", 'its call, mapping and process');
is($found->{cost}{faults}, $reads, 'each read is a fault');
my $waited = $found->{cost}{waits};
cmp_ok($waited, '<=', $reads, 'and a wait, unless the answer was there before');
cmp_ok($waited, '>', 0, 'which it is not always');
is(join(' ', map { "$_->{page} $_->{faults} $_->{surely}" } @{ $found->{pages} }), "3 $reads $reads", 'of the hot page');
is("@{ $found->{waits} }", 'page', 'waits for a page');
cmp_ok($found->{cost}{ns}, '>', 1000 * $waited, 'that have taken time');
cmp_ok($found->{cost}{ns}, '>=', $found->{cost}{longest}, 'the longest of them no more than all');
my ($cold) = grep { ($_->{place} // '') =~ $line{cold} } @lines;
is("$cold->{cost}{faults} $cold->{pages}[0]{page}", $reads / 50 . ' 5', 'the cold page has its own place');

my $shown = run(0, '--profile', $file);
{
  my $full = $t->spawn(['/bin/sh', '-c', 'exec "$@" > /dev/full', 'sh', $dmirun, '--profile', $file], name => 'full');
  $full->wait_exit(2);
  is($full->err, "dmirun: cannot write the output: No space left on device\n", 'a full disk is told of');
}
like($shown, qr/^2 processes: threads have waited .* have asked for pages \d+ times$/m, 'dmirun shows the file');
like($shown, qr/^.* $waited +$reads +\S+ \S+ +DMI_read at profile_dmi\.c:\d+ \(\w+[^)]*\) +pages of $base +4\.0 KiB +3: 100 %$/m, 'with the place');

# Who only tries its options, or looks, leaves the file as it is.
{
  my $before = -s $file;
  cmp_ok($before, '>', 0, 'the file is there');
  run(0, '--check', '-l', 0, '--profile', $file, $program);
  is(-s $file, $before, '--check leaves it');
  local $ENV{DMI_PROFILE} = $file;
  system "'$dmirun' --status > /dev/null 2>&1"; # whether a program runs at the usual port or not
  is(-s $file, $before, 'and so does --status');
}

# The third Ctrl+C: who hangs wants to know where.  Who is killed writes none, and that is told.
{
  local $ENV{TMPDIR} = $t->dir;
  @all = begin('--profile', $file);
  my ($first, $second) = @all;
  like(run(2, '--profile', $file), qr/^dmirun: --profile \S+: no profile is in it: processes write theirs when they end, which none has done yet, or they were killed \(dmirun --json/, 'while it runs there is none');
  $first->signal('INT');
  $first->expect_event('closed');
  $first->signal('INT');
  $first->expect_err(qr/^dmi: still here: /m);
  $first->signal('INT');
  $first->wait_exit(130);
  $second->wait_exit(1);
  $shown = run(0, '--profile', $file);
  like($shown, qr/^2 processes: .* DMI_read at profile_dmi\.c:\d+ \(\w+[^)]*\) +pages of 0x\w+ +4\.0 KiB +3: 100 %$/ms, 'the third Ctrl+C: both have written it, who was interrupted and who ended with it');
}

# Without it nothing is written, or told.
unlink $file;
@all = begin();
$json = eval { JSON::PP::decode_json(run(0, '--json', '127.0.0.1:' . $all[0]->port)) } // {};
is(scalar(map { @{ $_->{profile} // [] } } @{ $json->{members} }), 0, 'there is no profile without the option');
finish(@all);
ok(!-e $file, 'and no file');
like(run(2, '--profile', $file), qr/^dmirun: --profile .*No such file/m, 'which is told to who wants to see it');

$t->done;
