package FreePort;

# FreePort - TCP ports at which a test may tell somebody to listen.
#
# A port that the system has chosen may be any other process's as soon as it is closed: with tests
# that run beside each other this happens.  So these are from below the range from which the system
# chooses, where nobody gets a port without asking for it, and are drawn at random, since other
# tests draw, too.
use strict;
use warnings;
use Exporter qw(import);
use IO::Socket::IP;

our @EXPORT_OK = qw(free_port free_ports);

my $LEAST = 10_000;

# The last port below the system's range.
sub _most {
  open my $file, '<', '/proc/sys/net/ipv4/ip_local_port_range' or return 32_767;
  my ($first) = split ' ', readline $file;
  return $first > 2 * $LEAST ? $first - 1 : 32_767;
}

# So many ports at which nobody listens now, all different.
sub free_ports {
  my ($count) = @_;
  my ($most, @sockets) = (_most());
  for (1 .. 1000) {
    return map { $_->sockport } @sockets if @sockets == $count;
    my $port = $LEAST + int rand $most - $LEAST + 1;
    my $socket = IO::Socket::IP->new(LocalHost => '0.0.0.0', Listen => 1, LocalPort => $port);
    push @sockets, $socket if $socket;
  }
  die "FreePort: no free port from $LEAST to $most: $!\n";
}

sub free_port { return (free_ports(1))[0] }

1;
