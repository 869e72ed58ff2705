# Watch.pm - looks at a running program again and again, by whichever of its processes answers: when the
# one that was asked leaves, another one is asked.
package DMI::Watch;

use strict;
use warnings;
use DMI::Key ();
use DMI::Look ();

# DMI::Watch->new(command => [...], key => 'line of the key' or undef).  Whom to ask first is in the
# environment, as for dmirun --status.  wait => as of DMI::Look; if it dies with a reference, so does all().
# collects => true: what the processes that ask have to say is not printed, said() has it.
sub new {
  my ($class, %opt) = @_;
  return bless { %opt, others => [], said => [] }, $class;
}

# The process that asks; undef: none now.
sub pid { return $_[0]{look} && $_[0]{look}->pid }

# The key for the next one, from a pipe: a descriptor can be read only once.
sub _give_key {
  my ($self) = @_;
  return if !defined $self->{key};
  my $reader = DMI::Key->handle($self->{key});
  $ENV{DMI_KEY_FD} = fileno $reader;
  return $reader;
}

sub _attach {
  my ($self, $address) = @_;
  local %ENV = %ENV;
  if ($address) {
    delete $ENV{DMI_JOIN_FILE};
    @ENV{qw(DMI_JOIN_HOST DMI_JOIN_PORT)} = @$address;
  }
  my $key = $self->_give_key;
  my ($err, $says);
  if ($self->{collects}) { pipe $says, $err or die "no pipe: $!\n" }
  elsif ($self->{quiet}) { open $err, '>', '/dev/null' or die "/dev/null: $!\n" }
  $self->{look} = DMI::Look->new(command => $self->{command}, ($err ? (err => $err) : ()),
    ($self->{wait} ? (wait => $self->{wait}) : ()), ended => sub { die "it has ended\n" });
  $self->{says} = $says;
  return;
}

# What there is to see (DMI::Look->all); undef: nobody answers, and why() says why.
sub all {
  my ($self, @parts) = @_;
  my @ways = $self->{look} ? ('now') : ();
  $self->{said} = [];
  for my $way (@ways, undef, @{ $self->{others} }) {
    my $all = eval {
      $self->_attach($way) if ($way // '') ne 'now';
      $self->{look}->all(@parts);
    };
    if ($all && @{ $all->{members} }) {
      $self->{ended} = {};    # it has not
      $self->{others} = [map { [@$_{qw(address port)}] } grep { defined $_->{address} } @{ $all->{members} }];
      return $all;
    }
    die $@ if ref $@;
    $self->{why} = $@ || 'it is no member';
    $self->_ended if ($way // '') eq 'now' && $@;
    $self->detach;
  }
  return;
}

# The process that was asked has ended, or gives no answer.
sub _ended {
  my ($self) = @_;
  my $farewell = $self->{look}{farewell};
  $self->{ended} = $farewell ? { %$farewell, good => !$farewell->{status} } : { lost => 1 };
  return;
}

# How the process that was asked last has ended: { good, status, left } if it has said so (as of DMI::Look), { lost }
# if it has not; {}: that is not known.
sub ended {
  my ($self) = @_;
  if ($self->{look}) {
    $self->{look}->farewell;
    $self->_ended;
  }
  return $self->{ended} // {};
}

sub why { return $_[0]{why} =~ s/\n\z//r }

# Why those that all() has asked in vain did not answer, one after the other, if that is collected.
sub said { return @{ $_[0]{said} } }

# Nothing is asked, and no connection is left.
sub detach {
  my ($self) = @_;
  my $look = delete $self->{look} or return;
  $look->finish;
  my $says = delete $self->{says} or return;
  push @{ $self->{said} }, join '', readline $says;
}

1;
