/*
 * seal.h - one direction of a connection as sealed (encrypted and authenticated) records: without
 * the key nobody can read them, or change, repeat, leave out or reorder one unnoticed.
 *
 * A record is the length of its content (4 bytes, little-endian, 1 .. DMI_SEAL_MOST), the encrypted
 * content, and a tag of 16 bytes that authenticates both: AES-256-OCB (RFC 7253) or
 * ChaCha20-Poly1305 (RFC 8439); the nonce is the number of the record in its direction. libgcrypt
 * does both; where it is not installed libsodium does the second one, and the bytes are the same.
 *
 * A struct dmi_seal is used by one thread at a time.  No function here blocks or allocates, except
 * dmi_seal_new.
 */
#ifndef DMI_NET_SEAL_H
#define DMI_NET_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define DMI_SEAL_KEY 32
#define DMI_SEAL_LENGTH 4
#define DMI_SEAL_TAG 16
#define DMI_SEAL_OVER (DMI_SEAL_LENGTH + DMI_SEAL_TAG) /* bytes that a record adds */
#define DMI_SEAL_MOST 32768                            /* most content bytes in a record */

/* AES-256-OCB has a new key after so many records. */
#define DMI_SEAL_OCB_RECORDS ((uint64_t)1 << 20)

struct dmi_seal;

enum dmi_cipher { DMI_CIPHER_CHACHA, DMI_CIPHER_OCB, DMI_CIPHERS };

/* `records` have been sealed or opened with this key already.  DMI_CIPHER_OCB only if
 * dmi_seal_has_ocb.  NULL: no memory. */
struct dmi_seal *dmi_seal_new(const unsigned char key[DMI_SEAL_KEY], uint64_t records,
                              enum dmi_cipher cipher);
void dmi_seal_free(struct dmi_seal *seal); /* also wipes the key; NULL: does nothing */

/* Makes one record of the bytes of `iov`, `size` in all (1 .. DMI_SEAL_MOST), at `out`, which
 * has space for DMI_SEAL_OVER more. `fixed`: nobody changes the bytes meanwhile. Otherwise other
 * threads may, and old or new ones are sealed; that can cost a copy. */
void dmi_seal_put(struct dmi_seal *seal, unsigned char *out, const struct iovec *iov, size_t num,
                  size_t size, bool fixed);

/* The number of content bytes of the record that begins with these 4 bytes; 0: invalid. */
size_t dmi_seal_size(const unsigned char in[DMI_SEAL_LENGTH]);

/* Opens the whole record at `in` into `out`, dmi_seal_size bytes. Other threads may write there
 * meanwhile; then some of its bytes are theirs. False: it is not authentic; the bytes at `out` and
 * `in` are meaningless, and no later record can be opened, either. */
bool dmi_seal_get(struct dmi_seal *seal, unsigned char *out, unsigned char *in);

/* Seals the first record of a direction, in a handshake, without a struct dmi_seal, by
 * ChaCha20-Poly1305. `out` has space for DMI_SEAL_OVER more than `size`. */
void dmi_seal_put_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *bytes, size_t size);
/* As dmi_seal_get. */
bool dmi_seal_get_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *in);

/* True if libgcrypt is installed, and seals by AES-256-OCB with instructions of the processor. The
 * first call loads and initializes it, which takes 0.25 ms: for that no other thread may be using
 * it. */
bool dmi_seal_has_ocb(void);
/* For tests: true makes dmi_seal_has_ocb return false. */
void dmi_seal_without_ocb(bool without);

/* The library in use for ChaCha20-Poly1305: "libgcrypt" or "libsodium". */
const char *dmi_seal_by(void);
/* For tests: true makes all later seals do without libgcrypt, as if it were not installed, unless
 * they are of AES-256-OCB. */
void dmi_seal_plainly(bool plainly);

#endif
