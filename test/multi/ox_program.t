#!/usr/bin/perl
# ox_program.t - `dmirun --ox`: a program with functions for OpenXM clients, in several processes;
# who leaves, ends, or cannot begin while functions run.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Socket::IP;
use OxClient;

my $t = DMITest->new(timeout => 120);
my $program = $t->compile('test/multi/serve_dmi.c', flags => ['-ldmiox']);

# (process, a client's arguments)
sub serve {
  my ($name, %opt) = @_;
  my $process = $t->start($program, name => $name, %opt, opts => ['--ox', $opt{place} // 0]);
  my ($port) = $process->expect_event('serves')->{address} =~ /:(\d+)$/;
  return ($process, control => $port, data => $port);
}

my ($first, @at_first) = serve('first');
my $c = OxClient->new(@at_first);
is($c->call(twice => zz(21))->pop, '42', 'a function of the program');
$first->expect_err(qr/^dmi: OpenXM clients are served: control 127\.0\.0\.1:(\d+) data 127\.0\.0\.1:\1$/m);
my $early = OxClient->new(@at_first);
is($c->call('where')->pop, '0', 'in the first process');
my ($second, @at_second) = serve('second', join => $first);
my $d = OxClient->new(@at_second);
is($d->call('where')->pop, '1', 'and in the second one, which serves, too');
my $third = $t->start($program, name => 'third', join => $first);
$third->expect_event('opened');
is($_->call(squares => zz(100))->pop, 338350, 'a function that calls others in all processes') for $c, $d;
OxClient::group(sub { $t->dir . '/link' . $_[0]++ }, $c, $d);
$_->call('ox_reduce_102', zz(0), string('+'), zz(5)) for $c, $d;
is($c->pop, '10', 'a session of each is a rank of one group');
is($d->pop, '0', 'the other one');

# One that does not return fails, and nothing else.
like($d->call('leave')->pop, qr/^error\(.*the function was left by pthread_exit; it has to return.*\)$/, 'pthread_exit in a function: its client is told');
is($d->call('where')->pop, '1', 'and goes on');

# ---- Who leaves --------------------------------------------------------------------------------

$d->call('wait_for_end');
$second->expect_out(qr/^waits$/m);
$second->signal('INT');
ok($d->data->ended, 'when its process leaves, a session ends');
$second->expect_out(qr/^interrupted$/m);
$second->wait_exit(0);
$first->expect_out(qr/^dismissed$/m);
is($c->call(squares => zz(10))->pop, 385, 'the others go on');
$c->call('wait_for_end');
$first->expect_out(qr/^waits$/m);
$first->signal('INT');
$first->expect_out(qr/^interrupted$/m);
ok($_->data->ended, 'a session ends') for $c, $early;
$first->expect_out(qr/^main returns$/m);
$_->wait_exit(0) for $first, $third;
unlike($first->out, qr/EBUSY|fail/, 'it was dismissed at once');

# ---- Who ends ----------------------------------------------------------------------------------

($first, @at_first) = serve('once', args => ['once']);
$first->expect_out(qr/^ready$/m);    # functions run from the join on, DMI_main may come later
$c = OxClient->new(@at_first);
$c->call('begin');
$first->expect_out(qr/^main returns$/m);
$first->expect_out(qr/^worked to the end$/m);
$first->wait_exit(0);
unlike($first->out, qr/failed/, 'a program goes on until its functions have returned');

($first, @at_first) = serve('exits');
($second, @at_second) = serve('exits second', join => $first);
$c = OxClient->new(@at_first);
$d = OxClient->new(@at_second);
$c->call('wait_for_end');
$first->expect_out(qr/^waits$/m);
$d->call(end => zz(7));
$_->wait_exit(7) for $first, $second;
like($first->out, qr/^interrupted$/m, 'DMI_exit ends functions and sessions of all processes');

# A joiner serves before it is welcome, and ends with the program.
my $alone = $t->start($t->compile('examples/joinleave_dmi.c'), name => 'not served');
$alone->expect_event('opened');
my $not = $t->start($t->compile('examples/joinleave_dmi.c'), name => 'no functions', opts => ['--ox', 0]);
$not->wait_exit(1);
like($not->err, qr/--ox is for programs with functions for OpenXM clients \(DMI_ox_function\), linked with -ldmiox/,
  'a program without functions is told');
$alone->signal('INT');
$alone->wait_exit(0);

# ---- What users get wrong ----------------------------------------------------------------------

my $taken = IO::Socket::IP->new(LocalHost => '127.0.0.1', Listen => 1, LocalPort => 0);
my $port = $taken->sockport;
for my $bad ([$port => 1, qr/--ox $port: Address already in use/], ['no.such.host.invalid:1' => 1, qr/--ox no\.such\.host\.invalid:1: /],
    ['70000' => 2, qr/--ox 70000: an address and a port are needed/], ['a:b' => 2, qr/--ox a:b: /], [':1' => 2, qr/--ox :1: /],
    ['1.2.3.4:5:6' => 2, qr/--ox 1\.2\.3\.4:5:6: /], ['1,70000' => 2, qr/--ox 1,70000: /],
    ['1,a:b' => 2, qr/--ox 1,a:b: /], ['1,:1' => 2, qr/--ox 1,:1: /], ["0,127.0.0.1:$port" => 1, qr/--ox 127\.0\.0\.1:$port: Address already in use/], ['' => 2, qr/--ox : an address/]) {
  my ($place, $status, $says) = @$bad;
  my $process = $t->start($program, name => "--ox '$place'", opts => ['--ox', $place]);
  $process->wait_exit($status);
  like($process->err, $says, "--ox '$place'");
}
my $v6 = IO::Socket::IP->new(LocalHost => '::1', Listen => 1, LocalPort => 0);
for my $place ('localhost:0,0', '127.0.0.1:0,127.0.0.1:0', '0,localhost:0', '127.0.0.1:0,0', ($v6 ? '[::1]:0,[::1]:0' : ())) {
  my ($two) = serve("two ports $place", place => $place);
  my ($told) = $two->events('serves');
  my ($control, $data) = map { /:(\d+)$/ } @$told{qw(address data)};
  isnt($control, $data, "two ports: $place");
  if ($place =~ /::1/) {
    like($told->{$_}, qr/^\[?::1\]?:\d+$/, "$_ is at the address that is given") for qw(address data);
  } else {
    $c = OxClient->new(control => $control, data => $data);
    is($c->call(twice => zz(4))->pop, '8', 'one for each connection');
  }
  $two->signal('INT');
  $two->wait_exit(0);
}
$t->done;
