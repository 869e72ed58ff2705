#!/usr/bin/perl
# cxx.t - C++: dmi.hpp does what it says with g++ and clang++, with exceptions and with codes, and
# without a warning; what cannot be right does not compile, and says why; an exception that nobody
# catches is reported, and ends what it says; the examples in C++ compute what those in C do.
# Takes long: compilers of C++ do.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 280, wait => 100);
my ($dir, $build, $top) = ($t->dir, $t->build, $t->top);
my $small = $t->scale eq 'small';
my $here = "$top/test/multi";
my $strict = '-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror';

# Runs a shell command; returns its exit status and all that it printed.
sub run {
  my ($command) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  my $out = `cd $dir && { $command ; } 2>&1`;
  return ($? >> 8, $out);
}

sub save {
  my ($name, $text) = @_;
  open my $file, '>', "$dir/$name" or die "$name: $!";
  print $file $text;
  close $file or die;
}

sub content {
  my ($path) = @_;
  open my $file, '<:raw', $path or return '';
  local $/;
  return scalar <$file>;
}

unless ((run('command -v g++'))[0] == 0) {
  plan(skip_all => 'no g++ here');
  exit 0;
}
my @compilers = grep { (run("command -v $_"))[0] == 0 } qw(g++ clang++);
# What gcc has instrumented clang cannot link.
my ($links_all) = map { !/-fsanitize/ } (run("$build/bin/dmicxx --dmi-show x.cc"))[1];

# ---- All of it ---------------------------------------------------------------------------------

sub works {
  my ($cxx, $flags) = @_;
  my $what = "$cxx $flags";
  my $mode = $cxx ne 'g++' && !$links_all ? '-c' : '';
  my ($status, $out) = run("CXX=$cxx $build/bin/dmicxx $strict $flags $mode $here/cxx_dmi.cc -o whole");
  is($out, '', "$what: no warning");
  is($status, 0, "$what: compiles") or return;
  return if $mode;
  my @opts = (opts => ['-s', '48M']);
  my $first = $t->start("$dir/whole", name => "$what first", @opts);
  my $second = $t->start("$dir/whole", join => $first, name => "$what second", @opts);
  my ($checks, $wrong) = $first->expect_out(qr/^(\d+) checks, (\d+) wrong$/m);
  cmp_ok($checks, '>', 60, "$what: $checks checks");
  is($wrong, 0, "$what: all are right") or diag($first->out);
  $_->wait_exit(0) for $first, $second;
}
# In the small form, which is for sanitizers, only what runs there.
works($_, '') for $small && !$links_all ? 'g++' : @compilers;
works('g++', '-DDMI_NO_EXCEPTIONS -O2');
works($compilers[-1], '-fno-exceptions -std=c++20') unless $small && !$links_all;

# Files of one program may differ in it.
save('one.cc', "#include \"dmi.hpp\"\nint64_t other();\n"
  . "void DMI_main(int, char **) { dmi::object<int64_t> o(40); o.fetch_add(2); printf(\"%d %d\\n\", (int)o.load(), (int)other()); }\n");
save('two.cc', "#define DMI_NO_EXCEPTIONS\n#include \"dmi.hpp\"\nint64_t other();\n"
  . "int64_t other() { dmi::object<int64_t> o(7); return o.load().value(); }\n");
my ($status, $out) = run("$build/bin/dmicxx $strict one.cc two.cc -o both && $build/bin/dmirun -l 0 ./both 2> /dev/null");
is($out, "42 7\n", 'a program of files with exceptions and without');

# Lines about calls name the line of the program, not one of dmi.hpp, without optimization, too.
save('lines.cc', "#include \"dmi.hpp\"\nvoid DMI_main(int, char **) {\n  try {\n    dmi::ptr<int64_t>(8).fetch_add(1);\n  } catch (const dmi::error &) {\n  }\n"
  . "  try {\n    (void)dmi::ptr<int64_t>(8).load_async();\n  } catch (const dmi::error &) {\n  }\n  try {\n    dmi::view<const int64_t>(dmi::ptr<const int64_t>(8), 1).read();\n  } catch (const dmi::error &) {\n  }\n"
  . "  try {\n    dmi::mutex mutex(dmi::ptr<DMI_mutex_t>(8));\n    std::lock_guard<dmi::mutex> lock(mutex);\n  } catch (const dmi::error &) {\n  }\n}\n");
