#!/usr/bin/perl
# types.t - numbers of different meaning cannot be mixed (lib/msg/types.h): each snippet is compiled,
# and must be refused where it mixes them, and accepted where it does not.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $compiler = $ENV{CC} || 'cc';
my $dir = tempdir(CLEANUP => 1);

# What the compiler says of a function with this body; '' when it accepts it.
sub refused {
  my ($body) = @_;
  open my $file, '>', "$dir/a.c" or die "$dir/a.c: $!";
  print $file <<"END";
#include "core/page.h"
void mixes(struct dmi_page *page, struct dmi_req *req, struct dmi_msg *msg);
void mixes(struct dmi_page *page, struct dmi_req *req, struct dmi_msg *msg) {
  (void)page, (void)req, (void)msg;
  $body
}
END
  close $file or die $!;
  return scalar qx($compiler -std=gnu11 -I$top/lib -I$top/include -fsyntax-only $dir/a.c 2>&1);
}

my @right = (
  'page->version = msg->data.version;',
  'req->fetch = msg->read.fetch;',
  'req->op = msg->access.op;',
  'page->version = dmi_version_next(page->floor);',
  'if (dmi_fetch_is(page->busy->fetch, msg->pass.after)) req->type = 0;',
  'req->off = msg->access.off;',
);
is(refused($_), '', "accepted: $_") for @right;

my @wrong = (
  'page->version = msg->data.fetch;',
  'req->fetch = msg->data.version;',
  'req->op = msg->read.fetch;',
  'msg->fail.fetch = req->op;',
  'msg->done.version = req->op;',
  'page->version = msg->access.op;',
  'page->version = page->index;',
  'page->index = page->version;',
  'page->version = msg->update.off;',
  'req->len = msg->access.op;',
  'page->version++;',
  'if (page->version < msg->data.version) req->type = 0;',
  'if (page->version == page->floor) req->type = 0;',
  'if (dmi_version_is(page->version, msg->data.fetch)) req->type = 0;',
  'if (dmi_fetch_is(req->fetch, req->op)) req->type = 0;',
  'if (dmi_op_is(req->op, page->version)) req->type = 0;',
);
like(refused($_), qr/error/, "refused: $_") for @wrong;
done_testing();
