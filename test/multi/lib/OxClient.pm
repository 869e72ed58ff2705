# OxClient.pm - an OpenXM client (RFC-100, RFC-102) in both orders of bytes, for tests of ox_dmi.
#
#   my $c = OxClient->new(control => $port, data => $port, order => 1);
#   $c->push(zz('-123456789012345678901234567890'), int32(1), string('x'));
#   $c->command(262);
#   my $value = $c->value;          # waits for a value, and takes it
#   $c->execute('1+2');  is($c->pop, '3');
#
# A value is an array whose first item is its type: [null], [int32 => 5], [bytes => ...],
# [string => ...], [list => values], [zz => digits], [qq => digits, digits], [zero], [double => number],
# [double40 => number], [doubles => numbers], [mathcap => value], [error => value].  text() writes
# one as the server's language does.
package OxClient;

use strict;
use warnings;
no warnings 'recursion';    # lists a thousand deep
use Exporter qw(import);
use IO::Select;
use IO::Socket::IP;
use IO::Socket::UNIX;
use Math::BigInt;
use Time::HiRes qw(time);

our @EXPORT = qw(null int32 bytes string list zz ratio zero double double40 doubles mathcap error text);

my $patience = 10 * ($ENV{DMI_TEST_SLOW} || 1);    # seconds that one answer may take

my %tag = (null => 1, int32 => 2, bytes => 3, string => 4, mathcap => 5, list => 17, zz => 20, qq => 21,
  zero => 22, double40 => 40, doubles => 41, double => 51, error => 0x7f000002);
my %type = reverse %tag;

sub null { ['null'] }
sub int32 { [int32 => @_] }
sub bytes { [bytes => @_] }
sub string { [string => @_] }
sub list { [list => @_] }
sub zz { [zz => "$_[0]"] }
sub ratio { [qq => "$_[0]", "$_[1]"] }
sub zero { ['zero'] }
sub double { [double => @_] }
sub double40 { [double40 => @_] }
sub doubles { [doubles => @_] }
sub mathcap { [mathcap => @_] }
sub error { [error => @_] }

sub text {
  my ($value) = @_;
  my ($type, @rest) = @$value;
  return '0' if $type =~ /^(?:null|zero)$/;
  return '[' . join(',', map { text($_) } @rest) . ']' if $type eq 'list';
  return join '/', @rest if $type eq 'qq';
  return "$type(" . text($rest[0]) . ')' if $type =~ /^(?:mathcap|error)$/;
  return join ',', @rest;
}

# ---- Connections -------------------------------------------------------------------------------

# One direction's reader and writer: { socket, order (byte of ours), little, in, serial }.
sub stream {
  my ($class, $socket, $order) = @_;
  $socket->autoflush(1);
  my $self = bless { socket => $socket, order => $order, in => '', serial => 0 }, 'OxClient::Stream';
  return $self;
}

sub _dial {
  my ($port, $password) = @_;
  my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) or die "port $port: $@\n";
  syswrite $socket, "$password\0" if defined $password;
  return $socket;
}

# control, data: ports; order: the byte that this client sends; bare => 1: none on control.
sub new {
  my ($class, %opt) = @_;
  my $order = $opt{order} // 1;
  my $control = $opt{control_socket} // _dial($opt{control}, $opt{password});
  my $data = $opt{data_socket} // _dial($opt{data}, $opt{password});
  my $self = bless { control => $class->stream($control, $order), data => $class->stream($data, $order) }, $class;
  if ($opt{bare}) { $self->{control}{little} = 0 }
  else { $self->{control}->answer_order }
  $self->{data}->answer_order;
  return $self;
}

sub data { return $_[0]{data} }

sub push {
  my ($self, @values) = @_;
  $self->{data}->put_data($_) for @values;
  return $self;
}

sub command { $_[0]{data}->put_command($_[1]); return $_[0] }
sub control { $_[0]{control}->put_command($_[1]); return $_[0] }
sub serial { return $_[0]{data}{serial} }

# The value on top of the stack, as text.
sub pop { my ($self) = @_; return text($self->command(262)->value) }

# The next value that comes.
sub value {
  my ($self) = @_;
  my $message = $self->{data}->message;
  die "no value: $message->{tag}\n" unless $message->{tag} == 514;
  return $message->{value};
}

sub execute { my ($self, $text) = @_; return $self->push(string($text))->command(268) }

sub call {
  my ($self, $name, @args) = @_;
  return $self->push(reverse(@args), int32(scalar @args), string($name))->command(269);
}

# A reset as RFC-100 says; what came before the server's ball is discarded.
sub reset {
  my ($self) = @_;
  $self->control(1030);
  1 while $self->{data}->message->{tag} != 515;
  $self->{data}->put_ball;
  return $self;
}

# Has what runs interrupted.  The two connections are not ordered: it is said until an answer comes.
sub interrupt {
  my ($self) = @_;
  do { $self->control(1025) } until IO::Select->new($self->{data}{socket})->can_read(0.05);
  return $self;
}

sub close { my ($self) = @_; close $_->{socket} for @$self{qw(control data)} }