for my $how ('-O0', '-O2') {
  ($status, $out) = run("$build/bin/dmicxx $strict -g $how lines.cc -o lines && $build/bin/dmirun -l 0 --on-error print ./lines");
  is(join(' ', $out =~ /^dmi: .*?(\w+\.\w+:\d+) \(.*: (DMI_\w+)\(0x8,/mg), 'lines.cc:4 DMI_fad lines.cc:8 DMI_read lines.cc:12 DMI_read lines.cc:17 DMI_mutex_lock', "$how: lines of the program") or diag($out);
}

# ---- What is refused ---------------------------------------------------------------------------

my %refused = (
  'dmi::ptr<std::string>(8).load();'                        => qr/must be trivially copyable/,
  'dmi::array<std::vector<int>> a(1, dmi::elements(1));'    => qr/must be trivially copyable/,
  'dmi::ptr<char *>(8).load();'                             => qr/a pointer means nothing in another process/,
  'dmi::array<job> a(10, dmi::page<4096>());'               => qr/a page must hold whole elements/,
  'dmi::array<job> a(10, dmi::page<8>());'                  => qr/a page must hold whole elements/,
  'dmi::ptr<int>(8).fetch_add(1);'                          => qr/fetch_add adds to integers of 8 bytes/,
  'padded p{}; dmi::ptr<padded>(8).compare_exchange(p, {});' => qr/compares bytes, but this type has padding/,
  'dmi::ptr<int>(8).compare_exchange(3, 4);'                => qr/compare_exchange/,
  'dmi::array<int> a; a[2].store(1), dmi::view<int>(dmi::view<const int>(a));' => qr/no matching/,
  'dmi::ptr<const int>(8).store(1);'                        => qr/this pointer is to const/,
  'dmi::ptr<job>(8).member(&padded::c);'                    => qr/this is no member of the type/,
  'dmi::ptr<job>(8).load(dmi::put);'                        => qr/put_t/,
  'dmi::ptr<job>(8).store({}, dmi::invalidate);'            => qr/read_mode/,
  'dmi::ptr<job> p = dmi::ptr<padded>(8);'                  => qr/conversion/,
  'int k = 1; dmi::parallel_for(9, [k](int64_t i) { return i + k; });' => qr/must be a lambda without captures/,
  'dmi::client c; int k = 1; c.call([k] { return k; });'    => qr/must be a lambda without captures/,
  'dmi::client c; c.call([](int x) { return x; });'         => qr/another number of arguments than the lambda has/,
  'dmi::client c; std::string s; c.call([](std::string x) { return (int)x.size(); }, s);' =>
    qr/an argument by value must be trivially copyable/,
  'dmi::client c; dmi::data<int> d; c.call([](dmi::in<double>) {}, d);' => qr/data<int>/,
  'dmi::barrier b(dmi::ptr<DMI_barrier_t>(8)); b.reduce(\'x\', DMI_OP_SUM, 1);' => qr/a barrier combines int32_t/,
);
# A compiler that refuses does the same in each build.  The header is read once for all of them, if the
# compiler can: what lies beside a file comes first.
mkdir "$dir/refused" or die "$dir/refused: $!";
save('refused/all.hpp', "#include \"$top/include/dmi.hpp\"\n");
run("cd refused && $build/bin/dmicxx -x c++-header -c all.hpp -o dmi.hpp.gch") unless $small;
for my $line ($small ? () : sort keys %refused) {
  save('refused/bad.cc', "#include \"dmi.hpp\"\nstruct job { int32_t a, b, c; };\nstruct padded { char c; int64_t n; };\n"
    . "void DMI_main(int, char **) {\n  $line\n}\n");
  ($status, $out) = run("cd refused && $build/bin/dmicxx -fsyntax-only bad.cc");
  ok($status != 0 && $out =~ $refused{$line}, "refused: $line") or diag($out);
}
($status, $out) = run("echo '#include \"dmi.hpp\"' > old.cc; $build/bin/dmicxx -std=c++14 -fsyntax-only old.cc");
ok($status != 0 && $out =~ /needs C\+\+17: dmicxx asks for it/, 'an old standard is refused');

# ---- A mutex whose holder is lost --------------------------------------------------------------

save('mends.cc', <<'END');
#include "dmi.hpp"
#include <unistd.h>
struct shared { int64_t half; DMI_mutex_t mutex; };
int64_t DMI_thread(int64_t address) {
  const dmi::ptr<shared> at(address);
  dmi::mutex mutex(at.member(&shared::mutex));
  mutex.lock();
  (void)at.member(&shared::half).store(1);
  puts("holds"), fflush(stdout);
  for (;;) pause();
}
static const char *acquired(dmi::mutex &mutex) {
#ifdef DMI_NO_EXCEPTIONS
  return DMI_strerrorname(mutex.acquire().error());
#else
  try { mutex.lock(); } catch (const dmi::error &known) { return DMI_strerrorname(known.code()); }
  return "DMI_OK";
#endif
}
void DMI_main(int, char **) {
  dmi::object<shared> all;
  dmi::mutex mutex(all.member(&shared::mutex));
  const auto half = all.member(&shared::half);
  DMI_node_t node;
  int32_t other = 0, mended = 0;
  for (int i = 0; i < 2 && DMI_poll(&node); i++) DMI_welcome(other = node.dmi_id);
  (void)dmi::thread::create(other, dmi::ptr<shared>(all));
  while (DMI_poll(&node) && node.state != DMI_LOST) continue;
  for (int i = 0; i < 2; i++) puts(acquired(mutex));   /* as long as nobody has mended it */
  for (int i = 0; i < 2; i++) {
    (void)mutex.lock_mending([&] { mended++, (void)half.store(2); });
    mutex.unlock();
  }
  puts(acquired(mutex));
  mutex.unlock();
  int64_t left = 0;
  (void)half.load_to(&left, 1);
  printf("mended %d times, %d\n", mended, (int)left);
}
END
for my $flags ('', '-DDMI_NO_EXCEPTIONS') {
  ($status, $out) = run("$build/bin/dmicxx -O1 $strict $flags mends.cc -o mends");
  is($out, '', "mends.cc $flags compiles");
  my @opts = (opts => ['--survive']);
  my $stays = $t->start("$dir/mends", name => 'stays', @opts);
  my $lost = $t->start("$dir/mends", join => $stays, name => 'lost', @opts);
  $lost->expect_out(qr/^holds$/m);
  $lost->kill_now;
  $lost->wait_exit(signal => 'KILL');
  $stays->wait_exit(0);
  is($stays->out, "DMI_EOWNERDEAD\nDMI_EOWNERDEAD\nDMI_OK\nmended 1 times, 2\n", "lock_mending mends once $flags");
}

# ---- Exceptions that nobody catches ------------------------------------------------------------

save('throws.cc', <<'END');
#include "dmi.hpp"
struct of_mine {};
static void deeper(int what) {
  if (what == 1) throw std::out_of_range("too far");
  if (what == 2) throw of_mine();
  if (what == 3) dmi::ptr<int>(8).load();
}
struct leaving {
  ~leaving() { puts("unwound"), fflush(stdout); }
};
int64_t DMI_thread(int64_t what) {
  leaving at_the_end;
  try { deeper(4), throw 1; } catch (int) {}   /* these are nobody else's business */
  deeper((int)what);
  return what;
}
void DMI_main(int, char **argv) {
  for (int i = 0; i < 2; i++) dmi::welcome(dmi::poll().dmi_id);
  for (int what = 0; what < 4; what++) {
    const int64_t value = dmi::thread::create(1, what).join();
    printf("%d: %s\n", what, value == dmi::uncaught ? "uncaught" : "returned"), fflush(stdout);
  }
  const auto passes = dmi::parallel_for(3, [](int64_t i) { deeper(i == 2 ? 1 : 0); return i; });
  printf("%d failed, status %d\n", (int)passes.failed(), passes.status(2)), fflush(stdout);
  try { (void)passes[2]; } catch (const dmi::error &known) { printf("%s\n", known.what()); }
  deeper(argv[1][0] - '0');
}
END
($status, $out) = run("$build/bin/dmicxx -g -O1 $strict throws.cc -o throws");
is($out, '', 'throws.cc compiles');
my $first = $t->start("$dir/throws", args => [1], name => 'throws first');
my $second = $t->start("$dir/throws", join => $first, name => 'throws second');
$_->wait_exit(1) for $first, $second;
my $host = (POSIX::uname())[1];
like($first->out, qr/^0: returned\n1: uncaught\n2: uncaught\n3: uncaught$/m, 'DMI_join gives dmi::uncaught');
is(() = $second->out =~ /^unwound$/mg, 4, 'destructors run');
like($first->out, qr/^1 failed, status -1\n.*DMI_EREMOTE: pass 2, and the process that did it has printed/m,
  'a pass that throws has failed');
like($second->err, qr/^dmi: \Q$host\E: thread [^\n:]+ of process 1: DMI_thread threw an exception that nothing caught: std::out_of_range: too far$/m,
  'a thread: host, process, exception');
like($second->err, qr/too far\ndmi:   throws\.cc:4 [^\n]*\bdeeper\b.*?\bDMI_thread\b/s,
  'and from where, the innermost first') if (run('ldconfig -p'))[1] =~ /libdw\.so\.1/;
unlike($_->err, qr/^dmi:   (?:\w+\.hpp:|.* \(main\)$|.*\bdmi_farm_thread\b)/m, $_->name . ': no functions of dmi.hpp, nor of DMI') for $first, $second;
like($second->err, qr/: of_mine$/m, 'one that is no std::exception');
like($second->err, qr/ nothing caught: dmi::error: [^\n]*DMI_EADDR/m, 'an error of DMI has the name that programs use');
unlike($second->err, qr/nothing caught: int/, 'those that are caught are not reported');
like($first->err . $second->err, qr/the body of parallel_for threw an exception that nothing caught: std::out_of_range/, 'the body of a loop');
like($first->err, qr/the thread of DMI_main of process 0: DMI_main threw an exception that nothing caught: std::out_of_range: too far$/m,
  'DMI_main');

# ---- The examples ------------------------------------------------------------------------------

# Two processes, of which one leaves and a third comes while it computes.
sub with_guests {
  my ($program, $at_work, @args) = @_;
  my $first = $t->start($program, args => \@args, name => 'first');
  $first->expect_out($at_work);
  my $second = $t->start($program, join => $first, name => 'second');
  $t->wait_until(sub { $second->events('opened') || !$second->running }, 'the second is let in');
  my $third = $t->start($program, join => $first, name => 'third');
  $second->signal('INT') if $second->running;
  # Who comes too late, as all is done, is refused.
  $t->wait_until(sub { $third->events('opened') || !$third->running }, 'the third is let in, or comes too late');
  $t->wait_until(sub { !$_->running }, 'it ends'), $_->wait_exit($_->events('joined') ? 0 : 1) for $second, $third, $first;
  return $first->out;
}

sub alone {
  my ($program, @args) = @_;
  my $process = $t->start($program, args => \@args, name => $program =~ s{.*/}{}r);
  $process->wait_exit(0);
  return $process->out;
}

my @kmeans = ($small ? 20000 : 60000, 8, 16, 1000, 40);
my ($right) = alone("$build/examples/kmeans_dmi", @kmeans) =~ /^(\d+ iterations:).*?(, sum.*)/ms ? "$1$2" : 'none';
like($right, qr/^checksum [0-9a-f]{16}$/m, 'k-means in C');
is(join('', with_guests("$build/examples/kmeans_cxx", qr/^begins/m, @kmeans) =~ /^(\d+ iterations:).*?(, sum.*)/ms), $right,
  'k-means in C++ prints the same, while processes come and go');
like(with_guests("$build/examples/nqueens_cxx", qr/^welcome 0!$/m, $small ? 11 : 13), qr/^1[13] queens: (?:2680|73712) solutions, \d+ tasks/m,
  'n queens in C++');
SKIP: {
  skip('no libpng', 1) unless -x "$build/examples/mandel_cxx";
  my @mandel = (200, 160, 100, $small ? 2000 : 20000);
  alone("$build/examples/mandel_dmi", @mandel, 0);
  my $picture = content('mandelbrot.png');
  unlink 'mandelbrot.png';
  with_guests("$build/examples/mandel_cxx", qr/^welcome 0!$/m, @mandel);
  ok(length $picture > 100 && $picture eq content('mandelbrot.png'), 'the Mandelbrot set in C++ is the same file');
  unlink 'mandelbrot.png';
}
for my $name (qw(kmeans nqueens mandel)) {
  my ($c, $cxx) = map { scalar(() = content($_) =~ /\n/g) } "$top/examples/${name}_dmi.c", "$top/examples/${name}_cxx.cc";
  cmp_ok(2 * $cxx, '<=', $c, "$name: $cxx lines in C++, $c in C");
}
$t->done;
