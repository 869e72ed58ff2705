# Terminal.pm - what is printed to stdout, and how wide that is if it is a terminal.
package DMI::Terminal;

use strict;
use warnings;

my $WIDTH = 80;    # of one that does not know

# Its columns; undef: this handle is no terminal, so lines stay whole.
sub columns {
  my ($handle) = @_;
  return if !-t $handle;
  return $1 if ($ENV{COLUMNS} // '') =~ /^([1-9]\d{0,5})\z/;
  open my $stdin, '<&', \*STDIN or return $WIDTH;    # stty asks the terminal that is its stdin
  open STDIN, '<&', $handle or return $WIDTH;
  my ($columns) = (qx(stty size 2>/dev/null) // '') =~ /^\d+ ([1-9]\d*)$/;
  open STDIN, '<&', $stdin or die "stdin: $!\n";
  return $columns // $WIDTH;
}

# Prints text, which is all, to stdout.  Dies with a line if it cannot be written: a disk may be full.
sub say_all {
  my ($text) = @_;
  my $why = write_all(\*STDOUT, $text);
  die "cannot write the output: $why\n" if defined $why;
  return;
}

# Writes text to a handle, as UTF-8, and closes it; returns why that is not possible, or undef.
sub write_all {
  my ($handle, $text) = @_;
  utf8::encode($text);    # not by a layer: that forgets what has failed
  binmode $handle;
  my $why;
  print $handle $text or $why = $!;
  close $handle or $why //= $!;    # what is left is written only here
  return $why;
}

1;