# Group: ranks, and links between every two clients' servers; $port->() gives an unused one.
sub group {
  my ($port, @clients) = @_;
  for my $rank (0 .. $#clients) {
    $clients[$rank]->push(int32(scalar @clients), int32($rank))->command(278);
  }
  for my $i (0 .. $#clients) {
    for my $j ($i + 1 .. $#clients) { link_two($port->(), $i, $clients[$i], $j, $clients[$j]) }
  }
}

# $at: a port, or the path of an AF_UNIX socket.
sub link_two {
  my ($at, $i, $one, $j, $two) = @_;
  my $place = $at =~ /^\d+$/ ? int32($at) : string($at);
  $one->push($place, int32($j))->command(279);
  $two->push($at =~ /^\d+$/ ? string('127.0.0.1') : null(), $place, int32($i))->command(280);
}

package OxClient::Stream;

no warnings 'recursion';

# The other's byte, then ours: equal ones name the order, else it is network order.
sub answer_order {
  my ($self) = @_;
  my $theirs = unpack 'C', $self->bytes(1);
  syswrite $self->{socket}, pack 'C', $self->{order};
  $self->{little} = $theirs == 1 && $self->{order} == 1;
  return $self;
}

sub put {
  my ($self, $bytes) = @_;
  while (length $bytes) {
    my $put = syswrite $self->{socket}, $bytes;
    die "write: $!\n" unless defined $put;
    substr $bytes, 0, $put, '';
  }
}

sub _word { my ($self, $word) = @_; return pack $self->{little} ? 'V' : 'N', $word & 0xffffffff }

# The length with its sign, and the words, least significant first.
sub _integer {
  my ($self, $digits) = @_;
  my $number = Math::BigInt->new($digits);
  my $hex = substr $number->copy->babs->as_hex, 2;
  $hex = '' if $number->is_zero;
  $hex = '0' x (-length($hex) % 8) . $hex;
  my @words = reverse map { hex } $hex =~ /(.{8})/g;
  return join '', map { $self->_word($_) } ($number->is_neg ? -@words : scalar @words), @words;
}

sub _double { my ($self, $number) = @_; return pack $self->{little} ? 'd<' : 'd>', $number }

sub value_bytes {
  my ($self, $value) = @_;
  my ($type, @rest) = @$value;
  my $head = $self->_word($tag{$type});
  return $head if $type =~ /^(?:null|zero)$/;
  return $head . $self->_word($rest[0]) if $type eq 'int32';
  return $head . $self->_word(length $rest[0]) . $rest[0] if $type =~ /^(?:bytes|string)$/;
  return $head . join '', map { $self->_integer($_) } @rest if $type =~ /^(?:zz|qq)$/;
  return $head . $self->_double($rest[0]) if $type =~ /^double(?:40)?$/;
  return $head . join '', $self->_word(scalar @rest), map { $self->_double($_) } @rest if $type eq 'doubles';
  $head .= $self->_word(scalar @rest) if $type eq 'list';
  return $head . join '', map { $self->value_bytes($_) } @rest;
}

sub put_data { my ($self, $value) = @_; $self->put($self->_word(514) . $self->_word($self->{serial}++) . $self->value_bytes($value)) }
sub put_command { my ($self, $code) = @_; $self->put(join '', map { $self->_word($_) } 513, $self->{serial}++, $code) }
sub put_ball { my ($self) = @_; $self->put($self->_word(515) . $self->_word($self->{serial}++)) }

# So many bytes; dies at the end of the stream, or when they do not come.
sub bytes {
  my ($self, $num) = @_;
  my $until = Time::HiRes::time() + $patience;
  while (length $self->{in} < $num) {
    my $left = $until - Time::HiRes::time();
    if (!IO::Select->new($self->{socket})->can_read($left > 0 ? $left : 0)) {
      next if $left > 0;    # a signal: a process has ended
      die "no answer\n";
    }
    my $got = sysread $self->{socket}, $self->{in}, 65536, length $self->{in};
    die "the connection has ended\n" unless $got;
  }
  return substr $self->{in}, 0, $num, '';
}

sub word { my ($self) = @_; return unpack $self->{little} ? 'V' : 'N', $self->bytes(4) }
sub signed { my ($self) = @_; return unpack 'l', pack 'L', $self->word }

sub integer {
  my ($self) = @_;
  my $length = $self->signed;
  my @words = map { $self->word } 1 .. abs $length;
  my $number = Math::BigInt->new('0x' . join '', map({ sprintf '%08x', $_ } reverse @words), @words ? () : '0');
  return ($length < 0 ? '-' : '') . $number->bstr;
}

sub number { my ($self) = @_; return unpack $self->{little} ? 'd<' : 'd>', $self->bytes(8) }

sub read_value {
  my ($self) = @_;
  my $tag = $self->word;
  my $type = $type{$tag} // die "type $tag\n";
  return [$type] if $type =~ /^(?:null|zero)$/;
  return [$type, $self->signed] if $type eq 'int32';
  return [$type, $self->bytes($self->word)] if $type =~ /^(?:bytes|string)$/;
  return [$type, $self->integer] if $type eq 'zz';
  return [$type, $self->integer, $self->integer] if $type eq 'qq';
  return [$type, $self->number] if $type =~ /^double(?:40)?$/;
  return [$type, map { $self->number } 1 .. $self->word] if $type eq 'doubles';
  return [$type, map { $self->read_value } 1 .. ($type eq 'list' ? $self->word : 1)];
}

# { tag, serial, value, code }
sub message {
  my ($self) = @_;
  my %message = (tag => $self->word, serial => $self->word);
  $message{value} = $self->read_value if $message{tag} == 514;
  $message{code} = $self->word if $message{tag} == 513;
  return \%message;
}

# True if the other has closed.
sub ended {
  my ($self) = @_;
  return !eval { $self->bytes(1); 1 } && $@ eq "the connection has ended\n";
}

1;
