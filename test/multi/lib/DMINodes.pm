# DMINodes.pm - runs test scripts with nodes of one OS process instead of processes.
#
# With DMI_TEST_NODES=memory (or tcp) in the environment DMITest->compile takes the module that was
# built of a program (test/nodes/local.mk), and DMITest->start has one process, test/nodes/nodes,
# begin a node with it.  What a script does with a process it then does with a node: streams, port,
# a signal (which asks it to leave), end and status.  A script fails if it needs a real process (to
# kill it, or for options of dmirun that are not in %variable).
package DMINodes;

use strict;
use warnings;
use POSIX qw(mkfifo);

# Options of dmirun that a node takes, and the variables of lib/node/config.c for them.
my %variable = (
  '-s' => 'DMI_POOL_BYTES',
  '-l' => 'DMI_LISTEN_PORT',
  '--spill' => 'DMI_SPILL_DIR',
  '--contact' => 'DMI_CONTACT_FILE',
  '--dead-after' => 'DMI_DEAD_AFTER',
  '--survive' => 'DMI_SURVIVE',
  '--on-error' => 'DMI_ON_ERROR', # of all nodes that begin from then on
);
my %unit = (K => 1 << 10, M => 1 << 20, G => 1 << 30);

sub wanted { return $ENV{DMI_TEST_NODES} }

# The module of a program.
sub module {
  my ($test, $source) = @_;
  my ($name) = $source =~ m{examples/([^/.]+)} ? "example_$1" : $source =~ m{([^/]+)_dmi\.c$};
  my $module = $test->build . "/test/nodes/$name.so";
  -e $module or $test->fail_now("$module is there (test/nodes/local.mk lists it)");
  return $module;
}

# The one process; it is started with the first node.
sub _server {
  my ($test) = @_;
  return $test->{nodes} if $test->{nodes};
  pipe my $reader, my $writer or die "DMINodes: no pipe: $!\n";
  $writer->autoflush(1);
  my $process = $test->spawn([$test->build . '/test/nodes/nodes', wanted()], name => 'nodes',
    stdin => $reader);
  close $reader;
  return $test->{nodes} = { process => $process, commands => $writer, number => 0 };
}

sub _command {
  my ($test, @fields) = @_;
  print { $test->{nodes}{commands} } join("\t", @fields), "\n";
}

# As DMITest->start.
sub start {
  my ($test, $module, %opt) = @_;
  my $server = _server($test);
  $server->{process}->running or $test->fail_now('the process of the nodes has not ended');
  $module = module($test, $module) if $module !~ /\.so$/;
  my $number = ++$server->{number};
  my %env = (
    DMI_LISTEN_PORT => 0,
    DMI_KEY_FILE => $test->key_file,
    %{ $opt{env} // {} });
  $env{DMI_ENCRYPT} = 1 if $ENV{DMI_TEST_ENCRYPT} && !$opt{join};
  @env{qw(DMI_JOIN_HOST DMI_JOIN_PORT)} = ($opt{join}->host, $opt{join}->port) if $opt{join};
  my @opts = @{ $opt{opts} // [] };
  while (my ($option, $value) = splice @opts, 0, 2) {
    if ($option eq '--survive') {    # has no value
      unshift @opts, $value if defined $value;
      $value = 1;
    }
    if ($option eq '-i' && $value =~ /^\@(.*)/) {
      $env{DMI_JOIN_FILE} = $1;
      next;
    }
    $variable{$option} or $test->fail_now("a node can be started with $option");
    $value = $1 * $unit{$2} if $value =~ /^(\d+)([KMG])$/;
    $env{ $variable{$option} } = $value;
  }
  my $node = DMINodes::Node->_new($test, $number, $opt{name} // "n$number");
  push @{ $test->{processes} }, $node;
  _command($test, 'start', $number, $module, @{ $node->{fifo} }{qw(out err evt)},
    (map { "$_=$env{$_}" } grep { defined $env{$_} } sort keys %env),
    '--', $opt{join} ? () : @{ $opt{args} // [] });
  return $node;
}

# Ends the one process, after all nodes have ended.
sub finish {
  my ($test) = @_;
  my $server = $test->{nodes} or return;
  close delete $server->{commands};
  $server->{process}->wait_exit(0);
}

package DMINodes::Node;

use strict;
use warnings;
use Fcntl qw(O_RDONLY O_NONBLOCK);
use POSIX qw(mkfifo);

our @ISA = ('DMITest::Process');

sub _new {
  my ($class, $test, $number, $name) = @_;
  my $self = bless {
    test => $test,
    pid => $test->{nodes}{process}{pid},
    number => $number,
    name => $name
  }, $class;
  for my $which (qw(out err evt)) {
    my $fifo = $self->{fifo}{$which} = $test->dir . "/$which.n$number";
    mkfifo $fifo, 0600 or die "DMINodes: $fifo: $!\n";
    sysopen my $handle, $fifo, O_RDONLY | O_NONBLOCK or die "DMINodes: $fifo: $!\n";
    # Nobody has opened it for writing yet: until somebody has, its end is none.
    $self->{$which} = { name => $which, handle => $handle, process => $self, text => '',
      logged => 0, seen => 0, fifo => 1 };
  }
  $self->{streams} = [@$self{qw(out err evt)}];
  $self->_note('node begins');
  return $self;
}

sub signal {
  my ($self, $name, %opt) = @_;
  $self->_reap;
  $self->{test}->fail_now("$self->{name} lives to get SIG$name") if defined $self->{status};
  my $number = { HUP => 1, INT => 2, TERM => 15 }->{$name}
    or $self->{test}->fail_now("a node can be sent SIG$name");
  $self->_note("SIG$name sent");
  DMINodes::_command($self->{test}, 'signal', $self->{number}, $number);
}

sub _kill { return 9 }    # with its process

# No end before something came is one: nobody has opened the stream for writing yet.
sub _read {
  my ($self, $stream) = @_;
  my $count = sysread $stream->{handle}, $stream->{text}, 65536, length $stream->{text};
  return 0 if !$count && !defined $self->{status};
  return $self->_took($stream, $count);
}

# Where it is: see test/lib/memory_net.h.
sub host {
  my ($self) = @_;
  return '127.0.0.1' if DMINodes::wanted() eq 'tcp';
  return join '.', 10, unpack 'x C3', pack 'N', $self->{number};
}

sub kill_now { $_[0]{test}->fail_now('a node can be killed') }

# "ended K STATUS" in what the one process prints; or its own end.
sub _reap {
  my ($self) = @_;
  return if defined $self->{status};
  my $server = $self->{test}{nodes}{process};
  if ($server->{out}{text} =~ /^ended $self->{number} (\d+)$/m) {
    $self->{status} = $1 << 8;
  } elsif (!$server->running) {
    $self->{status} = $server->{status} || 255 << 8;
  } else {
    return;
  }
  $self->_note($self->_how_ended);
}

1;
