# ManHeader.pm - what a public header says: functions with their comments, types, constants.
#
# It reads our own style of header, not C at large: a comment stands directly above what it is
# about; prototypes that follow each other without a blank line or a comment share one; a comment
# `---- Title (chapter N) ----` begins a section; any other comment that stands alone belongs to all
# of its section.
package ManHeader;

use strict;
use warnings;

sub new {
  my ($class) = @_;
  return bless {
    groups => [],       # pages: { functions, comment, section, header }
    types => {},        # name => { name, text, comment, open }: without what is private; open: something is left
    constants => [],    # { name, value, text, section }
    sections => [],     # { title, chapter, text }
    intro => '',        # the comment at the top of the first header
    problems => [],
  }, $class;
}

sub groups { return @{ $_[0]{groups} } }
sub sections { return @{ $_[0]{sections} } }
sub constants { return @{ $_[0]{constants} } }
sub types { return $_[0]{types} }
sub intro { return $_[0]{intro} }
sub problems { return @{ $_[0]{problems} } }
sub functions { return map { @{ $_->{functions} } } $_[0]->groups }
sub function_names { return map { $_->{name} } $_[0]->functions }
sub errors { return grep { $_->{name} =~ /^DMI_E[A-Z]+$/ } $_[0]->constants }

sub _problem {
  my ($self, $text) = @_;
  push @{ $self->{problems} }, $text;
}

# A comment as text: without its marks, lines kept, paragraphs apart.
sub plain_comment {
  my ($comment) = @_;
  $comment =~ s{^/\*+[ \t]*\n?}{};
  $comment =~ s{\s*\*+/$}{};
  $comment =~ s{^[ \t]*\*(?: |$)}{}mg;
  $comment =~ s{[ \t]+$}{}mg;
  return $comment;
}

