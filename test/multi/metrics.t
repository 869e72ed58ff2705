#!/usr/bin/perl
# metrics.t - /metrics of dmirun --web: promtool finds nothing to say about it, its figures are those of
# dmirun --status --json, and Prometheus needs the token.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use DMIWeb;
use JSON::PP ();
use WebClient;

if (my $why = DMIWeb::missing()) { plan(skip_all => $why) }
my ($promtool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};
plan(skip_all => 'no promtool (Debian: prometheus)') if !$promtool;
my $t = DMITest->new(timeout => 120, wait => 60);
my $program = $t->compile('test/multi/web_dmi.c');

# What promtool says of a text, and its status.
sub lint {
  my ($text) = @_;
  my $file = $t->dir . '/metrics';
  open my $to, '>', $file or die $!;
  print $to $text;
  close $to;
  local $SIG{CHLD} = 'DEFAULT';
  my $said = `$promtool check metrics < $file 2>&1`;
  return ($said, $? >> 8);
}

# name => { member => value }
sub figures {
  my ($text) = @_;
  my %figures;
  $figures{$1}{$2} = $3 while $text =~ /^dmi_(\w+)\{process="-?\d+",member="(\d+)",host="[^"]*"(?:,tag="[^"]*")?\} (\d+)$/mg;
  return \%figures;
}

pipe my $in, my $rounds or die;
$rounds->autoflush(1);
my $first = $t->start($program, name => 'first', stdin => $in, opts => ['--web', 0, '--dead-after', 0, '--encrypt']);
close $in;
my $place = DMIWeb::place($first);
my $second = $t->start($program, name => 'second', join => $first, env => { DMI_TAG => 'h/2' });
$second->expect_event('opened');
$first->expect_out(qr/^in 1$/m);
print $rounds "go\n" for 1 .. 5;
$second->expect_out(qr/^round \d+$/m);

sub scrape { return WebClient->request($place->{port}, GET => '/metrics', "Authorization: Bearer $place->{token}") }

my ($status, $head, $text) = scrape();
is($status, 200, 'the metrics');
like($head, qr/^Content-Type: text\/plain; version=0\.0\.4; charset=utf-8\r?$/m, 'in the text format');
is_deeply([lint($text)], ['', 0], 'promtool finds nothing to say');
isnt((lint($text =~ s/faults_total/faults_sum_total_count/gr =~ s/^# HELP.*\n//mgr))[0], '', 'but it would');
like($text, qr/^dmi_members 2$/m, 'there are two');
like($text, qr/^dmi_cores\{process="1",member="\d+",host="[^"]*",tag="h\/2"\} \d+$/m, 'the one that has a tag is labelled with it');

# DMI_main waits for a notice, and a thread of each process for the next round.
my $waits = sub { my ($process, $call) = @_; return qr/^dmi_threads_waiting\{process="$process",member="\d+",host="[^"]*"(?:,tag="[^"]*")?,call="$call"\} 1$/m };
$t->wait_until(sub { my $now = (scrape())[2]; return !grep { $now !~ $_ } $waits->(0, 'DMI_poll'), $waits->(0, 'DMI_watch'), $waits->(1, 'DMI_watch') }, 'threads that wait, by call');
like($text, qr/^dmi_deadlocks 0$/m, 'there is no deadlock');

my $look = $t->spawn([$t->build . '/bin/dmirun', '--status', '--json', '127.0.0.1:' . $first->port], name => 'status');
$look->wait_exit(0);
my $all = JSON::PP::decode_json($look->out);
my $later = (scrape())[2];
my ($before, $after) = map { figures($_) } $text, $later;
my %path = (start_time_seconds => ['since'], cores => ['cores'], threads => ['threads'], received_bytes_total => ['bytes_in'],
  sent_bytes_total => ['bytes_out'], faults_total => ['faults'], map { ("pool_${_}_bytes" => [pool => $_]) } qw(limit used peak copies spilled tables));
my ($compared, @wrong) = (0);
for my $member (@{ $all->{members} }) {
  for my $name (sort keys %path) {
    my $value = $member->{process_now};
    $value = $value->{$_} for @{ $path{$name} };
    my ($least, $most) = map { $_->{$name}{ $member->{member} } } $before, $after;
    $compared++;
    # What is counted goes on while we look; so it is between what it was before and after.
    push @wrong, "$name of $member->{member}: $value is not from " . ($least // 'nothing') . ' to ' . ($most // 'nothing')
      if !defined $least || !defined $most || $value < $least || $value > $most;
  }
}
is(join("\n", @wrong), '', 'the figures are those of --status --json');
is($compared, 24, 'of both processes');
is((WebClient->request($place->{port}, GET => '/metrics'))[0], 403, 'without the token nothing is told');
is((WebClient->request($place->{port}, GET => "/metrics?token=$place->{token}"))[0], 200, 'it may be in the address');

# Who has another key sees nothing.
{
  my $key = $t->dir . '/other-key';
  DMITest::write_key($key);
  my $refused = $t->spawn([$t->build . '/bin/dmirun', '--web', 0, -i => '127.0.0.1', -p => $first->port, '--key', $key], name => 'another key');
  $refused->expect_err(qr/^dmi: .*key/m);
  $refused->wait_exit(1);
}

# A process that does not answer.
$second->stop;
my $silent = (scrape())[2];
like($silent, qr/^dmi_answers\{process="1",member="\d+",host="[^"]*"(?:,tag="h\/2")?\} 0$/m, 'a process that is stopped is told as one that does not answer');
unlike($silent, qr/^dmi_pool_used_bytes\{process="1"/m, 'and has no figures');
is_deeply([lint($silent)], ['', 0], 'promtool finds nothing to say of that');
$second->signal('CONT');

close $rounds;
$_->wait_exit(0) for $first, $second;

# A deadlock.
{
  ($place, my @both) = DMIWeb::hang($t, 'crosswise');
  my $hung;
  my $both = qr/^dmi_longest_wait_seconds\{[^}]*process="0"[^}]*\} (?!0\.000)\S+\n.*process="1"[^}]*\} (?!0\.000)\S+$/m;
  $t->wait_until(sub { $hung = (scrape())[2]; return $hung =~ /^dmi_deadlocks 1$/m && $hung =~ $both }, 'a deadlock is counted, and both have waited');
  like($hung, $waits->($_, 'DMI_mutex_lock'), "with the thread of process $_") for 0, 1;
  my @longest = $hung =~ /^dmi_longest_wait_seconds\{[^}]*\} (\d+\.\d{3})$/mg;
  is(scalar(grep { $_ > 0 } @longest), 2, 'and how long both wait');
  is_deeply([lint($hung)], ['', 0], 'promtool finds nothing to say of that');
  $t->kill_together(@both);
}

# A barrier to which nobody is left who could come.
{
  ($place, my @both) = DMIWeb::hang($t, 'few');
  my $hung;
  $t->wait_until(sub { $hung = (scrape())[2]; return $hung =~ /^dmi_deadlocks 1$/m }, 'a barrier that is never reached is counted as a deadlock');
  is_deeply([lint($hung)], ['', 0], 'promtool finds nothing to say of that');
  $t->kill_together(@both);
}
$t->done;
