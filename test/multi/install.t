#!/usr/bin/perl
# install.t - make install, what is installed at work, make uninstall.
#
# Twice: with DESTDIR, as packages are made, the tree then moved elsewhere; and under a prefix of its
# own.  An example is compiled with the installed dmicc (static and shared) and with what pkg-config
# says, and run with the installed dmirun; projects of CMake are configured, built and tested.
# Nothing may be used from the source or build tree: their names must not be in any installed file.
# Not in the small form: what it tests is what is installed.
use strict;
use warnings;
use File::Find ();
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use OxClient;

my $t = DMITest->new(timeout => 150);
my ($dir, $build, $top) = ($t->dir, $t->build, $t->top);

# Runs a shell command; returns what it printed, and fails the test where it fails.
sub run {
  my ($command) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  my $out = `cd $dir && { $command ; } 2>&1`;
  $t->fail_now("$command\n$out") if $? != 0;
  return $out;
}

# Files and links below a directory, by their path there.
sub files {
  my ($root) = @_;
  my @found;
  File::Find::find(
    sub { push @found, $File::Find::name =~ s{^\Q$root\E/}{}r if -l || !-d }, $root) if -d $root;
  return sort @found;
}

sub content {
  my ($path) = @_;
  open my $file, '<', $path or return '';
  local $/;
  return <$file> // '';
}

# A variable of the Makefile, for a prefix.
sub variable {
  my ($name, $prefix) = @_;
  my $make = 'include Makefile\nshow-it:;@echo $(' . $name . ')\n';
  return run("printf '$make' | make -s -C $build -f - show-it prefix=$prefix") =~ s/\n\z//r;
}

# ---- What must be there ------------------------------------------------------------------------

# Is the build or source tree named?  The prefix may be in there (make distcheck).
sub names_tree {
  my ($text, $prefix) = @_;
  $text =~ s/\Q$prefix\E//g;
  return index($text, $build) >= 0 || index($text, "$top/") >= 0;
}

