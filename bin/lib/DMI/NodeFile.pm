# NodeFile.pm - a file of hosts: `host [dmirun options]` in each line, `#` begins a comment.
#
#   my @lines = DMI::NodeFile->read($path);      # dies with a line that says what is wrong and where
#                                                # `-`: standard input
#   my $line = DMI::NodeFile->parse($text);      # undef: nothing but a comment
#   my @lines = DMI::NodeFile->here($count);     # so many processes on this machine
#   my @lines = DMI::NodeFile->spread($count, @hosts);    # on these hosts in turn
#
# A line is { host => name or address to connect to, perhaps user@host; address => the same without
# the user; options => [...]; port, bind => what -l and --bind say, or undef; join => true when there is an -i; witness => true when there is a --witness }.
package DMI::NodeFile;

use strict;
use warnings;
use Getopt::Long ();
use Text::ParseWords ();

sub read {
  my ($class, $path) = @_;
  my $file = \*STDIN;
  if ($path eq '-') { $path = 'standard input' }
  else { undef $file; open $file, '<', $path or die "-f $path: $!\n" }
  my @lines;
  while (my $text = <$file>) {
    my $line = eval { $class->parse($text) };
    die "$path, line $.: $@" if $@;
    push @lines, $line if $line;
  }
  die "$path: no host in it\n" unless @lines;
  return @lines;
}

sub parse {
  my ($class, $text) = @_;
  $text =~ s/(?:^|\s)#.*//s;
  return unless $text =~ /\S/;
  my @words = grep { defined && $_ ne '' } Text::ParseWords::shellwords($text);
  die "a quote is not closed\n" unless @words;
  my ($host, @options) = @words;
  return { host => $host, address => _address($host), options => \@options, _known(@options) };
}

# Several processes of a host share its processors.
sub spread {
  my ($class, $count, @hosts) = @_;
  my (%at, %number);
  my @names = map { $hosts[$_ % @hosts] } 0 .. $count - 1;
  $at{$_}++ for @names;
  return map {
    my $host = $_;
    # Options go into node files only.
    die "$host: not a host name or address\n" if $host =~ /[\s#'"\\]|^\z/;
    my $line = $class->parse($host);
    push @{ $line->{options} }, '--share', ++$number{$host} . "/$at{$host}" if $at{$host} > 1;
    $line;
  } @names;
}

sub here { my ($class, $count) = @_; return $class->spread($count, 'localhost') }

sub _address {
  my ($host) = @_;
  # Nothing that ssh could take for an option.
  $host =~ /^(?:[A-Za-z_][\w.-]*@)?([\w:][\w.:%-]*)$/ && $host !~ /^-/
    or die "$host: not a host name or address\n";
  my $address = $1;
  die "$host: the port to listen on goes after -l: $1 -l $2\n" if $host =~ /^([^:]+):(\d*)$/;
  return $address;
}

# The options that dmimw needs; dmirun checks all others.
sub _known {
  my @options = @_;
  my %opt;
  local $SIG{__WARN__} = sub { die $_[0] };
  my $parser = Getopt::Long::Parser->new(
    config => [qw(bundling no_ignore_case no_auto_abbrev pass_through)]);
  eval { $parser->getoptionsfromarray([@options], \%opt, 'l=s', 'i=s', 'p=s', 's=s', 'bind=s', 'witness'); 1 }
    or die lcfirst $@;
  die "-l $opt{l}: a port is a number from 0 to 65535\n"
    if defined $opt{l} && ($opt{l} !~ /^(\d{1,5})\+?$/ || $1 > 65535);
  return (port => $opt{l}, bind => $opt{bind}, join => defined $opt{i}, witness => $opt{witness});
}

1;
