package Callgrind;

# Callgrind - counts the instructions of one function of a DMI program, with valgrind's callgrind: unlike
# times, they are the same in each run.
#
#   if (my $valgrind = Callgrind::installed()) {
#     my ($all, $some) = Callgrind::count($valgrind, $builddir, 'bench_seen_dmi', 'many_read', 1000, qr{doing\.c$});
#   }
use strict;
use warnings;
use File::Temp qw(tempdir);

# The path of valgrind; undef: it is not installed.
sub installed {
  my ($valgrind) = grep { -x } map { "$_/valgrind" } split /:/, $ENV{PATH} // '';
  return $valgrind;
}

# What a function does that the program test/bench/PROGRAM calls twice, with COUNT as its argument: the first
# time warms up.  Returns all instructions, and those of lines of source files whose names match.
sub count {
  my ($valgrind, $builddir, $program, $function, $count, $files) = @_;
  my $dir = tempdir(CLEANUP => 1);
  my @callgrind = ($valgrind, '--tool=callgrind', '--quiet', "--callgrind-out-file=$dir/out", '--collect-atstart=no',
    "--toggle-collect=$function", "--dump-after=$function");
  my $said = `'$builddir/bin/dmirun' -l 0 @callgrind '$builddir/test/bench/$program' $count 2>&1`;
  die "$program ended with status $?: $said\n" if $?;
  return _instructions("$dir/out.2", $files);
}

# The line behind `calls=` has what the function that is called has cost, which comes again with that.
sub _instructions {
  my ($path, $files) = @_;
  my ($all, $some, $skip, $file, %name) = (0, 0, 0, '');
  open my $dump, '<', $path or die "$path: $!\n";
  while (my $line = <$dump>) {
    if ($line =~ /^(c?)f[lie]=\((\d+)\)(?: (.+))?$/) { # a name comes once, then its number
      $name{$2} = $3 if defined $3;
      $file = $name{$2} if $1 eq '';
    }
    elsif ($line =~ /^calls=/) { $skip = 1 }
    elsif ($line =~ /^[+\-*\d]\S* (\d+)$/) {
      my $instructions = $skip ? 0 : $1;
      $all += $instructions;
      $some += $instructions if defined $files && $file =~ $files;
      $skip = 0;
    }
  }
  return ($all, $some);
}

1;
