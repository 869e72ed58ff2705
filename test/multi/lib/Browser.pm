# Browser.pm - a headless Chromium for tests, by the DevTools protocol over a pipe: messages of JSON, each
# with a NUL behind it.  Every wait has a deadline; waits for what a page shows are the page's own.
package Browser;

use strict;
use warnings;
use JSON::PP ();
use MIME::Base64 qw(decode_base64);
use POSIX ();
use Time::HiRes qw(time);

# The path of an installed Chromium; undef: none.
sub installed {
  my ($path) = grep { -x } map { my $dir = $_; map { "$dir/$_" } qw(chromium chromium-browser google-chrome) }
    split /:/, $ENV{PATH} // '';
  return $path;
}

# Browser->new(dir => for its files, seconds => that a wait may take, width, height, dark => 1)
sub new {
  my ($class, %opt) = @_;
  pipe my $reads, my $commands or die "no pipe: $!\n";
  pipe my $answers, my $writes or die "no pipe: $!\n";
  my $log = "$opt{dir}/chromium.log";
  my $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE ALRM INT TERM HUP);
    open STDIN, '<', '/dev/null' or POSIX::_exit(126);
    open STDOUT, '>', $log or POSIX::_exit(126);
    open STDERR, '>&', \*STDOUT or POSIX::_exit(126);
    # Descriptors 3 and 4, without overwriting one with the other.
    my ($in, $out) = map { POSIX::dup2(fileno $_->[0], $_->[1]) && $_->[1] } [$reads, 20], [$writes, 21];
    POSIX::dup2($in, 3);
    POSIX::dup2($out, 4);
    my @flags = ('--headless=new', '--remote-debugging-pipe', '--disable-gpu', '--no-first-run', '--disable-extensions',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
      "--user-data-dir=$opt{dir}/chromium", '--window-size=' . join(',', $opt{width} // 1400, $opt{height} // 1600),
      ($> == 0 ? '--no-sandbox' : ()), 'about:blank');
    local %ENV = (%ENV, HOME => $opt{dir});
    no warnings 'exec';
    exec installed(), @flags;
    POSIX::_exit(127);
  }
  close $_ for $reads, $writes;
  my $self = bless { pid => $pid, commands => $commands, answers => $answers, buffer => '', number => 0,
    seconds => $opt{seconds} // 30, log => $log }, $class;
  my $target = $self->call('Target.createTarget', { url => 'about:blank' })->{targetId};
  $self->{session} = $self->call('Target.attachToTarget', { targetId => $target, flatten => JSON::PP::true })->{sessionId};
  $self->call('Page.enable');
  $self->dark(1) if $opt{dark};
  return $self;
}

# Sends a command, and returns its result.  Dies with what the browser says of it.
sub call {
  my ($self, $method, $params) = @_;
  my $number = ++$self->{number};
  my %message = (id => $number, method => $method, params => $params // {});
  $message{sessionId} = $self->{session} if $self->{session};
  my $text = JSON::PP->new->utf8->encode(\%message) . "\0";
  for (my $at = 0; $at < length $text;) {
    $at += syswrite($self->{commands}, $text, length($text) - $at, $at) // die "the browser has ended: $!\n";
  }
  my $deadline = time + $self->{seconds};
  while (1) {
    my $answer = $self->_message($deadline, $method);
    next if ($answer->{id} // 0) != $number;
    die "$method: $answer->{error}{message}\n" if $answer->{error};
    return $answer->{result};
  }
}

sub _message {
  my ($self, $deadline, $what) = @_;
  my $end;
  while (($end = index $self->{buffer}, "\0") < 0) {
    vec(my $bits = '', fileno $self->{answers}, 1) = 1;
    my $left = $deadline - time;
    die "$what: the browser has not answered within $self->{seconds} s\n" if $left <= 0;
    my $count = select $bits, undef, undef, $left;
    next if $count <= 0;    # a signal, or no time left
    sysread $self->{answers}, $self->{buffer}, 65536, length $self->{buffer} or die "the browser has ended; see $self->{log}\n";
  }
  my $text = substr $self->{buffer}, 0, $end;
  substr $self->{buffer}, 0, $end + 1, '';
  return JSON::PP->new->utf8->decode($text);
}

# The value of an expression of the page; a promise is waited for.
sub value {
  my ($self, $expression) = @_;
  my $result = $self->call('Runtime.evaluate', { expression => $expression, awaitPromise => JSON::PP::true, returnByValue => JSON::PP::true });
  die "$expression: " . ($result->{exceptionDetails}{exception}{description} // 'an error') . "\n" if $result->{exceptionDetails};
  return $result->{result}{value};
}

sub open {
  my ($self, $url) = @_;
  $self->call('Page.navigate', { url => $url });
  return;
}

# Waits until this expression is true in the page: it is looked at after each change of the document.
sub wait_for {
  my ($self, $expression) = @_;
  my $value;
  while (!eval {
    $value = $self->value("new Promise((done) => { const look = () => { let is; try { is = ($expression); } catch { is = false; } if (is) { change.disconnect(); done(is); } };"
        . ' const change = new MutationObserver(look); change.observe(document, { subtree: true, childList: true, characterData: true, attributes: true }); look(); })');
    1;
  }) {
    die $@ if $@ !~ /context was destroyed|Cannot find context|navigated/;    # another page is being loaded
  }
  return $value;
}

sub size {
  my ($self, $width, $height) = @_;
  $self->call('Emulation.setDeviceMetricsOverride', { width => $width, height => $height, deviceScaleFactor => 1, mobile => JSON::PP::false });
  return;
}

sub dark {
  my ($self, $dark) = @_;
  $self->call('Emulation.setEmulatedMedia', { features => [{ name => 'prefers-color-scheme', value => $dark ? 'dark' : 'light' }] });
  return;
}

sub screenshot {
  my ($self, $file) = @_;
  my $result = $self->call('Page.captureScreenshot', { format => 'png' });
  CORE::open my $to, '>:raw', $file or die "$file: $!\n";
  print $to decode_base64($result->{data});
  close $to or die "$file: $!\n";
  return;
}

sub close_now {
  my ($self) = @_;
  my $pid = delete $self->{pid} or return;
  close $self->{commands};    # it ends with this pipe
  vec(my $bits = '', fileno $self->{answers}, 1) = 1;
  my $deadline = time + 10;
  while (time < $deadline && (my $count = select my $got = $bits, undef, undef, $deadline - time)) {
    last if $count > 0 && !sysread $self->{answers}, my $rest, 65536;
  }
  local ($?, $!);
  kill KILL => $pid;
  waitpid $pid, 0;
  return;
}

sub DESTROY { $_[0]->close_now }

1;
