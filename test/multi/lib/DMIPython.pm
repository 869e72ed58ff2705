# DMIPython.pm - runs tests that are written in Python (test/python, pytest), and reports them as TAP.
#
#   use DMIPython;
#   DMIPython::run('test_program.py');
#
# Skipped where the build has no module for Python, or Python has no pytest.  With the address sanitizer its library is
# loaded first (Python is not instrumented); leaks are not looked for, as Python frees little at its end.  The thread
# sanitizer needs an instrumented Python, so with it they are skipped.
package DMIPython;

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use POSIX ();

my $top = abs_path(dirname(__FILE__) . '/../../..');

sub skip {
  my ($why) = @_;
  print "1..0 # skip $why\n";
  exit 0;
}

# A variable of the build's Makefile.
sub variable {
  my ($build, $name) = @_;
  open my $file, '<', "$build/Makefile" or die "$build/Makefile: $!\n";
  my ($value) = map { /^\Q$name\E = ?(.*)/ ? $1 : () } <$file>;
  return $value // '';
}

# Makes the sanitizer's library the first one of each program.
sub preload {
  my ($build) = @_;
  my $sanitizer = variable($build, 'DMI_SANITIZER');
  return if $sanitizer eq '';
  skip("Python is not instrumented for the sanitizer of this build ($sanitizer)")
    if $sanitizer !~ /address/ || !$ENV{DMI_TEST_PRELOAD};
  chomp(my $library = `gcc -print-file-name=libasan.so`);
  $ENV{LD_PRELOAD} = abs_path($library);
  $ENV{ASAN_OPTIONS} = join ':', 'detect_leaks=0', 'intercept_send=0', $ENV{ASAN_OPTIONS} // ();
  return;
}

sub run {
  my (@files) = @_;
  my $build = $ENV{DMI_BUILD_DIR} // abs_path("$top/build");
  my $python = variable($build, 'PYTHON3');
  skip('this build has no module for Python') if $python eq '' || !-e "$build/python/module/dmi/_dmi.so";
  skip('Python has no pytest (python3-pytest)') if system("$python -c 'import pytest' 2> /dev/null") != 0;
  my $dir = tempdir('dmi-python-XXXXXX', TMPDIR => 1, CLEANUP => 1);
  preload($build);
  $ENV{DMI_BUILD_DIR} = $build;
  $ENV{DMI_TAP} = "$dir/tap";
  $ENV{PYTHONPATH} = "$build/python/module";
  $ENV{PYTHONDONTWRITEBYTECODE} = 1;
  # What they print is for people, and only of interest if a test has failed.
  my $status = system("$python -m pytest -q -p no:cacheprovider --basetemp=$dir/tests "
    . join(' ', map { "$top/test/python/$_" } @files) . ' >&2');
  open my $tap, '<', "$dir/tap" or die "pytest has reported nothing\n";
  print while <$tap>;
  exit($status == 0 ? 0 : 1);
}

1;
