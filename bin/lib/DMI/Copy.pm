# Copy.pm - dmimw --copy: brings the program to a host that does not have it, or has another one.
#
# Here: describe, and the bytes of the file.  There, in the agent: compares, and takes the bytes into a new
# file, which gets the name when all of it is there.  So whoever looks sees the old program or the new
# one, and a process that runs keeps the one that it was started with.
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
use Fcntl qw(O_WRONLY O_CREAT O_EXCL);
use File::Path ();
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

sub take {
  my ($self, $bytes) = @_;
  if (!$self->{file}) {
    my ($dir) = $self->{path} =~ m{^(.*)/};
    File::Path::make_path($dir, { error => \my $errors }) if $dir ne '';
    my $temp = "$self->{path}." . Sys::Hostname::hostname() . ".$$";
    sysopen $self->{file}, $temp, O_WRONLY | O_CREAT | O_EXCL, 0600 or $self->_failed($temp);
    binmode $self->{file};
    $self->{temp} = $temp;
  }
  print { $self->{file} } $bytes or $self->_failed($self->{temp});
  return;
}

# All bytes have come.
sub finish {
  my ($self) = @_;
  $self->take('');
  close $self->{file} or $self->_failed($self->{temp});
  die "--copy: $self->{path} has changed while it was copied\n" unless _digest($self->{temp}) eq $self->{digest};
  chmod $self->{mode}, $self->{temp} or $self->_failed($self->{temp});
  rename $self->{temp}, $self->{path} or $self->_failed($self->{path});
  delete $self->{temp};
  return;
}

sub DESTROY {
  my ($self) = @_;
  unlink $self->{temp} if defined $self->{temp};
}

1;
