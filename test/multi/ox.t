#!/usr/bin/perl
# ox.t - ox_dmi, by a client of our own (OxClient.pm, written from the facts about the wire): mathcap,
# all types there and back in both orders, functions, texts, resets, sessions at the same time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use FreePort qw(free_port);
use IO::Socket::IP;
use OxClient;

my $t = DMITest->new(timeout => 120);
my $ox_dmi = $t->build . '/bin/ox_dmi';

# (process, port of control, port of data)
sub serve {
  my (@args) = @_;
  my $server = $t->spawn([$ox_dmi, '--control', 0, '--data', 0, @args], name => "ox_dmi @args");
  my ($control, $data) = $server->expect_out(qr/^ox_dmi: listening: control \S+:(\d+) data \S+:(\d+)$/m);
  return ($server, control => $control, data => $data);
}

my ($server, @ports) = serve();
my $big = Math::BigInt->new(3)->bpow(6310);    # 10,001 bits

for my $order (0, 1, 255) {
  my $c = OxClient->new(@ports, order => $order);
  is(!!$c->data->{little}, $order == 1, "order $order");
  my $deep = null();
  $deep = list($deep) for 1 .. 999;
  my @values = (null(), int32(-5), bytes("\0\1\2"), string("text\0more"), string(''), list(), zz(0), zz(12), zz("-$big"),
    zz(-2147483648), zz('4294967296'), ratio(-22, 7), ratio($big, 2), zero(), double(0.1), double(-0.0), double(1e308), double(5e-324),
    double40(1.5), doubles(1, -2.5), list(int32(1), list(string('x'), zz(3)), double(2)), mathcap(list(int32(1))),
    error(list(int32(3), int32(4), string('why'))), list($deep));
  $c->push(@values);
  my @back = map { $c->command(262)->value } @values;
  is_deeply([map { $c->data->value_bytes($_) } reverse @back], [map { $c->data->value_bytes($_) } @values],
    "order $order: all types there and back");
  is($c->command(264)->command(262)->value->[0], 'mathcap', "order $order: its mathcap");
  $c->push(list(list($deep)))->command(300);
  like($c->pop, qr/^error\(\[\d+,4,/, "order $order: too deep");
  $c->execute('a = [1/3, 2.5, "s"]; [a, 2*3]');
  is($c->command(263)->value->[1], '[[1/3,2.5,"s"],6]', "order $order: a text, as a string");
  $c->close;
}

# ---- Functions, errors -------------------------------------------------------------------------

my $c = OxClient->new(@ports);
is($c->call(nqueens => zz(6))->pop, '4', 'a function');
is($c->call(matmul => list(list(zz(1), zz(2))), list(list(zz(3)), list(zz(4))))->pop, '[[11]]', 'with lists');
is($c->execute('nqueens(4)+nqueens(5)')->pop, '12', 'functions in a text');
is($c->call('ox_get_rank_102')->pop, '[1,0]', 'the rank of a server without a group');
my $serial = $c->serial + 2;
like($c->call('nothing')->pop, qr/^error\(\[$serial,6,nothing: /, 'no such function: the serial of the command');
$serial = $c->serial + 3;
like($c->call(nqueens => zz(99))->pop, qr/^error\(\[$serial,10,/, 'an error of a function');
$serial = $c->serial;
like($c->command(999)->pop, qr/^error\(\[$serial,3,/, 'no such command');
$serial = $c->serial;
$c->data->put($c->data->_word(514) . $c->data->_word($c->data->{serial}++) . $c->data->_word(60) . 'anything at all');
like($c->pop, qr/^error\(\[$serial,2,/, 'no such type: an error, and the next command is found');
is($c->push(zz(5))->pop, '5', 'and it goes on');

# ---- Reset -------------------------------------------------------------------------------------

is($c->push(zz(77))->command(275)->pop, '1', 'something on the stack');    # it has come
$c->call(nqueens => zz(30));
$c->command(262)->push(zz(1))->reset;
# How much of the call had come is not known.
$c->command(262)->value while $c->command(275)->pop > 1;
is($c->pop, '77', 'a reset ends a function; the stack stays');
$c->call(nqueens => zz(30))->command(262)->interrupt;
like(OxClient::text($c->value), qr/interrupted/, 'an interrupt');

# ---- Sessions ----------------------------------------------------------------------------------

# Its client goes with much that it has not read, but keeps control open.
my $gone = OxClient->new(@ports);
$gone->push(string('x' x 1_000_000)) for 1 .. 20;
$gone->command(262) for 1 .. 20;
$gone->value;
close $gone->data->{socket};
ok($gone->{control}->ended, 'a session without its data connection ends');

# Clients of one host that connect at the same time: each has its own control connection.
for my $order ([0, 1], [1, 0]) {
  my %port = @ports;
  my (@control, @data);
  $control[$_] = OxClient->stream(OxClient::_dial($port{control}), 1) for 0, 1;
  $data[$_] = OxClient->stream(OxClient::_dial($port{data}), 1) for @$order;
  for my $one (0, 1) { # as clients do: first on control, then on data
    $_->answer_order for $control[$one], $data[$one];
  }
  for my $one (0, 1) {
    $data[$one]->put_data(zz(100 + $one));
    $data[$one]->put_command(262);
    is(OxClient::text($data[$one]->message->{value}), 100 + $one, 'a session of its own');
  }
  $control[1]->put_command(272);
  ok($data[1]->ended, 'its control connection ends it');
  $data[0]->put_command(275);
  $data[0]->put_command(262);
  is(OxClient::text($data[0]->message->{value}), 0, 'and not the other one');
  close $_->{socket} for @control, @data;
}

# What is on its way when a session ends comes, although the server has not read all.
my $last = OxClient->new(@ports);
$last->push(string('x' x 16_000_000))->command(262)->call(nqueens => zz(30));
my $flood = $last->data->_word(514) . $last->data->_word(0) . $last->data->value_bytes(string('y' x 200_000));
$last->{data}{socket}->blocking(0);
1 while defined syswrite $last->{data}{socket}, $flood;    # until nothing is read any more
$last->{data}{socket}->blocking(1);
my $begun = $last->data->bytes(4);    # the result is on its way
$last->control(272);
$last->{data}{in} = $begun . $last->{data}{in};
is(length $last->value->[1], 16_000_000, 'all of a result comes behind 272');
ok($last->data->ended, 'and then the end');
$last->close;

# A reset while a long text runs.
my $long = OxClient->new(@ports);
$long->push(zz(5))->command(275)->pop;
$long->execute(join '+', (1) x 3_000_000)->command(262);
$long->reset;
like($long->command(275)->pop, qr/^[123]$/, 'a reset ends a long text');
$long->close;

my @many = map { OxClient->new(@ports, order => $_ % 2) } 1 .. 9;
$many[$_]->execute("x = $_; x*x") for 0 .. $#many;
$many[0]->call(nqueens => zz(30));
is($many[$_]->pop, $_ * $_, "session $_") for reverse 1 .. $#many;
$many[1]->control(272);
ok($many[1]->data->ended, '272 on control ends a session');
ok($many[2]->command(272)->data->ended, '272 on data');
ok($many[3]->control(1024)->data->ended, '1024');
$many[4]->close;
is($many[5]->push(zz(9))->pop, 9, 'the others go on');
$server->signal('INT');
ok($many[6]->data->ended, 'the server ends its sessions');
$server->wait_exit(0);

# ---- Hostile clients ---------------------------------------------------------------------------

($server, @ports) = serve('--max-message', 1 << 20, '--max-stack', 1 << 22);
my $words = sub { my ($stream, @words) = @_; return join '', map { $stream->_word($_) } @words };
my @hostile = (
  sub { $_[0]->put(join '', map { chr rand 256 } 1 .. 10000) },
  sub { $_[0]->put($words->($_[0], 514, 0, 17, 0x7fffffff)) },
  sub { $_[0]->put($words->($_[0], 514, 0, map { (17, 1) } 1 .. 20000)) },
  sub { $_[0]->put($words->($_[0], 514, 0, 4, 0x7fffffff) . 'x' x 3000000) },
  sub { $_[0]->put_data(string('x' x 1000000)) for 1 .. 20 },
  sub { $_[0]->put_command($_) for 258 .. 283, 300, 400, -1, 0, 1030 },
  sub { $_[0]->put_data(zz(7)), $_[0]->put_command($_) for 265 .. 269, 271, 273, 278 .. 280, 282, 283 },
);
{
  my $c = OxClient->new(@ports);
  my ($column, $row) = (list(map { list(zz(1)) } 1 .. 300), list(list(map { zz(1) } 1 .. 300)));
  like($c->call(matmul => $column, $row)->pop, qr/too large/, 'a product that is too large for a session');
  is($c->call(matmul => $row, $column)->pop, '[[300]]', 'the other way round');
  $c->close;
}
srand 1;
for my $round (1 .. 3) {
  for my $attack (@hostile) {
    my $bad = OxClient->new(@ports, order => $round % 2);
    local $@;
    eval { $attack->($bad->data); 1 } or like($@, qr/^write: /, 'it is closed');
    my $good = OxClient->new(@ports);
    $good->execute('7*7')->pop eq '49' or ok(0, 'another client is served');
    $_->close for $bad, $good;
  }
}
close $_ for map { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $ports[1 + 2 * ($_ % 2)]) } 1 .. 100;
$c = OxClient->new(@ports);
is($c->execute('7*8')->pop, '56', 'served beside hostile clients');
open my $status, '<', '/proc/' . $server->pid . '/status' or die $!;
my ($peak) = join('', <$status>) =~ /^VmHWM:\s+(\d+) kB/m;
SKIP: {
  skip 'sanitizers keep freed memory', 1 if qx(nm $ox_dmi) =~ /__[at]san_/;
  cmp_ok($peak, '<', 200_000, 'its memory stays small');
}
$server->signal('INT');
$server->wait_exit(0);

# ---- Clients of other kinds --------------------------------------------------------------------

($server, @ports) = serve('--order', 'network');
$c = OxClient->new(@ports, order => 1);
ok(!$c->data->{little}, 'a server of network order');
is($c->execute('6*7')->pop, '42', 'works');
$c->close;
$c = OxClient->new(@ports, bare => 1);
ok($c->control(272)->data->ended, 'a client that sends no byte of order on control');
$server->signal('TERM');
$server->wait_exit(0);

# With one port for both.
my $port = free_port();
$server = $t->spawn([$ox_dmi, '--control', $port], name => 'one port');
$server->expect_out(qr/listening/);
for (1 .. 3) {
  $c = OxClient->new(control => $port, data => $port);
  is($c->execute('1+1')->pop, '2', "one port, session $_");
}
$server->signal('INT');
$server->wait_exit(0);

# ---- Connections that are no sessions ----------------------------------------------------------

# One that has said its byte of order and gone does not keep its turn, which others of its host wait for.
($server, @ports) = serve();
my @gone = map { OxClient::_dial($ports[1]) } 1 .. 2;
sysread $gone[0], my $order_byte, 1;
syswrite $gone[0], "\1";
my $next = OxClient::_dial($ports[1]);
close $_ for @gone;
my $began = time;
$c = OxClient->new(@ports, control_socket => $next);
is($c->execute('4+4')->pop, '8', 'a control connection that has answered and gone');
ok(time - $began < 8, 'is not waited for');
$server->signal('INT');
$server->wait_exit(0);

# More of them than are taken, and than there are descriptors.
for my $limit (0, 40) {
  my @command = ($ox_dmi, '--control', 0, '--data', 0, '--max-sessions', 2);
  @command = ('sh', '-c', "ulimit -n $limit; exec \"\$0\" \"\$\@\"", @command) if $limit;
  $server = $t->spawn(\@command, name => "many connections $limit");
  my ($control, $data) = $server->expect_out(qr/^ox_dmi: listening: control \S+:(\d+) data \S+:(\d+)$/m);
  my @many = map { OxClient::_dial($_ % 2 ? $control : $data) } 1 .. 60;
  close $_ for @many;
  $c = OxClient->new(control => $control, data => $data);
  is($c->execute('5+5')->pop, '10', "after 60 connections at once" . ($limit && ", $limit descriptors"));
  $server->signal('INT');
  $server->wait_exit(0);
}
my $poor = $t->spawn(['sh', '-c', 'ulimit -n 7; exec "$0" "$@"', $ox_dmi, '--control', 0], name => 'no descriptors');
$poor->wait_exit(1);
like($poor->err, qr{server: Too many open files}, "without descriptors it says so");

# ---- Password, reverse -------------------------------------------------------------------------

my $file = $t->dir . '/pass';
open my $handle, '>', $file or die $!;
print $handle "secret\n";
close $handle;
($server, @ports) = serve('--pass-file', $file);
my $empty = $t->dir . '/empty';
open $handle, '>', $empty or die $!;
print $handle "\r\nsecret\n";
close $handle;
my $refused = $t->spawn([$ox_dmi, '--control', 0, '--pass-file', $empty], name => 'empty password');
$refused->wait_exit(2);
for my $wrong ('secre', 'secrex', '') {
  my $socket = OxClient::_dial($ports[1], $wrong);
  syswrite $socket, 'x' x 10;
  ok(OxClient->stream($socket, 1)->ended, "password '$wrong' is refused");
}
my $second = OxClient::_dial($ports[1]);
syswrite $second, 'secr';    # it is accepted before the session begins
$c = OxClient->new(@ports, password => 'secret');
is($c->execute('2+2')->pop, '4', 'the password');
{
  local $SIG{PIPE} = 'IGNORE';
  syswrite $second, "et\0";
}
ok(OxClient->stream($second, 1)->ended, 'is not for another that was accepted before');
ok(!IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $ports[1]), 'is for one session');
$c->close;
$server->wait_exit(0);

my @listeners = map { IO::Socket::IP->new(LocalHost => '127.0.0.1', Listen => 5, LocalPort => 0) } 1, 2;
$server = $t->spawn([$ox_dmi, '--reverse', '127.0.0.1', '--control', $listeners[0]->sockport, '--data', $listeners[1]->sockport,
    '--pass-file', $file], name => 'reverse');
my @sockets = map { scalar $_->accept } @listeners;
for my $socket (@sockets) {
  sysread $socket, my $said, 7;
  is($said, "secret\0", 'reverse: the password first');
}
$c = OxClient->new(control_socket => $sockets[0], data_socket => $sockets[1]);
is($c->execute('3+3')->pop, '6', 'reverse');
$c->control(272);
$server->wait_exit(0);
$t->done;
