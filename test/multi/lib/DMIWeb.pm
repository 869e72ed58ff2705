# DMIWeb.pm - what tests of dmirun --web share: what they need, a program that is shown, screenshots.
package DMIWeb;

use strict;
use warnings;
use Browser;
use DMITest;
use File::Path qw(make_path);

# Why this cannot be tested here; undef: it can.
sub missing {
  return 'this build has no dmi-web: libmicrohttpd is missing (Debian: libmicrohttpd-dev)' if !-x DMITest::_build_dir() . '/bin/dmi-web';
  return;
}
sub no_browser { return missing() // (Browser::installed() ? undef : 'no browser (Debian: chromium)') }

# Where the page of a process is: its address, port and token, as a line on stderr says.
sub place {
  my ($process) = @_;
  my ($url, $port, $token) = $process->expect_err(qr{^dmirun: the page is at (http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32}))$}m);
  return { url => $url, port => $port, token => $token };
}

# Two processes of see_dmi.c that hang, of which the first one has a page: its place, and the two.
sub hang {
  my ($t, $mode) = @_;
  my $program = $t->compile('test/multi/see_dmi.c');
  my $one = $t->start($program, args => [$mode], name => "$mode 0", opts => ['--web', 0, '--dead-after', 0]);
  my $place = place($one);
  my $two = $t->start($program, join => $one, name => "$mode 1");
  $one->expect_out(qr/^begins/m);
  return ($place, $one, $two);
}

# For a tester to look at, in test/multi/screenshots of the build.
sub screenshot {
  my ($t, $browser, $name) = @_;
  my $dir = $t->build . '/test/multi/screenshots';
  make_path($dir);
  $browser->screenshot("$dir/$name.png");
  return;
}

1;
