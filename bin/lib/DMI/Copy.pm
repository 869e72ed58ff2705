# Copy.pm - dmimw --copy: brings the program to a host that does not have it, or has another one.
#
# Here: describe, and the bytes of the file.  There, in the agent: compares, and takes the bytes into a new
# file, which gets the name when all of it is there.  So whoever looks sees the old program or the new
# one, and a process that runs keeps the one that it was started with.  Whoever writes such a file holds a
# lock of it: one without is of somebody who was killed, and the next copy removes it.
#
#   my $what = DMI::Copy::describe($path);                       # goes to the agent
#   my $copy = DMI::Copy->new($what);  $copy->is_there
#   $copy->take($bytes) ...;  $copy->finish;
#
# All of them die with a reason.
package DMI::Copy;

use strict;
use warnings;
use Digest::SHA ();
use Errno ();
use Fcntl qw(:flock O_WRONLY O_CREAT O_EXCL O_NOFOLLOW);
use File::Path ();
use IO::Handle ();
use Sys::Hostname ();

sub _digest {
  my ($path) = @_;
  return Digest::SHA->new(256)->addfile($path, 'b')->hexdigest;
}

# Its name, mode and contents.
sub describe {
  my ($path) = @_;
  die "--copy $path: give the program by its path (./$path)\n" unless $path =~ m{/};
  my (undef, undef, $mode, undef, undef, undef, undef, $size) = stat $path or die "--copy $path: $!\n";
  die "--copy $path: not a file\n" unless -f _;
  return { path => $path, mode => $mode & 0777, size => $size, digest => eval { _digest($path) } // die "--copy $path: $!\n" };
}

sub new {
  my ($class, $what) = @_;
  return bless {%$what}, $class;
}

# True if this file is there.  Its mode may be changed for that.
sub is_there {
  my ($self) = @_;
  my $path = $self->{path};
  return 0 unless -f $path && -s _ == $self->{size} && (eval { _digest($path) } // '') eq $self->{digest};
  return 1 if ((stat $path)[2] & 0777) == $self->{mode};
  return chmod $self->{mode}, $path;
}

sub _failed {
  my ($self, $what) = @_;
  die "--copy: $what: $!\n";
}

# True if this name is still that of this open file.
sub _is_named {
  my ($file, $path) = @_;
  my ($of_file, $of_path) = (join(' ', (stat $file)[0, 1]), join(' ', (lstat $path)[0, 1]));
  return $of_file eq $of_path;
}

# Files that nobody writes any more.
sub _remove_left {
  my ($prefix) = @_;
  my ($dir, $name) = $prefix =~ m{^(.*/)(.*)};
  opendir my $entries, $dir or return;
  for my $path (map { "$dir$_" } grep { index($_, $name) == 0 } readdir $entries) {
    sysopen my $file, $path, O_WRONLY | O_NOFOLLOW or next;
    unlink $path if flock($file, LOCK_EX | LOCK_NB) && _is_named($file, $path);
  }
  return;
}

# A new file, with its lock.  Before it has that, another one may take the file for left.  Where there are
# no locks nothing is removed, either.
sub _open {
  my ($self) = @_;
  my ($dir, $name) = $self->{path} =~ m{^(.*/)(.*)};
  File::Path::make_path($dir, { error => \my $errors });
  _remove_left("$dir.$name.dmi-copy.");
  my $temp = "$dir.$name.dmi-copy." . Sys::Hostname::hostname() . ".$$";
  my $file;
  do {
    sysopen $file, $temp, O_WRONLY | O_CREAT | O_EXCL, 0600 or $self->_failed($temp);
    1 while !flock($file, LOCK_EX) && $!{EINTR};
  } until _is_named($file, $temp);
  binmode $file;
  @$self{qw(file temp)} = ($file, $temp);
  return;
}

sub take {
  my ($self, $bytes) = @_;
  $self->_open if !$self->{file};
  print { $self->{file} } $bytes or $self->_failed($self->{temp});
  return;
}

# All bytes have come.  Its lock is kept until it has its name.
sub finish {
  my ($self) = @_;
  $self->take('');
  my ($file, $temp) = @$self{qw(file temp)};
  $file->flush && $file->sync or $self->_failed($temp);
  die "--copy: $self->{path} has changed while it was copied\n" unless _digest($temp) eq $self->{digest};
  chmod $self->{mode}, $temp or $self->_failed($temp);
  rename $temp, $self->{path} or $self->_failed($self->{path});
  delete $self->{temp};
  close delete $self->{file} or $self->_failed($self->{path});
  return;
}

sub DESTROY {
  my ($self) = @_;
  unlink $self->{temp} if defined $self->{temp};
}

1;
