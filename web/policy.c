/*
 * policy.c - see policy.h.
 */
#include "policy.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define HASH_TEXT \
  sodium_base64_ENCODED_LEN(crypto_hash_sha256_BYTES, sodium_base64_VARIANT_ORIGINAL)

/* The hash of what is between these two, as a policy has it. */
static bool hash_of(const char *page, const char *begin, const char *end, char text[HASH_TEXT]) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  const char *from = strstr(page, begin), *to;
  if (!from) return false;
  from += strlen(begin);
  to = strstr(from, end);
  if (!to || strstr(to, begin)) return false;
  crypto_hash_sha256(hash, (const unsigned char *)from, (unsigned long long)(to - from));
  sodium_bin2base64(text, HASH_TEXT, hash, sizeof(hash), sodium_base64_VARIANT_ORIGINAL);
  return true;
}

bool web_policy(const char *page, char policy[WEB_POLICY_LONGEST]) {
  char script[HASH_TEXT], style[HASH_TEXT];
  if (!hash_of(page, "<script>", "</script>", script) ||
      !hash_of(page, "<style>", "</style>", style))
    return false;
  snprintf(policy, WEB_POLICY_LONGEST,
           "default-src 'none'; connect-src 'self'; img-src data:; script-src 'sha256-%s'; "
           "style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
           script, style);
  return true;
}
