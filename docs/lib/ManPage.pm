# ManPage.pm - makes man pages (through Pod::Man) of what ManHeader found, of a launcher, of a pod.
package ManPage;

use strict;
use warnings;
use ManJapanese qw(join_lines breakable);
use Pod::Man;
use POSIX qw(strftime);
use Text::Wrap qw(wrap);

# new($header, version => text, date => seconds)
sub new {
  my ($class, $header, %opt) = @_;
  my $self = bless { api => $header, %opt, problems => [] }, $class;
  $self->{is_function} = { map { $_ => 1 } $header->function_names };
  $self->{is_constant} = { map { $_->{name} => $_ } $header->constants };
  $self->{page_of} = {};
  for my $group ($header->groups) {
    my @names = map { $_->{name} } @{ $group->{functions} };
    $self->{page_of}{$_} = $names[0] for @names;
  }
  return $self;
}

sub problems { return @{ $_[0]{problems} } }

sub _problem {
  my ($self, $text) = @_;
  push @{ $self->{problems} }, $text unless grep { $_ eq $text } $self->problems;
}

sub _man {
  my ($self, $name, $number, $pod, %opt) = @_;
  my $man = Pod::Man->new(
    %opt, name => $name, section => $number, center => 'DMI', release => "DMI $self->{version}",
    date => strftime('%Y-%m-%d', gmtime $self->{date}), errors => 'die', quotes => 'none');
  my $text = '';
  $man->output_string(\$text);
  $man->parse_string_document("=pod\n\n$pod");
  return $text;
}

# ---- Text to pod -------------------------------------------------------------------------------

sub _escaped { return $_[0] =~ s/([<>])/$1 eq '<' ? 'E<lt>' : 'E<gt>'/ger }

