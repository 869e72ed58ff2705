#!/usr/bin/perl
# ox_group.t - groups of ranks of ox_dmi (RFC-102): 2 to 9 ranks in several processes, links by ports
# and by paths, broadcast and reduction with each root, resets of all links while ranks wait, a
# process that is killed, a foreign rank of our own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use FreePort qw(free_port);
use IO::Socket::IP;
use OxClient;

my $t = DMITest->new(timeout => 240);
my $most = $t->scale eq 'small' ? 4 : 9;

sub serve {
  my $server = $t->spawn([$t->build . '/bin/ox_dmi', '--control', 0, '--data', 0, '--status', 'asir', @_], name => "ox_dmi @_");
  my ($control, $data) = $server->expect_out(qr/^ox_dmi: listening: control \S+:(\d+) data \S+:(\d+)$/m);
  return { process => $server, ports => [control => $control, data => $data] };
}

my @servers = (serve(), serve('--order', 'network'), serve());
my $paths = 0;

sub clients {
  my ($num) = @_;
  return map { OxClient->new(@{ $servers[$_ % @servers]{ports} }, order => $_ % 2) } 0 .. $num - 1;
}

# All have nothing on their stacks: nothing is pushed for a link that was made.
sub all_empty {
  my ($name, @clients) = @_;
  is(join(' ', map { $_->command(275)->pop } @clients), join(' ', map { 0 } @clients), "$name: nothing is left on the stacks");
}

for my $num (2 .. $most) {
  my @ranks = clients($num);
  my $place = $num % 2 ? sub { $t->dir . '/link' . $paths++ } : \&free_port;
  OxClient::group($place, @ranks);
  all_empty("$num ranks", @ranks);
  is(join(' ', map { $_->call('ox_get_rank_102')->pop } @ranks), join(' ', map { "[$num,$_]" } 0 .. $num - 1), "$num ranks");
  my $data = join ',', 1 .. 5000;
  for my $root (0 .. $num - 1) {
    $ranks[$root]->push(string("$root: $data"));
    $_->push(int32($root))->command(282) for reverse @ranks;
    is_deeply([map { $_->pop } @ranks], [map { "$root: $data" } @ranks], "broadcast from $root of $num");
    $ranks[$_]->push(zz($_ + 1), int32($root), string('+'))->command(283) for 0 .. $num - 1;
    is(join(' ', map { $_->pop } @ranks), join(' ', map { $_ == $root ? $num * ($num + 1) / 2 : 0 } 0 .. $num - 1), "sum to $root of $num");
    $ranks[$_]->call('ox_reduce_102', zz($root), string('*'), OxClient::ratio(1, $_ + 2)) for 0 .. $num - 1;
    my $product = 1;
    $product *= $_ for 2 .. $num + 1;
    is(join(' ', map { $_->pop } @ranks), join(' ', map { $_ == $root ? "1/$product" : 0 } 0 .. $num - 1), "product to $root of $num");
  }
  # Each sends to each, before anybody receives.
  for my $i (0 .. $num - 1) {
    $ranks[$i]->call('ox_send_102', zz($_), list(zz($i), zz($_))) for grep { $_ != $i } 0 .. $num - 1;
  }
  my $wrong = 0;
  for my $j (0 .. $num - 1) {
    for my $i (reverse 0 .. $num - 1) {
      next if $i == $j;
      $wrong++ if $ranks[$j]->execute("ox_recv_102($i)")->pop ne "[$i,$j]";
    }
  }
  is($wrong, 0, "$num ranks: each to each");

  # A reset while some wait, with messages in the links in both directions.
  for my $i (0 .. $num - 1) {
    $ranks[$i]->execute("ox_send_102($_,\"old\")") for grep { $_ != $i } 0 .. $num - 1;
    $ranks[$i]->execute('ox_recv_102(' . (($i + 1) % $num) . ')') for 1 .. $i % 3;
  }
  $_->reset for @ranks;
  $_->command(281) for @ranks;
  for my $i (0 .. $num - 1) {
    $ranks[$i]->execute("ox_send_102($_,\"new $i\")") for grep { $_ != $i } 0 .. $num - 1;
  }
  $wrong = 0;
  for my $j (0 .. $num - 1) {
    for my $i (grep { $_ != $j } 0 .. $num - 1) {
      $wrong++ if $ranks[$j]->execute("ox_recv_102($i)")->pop ne "new $i";
    }
  }
  is($wrong, 0, "$num ranks: nothing of before a reset is received");
  $_->close for @ranks;
}

# ---- What goes wrong ---------------------------------------------------------------------------

