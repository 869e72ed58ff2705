#!/usr/bin/perl
# key.t - the program's key: made on first use, read from a file or a descriptor, refused when it is
# not secret; who has another one stays outside.
use strict;
use warnings;
use FindBin;
use Socket ();
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 100);
my $dir = $t->dir;
my $program = $t->compile('test/multi/key_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
my $number = 0;

sub slurp {
  my ($name) = @_;
  open my $file, '<', $name or return '';
  local $/;
  return <$file> // '';
}

sub put {
  my ($name, $text, $mode) = @_;
  open my $file, '>', $name or die "$name: $!";
  print $file $text;
  close $file or die;
  chmod $mode, $name or die;
}

# A home that is empty; the environment of a process in it.
sub home {
  my $home = "$dir/home" . ++$number;
  mkdir $home or die;
  return ($home, env => { HOME => $home, DMI_KEY_FILE => undef });
}

# The program by itself: `alone` ends at once.
sub alone { return $t->start($program, args => ['alone'], @_) }

# It does not start, and says why in one line.
sub refused {
  my ($what, $why, @options) = @_;
  my $process = alone(@options);
  $process->wait_exit(1);
  like($process->err, qr/\Admi: [^\n]*$why[^\n]*\n\z/, "$what: one line says why");
}

# ---- ~/.dmi/key -------------------------------------------------------------------------------

my ($home, @env) = home();
umask 0;    # whatever it is
alone(@env)->wait_exit(0);
umask 022;
my $made = slurp("$home/.dmi/key");
like($made, qr/\A[0-9a-f]{64}\n\z/, 'a key is made on first use');
is((stat "$home/.dmi/key")[2] & 07777, 0600, 'nobody else can read it');
is((stat "$home/.dmi")[2] & 07777, 0700, 'nor look into its directory');
alone(@env)->wait_exit(0);
is(slurp("$home/.dmi/key"), $made, 'and it stays');

# Many at once, as on a shared home: one key, and nothing else is left there.
($home, @env) = home();
my @many = map { alone(@env) } 1 .. 12;
$_->wait_exit(0) for @many;
like(slurp("$home/.dmi/key"), qr/\A[0-9a-f]{64}\n\z/, 'many first uses at once: one whole key');
is(join(' ', map { s{.*/}{}r } glob "$home/.dmi/{*,.[!.]*}"), 'key', 'and nothing beside it');
my ($other) = home();
my %keys;
for (1 .. 3) {
  my ($own, @own) = home();
  alone(@own)->wait_exit(0);
  $keys{ slurp("$own/.dmi/key") }++;
}
is(scalar keys %keys, 3, 'each is another one');

for my $mode (0640, 0604, 0620) {
  chmod $mode, "$home/.dmi/key";
  refused(sprintf('mode %o', $mode), '.dmi/key can be read by others.*chmod 600', @env);
}
chmod 0600, "$home/.dmi/key";
chmod 0770, "$home/.dmi";
refused('a directory that others can write to', '\.dmi is not a directory that only you', @env);
chmod 0700, "$home/.dmi";
alone(@env)->wait_exit(0);
SKIP: {
  skip 'only root can give a file to somebody else', 4 if $> != 0;
  chown 65534, -1, "$home/.dmi/key";
  refused('of another user', 'belongs to another user', @env);
  chown 0, -1, "$home/.dmi/key";
  chown 65534, -1, "$home/.dmi";
  refused('a directory of another user', 'only you can change', @env);
  chown 0, -1, "$home/.dmi";
}
for my $text ('', 'abc', 'x' x 64 . "\n", 'a' x 63 . "\n", 'a' x 64) {
  put("$home/.dmi/key", $text, 0600);
  refused("'$text'", 'has no key in it', @env);
}
unlink "$home/.dmi/key";
mkdir "$home/.dmi/key";
refused('a directory', 'is not a file', @env);
rmdir "$home/.dmi/key";
put("$other/.dmi", '', 0600);
refused('a file in the place of the directory', 'not a directory',
  env => { HOME => $other, DMI_KEY_FILE => undef });

# ---- Other sources ----------------------------------------------------------------------------

my $key = 'ab' x 32;
put("$dir/named", "$key\n", 0600);
put("$dir/open", "$key\n", 0644);
my ($empty, @empty) = home();
alone(opts => ['--key', "$dir/named"], @empty)->wait_exit(0);
ok(!-e "$empty/.dmi", 'with --key nothing is made at home');
alone(env => { HOME => $empty, DMI_KEY_FILE => "$dir/named" })->wait_exit(0);
refused('--key that others can read', 'open can be read by others', opts => ['--key', "$dir/open"]);
refused('DMI_KEY_FILE that is not there', 'nosuch is not there: make one',
  env => { DMI_KEY_FILE => "$dir/nosuch" });
ok(!-e "$empty/.dmi", 'nor when the named one is missing');

# By a descriptor; what comes behind it on stdin is the program's.
put("$dir/stdin", "$key\nthe program's own\n", 0644);
open my $stdin, '<', "$dir/stdin" or die;
my $process = $t->start($program, args => ['stdin'], opts => ['--key-fd', 0], stdin => $stdin,
  env => { DMI_KEY_FILE => "$dir/nosuch" });
$process->expect_out(qr/^stdin: the program's own$/);
$process->wait_exit(0);
put("$dir/short", "abcd\n", 0600);
open $stdin, '<', "$dir/short" or die;
refused('half a key by descriptor', 'no key can be read from descriptor 0', opts => ['--key-fd', 0],
  stdin => $stdin);
my $shell = "exec 5< $dir/named; exec $dmirun -l 0 --key-fd 5 $program has $dir/named";
$process = $t->spawn(['/bin/sh', '-c', $shell]);
$process->expect_out(qr/named is closed$/m);
$process->wait_exit(0);

# ---- Who gets in ------------------------------------------------------------------------------

my $host = $t->start($program, args => ['host'], opts => ['--key', "$dir/named"], name => 'host');
my $stranger = $t->start($program, join => $host, name => 'stranger');
$stranger->wait_exit(1);
like($stranger->err, qr/^dmi: .*another key.*--key/m, 'who has another key is told what to do');
$host->expect_err(qr/^dmi: refused a connection: .*another key/m);
like($host->expect_event('refused')->{text}, qr/another key/, 'a launcher is told, too');
my $guest = $t->start($program, join => $host, opts => ['--key', "$dir/named"], name => 'guest');
$guest->expect_event('opened');

# The key is in no place where others could see it.
for my $process ($host, $guest) {
  for my $place (qw(cmdline environ)) {
    unlike(slurp("/proc/$process->{pid}/$place"), qr/abababab/, "$process->{name}: no key in $place");
  }
}

# --bind: that address only.
my $bound = $t->start($program, join => $host, name => 'bound',
  opts => ['--key', "$dir/named", '--bind', '127.0.0.1']);
$bound->expect_event('opened');
my $port = sprintf '%04X', $bound->port;
my ($listening) = slurp('/proc/net/tcp') =~ /^ *\d+: (\w+):$port \w+:0000 0A/m;
is($listening, '0100007F', 'listens at 127.0.0.1');
unlike(slurp('/proc/net/tcp6'), qr/:$port \w+:0000 0A/, 'and nowhere else');
refused('an address of another machine', 'has no address .*--bind', opts => ['--bind', '192.0.2.1']);
refused('no address', 'cannot find the address .*--bind', opts => ['--bind', 'no.such.invalid']);

# Who joins by way of it listens likewise, and so does who joins by way of that one, unless told
# otherwise; who joins by way of one that listens everywhere does as well.
sub addresses {
  my ($process) = @_;
  my $hex = sprintf '%04X', $process->port;
  return join ' ', sort map { slurp($_) =~ /^ *\d+: (\w+):$hex \w+:0000 0A/mg } glob '/proc/net/tcp{,6}';
}
my $everywhere = addresses($host);
isnt($everywhere, '0100007F', 'a process listens on all addresses');
my @local = ($bound);
for my $what ('by way of a bound one', 'by way of that one') {
  my $local = $t->start($program, join => $local[-1], name => $what, opts => ['--key', "$dir/named"]);
  $local->expect_event('opened');
  is(addresses($local), '0100007F', "$what: listens at 127.0.0.1 only");
  push @local, $local;
}
my $told = $t->start($program, join => $local[-1], name => 'told', opts => ['--key', "$dir/named",
    '--bind', '0.0.0.0']);
$told->expect_event('opened');
is(addresses($told), '00000000', 'unless told otherwise');
my $wide = $t->start($program, join => $told, name => 'wide', opts => ['--key', "$dir/named"]);
$wide->expect_event('opened');
is(addresses($wide), $everywhere, 'by way of one that listens everywhere: likewise');

# The same with an address that other machines reach, if this one has any.
require IO::Socket::INET;
my $route = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '192.0.2.1', PeerPort => 9);
SKIP: {
  skip('no network here', 1) unless $route && $route->sockhost !~ /^127\./;
  my $address = $route->sockhost;
  my $hex = join '', map { sprintf '%02X', $_ } reverse split /\./, $address;
  my $on = $t->start($program, args => ['host'], name => 'on the network', opts => ['--key', "$dir/named", '--bind', $address]);
  $on->expect_event('opened');
  my @joined;
  for my $case (['by way of it', $hex], ['who tells others of an address', $everywhere, '--advertise', $address],
      ['who is told otherwise', '00000000', '--bind', '0.0.0.0']) {
    my ($what, $expected, @opts) = @$case;
    my $process = $t->spawn([$t->build . '/bin/dmirun', -l => 0, -i => $address, -p => $on->port, '--key', "$dir/named", @opts, $program], name => $what);
    $process->expect_event('opened');
    is(addresses($process), $expected, "$what: where it listens");
    push @joined, $process;
  }
  $on->signal('INT');
  $_->wait_exit(0) for $on, @joined;
}

# It could connect from another address, but nobody could reach it where it listens.
if (socket my $six, Socket::AF_INET6(), Socket::SOCK_STREAM(), 0) {
  my $apart = $t->start($program, join => $host, name => 'apart',
    opts => ['--key', "$dir/named", '--bind', '::1']);
  $apart->wait_exit(1);
  like($apart->err, qr/^dmi: [^\n]*--bind[^\n]*IPv6[^\n]*$/m, '--bind of the other kind: one line says why');
}

$host->signal('INT');
$_->wait_exit(0) for $host, $guest, @local, $told, $wide;
$t->done;
