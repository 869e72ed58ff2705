# DMISniffer.pm - records all packets on any link of this network, and looks for a key in them.
#
#   DMISniffer::alone();                     # first of all: a network of this script's own
#   my $sniffer = DMISniffer->new($dir);     # it listens from here on
#   ...
#   my $heard = $sniffer->stop;              # all packets
#   my @found = DMISniffer::found($heard, $key);    # ("base64 of hex", ...): nothing, or a fault
#
# It records packets by AF_PACKET, so it needs root.  It finds eight consecutive bytes of the key,
# in any form of `forms`; if a form is split between two packets, one part has at least so many.
package DMISniffer;

use strict;
use warnings;
use MIME::Base64 qw(encode_base64);
use POSIX ();
use Socket;

my ($af_packet, $sol_packet, $packet_statistics, $every_protocol) = (17, 263, 6, 0x0003);
my $so_rcvbufforce = 33;
my $part = 8;    # so many bytes of a key must not be found

# Why packets cannot be recorded here; undef when they can.
sub missing {
  return 'not root' if $> != 0;
  return socket(my $socket, $af_packet, SOCK_DGRAM, unpack 'S', pack 'n', $every_protocol)
    ? undef : "no packet socket: $!";
}

# Starts the script again in a network namespace of its own, with only loopback, which gets the
# addresses of this host's name, too (and one that programs need to see a network).  Does nothing if
# that is not possible.
sub alone {
  return if $ENV{DMI_TEST_ALONE} || missing() || system('unshare -n ip link set lo up 2>/dev/null');
  $ENV{DMI_TEST_ALONE} = 1;
  my @own = map { (split)[0] } `getent ahosts "\$(hostname)"`;
  my $addresses = join '', map { "ip addr add $_ dev lo 2>/dev/null; " } '10.84.0.1',
    grep { !/^(?:fe80|127)/ } @own;
  exec 'unshare', '-n', 'sh', '-c', "ip link set lo up; ${addresses}exec \"\$@\"", 'sh', $^X, $0,
    @ARGV;
}

sub new {
  my ($class, $dir) = @_;
  socket my $socket, $af_packet, SOCK_DGRAM, unpack('S', pack 'n', $every_protocol)
    or die "DMISniffer: no packet socket: $!\n";
  setsockopt $socket, SOL_SOCKET, $so_rcvbufforce, 64 << 20 or die "DMISniffer: no buffer: $!\n";
  pipe my $reader, my $writer or die "DMISniffer: no pipe: $!\n";
  my $self = bless { file => "$dir/heard", end => $writer, socket => $socket }, $class;
  $self->{pid} = fork // die "DMISniffer: no process: $!\n";
  return $self if $self->{pid};
  $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE ALRM INT TERM HUP);
  close $writer;
  POSIX::_exit(eval { _listen($socket, $reader, $self->{file}); 1 } ? 0 : 1);
}

# Writes all packets to a file, until `reader` has something (or its end) and no packet is left.
sub _listen {
  my ($socket, $reader, $path) = @_;
  open my $file, '>:raw', $path or die;
  my $over;
  while (1) {
    my $bits = '';
    vec($bits, fileno $_, 1) = 1 for $socket, $over ? () : $reader;
    my $ready = select my $got = $bits, undef, undef, $over ? 0 : undef;
    last if $over && $ready <= 0;
    if (vec $got, fileno $socket, 1) {
      defined recv $socket, my $packet, 1 << 17, 0 or die;
      print $file $packet or die;
    }
    $over = 1 if !$over && vec $got, fileno $reader, 1;
  }
  close $file or die;
  return;
}

# Everything that was sent until now.  Dies when packets were missed.
sub stop {
  my ($self) = @_;
  syswrite $self->{end}, "\n";    # closing it is not enough: other children may have it open, too
  local ($?, $SIG{CHLD}) = (0, 'DEFAULT');
  waitpid $self->{pid}, 0;
  die "DMISniffer: it has not listened to the end\n" if $?;
  my ($packets, $dropped) =
    unpack 'I2', getsockopt $self->{socket}, $sol_packet, $packet_statistics;
  die "DMISniffer: $dropped of $packets packets were missed\n" if $dropped;
  open my $file, '<:raw', $self->{file} or die "$self->{file}: $!\n";
  local $/;
  return <$file>;
}

# Returns (name => these bytes in that form, ...).  Base64 encodes three bytes at a time, so it
# depends on the bytes before: `before` (0 to 2) is their number, and only characters that do not
# depend on them are returned.
sub forms {
  my ($bytes) = @_;
  my $hex = unpack 'H*', $bytes;
  my %form = ('raw' => $bytes, 'hex' => $hex, 'upper-case hex' => uc $hex);
  for my $name (keys %form) {
    for my $before (0 .. 2) {
      my $text = encode_base64("\0" x $before . $form{$name}, '');
      my $known = int(8 * ($before + length $form{$name}) / 6);
      my $from = (0, 2, 3)[$before];
      $form{"base64 of $name behind $before"} = substr $text, $from, $known - $from;
    }
  }
  return %form;
}

# The forms in which a part of the key is in the text.
sub found {
  my ($text, $key) = @_;
  my %name;
  for my $at (0 .. length($key) - $part) {
    my %form = forms(substr $key, $at, $part);
    $name{ $form{$_} } = $_ for keys %form;
  }
  my $any = join '|', map { quotemeta } sort keys %name;
  my %found;
  $found{ $name{$1} }++ while $text =~ /(?=($any))/gs;
  return sort keys %found;
}

1;
