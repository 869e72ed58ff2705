#!/usr/bin/perl
# web_http.t - dmi-web, the HTTP server behind dmirun --web, with what this script tells it: who is let in,
# that nothing can be changed, that rubbish does no harm, and what pages cost that read slowly or never.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMI::Web::Server;
use WebClient;

my $program = DMITest::_build_dir() . "/bin/dmi-web";
plan(skip_all => "this build has no dmi-web: libmicrohttpd is missing") if !-x $program;
my $t = DMITest->new(timeout => 120, wait => 60);
my $token = 'c0ffee00' x 4;
my $soak = $t->scale eq 'soak';
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'quarantine_size_mb=1';    # else memory that is free counts

sub server {
  my $server = DMI::Web::Server->new(program => $program, place => 0, token => $token);
  ok($server && $server->port, 'dmi-web listens');
  return $server;
}

# Waits until it has said so many pages are open.
sub pages {
  my ($server, $count) = @_;
  $server->read or $t->fail_now('dmi-web lives') while $server->pages != $count;
  return;
}

sub status { return (WebClient->request(@_))[0] }

# Memory of a process, in KiB.
sub memory {
  my ($pid) = @_;
  open my $file, '<', "/proc/$pid/status" or return 0;
  my ($size) = map { /^VmRSS:\s+(\d+)/ ? $1 : () } <$file>;
  return $size;
}

my $server = server();
my $port = $server->port;

# ---- Who is let in -----------------------------------------------------------------------------

{
  my ($status, $head, $body) = WebClient->request($port, GET => "/?token=$token");
  is($status, 200, 'the page, with the token');
  like($body, qr/<title>DMI program/, 'is the page');
  like($head, qr/^Content-Security-Policy: default-src 'none'; connect-src 'self'; .*script-src 'sha256-[\w+\/]{43}='/m, 'which may run its own script only');
  like($head, qr/^Cache-Control: no-store\r?$/m, 'and is kept nowhere');
  is(status($port, GET => '/', "Authorization: Bearer $token"), 200, 'the token may be in a header');
  my @wrong = ('', '?token=', '?token=' . ('0' x 32), '?token=' . substr($token, 0, 31), "?token=${token}0", "?token=$token" x 40, '?tokem=' . $token);
  for my $path (qw(/ /events /metrics /other)) {
    is(join(' ', map { status($port, GET => "$path$_") } @wrong), join(' ', (403) x @wrong), "$path without the token, or a wrong one: refused");
  }
  is(status($port, GET => "/?token=$token", 'Authorization: Bearer wrong'), 403, 'a wrong one in the header counts');
  unlike((WebClient->request($port, GET => "/?token=${token}0"))[2], qr/$token/, 'and is not repeated');
}

# ---- Nothing can be changed --------------------------------------------------------------------

is(join(' ', map { status($port, $_ => "/?token=$token") } qw(POST PUT DELETE PATCH OPTIONS TRACE)), join(' ', (405) x 6), 'only GET and HEAD are answered');
is(status($port, POST => '/'), 403, 'and without the token not even that is said');
is(status($port, HEAD => "/?token=$token"), 200, 'HEAD');
is(status($port, GET => "/?token=$token", 'Content-Length: 5'), 400, 'a request with a body is refused');
is(status($port, GET => "/../../etc/passwd?token=$token"), 404, 'there are no files');

# ---- Metrics -----------------------------------------------------------------------------------

# Somebody asks for metrics.
sub asks {
  my $client = WebClient->connected($port);
  $client->send_bytes("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n");
  return $client;
}

# What these get.  They are told each time that dmi-web asks: one may ask when others have been answered.
sub told {
  my ($kind, $text, @clients) = @_;
  my @got;
  while (@clients) {
    my $bits = '';
    vec($bits, fileno $_, 1) = 1 for $server->handle, map { $_->{socket} } @clients;
    select $bits, undef, undef, undef;
    $server->read if vec $bits, fileno $server->handle, 1;
    $server->tell($kind, '-', $text) if $server->scrape;
    my ($client) = grep { vec $bits, fileno $_->{socket}, 1 } @clients or next;
    push @got, join ' ', ($client->answer)[0, 2];
    @clients = grep { $_ != $client } @clients;
  }
  return join '', @got;
}

is(told(metrics => "dmi_members 3\n", map { asks() } 1 .. 3), "200 dmi_members 3\n" x 3, 'all who ask get the metrics');
is(told(absent => "nobody\n", asks()), "503 nobody\n", 'or why there are none');
{
  my $gone = asks();
  $server->read until $server->scrape;
  close $gone->{socket};
  $server->tell('metrics', '-', "dmi_members 3\n");
  is(status($port, GET => "/?token=$token"), 200, 'who asks and goes does no harm');
}

# ---- Rubbish -----------------------------------------------------------------------------------