my ($one, $two) = clients(2);
like($one->push(int32($servers[0]{ports}[1]), int32(1))->command(279)->pop, qr/^error\(\[\d+,8,listen: /, 'a port that is in use');
like($one->push(string('127.0.0.1'), int32(free_port()), int32(1))->command(280)->pop, qr/^error\(\[\d+,8,connect: /, 'nobody accepts');
like($one->push(string('no.such.host.invalid'), int32(1), int32(1))->command(280)->pop, qr/^error\(\[\d+,8,no\.such/, 'no such host');
like($one->push(string('x' x 200), int32(1))->command(279)->pop, qr/too long/, 'a path that is too long');
like($one->push(string('x'), int32(-1))->command(279)->pop, qr/^error\(\[\d+,5,/, 'a rank below 0');
my $path = $t->dir . '/waits';
$one->push(string($path), int32(1))->command(279);
$t->wait_looking(sub { -S $path }, 'it listens');
$one->reset;
is($one->pop, '0', 'a reset ends an accept');
ok(!-e $path, 'the path is removed');
OxClient::group(\&free_port, $one, $two);
all_empty('two', $one, $two);
$one->execute('ox_recv_102(1)');
$two->close;
like($one->pop, qr/^error\(\[\d+,8,rank 1: the link has ended/, 'a peer that goes while it is waited for');

# The master says where the other is by any name that the machine has for itself.
{
  my @pair = clients(2);
  $pair[$_]->push(int32(2), int32($_))->command(278) for 0, 1;
  my $port = free_port();
  $pair[0]->push(int32($port), int32(1))->command(279);
  $pair[1]->push(string('127.0.1.1'), int32($port), int32(0))->command(280);
  $pair[1]->call('ox_send_102', zz(0), zz(6));
  is($pair[0]->call('ox_recv_102', zz(1))->pop, '6', 'a link by another address of this machine');
  $_->close for @pair;
}

# A process is killed in the middle of a broadcast: the others hear of it.
my @four = clients(4);
OxClient::group(\&free_port, @four);
all_empty('four', @four);    # the links are there
$_->execute('ox_reduce_102(0,"+",1)') for @four[0, 2, 3];
$servers[1]{process}->kill_now;
$servers[1]{process}->wait_exit(signal => 'KILL');
like($four[0]->pop, qr/^error\(/, 'a reduction in which a rank is killed ends with an error');
is($_->pop, '0', 'the others are done') for @four[2, 3];

# ---- A rank of our own that speaks as other servers do -----------------------------------------

sub foreign {
  my ($client, $own, $order) = @_;    # the peer's rank of it
  my $port = free_port();
  my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => $port, Listen => 1, ReuseAddr => 1) or die $@;
  $client->push(string('localhost'), int32($port), int32($own))->command(280);
  return OxClient->stream(scalar $listener->accept, $order)->answer_order;
}

$one->push(int32(3), int32(1))->command(278);
my ($low, $high) = (foreign($one, 0, 1), foreign($one, 2, 0));
ok($low->{little} && !$high->{little}, 'links of both orders');
$_->put_data(zz(1)) for $low, $high;
$one->command(281);
$low->put_ball;
$_->put_data(zz(2)) for $low, $high;
is($one->execute('[ox_recv_102(0),ox_recv_102(2)]')->pop, '[2,1]', 'a reset empties a link from the lower rank, as RFC-102 says');
is($high->message->{tag}, 515, 'and sends SYNC_BALL to the higher one');
$one->call('ox_bcast_102', zz(1), string('all'));
is(OxClient::text($_->message->{value}), 'all', 'its broadcast') for $high, $low;
is($one->pop, 'all', 'the same here');
my @sent = (int32(7), int32(-7), int32(-2147483648), int32(0), list(int32(1), double40(1.5)), double(2.5));
my @came = (zz(7), zz(-7), zz(-2147483648), null(), list(zz(1), double(1.5)), double(2.5));
for my $i (0 .. $#sent) {
  $one->call('ox_send_102', zz($_->[0]), $sent[$i]) for [0], [2];
  is_deeply([map { $_->value_bytes($_->message->{value}) } $low, $high], [map { $_->value_bytes($came[$i]) } $low, $high],
    'to a peer: integers as ZZ or NULL, doubles as 51: ' . OxClient::text($came[$i]));
  is($one->pop, '0', 'sent') for 1, 2;
}
$high->put(substr $high->_word(514) . $high->_word(0) . $high->value_bytes(string('a' x 1000)), 0, 500);
$one->execute('ox_recv_102(2)')->reset;
$high->put('a' x 516);
is($one->execute('ox_recv_102(2)')->pop, '2', 'a reset in the middle of a message loses none');
is($one->execute('ox_recv_102(2)')->pop, 'a' x 1000, 'and its rest is read later');

$servers[$_]{process}->signal('INT') for 0, 2;
$servers[$_]{process}->wait_exit(0) for 0, 2;
$t->done;
