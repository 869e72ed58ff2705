# docs/local.mk - man pages and texts.
#
# Man pages: dist_man_MANS += docs/dmicc.1.  Texts: dist_doc_DATA += docs/NAME.md.
