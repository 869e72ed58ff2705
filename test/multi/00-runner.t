#!/usr/bin/perl
# 00-runner.t - the suite runner itself: does test/run count what passed, and fail what should?
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;
use Time::HiRes qw(time);

# A tree of its own: test/run beside tests of ours, and a Makefile that names programs.
my $top = tempdir('dmi-runner-XXXXXX', TMPDIR => 1, CLEANUP => 1);
make_path("$top/test/multi", "$top/build/test/unit");
copy("$FindBin::Bin/../run", "$top/test/run") or die "copy: $!";

sub put {
  my ($path, $text) = @_;
  open my $file, '>', "$top/$path" or die "$path: $!";
  print $file $text;
  close $file or die;
  chmod 0755, "$top/$path";
}

# Runs the suite with these programs (name => shell text) and scripts (name => Perl text);
# returns its status, its output, its last line.
sub suite {
  my ($programs, $scripts, @options) = @_;
  unlink glob("$top/test/multi/*.t"), glob("$top/build/test/unit/*");
  my $names = join ' ', map { "test/unit/$_" } sort keys %$programs;
  put('build/Makefile', "check-programs: ; \@true\nlist-check-programs: ; \@echo $names\n");
  put("build/test/unit/$_", "#!/bin/sh\n$programs->{$_}\n") for keys %$programs;
  put("test/multi/$_", $scripts->{$_}) for keys %$scripts;
  my $output = `$^X $top/test/run @options $top/build 2>&1`;
  my $status = $? >> 8;
  my ($last) = $output =~ /([^\n]*)\n\z/;
  return ($status, $output, $last);
}

sub verdict {
  my ($name, $expected, $why, $programs, $scripts, @options) = @_;
  my ($status, $output, $last) = suite($programs, $scripts, @options);
  is($last, $expected, "$name: $expected") or diag($output);
  is($status, $expected =~ / 0 failed/ ? 0 : 1, "$name: exit status");
  like($output, $why, "$name: says so");
  return $output;
}

my $cmocka = 'echo "[==========] Running 1 test(s)."; echo "[  PASSED  ] 1 test(s)."';
my $good = "print qq(ok 1\\n1..1\\n);";
my @quick = qw(-t 5);    # enough to start, also on a busy machine

verdict('good ones', '4 passed, 0 failed', qr/^passed +[\d.]+ s, +[\d.]+ s cpu  test\/multi\/a\.t$/m,
  { u => $cmocka, tap => 'echo ok 1; echo 1..1', counts => 'echo 1000 steps' },
  { 'a.t' => $good });
verdict('skipped ones', '1 passed, 0 failed, 3 skipped', qr/^skipped .*test\/unit\/s$/m,
  { u => $cmocka, s => 'exit 77' },
  { 'all.t' => 'print qq(1..0 # SKIP why\n);', 'code.t' => 'exit 77;' });
verdict('skipped checks', '2 passed, 0 failed, 1 skipped', qr{test/multi/some\.t \(skipped: no such host; no tool\)$}m,
  { u => $cmocka },
  { 'some.t' => 'print qq(ok 1\nok 2 # skip no tool\nok 3 # skip no tool\nok 4 # skip no such host\n1..4\n);',
    'all.t' => 'print qq(1..0 # SKIP why\n);' });

{
  my %scripts = ('a.t' => $good, 'b.t' => "# Not in the small form: a text.\n$good",
    'c.t' => "$good\n# Not in the small form: as it comes too late.\n");
  verdict('full form', '3 passed, 0 failed', qr/b\.t/, {}, \%scripts);
  local $ENV{DMI_TEST_SCALE} = 'small';
  unlike(verdict('small form', '2 passed, 0 failed', qr/c\.t/, {}, \%scripts), qr/b\.t/, 'small form: left out');
}