{
  srand 7;
  my $count = $soak ? 20_000 : 300;
  my @good = ('GET ', '/', "?token=$token", ' HTTP/1.1', "\r\n", 'Host: x', ':', "\n", "\0", 'Content-Length: ', '9' x 30, '%', '-1', 'Transfer-Encoding: chunked', "\r\n\r\n");
  # Not each is answered: some wait for more, until they are idle for too long.
  my ($answers, @open) = (0);
  for my $number (1 .. $count) {
    my $client = WebClient->connected($port);
    $client->send_bytes(join '', map { rand() < 0.6 ? $good[rand @good] : join '', map { chr int rand 256 } 1 .. 1 + int rand 40 } 1 .. 1 + int rand 12);
    push @open, $client;
    next if $number % 100;
    is(status($port, GET => "/?token=$token"), 200, "$number times random bytes, and the page is served");
    for my $other (@open) {
      vec(my $bits = '', fileno $other->{socket}, 1) = 1;
      $answers += select $bits, undef, undef, 0;
    }
    @open = ();
  }
  cmp_ok($answers, '>', 0, "some of them are answered ($answers)");
  my $huge = WebClient->connected($port);
  $huge->send_bytes("GET /?token=$token HTTP/1.1\r\nX: " . 'x' x (1 << 20));
  my ($status) = eval { $huge->answer };
  ok(!$status || $status >= 400, 'a header of 1 MiB is refused (' . ($status // 0) . ')');
  my $long = WebClient->connected($port);
  $long->send_bytes('GET /' . 'x' x (1 << 20));
  my ($ends) = eval { $long->answer };
  ok(!$ends || $ends >= 400, 'an address of 1 MiB is refused (' . ($ends // 0) . ')');
  is(status($port, GET => "/?token=$token"), 200, 'and the page is served all the same');
}
is($server->finish, 0, 'dmi-web ends in order');

# ---- Pages that are open -----------------------------------------------------------------------

$server = server();
$port = $server->port;
{
  ok($server->tell('event', 'members', 'nobody listens'), 'an event while no page is open');
  my $one = WebClient->listen($port, $token);
  pages($server, 1);
  $server->tell('event', 'members', 'first');
  is(join('|', $one->event), 'members|first', 'a page gets what comes while it is open, and nothing from before');
  $server->tell('event', 'threads', 'other');
  is(join('|', $one->event), 'threads|other', 'of all names');
  my $two = WebClient->listen($port, $token);
  pages($server, 2);
  is(join('|', map { $two->event } 1 .. 2), 'members|first|threads|other', 'another page gets the latest of each');
  close $two->{socket};
  # That it has gone shows when something is sent.
  $t->wait_looking(sub {
    $server->tell('event', 'members', 'again');
    $one->event;
    vec(my $bits = '', fileno $server->handle, 1) = 1;
    $server->read if select $bits, undef, undef, 0;
    return $server->pages == 1;
  }, 'a page that was closed is noticed');

  # Deaf ones: they read nothing, and each event is larger than what the system buffers.
  my $deaf = $soak ? 200 : 20;
  my @deaf = map { WebClient->listen($port, $token, deaf => 1, buffer => 4096) } 1 .. $deaf;
  pages($server, 1 + $deaf);
  my $size = 4 << 20;
  my $data = 'x' x $size;
  $server->tell('event', 'members', $data . sprintf '%06d', 0);
  is(substr(($one->event)[1], -6), '000000', 'one that reads gets a large event');
  my $before = memory($server->pid);
  my $rounds = $soak ? 500 : 50;
  my $seen = 0;
  for my $number (1 .. $rounds) {
    $server->tell('event', 'members', $data . sprintf '%06d', $number);
    my (undef, $data) = $one->event or last;
    substr($data, -6) == $number and $seen++;
  }
  is($seen, $rounds, 'and all later ones, as it reads them at once');
  my $grown = memory($server->pid) - $before;
  diag("dmi-web with $deaf pages that read nothing: $before KiB, and $grown KiB more after $rounds events of 4 MiB");
  # The newest event, what is being read, and the one that the deaf ones hold; not one for each.
  cmp_ok($grown, '<', 6 * 4096, 'others that read nothing cost a few events, all together');
  # A slow one: what it missed it does not get.
  my $slow = WebClient->listen($port, $token);
  pages($server, 2 + $deaf);
  my @first = $slow->event;
  my $events = 10;
  $server->tell('event', 'members', $data . "after $_") for 1 .. $events;
  my @got;
  while (!@got || $got[-1] ne "after $events") { push @got, ($slow->event)[1] =~ s/\Ax+//r }
  cmp_ok(scalar @got, '<', $events, 'a slow page gets the last event, after ' . (@got - 1) . " of $events, each larger than what the system buffers");
  1 while ($one->event)[1] !~ /after $events\z/;
  $server->tell('event', 'members', 'the end');
  is($server->finish, 0, 'dmi-web ends in order');
  my @last = ('');
  my @end;
  eval { while (@end = $one->event) { @last = @end } };
  is($last[1], 'the end', 'at the end a page has got the last event');
}

# A feeder that makes no sense.
{
  my $bad = $t->spawn([$program, 0], name => 'no sense', stdin => do { pipe my $in, my $out or die; syswrite $out, "nonsense\n"; close $out; $in });
  $bad->expect_err(qr/^dmirun: --web stdin: not what it can be told$/m);
  $bad->wait_exit(1);
  my $again = $t->spawn([$program, '127.0.0.1:99999'], name => 'no such port');
  $again->expect_err(qr/^dmirun: --web 127\.0\.0\.1:99999: /m);
  $again->wait_exit(1);
}

$t->done;
