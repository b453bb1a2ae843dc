//! The texts of JSON and TOML before and after an edit.

use super::{
    super::{json, toml},
    change, check, parts,
};
use crate::format::Limits;

#[test]
fn r48_json_keeps_its_white_space() {
    let cases = [
        "{\"a\": 1}¦a¦1¦\"x\\\"\\n\"¦{\"a\": \"x\\\"\\n\"}",
        "{ \"a\" : [ 1,2 ] }\n¦a[1]¦2¦{\"b\": null}¦{ \"a\" : [ 1,{\"b\": null} ] }\n",
        "{\"a\":1}¦b¦absent¦2¦{\"a\":1, \"b\": 2}",
        "{\"a\":1,\"b\":2}¦c¦absent¦2¦{\"a\":1,\"b\":2,\"c\": 2}",
        "{}¦b¦absent¦[]¦{\"b\": []}",
        "{\n}¦b¦absent¦[]¦{\"b\": []\n}",
        "{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}\n¦b[1]¦absent¦2¦{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}\n",
        "{\r\n  \"a\": 1\r\n}¦b¦absent¦2¦{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}",
        "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n¦b¦2¦absent¦{\n  \"a\": 1,\n  \"c\": 3\n}\n",
        "{\n  \"a\": 1,\n  \"b\": 2\n}\n¦b¦2¦absent¦{\n  \"a\": 1\n}\n",
        "{\n  \"a\": 1\n}\n¦a¦1¦absent¦{\n}\n",
        "[1, [2], 3]¦[1]¦[2]¦absent¦[1, 3]",
        "[\"\\u00e9\", \"é\"]¦[0]¦\"é\"¦\"ü\"¦[\"ü\", \"é\"]",
    ];
    check(json, &cases);
}

#[test]
fn r48_toml_keeps_comments_and_layout() {
    let cases = [
        "a = 1 # why\nb=2\n¦a¦1¦2¦a = 2 # why\nb=2\n",
        "a = 'x'¦a¦\"x\"¦\"y\"¦a = 'y'",
        "a = 'x'¦a¦\"x\"¦\"it's\"¦a = \"it's\"",
        "a = \"\"\"\nx\"\"\" # why\n¦a¦\"x\"¦\"y\\nz\"¦a = \"y\\nz\" # why\n",
        "a = [1, 2] # why\n¦a[2]¦absent¦{\"b\": {\"c d\": 1}}¦a = [1, 2, { b = { \"c d\" = 1 } }] # why\n",
        "a = [\n  1, # one\n  2,\n]\n¦a[0]¦1¦absent¦a = [\n  2,\n]\n",
        "a = {b = 1}\n¦a.c¦absent¦1.5¦a = {b = 1, c = 1.5}\n",
        "a = {b = 1, c = 2}\n¦a.b¦1¦absent¦a = {c = 2}\n",
        "a = 1\n\n# about t\n[t]\n¦b¦absent¦true¦a = 1\nb = true\n\n# about t\n[t]\n",
        "# top\n\n# about t\n[t]\n¦b¦absent¦true¦# top\n\nb = true\n# about t\n[t]\n",
        "[t] # why\n  a = 1 # one\n\n[u]\n¦t.b¦absent¦\"x\"¦[t] # why\n  a = 1 # one\n  b = \"x\"\n\n[u]\n",
        "[t] # why\n[u]\n¦t.b¦absent¦\"x\"¦[t] # why\nb = \"x\"\n[u]\n",
        "[t]¦t.b¦absent¦1¦[t]\nb = 1",
        "a.b = 1\nc = 2\n¦a.d¦absent¦1¦a.b = 1\na.d = 1\nc = 2\n",
        "[t]\na.b.c = 1\r\n¦t.a.b.d¦absent¦1¦[t]\na.b.c = 1\r\na.b.d = 1\n",
        "a = 1\nb = 2 # two\n# three\nc = 3\n¦b¦2¦absent¦a = 1\n# three\nc = 3\n",
        "a = 1\nb = 2¦b¦2¦absent¦a = 1",
        "[t]\na = 1\n[t.u]\nb = 1 # b\n\n[v]\nc = 1\n¦t¦{\"a\":1,\"u\":{\"b\":1}}¦absent¦\n[v]\nc = 1\n",
        "[t.u]\nb = 1\n[v]\nc = 1\n[t.w]\nd = 1\n¦t¦{\"u\":{\"b\":1},\"w\":{\"d\":1}}¦absent¦[v]\nc = 1\n",
        "[[l]]\na = 1\n\n[m]\n¦l[1]¦absent¦{\"a\": 2, \"b\": []}¦[[l]]\na = 1\n\n[[l]]\na = 2\nb = []\n\n[m]\n",
        "[[l]]\na = 1\n[[l]]\na = 2\n¦l[0]¦{\"a\":1}¦absent¦[[l]]\na = 2\n",
        "[t]\na = 1\n¦t.a¦1¦absent¦[t]\n",
        "d = 1979-05-27 # day\n¦d¦\"1979-05-27\"¦\"1979-05-28\"¦d = \"1979-05-28\" # day\n",
    ];
    check(toml, &cases);
}

#[test]
fn r48_json_and_toml_refuse_what_they_cannot_write() {
    let json_cases = [
        "{\"a\": 1}¦a.b¦absent¦1¦there is no field `a.b`: the single value at `a`, line 1, has no such entry; correct the path, or add the value that contains it first",
        "{\"a\": 1¦a¦1¦2¦the file cannot be edited because it does not parse; correct it first: line 1, column 8: EOF while parsing an object",
    ];
    let toml_cases = [
        "a = 1\n¦a¦1¦null¦cannot prove that the edit of `a`, line 1, changes only that field: TOML has no null, which removing the field would stand for; edit the file by hand",
        "[t.u]\n¦t.a¦absent¦1¦cannot prove that the edit of `t.a`, line 1, changes only that field: there is no way to write it here; edit the file by hand",
        "[t]\na = 1\n¦t¦{\"a\":1}¦2¦cannot prove that the edit of `t`, line 1, changes only that field: there is no way to write it here; edit the file by hand",
        "a.b = 1\n¦a.b¦1¦absent¦cannot prove that the edit of `a.b`, line 1, changes only that field: another value would change, or the value would be read differently; edit the file by hand",
        "a = 1\n¦a¦1¦18446744073709551615¦cannot prove that the edit of `a`, line 1, changes only that field: the result does not parse: integer number overflowed; edit the file by hand",
    ];
    let all = json_cases.map(|case| (json as super::Function, case));
    for (edit, case) in all
        .into_iter()
        .chain(toml_cases.map(|case| (toml as _, case)))
    {
        let [text, path, was, to, expected] = parts(case);
        let refused = edit(text, &[change(path, was, to)], &Limits::default());
        assert_eq!(
            refused.map_err(|it| it.to_string()),
            Err(expected.into()),
            "{case}"
        );
    }
}