# Two jobs, each of which ends when the other one and one that mostly waits have begun; all that wait
# one after the other.
{
  my $slow = $ENV{DMI_TEST_SLOW} || 1;
  my $together = sub {
    my ($name, @others) = @_;
    return "open my \$file, '>', '$top/$name.begun' or die; my \$until = time + 60 * $slow;\n"
      . "select undef, undef, undef, 0.01 while grep { !-e qq($top/\$_.begun) } qw(@others) and time < \$until;\n"
      . "print time < \$until ? 'ok' : 'not ok', qq( 1\n1..1\n);\n";
  };
  my $waits = "# A text.\n# Mostly waits: here, for nothing.\n";
  my %scripts = ('a.t' => $together->(a => qw(b w)), 'b.t' => $together->(b => qw(a w)),
    'w.t' => $waits . $together->(w => qw(a b)) . "open \$file, '>', '$top/w.ended' or die;\n",
    'x.t' => "${waits}die unless -e '$top/w.ended';\n$good");
  verdict('one that waits beside', '4 passed, 0 failed', qr/w\.t/, {}, \%scripts, '-j', 2);
  verdict('one job', '2 passed, 0 failed', qr/a\.t\n.*x\.t/, {},
    { 'a.t' => "die if -e '$top/x.begun';\n$good", 'x.t' => "${waits}open my \$file, '>', '$top/x.begun' or die;\n$good" }, '-j', 1);
}

verdict('what takes long first', '3 passed, 0 failed', qr/b\.t\n.*a\.t\n.*c\.t/, {},
  { 'b.t' => "# Takes long: here, not at all.\n$good", map { ("$_.t" => $good) } qw(a c) }, '-j', 1);

verdict('silent program', '1 passed, 1 failed', qr/silent: it printed nothing/,
  { u => $cmocka, silent => 'true' }, {});
verdict('program without a count', '0 passed, 1 failed', qr/shows no count/,
  { u => 'echo fine' }, {});
verdict('program that counts nothing', '0 passed, 1 failed', qr/shows no count/,
  { u => 'echo 0 steps' }, {});
verdict('cmocka without tests', '0 passed, 1 failed', qr/ran no test/,
  { u => 'echo "[  PASSED  ] 0 test(s)."' }, {});
like(verdict('exit status', '0 passed, 1 failed', qr/exit status 3/,
  { u => "$cmocka; echo out; echo err >&2; exit 3" }, {}),
  qr/^    out\n.*^    err$/ms, 'exit status: shows both streams');
verdict('crash', '0 passed, 1 failed', qr/ended by signal 11/,
  { u => "$cmocka; kill -SEGV \$\$" }, {});

verdict('silent script', '0 passed, 1 failed', qr/it checked nothing/, {}, { 'a.t' => '1;' });
verdict('script with an empty plan', '0 passed, 1 failed', qr/checked nothing|plan/i, {},
  { 'a.t' => 'print qq(1..0\n);' });
verdict('not ok', '0 passed, 1 failed', qr/not ok: 2/, {},
  { 'a.t' => 'print qq(ok 1\nnot ok 2\n1..2\n);' });
verdict('fewer than planned', '0 passed, 1 failed', qr/planned 3/, {},
  { 'a.t' => 'print qq(1..3\nok 1\n);' });
verdict('no plan', '0 passed, 1 failed', qr/No plan/i, {}, { 'a.t' => 'print qq(ok 1\n);' });
verdict('script dies', '0 passed, 1 failed', qr/exit status/, {},
  { 'a.t' => 'print qq(ok 1\n1..1\n); die;' });

my $started = time;
like(verdict('hangs', '0 passed, 2 failed', qr/hang: no end after 5 s/,
  { hang => "$cmocka; trap '' TERM; while :; do sleep 0.1; done" },
  { 'a.t' => '$| = 1; $SIG{TERM} = sub { print "my logs\n"; exit 1 }; sleep 1 while 1;' }, @quick),
  qr/my logs/, 'hangs: may show their logs');
cmp_ok(time - $started, '<', 100, 'hangs: within their time');

my $output = verdict('processes left behind', '0 passed, 1 failed', qr/left behind: sleep/,
  { u => "sleep 300 & echo child \$!; $cmocka" }, {});
my ($child) = $output =~ /child (\d+)/;
my $state = do {
  # Also while it is read it may go.
  my $opened = open my $stat, '<', "/proc/$child/stat";
  my $line = $opened ? <$stat> : undef;
  defined $line ? (split ' ', $line)[2] : 'gone';
};
like($state, qr/^(?:gone|Z|X)$/, 'processes left behind: killed');

verdict('nothing to run', '0 passed, 1 failed', qr/no test matches/, {}, {});
put('build/Makefile', "check-programs: ; \@echo broken; false\n");
like(`$^X $top/test/run $top/build`, qr/broken.*\n0 passed, 1 failed\n\z/s,
  'tests that do not build');

done_testing();
