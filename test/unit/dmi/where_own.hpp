/*
 * where_own.hpp - functions as those of dmi.hpp, for where_test.c: named as if it were one of its
 * headers.
 */
#ifndef DMI_WHERE_OWN_HPP
#define DMI_WHERE_OWN_HPP

__attribute__((always_inline)) static inline void own_inner(void) {
  NOTE();
}

__attribute__((always_inline)) static inline void own(void) {
  own_inner();
  __asm__ volatile("");
}

__attribute__((noinline)) static void own_not_inlined(void) {
  own();
  __asm__ volatile("nop"); /* so that it differs from others, with which it would be one */
}

#endif