# `real`: where the tree stands; `prefix`: its prefix as it was configured.
sub check_files {
  my ($real, $prefix) = @_;
  my @there = files($real);
  my %there = map { $_ => 1 } @there;
  my ($lib, $start, $doc, $man) =
    map { variable($_, $prefix) =~ s{^\Q$prefix\E/}{}r } qw(libdir startdir docdir mandir);
  my @wanted = (
    'bin/dmicc', 'bin/dmicxx', 'include/dmi.hpp', 'include/dmi/memory.hpp', 'bin/dmirun', 'bin/dmifarm', 'bin/ox_dmi', 'include/dmi_api.h', 'include/dmi_ox.h', "$lib/libdmi.a", "$lib/libdmiox.a", "$lib/libdmi.so",
    "$lib/pkgconfig/dmi.pc", "$lib/pkgconfig/dmiox.pc", "$lib/cmake/DMI/DMIConfig.cmake", "$lib/cmake/DMI/DMIConfigVersion.cmake", "$start/dmi_start.o", "$start/dmi-witness", "$doc/tutorial.md", "$doc/memory-model.md",
    "$doc/ja/tutorial.md", "$man/ja/man7/dmi.7",
    'share/bash-completion/completions/dmirun', 'share/bash-completion/completions/dmimw', "$doc/running.md", "$doc/farm.md", "$man/man1/dmirun.1", "$man/man1/dmicxx.1", "$doc/cxx.md", "$man/man1/dmifarm.1", "$man/man1/ox_dmi.1", "$man/man3/DMI_mmap.3", "$man/man7/dmi.7",
    (-x "$build/bin/dmi-web" ? "$start/dmi-web" : ()), (map { "share/dmi/perl/DMI/Web/page.$_" } qw(html css js)),
    map { "$doc/examples/" . s{.*/}{}r } glob "$top/examples/*.[ch] $top/examples/*.cc");
  is_deeply([grep { !$there{$_} } @wanted], [], 'library, launchers, pages, texts, examples');
  like(readlink("$real/$lib/libdmi.so") // "",, qr/^libdmi\.so\.\d+\.\d+\.\d+$/, 'the library has its versions');
  my @ours = grep { !m{\.(?:a|so[.\d]*|o)$|/dmi-w(?:itness|eb)$|/dmifarm$|/ox_dmi$} } @there;    # compiled files name their sources
  is_deeply([grep { names_tree(content("$real/$_"), $prefix) } @ours], [],
    'no file names the build or source directory');
  check_names($real, map { "$real/$_" } $doc, $man);
  return $lib;
}

# What the installed texts, examples and pages name is installed: texts (NAME.md) and headers, links,
# and whatever is in a directory that the source tree has.
sub check_names {
  my ($real, $doc, $man) = @_;
  my ($count, @missing);
  my @dirs = map { s{.*/}{}r } grep { -d } glob "$top/*";
  my $in_tree = join '|', map { quotemeta } @dirs, 'build';
  for my $file (map({ "$doc/$_" } files($doc)), map { "$man/$_" } files($man)) {
    my $text = content($file) =~ s/\\-/-/gr;
    my @names = $text =~ m{(?<![\w./~-])((?:\.\./)*(?:$in_tree)/[\w./-]*\w|[\w./-]*\w\.(?:md|t|pm|pod))\b}g;
    my $prose = $text =~ s/^```.*?^```$//msgr;    # in a program [](int x) is no link
    push @names, $prose =~ /\]\((?!https?:)([^)#\s]+)/g if $file =~ /\.md$/;
    push @names, $text =~ /`(\w+\.h)`/g, $text =~ /^#include "(.*?)"/mg;
    for my $name (@names) {
      $count++;
      next if grep { -e "$_/$name" } $file =~ s{/[^/]*$}{}r, $doc, "$doc/examples", $real, "$real/include";
      push @missing, $file =~ s{^\Q$real\E/}{}r . ": $name";
    }
  }
  cmp_ok($count, '>', 50, "the installed texts name files ($count times)");
  is(join("\n", @missing), '', 'and all of these are installed');
  return;
}

my $configured = run("sed -n 's/^prefix = //p' $build/Makefile") =~ s/\n//r;

# ---- At work -----------------------------------------------------------------------------------

# Starts a program with the installed dmirun, and a second process that joins it.
sub runs_together {
  my ($real, $program, $what, %env) = @_;
  my $first = $t->spawn(["$real/bin/dmirun", -l => 0, $program], name => "$what, first", env => \%env);
  $first->expect_err(qr/=== opened ===/);
  my $second = $t->spawn(["$real/bin/dmirun", -l => 0, -i => '127.0.0.1', -p => $first->port, $program],
    name => "$what, second", env => \%env);
  $second->expect_err(qr/=== opened ===/);
  $second->signal('INT');
  $second->expect_err(qr/=== left ===/);
  $second->wait_exit(0);
  $first->signal('INT');
  $first->expect_err(qr/=== finalized ===/);
  $first->wait_exit(0);
}

# A program that serves OpenXM clients.
sub serves {
  my ($real, $program, $what, %env) = @_;
  my $server = $t->spawn(["$real/bin/dmirun", -l => 0, '--ox', 0, $program], name => "$what, serves", env => \%env);
  my ($port) = $server->expect_event('serves')->{address} =~ /:(\d+)$/;
  my $client = OxClient->new(control => $port, data => $port);
  is($client->call(twice => zz(21))->pop, '42', "$what: a client's call");
  $client->close;
  $server->signal('INT');
  $server->wait_exit(0);
}

sub check_ox {
  my ($real, $lib, $cc, $ask, $version) = @_;
  my $source = "$top/test/multi/serve_dmi.c";
  run("dmicc -O2 -Wall $source -ldmiox -o served");
  serves($real, "$dir/served", 'dmicc -ldmiox');
  is(run("$ask --modversion dmiox"), "$version\n", 'pkg-config finds libdmiox');
  run("$cc -O2 \$($ask --cflags dmiox dmi) $source -o servedpkg \$($ask --libs dmiox dmi)");
  serves($real, "$dir/servedpkg", 'pkg-config dmiox', LD_LIBRARY_PATH => "$real/$lib");
  # Without DMI: values alone.
  open my $file, '>', "$dir/value.c" or die $!;
  print $file '#include <dmi_ox.h>', "\n", '#include <stdio.h>', "\n", '#include <stdlib.h>', "\n",
    'int main(void) { DMI_ox_value_t *value = DMI_ox_from_digits("4/6");', "\n",
    '  char *text = DMI_ox_to_text(value);', "\n",
    '  puts(text); free(text); DMI_ox_drop(value); return 0; }', "\n";
  close $file;
  run("$cc \$($ask --cflags dmiox) value.c -o value \$($ask --libs dmiox)");
  is(run('./value'), "2/3\n", 'libdmiox without DMI');
  return;
}

# The module for Python, by the installed dmirun.  Python is not instrumented for a sanitizer.
sub check_python {
  my ($real) = @_;
  return if !-e "$build/python/module/dmi/_dmi.so" || variable('DMI_SANITIZER', $configured) ne '';
  open my $file, '>', "$dir/prog.py" or die $!;
  print $file "import dmi\ndef main():\n  next(dmi.notices()).welcome()\n  print(dmi.__file__, dmi.Counter().add())\ndmi.run(main)\n";
  close $file;
  my $python = variable('PYTHON3', $configured);
  local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
  like(run("dmirun -l 0 $python prog.py"), qr{^\Q$real\E/lib/python\S+/dmi/__init__\.py 0$}m, 'the module for Python');
  return;
}

sub has { return system("command -v $_[0] > /dev/null") == 0 }

# C++ by what pkg-config says.
sub check_cxx {
  my ($real, $lib, $ask) = @_;
  my $cxx = variable('CXX', $configured);
  return if !has($cxx);
  my $source = "$top/examples/nqueens_cxx.cc";
  run("$cxx -std=c++17 -Wall -Wextra -Werror \$($ask --cflags dmi) $source -o cxxpkg \$($ask --libs dmi)");
  like(run("LD_LIBRARY_PATH=$real/$lib dmirun -l 0 ./cxxpkg 8"), qr/^8 queens: 92 solutions/m,
    'a program in C++ made with pkg-config');
  return;
}

# Projects of CMake find the package, build, and run their programs by ctest.
sub check_cmake {
  my ($real) = @_;
  return if !has('cmake');
  local @ENV{qw(CC CXX)} = map { variable($_, $configured) } qw(CC CXX);
  my $configure = sub { "cmake -DCMAKE_PREFIX_PATH=$real -S $top/test/install/cmake/$_[0] -B cmake-$_[0]" };
  my $tested = sub { run("cmake --build cmake-$_[0] && cd cmake-$_[0] && ctest --output-on-failure") };
  run($configure->('c') . " -DSERVER=$top/test/multi/serve_dmi.c");
  like($tested->('c'), qr/100% tests passed/, 'find_package(DMI): a project in C');
  my ($static, $shared) = map { run("ldd cmake-c/$_") } qw(sum sum_shared);
  unlike($static, qr/libdmi/, 'DMI::dmi is the static library');
  like($shared, qr{libdmi\.so\.\d+ => \Q$real\E}, 'DMI::dmi_shared the shared one');
  like(run('dmirun -l 0 cmake-c/sum_shared'), qr/the sum is 4950/, 'which works, too');
  serves($real, "$dir/cmake-c/serve", 'DMI::dmiox');
  for my $wanted (99, 0.2, '0.0.1...<0.1') {
    like(run("{ " . $configure->('c') . " '-DWANTED=$wanted' -B refused || :; }"),
      qr/Could not find a configuration file for package "DMI"/, "version $wanted is not found");
  }
  return if !has($ENV{CXX});
  run($configure->('cxx'));
  like($tested->('cxx'), qr/100% tests passed/, 'a project in C++');
  return;
}

sub check_work {
  my ($real, $prefix, $lib) = @_;
  my $doc = variable('docdir', $prefix) =~ s{^\Q$prefix\E}{$real}r;
  my $source = "$doc/examples/joinleave_dmi.c";
  local $ENV{PATH} = "$real/bin:$ENV{PATH}";
  run("dmicc -O2 -Wall $source -o static -lm");
  run("dmicc -O2 -Wall --dmi-shared $source -o shared -lm");
  unlike(run('ldd ./static'), qr/libdmi/, 'dmicc links the static library');
  like(run('ldd ./shared'), qr{libdmi\.so\.\d+ => \S*\Q$real\E}, 'and the shared one that was installed');
  runs_together($real, "$dir/static", 'static');
  runs_together($real, "$dir/shared", 'shared');

  # What a makefile would do.  The tree may stand elsewhere than its prefix says.
  local $ENV{PKG_CONFIG_PATH} = "$real/$lib/pkgconfig";
  my $ask = "pkg-config --define-variable=prefix=$real";
  my ($version) = content("$top/include/dmi_api.h") =~ /DMI_VERSION "(.*?)"/;
  is(run("$ask --modversion dmi"), "$version\n", 'pkg-config finds it, with its version');
  my $cc = variable('CC', $prefix);
  run("$cc -O2 \$($ask --cflags dmi) $source -o bypkg \$($ask --libs dmi) -lm");
  like(run("LD_LIBRARY_PATH=$real/$lib ldd ./bypkg"), qr{libdmi\.so\.\d+ => \Q$real\E},
    'a program made with pkg-config uses the shared library');
  runs_together($real, "$dir/bypkg", 'pkg-config', LD_LIBRARY_PATH => "$real/$lib");
  run("$cc -O2 \$($ask --cflags dmi) $source -o bypkgstatic \$($ask --static --libs dmi | "
    . "sed 's/-ldmi/-l:libdmi.a/') -lm");
  unlike(run('ldd ./bypkgstatic'), qr/libdmi/, 'or, with --static, the static one');
  runs_together($real, "$dir/bypkgstatic", 'pkg-config --static');
  check_ox($real, $lib, $cc, $ask, $version);
  check_cxx($real, $lib, $ask);
  check_cmake($real);
  check_python($real);
}

# ---- Twice -------------------------------------------------------------------------------------

run("make -C $build install DESTDIR=$dir/dest");
rename "$dir/dest$configured", "$dir/moved" or $t->fail_now("DESTDIR has $configured");
is_deeply([files("$dir/dest")], [], 'DESTDIR: nothing is installed outside the prefix');
check_work("$dir/moved", $configured, check_files("$dir/moved", $configured));
my @installed = files("$dir/moved");
rename "$dir/moved", "$dir/dest$configured" or $t->fail_now('the tree goes back');
run("touch $dir/dest$configured/bin/of-somebody-else");
run("make -C $build uninstall DESTDIR=$dir/dest");
is_deeply([files("$dir/dest")], [($configured =~ s{^/}{}r) . '/bin/of-somebody-else'],
  'uninstall leaves nothing of ' . @installed . ' files, and what is not ours');
my @own;
File::Find::find(sub { push @own, $File::Find::name if /dmi/ }, "$dir/dest$configured");
is_deeply(\@own, [], 'and no directory of its own');

# ---- Debian packages ---------------------------------------------------------------------------

# Is each installed file in a package, or listed as being in none?  As dh_missing asks, which nobody
# sees before a package is built.
sub check_packages {
  my @patterns = map { my $text = content($_); $text =~ s/#.*//gr =~ /^(\S+)/mg } glob("$top/debian/*.install"), "$top/debian/not-installed";
  my @missing;
  for my $file (@_) {
    my $path = "usr/$file" =~ s{^usr/lib/(?!python)}{usr/lib/ARCH/}r =~ s{/python3[\d.]*/(?:dist|site)-packages/}{/python3/dist-packages/}r;
    push @missing, $path if !grep { matches($path, $_) } @patterns;
  }
  cmp_ok(scalar @patterns, '>', 20, 'debian/ says where files go');
  is(join("\n", @missing), '', 'and each installed file is in a package');
  return;
}

# Does a pattern of the shell name this path, or a directory above it?
sub matches {
  my ($path, $pattern) = @_;
  my $expression = quotemeta($pattern) =~ s/\\\*/[^\/]*/gr =~ s/\\\[\\!(\w)\\\]/[^$1]/gr;
  return $path =~ m{^$expression(?:/|$)};
}
check_packages(@installed) if $configured eq '/usr/local';

my $own = "$dir/own";
run("make -C $build install prefix=$own");
is_deeply([files($own)], \@installed, 'a prefix of its own: the same files');
my $dmicc = "$own/bin/dmicc";
run("$dmicc -O2 $top/examples/joinleave_dmi.c -o again -lm");
runs_together($own, "$dir/again", 'own prefix');
run("make -C $build uninstall prefix=$own");
is_deeply([glob "$own/*"], [], 'uninstall: the prefix is empty');
$t->done;