# A line of text: names in bold, arguments in italics.  `page` has the names that need no number.
sub _inline {
  my ($self, $text, $page) = @_;
  my %own = map { $_->{name} => 1 } @{ $page->{functions} // [] };
  my %arg = map { %{ $_->{arg} } } @{ $page->{functions} // [] };
  my $one = sub {
    my ($word) = @_;
    if ($word =~ /^`(.*)`$/) { return exists $arg{$1} ? "I<$1>" : 'B<' . _escaped($1) . '>' }
    my ($star, $name) = $word =~ /^(\*?)(\w+)$/;
    return "${star}I<$name>" if defined $name && exists $arg{$name} && ($star || $name =~ /_/);
    (my $bare = $word) =~ s/\(\)$//;
    return "B<$bare>" if $own{$bare};
    return "B<$bare>(3)" if $self->{is_function}{$bare};
    return "B<$bare>" if $bare =~ /^(?:DMI_|NULL$|SIG[A-Z])/;
    return $word;
  };
  my $done = '';
  while ($text =~ /\G(`[^`]+`|\*?\b[A-Za-z_]\w*(?:\(\))?|[<>]|.)/sg) {
    my $piece = $1;
    my $call = $text =~ /\G\(/;    # written with its arguments: no number in between
    my $set = $piece =~ /^[<>]$/ ? _escaped($piece) : $piece =~ /\w/ ? $one->($piece) : $piece;
    $done .= $call ? $set =~ s/\(3\)$//r : $set;
  }
  return $done;
}

# Comment text as pod: paragraphs, lists that begin with "- ", code indented by four or more.
sub _body {
  my ($self, $text, $page) = @_;
  my @pod;
  for my $paragraph (split /\n[ \t]*\n/, $text) {
    next unless $paragraph =~ /\S/;
    $paragraph =~ s/^\n+|\s+$//g;
    if ($paragraph !~ /^(?! {4})/m) {
      push @pod, $paragraph =~ s/^ {2}//mgr;
      next;
    }
    my ($lead, @items) = split /^[ \t]*- +/m, "$paragraph\n";
    push @pod, $self->_inline(join(' ', split ' ', $lead), $page) if ($lead // '') =~ /\S/;
    push @pod, '=over 4', (map { ('=item *', $self->_inline(join(' ', split ' ', $_), $page)) }
      @items), '=back' if @items;
  }
  return join "\n\n", @pod;
}

# Takes the parts with a label of their own ("Threads: ...") out of a comment.
sub _labelled {
  my ($text) = @_;
  my %part;
  my @rest;
  my $label;
  for my $paragraph (split /\n[ \t]*\n/, $text) {
    if ($paragraph =~ s/^\s*(Return value|Errors|Threads|Notes?|Example|See also):[ \t]*//) {
      $label = $1 eq 'Notes' ? 'Note' : $1;
      $part{$label} = defined $part{$label} ? "$part{$label}\n\n$paragraph" : $paragraph;
    }
    # An example goes on over the paragraphs that are code.
    elsif (($label // '') eq 'Example' && $paragraph !~ /^(?! {4})/m) {
      $part{Example} .= "\n\n$paragraph";
    }
    else { push @rest, $paragraph; undef $label }
  }
  return (join("\n\n", @rest), %part);
}

# The sentence that a page is listed with.
sub _summary {
  my ($text) = @_;
  my $line = join ' ', split ' ', $text;
  $line =~ s/^(.*?[^.])\.(?: .*)?$/$1/;
  for my $end (qr/[:;]/, qr/ \(/, qr/, (?:and|or|which|when|until|but) /, qr/ (?:when|while) /) {
    last if length $line <= 76;
    $line =~ s/^(.{12,}?)$end.*$/$1/;
  }
  $line =~ s/`//g;
  return $line =~ /^(?:[A-Z][a-z]|A )/ ? lcfirst $line : $line;
}

# ---- man(3) ------------------------------------------------------------------------------------

# A prototype in lines of at most 70 characters.
sub _synopsis {
  my ($function) = @_;
  my $star = $function->{type} =~ /\*$/ ? '' : ' ';
  my $line = "$function->{type}$star$function->{name}(";
  my $indent = ' ' x length $line;
  $indent = ' ' x 4 if length $indent > 40;
  my ($lines, @args) = ('', @{ $function->{args} });
  @args = ('void') unless @args;
  while (my ($i, $arg) = each @args) {
    $arg .= $i == $#args ? ');' : ',';
    if (length("$line $arg") > 70 && $line =~ /[,(]$/ && $line =~ /\S/) {
      $lines .= "$line\n";
      $line = $indent . $arg;
    }
    else { $line .= ($line =~ /\($/ ? '' : ' ') . $arg }
  }
  return $lines . $line;
}

# A struct in lines of at most 70 characters: where a comment beside a field makes it longer, above.
sub _narrow {
  my ($text) = @_;
  my @lines = split /\n/, $text;
  return @lines unless grep { length > 70 } @lines;
  local $Text::Wrap::columns = 71;
  return map {
    m{^(\s*)(\S.*?;)\s*(/\*.*\*/)$} ? (split(/\n/, wrap($1, "$1 * ", $3)), "$1$2") : $_
  } @lines;
}

# Types that the prototypes of a page name, in order; the status of asynchronous calls only where
# it is the subject.
sub _types {
  my ($self, $group) = @_;
  my (@types, %seen);
  for my $function (@{ $group->{functions} }) {
    for my $arg (@{ $function->{args} }) {
      my ($name) = $arg =~ /\b(DMI_\w+_t)\b/ or next;
      my $type = $self->{api}->types->{$name} or next;
      next if $name eq 'DMI_local_status_t' && !_about_status($function);
      # Those of its fields stand before it.
      push @types, grep { $_ && !$seen{ $_->{name} }++ }
        (map { $self->{api}->types->{$_} } $type->{text} =~ /\b(DMI_\w+_t)\b/g), $type;
    }
  }
  return @types;
}

# The constants that a type, or a field of it, may be: its comment says "FIRST ... LAST".
sub _values {
  my ($self, $type) = @_;
  my @constants = $self->{api}->constants;
  my @values;
  while ($type->{text} =~ /\b(DMI_[A-Z0-9_]+) \.\.\. (DMI_[A-Z0-9_]+)\b/g) {
    my ($first, $last) = ($1, $2);
    my @from = grep { $constants[$_]{name} eq $first } 0 .. $#constants;
    my @to = grep { $constants[$_]{name} eq $last } 0 .. $#constants;
    if (@from && @to) { push @values, @constants[$from[0] .. $to[0]] }
    else { $self->_problem("$type->{name}: no such constants: $first ... $last") }
  }
  return @values;
}

sub _about_status { return ($_[0]{args}[0] // '') =~ /^DMI_local_status_t/ }

sub _asynchronous {
  my ($group) = @_;
  return grep { ($_->{args}[-1] // '') =~ /^DMI_local_status_t \*/ && !_about_status($_) }
    @{ $group->{functions} };
}

# What the program defines instead of DMI.
sub _callback { return $_[0]{section}{title} =~ /program defines/i }

# Those of the group that tell success by DMI_TRUE.
sub _tells { return grep { $_->{type} eq 'int32_t' } @{ $_[0]{functions} } }

sub _modes {
  my ($self, $group) = @_;
  my (@endings, %named);
  $named{$_} = 1 for $group->{comment} =~ /\b(DMI_[A-Z_]+)\b/g;
  for my $function (@{ $group->{functions} }) {
    next unless exists $function->{arg}{mode};
    my $kind = $function->{name} =~ /_read$/ ? 'READ' : $function->{name} =~ /_write$/ ? 'WRITE'
      : 'ATOMIC';
    push @endings, $kind unless grep { $_ eq $kind } @endings;
  }
  my @modes = map {
    my $end = $_;
    grep { $_->{name} =~ /^DMI_[A-Z]+_$end$/ } $self->{api}->constants;
  } @endings;
  return (grep { !$named{ $_->{name} } } @modes) ? @modes : ();
}

sub _return_value {
  my ($self, $group, $part) = @_;
  return $self->_body($part->{'Return value'}, $group) if defined $part->{'Return value'};
  my @tell = _tells($group);
  return '' if _callback($group) || !@tell;
  return "B<DMI_TRUE>, or B<DMI_FALSE> when the call failed; B<DMI_errno>(3) of the same thread "
    . 'then says why. A call that failed changed nothing, unless stated above.'
    . (_asynchronous($group) ? ' For an asynchronous call this is about its arguments; the rest '
      . 'is stored by B<DMI_wait>(3) or B<DMI_check>(3) in *I<ret_ptr>.' : '');
}

# When each error comes, as the "Errors:" of a comment, of its section, and of functions whose errors
# they refer to, say: { name => text }, and what they say about none of them.
sub _when_errors {
  my ($self, $group, $referred) = @_;
  my $one = qr/DMI_E[A-Z]+/;
  my (%when, @rest);
  for my $comment ($group->{comment}, $group->{section}{text}) {
    my (undef, %part) = _labelled($comment);
    my %here;
    for my $sentence (split /(?<=[.])\s+(?=DMI_E)/, join ' ', split ' ', $part{Errors} // '') {
      my ($names, $text) =
        $sentence =~ /^($one(?:(?:, (?:and |or )?| and | or )$one)*)\b[:,]?\s*(.*)$/;
      if (!defined $names) { push @rest, ucfirst $sentence }
      else { push @{ $here{$_} }, $text =~ s/\.$//r for $names =~ /$one/g }
    }
    $when{$_} //= join '. ', map { ucfirst } grep { $_ ne '' } @{ $here{$_} } for keys %here;
  }
  my ($others) = $group->{comment} =~ /\bErrors:? as for\s+([^.]*)\./;
  for my $name ($referred || !defined $others ? () : $others =~ /\b(\w+)\b/g) {
    my ($other) = grep { grep { $_->{name} eq $name } @{ $_->{functions} } } $self->{api}->groups;
    next unless $other && $other != $group;
    my ($theirs) = $self->_when_errors($other, 1);
    $when{$_} //= $theirs->{$_} for keys %$theirs;
    $when{$_} //= '' for $other->{comment} =~ /\b($one)\b/g;
  }
  return (\%when, @rest);
}

# The items of ERRORS, and what stands above them.
sub _errors {
  my ($self, $group, $text, $part) = @_;
  my ($when, @rest) = $self->_when_errors($group);
  my %named = map { $_ => 1 } keys %$when, $text =~ /\b(DMI_E[A-Z]+)\b/g;
  my @known = $self->{api}->errors;
  for my $name (sort keys %named) {
    $self->_problem("$group->{functions}[0]{name}: no such error: $name")
      unless grep { $_->{name} eq $name } @known;
  }
  # Every function that tells success has these two.
  if (_tells($group) && !defined $part->{'Return value'}) {
    $named{$_} = 1 for qw(DMI_EINFUNC DMI_EINACTIVE);
  }
  my @items = map {
    my $said = $when->{ $_->{name} } // '';
    ("=item B<$_->{name}>", ucfirst($self->_inline($said ne '' ? $said : $_->{text}, $group)) . '.')
  } grep { $named{ $_->{name} } && !_callback($group) } @known;
  return (join(' ', @rest), @items);
}

sub _see_also {
  my ($self, $group, $text) = @_;
  my $own = $group->{functions}[0]{name};
  my %page;
  $page{ $self->{page_of}{$_} } = 1
    for grep { $self->{page_of}{$_} } $text =~ /\b((?:DMI|my)_[a-z_]+)\b/g;
  my @section = grep { $_->{section} == $group->{section} } $self->{api}->groups;
  $page{ $_->{functions}[0]{name} } = 1 for @section <= 9 ? @section : ();
  $page{ $self->{page_of}{DMI_wait} } = 1 if _asynchronous($group) && $self->{page_of}{DMI_wait};
  $page{ $self->{page_of}{DMI_errno} } = 1 if _tells($group) && $self->{page_of}{DMI_errno};
  delete $page{$own};
  my $list = join ', ', (map { "B<$_>(3)" } sort { lc $a cmp lc $b } keys %page), 'B<dmi>(7)';
  my ($chapter, $part) = @{ $group->{section} }{qw(chapter part)};
  return $list if $chapter eq '';
  return "$list\n\nThe manual of DMI 1.3 (in Japanese), chapter $chapter" . ($part ne '' ? " ($part). " : '. ')
    . 'What differs from it: porting.md, which is installed with DMI.';
}

# Takes out the sentences that only name errors: ERRORS has them.
sub _without_errors {
  my ($text) = @_;
  $text =~ s/(?:^\s*|(?<=[.])\s+)(?:Errors: )?DMI_E[A-Z]+(?:(?:,\s+|\s+and\s+|\s+or\s+)DMI_E[A-Z]+)*\.(?=\s|$)//g;
  return $text;
}

sub _check_names {
  my ($self, $group, $text) = @_;
  my $name = $group->{functions}[0]{name};
  for my $other ($text =~ /\b(DMI_[a-z][a-z0-9_]*)\b(?!\*)/g) {
    next if $other =~ /_$/ || $self->{is_function}{$other} || $self->{api}->types->{$other};
    $self->_problem("$name: its comment names $other, which does not exist");
  }
  my @words = $group->{comment} =~ /\w+/g;
  $self->_problem("$name: its comment is too short to describe it") if @words && @words < 4;
}

sub function_page {
  my ($self, $group) = @_;
  my @functions = @{ $group->{functions} };
  my ($text, %part) = _labelled($group->{comment});
  my $all = join "\n\n", $group->{comment}, $group->{section}{text};
  $self->_check_names($group, $all);
  my ($section_text) = _labelled($group->{section}{text});
  my $description = $self->_body(_without_errors($text), $group);
  my $summary = _summary(_without_errors($text));
  my @types = $self->_types($group);
  my @pod = ('=head1 NAME', join(', ', map { $_->{name} } @functions) . " - $summary");

  push @pod, '=head1 SYNOPSIS', qq( #include "$group->{header}");
  push @pod, join "\n", map { " $_" } _narrow($_->{text}) for grep { $_->{open} } @types;
  push @pod, join "\n", map { " $_" } map { split /\n/, _synopsis($_) } @functions;

  push @pod, '=head1 DESCRIPTION', $description;
  push @pod, $self->_body(_without_errors($section_text), $group) if $section_text =~ /\S/;
  for my $type (grep { $_->{comment} =~ /\S/ } @types) {
    push @pod, "B<$type->{name}>: " . $self->_body($type->{comment}, $group);
  }
  for my $type (@types) {
    my @values = $self->_values($type) or next;
    push @pod, "=head2 Values of B<$type->{name}>", '=over 4', (map { ("=item B<$_->{name}>",
      $_->{text} =~ /^(\w+_t|float|double)?$/ ? ($_->{text}) x !!$_->{text}
        : ucfirst($self->_inline($_->{text}, $group)) . '.') } @values), '=back';
  }
  push @pod, 'With I<status> not B<NULL> the call is asynchronous: it returns at once, and '
    . '*I<status> must stay alive until B<DMI_wait>(3) or B<DMI_check>(3) has said that the '
    . 'operation is complete.' if _asynchronous($group);
  my @modes = $self->_modes($group);
  push @pod, '=head2 Modes', '=over 4', (map { ("=item B<$_->{name}>",
    $_->{text} eq '' ? 'See B<dmi>(7).' : ucfirst($self->_inline($_->{text}, $group)) . '.') }
    @modes), '=back' if @modes;

  my $value = $self->_return_value($group, \%part);
  push @pod, '=head1 RETURN VALUE', $value if $value ne '';
  my ($about, @errors) = $self->_errors($group, $all, \%part);
  push @pod, '=head1 ERRORS' if @errors || $about ne '';
  push @pod, $self->_inline($about, $group) if $about ne '';
  push @pod, '=over 4', @errors, '=back' if @errors;
  for (['Threads', 'THREADS'], ['Note', 'NOTES'], ['Example', 'EXAMPLE']) {
    push @pod, "=head1 $_->[1]", $self->_body($part{ $_->[0] }, $group) if defined $part{ $_->[0] };
  }
  push @pod, '=head1 SEE ALSO', $self->_see_also($group, $all);
  return $self->_man($functions[0]{name}, 3, join "\n\n", @pod, '=cut', '');
}

# ---- man(7) ------------------------------------------------------------------------------------

# The pod of the page, with the lists that the headers hold put in for `=for mkman NAME`.
sub overview_page {
  my ($self, $name, $pod, $number) = @_;
  my %list = (functions => \&_function_list, errors => \&_error_list, types => \&_type_list,
              conventions => \&_convention_list, modes => \&_mode_list,
              launchers => \&_launcher_list);
  $pod =~ s/^=for mkman (\w+)$/$list{$1} ? $list{$1}->($self) : die "mkman: $name: =for mkman $1\n"/mge;
  my %exists = map { $_ => 1 } $self->{api}->function_names, keys %{ $self->{api}->types };
  for my $other ($pod =~ /\b(DMI_[a-z][a-z0-9_]*)\b/g) {
    $self->_problem("$name(7) names $other, which does not exist")
      unless $exists{$other} || $other =~ /_$/;
  }
  return $self->_man($name, $number, $pod);
}

# The Japanese text of a page: it is in the pod, lists and all.
sub japanese_page {
  my ($self, $name, $pod, $number) = @_;
  my $page = $self->_man($name, $number, join_lines($pod), utf8 => 1);
  utf8::encode($page) if utf8::is_utf8($page);
  return breakable($page);
}

sub _items { return join "\n\n", '=over 4', @_, '=back' }

# By subject: a line for each page.
sub _function_list {
  my ($self) = @_;
  my @pod;
  for my $section ($self->{api}->sections) {
    my @groups = grep { $_->{section} == $section } $self->{api}->groups or next;
    my ($title, $chapter) = @$section{qw(title chapter)};
    push @pod, "=head2 $title" . ($chapter ne '' ? " (manual of DMI 1.3, chapter $chapter)" : '');
    push @pod, _items(map {
      my ($text) = _labelled($_->{comment});
      ('=item ' . join(', ', map { "B<$_->{name}>(3)" } @{ $_->{functions} }),
       ucfirst($self->_inline(_summary(_without_errors($text)), $_)) . '.')
    } @groups);
  }
  return join "\n\n", @pod;
}

sub _error_list {
  my ($self) = @_;
  return _items(map { ("=item B<$_->{name}>", ucfirst($self->_inline($_->{text}, {})) . '.') }
      $self->{api}->errors);
}

sub _mode_list {
  my ($self) = @_;
  return _items(map { ("=item B<$_->{name}>", ucfirst($self->_inline($_->{text}, {})) . '.') }
      grep { $_->{name} =~ /_(?:READ|WRITE|ATOMIC)$/ && $_->{text} ne '' }
      $self->{api}->constants);
}

sub _type_list {
  my ($self) = @_;
  my $types = $self->{api}->types;
  return _items(map {
    my $comment = $types->{$_}{comment};
    ("=item B<$_>", $comment =~ /\S/ ? $self->_body($comment, {}) : ())
  } sort keys %$types);
}

# The list in the comment at the top of dmi_api.h.
sub _convention_list {
  my ($self) = @_;
  my ($list) = $self->{api}->intro =~ /^Conventions[^\n]*\n(.*?)(?:\n\s*\n|\z)/ms
    or die "mkman: dmi_api.h lists no conventions at its top\n";
  return $self->_body($list, {});
}

# ---- man(1) ------------------------------------------------------------------------------------

# To be called for each launcher before any page is made.
sub add_launcher {
  my ($self, $name, $text) = @_;
  my ($summary) = $text =~ /^# \Q$name\E - (.*(?:\n# .*)*)/m
    or die "mkman: $name: its first comment does not say what it is\n";
  $self->{launchers}{$name} =
    { text => $text, summary => _escaped(_summary($summary =~ s/\n# / /gr)) };
}

sub _launcher_list {
  my ($self) = @_;
  my $launchers = $self->{launchers};
  return _items(map { ("=item B<$_>(1)", ucfirst("$launchers->{$_}{summary}.")) }
      sort keys %$launchers);
}

# From a launcher: its first comment, what -h prints, and the pod at its end.
sub launcher_page {
  my ($self, $name) = @_;
  my ($text, $summary) = @{ $self->{launchers}{$name} }{qw(text summary)};
  my ($usage) = $text =~ /^my \$usage = <<'END';\n(.*?)^END$/ms
    or die "mkman: $name: no usage text\n";
  my ($pod) = $text =~ /^__END__\n(.*)/ms;
  my %part;
  my @order;
  for my $section (split /^(?==head1 )/m, $pod // '') {
    my ($title) = $section =~ s/^=head1 (.*)\n// ? $1 : next;
    $section =~ s/^=cut\s*$//mg;
    $section =~ s/^\n+|\s+$//g;
    $part{$title} = $section;
    push @order, $title;
  }
  my (@synopsis, @options, @other);
  for my $line (split /\n/, $usage) {
    if (!@synopsis && $line =~ /^usage: (.*)/) { push @synopsis, $1 }
    elsif (@synopsis && !@options && !@other && $line =~ /^\s+(\Q$name\E .*)/) { push @synopsis, $1 }
    elsif ($line =~ /^  (-\S.*?) {2,}(.*)$/ || $line =~ /^  (-\S(?: \S+)?) (.*)$/) {
      push @options, [$1, $2];
    }
    elsif ($line =~ /^ {4,}(.*)/ && @options) { $options[-1][1] .= " $1" }
    elsif ($line =~ /^([A-Z][\w, ]*):$/) { push @options, [$1] }    # a title of those that follow
    elsif ($line =~ /\S/) { push @other, $line }
  }
  $self->_problem("$name: -h lists no options") unless @options;
  my @pod = ('=head1 NAME', "$name - $summary");
  push @pod, '=head1 SYNOPSIS', join "\n", map { " $_" } @synopsis;
  push @pod, '=head1 DESCRIPTION', _escaped(join ' ', @other);
  push @pod, delete $part{DESCRIPTION} if defined $part{DESCRIPTION};
  push @pod, '=head1 OPTIONS';
  while (@options) {
    push @pod, '=head2 ' . (shift @options)->[0] if !defined $options[0][1];
    my @group;
    push @group, shift @options while @options && defined $options[0][1];
    push @pod, _items(map {
      my ($option, $what) = @$_;
      ('=item ' . $option =~ s/^(-\S+)(?: (\S+))?/"B<$1>" . (defined $2 ? " I<$2>" : '')/er,
       ucfirst(_escaped($what)) . '.')
    } @group);
  }
  push @pod, delete $part{OPTIONS} if defined $part{OPTIONS};
  push @pod, "=head1 $_", $part{$_} for grep { defined $part{$_} } @order;
  push @pod, '=head1 SEE ALSO', 'B<dmi>(7)' unless grep { $_ eq 'SEE ALSO' } @order;
  return $self->_man($name, 1, join "\n\n", @pod, '=cut', '');
}

1;