# Cuts a header into [kind, text, line]: comment, blank, directive, code.
sub _items {
  my ($text) = @_;
  my @items;
  my $line = 1;
  while ($text ne '') {
    my $kind;
    my $piece = $text =~ m{^[ \t]*/\*.*?\*/[ \t]*(?:\n|$)}s ? do { $kind = 'comment'; $& }
      : $text =~ /^[ \t]*(?:\n|$)/ ? do { $kind = 'blank'; $& }
      : $text =~ m{^[ \t]*\#(?:[^\n\\/]|\\\n|\\|/(?!\*)|/\*.*?\*/)*(?:\n|$)}s
        ? do { $kind = 'directive'; $& }
      : do { $kind = 'code'; _declaration($text) };
    last if $piece eq '';
    push @items, [$kind, $piece, $line];
    $line += $piece =~ tr/\n//;
    substr $text, 0, length $piece, '';
  }
  return @items;
}

# Up to the semicolon that ends it (outside of braces), or the brace that ends the body of an inline
# function; and the rest of that line.
sub _declaration {
  my ($text) = @_;
  return $& if $text =~ /^[ \t]*(?:extern "C" \{|\})[ \t]*(?:\n|$)/;
  my ($depth, $body, $before) = (0, 0, '');
  while ($text =~ m{\G(?:/\*.*?\*/|"(?:[^"\\]|\\.)*"|.)}sg) {
    my $token = $&;
    $body = 1 if $token eq '{' && $depth == 0 && $before eq ')';
    $before = $token if $token =~ /\S/;
    $depth++ if $token eq '{';
    $depth-- if $token eq '}';
    next unless $depth == 0 && ($token eq ';' || $token eq '}' && $body);
    $text =~ m{\G[ \t]*(?:/\*.*?\*/)?[ \t]*\n?}sg;
    return substr $text, 0, pos $text;
  }
  return $text;
}

sub read_header {
  my ($self, $name, $text) = @_;
  my $section = { title => $name, chapter => '', text => '' };
  my ($comment, $group, $typedef_above);
  my @items = _items($text);
  if ($self->{intro} eq '' && @items && $items[0][0] eq 'comment') {
    $self->{intro} = plain_comment((shift @items)->[1] =~ s/^\s+|\s+$//gr);
  }
  for my $i (0 .. $#items) {
    my ($kind, $piece, $line) = @{ $items[$i] };
    $piece =~ s/^\s+|\s+$//g;
    if ($kind eq 'comment') {
      undef $group;
      my $plain = plain_comment($piece);
      my $alone = $i == $#items || $items[$i + 1][0] =~ /^(?:blank|comment)$/;
      if ($plain =~ /^-{4,}/) {
        $section = _section($plain);
        push @{ $self->{sections} }, $section;
        undef $comment;
      }
      elsif ($alone) {
        $section->{text} .= ($section->{text} eq '' ? '' : "\n\n") . $plain;
        undef $comment;
      }
      else { $comment = $plain }
    }
    elsif ($kind eq 'blank') { undef $comment; undef $group }
    elsif ($kind eq 'directive') { $self->_constant($piece, $section); undef $group }
    elsif ($piece =~ /^typedef\b/) { $self->_type($piece, $comment); undef $comment; undef $group }
    elsif ($piece =~ /^(?:static inline|template)\b.*?\bdmi_\w+\(/s) { undef $group }    # behind a macro
    elsif ($piece =~ /\(/) {
      my $function = _prototype($piece, $name, $line);
      my ($beside) = $piece =~ m{;\s*(/\*.*\*/)$}s;
      $comment //= plain_comment($beside) if defined $beside && !$group;
      if (!$group) {
        $group = { comment => $comment // '', section => $section, header => $name,
                   functions => [] };
        push @{ $self->{groups} }, $group;
      }
      $self->_add($group, $function);
      undef $comment;
    }
  }
}

sub _add {
  my ($self, $group, $function) = @_;
  my $where = "$function->{header}:$function->{line}: $function->{name}";
  return $self->_problem("$where: not understood as a prototype") if $function->{name} eq '';
  return $self->_problem("$where is declared twice")
    if grep { $_ eq $function->{name} } $self->function_names;
  push @{ $group->{functions} }, $function;
  $self->_problem("$where has no comment directly above it") if $group->{comment} !~ /\S/;
}

sub _section {
  my ($text) = @_;
  $text =~ s/^-+\s*|\s*-+\s*$//g;
  $text =~ s/\s*-{4,}\s*/\n\n/g;
  my ($title, $rest) = $text =~ /^([^\n(.]*)(.*)$/s;
  my ($chapter, $part) = $rest =~ /^\(chapter (\d+)(?:, "([^"]*)")?\)/;
  $rest =~ s/^\([^)]*\)//;
  $rest =~ s/^[.,\s]+//;
  $title =~ s/\s+$//;
  return { title => $title, chapter => $chapter // '', part => $part // '', text => $rest };
}

sub _constant {
  my ($self, $piece, $section) = @_;
  my ($name, $value, $note) = $piece =~
    m{^\#\s*define\s+(DMI_[A-Z0-9_]+)\s+(\S.*?)\s*(/\*.*\*/)?$}s or return;
  push @{ $self->{constants} },
    { name => $name, value => $value, section => $section,
      text => defined $note ? join(' ', split ' ', plain_comment($note)) : '' };
}

sub _type {
  my ($self, $piece, $comment) = @_;
  my ($name) = $piece =~ /^[^{}]*?(?:\{.*\}\s*|\b)(\w+)\s*;/s or return;
  my $private = $piece =~ s/^[^;\n]*\bdmi_private\b[^\n]*\n//mg;
  $self->{types}{$name} =
    { name => $name, text => $piece, comment => $comment // '',
      open => !$private || $piece =~ /\{.*;.*\}/s ? 1 : 0 };
}

sub _prototype {
  my ($piece, $header, $line) = @_;
  $piece =~ s{/\*.*?\*/}{}gs;
  $piece =~ s/\s*\{.*\}\s*$/;/s;
  $piece =~ s/\s*__attribute__\s*\(\(.*?\)\)//gs;
  $piece =~ s/^(?:extern|static|inline)\s+//g while $piece =~ /^(?:extern|static|inline)\s/;
  $piece = join ' ', split ' ', $piece;
  my ($type, $name, $args) =
    $piece =~ /^((?:const )?\w+(?: \w+)*? ?\**) ?\b(\w+) ?\((.*)\)[^()]*;$/;
  return { name => '', header => $header, line => $line } unless defined $name;
  s/^\s+|\s+$//g for $type, $args;
  my @args = split /\s*,\s*/, $args;
  my %args = map { /(\w+)(?:\[\w*\])?$/ ? ($1 => $_) : () } @args;
  return { name => $name, type => $type, args => \@args, arg => \%args, header => $header,
           line => $line };
}

1;
