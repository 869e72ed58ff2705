/*
 * seal.h - one direction of a connection as sealed (encrypted and authenticated) records: without
 * the key nobody can read them, or change, repeat, leave out or reorder one unnoticed.
 *
 * A record is the length of its content (4 bytes, little-endian, 1 .. DMI_SEAL_MOST), the encrypted
 * content, and a tag of 16 bytes that authenticates both: ChaCha20-Poly1305 (RFC 8439) or
 * AES-256-GCM (NIST SP 800-38D); the nonce is the number of the record in its direction. libcrypto
 * does it where it is installed, otherwise libsodium; the bytes are the same.
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

/* AES-256-GCM has a new key after so many records. */
#define DMI_SEAL_AES_RECORDS ((uint64_t)1 << 20)

struct dmi_seal;

enum dmi_cipher { DMI_CIPHER_CHACHA, DMI_CIPHER_AES, DMI_CIPHERS };

/* `records` have been sealed or opened with this key already.  DMI_CIPHER_AES only if
 * dmi_seal_has_aes.  NULL: no memory. */
struct dmi_seal *dmi_seal_new(const unsigned char key[DMI_SEAL_KEY], uint64_t records,
                              enum dmi_cipher cipher);
void dmi_seal_free(struct dmi_seal *seal); /* also wipes the key; NULL: does nothing */

/* Makes one record of the bytes of `iov`, `size` in all (1 .. DMI_SEAL_MOST), at `out`, which
 * has space for DMI_SEAL_OVER more. If other threads change the bytes meanwhile, old or new ones
 * are sealed. */
void dmi_seal_put(struct dmi_seal *seal, unsigned char *out, const struct iovec *iov, size_t num,
                  size_t size);

/* The number of content bytes of the record that begins with these 4 bytes; 0: invalid. */
size_t dmi_seal_size(const unsigned char in[DMI_SEAL_LENGTH]);

/* Opens the whole record at `in` into `out`, dmi_seal_size bytes. False: it is not authentic;
 * `out` has meaningless bytes, and no later record can be opened, either. */
bool dmi_seal_get(struct dmi_seal *seal, unsigned char *out, const unsigned char *in);

/* Seals the first record of a direction, in a handshake, without a struct dmi_seal, by
 * ChaCha20-Poly1305. `out` has space for DMI_SEAL_OVER more than `size`. */
void dmi_seal_put_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *bytes, size_t size);
/* As dmi_seal_get. */
bool dmi_seal_get_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *in);

/* True if the processor has instructions for AES-256-GCM, and libsodium uses them. */
bool dmi_seal_has_aes(void);
/* For tests: true makes dmi_seal_has_aes return false. */
void dmi_seal_without_aes(bool without);

/* The library in use: "libcrypto" or "libsodium". */
const char *dmi_seal_by(void);
/* For tests: true makes all later seals use libsodium. */
void dmi_seal_plainly(bool plainly);

#endif
