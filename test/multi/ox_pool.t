#!/usr/bin/perl
# ox_pool.t - ox_dmi as a DMI program: clients see one server, whose functions all processes run,
# while these join, leave, and (with --survive) are killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use OxClient;

my $t = DMITest->new(timeout => 240, wait => 60);
my $ox_dmi = $t->build . '/bin/ox_dmi';
my $small = $t->scale eq 'small';
my ($n, $ways) = $small ? (13, 73712) : (14, 365596);

# (process, a client's arguments)
sub serve {
  my ($name, %opt) = @_;
  my $first = $t->start($ox_dmi, name => $name, args => ['--control', 0, '--data', 0], %opt);
  my ($control, $data) = $first->expect_out(qr/^ox_dmi: listening: control \S+:(\d+) data \S+:(\d+)$/m);
  return ($first, control => $control, data => $data);
}

# One more process, which has been welcomed; its dmi_id.
sub joins {
  my ($first, $name) = @_;
  my $process = $t->start($ox_dmi, name => $name, join => $first);
  my $id = $process->expect_event('joined')->{id};
  $process->expect_event('opened');
  return ($process, $id);
}

# dmi_id => parts that it has done
sub parts {
  my ($client) = @_;
  my (undef, @rows) = @{ $client->call('processes')->command(262)->value };
  return { map { OxClient::text($_->[1]) => OxClient::text($_->[4]) } @rows };
}

# Random matrices, and their product as text.
sub product {
  my ($m, $k, $l) = @_;
  my @a = map { [map { int rand 100 } 1 .. $k] } 1 .. $m;
  my @b = map { [map { int rand 100 } 1 .. $l] } 1 .. $k;
  my @c;
  for my $i (0 .. $m - 1) {
    for my $j (0 .. $l - 1) { $c[$i][$j] += $a[$i][$_] * $b[$_][$j] for 0 .. $k - 1 }
  }
  my $lists = sub { list(map { list(map { zz($_) } @$_) } @{ $_[0] }) };
  return ($lists->(\@a), $lists->(\@b), '[' . join(',', map { '[' . join(',', @$_) . ']' } @c) . ']');
}

srand 3;
my ($first, @ports) = serve('first');
my $c = OxClient->new(@ports);
is($c->call(nqueens => zz($n))->pop, $ways, 'queens, by one process');
my $alone = parts($c);
is(join(' ', keys %$alone), '0', 'there is one');
cmp_ok($alone->{0}, '>', 100, "it has done all parts ($alone->{0})");

# ---- Processes join ----------------------------------------------------------------------------

my @others = map { [joins($first, "joiner $_")] } 1, 2;
is($c->call(nqueens => zz($n))->pop, $ways, 'queens, by three');
my $three = parts($c);
is(keys %$three, 3, 'three processes');
cmp_ok($three->{$_->[1]}, '>', 0, "process $_->[1] took part ($three->{$_->[1]} parts)") for [undef, 0], @others;
my ($a, $b, $ab) = product(60, 50, 40);
is($c->call(matmul => $a, $b)->pop, $ab, 'a product of matrices');
is($c->call(nqueens => zz($_->[0]))->pop, $_->[1], "$_->[0] queens") for [1, 1], [2, 0], [8, 92], [11, 2680], [12, 14200];

# While it is computed others come and go.
my $d = OxClient->new(@ports);
my ($big, $big_ways) = $small ? (14, 365596) : (15, 2279184);
my $before = parts($c);
$c->call(nqueens => zz($big))->command(262);
my ($late, $late_id) = joins($first, 'late');
$others[0][0]->signal('INT');
$others[0][0]->wait_exit(0);
is($d->call(nqueens => zz(12))->pop, 14200, 'another client meanwhile');
is(OxClient::text($c->value), $big_ways, 'queens, while one joins and one leaves');
$c->call(nqueens => zz($n))->pop;
my $after = parts($c);
is(join(' ', sort keys %$after), join(' ', sort 0, $others[1][1], $late_id), 'who is there');
cmp_ok($after->{$_}, '>', $before->{$_} // 0, "process $_ has done more") for 0, $others[1][1], $late_id;

# ---- A client that goes, a reset ---------------------------------------------------------------

$d->call(nqueens => zz(30));
$d->close;
is($c->push(zz(7))->command(275)->pop, '1', 'something on the stack');    # it has come
$c->call(nqueens => zz(30))->reset;
$c->command(262)->value while $c->command(275)->pop > 1;
is($c->pop, '7', 'a reset ends what all processes compute');
is($c->call(nqueens => zz(12))->pop, 14200, 'and they go on');
like($c->call('nqueens')->pop, qr/^error\(\[\d+,10,nqueens/, 'a wrong call');
$first->signal('INT');
ok($c->data->ended, 'the session ends with the first process');
$_->wait_exit(0) for $first, $others[1][0], $late;

# ---- Processes are killed ----------------------------------------------------------------------

($first, @ports) = serve('survives', opts => ['--survive']);
my @mortal = map { [joins($first, "mortal $_")] } 1 .. 3;
($c, $d) = map { OxClient->new(@ports) } 1, 2;
($a, $b, $ab) = product(200, 30, 30);
for my $victim (@mortal[0, 1]) {
  my $had = parts($d)->{ $victim->[1] };
  $c->call(nqueens => zz($big))->command(262);
  $t->wait_looking(sub { parts($d)->{ $victim->[1] } > $had + 5 }, 'it computes');
  $victim->[0]->signal('KILL');
  is(OxClient::text($c->value), $big_ways, 'queens, while a process is killed');
  $victim->[0]->wait_exit(signal => 'KILL');
  is($c->call(matmul => $a, $b)->pop, $ab, 'a product behind that');
}
my $left = parts($c);
cmp_ok($left->{$mortal[2][1]}, '>', 0, 'the one that stays took part');
$first->signal('INT');
$_->wait_exit(0) for $first, $mortal[2][0];

# ---- With the server of the library; a password ------------------------------------------------

$first = $t->start($ox_dmi, name => 'library', opts => ['--ox', 0]);
my ($port) = $first->expect_event('serves')->{address} =~ /:(\d+)$/;
my $joiner = $t->start($ox_dmi, name => 'library joiner', join => $first, opts => ['--ox', 0]);
my ($second_port) = $joiner->expect_event('serves')->{address} =~ /:(\d+)$/;
$joiner->expect_event('opened');
for my $at ($port, $second_port) {
  my $client = OxClient->new(control => $at, data => $at);
  is($client->call(nqueens => zz(12))->pop, 14200, 'dmirun --ox ox_dmi');
  is(join(' ', sort keys %{ parts($client) }), '0 1', 'each process serves for both');
  $client->close;
}
$joiner->signal('INT');
$joiner->wait_exit(0);
$first->signal('INT');
$first->wait_exit(0);

my $missing = $t->start($ox_dmi, name => 'no port');
$missing->wait_exit(2);
like($missing->err, qr/ox_dmi: --control: is missing/, 'a port is needed');

my $file = $t->dir . '/pass';
open my $handle, '>', $file or die $!;
print $handle "secret\n";
close $handle;
($first, @ports) = serve('password', args => ['--control', 0, '--data', 0, '--pass-file', $file]);
my ($helper) = joins($first, 'helper');
$c = OxClient->new(@ports, password => 'secret');
is($c->call(nqueens => zz(12))->pop, 14200, 'with a password');
$c->control(272);
$_->wait_exit(0) for $first, $helper;
$t->done;
