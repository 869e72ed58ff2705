# Program.pm - the program that dmirun is to become: where it is, and whether it is one of DMI.
package DMI::Program;

use strict;
use warnings;

# 1 if this file was linked by dmicc (it contains the mark of lib/node/program.h); undef if that
# cannot be known (scripts, and files that can be run but not read); else 0.
sub starts_dmi {
  my ($path) = @_;
  my $mark = 'DMI program; start it with dmirun';
  open my $file, '<:raw', $path or return undef;
  read $file, my $text, 4;
  return undef if $text ne "\x7fELF";
  while (read $file, $text, 1 << 20, length $text) {
    return 1 if index($text, $mark) >= 0;
    $text = substr $text, -length $mark;
  }
  return 0;
}

# True if this argument may be something that a debugger or a shell starts: a command line, a
# program, a script.
sub may_be_started {
  my ($arg) = @_;
  return 1 if $arg =~ /\s/;
  my ($path) = grep { -f } $arg =~ m{/} ? $arg : map { "$_/$arg" } split /:/, $ENV{PATH} // '';
  return defined $path && -x $path && (starts_dmi($path) // 1);
}

# The file to run: as given, or from PATH when it names no directory, as a shell does; or one of
# DMI's own, which are in the directory `bin`.
sub path {
  my ($name, $bin) = @_;
  if ($name !~ m{/}) {
    for my $dir (split /:/, $ENV{PATH} // '') {
      my $path = ($dir eq '' ? '.' : $dir) . "/$name";
      return $path if -f $path && -x _;
    }
    my $beside = "$bin/$name";
    return $beside if -f $beside && -x _;
    die "$name: not found in PATH; did you mean ./$name?\n" if -f $name;
    die "$name: no such program\n";
  }
  die "$name: no such program\n" unless -e $name;
  die "$name: not a file\n" unless -f _;
  die "$name: not executable; is it the program that dmicc wrote?\n" unless -x _;
  return $name;
}

# True for an interpreter of Python, whose scripts may use the module dmi.
sub is_python {
  my ($path) = @_;
  return $path =~ m{(?:^|/)(?:python|pypy)[\d.]*\z};
}

# Adds the directory of the module dmi to where Python looks for modules, if it is not there already:
# `dir`, or none.
sub find_module {
  my ($path, $dir) = @_;
  return if !is_python($path) || !-d "$dir/dmi";
  my @there = grep { $_ ne '' } split /:/, $ENV{PYTHONPATH} // '';
  $ENV{PYTHONPATH} = join ':', @there, $dir unless grep { $_ eq $dir } @there;
  return;
}

# Checks that `path`, which the user has called `name`, is a program of DMI, or may start one that its
# arguments name.  Dies with a line.
sub check {
  my ($path, $name, @arguments) = @_;
  die "$name: not a DMI program (is it what dmicc wrote?), and no argument names one to start\n"
    unless (starts_dmi($path) // 1) || (is_python($path) && @arguments) || grep { may_be_started($_) } @arguments;
  return;
}

1;
