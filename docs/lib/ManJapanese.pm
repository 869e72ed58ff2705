# ManJapanese.pm - Japanese text in man pages: pure, of text and for text.
#
# Japanese has no spaces between words. So two things that formatters do for English are wrong here:
# an end of line within a paragraph must not become a space, and a line may be broken nearly anywhere.
package ManJapanese;

use strict;
use warnings;
use utf8;
use Encode qw(decode encode);
use Exporter 'import';

our @EXPORT_OK = qw(join_lines breakable width);

my $wide = qr/[\p{East_Asian_Width=W}\p{East_Asian_Width=F}]/;
# What must not begin a line, and what must not end one.
my $closing = qr/[、。，．・：；？！）〕］｝」』】ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮー々]/;
my $opening = qr/[（〔［｛「『【]/;

# Pod in UTF-8, the lines of its paragraphs joined where a Japanese character ends or begins one.
# Verbatim paragraphs, commands and blank lines stay.
sub join_lines {
  my ($pod) = @_;
  my $text = decode('UTF-8', $pod, Encode::FB_CROAK);
  my @paragraphs = split /(\n[ \t]*\n)/, $text;
  for my $paragraph (@paragraphs) {
    next if $paragraph =~ /^[\s=]/;
    $paragraph =~ s/(?<=$wide)\n(?=\S)|(?<=\S)\n(?=$wide)//g;
  }
  return encode('UTF-8', join '', @paragraphs);
}

# The source of a man page, with places where its text may be broken (\:) or not (\&). Requests, examples (.Vb)
# and NAME, which programs read, stay.
sub breakable {
  my ($roff) = @_;
  my ($verbatim, $section) = (0, '');
  my @lines = split /^/, decode('UTF-8', $roff, Encode::FB_CROAK);
  for my $line (@lines) {
    $verbatim = $1 eq 'b' if $line =~ /^\.V([be])\b/;
    $section = $1 if $line =~ /^\.SH "?(.*?)"?$/;
    next if $verbatim || $line =~ /^[.']/ || $section eq '名前';
    $line =~ s/(?:(?<=$wide)|(?=$wide))(?<=[^\\\s])(?=\S)(?<!$opening)(?!$closing)/\\:/g;
    $line =~ s/($opening)/$1\\&/g; # man(1) loads rules of its own, which would break there
  }
  return encode('UTF-8', join '', @lines);
}

# How many columns of a terminal this text (of characters) takes.
sub width {
  my ($text) = @_;
  my $twos = () = $text =~ /$wide/g;
  return length($text) + $twos;
}

1;
