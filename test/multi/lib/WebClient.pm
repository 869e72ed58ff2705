# WebClient.pm - a client of dmi-web for tests, which sees each byte: requests, and events as they come.
package WebClient;

use strict;
use warnings;
use IO::Socket::INET ();
use Time::HiRes qw(time);

my $SECONDS = 30 * ($ENV{DMI_TEST_SLOW} || 1);

sub connected {
  my ($class, $port, %opt) = @_;
  my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp') or die "port $port: $!\n";
  setsockopt $socket, Socket::SOL_SOCKET(), Socket::SO_RCVBUF(), $opt{buffer} if $opt{buffer};
  return bless { socket => $socket, buffer => '' }, $class;
}

# False: the other side has closed it.
sub send_bytes {
  my ($self, $bytes) = @_;
  local $SIG{PIPE} = 'IGNORE';
  for (my $at = 0; $at < length $bytes;) {
    my $count = syswrite $self->{socket}, $bytes, length($bytes) - $at, $at;
    return 0 if !defined $count && !$!{EINTR};
    $at += $count // 0;
  }
  return 1;
}

# Reads once; false at the end.
sub more {
  my ($self) = @_;
  my $deadline = time + $SECONDS;
  while (1) {
    vec(my $bits = '', fileno $self->{socket}, 1) = 1;
    my $left = $deadline - time;
    die "nothing came within $SECONDS s\n" if $left <= 0;
    next if (select $bits, undef, undef, $left) <= 0;
    my $count = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
    next if !defined $count && $!{EINTR};
    return $count;
  }
}

# All that comes until the end.
sub rest {
  my ($self) = @_;
  1 while $self->more;
  return $self->{buffer};
}

# One request, and all of its answer: (status, head, body).  Without an answer the status is 0.
sub request {
  my ($class, $port, $method, $target, @headers) = @_;
  my $self = $class->connected($port);
  $self->send_bytes(join "\r\n", "$method $target HTTP/1.1", 'Host: localhost', 'Connection: close', @headers, '', '');
  return $self->answer;
}

sub answer {
  my ($self) = @_;
  my ($head, $body) = split /\r\n\r\n/, $self->rest, 2;
  return (0, '', '') if !defined $head || $head !~ m{^HTTP/1\.[01] (\d+)};
  my $status = $1;
  $body = join '', _chunks($body) if $head =~ /^Transfer-Encoding: chunked/mi;
  return ($status, $head, $body // '');
}

sub _chunks {
  my ($text) = @_;
  my @chunks;
  while ($text =~ s/\A([0-9a-fA-F]+)\r\n//) {
    my $length = hex $1 or last;
    push @chunks, substr $text, 0, $length;
    substr $text, 0, $length + 2, '';
  }
  return @chunks;
}

# Begins to listen to events; dies if it may not.
sub listen {
  my ($class, $port, $token, %opt) = @_;
  my $self = $class->connected($port, %opt);
  $self->send_bytes("GET /events?token=$token HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return $self if $opt{deaf};
  $self->more while $self->{buffer} !~ /\r\n\r\n/;
  die "no events: $self->{buffer}\n" if $self->{buffer} !~ s/\AHTTP\/1\.1 200 .*?\r\n\r\n//s;
  $self->{text} = '';
  return $self;
}

# The next event: (name, data); nothing at the end.
sub event {
  my ($self) = @_;
  my $end;
  while (($end = index $self->{text}, "\n\n") < 0) {
    my $chunk = $self->_chunk;
    return if !length $chunk;
    $self->{text} .= $chunk;
  }
  my $event = substr $self->{text}, 0, $end;
  substr $self->{text}, 0, $end + 2, '';
  $event =~ /\Aevent: (\w+)\ndata: / or die "no event: $event\n";
  return ($1, substr $event, $+[0]);
}

# The next chunk, waited for; empty at the end.
sub _chunk {
  my ($self) = @_;
  my $line;
  while (($line = index $self->{buffer}, "\r\n") < 0) { $self->more or return '' }
  my $length = hex substr $self->{buffer}, 0, $line;
  while (length $self->{buffer} < $line + 4 + $length) { $self->more or return '' }
  my $chunk = substr $self->{buffer}, $line + 2, $length;
  substr $self->{buffer}, 0, $line + 4 + $length, '';
  return $chunk;
}

1;
