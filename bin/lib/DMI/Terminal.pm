# Terminal.pm - the width of the terminal to which is printed.
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

1;
