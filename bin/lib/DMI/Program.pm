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

# The file that an argument names, as a shell would find it; undef: none.
sub _file_of {
  my ($arg) = @_;
  my ($path) = grep { -f } $arg =~ m{/} ? $arg : map { "$_/$arg" } split /:/, $ENV{PATH} // '';
  return $path;
}

# True if this argument may be something that a debugger or a shell starts: a command line, a
# program, a script.
sub may_be_started {
  my ($arg) = @_;
  return 1 if $arg =~ /\s/ || is_python($arg);
  my $path = _file_of($arg);
  return defined $path && -x $path && (starts_dmi($path) // 1);
}

# The words of a command that a process needs that joins.  The arguments of a program in C are for
# DMI_main, which does not run there; but what starts the program, such as env or a debugger, needs its name,
# and Python needs its script.  The script itself may read its arguments in any process.
sub joining {
  my (@words) = @_;
  for my $i (0 .. $#words) {
    return @words if is_python($words[$i]) || _is_python_script($words[$i]);
    my $path = _file_of($words[$i]);
    # What is not here may be on another host.
    return $words[0] if $i == 0 && (!defined $path || (starts_dmi($path) // 1));
    return @words[0 .. $i] if $i && may_be_started($words[$i]);
  }
  return @words;
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

# True for a file whose first line has Python run it: "#!/usr/bin/python3", "#!/usr/bin/env python3".
sub _is_python_script {
  my ($name) = @_;
  my $path = _file_of($name) // return 0;
  open my $file, '<:raw', $path or return 0;
  read $file, my $text, 256;
  my ($words) = ($text // '') =~ /\A#!\s*([^\n]*)/ or return 0;
  return scalar grep { is_python($_) } split ' ', $words;
}

# Adds the directory of the module dmi to where Python looks for modules, if one of these words is Python, or a
# script or a command line for it, and the directory is not there already: `dir`, or none.
sub find_module {
  my ($dir, @words) = @_;
  return if !-d "$dir/dmi" || !grep { is_python($_) || _is_python_script($_) } map { ($_, split) } @words;
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
