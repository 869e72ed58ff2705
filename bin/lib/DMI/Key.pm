# Key.pm - the key of the program that dmimw starts, for all its processes: that of --key, of the
# environment variable DMI_KEY_FILE, or ~/.dmi/key, which is made if it does not exist.
#
# The same rules as in lib/node/key.c: a file of one line, 64 hexadecimal digits, that nobody else
# can read.  The key goes to agents over their stdin, if nobody else can read that on its way, and
# to processes through a pipe; never onto a command line or into an environment.
package DMI::Key;

use strict;
use warnings;
use Digest::SHA ();
use Errno ();
use Fcntl qw(:DEFAULT :mode);

my $form = qr/\A[0-9A-Fa-f]{64}\n\z/;

# The line that a key file holds.  Dies with a reason.
sub read {
  my ($class, $file) = @_;
  return _content($file) if defined $file;
  my $dir = DMI::Key->directory;
  mkdir $dir, 0700 or $!{EEXIST} or die "cannot make the directory $dir: $!\n";
  my ($mode, $owner) = (stat $dir)[2, 4];
  die "$dir is not a directory that only you can change: chmod 700 it, or use --key\n"
    unless S_ISDIR($mode) && $owner == $> && ($mode & 022) == 0;
  _make("$dir/key") unless -e "$dir/key";
  return _content("$dir/key");
}

# The line of an existing key file: this one, or ~/.dmi/key, which is not made.  Dies with a reason.
sub find {
  my ($class, $file) = @_;
  return _content($file // DMI::Key->directory . '/key');
}

# The line that comes from a descriptor; what follows there is left.  Dies with a reason.
sub from_descriptor {
  my ($class, $number) = @_;
  open my $handle, '<&', $number or die "--key-fd $number: $!\n";
  my $line = '';
  while (length $line < 65) {
    my $count = sysread $handle, $line, 65 - length $line, length $line;
    next if !defined $count && $!{EINTR};
    last if !$count;
  }
  die "--key-fd $number: no key came: that is one line of 64 hexadecimal digits\n" unless $line =~ $form;
  return $line;
}

# A handle from which a line can be read once, by a program that this process starts or becomes.
sub handle {
  my ($class, $line) = @_;
  pipe my $reader, my $writer or die "no pipe: $!\n";
  syswrite $writer, $line;
  fcntl $reader, F_SETFD, 0;
  return $reader;
}

# A keyed hash of random bytes, by which both ends see whether they have the same key.  It tells
# others nothing about the key.
sub nonce { return DMI::Key->random(32) }

# So many random bytes, in hexadecimal.
sub random { return unpack 'H*', _random($_[1]) }

sub mark {
  my ($class, $line, $nonce) = @_;
  return Digest::SHA::hmac_sha256_hex("dmimw: is it this key? $nonce", pack 'H64', $line);
}

# The name of ~/.dmi, which need not exist.  Dies with a reason.
sub directory {
  my $home = $ENV{HOME} // '';
  $home = (getpwuid $>)[7] // '' unless $home =~ m{^/};
  die "no home directory for the key: name a key file with --key\n" unless $home =~ m{^/};
  return "$home/.dmi";
}

sub _random {
  my ($count) = @_;
  open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n";
  CORE::read($random, my ($bytes), $count) == $count or die "/dev/urandom: $!\n";
  return $bytes;
}

sub _content {
  my ($file) = @_;
  sysopen my $handle, $file, O_RDONLY | O_NONBLOCK | O_NOCTTY or die "the key file $file: $!\n";
  my ($mode, $owner) = (stat $handle)[2, 4];
  die "the key file $file is not a file\n" unless S_ISREG($mode);
  die "the key file $file belongs to another user\n" unless $owner == $>;
  die "the key file $file can be read by others, so it is not secret any more: remove it and make "
    . "another (or, if nobody has read it: chmod 600)\n" if $mode & 077;
  my $line = <$handle> // '';
  die "the key file $file has no key in it: that is one line of 64 hexadecimal digits\n"
    unless $line =~ $form;
  return $line;
}

# Makes a key file: writes a complete file, then gives it the name, unless another process was
# faster.
sub _make {
  my ($file) = @_;
  my $bytes = _random(40);
  my $temp = "$file." . unpack 'H*', substr $bytes, 32, 8, '';    # a unique name
  sysopen my $handle, $temp, O_WRONLY | O_CREAT | O_EXCL, 0600 or die "cannot make $temp: $!\n";
  my $good = (print $handle unpack('H*', $bytes), "\n") && close $handle
    && (link($temp, $file) || -e $file);
  my $why = "$!";
  unlink $temp;
  die "cannot make $file: $why\n" unless $good;
  return;
}

1;
