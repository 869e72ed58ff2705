#!/usr/bin/perl
# types.t - numbers of different meaning cannot be mixed (lib/msg/types.h, lib/base/id.h): each
# snippet is compiled, and must be refused where it mixes them, and accepted where it does not.
# Headers of the layers above say dmi_uid_t and dmi_pageno_t where those are meant.
# Not in the small form: what it tests is what a compiler refuses.
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
#include "base/event.h"
#include "core/coord_int.h"
#include "core/node.h"
#include "core/page.h"
#define GIVEN struct dmi_page *page, struct dmi_req *req, struct dmi_msg *msg, \\
  struct dmi_member *m, struct dmi_peer *peer, struct dmi_record *record, struct dmi_input *in, \\
  struct dmi_stream *stream, struct dmi_mout *out
void mixes(GIVEN);
void mixes(GIVEN) {
  (void)page, (void)req, (void)msg, (void)m, (void)peer, (void)record, (void)in, (void)stream;
  (void)out;
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
  'if (dmi_fetch_is(page->busy->fetch, msg->delegate.after)) req->type = 0;',
  'req->off = msg->access.off;',
  'peer->dmi_id = record->dmi_id;',
  'peer->uid = record->heir;',
  'dmi_member_welcome(m, 1, in->dmi_id, out);',
  'if (dmi_id_is(peer->dmi_id, in->dmi_id)) dmi_stream_is(stream, peer->dmi_id);',
  'record = dmi_coord_find(m->coord, peer->uid);',
  'record = dmi_coord_by_id(m->coord, peer->dmi_id);',
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
  'peer->dmi_id = peer->uid;',
  'peer->uid = peer->dmi_id;',
  'peer->dmi_id = 1;',
  'record->heir = dmi_member_dmi_id(m);',
  'in->dmi_id = in->id;',
  'in->a = peer->dmi_id;',
  'if (peer->dmi_id == record->dmi_id) in->yes = true;',
  'if (dmi_id_is(peer->dmi_id, record->uid)) in->yes = true;',
  'if (peer->dmi_id) in->yes = true;',
  'dmi_member_welcome(m, 1, peer->uid, out);',
  'dmi_member_goodbye(m, 1, peer->uid, out);',
  'dmi_member_busy(m, peer->dmi_id, out);',
  'dmi_stream_is(stream, peer->uid);',
  'record = dmi_coord_find(m->coord, peer->dmi_id);',
  'record = dmi_coord_by_id(m->coord, peer->uid);',
  'peer = (struct dmi_peer *)dmi_member_peer(m, record->dmi_id);',
);

# What gcc and clang say of types that do not fit.  Refused for anything else: the snippet is wrong.
my $unfit = join '|', 'incompatible type', 'invalid operands', 'wrong type argument to increment',
  'cannot increment', 'struct type value where scalar', 'requires expression of scalar type';
for my $body (@wrong) {
  my @errors = refused($body) =~ /(?:error|warning): (.*)/g;
  ok(@errors == 1 && $errors[0] =~ /$unfit/, "refused: $body") or diag("it says: @errors");
}

# typedefs of integers, which the compiler takes for one another: headers use them all the same.
sub bare {
  my ($text) = @_;
  return $text =~ /\b(uint32_t \*?(?:uid|home|heir|self|origin|coordinator)|uint64_t index)\b/g;
}
for my $header (glob "$top/lib/{core,access,node,net}/*.h") {
  open my $file, '<', $header or die "$header: $!";
  my @bare = bare(join '', <$file>);
  ok(!@bare, 'typedefs in ' . substr $header, length "$top/") or diag("bare: @bare");
}
is_deeply([bare($_)], [$_], "found: $_") for 'uint32_t uid', 'uint32_t *heir', 'uint64_t index';
is_deeply([bare('dmi_uid_t uid; uint32_t uids; dmi_pageno_t index;')], [], 'nothing else is');
done_testing();
