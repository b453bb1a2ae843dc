//! The texts of YAML before and after a scalar is replaced, for each style.

use super::{super::yaml, check};

#[test]
fn r48_scalars_keep_their_style_and_comments() {
    check(
        yaml,
        &[
            "a: 1\n¦a¦1¦2¦a: 2\n",
            "a:   old  # why\nb: 1\n¦a¦\"old\"¦\"new text\"¦a:   new text  # why\nb: 1\n",
            "a: 'old' # why\n¦a¦\"old\"¦\"it's\"¦a: 'it''s' # why\n",
            "a: 'old'\n¦a¦\"old\"¦\"two\\nlines\"¦a: \"two\\nlines\"\n",
            "a: \"old\"\n¦a¦\"old\"¦\"a\\\"b\\\\\"¦a: \"a\\\"b\\\\\"\n",
            "a: \"1\"\n¦a¦\"1\"¦1¦a: 1\n",
            "a: 1\n¦a¦1¦\"1\"¦a: \"1\"\n",
            "a: x\n¦a¦\"x\"¦\"yes\"¦a: \"yes\"\n",
            "a: x\n¦a¦\"x\"¦\"v1.2.3\"¦a: v1.2.3\n",
            "a: x\n¦a¦\"x\"¦\"10Gi\"¦a: 10Gi\n",
            "a: x\n¦a¦\"x\"¦\"a: b\"¦a: \"a: b\"\n",
            "a: x\n¦a¦\"x\"¦\"{{ y }}\"¦a: \"{{ y }}\"\n",
            "a: x\n¦a¦\"x\"¦\"\"¦a: \"\"\n",
            "a: x\n¦a¦\"x\"¦\"2026-01-02\"¦a: \"2026-01-02\"\n",
            "a: x\n¦a¦\"x\"¦\"12:30\"¦a: \"12:30\"\n",
            "a: x\n¦a¦\"x\"¦1e300¦a: 1e+300\n",
            "a: 0x1F\n¦a¦31¦-0.5¦a: -0.5\n",
            "a:\nb: 1\n¦a¦null¦7¦a: 7\nb: 1\n",
            "a: # why\nb: 1\n¦a¦null¦true¦a: true # why\nb: 1\n",
            "- \n-\n¦[1]¦null¦2¦- \n- 2\n",
            "a: several\n  words # why\nb: 1\n¦a¦\"several words\"¦\"one\"¦a: one # why\nb: 1\n",
            "a: !!str 1\n¦a¦\"1\"¦\"2\"¦a: !!str \"2\"\n",
            "a: &x 1\nb: 2\n¦a¦1¦3¦a: &x 3\nb: 2\n",
            "a:\n  1 # own line\n¦a¦1¦2¦a:\n  2 # own line\n",
            "\u{feff}a: 1\r\nb: 2 # why\r\n¦b¦2¦3¦\u{feff}a: 1\r\nb: 3 # why\r\n",
            "ключ: ä # é\nb: 2¦b¦2¦\"ö\"¦ключ: ä # é\nb: ö",
            "? a\n: 1\n¦a¦1¦2¦? a\n: 2\n",
        ],
    );
}

#[test]
fn r48_block_scalars_stay_blocks_if_possible() {
    check(
        yaml,
        &[
            "a: | # why\n  one\n  two\n\nb: 1\n¦a¦\"one\\ntwo\\n\"¦\"x\\n\\n y\\n\"¦a: | # why\n  x\n\n   y\n\nb: 1\n",
            "a: |\n    one\nb: 1\n¦a¦\"one\\n\"¦\"x\"¦a: |-\n    x\nb: 1\n",
            "a: >-\n  one\n  two\nb: 1\n¦a¦\"one two\"¦\"x\\ny\\n\"¦a: |\n  x\n  y\nb: 1\n",
            "a: |+\n  one\n\n\nb: 1\n¦a¦\"one\\n\\n\\n\"¦\"x\\n\\n\"¦a: |+\n  x\n\nb: 1\n",
            "a: |+\n  one\n\n\nb: 1\n¦a¦\"one\\n\\n\\n\"¦\"x\\n\"¦a: |\n  x\nb: 1\n",
            "a: | # why\n  one\n\n# next\nb: 1\n¦a¦\"one\\n\"¦\" x\"¦a: \" x\" # why\n\n# next\nb: 1\n",
            "a: |\n  one\nb: 1\n¦a¦\"one\\n\"¦5¦a: 5\nb: 1\n",
            "a: |\n  one\nb: 1\n¦a¦\"one\\n\"¦{\"c\": 1}¦a:\n  c: 1\nb: 1\n",
            "a: |\n  one¦a¦\"one\"¦\"x\\n\"¦a: \"x\\n\"",
            "a: |\n  one¦a¦\"one\"¦\"x\\ny\"¦a: |-\n  x\n  y",
            "a: |\r\n  one\r\nb: 1\r\n¦a¦\"one\\n\"¦\"x\\ny\\n\"¦a: |\r\n  x\r\n  y\r\nb: 1\r\n",
            "a: |2\n   one\nb: 1\n¦a¦\" one\\n\"¦\"x\\n\"¦a: |\n  x\nb: 1\n",
            "- |\n one\n- 2\n¦[0]¦\"one\\n\"¦\"x\\n\"¦- |\n x\n- 2\n",
        ],
    );
}
