# Values.pm - checks values of options of dmirun.  Each function returns the value as the program shall
# get it, or dies with a line that says what is wrong with it.
#
# `option` is how the user gave it, for messages; `least` is the least value of a number
# (lib/node/option_table.h).
package DMI::Values;

use strict;
use warnings;
use Errno ();
use File::Spec ();

sub port_number {
  my ($option, $text, $least) = @_;
  die "$option $text: a port is a number from $least to 65535\n"
    unless $text =~ /^\d{1,5}$/ && $text >= $least && $text <= 65535;
  return $text + 0;
}

# Checks a host name or address, and returns it without brackets.  `port` is the option for the
# port, for messages.
sub host_name {
  my ($option, $host, $port) = @_;
  die "$option needs a host name or address\n" if $host eq '';
  if ($host =~ /^\[(.*)\]$/) {
    $host = $1;
    die "$option [$host]: only an IPv6 address goes in brackets\n" unless $host =~ /^[0-9A-Fa-f]*:/;
  }
  if ($host =~ /^([^:]*):(\d*)$/ || $host =~ /^\[(.*)\]:(\d*)$/) {
    die "$option $host: the host alone goes here; the port after $port: $option $1 $port "
      . ($2 || 'PORT') . "\n";
  }
  die "$option $host: not a host name or address\n" unless $host =~ /^[\w.:%-]+$/ && $host !~ /^-/;
  die "$option $host: a host name has at most 255 characters\n" if length $host > 255;
  return $host;
}

# How long to look before sleeping: a word, or microseconds.
sub spin {
  my ($text) = @_;
  die "--spin $text: must be auto, off, or microseconds from 0 to 1000\n"
    unless $text =~ /^(?:auto|off)\z/ || ($text =~ /^\d{1,9}\z/ && $text <= 1000);
  return $text =~ /^\d/ ? $text + 0 : $text;
}

# Returns (the port, whether any other port will do if it is in use).
sub listen_port {
  my ($text, $least) = @_;
  my $else = $text =~ s/(?<=\d)\+\z//;
  return (port_number('-l', $text, $least), $else);
}

# The absolute name of a file: the program may change its directory.
sub full_path {
  my ($option, $file) = @_;
  die "$option needs the name of a file\n" if $file eq '';
  return File::Spec->rel2abs($file);
}

# Checks the contact file of a running program.  The process itself reads it, as late as possible.
sub join_file {
  my ($text) = @_;
  my $file = full_path('-i @', $text);
  die "-i \@$text: $!" . ($!{ENOENT} ? '; the program has ended, or has not begun' : '') . "\n"
    unless -r $file;
  die "-i \@$text: not a file\n" unless -f _;
  return $file;
}

sub key_file {
  my ($name) = @_;
  my $file = full_path('--key', $name);
  die "--key $name: no such file; make one with: (umask 077; openssl rand -hex 32 > $name)\n"
    unless -e $file;
  return $file;
}

# Compares two numbers of any length, written without leading zeros.
sub digits_above {
  my ($a, $b) = @_;
  return length $a != length $b ? length $a > length $b : $a gt $b;
}

sub byte_count {
  my ($text, $least) = @_;
  my %shift = ('' => 0, K => 10, M => 20, G => 30, T => 40);
  my ($digits, $suffix) = $text =~ /^0*(\d+)([KMGTkmgt]?)$/
    or die "-s $text: a number of bytes, with an optional suffix K M G T (default 2G)\n";
  my $most = (1 << 62) >> $shift{uc $suffix};
  die "-s $text: too large\n" if digits_above($digits, $most);
  my $bytes = $digits << $shift{uc $suffix};
  die "-s $text: must be at least 1M (a number without suffix counts bytes)\n" if $bytes < $least;
  return $bytes;
}

# Checks the directory for the file of --spill.
sub spill_dir {
  my ($dir) = @_;
  die "--spill needs the name of a directory\n" if $dir eq '';
  die "--spill $dir: $!\n" unless -e $dir;
  die "--spill $dir: not a directory\n" unless -d _;
  die "--spill $dir: you cannot make a file there\n" unless -w _ && -x _;
  return File::Spec->rel2abs($dir);
}

# Which part of the machine's processors, and of how many: (2, 4).
sub share {
  my ($text) = @_;
  die "--share $text: which part, and of how many: 1/4 to 4/4\n"
    unless $text =~ m{^0*([1-9]\d{0,8})/0*([1-9]\d{0,8})\z} && $1 <= $2;
  return ($1, $2);
}

sub seconds_or_never {
  my ($option, $text) = @_;
  die "$option $text: must be a whole number of seconds, 1 to 999999999, or 0 for never\n"
    unless $text =~ /^0*(\d{1,9})$/;
  return $1;
}

sub descriptor {
  my ($option, $text, $least) = @_;
  die "$option $text: a descriptor is a number from $least to 65535\n"
    unless $text =~ /^\d{1,5}$/ && $text >= $least && $text <= 65535;
  return $text + 0;
}

# Where OpenXM clients are served.  The process itself looks names up.
sub ox_place {
  my ($text) = @_;
  my $addr = qr/[\w.%-]+|\[[0-9A-Fa-f:.%]+\]/;
  die "--ox $text: an address and a port are needed, or a port: [ADDR:]PORT[,[ADDR:]PORT]\n"
    unless $text =~ /^(?:$addr:)?(\d{1,5})(?:,(?:$addr:)?(\d{1,5}))?\z/
    && $1 <= 65535 && ($2 // 0) <= 65535 && length $text < 256;
  return $text;
}

# Where the page of --web is served.
sub web_place {
  my ($text) = @_;
  my $addr = qr/[\w.%-]+|\[[0-9A-Fa-f:.%]+\]/;
  die "--web $text: an address and a port are needed, or a port: [ADDR:]PORT (0: any)\n"
    unless $text =~ /^(?:$addr:)?(\d{1,5})\z/ && $1 <= 65535 && length $text < 256;
  return $text;
}

sub seconds {
  my ($option, $text, $least) = @_;
  die "$option $text: must be a number of seconds from $least on\n"
    unless $text =~ /^\d{1,9}$/ && $text >= $least;
  return $text + 0;
}

1;
