/*
 * policy.h - what a browser may do with the page: run the script and use the style that are in it,
 * and listen to where it came from; nothing else.  Pure.
 */
#ifndef WEB_POLICY_H
#define WEB_POLICY_H

#include <stdbool.h>

#define WEB_POLICY_LONGEST 512

/* The value of Content-Security-Policy for this page.  False: it has not one script and one style.
 */
bool web_policy(const char *page, char policy[WEB_POLICY_LONGEST]);

#endif
