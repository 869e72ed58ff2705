# Server.pm - dmi-web, the HTTP server behind dmirun --web, for those who tell it what there is to see
# (web/main.c; docs/web.md).
package DMI::Web::Server;

use strict;
use warnings;
use POSIX ();

# The page, as one file.
sub page {
  my $dir = __FILE__ =~ s{/[^/]*\z}{}r;
  my %text;
  for my $part (qw(html css js)) {
    open my $file, '<:raw', "$dir/page.$part" or die "$dir/page.$part: $!\n";
    local $/;
    $text{$part} = <$file>;
  }
  return $text{html} =~ s/\@STYLE\@/$text{css}/r =~ s/\@SCRIPT\@/$text{js}/r;
}

# What else this process has open is not for the server: the key of the program, or what others wait for the end of.
sub _close_others {
  opendir my $dir, '/proc/self/fd' or POSIX::_exit(126);
  my @open = grep { /^\d+\z/ && $_ > 2 } readdir $dir;
  POSIX::close($_) for @open;    # nothing of Perl is opened any more
}

# DMI::Web::Server->new(program => dmi-web, place => '[ADDR:]PORT', token => '...').  undef: it has said why on stderr.
sub new {
  my ($class, %opt) = @_;
  pipe my $in, my $tells or die "no pipe: $!\n";
  pipe my $says, my $out or die "no pipe: $!\n";
  my $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    open STDIN, '<&', $in or POSIX::_exit(126);
    open STDOUT, '>&', $out or POSIX::_exit(126);
    _close_others();
    no warnings 'exec';
    exec { $opt{program} } @opt{qw(program place)};
    print STDERR "dmirun: --web: cannot run $opt{program}: $!\n";
    POSIX::_exit(127);
  }
  close $_ for $in, $out;
  my $self = bless { pid => $pid, tells => $tells, says => $says, buffer => '', pages => 0, scrape => 0 }, $class;
  while (!$self->{port}) {
    return if !$self->read;
  }
  $self->tell('page', '-', page());
  $self->tell('token', '-', $opt{token});
  return $self;
}

sub pid { return $_[0]{pid} }
sub port { return $_[0]{port} }
sub handle { return $_[0]{says} }
sub pages { return $_[0]{pages} }     # that are open
sub scrape { return $_[0]{scrape} }   # somebody waits for metrics

# Reads what it says.  False: it has ended.
sub read {
  my ($self) = @_;
  my $count = sysread $self->{says}, $self->{buffer}, 65536, length $self->{buffer};
  return !!$!{EINTR} if !defined $count;
  return 0 if !$count;
  while ($self->{buffer} =~ s/\A(.*)\n//) {
    my $line = $1;
    $self->{port} = $1 if $line =~ /^listening (\d+)\z/;
    $self->{pages} = $1 if $line =~ /^pages (\d+)\z/;
    $self->{scrape} = 1 if $line eq 'scrape';
  }
  return 1;
}

# event NAME, metrics -, absent -: pieces of web/feed.h.  False: nobody reads any more.
sub tell {
  my ($self, $kind, $name, $bytes) = @_;
  $self->{scrape} = 0 if $kind eq 'metrics' || $kind eq 'absent';
  my $text = "$kind $name " . length($bytes) . "\n$bytes";
  for (my $at = 0; $at < length $text;) {
    my $count = syswrite $self->{tells}, $text, length($text) - $at, $at;
    return 0 if !defined $count && !$!{EINTR};
    $at += $count // 0;
  }
  return 1;
}

# Pages get what they were told last, and it ends; returns how, as in $?.
sub finish {
  my ($self) = @_;
  close $self->{tells};
  waitpid $self->{pid}, 0;
  return $?;
}

1;
