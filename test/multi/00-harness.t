#!/usr/bin/perl
# 00-harness.t - the harness itself: does it fail when it should, and leave nothing behind?
#
# Each case is a test script of its own, run as prove would, against small sh programs.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;
use Time::HiRes qw(time);

my $dir = tempdir('dmi-harness-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $serial = 0;

# A program for the inner tests: a shell script with this text.
sub program {
  my ($name, $text) = @_;
  open my $file, '>', "$dir/$name" or die;
  print $file "#!/bin/sh\n$text";
  close $file or die;
  chmod 0755, "$dir/$name";
  return "$dir/$name";
}

# Runs an inner test with this body; returns (passed, its output, seconds).
sub inner {
  my ($body, $options) = @_;
  my $script = "$dir/inner" . ++$serial . '.pl';
  $options //= 'timeout => 100, wait => 50';
  open my $file, '>', $script or die;
  print $file "use strict; use warnings; use Time::HiRes;\n",
    "use lib '$FindBin::Bin/lib'; use DMITest;\n",
    "my \$dir = '$dir'; my \$t = DMITest->new($options);\n$body\n";
  close $file or die;
  my $started = time;
  my $output = `$^X $script 2>&1`;
  return ($? == 0, $output, time - $started);
}

sub passes {
  my ($name, @test) = @_;
  my ($passed, $output) = inner(@test);
  ok($passed, "passes: $name") or diag($output);
  return $output;
}

# `texts` must all be in the output, so that it fails for the reason meant.
sub fails {
  my ($name, $texts, @test) = @_;
  my ($passed, $output, $seconds) = inner(@test);
  my @missing = grep { $output !~ $_ } qr/^not ok/m, @$texts;
  ok(!$passed && !@missing, "fails: $name")
    or diag($passed ? 'it passed' : "no match of @missing", "\n", $output);
  return wantarray ? ($output, $seconds) : $output;
}

sub gone {
  my ($pid, $name) = @_;
  ok(defined $pid && $pid > 1 && !kill(0, $pid), $name) or diag($pid // 'no pid');
}

my $talk = program('talk', 'echo "to out $1"; echo "to err $2" >&2; exit ${3:-0}');
my $stay = program('stay', <<'END');
trap 'echo leaving; exit 0' INT
echo '{"event":"listening","port":4711}' > /dev/fd/$DMI_EVENT_FD
echo '{"event":"initialized"}' > /dev/fd/$DMI_EVENT_FD
echo '=== initialized ===' >&2
echo "pid $$ listen=$DMI_LISTEN_PORT join=$DMI_JOIN_HOST:$DMI_JOIN_PORT"
while :; do sleep 0.1; done
END
my $crash = program('crash', 'echo about to crash; kill -SEGV $$');
my $stubborn = program('stubborn', <<'END');
trap '' INT TERM
echo "pid $$"
while :; do sleep 0.1; done
END

# ---- What must pass ----------------------------------------------------------------------------

passes('both streams, apart, and the status', <<'END');
my $p = $t->start("$dir/talk", args => ['one', 'two', 3]);
is(scalar $p->expect_out(qr/to out \w+/), 'to out one');
my ($what) = $p->expect_err(qr/to err (\w+)/);
is($what, 'two');
$p->wait_exit(3);
unlike($p->out, qr/err/);
unlike($p->err, qr/out/);
$t->done;
END

passes('port, joining, signals', <<'END');
my $a = $t->start("$dir/stay", name => 'a');
my $b = $t->start("$dir/stay", join => $a, opts => [-s => '1M'], name => 'b');
is($a->port, 4711);
$a->expect_out(qr/listen=0 join=:$/m);
$b->expect_out(qr/listen=0 join=127\.0\.0\.1:4711$/m);
ok($_->running) for $a, $b;
for ($b, $a) { $_->signal('INT'); $_->expect_out(qr/leaving/); $_->wait_exit }
ok(!$a->running);
$t->done;
END

passes('a death that was meant', <<'END');
my $a = $t->start("$dir/stay");
$a->ready;
$a->signal('KILL');
$a->wait_exit(signal => 'KILL');
my $b = $t->start("$dir/crash");
$b->wait_exit(signal => 'SEGV');
$t->done;
END

passes('a number that arrives in two pieces', <<'END');
my $p = $t->spawn(['/bin/sh', '-c', 'printf "port 12"; sleep 0.5; echo 34']);
is(scalar $p->expect_out(qr/port (\d+)/), 1234);
$p->wait_exit;
$t->done;
END

passes('text without a newline', <<'END');
my $p = $t->spawn(['/bin/sh', '-c',
  'printf "welcome 0!"; trap "exit 0" TERM; while :; do sleep 0.1; done']);
$p->expect_out(qr/welcome 0!/);
$p->signal('TERM');
$p->wait_exit;
$t->done;
END

passes('a lot of output', <<'END');
my $p = $t->spawn([$^X, '-e',
  'for (1 .. 20000) { print "line $_\n" } print STDERR "x" x 1e6, "\n"']);
$p->wait_exit;
is(($p->out =~ tr/\n//), 20000);
is(length $p->err, 1e6 + 1);
$t->done;
END

passes('compiling a DMI program', <<'END');
open my $c, '>', "$dir/tiny.c" or die;
print $c "#include \"dmi_api.h\"\n",
  "void DMI_main(int argc, char **argv) { printf(\"%d %s\\n\", argc, argv[1]); }\n";
close $c;
my $program = $t->compile("$dir/tiny.c", flags => ["-DNAME_$$"]);
ok(-x $program);
my $made = (Time::HiRes::stat($program))[10];
is($t->compile("$dir/tiny.c", flags => ["-DNAME_$$"]), $program);
is((Time::HiRes::stat($program))[10], $made, 'not compiled twice');
unlink $program;
$t->done;
END

# ---- What must fail ----------------------------------------------------------------------------

{
  my ($output, $seconds) = fails('text that never comes', [qr/stdout shows .*nonsense/],
    <<'END', 'timeout => 200, wait => 200');
my $a = $t->start("$dir/stay", name => 'alice');
my $b = $t->start("$dir/talk", name => 'bob', args => ['hello', 'grumble']);
$_->expect_err(qr/./) for $a, $b;
$b->wait_exit;
$a->expect_out(qr/pid \d+/);
$a->expect_out(qr/nonsense/, 1);
$t->done;
END
  cmp_ok($seconds, '<', 100, 'within its time');
  like($output, qr/alice +out\| pid \d+/, 'shows stdout of the one');
  like($output, qr/alice +err\| === initialized ===/, 'and its stderr');
  like($output, qr/bob +out\| to out hello/, 'and the other');
  like($output, qr/bob +err\| to err grumble/, 'and its stderr');
  gone($output =~ /out\| pid (\d+)/, 'nothing left behind');
}
{
  my (undef, $seconds) = fails('it ends before the text comes', [qr/it has ended/],
    <<'END', 'timeout => 200, wait => 200');
$t->start("$dir/talk")->expect_out(qr/nonsense/);
$t->done;
END
  cmp_ok($seconds, '<', 100, 'without waiting for the deadline');
}
{
  my ($output, $seconds) = fails('a hang, by the hard timeout', [qr/the test is over within 1 s/],
    <<'END', 'timeout => 200, wait => 200');
my $p = $t->start("$dir/stubborn");
$p->expect_out(qr/pid \d+/);
# Only now: a busy machine takes its time until then.
$t->{timeout} = 1;
Time::HiRes::alarm(1);
$p->signal('INT');
$p->wait_exit;
$t->done;
END
  cmp_ok($seconds, '<', 100, 'within its time');
  gone($output =~ /out\| pid (\d+)/, 'and even a stubborn process is gone');
}
fails('a hang of the test script itself', [qr/the test is over within 1 s/],
  '$t->start("$dir/stay"); 1 while 1;', 'timeout => 1 / ($ENV{DMI_TEST_SLOW} || 1)');
fails('a crash that a wait sees', [qr/it died of SIGSEGV/, qr/out\| about to crash/], <<'END');
$t->start("$dir/crash")->wait_exit;
$t->done;
END
fails('a crash that nobody looks at', [qr/p1 died of SIGSEGV/, qr/out\| about to crash/], <<'END');
my $p = $t->start("$dir/crash");
$t->wait_until(sub { !$p->running }, 'end');
$t->done;
END
fails('another signal than the one meant', [qr/it died of SIGSEGV/], <<'END');
$t->start("$dir/crash")->wait_exit(signal => 'KILL');
$t->done;
END
fails('a survivor of a signal', [qr/it ended with status 0/], <<'END');
my $p = $t->start("$dir/stay");
$p->ready;
$p->signal('INT', dies => 1);
$p->wait_exit(signal => 'INT');
$t->done;
END
fails('a wrong exit status', [qr/it ended with status 4/, qr/to out a/], <<'END');
$t->start("$dir/talk", args => ['a', 'b', 4])->wait_exit(3);
$t->done;
END
fails('an exit status that nobody looks at', [qr/p1 ended with status 4/], <<'END');
my $p = $t->start("$dir/talk", args => ['a', 'b', 4]);
$p->expect_out(qr/to out/);
$t->wait_until(sub { !$p->running }, 'end');
$t->done;
END
{
  my $output = fails('a process that still runs at the end', [qr/p1 still runs/], <<'END');
$t->start("$dir/stay")->expect_out(qr/pid \d+/);
$t->done;
END
  gone($output =~ /out\| pid (\d+)/, 'and it is gone');
}
{
  my $output = fails('a script that dies', [qr/something else/, qr/out\| pid/], <<'END');
ok(0, 'first');
$t->start("$dir/stay")->expect_out(qr/pid \d+/);
die "something else\n";
END
  gone($output =~ /out\| pid (\d+)/, 'and its process is gone');
}
fails('a check of the script itself', [qr/out\| to out hello/], <<'END');
$t->start("$dir/talk", args => ['hello'])->wait_exit;
is(1, 2);
$t->done;
END
for my $text ('==1==ERROR: AddressSanitizer: heap-use-after-free',
  'WARNING: ThreadSanitizer: data race', 'a.c:3:5: runtime error: signed integer overflow',
  '==1==ERROR: LeakSanitizer: detected memory leaks') {
  for my $stream (1, 2) {
    fails("'$text' on " . ('', 'stdout', 'stderr')[$stream], [qr/p1: \Q$text/], <<"END");
my \$p = \$t->spawn(['/bin/sh', '-c', 'echo "\$0" >&$stream; printf "bye"', '$text']);
\$p->wait_exit(0);
\$t->done;
END
  }
}
fails('a sanitizer in a last line without newline', [qr/p1: runtime error: x/], <<'END');
$t->spawn(['/usr/bin/printf', 'runtime error: x'])->wait_exit(0);
$t->done;
END
fails('a program that is not there', [qr/no such program/], <<'END');
$t->start("$dir/nosuch")->ready;
$t->done;
END
fails('no port', [qr/tells its port/], <<'END');
$t->spawn(['/bin/sh', '-c', 'echo "=== initialized ===" >&2'])->port;
$t->done;
END
fails('a program that does not compile', [qr/compiles/, qr/error:.*nonsense/], <<'END');
open my $c, '>', "$dir/wrong.c" or die;
print $c "#include \"dmi_api.h\"\nvoid DMI_main(int argc, char **argv) { argc = nonsense; }\n";
close $c;
$t->compile("$dir/wrong.c");
$t->done;
END

# A build with a sanitizer really finds the fault that the sanitizer is for.
my %faulty = (
  address => ['char *p = malloc(8); free(p); printf("%d\\n", p[argc]);', 'AddressSanitizer'],
  undefined => ['int x = 2147483647; printf("%d\\n", x + argc);', 'runtime error:'],
  thread => ['pthread_t one; pthread_create(&one, NULL, count, NULL); counter++; '
    . 'pthread_join(one, NULL); printf("%d\\n", counter);', 'ThreadSanitizer'],
);
my $build = $ENV{DMI_BUILD_DIR} // '.';
my $shown = `$build/bin/dmicc --dmi-show x.c`;
for my $sanitizer (sort keys %faulty) {
  SKIP: {
    skip "not built with $sanitizer", 1 unless $shown =~ /-fsanitize=\S*\b$sanitizer\b/;
    my ($code, $words) = @{ $faulty{$sanitizer} };
    open my $file, '>', "$dir/$sanitizer.c" or die;
    print $file "#include \"dmi_api.h\"\n#include <pthread.h>\nint counter;\n",
      "void *count(void *x) { counter++; return x; }\n",
      "void DMI_main(int argc, char **argv) { (void)argv; $code }\n";
    close $file or die;
    fails("a fault for the $sanitizer sanitizer", [qr/$words/], <<"END");
my \$program = \$t->compile("\$dir/$sanitizer.c");
my \$p = \$t->start(\$program);
\$t->wait_until(sub { !\$p->running }, 'end');
unlink \$program;
\$t->done;
END
  }
}

{
  my ($passed, $output) = inner('exit 0;');
  ok(!$passed, 'fails: a script that forgets $t->done') or diag($output);
}

done_testing();
