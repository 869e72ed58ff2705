#!/usr/bin/perl
# manpages.t - every public function, and every launcher, has a good man page.
#
# The pages are those of the build directory.  Where groff, man or mandoc are installed, each must
# format without a warning.  The last part shows that a function without a comment is noticed.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $build = $ENV{DMI_BUILD_DIR} // '.';
my $top = "$FindBin::Bin/../..";
my $man = "$build/man";
my $dir = tempdir('dmi-man-XXXXXX', TMPDIR => 1, CLEANUP => 1);

sub content {
  my ($path) = @_;
  open my $file, '<', $path or return '';
  local $/;
  return <$file> // '';
}

sub installed { my ($name) = @_; return grep { -x "$_/$name" } split /:/, $ENV{PATH} }

# ---- Which pages there are ---------------------------------------------------------------------

# Those in Japanese: ja.t.
my @list = grep { !m{^ja/} } split /\n/, content("$man/list");
ok(scalar @list, 'the build made man pages');
my %page = map { $_ => content("$man/$_") } @list;

# What a program can call, found without mkman: the names before a parenthesis in the headers,
# comments and directives left out, and what the library exports.
my %public;
for my $path (glob "$top/include/*.h") {
  my $text = content($path) =~ s{/\*.*?\*/}{}gsr =~ s/^\s*#.*//mgr;
  $public{$_} = 1 for $text =~ /\b((?:DMI|my)_\w+)\s*\(/g;
}
for (`nm -D --defined-only $build/.libs/libdmi.so`) {
  $public{$1} = 1 if /^[0-9a-f]+ T ((?:DMI|my)_\w+)(?:@|$)/;
}
ok($public{DMI_mmap} && $public{DMI_main} && $public{my_malloc}, 'public names were found');
is_deeply([grep { !defined $page{"man3/$_.3"} } sort keys %public], [], 'each function has a page');
is_deeply([grep { m{^man3/(.*)\.3$} && !$public{$1} } @list], [], 'no page is about anything else');
for my $launcher (glob "$top/bin/*.in") {
  my ($name) = $launcher =~ m{([^/]+)\.in$};
  ok(defined $page{"man1/$name.1"}, "$name has a page");
}
ok(defined $page{'man7/dmi.7'}, 'there is dmi(7)');

# ---- What is in them ---------------------------------------------------------------------------

# The text of a section, formatting taken out.
sub section {
  my ($text, $title) = @_;
  my ($body) = $text =~ /^\.SH "?\Q$title\E"?\n(.*?)(?=^\.SH |\z)/ms;
  return '' unless defined $body;
  $body =~ s/^[.'].*\n//mg;
  $body =~ s/\\f.|\\&//g;
  return $body;
}

my (%bad, $pages);
for my $name (@list) {
  my $text = $page{$name};
  if (my ($target) = $text =~ /^\.so (.*)$/) {
    my ($function) = $name =~ m{/(\w+)\.};
    $bad{alias}{$name} = 1 unless section($page{$target} // '', 'NAME') =~ /\b$function\b/;
    next;
  }
  $pages++;
  my ($function) = $name =~ m{/(\w+)\.};
  $bad{NAME}{$name} = 1 unless section($text, 'NAME') =~ /^(?:\w+, )*\Q$function\E\b.* \\?- \S.{8,}/m;
  $bad{SYNOPSIS}{$name} = 1 unless section($text, 'SYNOPSIS') =~ /\b$function\b|dmicc/;
  my @words = section($text, 'DESCRIPTION') =~ /[A-Za-z]{2,}/g;
  $bad{DESCRIPTION}{$name} = 1 unless @words >= 5;
  $bad{'SEE ALSO'}{$name} = 1 unless section($text, 'SEE ALSO') =~ /\(\d\)/;
  next unless $name =~ /^man3/;
  $bad{include}{$name} = 1 unless section($text, 'SYNOPSIS') =~ /#include "dmi_\w+\.h"/;
}
cmp_ok($pages, '>', 20, "$pages pages were looked into");
is_deeply([sort keys %{ $bad{$_} // {} }], [], "every page: $_ is as it should be")
  for qw(alias NAME SYNOPSIS DESCRIPTION include), 'SEE ALSO';

# Types are shown without what is private, and with the constants that they may be.
my $farm = section($page{'man3/DMI_farm_run.3'}, 'SYNOPSIS');
is_deeply([grep { $farm !~ /\b$_\b/ } qw(tasks result_size job_size retries event_arg failed dmi_id)],
  [], 'DMI_farm_run(3) shows what it is given, and what it tells');
unlike($farm, qr/dmi_private/, 'but not what is private');
my $reduce = $page{'man3/DMI_local_barrier_allreduce_op.3'} =~ s/\\(?:f.|s-?\d|&)//gr;
is_deeply([grep { $reduce !~ /^\.IP "?$_\b/m } qw(DMI_OP_SUM DMI_OP_MIN DMI_OP_BXOR DMI_TYPE_INT32
  DMI_TYPE_FLOAT DMI_TYPE_DOUBLE)], [], 'DMI_local_barrier_allreduce_op(3) lists what it can do');

# What --help says is what the page says.
for my $name ('dmifarm', map { m{([^/]+)\.in$} } glob "$top/bin/*.in") {
  my $help = `$build/bin/$name --help`;
  my @options = $help =~ /^ +(--?[\w-]+)/mg;
  my $text = section($page{"man1/$name.1"}, 'OPTIONS') =~ s/\\-/-/gr;
  my $items = $page{"man1/$name.1"} =~ s/\\-/-/gr =~ s/\\f.//gr;
  ok(@options >= 3, "$name --help lists options");
  is_deeply([grep { $items !~ /^\.IP "?\Q$_\E[ ",]/m } @options], [], "$name(1) has all of them");
}

# dmi(7) knows every function, error and variable of the environment.
my $overview = $page{'man7/dmi.7'} =~ s/\\f.|\\&//gr;
is_deeply([grep { $overview !~ /\b$_\b/ } sort keys %public], [], 'dmi(7) lists each function');
my @errors = map { /^#define (DMI_E[A-Z]+) /mg } map { content($_) } glob "$top/include/*.h";
is_deeply([grep { $overview !~ /\b$_\b/ } @errors], [], 'dmi(7) lists each error');
my @variables = content("$top/lib/node/option_table.h") =~ /^  OPTION\(\w+, (DMI_[A-Z_]+)/mg;
ok(@variables >= 4, 'variables of the environment were found');
is_deeply([grep { $overview !~ /\b$_\b/ } @variables], [], 'dmi(7) lists each variable');

# ---- What formatters say -----------------------------------------------------------------------

# An alias alone would not be formatted from the directory it lies in.
my @whole = map { "$man/$_" } grep { $page{$_} !~ /^\.so / } @list;
my %formatter = (
  groff => "groff -man -Tutf8 -ww -z @whole 2>&1",
  man => "MANWIDTH=80 man --warnings=w -l @whole 2>&1 > $dir/out",
  mandoc => "mandoc -T lint -W warning @whole 2>&1");
for my $tool (sort keys %formatter) {
  SKIP: {
    skip "$tool is not installed", 1 unless installed($tool);
    is_deeply([`$formatter{$tool}`], [], "$tool has nothing to say about " . @whole . ' pages');
  }
}
SKIP: {
  skip 'groff is not installed', 2 unless installed('groff');
  my $text = `groff -man -Tascii -rLL=78n -P-cbou @whole 2>&1`;
  is_deeply([$text =~ /^.{81,}$/mg], [], 'no line is wider than a terminal of 80 columns');
  open my $file, '>', "$dir/bad.3" or die "bad.3: $!";
  print $file ".TH x 3\n.SH NAME\n.nosuchmacro\n";
  close $file;
  like(`groff -man -Tutf8 -ww -z $dir/bad.3 2>&1`, qr/nosuchmacro/, 'a mistake would be noticed');
}

# ---- That it can fail --------------------------------------------------------------------------

sub check_of {
  my ($header) = @_;
  mkdir "$dir/$_" for qw(include docs bin);
  open my $file, '>', "$dir/include/dmi_api.h" or die "dmi_api.h: $!";
  print $file $header;
  close $file;
  for my $other (grep { !/dmi_api/ } glob "$top/include/*.h") { # its comments name what these have
    my ($name) = $other =~ m{([^/]+)$};
    open $file, '>', "$dir/include/$name" or die "$name: $!";
    print $file content($other);
    close $file;
  }
  my $said = `$^X $top/docs/mkman --check $dir $dir/out.d 2>&1`;
  return ($? >> 8, $said);
}

my $header = content("$top/include/dmi_api.h");
my ($status, $said) = check_of($header);
is("$status $said", '0 ', 'all comments are good enough');
my ($before, $after) = $header =~ /^(.*?\n\n)((?:\/\*(?:(?!\*\/).)*\*\/\n)?int32_t DMI_rank.*)$/s;
for (['', qr/DMI_nothing has no comment/, 'a function without a comment'],
     ["/* Short. */\n", qr/DMI_nothing: its comment is too short/, 'an empty phrase'],
     ["/* Does as DMI_nowhere does, and more. */\n", qr/names DMI_nowhere/, 'a wrong name'],
     ["/* Does a thing or two, or fails. DMI_EWRONG. */\n", qr/no such error: DMI_EWRONG/,
      'a wrong error']) {
  my ($comment, $expected, $what) = @$_;
  ($status, $said) = check_of("$before${comment}int32_t DMI_nothing(int32_t a);\n\n$after");
  ok($status == 1 && $said =~ $expected, "$what is noticed") or diag($said);
}
done_testing();
